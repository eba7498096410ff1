"""Samples of one split, and a cache of the fits that several methods share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from genmetric._typing import AnyArray, IntArray
from genmetric.neighbors import EnergyModel, majority_votes, nearest_neighbors
from genmetric.reproduction._problems import Parts

T = TypeVar("T")


class Fits:
    """Samples of a split by part, and a cache of estimators fitted on the training samples.

    Parameters
    ----------
    parts : mapping of str to (X, y)
        "train", "test" and, if something is selected, "val"; classes are 0, 1, ...
    seed : int, default=0
        `random_state` of every estimator whose `random_state` is None.
    """

    def __init__(self, parts: Parts, *, seed: int = 0) -> None:
        self.parts = parts
        self.seed = seed
        self.n_classes = 1 + max(int(y.max()) for _, y in parts.values())
        self._memory: dict[Any, Any] = {}

    def memo(self, key: Any, build: Callable[[], T]) -> T:
        """Return the cached result of `build` for this key."""
        if key not in self._memory:
            self._memory[key] = build()
        value: T = self._memory[key]
        return value

    def with_validation(self) -> Fits:
        """Return a split whose training samples are the training and validation samples."""
        both = zip(self.parts["train"], self.parts["val"], strict=True)
        X, y = (np.concatenate(pair) for pair in both)
        return Fits({"train": (X, y), "test": self.parts["test"]}, seed=self.seed)

    def fitted(self, estimator: Any) -> Any:
        """Return a clone of an estimator, fitted on the training samples."""
        return self.memo(("fit", repr(estimator)), lambda: self._fit(estimator))

    def _fit(self, estimator: Any) -> Any:
        model = clone(estimator)
        parameters = model.get_params()
        if "random_state" in parameters and parameters["random_state"] is None:
            model.set_params(random_state=self.seed)
        extra = {}
        # Metrics that use held-out samples during the fit, as in the paper's appendix: M^KDE
        # selects its bandwidth by their likelihood, M^GMM takes its labels from them.
        combination = parameters.get("combination")
        if combination in ("kde", "gmm") and "val" in self.parts:
            extra = dict(zip(("X_val", "y_val"), self.parts["val"], strict=True))
        return model.fit(*self.parts["train"], **extra)

    def space(self, metric: Any, part: str) -> AnyArray:
        """Return the samples of a part in the space of a metric; ``None`` is Euclidean."""
        if metric is None:
            return self.parts[part][0]
        return self.memo(
            ("space", repr(metric), part),
            lambda: np.asarray(self.fitted(metric).transform(self.parts[part][0])),
        )

    def votes(self, metric: Any, part: str, n_neighbors: int) -> IntArray:
        """Return the votes of the nearest 1, 2, ... neighbours, (n_samples, n_neighbors)."""

        def search() -> IntArray:
            k = min(n_neighbors, len(self.parts["train"][0]))
            references, queries = (self.space(metric, name) for name in ("train", part))
            return self.tally(nearest_neighbors(references, k, queries=queries).indices)

        return self.memo(("votes", repr(metric), part, n_neighbors), search)

    def tally(self, neighbors: IntArray) -> IntArray:
        """Return the class with the most votes among the first 1, 2, ... neighbours."""
        return majority_votes(self.parts["train"][1][neighbors], self.n_classes)

    def energy(self, metric: Any, n_targets: int) -> EnergySpace:
        """Return training samples, targets and margin unit in the space of a metric."""
        return self.memo(
            ("energy", repr(metric), n_targets), lambda: EnergySpace(self, metric, n_targets)
        )


class EnergySpace:
    """A search for targets that all numbers of neighbours and all margins share.

    Parameters
    ----------
    fits : Fits
        The split.
    metric : estimator or None
        The metric; None is Euclidean distance.
    n_targets : int
        Largest number of target neighbours.
    """

    def __init__(self, fits: Fits, metric: Any, n_targets: int) -> None:
        z, y = fits.space(metric, "train"), fits.parts["train"][1]
        self._model = EnergyModel.of(z, y, n_targets, "three-term")

    def model(
        self, n_neighbors: int, margin_scale: float, push: float, energy: str = "three-term"
    ) -> EnergyModel:
        """Return the energies of one number of targets, margin and form."""
        margin = margin_scale * self._model.margin_unit
        return replace(
            self._model, n_neighbors=n_neighbors, margin=margin, push=push, energy=energy
        )


def spectrum_ranks(
    metric: AnyArray, levels: Sequence[float] = (1e-2, 1e-4, 1e-6)
) -> Mapping[str, int]:
    """Count the eigenvalues of a metric above each fraction of the largest one."""
    values = np.linalg.eigvalsh(metric)
    return {f"{level:g}": int((values > level * values.max()).sum()) for level in levels}

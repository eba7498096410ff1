"""The rows of one split, and what is fitted to them once for all methods that ask for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from genmetric._typing import AnyArray, IntArray
from genmetric.density import Frame
from genmetric.neighbors import ClassRows, EnergyModel, margin_unit, training_neighbors
from genmetric.study.problems import Parts

T = TypeVar("T")


class Fits:
    """Rows of a split by part, and a memory of what was fitted to the training rows.

    Parameters
    ----------
    parts : mapping of str to (X, y)
        "train", "test" and, where something is to be chosen, "val"; classes 0, 1, ...
    seed : int, default=0
        `random_state` of every estimator that has one and was given none.
    """

    def __init__(self, parts: Parts, *, seed: int = 0) -> None:
        self.parts = parts
        self.seed = seed
        self.n_classes = 1 + max(int(y.max()) for _, y in parts.values())
        self._memory: dict[Any, Any] = {}

    def memo(self, key: Any, build: Callable[[], T]) -> T:
        """What `build` returned when it was first asked for under this key."""
        if key not in self._memory:
            self._memory[key] = build()
        value: T = self._memory[key]
        return value

    def with_validation(self) -> Fits:
        """Training and validation rows together as training rows."""
        both = zip(self.parts["train"], self.parts["val"], strict=True)
        X, y = (np.concatenate(pair) for pair in both)
        return Fits({"train": (X, y), "test": self.parts["test"]}, seed=self.seed)

    def fitted(self, estimator: Any) -> Any:
        """A clone of an estimator, fitted to the training rows."""
        return self.memo(("fit", repr(estimator)), lambda: self._fit(estimator))

    def _fit(self, estimator: Any) -> Any:
        model = clone(estimator)
        parameters = model.get_params()
        if "random_state" in parameters and parameters["random_state"] is None:
            model.set_params(random_state=self.seed)
        extra = {}
        # Metrics that use held-out rows while they are fitted (appendix, section sKDE): the
        # bandwidth of M^KDE has the largest likelihood there, M^GMM takes labels from there.
        combination = parameters.get("combination")
        if combination in ("kde", "gmm") and "val" in self.parts:
            extra = dict(zip(("X_val", "y_val"), self.parts["val"], strict=True))
        return model.fit(*self.parts["train"], **extra)

    def space(self, metric: Any, part: str) -> AnyArray:
        """Rows of a part in the space of a metric; ``None`` is the space they came in."""
        if metric is None:
            return self.parts[part][0]
        return self.memo(
            ("space", repr(metric), part),
            lambda: np.asarray(self.fitted(metric).transform(self.parts[part][0])),
        )

    def votes(self, metric: Any, part: str, n_neighbors: int) -> IntArray:
        """Winner of the vote of the nearest 1, 2, ... neighbours, (n_rows, n_neighbors)."""

        def search() -> IntArray:
            k = min(n_neighbors, len(self.parts["train"][0]))
            index = NearestNeighbors(n_neighbors=k).fit(self.space(metric, "train"))
            rows = index.kneighbors(self.space(metric, part), return_distance=False)
            return self.tally(rows)

        return self.memo(("votes", repr(metric), part, n_neighbors), search)

    def tally(self, neighbors: IntArray) -> IntArray:
        """Class with the most votes among the first 1, 2, ... neighbours; ties to the first."""
        labels = self.parts["train"][1][neighbors]
        counts = np.zeros((len(labels), self.n_classes), np.intp)
        winners = np.empty(labels.shape, np.intp)
        rows = np.arange(len(labels))
        for k in range(labels.shape[1]):
            counts[rows, labels[:, k]] += 1
            winners[:, k] = counts.argmax(axis=1)
        return winners

    def energy(self, metric: Any, n_targets: int) -> EnergySpace:
        """Training rows, targets and unit of the margin in the space of a metric."""
        return self.memo(
            ("energy", repr(metric), n_targets), lambda: EnergySpace(self, metric, n_targets)
        )


class EnergySpace:
    """One search for targets, shared by every number of neighbours and every margin.

    Parameters
    ----------
    fits : Fits
        The split.
    metric : estimator or None
        Whose space it is.
    n_targets : int
        The most target neighbours that will be asked for.
    """

    def __init__(self, fits: Fits, metric: Any, n_targets: int) -> None:
        z = fits.space(metric, "train")
        self._frame = Frame.of(z)
        self._rows = ClassRows.of(self._frame.inward(z), fits.parts["train"][1], fits.n_classes)
        self._targets, nearest_other = training_neighbors(self._rows, n_targets)
        self._unit = margin_unit(self._targets, nearest_other)
        self._fits, self._metric = fits, metric

    def model(self, n_neighbors: int, margin_scale: float, push: float) -> EnergyModel:
        """Energies with so many targets and so wide a margin."""
        targets = self._targets[:, :n_neighbors]
        return EnergyModel.of(self._rows, targets, margin_scale * self._unit, push)

    def rows(self, part: str) -> AnyArray:
        """Rows of a part, as the energies take them."""
        return self._frame.inward(self._fits.space(self._metric, part))


def spectrum_ranks(
    metric: AnyArray, levels: Sequence[float] = (1e-2, 1e-4, 1e-6)
) -> Mapping[str, int]:
    """How many eigenvalues of a metric exceed each share of the largest."""
    values = np.linalg.eigvalsh(metric)
    return {f"{level:g}": int((values > level * values.max()).sum()) for level in levels}

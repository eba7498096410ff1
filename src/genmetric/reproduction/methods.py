"""Methods of the reproduction: what they fit, what they select by validation, how they predict.

A method lists candidates, the simplest first; :meth:`Method.run` selects the first one with the
lowest validation error. A new method is an instance of one of these classes with its grid, or a new
class with `candidates`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from time import process_time
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score, rand_score
from sklearn.svm import SVC

from genmetric._typing import AnyArray, IntArray
from genmetric.cluster import MetricKMeans
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier
from genmetric.neighbors import (
    EnergyModel,
    LocalMetricClassifier,
    least_energies,
    majority_votes,
    nearest_neighbors,
)
from genmetric.reproduction.problems import Parts

T = TypeVar("T")

#: Numbers of neighbours, all odd: with even ones the Euclidean error on Ionosphere is 12.2, far
#: from the paper's 15.87.
ODD = tuple(range(1, 22, 2))

#: The paper's range of C, in steps of two.
C_GRID = tuple(2.0**e for e in range(-3, 12))


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


class Candidate(NamedTuple):
    """One setting of a method.

    Attributes
    ----------
    params : dict
        The setting, stored with the score.
    predict : callable
        ``predict(part)`` returns classes or clusters of the samples of a part.
    """

    params: Mapping[str, Any]
    predict: Callable[[str], AnyArray]


class Outcome(NamedTuple):
    """Result of a method on one split.

    Attributes
    ----------
    validation, test : float
        Score on the validation and test samples: error in %, Rand index, or seconds.
    chosen : dict
        The setting selected on the validation samples.
    extra : dict
        Further results.
    """

    validation: float | None
    test: float
    chosen: Mapping[str, Any]
    extra: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base class of methods.

    Attributes
    ----------
    name, title : str
        Names on the command line and in tables.
    family : str
        Methods of one family share their fits and are run together.
    """

    name: str
    title: str
    family: str

    #: Whether larger scores are better, and the unit of the score.
    higher_is_better = False
    unit = "error, %"

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield the settings, the simplest first."""
        raise NotImplementedError

    def score(self, truth: AnyArray, predicted: AnyArray) -> float:
        """Compute the error rate in %."""
        return 100 * float(np.mean(predicted != truth))

    def further(self, fits: Fits, chosen: Candidate) -> dict[str, Any]:
        """Compute further results of the selected setting."""
        return {}

    def run(self, fits: Fits) -> Outcome:
        """Select a candidate on the validation samples; the test samples are used once."""
        sign = -1 if self.higher_is_better else 1
        y_val, y_test = fits.parts["val"][1], fits.parts["test"][1]
        best: Candidate | None = None
        least = np.inf
        for candidate in self.candidates(fits):
            loss = sign * self.score(y_val, candidate.predict("val"))
            if loss < least:
                best, least = candidate, loss
        if best is None:
            raise ValueError(f"The method {self.name!r} has no candidate of finite score.")
        test = self.score(y_test, best.predict("test"))
        return Outcome(sign * least, test, dict(best.params), self.further(fits, best))


@dataclass(frozen=True)
class Votes:
    """Majority vote of nearest neighbours in the space of a metric; their number is selected."""

    neighbors: tuple[int, ...] = ODD

    def candidates(self, fits: Fits, metric: Any) -> Iterator[Candidate]:
        """Yield one candidate per number of neighbours, all from one search."""
        most = min(max(self.neighbors), len(fits.parts["train"][0]))
        for k in self.neighbors:
            if k <= most:
                yield Candidate({"k": k}, partial(self._predict, fits, metric, most, k))

    def _predict(self, fits: Fits, metric: Any, most: int, k: int, part: str) -> AnyArray:
        return fits.votes(metric, part, most)[:, k - 1]


@dataclass(frozen=True, repr=False)
class Energy:
    """The class with the lowest energy; number of targets and margin are selected.

    Attributes
    ----------
    neighbors : tuple of int
        Numbers of targets; ties of the validation error go to the first.
    margin_scales : tuple of float
        Margins in units of the margin unit of the energies; ties go to the first.
    push : float
        Weight of the push terms.
    energy : {"three-term", "one-sided", "two-term"}
        Form of the energy.
    """

    neighbors: tuple[int, ...] = (1, 3, 5, 7, 9)
    margin_scales: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    push: float = 0.5
    energy: str = "three-term"

    def __repr__(self) -> str:
        # Stored scores are valid for a hash of this text: a default that was added later is
        # omitted.
        parts = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self)]
        return f"Energy({', '.join(parts[: 3 if self.energy == 'three-term' else 4])})"

    def candidates(self, fits: Fits, metric: Any) -> Iterator[Candidate]:
        """Yield one candidate for each pair, all from one search for targets."""
        for k, scale in product(self.neighbors, self.margin_scales):
            params = {"k": k, "margin_scale": scale}
            yield Candidate(params, partial(self._predict, fits, metric, k, scale))

    def _predict(self, fits: Fits, metric: Any, k: int, scale: float, part: str) -> AnyArray:
        space = fits.energy(metric, max(self.neighbors))

        def predict(*settings: tuple[int, float]) -> AnyArray:
            z = fits.space(metric, part)
            models = (space.model(*setting, self.push, self.energy) for setting in settings)
            return np.stack([least_energies(model, z) for model in models])

        if part == "test":  # only the selected setting is tested
            return np.asarray(predict((k, scale))[0])
        settings = list(product(self.neighbors, self.margin_scales))
        key = ("energies", repr(metric), repr(self), part)
        found = fits.memo(key, lambda: predict(*settings))
        return np.asarray(found[settings.index((k, scale))])


@dataclass(frozen=True, kw_only=True)
class InMetric(Method):
    """A decision in the space of a metric: kNN or energies (Euclidean, LMNN, M^UNI, ...).

    Attributes
    ----------
    metrics : tuple of (params, estimator or None)
        Settings of the metric, the simplest first; ``None`` is the Euclidean metric.
    decision : Votes or Energy
        Decision rule.
    """

    metrics: tuple[tuple[Mapping[str, Any], Any], ...] = (({}, None),)
    decision: Votes | Energy = field(default_factory=Votes)

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield all settings of the metric with all settings of the decision."""
        for params, metric in self.metrics:
            for candidate in self.decision.candidates(fits, metric):
                yield Candidate({**params, **candidate.params}, candidate.predict)

    def further(self, fits: Fits, chosen: Candidate) -> dict[str, Any]:
        """Compute the rank of the selected metric at a few levels, if it is learned."""
        for params, metric in self.metrics:
            if metric is not None and params.items() <= chosen.params.items():
                M = fits.fitted(metric).components_
                return {"rank": spectrum_ranks(M.T @ M)}
        return {}


@dataclass(frozen=True, kw_only=True)
class LocalVotes(Method):
    """Nearest neighbours in the local metric of each query (GLM^INT; with weight 1, GLM)."""

    interpolations: tuple[float, ...]
    neighbors: tuple[int, ...] = ODD
    shrinkage: float | str | None = None

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield each weight of the local metric with each number of neighbours."""
        most = min(max(self.neighbors), len(fits.parts["train"][0]))
        for weight, k in product(self.interpolations, self.neighbors):
            if k <= most:
                params = {"interpolation": weight, "k": k}
                yield Candidate(params, partial(self._predict, fits, weight, most, k))

    def _predict(self, fits: Fits, weight: float, most: int, k: int, part: str) -> AnyArray:
        def search() -> AnyArray:
            model = LocalMetricClassifier(most, interpolation=weight, shrinkage=self.shrinkage)
            rows = fits.fitted(model).kneighbors(fits.parts[part][0], return_distance=False)
            return fits.tally(rows)

        votes = fits.memo(("local", repr(self.shrinkage), part, weight, most), search)
        return votes[:, k - 1]


@dataclass(frozen=True, kw_only=True)
class Estimators(Method):
    """A scikit-learn classifier with its settings, the simplest first."""

    estimator: Any
    grid: tuple[Mapping[str, Any], ...] = ({},)

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield one candidate per setting."""
        for params in self.grid:
            model = clone(self.estimator).set_params(**params)
            yield Candidate(params, partial(self._predict, fits, model))

    def _predict(self, fits: Fits, model: Any, part: str) -> AnyArray:
        return np.asarray(fits.fitted(model).predict(fits.parts[part][0]))


@dataclass(frozen=True, kw_only=True)
class KernelCombination(Method):
    """SimpleMKL with kernels of regional metrics; C and, if there are several, P are selected.

    Zero regions are the Euclidean baseline, equation (24) of the paper.
    """

    regions: tuple[int, ...]
    #: Statistic of the squared distances that bandwidths are multiples of; part of the hash.
    bandwidth_unit: str = "median"

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield candidates with the fewest regions and the smallest C first."""
        for n_regions in self.regions:
            for C, predicted in fits.memo(("mkl", n_regions), partial(_mkl, fits, n_regions)):
                yield Candidate({"regions": n_regions, "C": C}, predicted.__getitem__)


@dataclass(frozen=True, kw_only=True)
class OneKernel(Method):
    """A support vector machine with one Gaussian kernel; C and bandwidth are selected."""

    n_regions: int
    #: Statistic of the squared distances that bandwidths are multiples of; part of the hash.
    bandwidth_unit: str = "median"

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield candidates with the smallest C first, and for each C the widest kernel first."""
        stacks = _stacks(fits, self.n_regions)
        y = fits.parts["train"][1]
        for C in C_GRID:
            for i, K in enumerate(stacks["train"]):
                model = SVC(C=C, kernel="precomputed").fit(K, y)
                yield Candidate({"C": C, "kernel": i}, partial(self._predict, model, stacks, i))

    def _predict(self, model: Any, stacks: Mapping[str, AnyArray], i: int, part: str) -> AnyArray:
        return np.asarray(model.predict(stacks[part][i]))


def _stacks(fits: Fits, n_regions: int) -> dict[str, AnyArray]:
    """Compute Gram matrices of all kernels with the training samples, by part."""

    def build() -> dict[str, AnyArray]:
        kernels = RegionalKernels(n_regions, shrinkage=None, random_state=fits.seed)
        X = fits.parts["train"][0]
        kernels.fit(*fits.parts["train"])
        return {part: kernels.gram(rows, X) for part, (rows, _) in fits.parts.items()}

    # Only small stacks are cached, for single kernels; those of many regions are large.
    return fits.memo(("gram", n_regions), build) if n_regions < 2 else build()


def _mkl(fits: Fits, n_regions: int) -> list[tuple[float, dict[str, AnyArray]]]:
    """Predict for each C; the weights of one C are the start of the next one."""
    stacks = _stacks(fits, n_regions)
    model = SimpleMKLClassifier("precomputed", warm_start=True)
    found = []
    for C in C_GRID:
        model.set_params(C=C).fit(stacks["train"], fits.parts["train"][1])
        now = copy.copy(model)
        others = [part for part in stacks if part != "train"]
        found.append((C, {part: now.predict(stacks[part]) for part in others}))
    return found


@dataclass(frozen=True, kw_only=True)
class Clusters(Method):
    """k-means, or k-means alternating with M^UNI, scored by the Rand index.

    Attributes
    ----------
    grid : tuple of (shrinkage, interpolation)
        The simplest first; interpolation 0 is plain k-means.
    max_iter : int
        Maximum number of iterations.
    n_init : int
        Number of starts of the first k-means.
    """

    grid: tuple[tuple[float, float], ...]
    max_iter: int = 20
    n_init: int = 5

    higher_is_better = True
    unit = "Rand index"

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield candidates that all start from the same k-means centres."""
        first = MetricKMeans(fits.n_classes, interpolation=0.0, n_init=self.n_init)
        start = fits.fitted(first)
        for shrinkage, weight in self.grid:
            model = start
            if weight:
                key = ("clusters", shrinkage, weight, self.max_iter)
                model = fits.memo(key, partial(self._loop, fits, start, shrinkage, weight))
            params = {"shrinkage": shrinkage, "interpolation": weight}
            yield Candidate(params, partial(self._predict, fits, model))

    def _loop(self, fits: Fits, start: Any, shrinkage: float, weight: float) -> Any:
        model = MetricKMeans(
            fits.n_classes,
            shrinkage=shrinkage,
            interpolation=weight,
            init=start.cluster_centers_,
            max_iter=self.max_iter,
        )
        return model.fit(fits.parts["train"][0])

    def _predict(self, fits: Fits, model: Any, part: str) -> AnyArray:
        return np.asarray(model.predict(fits.parts[part][0]))

    def score(self, truth: AnyArray, predicted: AnyArray) -> float:
        """Compute the Rand index of classes and clusters."""
        return float(rand_score(truth, predicted))

    def further(self, fits: Fits, chosen: Candidate) -> dict[str, Any]:
        """Compute the adjusted Rand index, which is zero on average for random clusters."""
        found = adjusted_rand_score(fits.parts["test"][1], chosen.predict("test"))
        return {"adjusted": float(found)}


@dataclass(frozen=True, kw_only=True)
class Seconds(Method):
    """Processor time of one fit with fixed parameters, as the paper's tables of training speed.

    In one thread it equals the elapsed time on an idle machine, but it does not include the time of
    other processes.

    Attributes
    ----------
    estimator : estimator
        The estimator.
    rounds : int
        Number of fits, of which the fastest counts; fewer if fits take more than ten seconds.
    """

    estimator: Any
    rounds: int = 3

    unit = "seconds"

    def run(self, fits: Fits) -> Outcome:
        """Fit several times and return the shortest time."""
        times: list[float] = []
        while len(times) < self.rounds and sum(times) < 10:
            model = clone(self.estimator)
            if "random_state" in model.get_params():
                model.set_params(random_state=fits.seed)
            start = process_time()
            model.fit(*fits.parts["train"])
            times.append(process_time() - start)
        return Outcome(None, min(times), {}, {"fits": len(times)})

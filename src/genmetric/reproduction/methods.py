"""Methods of the reproduction: what they fit, what they select by validation, how they predict.

A method lists candidates, the simplest first; :meth:`Method.run` selects the first one with the
lowest validation error. A new method is an instance of one of these classes with its grid, or a new
class with `candidates`. All fields but title and family are part of the key of a stored score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from time import process_time
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.metrics import rand_score

from genmetric._neighbors import majority_votes
from genmetric._typing import AnyArray, IntArray
from genmetric.cluster import MetricKMeans
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier
from genmetric.neighbors import LocalMetricClassifier, nearest_neighbors
from genmetric.neighbors.energy import EnergyModel, least_energies
from genmetric.reproduction.problems import Parts

T = TypeVar("T")

#: One setting of a method, and a function that predicts the samples of a part with it.
Candidate = tuple[Mapping[str, Any], Callable[[str], AnyArray]]

#: Numbers of neighbours. The paper does not give them; these fit its Euclidean errors best.
NEIGHBORS = (1, 3, 5)

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

    def seeded(self, estimator: Any) -> Any:
        """Return a clone of an estimator, with the seed of the split if it has none."""
        model = clone(estimator)
        if model.get_params().get("random_state", 0) is None:
            model.set_params(random_state=self.seed)
        return model

    def _fit(self, estimator: Any) -> Any:
        """Fit on the training samples.

        M^KDE and M^GMM also use held-out samples, as in the paper's appendix: the first selects its
        bandwidth by their likelihood, the second takes its labels from them.
        """
        extra = {}
        if getattr(estimator, "combination", None) in ("kde", "gmm"):
            extra = dict(zip(("X_val", "y_val"), self.parts["val"], strict=True))
        return self.seeded(estimator).fit(*self.parts["train"], **extra)

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
            references, queries = (self.space(metric, name) for name in ("train", part))
            found = nearest_neighbors(references, n_neighbors, queries=queries)
            return self.tally(found.indices)

        return self.memo(("votes", repr(metric), part, n_neighbors), search)

    def tally(self, neighbors: IntArray) -> IntArray:
        """Return the class with the most votes among the first 1, 2, ... neighbours."""
        return majority_votes(self.parts["train"][1][neighbors], self.n_classes)


@dataclass(frozen=True)
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
    title: str = field(repr=False)
    family: str = field(repr=False)

    #: Whether larger scores are better.
    higher_is_better = False

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield the settings, the simplest first."""
        raise NotImplementedError

    def score(self, truth: AnyArray, predicted: AnyArray) -> float:
        """Compute the error rate in %."""
        return 100 * float(np.mean(predicted != truth))

    def run(self, fits: Fits) -> dict[str, Any]:
        """Select a candidate on the validation samples; the test samples are used once.

        Returns
        -------
        dict
            "validation" and "test", the scores, and "chosen", the setting.
        """
        sign = -1 if self.higher_is_better else 1
        y_val, y_test = fits.parts["val"][1], fits.parts["test"][1]
        best: Candidate | None = None
        least = np.inf
        for candidate in self.candidates(fits):
            loss = sign * self.score(y_val, candidate[1]("val"))
            if loss < least:
                best, least = candidate, loss
        if best is None:
            raise ValueError(f"The method {self.name!r} has no candidate of finite score.")
        test = self.score(y_test, best[1]("test"))
        return {"validation": sign * least, "test": test, "chosen": dict(best[0])}


@dataclass(frozen=True)
class Votes:
    """Majority vote of nearest neighbours in the space of a metric; their number is selected."""

    neighbors: tuple[int, ...] = NEIGHBORS

    def candidates(self, fits: Fits, metric: Any) -> Iterator[Candidate]:
        """Yield one candidate per number of neighbours, all from one search."""
        for k in self.neighbors:
            yield {"k": k}, partial(self._predict, fits, metric, k)

    def _predict(self, fits: Fits, metric: Any, k: int, part: str) -> AnyArray:
        return fits.votes(metric, part, max(self.neighbors))[:, k - 1]


@dataclass(frozen=True)
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
    energy : {"one-sided", "three-term", "two-term"}
        Form of the energy.
    """

    neighbors: tuple[int, ...] = NEIGHBORS
    margin_scales: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    push: float = 0.5
    energy: str = "one-sided"

    def candidates(self, fits: Fits, metric: Any) -> Iterator[Candidate]:
        """Yield one candidate for each pair, all from one search for targets."""
        for k, scale in product(self.neighbors, self.margin_scales):
            yield {"k": k, "margin_scale": scale}, partial(self._predict, fits, metric, k, scale)

    def _predict(self, fits: Fits, metric: Any, k: int, scale: float, part: str) -> AnyArray:
        most, y = max(self.neighbors), fits.parts["train"][1]
        model = fits.memo(
            ("targets", repr(metric), most),
            lambda: EnergyModel.of(fits.space(metric, "train"), y, most, "three-term"),
        )
        margin = scale * model.margin_unit
        model = replace(model, n_neighbors=k, margin=margin, push=self.push, energy=self.energy)
        return least_energies(model, fits.space(metric, part))


@dataclass(frozen=True)
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
    decision: Votes | Energy = Votes()

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield all settings of the metric with all settings of the decision."""
        for params, metric in self.metrics:
            for others, predict in self.decision.candidates(fits, metric):
                yield {**params, **others}, predict


@dataclass(frozen=True)
class LocalVotes(Method):
    """Nearest neighbours in the local metric of each query (GLM^INT; with weight 1, GLM)."""

    interpolations: tuple[float, ...]
    neighbors: tuple[int, ...] = NEIGHBORS

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield each weight of the local metric with each number of neighbours."""
        for weight, k in product(self.interpolations, self.neighbors):
            yield {"interpolation": weight, "k": k}, partial(self._predict, fits, weight, k)

    def _predict(self, fits: Fits, weight: float, k: int, part: str) -> AnyArray:
        most = max(self.neighbors)
        model = LocalMetricClassifier(most, interpolation=weight, shrinkage=None)

        def search() -> IntArray:
            X = fits.parts[part][0]
            return fits.tally(fits.fitted(model).kneighbors(X, return_distance=False))

        return fits.memo(("local", repr(model), part), search)[:, k - 1]


@dataclass(frozen=True)
class Estimators(Method):
    """A scikit-learn classifier with its settings, the simplest first."""

    estimator: Any
    grid: tuple[Mapping[str, Any], ...] = ({},)

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield one candidate per setting."""
        for params in self.grid:
            model = fits.fitted(clone(self.estimator).set_params(**params))
            yield params, partial(_predict, fits, model)


def _predict(fits: Fits, model: Any, part: str) -> AnyArray:
    return np.asarray(model.predict(fits.parts[part][0]))


@dataclass(frozen=True)
class KernelCombination(Method):
    """SimpleMKL with kernels of regional metrics; C and, if there are several, P are selected.

    Attributes
    ----------
    regions : tuple of int
        Numbers of regions P; zero is the Euclidean baseline, equation (24) of the paper.
    shrinkage : None or "auto"
        Maximum likelihood or Ledoit-Wolf estimates of class covariances.
    holdout : float or None
        Share of the training samples for the kernel weights; the metrics are learned from the
        others, and the classifier from all. ``None`` uses all samples for everything.
    """

    regions: tuple[int, ...]
    shrinkage: str | None = None
    holdout: float | None = None

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield candidates with the fewest regions and the smallest C first."""
        for n_regions in self.regions:
            kernels = RegionalKernels(
                n_regions, shrinkage=self.shrinkage, holdout=self.holdout, random_state=fits.seed
            )
            path = fits.memo(("mkl", repr(kernels)), partial(_path_of_c, fits, kernels))
            for C, predicted in path:
                yield {"regions": n_regions, "C": C}, predicted.__getitem__


def _path_of_c(fits: Fits, kernels: RegionalKernels) -> list[tuple[float, dict[str, AnyArray]]]:
    """Predict for each C; the weights of one C are the start of the next one."""
    X, y = fits.parts["train"]
    rows = kernels.fit(X, y).holdout_
    gram = kernels.gram(X[rows])
    mkl = SimpleMKLClassifier("precomputed", warm_start=True)
    found = []
    for C in C_GRID:
        weights = mkl.set_params(C=C).fit(gram, y[rows]).weights_
        combined = {
            part: kernels.combined_gram(weights, Z, X)[None] for part, (Z, _) in fits.parts.items()
        }
        svm = SimpleMKLClassifier("precomputed", C=C).fit(combined["train"], y)
        found.append((C, {part: svm.predict(combined[part]) for part in ("val", "test")}))
    return found


@dataclass(frozen=True)
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

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Yield candidates that all start from the same k-means centres."""
        start = fits.fitted(MetricKMeans(fits.n_classes, interpolation=0.0, n_init=self.n_init))
        for shrinkage, weight in self.grid:
            model = start
            if weight:
                key = ("clusters", shrinkage, weight, self.max_iter)
                model = fits.memo(key, partial(self._fit, fits, start, shrinkage, weight))
            params = {"shrinkage": shrinkage, "interpolation": weight}
            yield params, partial(_predict, fits, model)

    def _fit(self, fits: Fits, start: Any, shrinkage: float, weight: float) -> MetricKMeans:
        options = {"init": start.cluster_centers_, "max_iter": self.max_iter}
        model = MetricKMeans(fits.n_classes, shrinkage=shrinkage, interpolation=weight, **options)
        return model.fit(fits.parts["train"][0])

    def score(self, truth: AnyArray, predicted: AnyArray) -> float:
        """Compute the Rand index of classes and clusters."""
        return float(rand_score(truth, predicted))


@dataclass(frozen=True)
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

    def run(self, fits: Fits) -> dict[str, Any]:
        """Fit several times and return the shortest time."""
        times: list[float] = []
        while len(times) < self.rounds and sum(times) < 10:
            model = fits.seeded(self.estimator)
            start = process_time()
            model.fit(*fits.parts["train"])
            times.append(process_time() - start)
        return {"validation": None, "test": min(times), "chosen": {"fits": len(times)}}

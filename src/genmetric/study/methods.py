"""Methods of the study: what they fit, what they choose by validation, how they predict.

A method lists candidates, the simplest first; :func:`tune` takes the first of least validation
error. A new method is an instance of one of these classes with its grid, or a class with
`candidates`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score, rand_score
from sklearn.svm import SVC

from genmetric._typing import AnyArray
from genmetric.cluster import MetricKMeans
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier
from genmetric.neighbors import LocalMetricClassifier, least_energies
from genmetric.study.fits import Fits, spectrum_ranks

#: Numbers of neighbours that vote. Odd ones: with even ones the paper's Euclidean error of
#: Ionosphere, 15.87, comes out at 12.2.
ODD = tuple(range(1, 22, 2))

#: The paper's range of C, in steps of two.
C_GRID = tuple(2.0**e for e in range(-3, 12))


class Candidate(NamedTuple):
    """One setting of a method.

    Attributes
    ----------
    params : dict
        The setting, for the record.
    predict : callable
        Classes (or clusters) of the rows of a part, by its name.
    """

    params: Mapping[str, Any]
    predict: Callable[[str], AnyArray]


class Outcome(NamedTuple):
    """What a method reached on one split.

    Attributes
    ----------
    validation, test : float
        Score on the validation and the test rows: error in per cent, Rand index, or seconds.
    chosen : dict
        The setting that the validation rows chose.
    extra : dict
        Further figures.
    """

    validation: float | None
    test: float
    chosen: Mapping[str, Any]
    extra: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Method:
    """What all methods have.

    Attributes
    ----------
    name, title : str
        What the command line and the tables call it.
    family : str
        Methods of one family share their fits and are run together.
    refit : bool
        Whether the chosen setting is also tested with training and validation rows together.
    """

    name: str
    title: str
    family: str
    refit: bool = True

    #: Whether a larger score is better, and what the score is.
    higher_is_better = False
    unit = "error, %"

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Settings, the simplest first."""
        raise NotImplementedError

    def score(self, truth: AnyArray, predicted: AnyArray) -> float:
        """Share of wrong classes, in per cent."""
        return 100 * float(np.mean(predicted != truth))

    def further(self, fits: Fits, chosen: Candidate) -> dict[str, Any]:
        """More figures about the chosen setting."""
        return {}

    def run(self, fits: Fits, *, refit: bool = False) -> Outcome:
        """Choose by validation and test once."""
        return tune(self, fits, refit=refit)


def tune(method: Method, fits: Fits, *, refit: bool = False) -> Outcome:
    """Score of the first candidate that no other beats on the validation rows.

    Parameters
    ----------
    method : Method
        Lists the candidates, the simplest first, so that ties go to the simpler.
    fits : Fits
        The split. Test rows are seen once, after the choice.
    refit : bool, default=False
        Whether to test the choice with training and validation rows together, too.

    Returns
    -------
    Outcome
        `extra` has the key "refit" where that was asked for.
    """
    sign = -1 if method.higher_is_better else 1
    y_val, y_test = fits.parts["val"][1], fits.parts["test"][1]
    best: Candidate | None = None
    least = np.inf
    for candidate in method.candidates(fits):
        loss = sign * method.score(y_val, candidate.predict("val"))
        if loss < least:
            best, least = candidate, loss
    if best is None:
        raise ValueError(f"The method {method.name!r} has no candidate of finite score.")
    test = method.score(y_test, best.predict("test"))
    extra = method.further(fits, best)
    if refit and method.refit:
        again = fits.with_validation()
        for candidate in method.candidates(again):
            if candidate.params == best.params:
                extra["refit"] = method.score(y_test, candidate.predict("test"))
                break
    return Outcome(sign * least, test, dict(best.params), extra)


@dataclass(frozen=True)
class Votes:
    """Nearest neighbours vote in the space of a metric; their number is chosen."""

    neighbors: tuple[int, ...] = ODD

    def candidates(self, fits: Fits, metric: Any) -> Iterator[Candidate]:
        """One candidate for each number of neighbours, all from one search."""
        most = min(max(self.neighbors), len(fits.parts["train"][0]))
        for k in self.neighbors:
            if k <= most:
                yield Candidate({"k": k}, partial(self._predict, fits, metric, most, k))

    def _predict(self, fits: Fits, metric: Any, most: int, k: int, part: str) -> AnyArray:
        return fits.votes(metric, part, most)[:, k - 1]


@dataclass(frozen=True)
class Energy:
    """The class of least energy; number of targets and width of the margin are chosen."""

    neighbors: tuple[int, ...] = (1, 3, 5, 7, 9)
    margin_scales: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    push: float = 0.5

    def candidates(self, fits: Fits, metric: Any) -> Iterator[Candidate]:
        """One candidate for each pair, all from one search for targets."""
        for k, scale in product(self.neighbors, self.margin_scales):
            params = {"k": k, "margin_scale": scale}
            yield Candidate(params, partial(self._predict, fits, metric, k, scale))

    def _predict(self, fits: Fits, metric: Any, k: int, scale: float, part: str) -> AnyArray:
        space = fits.energy(metric, max(self.neighbors))
        return least_energies(space.model(k, scale, self.push), space.rows(part))


@dataclass(frozen=True, kw_only=True)
class InMetric(Method):
    """A decision in the space of a metric: kNN or energies (Euclidean, LMNN, M^UNI, ...).

    Attributes
    ----------
    metrics : tuple of (params, estimator or None)
        Settings of the metric, the simplest first; ``None`` is the Euclidean metric.
    decision : Votes or Energy
        What is done with distances.
    """

    metrics: tuple[tuple[Mapping[str, Any], Any], ...] = (({}, None),)
    decision: Votes | Energy = field(default_factory=Votes)

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """All settings of the metric with all settings of the decision."""
        for params, metric in self.metrics:
            for candidate in self.decision.candidates(fits, metric):
                yield Candidate({**params, **candidate.params}, candidate.predict)

    def further(self, fits: Fits, chosen: Candidate) -> dict[str, Any]:
        """Rank of the chosen metric at a few levels, where it is learned."""
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
        """Each weight of the local metric with each number of neighbours."""
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
    """Any scikit-learn classifier with the settings to choose from, the simplest first."""

    estimator: Any
    grid: tuple[Mapping[str, Any], ...] = ({},)

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """One candidate for each setting."""
        for params in self.grid:
            model = clone(self.estimator).set_params(**params)
            yield Candidate(params, partial(self._predict, fits, model))

    def _predict(self, fits: Fits, model: Any, part: str) -> AnyArray:
        return np.asarray(fits.fitted(model).predict(fits.parts[part][0]))


@dataclass(frozen=True, kw_only=True)
class KernelCombination(Method):
    """SimpleMKL on the kernels of regional metrics (eq. eNonlinear); C, and P if several, chosen.

    Zero regions are the Euclidean baseline (eq. eBaseline).
    """

    regions: tuple[int, ...]
    refit: bool = False

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Fewest regions and smallest C first."""
        for n_regions in self.regions:
            for C, predicted in fits.memo(("mkl", n_regions), partial(_mkl, fits, n_regions)):
                yield Candidate({"regions": n_regions, "C": C}, predicted.__getitem__)


@dataclass(frozen=True, kw_only=True)
class OneKernel(Method):
    """A support vector machine with one Gaussian kernel; C and bandwidth chosen."""

    n_regions: int
    refit: bool = False

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Smallest C first, and for each the widest kernel first."""
        stacks = _stacks(fits, self.n_regions)
        y = fits.parts["train"][1]
        for C in C_GRID:
            for i, K in enumerate(stacks["train"]):
                model = SVC(C=C, kernel="precomputed").fit(K, y)
                yield Candidate({"C": C, "kernel": i}, partial(self._predict, model, stacks, i))

    def _predict(self, model: Any, stacks: Mapping[str, AnyArray], i: int, part: str) -> AnyArray:
        return np.asarray(model.predict(stacks[part][i]))


def _stacks(fits: Fits, n_regions: int) -> dict[str, AnyArray]:
    """Gram matrices of all kernels against the training rows, by part."""

    def build() -> dict[str, AnyArray]:
        kernels = RegionalKernels(n_regions, shrinkage=None, random_state=fits.seed)
        X = fits.parts["train"][0]
        kernels.fit(*fits.parts["train"])
        return {part: kernels.gram(rows, X) for part, (rows, _) in fits.parts.items()}

    # Few kernels are kept, for the single ones; the stacks of many regions are large.
    return fits.memo(("gram", n_regions), build) if n_regions < 2 else build()


def _mkl(fits: Fits, n_regions: int) -> list[tuple[float, dict[str, AnyArray]]]:
    """Predictions of one machine for each C, the weights of one the start of the next."""
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
    """k-means, or k-means and M^UNI in turns (section sUn), scored by the Rand index.

    Attributes
    ----------
    grid : tuple of (shrinkage, interpolation)
        The simplest first; interpolation 0 is plain k-means.
    max_iter : int
        Most rounds of the loop.
    n_init : int
        Starts of the first k-means.
    """

    grid: tuple[tuple[float, float], ...]
    max_iter: int = 20
    n_init: int = 5
    refit: bool = False

    higher_is_better = True
    unit = "Rand index"

    def candidates(self, fits: Fits) -> Iterator[Candidate]:
        """Every loop begins with the same k-means, whose centres are handed on."""
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
        """Rand index of classes and clusters."""
        return float(rand_score(truth, predicted))

    def further(self, fits: Fits, chosen: Candidate) -> dict[str, Any]:
        """Adjusted Rand index, whose chance level is zero."""
        found = adjusted_rand_score(fits.parts["test"][1], chosen.predict("test"))
        return {"adjusted": float(found)}


@dataclass(frozen=True, kw_only=True)
class Seconds(Method):
    """Processor time of one fit with fixed parameters, as the paper's tables of training speed.

    In one thread it is the time on the clock of a machine that does nothing else, and unlike that
    it does not count the work of others.

    Attributes
    ----------
    estimator : estimator
        What is fitted.
    rounds : int
        The best of so many fits counts, fewer where a fit takes over ten seconds.
    """

    estimator: Any
    rounds: int = 3
    refit: bool = False

    unit = "seconds"

    def run(self, fits: Fits, *, refit: bool = False) -> Outcome:
        """Fit a few times."""
        times: list[float] = []
        while len(times) < self.rounds and sum(times) < 10:
            model = clone(self.estimator)
            if "random_state" in model.get_params():
                model.set_params(random_state=fits.seed)
            start = process_time()
            model.fit(*fits.parts["train"])
            times.append(process_time() - start)
        return Outcome(None, min(times), {}, {"fits": len(times)})

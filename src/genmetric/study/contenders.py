"""The metrics and classifiers of a comparison: what each fits, chooses and costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density.frame import Frame
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier
from genmetric.kernels.gram import readable_bytes
from genmetric.kernels.regional import SCALES
from genmetric.lmnn import LMNN
from genmetric.metric import GenerativeMetric, GenerativeMetricCV
from genmetric.metric.left_out import nearest_others, vote_errors
from genmetric.neighbors import EnergyClassifier, LocalMetricClassifier

#: Numbers of neighbours among which leave-one-out chooses. Odd ones: two classes cannot tie.
NEIGHBORS = np.array([1, 3, 5, 7, 9, 11, 15, 21])

#: Most training rows that leave-one-out asks, and among how many it looks.
MOST_QUERIES, MOST_REFERENCES = 5000, 50_000

#: Seconds of scikit-learn's NCA for a pair of rows, 50 iterations: measured from 150 to 2000 rows.
_NCA_SECONDS, _NCA_ITERATIONS, _NCA_FEWEST = 4e-6, 50, 800

#: Regions of the regional kernels, and most bytes of their Gram matrices.
_MKL_REGIONS, _MKL_BYTES = 5, 2**29

#: Training rows beyond which margin and k of the energy keep their defaults.
_ENERGY_ROWS = 3000


class Fitted(NamedTuple):
    """A method fitted on the training rows of a fold.

    Attributes
    ----------
    model : estimator
        With `predict`; a pipeline that a model file can hold.
    parameters : dict
        What was chosen on the training rows.
    by_k : (ks, errors) or None
        Leave-one-out errors of the training rows by number of neighbours, for methods that vote.
    """

    model: Any
    parameters: Mapping[str, Any]
    by_k: tuple[IntArray, FloatArray] | None = None


class Training(NamedTuple):
    """What a method is fitted on.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, as they came.
    y : ndarray of shape (n_samples,)
        Classes.
    seed : int
        Of what is left to chance.
    max_rows : int or None
        Rows that a metric may see; all of them vote.
    """

    X: FloatArray
    y: AnyArray
    seed: int = 0
    max_rows: int | None = None


class Cost(NamedTuple):
    """What decides whether a method is affordable: training rows, and seconds a fit may take."""

    n_rows: int
    seconds: float


class Ruling(NamedTuple):
    """Whether a method is affordable.

    Attributes
    ----------
    skip : bool
        Whether to leave it out.
    note : str
        Why, or what was cut to afford it; empty where nothing was.
    max_rows : int or None
        Training rows that its metric may see.
    """

    skip: bool = False
    note: str = ""
    max_rows: int | None = None


@dataclass(frozen=True)
class Contender:
    """One method of a comparison.

    Attributes
    ----------
    key : str
        What the command line calls it.
    name : str
        What tables call it.
    fit : callable
        ``fit(training)`` returns a :class:`Fitted`.
    afford : callable or None
        ``afford(cost)`` returns a :class:`Ruling`; ``None`` is always affordable.
    learns : bool
        Whether it is more than a distance between rows as they come.
    """

    key: str
    name: str
    fit: Callable[[Training], Fitted]
    afford: Callable[[Cost], Ruling] | None = None
    learns: bool = True


def choose_neighbors(
    Z: AnyArray, y: AnyArray, seed: int = 0, candidates: IntArray = NEIGHBORS
) -> tuple[int, IntArray, FloatArray]:
    """Number of neighbours of least leave-one-out error, ties to the smaller.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Rows in the space of the metric.
    y : ndarray of shape (n_samples,)
        Classes.
    seed : int, default=0
        Draws the rows that are asked where there are many.
    candidates : ndarray of int, default=:data:`NEIGHBORS`
        Numbers to choose from; those that the rows do not have are left out.

    Returns
    -------
    best : int
        The choice.
    ks : ndarray of shape (n_candidates,)
        The candidates.
    errors : ndarray of shape (n_candidates,)
        Leave-one-out error of each.
    """
    classes, codes = np.unique(y, return_inverse=True)
    rng = np.random.default_rng(seed)
    references = np.arange(len(Z))
    if len(references) > MOST_REFERENCES:
        references = np.sort(rng.choice(references, MOST_REFERENCES, replace=False))
    queries = references
    if len(queries) > MOST_QUERIES:
        queries = np.sort(rng.choice(queries, MOST_QUERIES, replace=False))
    ks = candidates[candidates < len(references)]
    if not len(ks):
        return 1, np.array([1]), np.array([np.nan])
    z = Frame.of(Z).inward(Z)
    found = nearest_others(z, queries, references, int(ks.max()))
    errors = vote_errors(codes[found], codes[queries], len(classes), ks)
    return int(ks[np.argmin(errors)]), ks, errors


def fit_voting(
    metric: Any,
    training: Training,
    *,
    standardise: bool = True,
    n_neighbors: int | None = None,
) -> Fitted:
    """Fit a metric and the votes of neighbours under it, their number by leave-one-out.

    Parameters
    ----------
    metric : transformer or None
        The metric, not fitted; ``None`` is Euclidean distance.
    training : Training
        Rows and classes.
    standardise : bool, default=True
        Whether features are first scaled to unit variance; they are centred in any case.
    n_neighbors : int, default=None
        Number of neighbours; ``None`` chooses.

    Returns
    -------
    Fitted
        Its model is a pipeline of the steps "scale", "metric" (where there is one) and
        "neighbors".
    """
    X, y, seed, max_rows = training
    scale = StandardScaler(with_std=standardise).fit(X)
    Z = scale.transform(X)
    steps: list[tuple[str, Any]] = [("scale", scale)]
    chosen: dict[str, Any] = {}
    if metric is not None:
        rows: Any = slice(None)
        if max_rows is not None and len(y) > max_rows:
            rows = stratified_sample(y, max_rows, seed)
        metric.fit(Z[rows], y[rows])
        steps.append(("metric", metric))
        Z = metric.transform(Z)
        chosen = dict(getattr(metric, "best_params_", {}))
    best, ks, errors = choose_neighbors(Z, y, seed)
    # A metric that chose a number of neighbours judged it on rows that it had not seen.
    own = chosen.pop("n_neighbors", best)
    n_neighbors = min(int(own if n_neighbors is None else n_neighbors), len(Z))
    voters = KNeighborsClassifier(n_neighbors).fit(Z, y)
    model = Pipeline([*steps, ("neighbors", voters)])
    return Fitted(model, {**chosen, "n_neighbors": n_neighbors}, (ks, errors))


def stratified_sample(y: AnyArray, n_rows: int, seed: int) -> IntArray:
    """Indices of about `n_rows` rows, each class in proportion and with two rows where it has them.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Classes.
    n_rows : int
        How many rows.
    seed : int
        Draws them.

    Returns
    -------
    ndarray of int
        Ascending.
    """
    rng = np.random.default_rng(seed)
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    share = min(1.0, n_rows / len(y))
    kept = [
        rng.permutation(np.flatnonzero(codes == c))[: max(2, round(share * count))]
        for c, count in enumerate(counts)
    ]
    return np.sort(np.concatenate(kept))


def _voting(make: Callable[[int], Any], standardise: bool = True) -> Callable[[Training], Fitted]:
    def fit(training: Training) -> Fitted:
        return fit_voting(make(training.seed), training, standardise=standardise)

    return fit


def _standardised(name: str, make: Callable[[], Any]) -> Callable[[Training], Fitted]:
    """A classifier that has nothing to choose, after standardising."""

    def fit(training: Training) -> Fitted:
        model = Pipeline([("scale", StandardScaler()), (name, make())])
        return Fitted(model.fit(training.X, training.y), {})

    return fit


def _choose(
    training: Training, candidates: Iterable[Mapping[str, Any]], make: Callable[..., Any]
) -> dict[str, Any]:
    """The candidate of least error on a quarter of the rows held out, ties to the first.

    The first one, untried, where a class is too small to be in both parts.
    """
    listed = [dict(candidate) for candidate in candidates]
    _, y, seed, _ = training
    if len(listed) == 1 or np.unique(y, return_counts=True)[1].min() < 4:
        return listed[0]
    splitter = StratifiedShuffleSplit(1, test_size=0.25, random_state=seed)
    inner, held = next(splitter.split(np.zeros(len(y)), y))
    errors = []
    scale = StandardScaler().fit(training.X[inner])
    Z = scale.transform(training.X)
    build = make(Z[inner], y[inner])
    for candidate in listed:
        model = build(**candidate).fit(Z[inner], y[inner])
        errors.append(float(np.mean(model.predict(Z[held]) != y[held])))
    return listed[int(np.argmin(errors))]


def _fit_energy(training: Training) -> Fitted:
    """Energy classification on M^UNI; margin and k on rows held out."""

    def shared(X: FloatArray, y: AnyArray) -> Callable[..., Any]:
        metric = FrozenEstimator(GenerativeMetric().fit(X, y))
        return partial(EnergyClassifier, metric)

    usual = {"n_neighbors": 3, "margin_scale": 0.3}
    grid = [{"n_neighbors": k, "margin_scale": m} for k in (3, 1, 5) for m in (0.3, 0.1, 1.0)]
    chosen = _choose(training, grid if len(training.y) <= _ENERGY_ROWS else [usual], shared)
    classifier = EnergyClassifier(GenerativeMetric(), **chosen)
    model = Pipeline([("scale", StandardScaler()), ("energy", classifier)])
    return Fitted(model.fit(training.X, training.y), chosen)


def _fit_mkl(training: Training) -> Fitted:
    """Kernels of five regional metrics; C on rows held out."""
    kernels = RegionalKernels(_MKL_REGIONS, random_state=training.seed)
    build = partial(SimpleMKLClassifier, kernels)
    chosen = _choose(training, [{"C": C} for C in (10.0, 1.0, 100.0)], lambda *_: build)
    model = Pipeline([("scale", StandardScaler()), ("mkl", build(**chosen))])
    return Fitted(model.fit(training.X, training.y), chosen)


def _afford_nca(cost: Cost) -> Ruling:
    affordable = int((cost.seconds / _NCA_SECONDS) ** 0.5)
    if cost.n_rows <= affordable:
        return Ruling()
    if affordable >= _NCA_FEWEST:
        note = f"its metric is learned on {affordable} of {cost.n_rows} training rows, for time"
        return Ruling(note=note, max_rows=affordable)
    seconds = _NCA_SECONDS * cost.n_rows**2
    return Ruling(True, f"about {seconds:.0f} s a fold on {cost.n_rows} rows, above the time limit")


def _afford_mkl(cost: Cost) -> Ruling:
    n_bytes = 8 * len(SCALES) * _MKL_REGIONS * cost.n_rows**2
    if n_bytes > _MKL_BYTES:
        return Ruling(True, f"its Gram matrices would take {readable_bytes(n_bytes)}")
    return Ruling()


#: All methods, in the order of tables; the order settles ties, so that the simpler wins.
CONTENDERS = {
    contender.key: contender
    for contender in (
        Contender("euclidean", "Euclidean", _voting(lambda _: None, False), learns=False),
        Contender("standardised", "Euclidean, standardised", _voting(lambda _: None), learns=False),
        Contender("lda", "LDA", _standardised("lda", LinearDiscriminantAnalysis)),
        Contender(
            "nca",
            "NCA",
            _voting(
                lambda seed: NeighborhoodComponentsAnalysis(
                    max_iter=_NCA_ITERATIONS, random_state=seed
                )
            ),
            _afford_nca,
        ),
        Contender("lmnn", "LMNN", _voting(lambda seed: LMNN(random_state=seed))),
        Contender("uniform", "M^UNI", _voting(lambda _: GenerativeMetric())),
        Contender("kde", "M^KDE", _voting(lambda seed: GenerativeMetric("kde", random_state=seed))),
        Contender("gmm", "M^GMM", _voting(lambda seed: GenerativeMetric("gmm", random_state=seed))),
        Contender(
            "cv", "M^UNI, tuned", _voting(lambda seed: GenerativeMetricCV(random_state=seed))
        ),
        Contender("local", "Local metrics", _standardised("local", LocalMetricClassifier)),
        Contender("energy", "Energy on M^UNI", _fit_energy),
        Contender("mkl", "Regional MKL", _fit_mkl, _afford_mkl),
    )
}

#: The methods of a comparison unless others are asked for.
USUAL = ("euclidean", "standardised", "lda", "nca", "uniform", "kde", "cv", "energy", "mkl")

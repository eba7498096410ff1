"""The registry of methods. One entry is all that a new method needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from genmetric._memory import readable_bytes
from genmetric._method_texts import METHOD_TEXTS
from genmetric._nearest import did_you_mean
from genmetric._scoring import Task
from genmetric._typing import AnyArray, FloatArray
from genmetric.comparison._method import (
    Budget,
    BudgetDecision,
    FittedMethod,
    Method,
    TrainingData,
)
from genmetric.comparison._time_limit import slow_note
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier
from genmetric.kernels.regional import SCALES
from genmetric.learners import (
    LMNN,
    MLKR,
    GenerativeMetric,
    GenerativeMetricCV,
    GenerativeRegressionMetric,
    GenerativeRegressionMetricCV,
)
from genmetric.neighbors import EnergyClassifier, KernelRegressor, LocalMetricClassifier

#: Seconds of 50 iterations of NCA per pair of samples, measured from 150 to 2000 samples.
_NCA_SECONDS, _NCA_ITERATIONS, _NCA_MIN_SAMPLES = 4e-6, 50, 800

#: Seconds of MLKR per pair of training samples, measured from 72 to 600 samples of 4 to 11
#: features, and fewest samples that it is worth fitting on.
_MLKR_SECONDS, _MLKR_MIN_SAMPLES = 4e-6, 500

#: Seconds of gradient boosting per tree: less than the 0.4 to 4 ms that were measured with 30 to
#: 2000 classes. There is one tree per class and iteration. Above a number of samples scikit-learn
#: stops early, after 10 iterations or more.
_TREE_SECONDS, _BOOSTING_SAMPLES = 2e-4, 10_000
_BOOSTING_ITERATIONS, _BOOSTING_MIN_ITERATIONS = 100, 10

#: Regions of the regional kernels, and most bytes of their Gram matrices.
_MKL_REGIONS, _MKL_BYTES = 5, 2**29

#: Training samples above which margin and number of neighbours of the energy keep their defaults.
_ENERGY_SAMPLES = 3000


def _standardised(
    name: str, make: Callable[[TrainingData], Any]
) -> Callable[[TrainingData], FittedMethod]:
    """Make a fit function of a predictor without parameters to select, after scaling."""

    def fit(training: TrainingData) -> FittedMethod:
        model = Pipeline([("scale", StandardScaler()), (name, make(training))])
        return FittedMethod(model.fit(training.X, training.y), {})

    return fit


def _select(
    training: TrainingData, candidates: Iterable[Mapping[str, Any]], make: Callable[..., Any]
) -> dict[str, Any]:
    """Select the candidate with the lowest error on a quarter of the samples, ties to the first.

    The first candidate is returned without a fit if a class is too small to be in both parts.
    """
    listed = [dict(candidate) for candidate in candidates]
    y = training.y
    if len(listed) == 1 or np.unique(y, return_counts=True)[1].min() < 4:
        return listed[0]
    splitter = StratifiedShuffleSplit(1, test_size=0.25, random_state=training.seed)
    inner, held = next(splitter.split(np.zeros(len(y)), y))
    Z = StandardScaler().fit(training.X[inner]).transform(training.X)
    build = make(Z[inner], y[inner])
    errors = []
    for candidate in listed:
        model = build(**candidate).fit(Z[inner], y[inner])
        errors.append(float(np.mean(model.predict(Z[held]) != y[held])))
    return listed[int(np.argmin(errors))]


def _fit_energy(training: TrainingData) -> FittedMethod:
    """Fit energies under the generative metric; select margin and neighbours on held-out data."""

    def shared(X: FloatArray, y: AnyArray) -> Callable[..., Any]:
        metric = FrozenEstimator(GenerativeMetric().fit(X, y))
        return partial(EnergyClassifier, metric)

    usual: dict[str, Any] = {"energy": "difference", "n_neighbors": 3}
    grid = [usual, {"energy": "difference", "n_neighbors": 7}] + [
        {"energy": "one-sided", "n_neighbors": k, "margin_scale": m}
        for k in (3, 5)
        for m in (0.1, 0.3, 0.7)
    ]
    selected = _select(training, grid if len(training.y) <= _ENERGY_SAMPLES else [usual], shared)
    classifier = EnergyClassifier(GenerativeMetric(), **selected)
    model = Pipeline([("scale", StandardScaler()), ("energy", classifier)])
    return FittedMethod(model.fit(training.X, training.y), selected)


def _fit_mkl(training: TrainingData) -> FittedMethod:
    """Fit kernels of five regional metrics; select C on held-out data."""
    kernels = RegionalKernels(_MKL_REGIONS, random_state=training.seed)
    build = partial(SimpleMKLClassifier, kernels)
    selected = _select(training, [{"C": C} for C in (10.0, 1.0, 100.0)], lambda *_: build)
    model = Pipeline([("scale", StandardScaler()), ("mkl", build(**selected))])
    return FittedMethod(model.fit(training.X, training.y), selected)


def _fit_kernel_regression(training: TrainingData) -> FittedMethod:
    """Fit kernel regression under the generative regression metric."""
    model = Pipeline(
        [
            ("scale", StandardScaler()),
            ("metric", GenerativeRegressionMetric(random_state=training.seed)),
            ("kernel", KernelRegressor()),
        ]
    ).fit(training.X, training.y)
    return FittedMethod(model, {"bandwidth": float(f"{model['kernel'].bandwidth_:.3g}")})


def _boosting(training: TrainingData) -> Any:
    if training.task == "regression":
        return HistGradientBoostingRegressor(random_state=training.seed)
    return HistGradientBoostingClassifier(random_state=training.seed)


def _pairs_budget(budget: Budget, seconds_per_pair: float, min_samples: int) -> BudgetDecision:
    """Learn from a part of the samples if the time of a fit grows with their square."""
    # A metric from fewer samples says little; whether it is too slow is measured on two folds.
    affordable = max(int((budget.seconds / seconds_per_pair) ** 0.5), min_samples)
    if budget.n_samples <= affordable:
        return BudgetDecision()
    note = (
        f"metric learned from {affordable} of {budget.n_samples} training samples because of the "
        "time limit"
    )
    return BudgetDecision(note=note, max_samples=affordable)


def _nca_budget(budget: Budget) -> BudgetDecision:
    return _pairs_budget(budget, _NCA_SECONDS, _NCA_MIN_SAMPLES)


def _mlkr_budget(budget: Budget) -> BudgetDecision:
    return _pairs_budget(budget, _MLKR_SECONDS, _MLKR_MIN_SAMPLES)


def _boosting_budget(budget: Budget) -> BudgetDecision:
    """Skip gradient boosting if the trees of all classes certainly take longer than the limit."""
    stops = budget.n_samples > _BOOSTING_SAMPLES
    n_iterations = _BOOSTING_MIN_ITERATIONS if stops else _BOOSTING_ITERATIONS
    # Two classes share their trees.
    n_trees = n_iterations * (budget.n_classes if budget.n_classes > 2 else 1)
    seconds = n_trees * _TREE_SECONDS
    if seconds <= budget.seconds:
        return BudgetDecision()
    note = slow_note(seconds * budget.n_fits, budget.seconds * budget.n_fits, at_least=True)
    return BudgetDecision(True, note)


def _mkl_budget(budget: Budget) -> BudgetDecision:
    n_bytes = 8 * len(SCALES) * _MKL_REGIONS * budget.n_samples**2
    if n_bytes > _MKL_BYTES:
        note = (
            f"its Gram matrices need {readable_bytes(n_bytes)}, more than "
            f"{readable_bytes(_MKL_BYTES)}"
        )
        return BudgetDecision(True, note)
    return BudgetDecision()


def _euclidean(seed: int) -> None:
    """Return None: distances between the samples as they are."""


def _generative(combination: str) -> Callable[..., Any]:
    def make(seed: int, **settings: Any) -> GenerativeMetric:
        return GenerativeMetric(combination, random_state=seed, **settings)

    return make


_SETTINGS = ("shrinkage", "interpolation")

_NUMBERS: tuple[Task, ...] = ("regression",)
_BOTH: tuple[Task, ...] = ("classification", "regression")


def _method(key: str, **options: Any) -> Method:
    """Return a method with the texts of its key."""
    text = METHOD_TEXTS[key]
    return Method(key, text.label, text.description, distance=text.distance, **options)


_ENTRIES = (
    _method(
        "majority",
        predictor=_standardised("majority", lambda _: DummyClassifier(strategy="prior")),
        learns=False,
        transforms=False,
    ),
    _method(
        "mean",
        predictor=_standardised("mean", lambda _: DummyRegressor()),
        learns=False,
        transforms=False,
        probabilities=False,
        tasks=_NUMBERS,
    ),
    _method(
        "euclidean",
        metric=_euclidean,
        standardise=False,
        learns=False,
        streams=True,
        tasks=_BOTH,
    ),
    _method(
        "standardised",
        metric=_euclidean,
        learns=False,
        streams=True,
        tasks=_BOTH,
    ),
    _method(
        "lda",
        predictor=_standardised(
            "lda", lambda _: LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")
        ),
    ),
    _method(
        "nca",
        metric=lambda seed: NeighborhoodComponentsAnalysis(
            max_iter=_NCA_ITERATIONS, random_state=seed
        ),
        budget=_nca_budget,
    ),
    _method(
        "lmnn",
        symbol="LMNN",
        metric=lambda seed: LMNN(random_state=seed),
        default=False,
    ),
    _method(
        "uniform",
        symbol="M^UNI",
        metric=_generative("uniform"),
        settings=_SETTINGS,
        streams=True,
    ),
    _method(
        "kde",
        symbol="M^KDE",
        metric=_generative("kde"),
        settings=_SETTINGS,
    ),
    _method(
        "gmm",
        symbol="M^GMM",
        metric=_generative("gmm"),
        settings=_SETTINGS,
        default=False,
    ),
    _method(
        "cv",
        symbol="M^UNI",
        metric=lambda seed: GenerativeMetricCV(random_state=seed),
    ),
    _method(
        "local",
        symbol="GLM^INT",
        predictor=_standardised("local", lambda _: LocalMetricClassifier()),
        transforms=False,
        default=False,
    ),
    _method(
        "energy",
        symbol="M_E^UNI",
        predictor=_fit_energy,
        probabilities=hasattr(EnergyClassifier, "predict_proba"),
    ),
    _method(
        "mkl",
        symbol="MKL",
        predictor=_fit_mkl,
        transforms=False,
        probabilities=hasattr(SimpleMKLClassifier, "predict_proba"),
        budget=_mkl_budget,
    ),
    _method(
        "regression",
        metric=lambda seed, **settings: GenerativeRegressionMetric(random_state=seed, **settings),
        settings=_SETTINGS,
        streams=True,
        batch_settings={"method": "slices"},
        probabilities=False,
        tasks=_NUMBERS,
    ),
    _method(
        "regression_cv",
        metric=lambda seed: GenerativeRegressionMetricCV(random_state=seed),
        probabilities=False,
        tasks=_NUMBERS,
    ),
    _method(
        "kernel_regression",
        predictor=_fit_kernel_regression,
        probabilities=False,
        tasks=_NUMBERS,
    ),
    _method(
        "mlkr",
        metric=lambda seed: MLKR(random_state=seed),
        probabilities=False,
        tasks=_NUMBERS,
        budget=_mlkr_budget,
    ),
    _method(
        "ridge",
        predictor=_standardised("ridge", lambda _: RidgeCV(np.logspace(-3, 4, 15))),
        transforms=False,
        probabilities=False,
        tasks=_NUMBERS,
    ),
    _method(
        "logistic",
        predictor=_standardised("logistic", lambda _: LogisticRegression(max_iter=1000)),
        transforms=False,
    ),
    _method(
        "boosting",
        predictor=_standardised("boosting", _boosting),
        transforms=False,
        tasks=_BOTH,
        budget=_boosting_budget,
    ),
)

#: All methods by key, in the order of tables. In case of a tie the first one is the best.
METHODS: dict[str, Method] = {method.key: method for method in _ENTRIES}


def default_methods(task: Task) -> tuple[str, ...]:
    """Return the keys of the methods that are compared by default on a kind of target."""
    return tuple(m.key for m in _ENTRIES if m.default and task in m.tasks)


#: Keys of the methods that are compared by default if the targets are classes, or numbers.
DEFAULT_METHODS = default_methods("classification")
DEFAULT_REGRESSION_METHODS = default_methods("regression")


def find_methods(
    keys: Iterable[str] | None, task: Task | None = "classification"
) -> tuple[Method, ...]:
    """Look methods up by their keys.

    Parameters
    ----------
    keys : iterable of str or None
        Keys of :data:`METHODS`, at least one; None is the default of the task.
    task : {"classification", "regression"} or None, default="classification"
        Kind of target that the methods must be able to predict; None does not check it.

    Returns
    -------
    tuple of Method
        Each method once, in the order given.
    """
    listed = tuple(
        dict.fromkeys(default_methods(task or "classification") if keys is None else keys)
    )
    unknown = [key for key in listed if key not in METHODS]
    if unknown or not listed:
        found = f"got {unknown[0]!r}" if unknown else "got none"
        hint = did_you_mean(str(unknown[0]), METHODS) if unknown else ""
        text = f"methods must be some of {', '.join(METHODS)}; {found}. {hint}"
        raise ValueError(text.rstrip())
    wrong = [key for key in listed if task not in METHODS[key].tasks]
    if wrong and task is not None:
        able = ", ".join(key for key, method in METHODS.items() if task in method.tasks)
        what = "numbers" if task == "regression" else "classes"
        raise ValueError(
            f"methods must be for a target of {what}, that is some of {able}; got {wrong[0]!r}."
        )
    return tuple(METHODS[key] for key in listed)


_TARGETS: dict[Task, str] = {"classification": "classes", "regression": "number"}


def methods_table() -> str:
    """Write the registry as a Markdown table, for the documentation.

    Returns
    -------
    str
        One line per method: key, label, targets, capabilities, description.
    """
    lines = [
        "| `--method` | name | target | transform | proba | stream | description |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for m in METHODS.values():
        marks = ["yes" if has else "" for has in (m.transforms, m.probabilities, m.streams)]
        target = " or ".join(_TARGETS[task] for task in m.tasks)
        cells = [f"`{m.key}`", m.row_label, target, *marks, m.description]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"

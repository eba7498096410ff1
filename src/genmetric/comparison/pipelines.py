"""Methods as fitted scikit-learn pipelines, in memory and in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from genmetric._neighbors import select_n_neighbors
from genmetric._text import import_optional
from genmetric._typing import AnyArray, FloatArray
from genmetric.comparison.methods import METHODS, Method, Task

#: Most samples of a stream whose local metrics are averaged, if there are as many features. With
#: fewer features single samples can dominate a subset, and all of them are cheap.
AVERAGE_SAMPLES, MIN_FEATURES = 100_000, 5


def fit_method(
    method: Method,
    X: FloatArray,
    y: AnyArray,
    task: Task,
    /,
    *,
    random_state: int = 0,
    n_neighbors: int | None = None,
    standardize: bool | None = None,
    feature_columns: AnyArray | None = None,
    **settings: Any,
) -> Pipeline:
    """Fit scaler, metric and predictor of a method, each in the space of those before it."""
    steps: list[tuple[str, Any]] = []
    Z = X
    if method.scale != "none":
        with_std = method.scale == "standardize" if standardize is None else standardize
        steps.append(("scale", StandardScaler(with_std=with_std)))
        Z = steps[-1][1].fit_transform(Z)
    if method.metric:
        params = settings if method.predictor else {**method.params, **settings}
        metric = _build(method.metric, task, random_state, params)
        if "feature_columns" in metric.get_params(deep=False):
            metric.set_params(feature_columns=feature_columns)
        steps.append(("metric", metric))
        Z = metric.fit(Z, y).transform(Z)
        # A metric that selects a number of neighbours evaluated it on samples it was not fitted on.
        n_neighbors = n_neighbors or getattr(metric, "best_params_", {}).get("n_neighbors")
    if method.votes:
        steps.append(("neighbors", _neighbors(Z, y, task, n_neighbors, random_state)))
        return Pipeline(steps)
    predictor = _build(method.predictor, task, random_state, method.params)
    if method.grid:
        quarter = ShuffleSplit(1, test_size=0.25, random_state=random_state)
        predictor = GridSearchCV(predictor, method.grid, cv=quarter).fit(Z, y).best_estimator_
    else:
        predictor.fit(Z, y)
    return Pipeline([*steps, (method.key, predictor)])


def _build(path: str, task: Task, random_state: int, params: Mapping[str, Any]) -> Any:
    """Create the estimator that an import string names, with a seed if it takes one."""
    kind = "Classifier" if task == "classification" else "Regressor"
    module, _, name = path.format(kind=kind).partition(":")
    estimator = getattr(import_module(module), name)(**params)
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=random_state)
    return estimator


def _neighbors(
    Z: FloatArray, y: AnyArray, task: Task, n_neighbors: int | None, random_state: int
) -> Any:
    """Fit nearest neighbours, their number selected by leave-one-out unless it is given."""
    numeric = task == "regression"
    if n_neighbors is None:
        found = select_n_neighbors(Z, y, average=numeric, random_state=random_state)
        n_neighbors = found.n_neighbors
    make = KNeighborsRegressor if numeric else KNeighborsClassifier
    return make(min(int(n_neighbors), len(Z))).fit(Z, y)


def selected_parameters(method: Method, model: Pipeline) -> dict[str, Any]:
    """Return the parameters that a fitted method selected, as plain values."""
    found = dict(getattr(model.named_steps.get("metric"), "best_params_", {}))
    grids = [method.grid] if isinstance(method.grid, Mapping) else method.grid
    names = {"n_neighbors"} if method.votes else {name for grid in grids for name in grid}
    found |= {name: value for name, value in model[-1].get_params().items() if name in names}
    if hasattr(model[-1], "bandwidth_"):
        found["bandwidth"] = float(f"{model[-1].bandwidth_:.3g}")
    return {k: v.item() if hasattr(v, "item") else v for k, v in found.items() if v is not None}


def regional_kernels(C: float = 10.0, random_state: int = 0) -> Any:
    """Create a classifier with the kernels of five regional metrics."""
    from genmetric.kernels import RegionalKernels, SimpleMKLClassifier

    return SimpleMKLClassifier(RegionalKernels(5, random_state=random_state), C=C)


class CategoryCodes(TransformerMixin, BaseEstimator):
    """Turn the one-hot features of each column of a table back into one category, for trees."""

    def __init__(self, feature_columns: Any = None) -> None:
        self.feature_columns = feature_columns

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Find the columns whose features have at most a single one in each row."""
        columns = np.arange(X.shape[1]) if self.feature_columns is None else self.feature_columns
        blocks = [np.flatnonzero(columns == c) for c in dict.fromkeys(np.asarray(columns).tolist())]
        self.one_hot_ = [
            b
            for b in blocks
            if len(b) > 1 and np.isin(X[:, b], (0, 1)).all() and (X[:, b].sum(axis=1) <= 1).all()
        ]
        return self

    def transform(self, X: FloatArray) -> Any:
        """Return a DataFrame with columns of categories, or X if there are none."""
        if not self.one_hot_:
            return X
        pd = import_optional("pandas", "cli")
        frame = pd.DataFrame(X).drop(columns=np.concatenate(self.one_hot_))
        for number, block in enumerate(self.one_hot_):
            codes = np.where(X[:, block].any(axis=1), X[:, block].argmax(axis=1), -1)
            frame[f"category {number}"] = pd.Categorical.from_codes(codes, range(len(block)))
        return frame.rename(columns=str)


def fit_in_batches(
    method: str | Method,
    make_batches: Callable[[], Iterable[tuple[FloatArray, AnyArray]]],
    /,
    *,
    task: Task = "classification",
    keep_samples: int = 20_000,
    n_neighbors: int | None = None,
    standardize: bool | None = None,
    random_state: int = 0,
    **settings: Any,
) -> Pipeline:
    """Fit a method in passes over batches, in bounded memory.

    The first pass scales the features and draws the samples that are kept as neighbours. Further
    passes fit the metric by its `fit_batches`; with 5 features or more, the local metrics of at
    most 100,000 samples are averaged.

    Parameters
    ----------
    method : str or Method
        A method that can be fitted in batches.
    make_batches : callable
        Returns a new iterator of batches (X, y), the same in each call.
    task : {"classification", "regression"}, default="classification"
        Kind of target.
    keep_samples : int, default=20000
        Most samples that are kept as neighbours, drawn at random. More of them predict better and
        take more memory.
    n_neighbors : int, default=None
        Number of neighbours; selected by leave-one-out by default.
    standardize : bool, default=None
        Whether features are scaled to unit variance; the default of the method by default.
    random_state : int, default=0
        Seed of the samples drawn.
    **settings
        Parameters of the metric.

    Returns
    -------
    sklearn.pipeline.Pipeline
        The steps "scale", "metric" (if there is one) and "neighbors".

    Examples
    --------
    >>> from genmetric.comparison import fit_in_batches
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> def batches():
    ...     return ((X[i::3], y[i::3]) for i in range(3))
    >>> fit_in_batches("generative", batches).score(X, y) > 0.95
    True
    """
    method = METHODS[method] if isinstance(method, str) else method
    if not method.streams:
        able = ", ".join(m.key for m in METHODS.values() if m.streams)
        raise ValueError(
            f"method must be one of {able} to be fitted in batches; got {method.key!r}."
        )
    rng = np.random.default_rng(random_state)
    kept: tuple[AnyArray, ...] = ()
    scale, n = StandardScaler(), 0
    for X, y in make_batches():
        scale.partial_fit(X)
        n += len(X)
        # The rows with the smallest random numbers are a sample without replacement.
        part = (rng.random(len(X)), X, y)
        kept = tuple(map(np.concatenate, zip(kept, part, strict=True))) if kept else part
        first = np.sort(np.argsort(kept[0], kind="stable")[:keep_samples])
        kept = tuple(array[first] for array in kept)
    if not kept:
        raise ValueError("make_batches must return at least one batch; got none.")
    if not (method.scale == "standardize" if standardize is None else standardize):
        scale = StandardScaler(with_std=False).partial_fit(scale.mean_[None])
    steps: list[tuple[str, Any]] = [("scale", scale)]
    if method.metric:
        metric = _build(method.metric, task, random_state, {**method.batch_params, **settings})
        if n > AVERAGE_SAMPLES and kept[1].shape[1] >= MIN_FEATURES:
            metric.set_params(max_samples=AVERAGE_SAMPLES)

        def scaled() -> Iterator[tuple[FloatArray, AnyArray]]:
            return ((scale.transform(X), y) for X, y in make_batches())

        steps.append(("metric", metric.fit_batches(scaled)))
    Z = Pipeline(steps).transform(kept[1])
    steps.append(("neighbors", _neighbors(Z, kept[2], task, n_neighbors, random_state)))
    return Pipeline(steps)

"""The transformer inside a fitted estimator that defines its distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_clusterer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from genmetric._typing import ArrayLike, FloatArray
from genmetric._warnings import suppress_warnings
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier
from genmetric.neighbors import LocalMetricClassifier

#: Estimators whose distance depends on the sample or combines several metrics.
SEVERAL_METRICS = (LocalMetricClassifier, SimpleMKLClassifier, RegionalKernels)


def metric_transformer(estimator: Any) -> Any:
    """Return the fitted transformer that maps samples to the space of the metric.

    Euclidean distances between transformed samples are the distances of the estimator.

    Parameters
    ----------
    estimator : object
        A fitted transformer; a fitted pipeline, with or without a predictor as last step; a fitted
        search such as :class:`~sklearn.model_selection.GridSearchCV`; or a predictor such as
        :class:`genmetric.EnergyClassifier` that holds a fitted transformer.

    Returns
    -------
    object
        A fitted transformer or pipeline of transformers; a clusterer with ``components_`` is
        returned as it is.

    Raises
    ------
    TypeError
        If the estimator has no metric, or more than one.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import metric_transformer
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(GenerativeMetric(), KNeighborsClassifier()).fit(X, y)
    >>> type(metric_transformer(model)).__name__
    'GenerativeMetric'
    """
    steps = [step for step in _steps(estimator) if step is not None and step != "passthrough"]
    if not steps:
        raise TypeError(
            f"{type(estimator).__name__} has no transformer, so its distance is that of the "
            "features. Pass a transformer, or a pipeline that contains one."
        )
    if len(steps) == 1:
        return steps[0]
    return Pipeline([(f"step{number}", step) for number, step in enumerate(steps)])


def _steps(estimator: Any) -> list[Any]:
    """List the fitted transformers that lead from samples to the space of the metric."""
    if isinstance(estimator, FrozenEstimator):
        return _steps(estimator.estimator)
    check_is_fitted(estimator)
    if isinstance(estimator, SEVERAL_METRICS):
        raise TypeError(
            f"{type(estimator).__name__} uses more than one metric, so no single matrix describes "
            "its distances. Pass an estimator with one metric, such as GenerativeMetric or LMNN, "
            "or a pipeline that contains one."
        )
    if isinstance(estimator, Pipeline):
        *first, last = (step for _, step in estimator.steps)
        head = [part for step in first for part in _inner_steps(step)]
        if last is None or last == "passthrough":
            return head
        if first and not _maps_samples(last):
            _steps_of_predictor(last)
            return head
        return [*head, *_steps(last)]
    if hasattr(estimator, "best_estimator_"):
        return _steps(estimator.best_estimator_)
    if not _maps_samples(estimator):
        _steps_of_predictor(estimator)
        raise TypeError(
            f"{type(estimator).__name__} has not learned a metric. Pass a transformer such as "
            "GenerativeMetric or LMNN, or a pipeline that contains one."
        )
    held = _held_transformer(estimator)
    return [estimator] if held is None else _steps(held)


def _inner_steps(step: Any) -> list[Any]:
    return [] if step is None or step == "passthrough" else _steps(step)


def _steps_of_predictor(predictor: Any) -> None:
    """Raise for a predictor with more than one metric; other predictors are left out of the map."""
    if isinstance(predictor, SEVERAL_METRICS):
        _steps(predictor)


def _held_transformer(estimator: Any) -> Any:
    """Return the fitted transformer that a predictor stores, or None."""
    for name in ("metric_estimator_", "metric_"):
        held = getattr(estimator, name, None)
        if hasattr(held, "transform"):
            return held
    return None


def _maps_samples(estimator: Any) -> bool:
    """Whether the estimator has a map of samples, of its own or of a part that it holds."""
    return (
        hasattr(estimator, "transform")
        or hasattr(estimator, "best_estimator_")
        or isinstance(estimator, Pipeline | FrozenEstimator)
        or _is_matrix(getattr(estimator, "components_", None))
        or _held_transformer(estimator) is not None
    )


def apply_step(step: Any, X: Any) -> FloatArray:
    """Apply one fitted transformer, without warnings about feature names."""
    factor = getattr(step, "components_", None)
    if is_clusterer(step) and _is_matrix(factor):
        # transform of a clusterer returns distances to the centres.
        return np.asarray(finite_samples(X) @ np.asarray(factor, float).T)
    with suppress_warnings(UserWarning, "X (does not have valid|has) feature names"):
        return _dense(step.transform(X))


def map_samples(estimator: Any, X: ArrayLike) -> FloatArray:
    """Map samples to the space of the metric of a fitted estimator.

    Parameters
    ----------
    estimator : object
        Any fitted estimator that :func:`metric_transformer` accepts; it need not be linear.
    X : array-like of shape (n_samples, n_features)
        Samples, in the form the estimator was fitted on.

    Returns
    -------
    ndarray of shape (n_samples, n_components)
        Mapped samples, whose Euclidean distances are the distances of the estimator.

    Examples
    --------
    >>> from genmetric import EnergyClassifier, GenerativeMetric
    >>> from genmetric.inspection import map_samples
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> map_samples(EnergyClassifier(GenerativeMetric()).fit(X, y), X).shape
    (150, 4)
    """
    transformer = metric_transformer(estimator)
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            X = apply_step(step, X)
        return np.asarray(X, float)
    return apply_step(transformer, X)


def check_feature_names(
    names: Sequence[Any] | None, estimator: Any, X: Any, n_features: int
) -> tuple[str, ...]:
    """Return feature names: those given, of the fit, of a DataFrame, or x0, x1, ...

    Parameters
    ----------
    names : sequence or None
        Names passed by the user.
    estimator : object
        A fitted estimator, which may have ``feature_names_in_``.
    X : object
        Samples, which may be a DataFrame with ``columns``.
    n_features : int
        Number of names required.

    Returns
    -------
    tuple of str
        One name per feature.
    """
    if names is None:
        found = getattr(estimator, "feature_names_in_", None)
        names = getattr(X, "columns", None) if found is None else found
    if names is None:
        return tuple(f"x{i}" for i in range(n_features))
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} names for {n_features} features.")
    return tuple(str(name) for name in names)


def finite_samples(X: Any) -> FloatArray:
    """Return samples as a finite two-dimensional float64 array."""
    return np.asarray(check_array(X, dtype=np.float64))


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2


def _dense(Z: Any) -> FloatArray:
    return np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z, dtype=float)

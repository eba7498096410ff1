"""Steps of a fit that are not arithmetic: which rows, which class models."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import as_number
from genmetric.density.covariance import check_shrinkage, estimated_covariance
from genmetric.density.frame import Frame
from genmetric.density.gaussian import (
    ClassGaussians,
    GaussianModel,
    fit_gaussians,
    gaussians_of_covariances,
)
from genmetric.density.models import ClassModels, fit_class_models
from genmetric.density.statistics import ClassStatistics


def gaussian_parameters(estimator: Any) -> tuple[Any, Any]:
    """Shrinkage and covariance estimator of the Gaussians of a metric estimator.

    A `class_model` that is a plain :class:`GaussianModel` is the default model with its own
    parameters, so that everything the default can do (solvers, batches) it can do too.
    """
    if type(estimator.class_model) is GaussianModel:
        estimator = estimator.class_model
    elif estimator.class_model is not None:
        return "auto", None
    shrinkage = check_shrinkage(estimator.shrinkage, estimator.covariance_estimator)
    return shrinkage, estimator.covariance_estimator


def uses_gaussians(estimator: Any) -> bool:
    """Whether the class models of a metric estimator are plain Gaussians."""
    return estimator.class_model is None or type(estimator.class_model) is GaussianModel


def fit_models(
    estimator: Any,
    X: AnyArray,
    codes: IntArray,
    frame: Frame,
    stats: ClassStatistics,
    classes: AnyArray,
    sample_weight: FloatArray | None,
    rng: np.random.RandomState,
) -> tuple[ClassGaussians, ClassModels]:
    """Class models of a metric estimator, in the coordinates of the frame.

    Parameters
    ----------
    estimator : GenerativeMetric
        Its `shrinkage`, `covariance_estimator` and `class_model` say what to fit.
    X : ndarray of shape (n_samples, n_features)
        Rows as they came.
    codes : ndarray of shape (n_samples,)
        Class of each row.
    frame : Frame
        Coordinates.
    stats : ClassStatistics
        Moments of the classes, in the frame.
    classes : ndarray of shape (n_classes,)
        Class names.
    sample_weight : ndarray of shape (n_samples,) or None
        Frequencies.
    rng : RandomState
        Source of chance for class models that need one.

    Returns
    -------
    gaussians : ClassGaussians
        One Gaussian a class.
    models : ClassModels
        The class models; the Gaussians themselves unless a `class_model` says otherwise.
    """
    shrinkage, covariance_estimator = gaussian_parameters(estimator)
    if covariance_estimator is None:
        gaussians = fit_gaussians(stats, shrinkage=shrinkage, classes=classes)
    else:
        covariances = stats.covariances
        for c in range(len(classes)):
            rows = codes == c
            if rows.sum() > 1:
                x = frame.inward(X[rows]) - stats.mean[c]
                weight = None if sample_weight is None else sample_weight[rows]
                covariances[c] = estimated_covariance(covariance_estimator, x, weight)
        gaussians = gaussians_of_covariances(stats, covariances, classes=classes)
    if uses_gaussians(estimator):
        return gaussians, gaussians
    models = fit_class_models(
        estimator.class_model,
        frame.inward(X),
        codes,
        gaussians,
        sample_weight=sample_weight,
        classes=classes,
        rng=rng,
    )
    return gaussians, models


def check_max_samples(max_samples: Any, n_samples: int) -> int | None:
    """Return how many rows to draw out of `n_samples`, or None for all of them."""
    if max_samples is None:
        return None
    number = as_number(max_samples)
    if number is not None:
        if isinstance(max_samples, Integral) and number >= 1:
            return int(number)
        if not isinstance(max_samples, Integral) and 0 < number <= 1:
            return max(1, round(number * n_samples))
    raise ValueError(
        "max_samples must be None, a whole number of at least 1 or a share in (0, 1]; got "
        f"{max_samples!r}."
    )


def draw_rows(
    n_samples: int, n_draws: int | None, weights: FloatArray | None, rng: np.random.RandomState
) -> tuple[IntArray | slice, FloatArray | None]:
    """Rows that the average runs over, and their weights.

    Without weights rows are drawn without replacement. With weights they are drawn with
    replacement, each with probability proportional to its weight, and count once a draw: then the
    mean over the draws is unbiased and its standard error is that of independent draws.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    n_draws : int or None
        How many to draw; ``None`` takes all.
    weights : ndarray of shape (n_samples,) or None
        Weights of the rows; ``None`` is equal weights.
    rng : RandomState
        Source of chance.

    Returns
    -------
    rows : ndarray of int or slice
        Rows, ascending.
    weights : ndarray or None
        Their weights; ``None`` is one each.
    """
    if n_draws is None or (weights is None and n_draws >= n_samples):
        return slice(None), weights
    if weights is None:
        return np.sort(rng.choice(n_samples, n_draws, replace=False)), None
    return np.sort(rng.choice(n_samples, n_draws, p=weights / weights.sum())), None

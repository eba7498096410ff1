"""Class models of a generative metric: their coordinates, and the density of each class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import warn_user
from genmetric.density import Coordinates
from genmetric.density.gaussian import (
    ClassGaussians,
    Shrinkage,
    fit_gaussians,
    pooled_whitening,
)
from genmetric.density.low_rank import LowRankGaussians, fit_low_rank_gaussians, saves_memory
from genmetric.density.models import (
    GaussianModel,
    SeparateModels,
    estimate_covariances,
    fit_class_models,
)
from genmetric.density.statistics import (
    ClassStatistics,
    class_statistics,
    fourth_moments,
    pooled_statistics,
)

Gaussians: TypeAlias = ClassGaussians | LowRankGaussians
Models: TypeAlias = ClassGaussians | LowRankGaussians | SeparateModels


def gaussian_shrinkage(shrinkage: Any, class_model: Any) -> Shrinkage:
    """Return the shrinkage of the class Gaussians: that of a GaussianModel, if one is given."""
    if class_model is None:
        return shrinkage  # type: ignore[no-any-return]
    if isinstance(class_model, GaussianModel):
        class_model._check_parameters()
        return class_model.shrinkage  # type: ignore[no-any-return]
    return "auto"


def fitted_by_statistics(class_model: Any) -> bool:
    """Return whether count, mean and scatter of each class are enough to fit the models."""
    gaussian = isinstance(class_model, GaussianModel) and class_model.covariance_estimator is None
    return class_model is None or gaussian


def to_base(
    base: str, coordinates: Coordinates, stats: ClassStatistics
) -> tuple[Coordinates, ClassStatistics]:
    """Return the coordinates in which the base is the identity, and the statistics there."""
    if base == "identity":
        return coordinates, stats
    whitened = pooled_whitening(stats, coordinates)
    return whitened, stats.moved(coordinates, whitened)


def needs_fourth_moments(base: str, shrinkage: Shrinkage) -> bool:
    """Return whether the shrinkage needs fourth moments in whitened coordinates.

    Unlike count, mean and scatter they do not follow from those before the whitening.
    """
    return base == "pooled" and shrinkage == "auto"


def fit_base_gaussians(
    base: str,
    stats: ClassStatistics,
    shrinkage: Shrinkage,
    classes: AnyArray,
    covariances: FloatArray | None = None,
) -> ClassGaussians:
    """Fit one Gaussian per class from statistics in the coordinates of the base."""
    # In the pooled base the pooled covariance is the identity.
    return fit_gaussians(
        stats,
        shrinkage=shrinkage,
        covariances=covariances,
        classes=classes,
        whitened=base == "pooled",
    )


def fit_models(
    x: AnyArray,
    codes: IntArray,
    classes: AnyArray,
    weight: FloatArray | None,
    *,
    base: str,
    shrinkage: Any,
    class_model: Any,
    allow_low_rank: bool,
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[Coordinates, ClassStatistics, Gaussians, Models]:
    """Fit the density of each class to samples in memory.

    Returns the coordinates of the models, the class statistics there, one Gaussian per class, and
    the models: the Gaussians themselves, unless `class_model` is something else.
    """
    s, streams = gaussian_shrinkage(shrinkage, class_model), fitted_by_statistics(class_model)
    coordinates, n_classes = Coordinates.of(x), len(classes)
    options: dict[str, Any] = {"sample_weight": weight, "n_jobs": n_jobs}
    small = saves_memory(np.bincount(codes), x.shape[1])
    low_rank = allow_low_rank and streams and s not in (None, 0) and small
    count = pooled_statistics if low_rank else class_statistics
    stats = count(x, codes, n_classes, coordinates=coordinates, **options)
    coordinates, stats = to_base(base, coordinates, stats)
    if low_rank:
        low = fit_low_rank_gaussians(
            *(x, codes, n_classes, coordinates),
            shrinkage=s,
            sample_weight=weight,
            classes=classes,
            whitened=base == "pooled",
        )
        return coordinates, stats, low, low
    if needs_fourth_moments(base, s):
        fourth = fourth_moments(x, codes, stats.mean, coordinates, **options)
        stats = replace(stats, fourth=fourth)
    covariances = None
    if isinstance(class_model, GaussianModel) and not streams:
        estimator = class_model.covariance_estimator
        covariances = estimate_covariances(estimator, x, codes, stats, coordinates, weight)
    gaussians = fit_base_gaussians(base, stats, s, classes, covariances)
    if class_model is None or isinstance(class_model, GaussianModel):
        return coordinates, stats, gaussians, gaussians
    models = fit_class_models(
        *(class_model, coordinates.apply(x), codes, gaussians),
        sample_weight=weight,
        classes=classes,
        rng=rng,
    )
    return coordinates, stats, gaussians, models


def sampled_fourth_moments(
    x: AnyArray, codes: IntArray, stats: ClassStatistics, coordinates: Coordinates
) -> FloatArray:
    """Estimate the fourth moments of classes from a random sample of them.

    They are exact while it has all samples. A class without samples in it gets the fourth moment
    of its Gaussian.
    """
    kept = np.bincount(codes, minlength=len(stats.count))
    fourth = fourth_moments(x, codes, stats.mean, coordinates) / np.maximum(kept, 1)
    _, traces, squares, _ = stats.moments
    gaussian = traces**2 + 2 * squares
    return np.asarray(stats.count * np.where(kept > 0, fourth, gaussian))


def warn_unscaled(deviations: FloatArray) -> None:
    """Warn if the standard deviations of the features differ so much that some dominate."""
    # Below rounding a feature is constant.
    deviations = deviations[deviations > 1e-12 * deviations.max(initial=0.0)]
    ratio = deviations.max(initial=1.0) / deviations.min(initial=np.inf)
    if ratio > 100:
        warn_user(
            f"The standard deviations of the features differ by a factor of {ratio:.2g}, and "
            "shrinkage and interpolation regularise towards the Euclidean metric in their units. "
            'Scale the features first, for example by StandardScaler, or use base="pooled".'
        )

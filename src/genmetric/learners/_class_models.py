"""Class models of a metric: which density each class gets, and how it is fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._covariance import Shrinkage, check_shrinkage, estimated_covariance
from genmetric.density._factored_statistics import AnyStatistics, FactoredStatistics
from genmetric.density._gaussian import (
    ClassGaussians,
    GaussianModel,
    fit_gaussians,
    gaussians_of_covariances,
)
from genmetric.density._low_rank import LowRankGaussians, fit_low_rank_gaussians
from genmetric.density._models import ClassModels, fit_class_models
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import ClassStatistics


@dataclass(frozen=True)
class ClassModelSpecification:
    """The density of each class, as specified by the parameters of an estimator.

    Attributes
    ----------
    shrinkage : None, "auto" or float
        Shrinkage of the class covariances.
    covariance_estimator : estimator or None
        Estimator that replaces the shrinkage.
    class_model : estimator or None
        Density model of a class; None for one Gaussian.
    """

    shrinkage: Shrinkage = "auto"
    covariance_estimator: Any = None
    class_model: Any = None

    @classmethod
    def of(cls, shrinkage: Any, class_model: Any = None) -> ClassModelSpecification:
        """Validate the parameters of an estimator.

        A `class_model` that is a :class:`~genmetric.GaussianModel` is the default model with other
        parameters, so that all solvers and batches are available for it too.
        """
        if class_model is None:
            return cls(check_shrinkage(shrinkage))
        if type(class_model) is not GaussianModel:
            return cls(class_model=class_model)
        estimator = class_model.covariance_estimator
        return cls(check_shrinkage(class_model.shrinkage, estimator), estimator)

    @property
    def is_gaussian(self) -> bool:
        """Whether each class is one Gaussian."""
        return self.class_model is None

    @property
    def streams(self) -> bool:
        """Whether class statistics are enough to fit the models."""
        return self.class_model is None and self.covariance_estimator is None


#: One Gaussian per class, in either representation.
AnyGaussians: TypeAlias = ClassGaussians | LowRankGaussians


def fit_statistics(
    shrinkage: Shrinkage,
    stats: AnyStatistics,
    classes: AnyArray | None,
    stand_in: FloatArray | None = None,
) -> AnyGaussians:
    """Fit one Gaussian per class from statistics; the representation is that of the statistics."""
    if isinstance(stats, FactoredStatistics):
        return fit_low_rank_gaussians(
            stats, shrinkage=shrinkage, classes=classes, stand_in=stand_in
        )
    return fit_gaussians(stats, shrinkage=shrinkage, classes=classes, stand_in=stand_in)


def fit_class_gaussians(
    spec: ClassModelSpecification,
    X: AnyArray,
    codes: IntArray,
    frame: Scaling,
    stats: ClassStatistics,
    classes: AnyArray | None,
    sample_weight: FloatArray | None,
    stand_in: FloatArray | None = None,
) -> ClassGaussians:
    """Fit one Gaussian per class; see :func:`fit_models`."""
    if spec.covariance_estimator is None:
        return fit_gaussians(stats, shrinkage=spec.shrinkage, classes=classes, stand_in=stand_in)
    covariances = stats.covariances
    for c in range(len(covariances)):
        rows = codes == c
        if rows.sum() > 1:
            x = frame.apply(X[rows]) - stats.mean[c]
            weight = None if sample_weight is None else sample_weight[rows]
            covariances[c] = estimated_covariance(spec.covariance_estimator, x, weight)
    return gaussians_of_covariances(stats, covariances, classes=classes, stand_in=stand_in)


def fit_models(
    spec: ClassModelSpecification,
    X: AnyArray,
    codes: IntArray,
    frame: Scaling,
    stats: ClassStatistics,
    classes: AnyArray,
    sample_weight: FloatArray | None,
    rng: np.random.RandomState,
    stand_in: FloatArray | None = None,
) -> tuple[ClassGaussians, ClassModels]:
    """Fit the class models in the coordinates of the frame.

    Parameters
    ----------
    spec : ClassModelSpecification
        Density of each class.
    X : ndarray of shape (n_samples, n_features)
        Samples in input space.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    frame : Scaling
        Coordinates of the models.
    stats : ClassStatistics
        Moments of the classes, in the coordinates of `frame`.
    classes : ndarray of shape (n_classes,)
        Class names, for warnings.
    sample_weight : ndarray of shape (n_samples,) or None
        Frequencies.
    rng : RandomState
        Draws the seeds of class models whose `random_state` is None.
    stand_in : ndarray of shape (n_features, n_features), default=None
        Covariance of classes with a single sample; None for the pooled one.

    Returns
    -------
    gaussians : ClassGaussians
        One Gaussian per class.
    models : ClassModels
        The class models; the Gaussians themselves unless the specification has a `class_model`.
    """
    gaussians = fit_class_gaussians(spec, X, codes, frame, stats, classes, sample_weight, stand_in)
    if spec.is_gaussian:
        return gaussians, gaussians
    models = fit_class_models(
        spec.class_model,
        frame.apply(X),
        codes,
        gaussians,
        sample_weight=sample_weight,
        classes=classes,
        rng=rng,
    )
    return gaussians, models

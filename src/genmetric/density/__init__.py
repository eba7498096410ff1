"""Class models: log-density, gradient and curvature of each class.

`coordinates` centres, scales and whitens samples, `statistics` holds the mergeable sums,
`gaussian` and `low_rank` the Gaussians of all classes, `models` the estimators of the density of
one class, and `kernel` the density for KDE weights.
"""

from typing import TypeAlias

from genmetric.density.coordinates import Coordinates
from genmetric.density.gaussian import ClassGaussians, fit_gaussians
from genmetric.density.low_rank import LowRankGaussians
from genmetric.density.models import (
    GaussianMixtureModel,
    GaussianModel,
    JointDensity,
    SeparateModels,
    fit_class_models,
)
from genmetric.density.statistics import ClassStatistics, class_statistics

#: The class models of all classes, in any form.
ClassModels: TypeAlias = ClassGaussians | LowRankGaussians | SeparateModels

__all__ = [
    "ClassGaussians",
    "ClassModels",
    "ClassStatistics",
    "Coordinates",
    "GaussianMixtureModel",
    "GaussianModel",
    "JointDensity",
    "LowRankGaussians",
    "SeparateModels",
    "class_statistics",
    "fit_class_models",
    "fit_gaussians",
]

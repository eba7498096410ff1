"""Class models: log-density, gradient and curvature of each class.

`statistics` centres and scales samples and holds the mergeable sums of each class, `gaussian` and
`low_rank` contain the Gaussians of all classes, `models` contains the estimators of the density of
one class, and `kernel` contains the density for KDE weights.
"""

from typing import TypeAlias

from genmetric.density.gaussian import ClassGaussians, fit_gaussians
from genmetric.density.low_rank import LowRankGaussians
from genmetric.density.models import (
    GaussianMixtureModel,
    GaussianModel,
    JointDensity,
    SeparateModels,
)
from genmetric.density.statistics import ClassStatistics, Coordinates, class_statistics

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
    "fit_gaussians",
]

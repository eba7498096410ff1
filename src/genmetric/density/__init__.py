"""Class models: log-density, gradient and curvature of each class.

`coordinates` centres, scales and whitens samples, `statistics` holds the mergeable sums,
`covariance` the shrinkage, `gaussian`, `mixture` and `low_rank` the models, and `kernel` the
density for KDE weights.
"""

from typing import TypeAlias

from genmetric.density.coordinates import Coordinates
from genmetric.density.gaussian import (
    ClassGaussians,
    GaussianModel,
    SeparateModels,
    fit_class_models,
    fit_gaussians,
)
from genmetric.density.low_rank import LowRankGaussians
from genmetric.density.mixture import GaussianMixtureModel, JointDensity
from genmetric.density.statistics import ClassStatistics, class_statistics, merge_statistics

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
    "merge_statistics",
]

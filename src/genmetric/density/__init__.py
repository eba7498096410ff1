"""Class models: log-density, gradient and curvature of each class.

`_statistics` holds the mergeable sums, `_covariance` the shrinkage, `_gaussian` and `_mixture` the
models, and `_models` the interface to a set of models of any kind, one per class.
"""

from genmetric.density._gaussian import ClassGaussians, GaussianModel, fit_gaussians
from genmetric.density._joint import JointDensity
from genmetric.density._mixture import GaussianMixtureModel
from genmetric.density._models import ClassModels, DensityModel, SeparateModels, fit_class_models
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import ClassStatistics, class_statistics, merge_statistics

__all__ = [
    "ClassGaussians",
    "ClassModels",
    "ClassStatistics",
    "DensityModel",
    "GaussianMixtureModel",
    "GaussianModel",
    "JointDensity",
    "Scaling",
    "SeparateModels",
    "class_statistics",
    "fit_class_models",
    "fit_gaussians",
    "merge_statistics",
]

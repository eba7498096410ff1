"""Class models: log-density, gradient and curvature of each class.

Layer one: rows become a density a class. `statistics` holds the sums, `covariance` the shrinkage,
`gaussian`, `mixture` and `factor_model` the models, `models` puts models of any kind side by side.
"""

from genmetric.density.factor_model import FactorModel
from genmetric.density.frame import Frame
from genmetric.density.gaussian import ClassGaussians, GaussianModel, fit_gaussians
from genmetric.density.mixture import GaussianMixtureModel
from genmetric.density.models import ClassModels, DensityModel, SeparateModels, fit_class_models
from genmetric.density.statistics import ClassStatistics, class_statistics, merge_statistics

__all__ = [
    "ClassGaussians",
    "ClassModels",
    "ClassStatistics",
    "DensityModel",
    "FactorModel",
    "Frame",
    "GaussianMixtureModel",
    "GaussianModel",
    "SeparateModels",
    "class_statistics",
    "fit_class_models",
    "fit_gaussians",
    "merge_statistics",
]

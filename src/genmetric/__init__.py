"""Distances learned in closed form: generative local metrics for scikit-learn."""

from importlib.metadata import version

from genmetric.density import GaussianMixtureModel, GaussianModel
from genmetric.metric import GenerativeMetric

__version__ = version("genmetric")

__all__ = [
    "GaussianMixtureModel",
    "GaussianModel",
    "GenerativeMetric",
    "__version__",
]

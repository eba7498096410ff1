"""Distances learned in closed form: generative local metrics for scikit-learn."""

from importlib.metadata import version

from genmetric.cluster import MetricKMeans
from genmetric.density import GaussianMixtureModel, GaussianModel
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier, metric_kernel
from genmetric.lmnn import LMNN
from genmetric.metric import GenerativeMetric
from genmetric.neighbors import EnergyClassifier, LocalMetricClassifier

__version__ = version("genmetric")

__all__ = [
    "LMNN",
    "EnergyClassifier",
    "GaussianMixtureModel",
    "GaussianModel",
    "GenerativeMetric",
    "LocalMetricClassifier",
    "MetricKMeans",
    "RegionalKernels",
    "SimpleMKLClassifier",
    "__version__",
    "metric_kernel",
]

"""Distances learned in closed form: generative local metrics for scikit-learn.

A public name is imported from its home below when it is first used: importing scikit-learn takes
a second, which ``genmetric --help`` must not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genmetric.cluster import MetricKMeans as MetricKMeans
    from genmetric.comparison import compare_metrics as compare_metrics
    from genmetric.density import GaussianMixtureModel as GaussianMixtureModel
    from genmetric.density import GaussianModel as GaussianModel
    from genmetric.files import TRUSTED_TYPES as TRUSTED_TYPES
    from genmetric.files import load as load
    from genmetric.files import save as save
    from genmetric.kernels import RegionalKernels as RegionalKernels
    from genmetric.kernels import SimpleMKLClassifier as SimpleMKLClassifier
    from genmetric.kernels import metric_kernel as metric_kernel
    from genmetric.learners import LMNN as LMNN
    from genmetric.learners import MLKR as MLKR
    from genmetric.learners import EmbeddingAdapter as EmbeddingAdapter
    from genmetric.learners import GaussianMixtureWeights as GaussianMixtureWeights
    from genmetric.learners import GenerativeMetric as GenerativeMetric
    from genmetric.learners import GenerativeMetricCV as GenerativeMetricCV
    from genmetric.learners import GenerativeRegressionMetric as GenerativeRegressionMetric
    from genmetric.learners import GenerativeRegressionMetricCV as GenerativeRegressionMetricCV
    from genmetric.learners import KernelDensityWeights as KernelDensityWeights
    from genmetric.learners import PairClassifier as PairClassifier
    from genmetric.neighbors import EnergyClassifier as EnergyClassifier
    from genmetric.neighbors import FaissNeighborsTransformer as FaissNeighborsTransformer
    from genmetric.neighbors import KernelRegressor as KernelRegressor
    from genmetric.neighbors import LocalMetricClassifier as LocalMetricClassifier

    __version__: str

#: Where the public names live.
_NAMES = {
    "cluster": "MetricKMeans",
    "comparison": "compare_metrics",
    "density": "GaussianMixtureModel GaussianModel",
    "files": "TRUSTED_TYPES load save",
    "kernels": "RegionalKernels SimpleMKLClassifier metric_kernel",
    "learners": "EmbeddingAdapter GaussianMixtureWeights GenerativeMetric GenerativeMetricCV "
    "GenerativeRegressionMetric GenerativeRegressionMetricCV KernelDensityWeights LMNN MLKR "
    "PairClassifier",
    "neighbors": "EnergyClassifier FaissNeighborsTransformer KernelRegressor LocalMetricClassifier",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

#: Public modules, imported as attributes too.
_MODULES = {"comparison", "dask", "datasets", "files", "inspection"}
_MODULES |= {"metrics", "onnx", "plot", "report", "tables"}

__all__ = sorted([*_HOMES, "__version__"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import a public name from its home, once."""
    value: Any
    if name == "__version__":
        from importlib.metadata import version

        value = version("genmetric")
    elif name in _HOMES:
        value = getattr(import_module(f"genmetric.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"genmetric.{name}")
    else:
        raise AttributeError(f"module 'genmetric' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Public names and modules, imported or not."""
    return sorted({*globals(), *__all__, *_MODULES})

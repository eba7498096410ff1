"""The classes that a model file may hold: a file names them, and only these are ever imported."""

from __future__ import annotations

from importlib import import_module

#: Classes of genmetric by the module they are defined in.
_OWN = {
    "cluster.metric_kmeans": ["MetricKMeans"],
    "density.factor_model": ["FactorModel"],
    "density.frame": ["Frame"],
    "density.gaussian": ["ClassGaussians", "GaussianDensity", "GaussianModel"],
    "density.low_rank": ["LowRankGaussian"],
    "density.mixture": ["GaussianMixtureModel"],
    "density.models": ["SeparateModels"],
    "density.statistics": ["ClassStatistics"],
    "kernels.metric_kernel": ["MetricKernel"],
    "kernels.regional": ["RegionalKernels"],
    "kernels.simplemkl": ["MKLStep"],
    "kernels.simplemkl_classifier": ["SimpleMKLClassifier"],
    "lmnn.lmnn": ["LMNN"],
    "metric.generative": ["GenerativeMetric"],
    "metric.reservoir": ["Reservoir"],
    "metric.selection": ["GenerativeMetricCV"],
    "metric.streaming": ["ClassTally"],
    "neighbors.class_rows": ["ClassRows"],
    "neighbors.energy": ["EnergyModel"],
    "neighbors.energy_classifier": ["EnergyClassifier"],
    "neighbors.local": ["LocalMetricClassifier"],
    "neighbors.local_search": ["SearchRows"],
}

#: Classes of scikit-learn, by the public module they are imported from, whose fitted state is
#: arrays, numbers and strings.
_SKLEARN = {
    "compose": ["ColumnTransformer"],
    "covariance": ["EmpiricalCovariance", "LedoitWolf", "OAS", "ShrunkCovariance"],
    "decomposition": ["PCA"],
    "discriminant_analysis": ["LinearDiscriminantAnalysis", "QuadraticDiscriminantAnalysis"],
    "feature_selection": ["VarianceThreshold"],
    "frozen": ["FrozenEstimator"],
    "impute": ["MissingIndicator", "SimpleImputer"],
    "linear_model": ["LogisticRegression"],
    "naive_bayes": ["GaussianNB"],
    "neighbors": ["KNeighborsClassifier", "NearestNeighbors", "NeighborhoodComponentsAnalysis"],
    "pipeline": ["Pipeline"],
    "preprocessing": [
        "FunctionTransformer",
        "MaxAbsScaler",
        "MinMaxScaler",
        "Normalizer",
        "OneHotEncoder",
        "OrdinalEncoder",
        "RobustScaler",
        "StandardScaler",
    ],
}

#: Module of each class, by the name it has in files.
HOMES = {
    f"{package}.{name}": f"{package}.{module}"
    for package, modules in (("genmetric", _OWN), ("sklearn", _SKLEARN))
    for module, names in modules.items()
    for name in names
}

#: Types for ``skops.io.load(path, trusted=genmetric.TRUSTED_TYPES)``: those of genmetric, and
#: NumPy's description of a type, which LocalMetricClassifier keeps.
TRUSTED_TYPES = sorted(
    [f"genmetric.{module}.{name}" for module, names in _OWN.items() for name in names]
    + ["numpy.dtype"]
)


def class_named(name: str) -> type:
    """Import the class that a file names.

    Parameters
    ----------
    name : str
        As in :data:`HOMES`.

    Returns
    -------
    type
        The class.

    Raises
    ------
    KeyError
        Where the name is none of the allowed ones.
    """
    found = getattr(import_module(HOMES[name]), name.partition(".")[2])
    assert isinstance(found, type)
    return found


def name_of(cls: type) -> str | None:
    """The name of a class in files, or None where it may not be in one.

    A class that merely has the name of an allowed one, or derives from it, is another class.
    """
    name = f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"
    return name if name in HOMES and class_named(name) is cls else None

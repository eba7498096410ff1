"""The registry of savable classes: what a model file may hold, and how it is written and rebuilt.

A file names a class; only the classes in :data:`SAVABLE` are ever imported. Each has a form, which
gives the parts that are written and rebuilds the object from them. Importing this module does not
import scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TypeAlias

from genmetric.files._column_forms import FittedColumns
from genmetric.files._estimators import EstimatorForm
from genmetric.files._neighbor_forms import FittedNeighbors
from genmetric.files._own_forms import OwnEstimator, OwnRecord
from genmetric.files._sklearn_forms import (
    CategoryEncoder,
    Imputer,
    Indicator,
    LinearDiscriminant,
    ParametersOnly,
    PublicAttributes,
)

#: How objects of a class are written and rebuilt.
Form: TypeAlias = EstimatorForm | OwnRecord


@dataclass(frozen=True)
class Savable:
    """One entry of the registry.

    Attributes
    ----------
    module : str
        Module that the class is imported from.
    form : Form
        How objects of the class are written and rebuilt.
    """

    module: str
    form: Form


#: Classes of genmetric by the module in which they are defined.
_OWN: dict[str, dict[str, Form]] = {
    "cluster": {"MetricKMeans": OwnEstimator()},
    "density._scaling": {"Scaling": OwnRecord()},
    "density._gaussian": {
        "ClassGaussians": OwnRecord(),
        "GaussianDensity": OwnRecord(),
        "GaussianModel": OwnEstimator(),
    },
    "density._joint": {"JointDensity": OwnRecord()},
    "density._mixture": {"GaussianMixtureModel": OwnEstimator()},
    "density._low_rank": {"LowRankGaussians": OwnRecord()},
    "density._models": {"SeparateModels": OwnRecord()},
    "density._mixed_statistics": {"MixedStatistics": OwnRecord()},
    "density._statistics": {"ClassStatistics": OwnRecord()},
    "density._two_covariance": {"PooledMoments": OwnRecord()},
    "density._whitening": {"Whitening": OwnRecord()},
    "experimental._factor_model": {
        "FactorModel": OwnEstimator(),
        "LowRankGaussian": OwnRecord(),
    },
    "kernels.metric_kernel": {"MetricKernel": OwnRecord()},
    "kernels.regional": {"RegionalKernels": OwnEstimator()},
    "kernels.simplemkl": {"MKLStep": OwnRecord()},
    "kernels.classifier": {"SimpleMKLClassifier": OwnEstimator()},
    "metric._lmnn.estimator": {"LMNN": OwnEstimator()},
    "metric._mlkr": {"MLKR": OwnEstimator()},
    "metric._combination": {
        "GaussianMixtureWeights": OwnEstimator(),
        "KernelDensityWeights": OwnEstimator(),
    },
    "metric._embedding": {"EmbeddingAdapter": OwnEstimator()},
    "metric._generative": {"GenerativeMetric": OwnEstimator()},
    "metric._regression_cv": {"GenerativeRegressionMetricCV": OwnEstimator()},
    "metric._regression_metric": {"GenerativeRegressionMetric": OwnEstimator()},
    "metric._reservoir": {"Reservoir": OwnRecord()},
    "metric._selection": {"GenerativeMetricCV": OwnEstimator()},
    "metric._streaming": {"ClassTally": OwnRecord()},
    "neighbors._class_rows": {"ClassRows": OwnRecord()},
    "neighbors._energy": {"EnergyModel": OwnRecord()},
    "neighbors._energy_classifier": {"EnergyClassifier": OwnEstimator()},
    "neighbors._kernel_regressor": {"KernelRegressor": OwnEstimator()},
    "neighbors._local_classifier": {"LocalMetricClassifier": OwnEstimator()},
    "neighbors._local_search": {"SearchRows": OwnRecord()},
    "tables._encoders": {
        name: OwnEstimator(cells=True)
        for name in ("BooleanParser", "CategoryPooler", "NumberParser")
    },
    "tables._expanders": {
        name: OwnEstimator(cells=True) for name in ("DateEncoder", "VectorExpander")
    },
}

_COVARIANCE = {"location_": "d", "covariance_": "d d", "precision_": "d d?"}

#: Classes of scikit-learn by the public module that they are imported from. The letters are the
#: dimensions of an attribute: equal letters are equal numbers, d is `n_features_in_`, an empty text
#: is a scalar, and "?" marks attributes that can be None.
_SKLEARN: dict[str, dict[str, Form]] = {
    "compose": {"ColumnTransformer": FittedColumns()},
    "covariance": {
        "EmpiricalCovariance": PublicAttributes(_COVARIANCE),
        "LedoitWolf": PublicAttributes({**_COVARIANCE, "shrinkage_": ""}),
        "OAS": PublicAttributes({**_COVARIANCE, "shrinkage_": ""}),
        "ShrunkCovariance": PublicAttributes(_COVARIANCE),
    },
    "decomposition": {
        "PCA": PublicAttributes(
            {
                "components_": "k d",
                "explained_variance_": "k",
                "explained_variance_ratio_": "k",
                "singular_values_": "k",
                "mean_": "d",
                "n_components_": "",
                "n_samples_": "",
                "noise_variance_": "",
            }
        )
    },
    "discriminant_analysis": {
        "LinearDiscriminantAnalysis": LinearDiscriminant(),
        "QuadraticDiscriminantAnalysis": PublicAttributes(
            {
                "classes_": "c",
                "priors_": "c",
                "means_": "c d",
                "rotations_": "[c]",
                "scalings_": "[c]",
                "covariance_": "[c]",
            }
        ),
    },
    "feature_selection": {"VarianceThreshold": PublicAttributes({"variances_": "d"})},
    "frozen": {"FrozenEstimator": ParametersOnly()},
    "impute": {"MissingIndicator": Indicator(), "SimpleImputer": Imputer()},
    "linear_model": {
        "LogisticRegression": PublicAttributes(
            {"classes_": "c", "coef_": "m d", "intercept_": "m", "n_iter_": "i"}
        ),
        "Ridge": PublicAttributes(
            {"coef_": "d", "intercept_": "", "n_iter_": "?", "solver_": "text"}
        ),
        "RidgeCV": PublicAttributes(
            {"coef_": "d", "intercept_": "", "alpha_": "", "best_score_": ""}
        ),
    },
    "naive_bayes": {
        "GaussianNB": PublicAttributes(
            {
                "classes_": "c",
                "class_count_": "c",
                "class_prior_": "c",
                "theta_": "c d",
                "var_": "c d",
                "epsilon_": "",
            }
        )
    },
    "neighbors": {
        "KNeighborsClassifier": FittedNeighbors("classes"),
        "KNeighborsRegressor": FittedNeighbors("numbers"),
        "NearestNeighbors": FittedNeighbors(None),
        "NeighborhoodComponentsAnalysis": PublicAttributes({"components_": "k d", "n_iter_": ""}),
    },
    "pipeline": {"Pipeline": ParametersOnly()},
    "preprocessing": {
        "FunctionTransformer": PublicAttributes({}),
        "MaxAbsScaler": PublicAttributes(
            {"scale_": "d", "max_abs_": "d", "n_samples_seen_": ""},
        ),
        "MinMaxScaler": PublicAttributes(
            {
                "min_": "d",
                "scale_": "d",
                "data_min_": "d",
                "data_max_": "d",
                "data_range_": "d",
                "n_samples_seen_": "",
            }
        ),
        "Normalizer": PublicAttributes({}),
        "OneHotEncoder": CategoryEncoder(),
        "OrdinalEncoder": CategoryEncoder(),
        "RobustScaler": PublicAttributes({"center_": "d?", "scale_": "d?"}),
        "StandardScaler": PublicAttributes(
            {"mean_": "d?", "var_": "d?", "scale_": "d?", "n_samples_seen_": "|d"}
        ),
    },
}

#: The registry: entries by the name that a class has in files.
SAVABLE = {
    f"{package}.{name}": Savable(f"{package}.{module}", form)
    for package, modules in (("genmetric", _OWN), ("sklearn", _SKLEARN))
    for module, classes in modules.items()
    for name, form in classes.items()
}

#: Types for ``skops.io.load(path, trusted=genmetric.TRUSTED_TYPES)``: the classes of genmetric, and
#: NumPy's description of a type, which LocalMetricClassifier stores.
TRUSTED_TYPES = sorted(
    [f"genmetric.{module}.{name}" for module, classes in _OWN.items() for name in classes]
    + ["numpy.dtype"]
)


def class_named(name: str) -> type:
    """Import a class by the name that it has in files.

    Parameters
    ----------
    name : str
        A key of :data:`SAVABLE`.

    Returns
    -------
    type
        The class.
    """
    found = getattr(import_module(SAVABLE[name].module), name.partition(".")[2])
    assert isinstance(found, type)
    return found


def name_of(cls: type) -> str | None:
    """Return the name of a class in files, or None if it is not in the registry.

    Subclasses of a registered class, and other classes of the same name, are not in the registry.
    """
    name = f"{cls.__module__.partition('.')[0]}.{cls.__qualname__}"
    return name if name in SAVABLE and class_named(name) is cls else None

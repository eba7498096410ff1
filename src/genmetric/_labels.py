"""Class labels: errors and warnings that name the estimators for numeric targets."""

from __future__ import annotations

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from genmetric._quantity import is_quantity
from genmetric._typing import AnyArray
from genmetric._warnings import warn_user

#: Estimators for numeric targets, by the estimators for classes.
FOR_NUMBERS = {
    "GenerativeMetric": "GenerativeRegressionMetric",
    "GenerativeMetricCV": "GenerativeRegressionMetricCV",
    "DaskGenerativeMetric": "GenerativeRegressionMetric",
    "EmbeddingAdapter": "GenerativeRegressionMetric",
    "LMNN": "MLKR",
    "LocalMetricClassifier": "KernelRegressor",
    "EnergyClassifier": "KernelRegressor",
}


def check_class_labels(labels: AnyArray, name: str, instead: str | None = None) -> None:
    """Raise a ValueError if labels are not classes; it names the estimator for numeric targets.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Class labels as passed.
    name : str
        Name of the estimator in the error.
    instead : str, default=None
        What to use for numeric targets; by default the estimator that corresponds to `name`, or a
        regression metric and a regressor.
    """
    try:
        check_classification_targets(labels)
    except ValueError as error:
        if not type_of_target(labels).startswith("continuous"):
            raise
        if instead is None and name in FOR_NUMBERS:
            instead = f"genmetric.{FOR_NUMBERS[name]}"
        instead = instead or "genmetric.GenerativeRegressionMetric and a regressor"
        fraction = labels[labels != np.floor(labels)][0]
        # The first words are those of scikit-learn, which its checks of estimators look for.
        raise ValueError(
            f"Unknown label type: continuous. {name} expects class labels; got numbers with "
            f"fractions, such as {fraction:g}. For numeric targets use {instead}. If each number is "
            "the name of a class, pass y.astype(str)."
        ) from error


def warn_about_quantities(labels: AnyArray, name: str) -> None:
    """Warn if class labels are floats that hardly repeat, such as the target of a regression.

    Integers may be identifiers of thousands of classes; floats, such as 151.0, hardly are.

    Parameters
    ----------
    labels : ndarray of shape (n_samples,)
        Class labels of all samples.
    name : str
        Name of the estimator in the warning.
    """
    if labels.dtype.kind == "f" and is_quantity(labels):
        warn_user(
            f"y has {len(np.unique(labels))} distinct numbers in {len(labels)} samples, each of "
            f"which is a class for {name}. For numeric targets use "
            f"genmetric.{FOR_NUMBERS.get(name, 'GenerativeRegressionMetric')}; if the numbers are "
            "names of classes, pass integers."
        )

"""Names and descriptions of the methods of a comparison, and advice on names of scores.

They are apart from the registry of :mod:`genmetric.comparison`, so that the help of a command does
not import the estimators, which takes a second.
"""

from __future__ import annotations

from typing import NamedTuple


class MethodText(NamedTuple):
    """How a method is presented.

    Attributes
    ----------
    label : str
        Name in tables.
    description : str
        One sentence.
    distance : bool
        Whether the method is, or uses, a distance between samples.
    """

    label: str
    description: str
    distance: bool = True


#: Texts of all methods by key, in the order in which they are listed.
METHOD_TEXTS = {
    "majority": MethodText(
        "majority class",
        "Always predicts the most frequent class: the error of a classifier that ignores the "
        "features.",
        distance=False,
    ),
    "mean": MethodText(
        "mean of the targets",
        "Always predicts the mean of the targets: the error of a regressor that ignores the "
        "features.",
        distance=False,
    ),
    "euclidean": MethodText(
        "Euclidean distance",
        "Nearest neighbours by Euclidean distance between the features in their own units.",
    ),
    "standardised": MethodText(
        "Euclidean distance, standardised",
        "Nearest neighbours by Euclidean distance between features scaled to unit variance.",
    ),
    "lda": MethodText(
        "linear discriminant analysis",
        "Linear discriminant analysis with a Ledoit-Wolf estimate of the common covariance.",
    ),
    "nca": MethodText(
        "NCA",
        "Neighbourhood components analysis: a metric found by gradient ascent on the expected"
        " leave-one-out accuracy of soft nearest neighbours.",
    ),
    "lmnn": MethodText(
        "LMNN",
        "Large margin nearest neighbours: a metric found by minimising a hinge loss over "
        "triplets of samples.",
    ),
    "uniform": MethodText(
        "generative metric",
        "The average of the local metrics that remove the leading bias of the nearest-"
        "neighbour error under Gaussian class densities, in closed form.",
    ),
    "kde": MethodText(
        "generative metric, KDE-weighted",
        "The generative metric with local metrics weighted by a kernel density estimate, so "
        "that dense regions count more.",
    ),
    "gmm": MethodText(
        "generative metric, mixture-weighted",
        "The generative metric with local metrics weighted by a Gaussian mixture density.",
    ),
    "cv": MethodText(
        "generative metric, tuned",
        "The generative metric with its regularisation selected by cross-validation.",
    ),
    "local": MethodText(
        "local metrics",
        "Nearest neighbours under a separate local metric for each query.",
    ),
    "energy": MethodText(
        "energy, generative metric",
        "Classification by the lowest energy instead of a majority vote, under the generative"
        " metric.",
    ),
    "mkl": MethodText(
        "regional kernels",
        "A support vector machine with a learned combination of Gaussian kernels of metrics "
        "that belong to regions of the feature space.",
    ),
    "regression": MethodText(
        "generative regression metric",
        "The average of local metrics of slices of the target and of the local metrics that "
        "remove the first-order bias of kernel regression, in closed form.",
    ),
    "regression_cv": MethodText(
        "generative regression metric, tuned",
        "The generative regression metric with its local metrics and regularisation selected "
        "by cross-validation.",
    ),
    "kernel_regression": MethodText(
        "generative kernel regression",
        "The average of all training targets, weighted by a Gaussian of the distance under "
        "the generative regression metric.",
    ),
    "mlkr": MethodText(
        "MLKR",
        "Metric learning for kernel regression: a metric found by gradient descent on the "
        "leave-one-out error of kernel regression.",
    ),
    "ridge": MethodText(
        "ridge regression",
        "Ridge regression on standardised features, its penalty selected by leave-one-out.",
        distance=False,
    ),
    "logistic": MethodText(
        "logistic regression",
        "Logistic regression on standardised features.",
        distance=False,
    ),
    "boosting": MethodText(
        "gradient boosting",
        "Gradient-boosted decision trees.",
        distance=False,
    ),
}

#: What to use instead of scores with other names, by task.
SCORE_ADVICE = {
    "classification": {
        "accuracy": "Use error (100% minus accuracy).",
        "balanced_accuracy": "Use balanced_error (100% minus balanced accuracy).",
        "auc": "Did you mean roc_auc?",
        "f1": "Did you mean f1_macro?",
    },
    "regression": {
        "rmse": "Use mae (mean absolute error) or r2.",
        "mse": "Use mae (mean absolute error) or r2.",
    },
}

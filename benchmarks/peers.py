"""Other methods: time of a fit, and error of nearest neighbours after it."""

import warnings

import numpy as np
from measure import Table, mnist_pca, progress, seconds, short
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

from genmetric import GenerativeMetric
from genmetric.datasets import load_letter


class _Plain:
    """No metric at all."""

    def fit(self, X, y):
        return self

    def transform(self, X):
        return X


def _sets():
    X, y = load_letter(return_X_y=True)
    X = X / 7.5 - 1
    order = np.random.default_rng(0).permutation(len(X))
    yield "Letters", X[order[:4000]], y[order[:4000]], X[order[4000:]], y[order[4000:]]
    digits = mnist_pca(40)
    if digits is not None:
        X, y = digits
        order = np.random.default_rng(0).permutation(len(X))
        train, test = order[:4000], order[50_000:]
        yield "MNIST-PCA-40", X[train], y[train], X[test], y[test]


def peers():
    """Fit on 4000 training samples; error of 3 nearest neighbours on the others."""
    table = Table(
        "Other methods on 4000 training samples, error of 3 nearest neighbours",
        ["data", "method", "fit, s", "relative to GenerativeMetric", "error, %"],
    )
    for name, X, y, X_test, y_test in _sets():
        methods = {
            "GenerativeMetric": GenerativeMetric(),
            "GenerativeMetric, max_samples=1000": GenerativeMetric(
                max_samples=1000, random_state=0
            ),
            "Euclidean": _Plain(),
            "LDA": LinearDiscriminantAnalysis(),
            "QDA (only its fit)": QuadraticDiscriminantAnalysis(),
            "NCA (defaults)": NeighborhoodComponentsAnalysis(random_state=0),
        }
        ours = None
        for method, model in methods.items():
            progress(f"{name}, {method}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                took = seconds(lambda m=model, X=X, y=y: m.fit(X, y), 1 if "NCA" in method else 3)
            ours = took if ours is None else ours
            if hasattr(model, "transform"):
                knn = KNeighborsClassifier(3).fit(model.transform(X), y)
                error = f"{100 * (1 - knn.score(model.transform(X_test), y_test)):.2f}"
            else:
                error = f"({100 * (1 - model.score(X_test, y_test)):.2f} as a classifier)"
            ratio = "" if method == "Euclidean" else f"{short(took / ours)}x"
            table.add(name, method, short(took), ratio, error)
    return table

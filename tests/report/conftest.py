"""One report for all tests of reports, with names that need escaping."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.comparison import Comparison, MethodResult
from genmetric.report import write_report

FEATURES = (
    "<script>alert('feature')</script>",
    "a" * 300,
    "日本語の特徴",
    "$x_1^2$ \\frac",
    "_hidden",
    "right \u202eleft\u2066",
    'quote" onload="alert(1)',
    "{{ 7 * 7 }}",
)
REPORT = {
    "metric_name": "generative metric",
    "glossary": {"generative metric": "An average of local metrics.", "other": "Not shown."},
    "command": "genmetric fit wine.csv --target '<class>'",
}
CLASSES = ("<script>alert('class')</script>", "_under", "L" * 200)


def make_comparison(X, y, **changes):
    """Create a comparison on the samples with made-up results; "uniform" is recommended."""
    rng = np.random.default_rng(0)
    methods = {
        "majority": "majority class",
        "standardised": "Euclidean distance, standardised",
        "uniform": "generative metric",
        "odd": "<img src=x onerror=alert(1)>",
    }
    n_classes = len(np.unique(y))
    confusion = rng.integers(0, 9, (n_classes, n_classes)) + 30 * np.eye(n_classes, dtype=int)
    results = [
        MethodResult(
            name,
            rng.uniform(0.1, 0.3, 5) + 0.2 * (key == "majority"),
            rng.uniform(0.01, 2, 5),
            rng.uniform(0.001, 0.1, 5),
            ({"n_neighbors": 5, "shrinkage": 0.12345678},) * 5,
            key=key,
            confusion=confusion,
            distance=key != "majority",
        )
        for key, name in methods.items()
    ]
    ks = np.array([1, 3, 5, 9, 21])
    facts = {
        "title": "wine <b>& cheese</b>",
        "n_samples": len(X),
        "n_features": X.shape[1],
        "feature_names": FEATURES[: X.shape[1]],
        "class_names": CLASSES[:n_classes],
        "class_counts": np.unique(y, return_counts=True)[1],
        "results": (*results, MethodResult.left_out("NCA", "about 900 s per fold", key="nca")),
        "advice": "Use generative metric: the error falls from <b>31%</b> to 17%.",
        "baseline": methods["standardised"],
        "best": methods["uniform"],
        "recommended": "uniform",
        "p_value": 0.001,
        "error_by_k": {
            methods[key]: (ks, rng.uniform(0.1, 0.3, len(ks)))
            for key in ("standardised", "uniform")
        },
        "notes": ("compared on some samples",),
    }
    return Comparison(**{**facts, **changes})


def fit_metric(X, y):
    """Fit the method that the comparison recommends."""
    return make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier()).fit(X, y)


def make_rows(n_rows=150, n_features=8, n_classes=3, seed=0):
    """Create samples whose classes differ in the first features."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_rows, n_features))
    X[:, : min(3, n_features)] += y[:, None]
    return X, y


@pytest.fixture(scope="session")
def made():
    """Return makers of samples, of comparisons on them and of the recommended method."""
    return SimpleNamespace(comparison=make_comparison, rows=make_rows, metric=fit_metric)


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """Return the path of a report with all sections."""
    X, y = make_rows()
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(make_comparison(X, y), X, y, path=path, metric=fit_metric(X, y), **REPORT)

"""One report for all tests of reports, with names that would break a careless page."""

from types import SimpleNamespace

import numpy as np
import pytest

from genmetric.report import write_report
from genmetric.study.comparison import Comparison, MethodResult

FEATURES = (
    "<script>alert('feature')</script>",
    "a" * 300,
    "日本語の特徴",
    "$x_1^2$ \\frac",
    "_hidden",
    "line\nbreak",
    'quote" onload="alert(1)',
    "{{ 7 * 7 }}",
)
CLASSES = ("<script>alert('class')</script>", "_under", "L" * 200)


def make_comparison(X, y, **changes):
    """A comparison on the rows with made-up figures."""
    rng = np.random.default_rng(0)
    methods = ("Euclidean", "Euclidean, standardised", "M^UNI", "<img src=x onerror=alert(1)>")
    results = [
        MethodResult(
            name,
            rng.uniform(0.1, 0.3, 5),
            rng.uniform(0.01, 2, 5),
            rng.uniform(0.001, 0.1, 5),
            ({"n_neighbors": 5, "shrinkage": 0.12345678},) * 5,
        )
        for name in methods
    ]
    ks = np.array([1, 3, 5, 9, 21])
    facts = {
        "title": "wine <b>& cheese</b>",
        "n_samples": len(X),
        "n_features": X.shape[1],
        "feature_names": FEATURES[: X.shape[1]],
        "class_names": CLASSES[: len(np.unique(y))],
        "class_counts": np.unique(y, return_counts=True)[1],
        "results": (*results, MethodResult.left_out("NCA", "about 900 s a fold")),
        "advice": "Use M^UNI: the error falls from <b>31%</b> to 17%.",
        "baseline": methods[1],
        "best": "M^UNI",
        "p_value": 0.001,
        "error_by_k": {name: (ks, rng.uniform(0.1, 0.3, len(ks))) for name in methods[:3]},
        "notes": ("compared on some rows",),
    }
    return Comparison(**{**facts, **changes})


def make_rows(n_rows=150, n_features=8, n_classes=3, seed=0):
    """Rows whose classes differ in the first features."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_rows, n_features))
    X[:, : min(3, n_features)] += y[:, None]
    return X, y


@pytest.fixture(scope="session")
def made():
    """Makers of rows and of comparisons on them."""
    return SimpleNamespace(comparison=make_comparison, rows=make_rows)


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """Path of the report."""
    X, y = make_rows()
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(make_comparison(X, y), X, y, path=path)

"""Warnings point to the line of the user, however deep in the package they are issued."""

import numpy as np
import pytest

from genmetric import LMNN, MLKR, GenerativeMetric, MetricKMeans, SimpleMKLClassifier

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 6))
Y = np.arange(60) % 2


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: GenerativeMetric().fit(X * [1, 1, 1, 1, 1, 1e4], Y), "standard deviations"),
        (lambda: GenerativeMetric(max_samples=30).fit(X[:, :3], Y), "heavy-tailed"),
        (lambda: GenerativeMetric().fit(X, np.r_[Y[1:], 2]), "have a single sample"),
        (lambda: MetricKMeans(5).fit(np.repeat(X[:3], 5, axis=0)), "Only 3 of n_clusters=5"),
        (lambda: SimpleMKLClassifier(max_iter=1, tol=1e-9).fit(X, Y), "relative duality gap"),
        (lambda: LMNN(40).fit(X, Y), "too few for n_neighbors=40"),
        (lambda: LMNN(early_stopping=False, max_iter=1).fit(X, Y), "LMNN did not converge"),
        (lambda: MLKR(early_stopping=False, max_iter=1).fit(X, X[:, 0]), "MLKR did not converge"),
    ],
    ids=[
        *("scales", "few features", "small class", "clusters", "kernels"),
        *("targets", "LMNN", "MLKR"),
    ],
)
def test_warning_has_the_line_of_the_caller(fit, message):
    with pytest.warns(match=message) as caught:
        fit()
    assert {warning.filename for warning in caught} == {__file__}

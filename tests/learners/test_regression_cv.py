"""GenerativeRegressionMetricCV: scores against separate fits, and the selection."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.neighbors import KNeighborsRegressor

from genmetric import GaussianMixtureModel, GenerativeRegressionMetric, GenerativeRegressionMetricCV

X, Y = make_friedman1(160, noise=0.5, random_state=0)
SMALL = {"n_slices": 3, "interpolations": (0.0, 0.6, 1.0), "n_neighbors": (3, 7)}


@pytest.mark.parametrize(
    "metric",
    [
        None,
        GenerativeRegressionMetric(shrinkage=0.3, n_components=3, normalization="determinant"),
        GenerativeRegressionMetric(density_model=GaussianMixtureModel(2), random_state=1),
    ],
    ids=str,
)
def test_scores_are_those_of_separate_fits(metric):
    cv = KFold(3, shuffle=True, random_state=0)
    found = GenerativeRegressionMetricCV(metric, cv=cv, random_state=0, **SMALL).fit(X, Y)
    template = clone(metric or GenerativeRegressionMetric())
    results = found.cv_results_
    for c, params in enumerate(results["params"]):
        for s, (train, test) in enumerate(cv.split(X)):
            Z = clone(template).set_params(**params).fit(X[train], Y[train]).transform(X)
            scores = [
                KNeighborsRegressor(k).fit(Z[train], Y[train]).score(Z[test], Y[test])
                for k in (3, 7)
            ]
            assert results[f"split{s}_test_score"][c] == pytest.approx(np.mean(scores), abs=1e-8)
    best, close = found.best_index_, results["within_one_standard_error"]
    assert close[best]
    assert close[results["mean_test_score"].argmax()]
    k = found.best_params_.pop("n_neighbors")
    assert k == found.n_neighbors_
    assert k in (3, 7)
    assert found.best_params_ == results["params"][best]
    expected = template.set_params(**results["params"][best]).fit(X, Y)
    for name in ("components_", "metric_", "metric_stderr_", "slice_edges_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name))


def test_the_grid():
    found = GenerativeRegressionMetricCV(random_state=0).fit(X, Y)
    grid = found.cv_results_["params"]
    # Both bases, then five learned metrics ("kernel" has no slices), three interpolations each.
    assert len(grid) == 2 + 2 * 5 * 3
    assert [p["interpolation"] for p in grid[:3]] == [0.0, 0.0, 0.5]
    assert found.best_params_["interpolation"] > 0


def test_scorer_and_splitter():
    cv = ShuffleSplit(2, random_state=0)
    found = GenerativeRegressionMetricCV(cv=cv, scoring="neg_mean_absolute_error", **SMALL)
    found.fit(X, Y)
    assert found.best_score_ < 0
    assert "split1_test_score" in found.cv_results_
    assert "split2_test_score" not in found.cv_results_


@pytest.mark.parametrize("cv", [4, list(KFold(3).split(X[:120]))], ids=["folds", "list"])
def test_zero_weight_is_absent(cv):
    weight = np.r_[np.ones(120), np.zeros(40)]
    metric = GenerativeRegressionMetricCV(cv=cv, random_state=0, **SMALL)
    a = clone(metric).fit(X, Y, sample_weight=weight)
    b = clone(metric).fit(X[:120], Y[:120])
    np.testing.assert_allclose(a.components_, b.components_, rtol=1e-6)
    scores = [m.cv_results_["mean_test_score"] for m in (a, b)]
    np.testing.assert_allclose(*scores, rtol=1e-9)


def test_seeds_and_preprocessor():
    metric = GenerativeRegressionMetric(preprocessor=X)
    a = GenerativeRegressionMetricCV(metric, random_state=0, **SMALL).fit(np.arange(160), Y)
    b = GenerativeRegressionMetricCV(random_state=0, **SMALL).fit(X, Y)
    c = GenerativeRegressionMetricCV(random_state=1, **SMALL).fit(X, Y)
    np.testing.assert_array_equal(a.metric_, b.metric_)
    assert (b.cv_results_["mean_test_score"] != c.cv_results_["mean_test_score"]).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"methods": "slice"}, "Every value of methods must be"),
        ({"interpolations": []}, "interpolations is empty"),
        ({"cv": 1}, "cv must be None, an integer >= 2"),
        ({"n_neighbors": 1000}, "n_neighbors=1000 is too large: there are 128 samples"),
        ({"metric": "combined"}, "metric must be None or a GenerativeRegressionMetric"),
        ({"scoring": 3}, "scoring must be None, the name of a scorer or a callable"),
    ],
)
def test_invalid_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        GenerativeRegressionMetricCV(**parameters).fit(X, Y)


def test_constant_targets():
    with pytest.raises(ValueError, match="expects targets that vary"):
        GenerativeRegressionMetricCV().fit(X, np.ones(160))

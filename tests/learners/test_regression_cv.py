"""Selection of a metric for numeric targets."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.neighbors import KNeighborsRegressor

from genmetric import GenerativeRegressionMetric, GenerativeRegressionMetricCV

X, Y = make_friedman1(160, noise=0.5, random_state=0)
SMALL = {"n_slices": 3, "interpolations": (0.0, 1.0), "n_neighbors": (3, 7)}


def test_scores_are_those_of_separate_fits():
    cv = KFold(3, shuffle=True, random_state=0)
    found = GenerativeRegressionMetricCV(cv=cv, **SMALL).fit(X, Y)
    results = found.cv_results_
    for c, params in enumerate(results["params"]):
        for s, (train, test) in enumerate(cv.split(X)):
            metric = GenerativeRegressionMetric(**params).fit(X[train], Y[train])
            Z = metric.transform(X)
            scores = [
                KNeighborsRegressor(k).fit(Z[train], Y[train]).score(Z[test], Y[test])
                for k in (3, 7)
            ]
            assert results[f"split{s}_test_score"][c] == pytest.approx(np.mean(scores), abs=1e-8)


def test_the_selected_metric_is_fitted_on_all_samples():
    found = GenerativeRegressionMetricCV(random_state=0, **SMALL).fit(X, Y)
    params = {k: v for k, v in found.best_params_.items() if k != "n_neighbors"}
    assert params == found.cv_results_["params"][found.best_index_]
    expected = GenerativeRegressionMetric(**params, random_state=0).fit(X, Y)
    np.testing.assert_allclose(found.components_, expected.components_)
    assert found.best_params_["n_neighbors"] in (3, 7)


def test_selection_is_within_one_standard_error_of_the_best():
    found = GenerativeRegressionMetricCV(random_state=0, **SMALL).fit(X, Y)
    means = found.cv_results_["mean_test_score"]
    assert means[found.best_index_] > means.max() - 0.1
    assert found.best_params_["interpolation"] == 1.0


def test_scorer_and_splitter():
    cv = ShuffleSplit(2, random_state=0)
    found = GenerativeRegressionMetricCV(cv=cv, scoring="neg_mean_absolute_error", **SMALL).fit(
        X, Y
    )
    assert found.best_score_ < 0
    assert "split1_test_score" in found.cv_results_
    assert "split2_test_score" not in found.cv_results_


def test_other_parameters_are_kept():
    metric = GenerativeRegressionMetric(shrinkage=0.3, n_components=3)
    found = GenerativeRegressionMetricCV(metric, random_state=0, **SMALL).fit(X, Y)
    assert found.best_estimator_.shrinkage == 0.3
    assert found.components_.shape == (3, 10)
    assert clone(found).metric.shrinkage == 0.3


def test_zero_weight_is_absent():
    weight = np.r_[np.ones(120), np.zeros(40)]
    cv = list(KFold(3).split(X[:120]))
    a = GenerativeRegressionMetricCV(cv=cv, **SMALL).fit(X, Y, sample_weight=weight)
    b = GenerativeRegressionMetricCV(cv=cv, **SMALL).fit(X[:120], Y[:120])
    np.testing.assert_allclose(a.components_, b.components_, rtol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"methods": "slice"}, "Every value of methods must be"),
        ({"interpolations": []}, "interpolations is empty"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"n_neighbors": 1000}, "n_neighbors=1000 is too large for 160 samples"),
        ({"metric": "combined"}, "metric must be None or a GenerativeRegressionMetric"),
    ],
)
def test_invalid_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        GenerativeRegressionMetricCV(**parameters).fit(X, Y)

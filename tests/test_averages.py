"""Averages of neighbours' targets: against a loop, and the selection of their number."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

from genmetric._averages import average_errors, select_n_neighbors_to_average


def test_errors_equal_those_of_a_loop():
    rng = np.random.default_rng(0)
    targets, truth = rng.normal(size=(7, 5)), rng.normal(size=7)
    ks = np.array([1, 3, 5])
    found = average_errors(targets, truth, ks)
    for i in range(7):
        for j, k in enumerate(ks):
            assert found[i, j] == pytest.approx((targets[i, :k].mean() - truth[i]) ** 2)


def test_selection_equals_scikit_learn_without_each_sample():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=40)
    found = select_n_neighbors_to_average(X, y, [1, 4, 9])
    for k, error in zip(found.candidates, found.errors, strict=True):
        losses = []
        for i in range(40):
            rest = np.arange(40) != i
            model = KNeighborsRegressor(int(k)).fit(X[rest], y[rest])
            losses.append((model.predict(X[i : i + 1])[0] - y[i]) ** 2)
        assert error == pytest.approx(np.mean(losses) / np.var(y))
    assert found.n_neighbors == found.candidates[np.argmin(found.errors)]


@pytest.mark.parametrize(("shift", "scale"), [(1e6, 1.0), (0.0, 1e-9), (-3.0, 1e9)])
def test_errors_do_not_depend_on_shift_and_scale_of_the_target(shift, scale):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    plain = select_n_neighbors_to_average(X, y)
    moved = select_n_neighbors_to_average(X, shift + scale * y)
    np.testing.assert_allclose(moved.errors, plain.errors, rtol=1e-6)


def test_too_few_samples_give_one_neighbor():
    found = select_n_neighbors_to_average(np.zeros((1, 2)), np.zeros(1))
    assert found.n_neighbors == 1
    assert np.isnan(found.errors).all()

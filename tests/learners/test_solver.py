"""The resolvent solver against the dense one, through the estimator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genmetric import GaussianMixtureModel, GenerativeMetric
from genmetric.datasets import load_breast_cancer, load_german, load_ionosphere, load_vehicle


def distance(a, b):
    """Relative Frobenius distance of the metrics of two estimators."""
    return np.linalg.norm(a.metric_ - b.metric_) / np.linalg.norm(b.metric_)


def both(X, y, **parameters):
    dense = GenerativeMetric(solver="dense", **parameters).fit(X, y)
    return GenerativeMetric(solver="resolvent", **parameters).fit(X, y), dense


def gaussian_classes(rng, n_classes, n_features, n_rows=60, spread=1.0):
    X = [
        rng.normal(size=(n_rows, n_features)) @ rng.normal(size=(n_features, n_features))
        + spread * rng.normal(size=n_features)
        for _ in range(n_classes)
    ]
    return np.concatenate(X), np.repeat(np.arange(n_classes), n_rows)


@pytest.mark.parametrize("shrinkage", [None, "auto", 0.1])
@pytest.mark.parametrize("load", [load_breast_cancer, load_german, load_ionosphere])
def test_two_classes_agree_with_dense(load, shrinkage):
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    resolvent, dense = both(X, y, shrinkage=shrinkage)
    assert distance(resolvent, dense) < 1e-5


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_features=st.integers(2, 12),
    log_condition=st.floats(0, 4),
    log_offset=st.floats(-2, 3),
    alike=st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 1.0]),
)
def test_adversarial_gaussians(seed, n_features, log_condition, log_offset, alike):
    # Ill-conditioned classes, from identical to unlike, from on top of each other to far apart.
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.uniform(-log_condition, 0, n_features)
    A = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0] * scales
    B = A + alike * rng.normal(size=A.shape) * scales
    noise = rng.normal(size=(40, n_features))
    X = np.concatenate([noise @ A.T, noise @ B.T + 10.0**log_offset * rng.normal(size=n_features)])
    resolvent, dense = both(X, np.repeat([0, 1], 40))
    assert distance(resolvent, dense) < 1e-5


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(3, 6), n_features=st.integers(2, 8))
def test_tol_zero_is_exact(seed, n_classes, n_features):
    X, y = gaussian_classes(np.random.default_rng(seed), n_classes, n_features)
    resolvent, dense = both(X, y, class_tol=0)
    assert distance(resolvent, dense) < 1e-5


def test_tol_bounds_the_error():
    X, y = load_vehicle(return_X_y=True)
    errors = [distance(*both(X, y, class_tol=tol)) for tol in (0, 1e-3, 1e-2, 0.1, 1)]
    assert errors[0] < 1e-5
    assert errors[2] < 5e-3
    assert errors[0] <= errors[1] <= errors[2] <= errors[4]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_bit_identical_for_every_n_jobs(rng, n_classes):
    X, y = gaussian_classes(rng, n_classes, 6, n_rows=2500)
    fits = [GenerativeMetric(solver="resolvent", n_jobs=n).fit(X, y) for n in (1, 2, 3)]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.metric_, fits[0].metric_)


def test_weights_interpolation_and_priors(rng):
    X, y = gaussian_classes(rng, 2, 7)
    w = rng.integers(0, 4, len(y)).astype(float)
    parameters = {"interpolation": 0.6, "shrinkage": 0.05}
    resolvent = GenerativeMetric(solver="resolvent", **parameters).fit(X, y, sample_weight=w)
    times = w.astype(int)
    repeated = np.repeat(X, times, axis=0), np.repeat(y, times)
    assert distance(resolvent, GenerativeMetric(solver="dense", **parameters).fit(*repeated)) < 1e-5
    share = rng.uniform(0, 1, len(y)) * (rng.uniform(size=len(y)) > 0.3)
    pair = [GenerativeMetric(share, solver=s).fit(X, y) for s in ("resolvent", "dense")]
    assert distance(*pair) < 1e-5
    X, y = gaussian_classes(rng, 3, 5)
    resolvent, dense = both(X, y, priors=[0.6, 0.3, 0.1], class_tol=0)
    assert distance(resolvent, dense) < 1e-5


def test_scale_and_rotation(rng):
    X, y = gaussian_classes(rng, 3, 6, n_rows=200)
    plain = GenerativeMetric(solver="resolvent").fit(X, y)
    for scale in (1e-60, 1e-3, 1e60):
        scaled = GenerativeMetric(solver="resolvent").fit(scale * X, y)
        assert distance(scaled, plain) < 1e-8
    Q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    turned = GenerativeMetric(solver="resolvent").fit(X @ Q.T, y)
    np.testing.assert_allclose(Q.T @ turned.metric_ @ Q, plain.metric_, rtol=1e-7, atol=1e-9)


def test_equal_covariances_fall_back(rng):
    noise = rng.normal(size=(100, 6))
    X = np.concatenate([noise, noise + 1, noise - 2])
    resolvent, dense = both(X, np.repeat([0, 1, 2], 100))
    assert distance(resolvent, dense) < 1e-5


@pytest.mark.parametrize(("n_features", "solver"), [(30, "resolvent"), (3, "dense")])
def test_auto_selects_the_faster_one(rng, n_features, solver):
    X, y = gaussian_classes(rng, 2, n_features, n_rows=500)
    np.testing.assert_array_equal(
        GenerativeMetric().fit(X, y).metric_, GenerativeMetric(solver=solver).fit(X, y).metric_
    )


def test_auto_is_dense_for_other_models(rng):
    X, y = gaussian_classes(rng, 2, 30, n_rows=500)
    model = GaussianMixtureModel(1, random_state=0)
    auto = GenerativeMetric(class_model=model).fit(X, y)
    dense = GenerativeMetric(class_model=model, solver="dense").fit(X, y)
    np.testing.assert_array_equal(auto.metric_, dense.metric_)
    with pytest.raises(ValueError, match='solver="resolvent" requires Gaussian class models'):
        GenerativeMetric(class_model=model, solver="resolvent").fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "fast"}, "solver must be"),
        ({"class_tol": -1}, r"class_tol must be a number in \[0, 1\]"),
        ({"class_tol": "small"}, r"class_tol must be a number in \[0, 1\]"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        GenerativeMetric(**parameters).fit([[0.0, 1], [1, 0], [2, 2], [3, 1]], [0, 0, 1, 1])

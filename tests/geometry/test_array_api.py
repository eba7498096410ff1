"""The dense sum of local metrics in other array libraries, against NumPy."""

import numpy as np
import pytest

from genmetric._array_api import as_numpy, computed_like, record_like, squared_norms, take_rows
from genmetric.density import fit_gaussians
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import class_statistics
from genmetric.density._whitening import pooled_whitening
from genmetric.geometry import curvature_weights, sign_rule, sum_local_metrics
from genmetric.geometry._dense_solver import sample_metric_factors


@pytest.fixture(params=["array_api_strict", "torch"])
def to_library(request):
    """A function from NumPy arrays to arrays of another library."""
    library = pytest.importorskip(request.param)
    if request.param == "torch":
        pytest.importorskip("array_api_compat")
    return lambda values: library.asarray(np.array(values))


@pytest.fixture
def samples(rng):
    codes = rng.integers(4, size=90)
    return rng.normal(size=(4, 5))[codes] + rng.normal(size=(90, 5)), codes


def same(found, expected, rtol=1e-11):
    np.testing.assert_allclose(
        as_numpy(found), expected, rtol=rtol, atol=rtol * np.abs(expected).max()
    )


def test_weights_of_classes(to_library, rng):
    log_joint = 20 * rng.normal(size=(50, 4))
    log_joint[0] = 3.0  # all classes tied
    log_joint[1, :2] = 90.0  # two classes tied
    log_joint[2] = [0, -800, -900, -1000]
    found = curvature_weights(to_library(log_joint))
    assert type(found) is type(to_library(log_joint))
    same(found, curvature_weights(log_joint))
    with pytest.raises(ValueError, match="log-density of a class is not finite"):
        curvature_weights(to_library([[np.nan, 0.0]]))


@pytest.mark.parametrize("normalization", ["determinant", "trace"])
def test_sign_rule(to_library, rng, normalization):
    eigenvalues = rng.normal(size=(30, 6))
    eigenvalues[::4, :2] = 1e-20
    eigenvalues[1] = 0.0
    rounding = np.full(30, 0.1)
    for level in (None, rounding):
        expected = sign_rule(eigenvalues, rounding=level, normalization=normalization)
        found = sign_rule(
            to_library(eigenvalues),
            rounding=None if level is None else to_library(level),
            normalization=normalization,
        )
        same(found, expected)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("normalization", ["determinant", "trace"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("whitened", [False, True])
def test_sums(to_library, samples, n_classes, normalization, dtype, whitened, rng):
    X, codes = samples[0].astype(dtype), samples[1] % n_classes
    frame = Scaling.of(X)
    stats = class_statistics(X, codes, n_classes, frame=frame)
    if whitened:
        frame = pooled_whitening(stats, frame)
        stats = class_statistics(X, codes, n_classes, frame=frame)
    models = fit_gaussians(stats)
    weights, log_priors = rng.uniform(size=len(X)), np.log(np.arange(1.0, n_classes + 1))
    options = {"solver": "dense", "normalization": normalization}
    expected = sum_local_metrics(
        models, X, frame, weights=weights, log_priors=log_priors, **options
    )
    x = to_library(X)
    inside = record_like(models, x)
    found = sum_local_metrics(
        inside,
        x,
        record_like(frame, x),
        weights=weights,
        log_priors=computed_like(log_priors, x),
        **options,
    )
    assert isinstance(found.total, np.ndarray)
    same(found.total, expected.total)
    assert found.weight == pytest.approx(expected.weight)
    assert found.square == pytest.approx(expected.square)
    assert found.floored == expected.floored
    # Each part in the other library.
    z = record_like(frame, x).apply(x)
    same(inside.log_density(z), models.log_density(frame.apply(X)))
    same(inside.gradient(z), models.gradient(frame.apply(X)))
    m, U = sample_metric_factors(inside, z, None, normalization)
    assert type(m) is type(U) is type(x)


def test_rows(to_library, rng):
    X = rng.normal(size=(7, 3))
    x = to_library(X)
    rows = np.array([4, 0, 4])
    same(take_rows(x, rows), X[rows])
    same(take_rows(x, slice(2, 5)), X[2:5])
    same(squared_norms(x), (X**2).sum(axis=1))
    assert computed_like(X, X) is X
    assert as_numpy(X) is X

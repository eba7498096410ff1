import numpy as np
import pytest

from genmetric.density._gaussian import fit_gaussians
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import class_statistics
from genmetric.geometry import _dense_solver as packed
from genmetric.geometry._dense_solver import PackedMetrics, packed_local_metrics
from genmetric.geometry._summation import sum_local_metrics


@pytest.fixture
def job(rng):
    X = rng.standard_normal((90, 4)) * [1, 2, 3, 4] + rng.integers(0, 3, (90, 1))
    codes = np.arange(90) % 3
    frame = Scaling.of(X)
    models = fit_gaussians(class_statistics(X, codes, 3, frame=frame))
    return models, X, frame


@pytest.mark.parametrize("normalization", ["determinant", "trace"])
def test_sums_equal_those_of_the_dense_solver(job, rng, normalization):
    kept = packed_local_metrics(*job, normalization=normalization)
    for weights in (np.ones(90), rng.uniform(size=90), np.eye(90)[17]):
        ours = kept.sum(weights)
        theirs = sum_local_metrics(*job, weights=weights, normalization=normalization)
        np.testing.assert_allclose(ours.total, theirs.total, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(ours.total, ours.total.T, rtol=0, atol=0)
        assert ours.weight == pytest.approx(theirs.weight)
        assert ours.square == pytest.approx(theirs.square)


def test_same_bits_for_every_number_of_threads(job, monkeypatch):
    monkeypatch.setattr("genmetric._chunks.CHUNK_BYTES", 2**14)
    one, four = (packed_local_metrics(*job, n_jobs=n) for n in (1, 4))
    assert np.array_equal(one.triangles, four.triangles)


def test_fits_in_memory(monkeypatch):
    monkeypatch.setattr(packed, "KEPT_BYTES", 8 * 100 * 10)
    assert PackedMetrics.fits(100, 4)
    assert not PackedMetrics.fits(101, 4)

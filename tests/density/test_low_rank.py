"""Low-rank Gaussians of many small classes, against covariance matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.density import Scaling, class_statistics, fit_gaussians
from genmetric.density._covariance import covariance_terms, ledoit_wolf_shrinkage
from genmetric.density._factored_statistics import FactoredStatistics
from genmetric.density._low_rank import fit_low_rank_gaussians

IGNORE = pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")


@st.composite
def small_classes(draw):
    """Classes of different sizes, some with one sample, some with more samples than features."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_features = draw(st.integers(2, 12))
    sizes = draw(st.lists(st.integers(1, 15), min_size=2, max_size=6))
    # Ledoit-Wolf shrinkage of two samples is zero: see the test of the floor.
    sizes = [max(sizes[0], 3), *(3 if size == 2 else size for size in sizes[1:])]
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = 5 + rng.normal(size=(len(codes), n_features)) @ rng.normal(size=(n_features, n_features))
    X += 2 * rng.normal(size=(len(sizes), n_features))[codes]
    weight = rng.integers(1, 4, len(codes)).astype(float) if draw(st.booleans()) else None
    return X, codes, len(sizes), weight


def both(problem, frame=None):
    X, codes, n_classes, weight = problem
    frame = Scaling.of(X) if frame is None else frame
    options = {"frame": frame, "sample_weight": weight}
    return (
        class_statistics(X, codes, n_classes, **options),
        FactoredStatistics.of(X, codes, n_classes, **options),
        frame,
    )


@given(small_classes())
def test_statistics_equal_those_of_scatter_matrices(problem):
    dense, factored, _ = both(problem)
    for name in ("count", "mean", "fourth", "traces", "pooled_covariance", "total_covariance"):
        np.testing.assert_allclose(
            getattr(factored, name), getattr(dense, name), rtol=1e-9, atol=1e-12, err_msg=name
        )
    for c, scatter in enumerate(dense.scatter):
        F = factored.factors[factored.starts[c] : factored.starts[c + 1]]
        np.testing.assert_allclose(F.T @ F, scatter, rtol=1e-9, atol=1e-11)
        assert len(F) <= problem[0].shape[1]
    np.testing.assert_allclose(factored.squares, dense.squares, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        covariance_terms(factored, "auto", whitened=True),
        covariance_terms(dense, "auto", whitened=True),
        rtol=1e-6,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        ledoit_wolf_shrinkage(factored), ledoit_wolf_shrinkage(dense), rtol=1e-8, atol=1e-10
    )


@IGNORE
@given(small_classes(), st.sampled_from(["auto", 0.05, 0.5, 1.0]), st.booleans())
def test_densities_equal_those_of_covariance_matrices(problem, shrinkage, identity):
    dense, factored, frame = both(problem)
    options = {
        "shrinkage": shrinkage,
        "stand_in": np.eye(problem[0].shape[1]) if identity else None,
    }
    expected = fit_gaussians(dense, **options)
    found = fit_low_rank_gaussians(factored, **options)
    # The condition number of a covariance can be 1e8, so that half of the digits are lost.
    np.testing.assert_allclose(found.covariances, expected.covariances, rtol=1e-6, atol=1e-9)
    x = frame.apply(problem[0])
    size = np.abs(expected.log_density(x)).max()
    np.testing.assert_allclose(
        found.log_density(x), expected.log_density(x), rtol=1e-7, atol=1e-8 * size
    )
    weights = np.random.default_rng(0).normal(size=(len(x), problem[2]))
    weights[:, 0] = 0
    reference = expected.weighted_curvature(x, weights)
    np.testing.assert_allclose(
        found.weighted_curvature(x, weights),
        reference,
        rtol=1e-6,
        atol=1e-8 * np.abs(reference).max(),
    )
    top = found.precision_size(np.eye(problem[2]))
    assert (top >= np.linalg.eigvalsh(expected.precisions)[:, -1] * (1 - 1e-9)).all()


def test_covariance_floor(rng):
    """Without shrinkage the floor is the isotropic part."""
    problem = rng.normal(size=(8, 5)), np.repeat(np.arange(4), 2), 4, None
    dense, factored, frame = both(problem)
    expected = fit_gaussians(dense, shrinkage=None)
    found = fit_low_rank_gaussians(factored, shrinkage=None)
    np.testing.assert_allclose(found.isotropic, np.linalg.eigvalsh(expected.covariances)[:, 0])
    x = frame.apply(problem[0])
    np.testing.assert_allclose(found.log_density(x), expected.log_density(x), rtol=1e-6, atol=1e-5)


@IGNORE
def test_many_single_samples_share_one_block(rng):
    X = rng.normal(size=(60, 30))
    codes = np.concatenate([np.arange(40), np.repeat([40, 41], 10)])
    stats = FactoredStatistics.of(X, codes, 42, frame=Scaling(np.zeros(30), 1.0))
    models = fit_low_rank_gaussians(stats)
    assert len(np.unique(models.blocks[:40])) == 1
    assert len(models.axes) <= 30 + 18
    alone = fit_low_rank_gaussians(stats, stand_in=np.eye(30))
    assert len(alone.axes) == 18  # the identity needs no axes


def test_one_warning_for_many_small_classes(rng):
    X = rng.normal(size=(60, 30))
    codes = np.concatenate([np.arange(40), np.repeat([40, 41], 10)])
    stats = FactoredStatistics.of(X, codes, 42, frame=Scaling(np.zeros(30), 1.0))
    with pytest.warns(UserWarning, match=r"Classes \(40 of 42\) have a single sample") as record:
        fit_low_rank_gaussians(stats)
    assert len(record) == 1


def test_when_factors_save_memory():
    codes = np.repeat(np.arange(100), 20)
    assert FactoredStatistics.saves_memory(np.bincount(codes), 300)
    assert not FactoredStatistics.saves_memory(
        np.bincount(codes), 100
    )  # scatter matrices are small
    assert not FactoredStatistics.saves_memory(10 * np.bincount(codes), 300)
    assert FactoredStatistics.saves_memory(np.full(2000, 60), 60)


def test_statistics_in_other_coordinates(rng):
    X, codes = rng.normal(size=(20, 6)), np.arange(20) % 5
    A = rng.normal(size=(6, 6))
    frame = Scaling(np.zeros(6), 1.0)
    mapped = FactoredStatistics.of(X, codes, 5, frame=frame).mapped(A)
    direct = FactoredStatistics.of(X @ A, codes, 5, frame=frame)
    np.testing.assert_allclose(mapped.mean, direct.mean, atol=1e-12)
    np.testing.assert_allclose(mapped.factors, direct.factors, atol=1e-12)


def test_infinite_samples():
    X = np.ones((4, 3))
    X[1, 1] = np.inf
    with np.errstate(invalid="ignore"):
        stats = FactoredStatistics.of(X, np.array([0, 0, 1, 1]), 2, frame=Scaling(np.zeros(3), 1.0))
    with pytest.raises(ValueError, match="mean or covariance is not finite"):
        fit_low_rank_gaussians(stats)

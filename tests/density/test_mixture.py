"""Mixtures as class models: densities against scikit-learn, derivatives, small classes."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from genmetric import GaussianMixtureModel
from genmetric.density.diagnostics import curvature_error, gradient_error


@pytest.fixture
def X(rng):
    """Two bent pieces far enough apart to need two components."""
    pieces = rng.normal(size=(2, 60, 3)) @ rng.normal(size=(2, 3, 3))
    return np.r_[pieces[0], pieces[1] + [6, 0, -3]]


@pytest.fixture
def model(X):
    return GaussianMixtureModel(n_components=2, random_state=0).fit(X)


def test_log_density_is_the_mixture_of_the_attributes(model, X):
    p = sum(
        w * multivariate_normal(mean, S).pdf(X)
        for w, mean, S in zip(model.weights_, model.means_, model.covariances_, strict=True)
    )
    np.testing.assert_allclose(model.log_density(X), np.log(p), rtol=1e-9)


def test_density_integrates_to_one(rng):
    X = np.r_[rng.normal(size=(40, 1)), rng.normal(size=(40, 1)) * 0.3 + 4]
    model = GaussianMixtureModel(n_components=3, random_state=0).fit(X)
    grid = np.linspace(-12, 16, 20001)[:, None]
    total = np.exp(model.log_density(grid)).sum() * (grid[1, 0] - grid[0, 0])
    np.testing.assert_allclose(total, 1, rtol=1e-6)


def test_derivatives_against_differences(model, X):
    between = np.r_[X[:20], (X[:20] + X[60:80]) / 2]  # where both components matter too
    assert gradient_error(model, between) < 1e-7
    assert curvature_error(model, between) < 1e-6


def test_far_points_are_finite(model):
    far = 1e4 * np.abs(model.covariances_).max() ** 0.5 * np.array([[1.0, 1, 1], [-1, 0, 1]])
    for values in (model.log_density(far), model.gradient(far), model.curvature(far)):
        assert np.isfinite(values).all()


# Powers of two: then EM sees the very same numbers.
@pytest.mark.parametrize("scale", [2.0**-498, 2.0**498])
def test_scale_only_scales(X, scale):
    X = (X - X.mean(axis=0)) / X.std()
    one = GaussianMixtureModel(random_state=0).fit(X)
    other = GaussianMixtureModel(random_state=0).fit(scale * X)
    np.testing.assert_allclose(
        other.log_density(scale * X), one.log_density(X) - 3 * np.log(scale), rtol=1e-12
    )
    np.testing.assert_allclose(scale**2 * other.curvature(scale * X), one.curvature(X), rtol=1e-9)
    assert np.isfinite(other.covariances_).all()


def test_an_offset_only_shifts(X):
    one = GaussianMixtureModel(random_state=0).fit(X)
    other = GaussianMixtureModel(random_state=0).fit(X + 2.0**30)
    np.testing.assert_allclose(other.log_density(X + 2.0**30), one.log_density(X), atol=1e-4)


def test_a_class_of_few_rows_gets_as_many_components_as_it_has(rng):
    X = rng.normal(size=(2, 3))
    model = GaussianMixtureModel(n_components=5, random_state=0).fit(np.repeat(X, 3, axis=0))
    assert len(model.weights_) == 2
    lone = GaussianMixtureModel(n_components=2).fit(X[:1])
    assert np.isfinite(lone.log_density(X)).all()
    np.testing.assert_allclose(lone.means_, X[:1])


@pytest.mark.parametrize("n_components", [0, -1, 1.5, "two", None])
def test_bad_n_components(X, n_components):
    with pytest.raises(ValueError, match="n_components must be a whole number of at least 1"):
        GaussianMixtureModel(n_components=n_components).fit(X)

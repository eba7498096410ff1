"""The frame: what centring and scaling have to keep exact."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.density import Scaling


@given(
    st.integers(2, 30),
    st.integers(1, 5),
    st.floats(-150, 150),
    st.floats(-1e10, 1e10),
    st.integers(0, 2**32 - 1),
)
def test_scaled_samples_are_centred_and_of_size_one(n, D, exponent, offset, seed):
    E = np.random.default_rng(seed).normal(size=(n, D))
    E *= 2 / np.sqrt(E.var(axis=0).mean())
    X = 10.0**exponent * (E + offset)
    frame = Scaling.of(X)
    inside = frame.apply(X)
    spacing = np.spacing(1 + abs(offset))
    np.testing.assert_allclose(inside.mean(axis=0), 0, atol=1e-13 + 10 * spacing)
    size = np.sqrt(inside.var(axis=0).mean())
    assert 0.7 < size < 1.42
    assert np.log2(frame.scale) == np.round(np.log2(frame.scale))


def test_scaling_is_exact(rng):
    X = rng.normal(size=(20, 3))
    frame = Scaling(np.zeros(3), Scaling.of(1e150 * X).scale)
    assert np.array_equal(frame.apply(1e150 * X) * frame.scale, 1e150 * X)


def test_constant_samples_have_scale_one():
    frame = Scaling.of(np.full((4, 2), 7.0))
    assert frame.scale == 1
    assert not frame.apply(np.full((4, 2), 7.0)).any()


@pytest.mark.parametrize("scale", [1e-200, 1e-155, 1e155, 1e200, 1e307])
def test_scales_whose_squares_overflow(rng, scale):
    with pytest.raises(ValueError, match=r"spread of about .*Multiply X by a constant"):
        Scaling.of(scale * rng.uniform(-1, 1, size=(20, 3)))


def test_subnormal_spread():
    with pytest.raises(ValueError, match="spread of about"):
        Scaling.of(np.array([[0.0], [1e-310]]))


def test_result_independent_of_chunks(rng, monkeypatch):
    X = rng.normal(size=(101, 3)).astype(np.float32)
    whole = Scaling.of(X)
    module = importlib.import_module("genmetric.density._scaling")
    monkeypatch.setattr(
        module, "row_chunks", lambda n, *_: [slice(i, i + 7) for i in range(0, n, 7)]
    )
    chunked = Scaling.of(X)
    assert chunked.scale == whole.scale
    np.testing.assert_allclose(chunked.center, whole.center, atol=1e-15)
    assert whole.apply(X).dtype == np.float64

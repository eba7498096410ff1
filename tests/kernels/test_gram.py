import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from genmetric import _memory as memory
from genmetric.kernels import _gram as gram


@pytest.fixture
def stack():
    rng = np.random.default_rng(0)
    B = rng.normal(size=(7, 40, 6))
    return B @ B.transpose(0, 2, 1)


def test_stack_bytes_is_what_numpy_allocates():
    assert gram.stack_bytes(3, 5, 7) == np.empty((3, 5, 7)).nbytes
    assert gram.stack_bytes(3, 5, 7, 4) == np.empty((3, 5, 7), np.float32).nbytes


def test_memory_error_before_allocation(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10**9)
    with pytest.raises(MemoryError, match=r"shape \(1, 20000, 20000\) would take 3.2 GB.*fewer"):
        gram.gram_stack(["rbf"], np.zeros((20000, 1)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_combine_is_the_weighted_sum(stack, dtype, monkeypatch):
    monkeypatch.setattr(gram, "BLOCK_BYTES", 8 * 40 * 7)
    stack = stack.astype(dtype)
    weights = np.array([0.5, 0, -2, 0, 1e-3, 3, 0])
    expected = sum(w * K.astype(float) for w, K in zip(weights, stack, strict=True))
    K = gram.combine(stack, weights)
    np.testing.assert_allclose(K, expected, rtol=1e-13, atol=1e-13)
    assert K.dtype == np.float64
    np.testing.assert_array_equal(gram.combine(stack, weights, n_jobs=2), K)


def test_combine_skips_kernels_of_weight_zero(stack):
    stack[1] = np.nan
    assert np.isfinite(gram.combine(stack, np.array([1.0, 0, 0, 0, 0, 0, 0]))).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products(stack, dtype, order):
    stack = np.asarray(stack.astype(dtype), order=order)
    V = np.random.default_rng(1).normal(size=(40, 3))
    expected = np.array([K.astype(float) @ V for K in stack])
    found = gram.products(stack, V)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(gram.products(stack, V, n_jobs=2), found)


def test_factors_scale_the_trace_to_the_number_of_samples(stack):
    stack[3] = 0
    stack[4] *= 1e8
    stack[5] *= 1e-8
    factors = gram.unit_trace_factors(stack)
    traces = np.trace(stack * factors[:, None, None], axis1=1, axis2=2)
    np.testing.assert_allclose(traces, [40, 40, 40, 0, 40, 40, 40])
    assert factors[3] == 1


def test_list_of_names_and_functions():
    X = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    Y = X[:4]
    stack = gram.gram_stack(["linear", lambda a, b: rbf_kernel(a, b, gamma=2)], X, Y)
    assert stack.shape == (2, 9, 4)
    assert stack.dtype == np.float32
    np.testing.assert_allclose(stack[0], X @ Y.T, rtol=1e-6)
    np.testing.assert_allclose(stack[1], rbf_kernel(X, Y, gamma=2), rtol=1e-6)


def test_kernel_that_returns_the_wrong_shape():
    with pytest.raises(ValueError, match=r"returned shape \(3,\) for 3 and 3 samples"):
        gram.gram_stack([lambda a, _: a[:, 0]], np.zeros((3, 2)))


def test_error_inside_a_kernel_names_it():
    def broken(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as info:
        gram.gram_stack([broken], np.zeros((3, 2)))
    assert "broken" in info.value.__notes__[0]


@pytest.mark.parametrize(
    ("kernels", "error"),
    [("rbf", TypeError), (3, TypeError), ([], ValueError), (["rbf", "rfb"], ValueError)],
)
def test_invalid_lists_of_kernels(kernels, error):
    with pytest.raises(error, match="kernel"):
        gram.check_kernels(kernels)


def test_memory_map_is_not_copied(tmp_path, stack):
    np.save(tmp_path / "stack.npy", stack)
    mapped = np.load(tmp_path / "stack.npy", mmap_mode="r")
    assert np.shares_memory(gram.check_stack(mapped, shape=(None, 40, 40)), mapped)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda s: s[0], ValueError, r"Got shape \(40, 40\)"),
        (lambda s: s[:, :, :39], ValueError, r"Got shape \(7, 40, 39\)"),
        (lambda s: s[:0], ValueError, "empty"),
        (lambda s: s.astype(complex), TypeError, "complex"),
        (lambda s: s.astype(str), TypeError, "real numbers"),
        (lambda s: np.where(s == s[2, 3, 4], np.nan, s), ValueError, "kernel 2 has NaN"),
        (lambda s: np.where(s == s[5, 3, 4], np.inf, s), ValueError, "kernel 5 has NaN"),
        (np.ma.masked_array, TypeError, "masked"),
    ],
)
def test_invalid_stack(stack, change, error, text):
    with pytest.raises(error, match=text):
        gram.check_stack(change(stack), shape=(None, 40, 40))


def test_integers_are_converted_to_float():
    assert gram.check_stack(np.ones((1, 2, 2), int), shape=(None, 2, 2)).dtype == np.float64


def test_asymmetric_and_indefinite_matrices_are_rejected(stack):
    gram.check_symmetric(stack)
    gram.check_symmetric(stack.astype(np.float32))
    bent = stack.copy()
    bent[1, 0, 1] += 1
    with pytest.raises(ValueError, match="Kernel 1 is not symmetric"):
        gram.check_symmetric(bent)
    with pytest.raises(ValueError, match="Kernel 0 has the negative value"):
        gram.check_symmetric(-stack)

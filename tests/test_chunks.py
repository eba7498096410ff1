"""Chunks of rows and threads over them."""

import re
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

import genmetric._chunks
from genmetric._chunks import map_chunks, one_blas_thread, row_chunks


@pytest.fixture
def two_blas_threads():
    """So that a limit of one shows, whatever the environment says."""
    with threadpool_limits(limits=2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS does not run in two threads")
        yield


def blas_threads():
    """Threads of the BLAS of NumPy and of SciPy; another package may bring one of its own."""
    pools = genmetric._chunks._controller().select(user_api="blas").info()
    return {pool["num_threads"] for pool in pools if re.search("(num|sci)py", pool["filepath"])}


@given(
    st.integers(0, 3000),
    st.integers(1, 500),
    st.integers(1, 10_000),
    st.none() | st.integers(1, 50),
)
def test_chunks_are_all_rows_in_order_within_the_budget(n_rows, bytes_per_row, budget, max_rows):
    chunks = row_chunks(n_rows, bytes_per_row, max_rows=max_rows, budget=budget)
    rows = [i for chunk in chunks for i in range(chunk.start, chunk.stop)]
    assert rows == list(range(n_rows))
    lengths = [chunk.stop - chunk.start for chunk in chunks]
    if lengths:
        # A row that is larger than the budget still gets its chunk.
        assert max(lengths) * bytes_per_row <= budget or max(lengths) == 1
        assert max_rows is None or max(lengths) <= max_rows
        assert max(lengths) - min(lengths) <= 1


def test_the_default_budget(monkeypatch):
    assert len(row_chunks(1000, 1000)) == 1
    monkeypatch.setattr(genmetric._chunks, "CHUNK_BYTES", 10_000)
    assert len(row_chunks(1000, 1000)) == 100


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3])
def test_results_are_in_order(n_jobs):
    chunks = row_chunks(40, 1, max_rows=3)
    found = list(map_chunks(lambda chunk: chunk.start, chunks, n_jobs))
    assert found == [chunk.start for chunk in chunks]
    assert list(map_chunks(str, [], n_jobs)) == []


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_are_raised_and_the_limit_is_removed(n_jobs):
    def fail(chunk):
        raise ValueError(f"chunk {chunk}")

    with pytest.raises(ValueError, match="chunk"):
        list(map_chunks(fail, [0, 1, 2], n_jobs))
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_is_limited_to_one_thread_and_restored():
    seen = list(map_chunks(lambda _: blas_threads(), range(3), 2))
    assert all(counts == {1} for counts in seen)
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_the_limit_nests_and_is_shared_by_threads():
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    with one_blas_thread():
        thread.start()
        assert entered.wait(10)
        with one_blas_thread():
            assert blas_threads() == {1}
    # The other thread still holds the limit that this one set.
    assert blas_threads() == {1}
    leave.set()
    thread.join()
    assert blas_threads() == {2}


@pytest.mark.parametrize("n_jobs", [0, "two", 1.5])
def test_invalid_n_jobs(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None or a non-zero integer"):
        list(map_chunks(str, [1], n_jobs))


def test_a_sum_over_chunks_is_the_same_for_every_number_of_threads():
    X = np.random.default_rng(0).normal(size=(500, 20))
    chunks = row_chunks(len(X), 1, max_rows=7)
    sums = [sum(map_chunks(lambda rows: X[rows].T @ X[rows], chunks, k)) for k in (1, 2, 3)]
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])

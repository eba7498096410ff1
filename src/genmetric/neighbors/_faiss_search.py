r"""Nearest samples by faiss, with distances computed in float64.

faiss stores samples as float32 and computes squared distances from products of matrices, which are
exact to about 1e-7 of the squared norms. The samples are therefore centred and scaled in float64
before the cast, a few more neighbours than requested are fetched, and their distances are computed
in float64 from the samples; these determine the order. If float32 cannot separate samples, or an
index returns too few of them, more are fetched, and as a last resort (two tight clusters far from
each other) the exact search of this package is used. It differs from that search because the index
can be approximate, which is what makes it fast among millions of samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmetric._chunks import map_chunks, one_blas_thread, row_chunks
from genmetric._optional import import_optional
from genmetric._search import nearest_neighbors
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._warnings import suppress_warnings

#: Number of neighbours fetched beyond those requested, so that rounding does not lose any.
EXTRA = 8

#: If these do not decide, this factor more are fetched, up to a maximum.
MORE, MOST = 8, 1024

#: Scaled coordinates are clipped to this value in the index, so that squares fit in float32.
FARTHEST = 1e15

#: If float32 leaves a larger relative error of squared distances, float64 decides.
UNCERTAIN = 1e-3

_EPS = float(np.finfo(np.float32).eps)

#: Queries passed to faiss at once; its own blocks are not larger.
_BATCH = 4096


def faiss_module() -> Any:
    """Import faiss; its wrappers raise deprecation warnings on some versions of Python."""
    with suppress_warnings(DeprecationWarning):
        return import_optional("faiss", "ann")


@contextmanager
def faiss_threads(faiss: Any, n: int) -> Iterator[None]:
    """Set the number of threads of faiss, in calls from this thread."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


@dataclass(frozen=True)
class IndexPlan:
    """Parameters of an index.

    Attributes
    ----------
    kind : str
        "flat", "hnsw" or "ivf".
    n_links : int
        Number of links per sample in an HNSW graph.
    ef_construction : int
        Number of candidates for the links of a sample.
    n_lists : int
        Number of lists of an IVF index, at most the number of samples.
    seed : int
        Seed of the k-means that finds the lists.
    """

    kind: str
    n_links: int
    ef_construction: int
    n_lists: int
    seed: int


def build_index(rows: AnyArray, plan: IndexPlan, n_threads: int = 1) -> Any:
    """Build an index of samples.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Centred samples of size about one.
    plan : IndexPlan
        Parameters of the index.
    n_threads : int, default=1
        Number of threads; with more than one an HNSW graph depends on their timing.

    Returns
    -------
    faiss.Index
        The index, with all samples.
    """
    faiss = faiss_module()
    n_samples, n_features = rows.shape
    with one_blas_thread(), faiss_threads(faiss, n_threads):
        if plan.kind == "hnsw":
            index = faiss.IndexHNSWFlat(n_features, plan.n_links)
            index.hnsw.efConstruction = plan.ef_construction
        elif plan.kind == "ivf":
            quantizer = faiss.IndexFlatL2(n_features)
            index = faiss.IndexIVFFlat(quantizer, n_features, plan.n_lists)
            index.cp.seed = plan.seed
            # Otherwise faiss prints warnings about lists with few samples, which are harmless.
            index.cp.min_points_per_centroid = 1
            index.train(_float32(rows[_training_rows(n_samples, index.cp, plan)]))
        else:
            index = faiss.IndexFlatL2(n_features)
        for chunk in row_chunks(n_samples, 4 * n_features):
            index.add(_float32(rows[chunk]))
    return index


def _training_rows(n_samples: int, clustering: Any, plan: IndexPlan) -> IntArray:
    """Draw as many samples as the k-means of faiss uses, so that no others are cast."""
    n = min(n_samples, plan.n_lists * clustering.max_points_per_centroid)
    if n == n_samples:
        return np.arange(n)
    return np.sort(np.random.default_rng(plan.seed).choice(n_samples, n, replace=False))


def _float32(rows: AnyArray) -> AnyArray:
    return np.ascontiguousarray(np.clip(rows, -FARTHEST, FARTHEST), np.float32)


def search_parameters(index: Any, *, ef_search: int, n_probe: int | None) -> Any:
    """Return the parameters of an approximate search.

    Parameters
    ----------
    index : faiss.Index
        From :func:`build_index`.
    ef_search : int
        Number of candidates in the search of an HNSW graph.
    n_probe : int or None
        Number of lists of an IVF index to search; None is a sixteenth of them, at least eight.

    Returns
    -------
    object or None
        Parameters of faiss.
    """
    faiss = faiss_module()
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=ef_search)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=int(n_probe or max(8, index.nlist // 16)))
    return None


def nearest_rows(
    index: Any,
    rows: AnyArray,
    queries: FloatArray,
    k: int,
    *,
    parameters: Any = None,
    n_jobs: int | None = None,
) -> tuple[FloatArray, IntArray]:
    """Find the k nearest samples of each query.

    Parameters
    ----------
    index : faiss.Index
        From :func:`build_index`.
    rows : ndarray of shape (n_samples, n_features)
        The same samples.
    queries : ndarray of shape (n_queries, n_features)
        Queries, centred and scaled like the samples.
    k : int
        Number of neighbours, at most `n_samples`.
    parameters : object, default=None
        From :func:`search_parameters`.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    distances : ndarray of shape (n_queries, k)
        Euclidean distances, ascending.
    indices : ndarray of shape (n_queries, k)
        Indices of samples; equal distances are ordered by index.
    """
    faiss = faiss_module()
    direct = not isinstance(index, faiss.IndexFlat)

    def attempt(x: FloatArray, wanted: int) -> tuple[FloatArray, IntArray, AnyArray]:
        with faiss_threads(faiss, 1):
            squared, found = index.search(_float32(x), wanted, params=parameters)
        missing = (found < 0).any(axis=1)
        found[missing] = 0
        distances, indices = ranked(rows, x, found, k)
        unsure = missing
        if wanted < len(rows):
            unsure = missing | _uncertain(x, distances[:, -1], squared[:, -1], direct=direct)
        return distances, indices, unsure

    def of_chunk(chunk: slice) -> tuple[FloatArray, IntArray]:
        x, wanted = queries[chunk], min(k + EXTRA, len(rows))
        distances, indices, unsure = attempt(x, wanted)
        again = np.flatnonzero(unsure)
        while len(again) and wanted * MORE <= min(MOST, len(rows)):
            wanted *= MORE
            left = []
            for part in row_chunks(len(again), 24 * wanted * rows.shape[1]):
                some = again[part]
                distances[some], indices[some], unsure = attempt(x[some], wanted)
                left.append(some[unsure])
            again = np.concatenate(left)
        if len(again):
            distances[again], indices[again] = nearest_neighbors(rows, k, queries=x[again])
        return distances, indices

    per_query = 24 * (k + EXTRA) * rows.shape[1]
    chunks = row_chunks(len(queries), per_query, max_rows=_BATCH)
    parts = list(map_chunks(of_chunk, chunks, n_jobs))
    return np.concatenate([d for d, _ in parts]), np.concatenate([i for _, i in parts])


def _uncertain(
    queries: FloatArray, last: FloatArray, last_fetched: AnyArray, *, direct: bool
) -> AnyArray:
    r"""Return whether a sample that was not fetched may be much nearer than the last neighbour.

    Such a sample y is at most at distance d from the query x, with d the distance of that
    neighbour. From products of matrices its squared distance is known to a few :math:`\epsilon
    (|x|^2 + |y|^2)`, from differences of rounded coordinates to a few :math:`\epsilon |x| d`.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        Queries.
    last : ndarray of shape (n_queries,)
        Exact distance d of the last neighbour.
    last_fetched : ndarray of shape (n_queries,)
        Squared float32 distance of the last sample fetched.
    direct : bool
        Whether the index computes distances from differences.

    Returns
    -------
    ndarray of shape (n_queries,)
        True if more samples must be fetched.
    """
    q = np.clip(queries, -FARTHEST, FARTHEST)
    size = np.sqrt(np.einsum("ij,ij->i", q, q))
    d = np.minimum(last, FARTHEST)
    if direct:
        error = 4 * _EPS * size * (d + _EPS * size)
    else:
        error = 4 * _EPS * (size**2 + (size + d) ** 2)
    return np.asarray((error > UNCERTAIN * d**2) & (d**2 > last_fetched - error) & (d > 0))


def ranked(
    rows: AnyArray, queries: FloatArray, candidates: IntArray, k: int
) -> tuple[FloatArray, IntArray]:
    """Find the k nearest candidates of each query by distances in float64.

    Parameters
    ----------
    rows : ndarray of shape (n_samples, n_features)
        Samples.
    queries : ndarray of shape (n_queries, n_features)
        Queries.
    candidates : ndarray of shape (n_queries, n_candidates)
        Indices of samples.
    k : int
        Number of neighbours.

    Returns
    -------
    distances, indices : ndarray of shape (n_queries, k)
        Like those of :func:`nearest_rows`.
    """
    difference = rows[candidates] - queries[:, None, :]
    # Differences of a distant query are divided by its size, so that squares do not overflow.
    size = np.maximum(np.abs(queries).max(axis=1, keepdims=True, initial=0.0) / FARTHEST, 1.0)
    difference /= size[:, :, None]
    distances = size * np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    order = np.lexsort((candidates, distances), axis=1)[:, :k]
    return (
        np.take_along_axis(distances, order, axis=1),
        np.take_along_axis(candidates, order, axis=1).astype(np.intp),
    )

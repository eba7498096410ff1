r"""FaissNeighborsTransformer: graph of nearest neighbours by faiss, with distances in float64.

faiss stores samples as float32 and computes squared distances from products of matrices, which are
exact to about 1e-7 of the squared norms. The samples are therefore centred and scaled in float64
before the cast, a few more neighbours than requested are fetched, and their distances are computed
in float64 from the samples; these determine the order. If an index returns too few samples, the
exact search of this package is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._neighbors import directions, nearest_neighbors, refuse_distant
from genmetric._parallel import map_chunks, one_blas_thread, row_chunks
from genmetric._text import import_optional
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    BOOLEAN,
    Interval,
    ParameterRules,
    check_parameter,
    check_parameters,
    query_rows,
    refuse_lazy,
)
from genmetric.density import Coordinates


class FaissNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Sparse graph of nearest neighbours, computed by faiss (extra ``ann``).

    It replaces scikit-learn's :class:`~sklearn.neighbors.KNeighborsTransformer`: before any
    estimator with ``metric="precomputed"``, such as KNeighborsClassifier, Isomap or DBSCAN, and
    after a metric, whose `transform` makes its distances Euclidean. Distances are computed in
    float64 for every index; the approximate indexes may miss neighbours.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours of each sample; in "distance" mode one more, since a training sample is
        its own nearest neighbour there, as in scikit-learn.
    mode : {"distance", "connectivity"}, default="distance"
        Entries of the graph: distances, or ones.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance. ``"cosine"`` is one minus the cosine of the angle, as in scikit-learn: samples are
        scaled to unit length and searched by Euclidean distance. On unit vectors, inner product,
        cosine and Euclidean distance have the same neighbours.
    index : {"flat", "hnsw", "ivf"}, default="flat"
        ``"flat"`` compares all samples. ``"hnsw"`` follows a graph: fast queries with
        high recall, slow to build. ``"ivf"`` divides the samples into lists and searches a few of
        them: fast to build.
    n_links : int, default=16
        Number of links per sample in the graph of "hnsw", at least 2. Larger values raise recall,
        memory and time.
    ef_construction : int, default=100
        Number of candidates for the links of a sample when the graph of "hnsw" is built. Larger
        values raise recall and the time to build.
    ef_search : int, default=64
        Number of candidates in a search of "hnsw". Larger values raise recall and the time of a
        query. It can be changed after `fit`.
    n_lists : int, default=None
        Number of lists of "ivf", at most the number of samples. More lists make each of them
        shorter: queries are faster, and need a larger `n_probe` for the same recall. ``None`` is
        the square root of the number of samples.
    n_probe : int, default=None
        Number of lists searched in a query of "ivf". Larger values raise recall and the time of a
        query. ``None`` is a sixteenth of the lists, at least eight. It can be changed after `fit`.
    deterministic : bool, default=True
        Whether the graph of "hnsw" is built by one thread. With ``False`` it is built by `n_jobs`
        threads, and depends on their timing.
    n_jobs : int, default=None
        Number of threads for searches; ``None`` is one, -1 uses all cores. The result is the same
        for every number.
    random_state : int, RandomState instance or None, default=None
        Seed of the k-means that finds the lists of "ivf".

    Attributes
    ----------
    n_samples_fit_ : int
        Number of samples seen during fit.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeMetric : Learns a metric to search in.
    genmetric.neighbors.nearest_neighbors : Exact search without faiss.
    sklearn.neighbors.KNeighborsTransformer : The same with scikit-learn's searches.

    Notes
    -----
    Samples are centred and scaled in float64 before faiss stores them as float32, so a common
    offset of 1e10 or values of 1e150 do not lose precision. They are also stored in their own
    precision, for exact distances: 12 bytes per number for float64 samples, 8 for float32.
    The squared distances that faiss compares are exact to about 1e-6 of the squared distance to the
    mean of the samples. If many samples are nearer to each other than that, some neighbours can be
    missed; an outlier that moves the mean far away has this effect.
    A pickle contains the index in the format of faiss; do not unpickle untrusted files.

    Examples
    --------
    >>> from genmetric import FaissNeighborsTransformer, GenerativeMetric
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(
    ...     GenerativeMetric(),
    ...     FaissNeighborsTransformer(n_neighbors=5),
    ...     KNeighborsClassifier(n_neighbors=5, metric="precomputed"),
    ... )
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_neighbors": [Interval(int, 1)],
        "mode": ["distance", "connectivity"],
        "metric": ["euclidean", "cosine"],
        "index": ["flat", "hnsw", "ivf"],
        "n_links": [Interval(int, 2)],
        "ef_construction": [Interval(int, 1)],
        "ef_search": [Interval(int, 1)],
        "n_lists": [None, Interval(int, 1)],
        "n_probe": [None, Interval(int, 1)],
        "deterministic": [BOOLEAN],
    }

    def __init__(
        self,
        n_neighbors: Any = 5,
        *,
        mode: str = "distance",
        metric: str = "euclidean",
        index: str = "flat",
        n_links: Any = 16,
        ef_construction: Any = 100,
        ef_search: Any = 64,
        n_lists: Any = None,
        n_probe: Any = None,
        deterministic: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mode = mode
        self.metric = metric
        self.index = index
        self.n_links = n_links
        self.ef_construction = ef_construction
        self.ef_search = ef_search
        self.n_lists = n_lists
        self.n_probe = n_probe
        self.deterministic = deterministic
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> FaissNeighborsTransformer:
        """Build the index.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples to search among.
        y : None
            Ignored.

        Returns
        -------
        self : FaissNeighborsTransformer
            The fitted transformer.
        """
        _import_faiss()
        check_parameters(self)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=[np.float64, np.float32])
        if self.n_lists is not None and self.n_lists > len(x):
            raise ValueError(
                f"n_lists={self.n_lists} is more than the {len(x)} samples. Use fewer, or None."
            )
        x = directions(x) if self.metric == "cosine" else x
        self._fit_metric, self.n_samples_fit_ = self.metric, len(x)
        self._coordinates = Coordinates.of(x)
        self._rows = np.empty_like(x)
        for chunk in row_chunks(len(x), 32 * x.shape[1]):
            self._rows[chunk] = self._coordinates.apply(x[chunk])
        self._index = self._build_index()
        return self

    def _build_index(self) -> Any:
        """Build the index of the scaled samples."""
        faiss, (n_samples, n_features) = _import_faiss(), self._rows.shape
        # The lists of "ivf" are sums over samples, which threads round in another order; with more
        # than one thread a graph of "hnsw" depends on their timing.
        n_threads = 1 if self.deterministic or self.index != "hnsw" else self.n_jobs
        with one_blas_thread(), _faiss_threads(effective_n_jobs(n_threads)):
            if self.index == "hnsw":
                index = faiss.IndexHNSWFlat(n_features, int(self.n_links))
                index.hnsw.efConstruction = int(self.ef_construction)
            elif self.index == "ivf":
                n_lists = int(self.n_lists or round(np.sqrt(n_samples)))
                index = faiss.IndexIVFFlat(faiss.IndexFlatL2(n_features), n_features, n_lists)
                seed = int(check_random_state(self.random_state).randint(2**31 - 1))  # a C int
                index.cp.seed = seed
                # Otherwise faiss prints warnings about lists with few samples, which are harmless.
                index.cp.min_points_per_centroid = 1
                # As many samples as the k-means of faiss uses, so no others are cast.
                n_used = n_lists * index.cp.max_points_per_centroid
                used = np.random.default_rng(seed).permutation(n_samples)[:n_used]
                index.train(np.float32(self._rows[np.sort(used)]))
            else:
                index = faiss.IndexFlatL2(n_features)
            for chunk in row_chunks(n_samples, 4 * n_features):
                index.add(np.float32(self._rows[chunk]))
        return index

    def transform(self, X: ArrayLike) -> csr_matrix:
        """Return the graph of the neighbours of samples among those of `fit`.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Samples.

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit_)
            `n_neighbors` entries per row, and one more in "distance" mode; sorted by distance.
        """
        check_is_fitted(self)
        check_parameters(self)
        return self.kneighbors_graph(X, self.n_neighbors + (self.mode == "distance"), self.mode)

    def kneighbors(
        self, X: ArrayLike | None = None, n_neighbors: Any = None, return_distance: bool = True
    ) -> Any:
        """Find the nearest samples of `fit`.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries; ``None`` is the samples of `fit`, each without itself.
        n_neighbors : int, default=None
            Number of neighbours; ``None`` is the parameter.
        return_distance : bool, default=True
            Whether distances are returned too.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances, ascending; only if `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors)
            Indices of samples of `fit`.
        """
        check_is_fitted(self)
        check_parameters(self)
        k, own = self.n_neighbors if n_neighbors is None else n_neighbors, X is None
        check_parameter(k, "n_neighbors", [Interval(int, 1)])
        if k > self.n_samples_fit_ - own:
            raise ValueError(
                f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {k}, n_samples_fit = "
                f"{self.n_samples_fit_}{', and a sample is not its own neighbour' if own else ''}. "
                'In mode "distance" transform needs one more than the parameter n_neighbors.'
            )
        queries = self._rows
        if not own:
            x = query_rows(self, X)
            x = directions(x) if self._fit_metric == "cosine" else x
            queries = self._coordinates.apply(x)
            refuse_distant(queries, 1e15)
        distances, indices = self._search(queries, k + own)
        if own:
            keep = indices != np.arange(len(indices))[:, None]
            # With more equal samples than neighbours, a sample may be missing from its own list.
            keep[keep.all(axis=1), 0] = False
            distances, indices = (a[keep].reshape(-1, k) for a in (distances, indices))
        distances *= self._coordinates.scale
        if self._fit_metric == "cosine":
            # Unit vectors u, v: 1 - u.v = |u - v|^2 / 2, without the cancellation of the left side.
            distances = distances**2 / 2
        return (distances, indices) if return_distance else indices

    def _search(self, queries: AnyArray, k: int) -> tuple[FloatArray, IntArray]:
        """Find the k nearest samples of each query, in the coordinates of the index."""
        faiss, index, rows = _import_faiss(), self._index, self._rows
        parameters = None
        if isinstance(index, faiss.IndexHNSW):
            parameters = faiss.SearchParametersHNSW(efSearch=int(self.ef_search))
        elif isinstance(index, faiss.IndexIVF):
            n_probe = self.n_probe or max(8, index.nlist // 16)
            parameters = faiss.SearchParametersIVF(nprobe=int(n_probe))
        n_fetched = min(k + 8, len(rows))  # a few more, so rounding does not lose any

        def of_chunk(chunk: slice) -> tuple[FloatArray, IntArray]:
            x = queries[chunk]
            with _faiss_threads(1):
                _, found = index.search(np.float32(x), n_fetched, params=parameters)
            few = (found < 0).any(axis=1)
            if few.any():
                found[few] = nearest_neighbors(rows, n_fetched, queries=x[few]).indices
            return _ranked(rows, x, found, k)

        per_query = 24 * n_fetched * rows.shape[1]
        chunks = row_chunks(len(queries), per_query, max_rows=4096)
        parts = zip(*map_chunks(of_chunk, chunks, self.n_jobs), strict=True)
        distances, indices = (np.concatenate(part) for part in parts)
        return distances, indices

    def kneighbors_graph(
        self, X: ArrayLike | None = None, n_neighbors: Any = None, mode: str = "connectivity"
    ) -> csr_matrix:
        """Return the nearest samples of `fit` as a sparse matrix.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries; ``None`` is the samples of `fit`, each without itself.
        n_neighbors : int, default=None
            Number of neighbours; ``None`` is the parameter.
        mode : {"connectivity", "distance"}, default="connectivity"
            Entries of the matrix: ones or distances.

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit_)
            `n_neighbors` entries per row, sorted by distance.
        """
        check_parameter(mode, "mode", self._parameter_rules["mode"])
        distances, indices = self.kneighbors(X, n_neighbors)
        values = distances if mode == "distance" else np.ones_like(distances)
        n_queries, k = indices.shape
        starts = np.arange(0, n_queries * k + 1, k)
        shape = (n_queries, self.n_samples_fit_)
        return csr_matrix((values.ravel(), indices.ravel(), starts), shape=shape)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_samples_fit_)


def _import_faiss() -> Any:
    """Import faiss; its wrappers raise deprecation warnings on some versions of Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return import_optional("faiss", "ann")


@contextmanager
def _faiss_threads(n: int) -> Iterator[None]:
    """Set the number of threads of faiss, in calls from this thread."""
    faiss = _import_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _ranked(
    rows: AnyArray, queries: FloatArray, candidates: IntArray, k: int
) -> tuple[FloatArray, IntArray]:
    """Find the k nearest candidates of each query by distances in float64, ties by index."""
    difference = rows[candidates] - queries[:, None, :]
    distances = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    order = np.lexsort((candidates, distances), axis=1)[:, :k]
    nearest = np.take_along_axis(candidates, order, axis=1).astype(np.intp)
    return np.take_along_axis(distances, order, axis=1), nearest

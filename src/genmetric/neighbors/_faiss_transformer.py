"""Graph of nearest neighbours by faiss, in the format of scikit-learn's transformers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._chunks import check_n_jobs, row_chunks
from genmetric._parameters import (
    BOOLEAN,
    N_JOBS,
    RANDOM_STATE,
    Interval,
    ParameterRules,
    check_parameters,
)
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._unit_vectors import unit_vectors
from genmetric._validation import check_count, query_rows, refuse_lazy
from genmetric.density._scaling import Scaling
from genmetric.neighbors._faiss_search import (
    IndexPlan,
    build_index,
    faiss_module,
    nearest_rows,
    search_parameters,
)

MODES = ("distance", "connectivity")

#: Last sentence of the error about zero vectors.
ZERO_ADVICE = 'Drop them, or use metric="euclidean".'


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
        ``"flat"`` compares all samples and is exact. ``"hnsw"`` follows a graph: fast queries with
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
    Samples are centred and scaled in float64 before faiss stores them as float32, so that a common
    offset of 1e10 or values of 1e150 do not lose precision. They are also stored in their own
    precision, for exact distances: 12 bytes per number for float64 samples, 8 for float32.
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
        "mode": [*MODES],
        "metric": ["euclidean", "cosine"],
        "index": ["flat", "hnsw", "ivf"],
        "n_links": [Interval(int, 2)],
        "ef_construction": [Interval(int, 1)],
        "ef_search": [Interval(int, 1)],
        "n_lists": [None, Interval(int, 1)],
        "n_probe": [None, Interval(int, 1)],
        "deterministic": [BOOLEAN],
        "n_jobs": N_JOBS,
        "random_state": RANDOM_STATE,
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

    @restore_on_error
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
        faiss_module()
        check_parameters(self)
        check_n_jobs(self.n_jobs)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=[np.float64, np.float32])
        if self.metric == "cosine":
            x = unit_vectors(x, advice=ZERO_ADVICE)
        scaling = Scaling.of(x)
        rows = np.empty(x.shape, x.dtype)
        for chunk in row_chunks(len(x), 32 * x.shape[1]):
            rows[chunk] = scaling.apply(x[chunk])
        index = build_index(rows, self._plan(len(x)), self._build_threads())
        self._scaling, self._index, self._rows = scaling, index, rows
        self._fit_metric, self.n_samples_fit_ = self.metric, len(x)
        return self

    def _plan(self, n_samples: int) -> IndexPlan:
        n_lists = round(np.sqrt(n_samples)) if self.n_lists is None else int(self.n_lists)
        if n_lists > n_samples:
            raise ValueError(
                f"n_lists={n_lists} is more than the {n_samples} samples. Use fewer lists, or None."
            )
        # faiss takes a C int.
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return IndexPlan(self.index, int(self.n_links), int(self.ef_construction), n_lists, seed)

    def _build_threads(self) -> int:
        from joblib import effective_n_jobs

        # The lists of "ivf" are sums over samples, which threads round in another order.
        race = self.index == "hnsw" and not self.deterministic
        return int(effective_n_jobs(self.n_jobs)) if race else 1

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
        k = check_count(self.n_neighbors, "n_neighbors") + (self.mode == "distance")
        return self.kneighbors_graph(X, k, self.mode)

    def kneighbors(
        self,
        X: ArrayLike | None = None,
        n_neighbors: Any = None,
        return_distance: bool = True,
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
        k = check_count(self.n_neighbors if n_neighbors is None else n_neighbors, "n_neighbors")
        own = X is None
        if k > self.n_samples_fit_ - own:
            raise ValueError(
                f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {k}, n_samples_fit = "
                f"{self.n_samples_fit_}{', and a sample is not its own neighbour' if own else ''}. "
                'In mode "distance" transform needs one more than the parameter n_neighbors.'
            )
        if own:
            distances, indices = self._without_self(*self._search(self._rows, k + 1))
        else:
            x = query_rows(self, X)
            x = unit_vectors(x, advice=ZERO_ADVICE) if self._fit_metric == "cosine" else x
            distances, indices = self._search(self._scaling.apply(x), k)
        return (distances, indices) if return_distance else indices

    def _search(self, queries: AnyArray, k: int) -> tuple[FloatArray, IntArray]:
        check_parameters(self)
        parameters = search_parameters(
            self._index, ef_search=int(self.ef_search), n_probe=self.n_probe
        )
        distances, indices = nearest_rows(
            self._index, self._rows, queries, k, parameters=parameters, n_jobs=self.n_jobs
        )
        distances *= self._scaling.scale
        # Unit vectors u, v: 1 - u.v = |u - v|^2 / 2, without the cancellation of the left side.
        return (distances**2 / 2 if self._fit_metric == "cosine" else distances), indices

    @staticmethod
    def _without_self(distances: FloatArray, indices: IntArray) -> tuple[FloatArray, IntArray]:
        keep = indices != np.arange(len(indices))[:, None]
        # With more equal samples than neighbours, a sample may be missing from its own list.
        keep[keep.all(axis=1), 0] = False
        shape = (len(indices), -1)
        return distances[keep].reshape(shape), indices[keep].reshape(shape)

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
        if mode not in MODES:
            raise ValueError(f'mode must be "connectivity" or "distance"; got {mode!r}.')
        distances, indices = self.kneighbors(X, n_neighbors)
        values = distances if mode == "distance" else np.ones_like(distances)
        n_queries, k = indices.shape
        starts = np.arange(0, n_queries * k + 1, k)
        shape = (n_queries, self.n_samples_fit_)
        return csr_matrix((values.ravel(), indices.ravel(), starts), shape=shape)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_samples_fit_)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_index" in state:
            state["_index"] = faiss_module().serialize_index(state["_index"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_index" in state:
            self._index = faiss_module().deserialize_index(state["_index"])

"""The graph of nearest neighbours by faiss, as scikit-learn's neighbours transformers give it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._chunks import check_n_jobs, row_chunks
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count, refuse_lazy
from genmetric.density.frame import Frame
from genmetric.neighbors.faiss_search import (
    IndexPlan,
    build_index,
    faiss_module,
    nearest_rows,
    search_parameters,
)

INDEXES = ("flat", "hnsw", "ivf")
MODES = ("distance", "connectivity")


class FaissNeighborsTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Sparse graph of the nearest rows, found by faiss (``pip install genmetric[ann]``).

    It stands where scikit-learn's :class:`~sklearn.neighbors.KNeighborsTransformer` stands: before
    any estimator with ``metric="precomputed"``, such as KNeighborsClassifier, Isomap or DBSCAN,
    and after a metric, whose `transform` makes its distances Euclidean. Distances are exact, in
    float64, for every index; the approximate ones may miss neighbours.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours of each row; in "distance" mode one more, since a row of the training set is
        its own nearest neighbour there, as in scikit-learn.
    mode : {"distance", "connectivity"}, default="distance"
        Entries of the graph: distances, or ones.
    index : {"flat", "hnsw", "ivf"}, default="flat"
        "flat" looks at every row, and is exact. "hnsw" walks a graph: fast and faithful queries,
        slow to build. "ivf" sorts rows into lists and looks at a few of them: quick to build.
    n_links : int, default=16
        Links of a row in the graph of "hnsw". More are more faithful, larger and slower.
    ef_construction : int, default=100
        Candidates for the links of a row when the graph of "hnsw" is built.
    ef_search : int, default=64
        Candidates kept in a search of "hnsw". May be set after `fit`.
    n_lists : int, default=None
        Lists of "ivf"; ``None`` is the square root of the number of rows.
    n_probe : int, default=None
        Lists looked at in a search of "ivf"; ``None`` is a sixteenth of them, and at least eight.
        May be set after `fit`.
    deterministic : bool, default=True
        Whether the graph of "hnsw" is built by one thread. With ``False`` `n_jobs` threads build
        it, and it depends on their race.
    n_jobs : int, default=None
        Threads for searches; ``None`` is one, -1 all cores. The answer is the same for every
        number.
    random_state : int, RandomState instance or None, default=None
        Seeds the k-means that finds the lists of "ivf".

    Attributes
    ----------
    n_samples_fit_ : int
        Rows seen in `fit`.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where `fit` saw a data frame with string names.

    See Also
    --------
    GenerativeMetric : Learns a metric to search in.
    sklearn.neighbors.KNeighborsTransformer : The same with scikit-learn's searches.

    Notes
    -----
    Rows are centred and scaled in float64 before faiss gets them as float32, so that a common
    offset of 1e10 or values of 1e150 do no harm. They are kept beside the index, in the precision
    they came in, for the exact distances: 12 bytes a number for float64 rows, 8 for float32.
    A pickle holds the index as faiss writes it; do not unpickle what you do not trust.

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

    def __init__(
        self,
        n_neighbors: Any = 5,
        *,
        mode: str = "distance",
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
        self.index = index
        self.n_links = n_links
        self.ef_construction = ef_construction
        self.ef_search = ef_search
        self.n_lists = n_lists
        self.n_probe = n_probe
        self.deterministic = deterministic
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: ArrayLike, y: object = None) -> FaissNeighborsTransformer:
        """Build the index.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to search among.
        y : None
            Ignored.

        Returns
        -------
        self : FaissNeighborsTransformer
            The fitted transformer.
        """
        faiss_module()
        self._check_parameters()
        refuse_lazy(X)
        x = validate_data(self, X, dtype=[np.float64, np.float32])
        self._frame = Frame.of(x)
        rows = np.empty(x.shape, x.dtype)
        for chunk in row_chunks(len(x), 32 * x.shape[1]):
            rows[chunk] = self._frame.inward(x[chunk])
        self._index = build_index(rows, self._plan(len(x)), self._build_threads())
        self._rows, self.n_samples_fit_ = rows, len(x)
        return self

    def _check_parameters(self) -> None:
        for name in ("n_neighbors", "n_links", "ef_construction", "ef_search"):
            check_count(getattr(self, name), name)
        if self.n_links < 2:
            raise ValueError(f"n_links must be at least 2; got {self.n_links!r}.")
        for name in ("n_lists", "n_probe"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)
        check_n_jobs(self.n_jobs)
        for name, allowed in (("mode", MODES), ("index", INDEXES)):
            if getattr(self, name) not in allowed:
                known = " or ".join(f'"{value}"' for value in allowed)
                raise ValueError(f"{name} must be {known}; got {getattr(self, name)!r}.")

    def _plan(self, n_samples: int) -> IndexPlan:
        n_lists = round(np.sqrt(n_samples)) if self.n_lists is None else int(self.n_lists)
        if n_lists > n_samples:
            raise ValueError(
                f"n_lists={n_lists} is more than the {n_samples} rows. Leave it at None."
            )
        # faiss wants a C int.
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return IndexPlan(self.index, int(self.n_links), int(self.ef_construction), n_lists, seed)

    def _build_threads(self) -> int:
        from joblib import effective_n_jobs

        # The lists of "ivf" are sums over rows, which threads would round in another order.
        race = self.index == "hnsw" and not self.deterministic
        return int(effective_n_jobs(self.n_jobs)) if race else 1

    def transform(self, X: ArrayLike) -> csr_matrix:
        """The graph of the neighbours of rows among those of `fit`.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Rows.

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit_)
            `n_neighbors` entries a row, and one more in "distance" mode; sorted by distance.
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
        """The nearest rows.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries; ``None`` is the rows of `fit`, each without itself.
        n_neighbors : int, default=None
            How many; ``None`` is the parameter.
        return_distance : bool, default=True
            Whether distances are returned too.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Ascending; only if `return_distance`.
        indices : ndarray of shape (n_queries, n_neighbors)
            Rows of `fit`.
        """
        check_is_fitted(self)
        k = check_count(self.n_neighbors if n_neighbors is None else n_neighbors, "n_neighbors")
        own = X is None
        if k > self.n_samples_fit_ - own:
            raise ValueError(
                f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {k}, n_samples_fit = "
                f"{self.n_samples_fit_}{', and a row is no neighbour of its own' if own else ''}. "
                'In mode "distance" transform asks for one more than the parameter n_neighbors.'
            )
        if own:
            distances, indices = self._without_self(*self._search(self._rows, k + 1))
        else:
            refuse_lazy(X)
            x = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
            distances, indices = self._search(self._frame.inward(x), k)
        return (distances, indices) if return_distance else indices

    def _search(self, queries: AnyArray, k: int) -> tuple[FloatArray, IntArray]:
        self._check_parameters()
        parameters = search_parameters(
            self._index, ef_search=int(self.ef_search), n_probe=self.n_probe
        )
        distances, indices = nearest_rows(
            self._index, self._rows, queries, k, parameters=parameters, n_jobs=self.n_jobs
        )
        return distances * self._frame.scale, indices

    @staticmethod
    def _without_self(distances: FloatArray, indices: IntArray) -> tuple[FloatArray, IntArray]:
        keep = indices != np.arange(len(indices))[:, None]
        # Of more equal rows than were asked for, a row may be missing itself.
        keep[keep.all(axis=1), 0] = False
        shape = (len(indices), -1)
        return distances[keep].reshape(shape), indices[keep].reshape(shape)

    def kneighbors_graph(
        self, X: ArrayLike | None = None, n_neighbors: Any = None, mode: str = "connectivity"
    ) -> csr_matrix:
        """The nearest rows as a sparse matrix.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries; ``None`` is the rows of `fit`, each without itself.
        n_neighbors : int, default=None
            How many; ``None`` is the parameter.
        mode : {"connectivity", "distance"}, default="connectivity"
            Entries of the matrix: ones or distances.

        Returns
        -------
        csr_matrix of shape (n_queries, n_samples_fit_)
            `n_neighbors` entries a row, sorted by distance.
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

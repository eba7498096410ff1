"""LocalMetricClassifier: nearest neighbours where each query brings its own metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._chunks import one_blas_thread
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    cast_finite,
    check_count,
    check_fraction,
    check_priors,
    labelled_rows,
    refuse_lazy,
)
from genmetric.density.frame import Frame
from genmetric.density.models import ClassModels
from genmetric.density.statistics import class_statistics
from genmetric.metric.fitting import fit_models, gaussian_parameters
from genmetric.neighbors.local_search import SearchRows, local_neighbors


class LocalMetricClassifier(ClassifierMixin, BaseEstimator):
    r"""Nearest neighbours in the local metric of each query (the paper's GLM\ :sup:`INT`).

    A query x brings the generative local metric :math:`M_x` of its own place (eq. eLocal), mixed
    with the identity, and the training rows :math:`x_i` nearest by

    .. math:: d^2(x, x_i) = (x - x_i)^T \big((1-\lambda) I + \lambda M_x\big) (x - x_i)

    vote for its class. Both parts have determinant one in the units that the features come in, so
    scale the features first.

    The neighbours are exact. Rows that cannot be among them are ruled out by a bound from the
    identity part and the leading eigenvectors of :math:`M_x` (see
    :func:`genmetric.neighbors.local_neighbors`). With 60000 training rows of MNIST in 40
    principal components the distance is evaluated for one row in a thousand, and a query takes
    0.8 milliseconds of one core, a fifth of it for the eigendecomposition of its metric.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours that vote.
    interpolation : float, default=0.5
        Weight lambda of the local metric against the identity, in [0, 1]; 0 is Euclidean. Worth
        tuning: a local metric has a few very large eigenvalues, and with many features a small
        weight does better (0.01 on MNIST in 40 principal components, 0.1 on Letters).
    shrinkage : None, "auto" or float, default="auto"
        Covariance of each class: ``None`` is plain maximum likelihood, as in the paper; ``"auto"``
        the shrinkage of Ledoit and Wolf; a number s in [0, 1] gives (1-s)·S + s·(trace S/D)·I.
        Eigenvalues below 1e-8 of the mean pooled variance are raised to that, with ``None`` too.
    covariance_estimator : estimator, default=None
        Replaces ``"auto"``: an estimator with ``fit`` and ``covariance_``, as in
        :mod:`sklearn.covariance`, cloned and fitted on the centred rows of each class.
    class_model : estimator, default=None
        Density of a class, cloned and fitted on each, as in :class:`~genmetric.GenerativeMetric`;
        ``None`` is one Gaussian with the two parameters above.
    priors : array-like of shape (n_classes,), default=None
        Class priors in Phi, in the order of `classes_`; ``None`` is equal priors, as in the paper.
        With two classes they make no difference.
    n_jobs : int, default=None
        Threads over chunks of queries. The answer is the same, bit for bit, for every number.
    random_state : int, RandomState instance or None, default=None
        Seeds a `class_model` that has a `random_state` and was given none.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class names.
    means_ : ndarray of shape (n_classes, n_features)
        Class means.
    covariances_ : ndarray of shape (n_classes, n_features, n_features)
        Covariances of the Gaussians of the classes.
    n_samples_fit_ : int
        Number of training rows.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has such.

    See Also
    --------
    genmetric.GenerativeMetric : Averages the local metrics into one.
    EnergyClassifier : Decides by energies instead of votes, in any one metric.
    sklearn.neighbors.KNeighborsClassifier : Votes of neighbours in one metric for all queries.

    References
    ----------
    Y.-K. Noh, B.-T. Zhang and D. D. Lee, Generative local metric learning for nearest neighbor
    classification, Advances in Neural Information Processing Systems 23 (2010).

    Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee, Learning Discriminative Metrics via Generative Models
    and Kernel Learning, arXiv:1109.3940 (2011).

    Examples
    --------
    >>> from genmetric.neighbors import LocalMetricClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalMetricClassifier().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    >>> distances, rows = model.kneighbors(X[1:3])
    >>> distances.shape, rows.shape
    ((2, 5), (2, 5))
    """

    _frame: Frame
    _models: ClassModels
    _log_priors: FloatArray | None
    _index: SearchRows
    _codes: IntArray

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        interpolation: float = 0.5,
        shrinkage: Any = "auto",
        covariance_estimator: Any = None,
        class_model: Any = None,
        priors: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.interpolation = interpolation
        self.shrinkage = shrinkage
        self.covariance_estimator = covariance_estimator
        self.class_model = class_model
        self.priors = priors
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: ArrayLike, y: ArrayLike) -> LocalMetricClassifier:
        """Fit the class models and keep the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : LocalMetricClassifier
            The fitted classifier.
        """
        n_neighbors = check_count(self.n_neighbors, "n_neighbors")
        check_fraction(self.interpolation, "interpolation")
        gaussian_parameters(self)  # refuses what it cannot use before any work is done
        x, _, classes, codes = labelled_rows(self, X, y, ensure_min_samples=2)
        log_priors = check_priors(self.priors, len(classes))
        _check_available(n_neighbors, len(x))
        with one_blas_thread():
            frame = Frame.of(x)
            stats = class_statistics(x, codes, len(classes), frame=frame, n_jobs=self.n_jobs)
            rng = check_random_state(self.random_state)
            gaussians, models = fit_models(self, x, codes, frame, stats, classes, None, rng)
        self._frame, self._models, self._log_priors = frame, models, log_priors
        self._index, self._codes = SearchRows.of(frame.inward(x)), codes
        self._dtype = x.dtype
        self.classes_ = classes
        self.means_ = frame.center + frame.scale * gaussians.means
        self.covariances_ = frame.scale**2 * gaussians.covariances
        self.n_samples_fit_ = len(x)
        return self

    def kneighbors(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Nearest training rows of each query, by the query's own metric.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries; ``None`` takes the training rows, none of which is a neighbour of itself.
        n_neighbors : int, default=None
            How many; ``None`` is the parameter of the classifier.
        return_distance : bool, default=True
            Whether to return the distances.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances in the metric of each query, ascending; float32 where X is. Only with
            ``return_distance=True``.
        indices : ndarray of shape (n_queries, n_neighbors)
            Training rows; of equal distances the first row comes first.
        """
        check_is_fitted(self)
        k = check_count(self.n_neighbors if n_neighbors is None else n_neighbors, "n_neighbors")
        _check_available(k, self.n_samples_fit_ - (X is None))
        if X is None:
            queries, dtype = self._index.rows, self._dtype
        else:
            x = self._validate_queries(X)
            queries, dtype = self._frame.inward(x), x.dtype
        found = local_neighbors(
            self._models,
            queries,
            self._index,
            k,
            interpolation=check_fraction(self.interpolation, "interpolation"),
            log_priors=self._log_priors,
            itself=X is None,
            n_jobs=self.n_jobs,
        )
        if not return_distance:
            return found.indices
        distances = self._frame.scale * np.sqrt(found.squared)
        return cast_finite(distances, dtype, "Distances"), found.indices

    def _validate_queries(self, X: Any) -> AnyArray:
        refuse_lazy(X)
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    def predict_proba(self, X: ArrayLike | None) -> FloatArray:
        """Share of each class among the neighbours of each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features) or None
            Queries; ``None`` takes the training rows, each without its own vote.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
            Shares, in the order of `classes_`.
        """
        neighbors = self.kneighbors(X, return_distance=False)
        votes = self._codes[neighbors]
        n_queries, n_neighbors = votes.shape
        n_classes = len(self.classes_)
        ballot = votes + n_classes * np.arange(n_queries)[:, None]
        counts = np.bincount(ballot.ravel(), minlength=n_queries * n_classes)
        return np.asarray(counts.reshape(n_queries, n_classes) / n_neighbors)

    def predict(self, X: ArrayLike | None) -> AnyArray:
        """Class of each query: most votes win; of equal counts the first class in `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features) or None
            Queries; ``None`` takes the training rows, each without its own vote.

        Returns
        -------
        ndarray of shape (n_queries,)
            Class labels.
        """
        winners = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[winners])


def _check_available(n_neighbors: int, n_rows: int) -> None:
    if n_neighbors > n_rows:
        raise ValueError(
            f"n_neighbors={n_neighbors}, but only {n_rows} training rows can be neighbours. Lower "
            "n_neighbors or fit on more rows."
        )

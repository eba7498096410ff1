"""LocalMetricClassifier: nearest neighbours where each query has its own metric."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from genmetric._chunks import one_blas_thread
from genmetric._parameters import (
    N_JOBS,
    RANDOM_STATE,
    Interval,
    ParameterRules,
    check_parameters,
)
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    cast_finite,
    check_count,
    check_fraction,
    check_priors,
    labelled_rows,
    query_rows,
)
from genmetric._votes import class_probabilities, majority_vote
from genmetric.density._models import ClassModels
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import class_statistics
from genmetric.learners._class_models import ClassModelSpecification, fit_models
from genmetric.neighbors._local_search import SearchRows, local_neighbors


class LocalMetricClassifier(ClassifierMixin, BaseEstimator):
    r"""Nearest-neighbour classifier in the local metric of each query.

    The class densities at a query x determine a generative local metric :math:`M_x` of determinant
    one. It is mixed with the identity, and the training samples :math:`x_i` nearest by

    .. math:: d^2(x, x_i) = (x - x_i)^T \big((1-\lambda) I + \lambda M_x\big) (x - x_i)

    vote for the class. The result depends on the units of the features: scale them first.

    The neighbours are exact. A bound from the identity part and the leading eigenvectors of
    :math:`M_x` excludes most samples (see :func:`genmetric.neighbors.local_neighbors`). With 60000
    training samples of MNIST in 40 principal components the distance is computed for one sample in
    a thousand, and a query takes 0.8 milliseconds of one core, a fifth of it for the
    eigendecomposition of its metric.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of neighbours that vote, at most the number of training samples. Larger values smooth
        the decision.
    interpolation : float, default=0.5
        Weight :math:`\lambda` of the local metric against the identity, in [0, 1]. Smaller values
        regularise towards Euclidean distance, which is 0. Tune it: local metrics have a few very
        large eigenvalues, and with many features small weights are better (0.01 on MNIST in 40
        principal components, 0.1 on Letters).
    shrinkage : None, "auto" or float, default="auto"
        Covariance of each class: ``None`` is maximum likelihood, as in the paper; ``"auto"`` the
        shrinkage of Ledoit and Wolf; a number s in [0, 1] gives (1-s)·S + s·(trace S/D)·I, and
        larger values make the classes rounder. Eigenvalues below 1e-8 of the mean pooled variance
        are raised to that level, for ``None`` too.
    class_model : estimator, default=None
        Density of a class, cloned and fitted on each, as in :class:`~genmetric.GenerativeMetric`;
        ``None`` is one Gaussian with this `shrinkage`. ``GaussianModel(covariance_estimator=...)``
        takes a covariance estimator of scikit-learn.
    priors : array-like of shape (n_classes,), default=None
        Class priors, in the order of `classes_`; a class with a larger prior has more influence on
        the local metrics. ``None`` is equal priors, as in the paper. With two classes they have no
        effect.
    n_jobs : int, default=None
        Number of threads; ``None`` is one, -1 uses all cores. The result is the same, bit for bit,
        for every number.
    random_state : int, RandomState instance or None, default=None
        Seed of `class_model` if its own `random_state` is None.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    means_ : ndarray of shape (n_classes, n_features)
        Class means.
    covariances_ : ndarray of shape (n_classes, n_features, n_features)
        Covariances of the Gaussians of the classes.
    n_samples_fit_ : int
        Number of training samples.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    genmetric.GenerativeMetric : Averages the local metrics into one.
    EnergyClassifier : Compares energies instead of votes, in one metric.
    sklearn.neighbors.KNeighborsClassifier : Votes of neighbours in one metric for all queries.

    Notes
    -----
    Ties of votes go to the first class, as in scikit-learn. Interpolated local metrics are
    described in appendix C of the paper.

    References
    ----------
    Y.-K. Noh, B.-T. Zhang and D. D. Lee, Generative local metric learning for nearest neighbor
    classification, Advances in Neural Information Processing Systems 23 (2010).

    Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee, Learning Discriminative Metrics via Generative Models
    and Kernel Learning, arXiv:1109.3940v1 (2011).

    Examples
    --------
    >>> from genmetric.neighbors import LocalMetricClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalMetricClassifier().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    >>> distances, indices = model.kneighbors(X[1:3])
    >>> distances.shape, indices.shape
    ((2, 5), (2, 5))
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "n_neighbors": [Interval(int, 1)],
        "interpolation": [Interval(float, 0, 1)],
        "n_jobs": N_JOBS,
        "random_state": RANDOM_STATE,
    }

    #: Scaling, class models, log-priors, training samples and their class codes, type of the rows,
    #: and classes: one attribute, so that a prediction in another thread never combines two fits.
    _fitted: tuple[Scaling, ClassModels, FloatArray | None, SearchRows, IntArray, Any, AnyArray]

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        interpolation: float = 0.5,
        shrinkage: Any = "auto",
        class_model: Any = None,
        priors: ArrayLike | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.interpolation = interpolation
        self.shrinkage = shrinkage
        self.class_model = class_model
        self.priors = priors
        self.n_jobs = n_jobs
        self.random_state = random_state

    @restore_on_error
    def fit(self, X: ArrayLike, y: ArrayLike) -> LocalMetricClassifier:
        """Fit the class models and store the training samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : LocalMetricClassifier
            The fitted classifier.
        """
        check_parameters(self)
        spec = ClassModelSpecification.of(self.shrinkage, self.class_model)
        x, _, classes, codes = labelled_rows(self, X, y, ensure_min_samples=2)
        log_priors = check_priors(self.priors, len(classes))
        _check_available(self.n_neighbors, len(x))
        with one_blas_thread():
            scaling = Scaling.of(x)
            stats = class_statistics(x, codes, len(classes), frame=scaling, n_jobs=self.n_jobs)
            rng = check_random_state(self.random_state)
            gaussians, models = fit_models(spec, x, codes, scaling, stats, classes, None, rng)
        index = SearchRows.of(scaling.apply(x))
        self.classes_ = classes
        self.means_ = scaling.center + scaling.scale * gaussians.means
        self.covariances_ = scaling.scale**2 * gaussians.covariances
        self.n_samples_fit_ = len(x)
        self._fitted = (scaling, models, log_priors, index, codes, x.dtype, classes)
        return self

    def kneighbors(
        self,
        X: ArrayLike | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> Any:
        """Find the nearest training samples of each query in the metric of the query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features), default=None
            Queries; ``None`` is the training samples, each without itself.
        n_neighbors : int, default=None
            Number of neighbours; ``None`` is the parameter of the classifier.
        return_distance : bool, default=True
            Whether to return the distances.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances in the metric of each query, ascending; float32 if X is. Only with
            ``return_distance=True``.
        indices : ndarray of shape (n_queries, n_neighbors)
            Indices of training samples; equal distances are ordered by index.
        """
        check_is_fitted(self)
        distances, indices = self._neighbors(X, n_neighbors, self._fitted)
        return (distances, indices) if return_distance else indices

    def _neighbors(
        self, X: Any, n_neighbors: int | None, fitted: tuple[Any, ...]
    ) -> tuple[AnyArray, IntArray]:
        """Search in one fit, even if another thread fits the estimator again meanwhile."""
        scaling, models, log_priors, index, _, dtype, _ = fitted
        k = check_count(self.n_neighbors if n_neighbors is None else n_neighbors, "n_neighbors")
        _check_available(k, len(index.rows) - (X is None))
        queries = index.rows
        if X is not None:
            x = query_rows(self, X)
            queries, dtype = scaling.apply(x), x.dtype
        found = local_neighbors(
            models,
            queries,
            index,
            k,
            interpolation=check_fraction(self.interpolation, "interpolation"),
            log_priors=log_priors,
            itself=X is None,
            n_jobs=self.n_jobs,
        )
        distances = scaling.scale * np.sqrt(found.squared)
        return cast_finite(distances, dtype, "Distances"), found.indices

    def predict_proba(self, X: ArrayLike | None) -> FloatArray:
        """Return the fraction of the neighbours of each query that belongs to each class.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features) or None
            Queries; ``None`` is the training samples, each without its own vote.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
            Fractions, in the order of `classes_`.
        """
        check_is_fitted(self)
        fitted = self._fitted
        _, indices = self._neighbors(X, None, fitted)
        return class_probabilities(fitted[4][indices], len(fitted[6]))

    def predict(self, X: ArrayLike | None) -> AnyArray:
        """Predict the class with the most votes; ties go to the first class in `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features) or None
            Queries; ``None`` is the training samples, each without its own vote.

        Returns
        -------
        ndarray of shape (n_queries,)
            Class labels.
        """
        check_is_fitted(self)
        fitted = self._fitted
        _, indices = self._neighbors(X, None, fitted)
        codes, classes = fitted[4], fitted[6]
        return np.asarray(classes[majority_vote(codes[indices], len(classes))])


def _check_available(n_neighbors: int, n_rows: int) -> None:
    if n_neighbors > n_rows:
        raise ValueError(
            f"n_neighbors={n_neighbors}, but only {n_rows} training samples can be neighbours. Use "
            "fewer neighbours or more samples."
        )

"""GenerativeMetric: the average of generative local metrics (eq. eUniform) as an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from genmetric._chunks import map_chunks, one_blas_thread, row_chunks
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import (
    check_fraction,
    check_n_components,
    check_priors,
    check_weights,
    encode_classes,
    form_points,
    refuse_lazy,
)
from genmetric.density.frame import Frame
from genmetric.density.models import ClassModels
from genmetric.density.statistics import class_statistics
from genmetric.geometry.factor import rank_limited_factor, symmetric_root
from genmetric.geometry.local import interpolate, local_metrics
from genmetric.geometry.phi import phi
from genmetric.geometry.risk import density_bias
from genmetric.geometry.summation import dense_bytes_per_row, sum_local_metrics
from genmetric.metric.fitting import check_max_samples, draw_rows, fit_models, gaussian_parameters
from genmetric.metric.mahalanobis import MahalanobisMixin


class GenerativeMetric(MahalanobisMixin, BaseEstimator):
    r"""A Mahalanobis metric averaged from generative local metrics, in closed form.

    At each training point :math:`x_i` the class densities say which metric :math:`M_i` keeps the
    nearest neighbour honest: the one that makes the first-order bias of its error vanish
    (eq. eLocalSDP, solved in eq. eLocal). The metric learned is their average (eq. eUniform),

    .. math:: M^{\mathrm{UNI}} = \frac1N \sum_i M_i = L^T L,

    and `transform` maps rows to z = Lx, where Euclidean distances are distances under M.

    Parameters
    ----------
    combination : "uniform" or array-like of shape (n_samples,), default="uniform"
        Weights of the local metrics in the average: equal, or given.
    shrinkage : None, "auto" or float, default="auto"
        Covariance of each class: ``None`` is plain maximum likelihood, as in the paper; ``"auto"``
        the shrinkage of Ledoit and Wolf; a number s in [0, 1] gives (1-s)·S + s·(trace S/D)·I.
        Eigenvalues below 1e-8 of the mean pooled variance are raised to that, with ``None`` too.
    covariance_estimator : estimator, default=None
        Replaces ``"auto"``: an estimator with ``fit`` and ``covariance_``, as in
        :mod:`sklearn.covariance`, cloned and fitted on the centred rows of each class.
    class_model : estimator, default=None
        Density of a class, cloned and fitted on each: :class:`GaussianModel` (the default, with
        the two parameters above), :class:`GaussianMixtureModel`, or any object with ``fit``,
        ``log_density``, ``gradient`` and ``curvature``. `shrinkage` and `covariance_estimator` are
        not used with it.
    interpolation : float, default=1.0
        Weight lambda of each local metric against the identity, (1-lambda)·I + lambda·M_i.
    n_components : int, default=None
        Rows of L; ``None`` keeps all. Fewer rows are the leading principal components of the
        training rows in the space of the metric.
    max_samples : int or float, default=None
        Average over a random subset of the rows: so many, or that share of them. The class models
        still see every row.
    priors : array-like of shape (n_classes,), default=None
        Class priors in Phi, in the order of `classes_`; ``None`` is equal priors, as in the paper.
        With two classes they make no difference.
    preprocessor : array-like or callable, default=None
        Looks rows up where indices are passed instead, as in metric-learn.
    n_jobs : int, default=None
        Threads over chunks of rows. The answer is the same, bit for bit, for every number.
    random_state : int, RandomState instance or None, default=None
        Draws the subset of `max_samples`.
    verbose : int, default=0
        Whether to print what was fitted.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The factor L; the symmetric root of M unless `n_components` is given.
    metric_ : ndarray of shape (n_features, n_features)
        The metric M = LᵀL.
    metric_stderr_ : float
        Standard error of the average over `max_samples` rows against the one over all rows,
        relative to its Frobenius norm; zero where all rows were used.
    classes_ : ndarray of shape (n_classes,)
        Class names.
    means_ : ndarray of shape (n_classes, n_features)
        Class means.
    covariances_ : ndarray of shape (n_classes, n_features, n_features)
        Covariances of the Gaussians of the classes.
    weights_ : ndarray of shape (n_samples,)
        Weights of the local metrics, of sum one; only where `combination` is not "uniform".
    n_iter_ : int
        Rounds of the combination; one.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X has such.

    See Also
    --------
    sklearn.neighbors.NeighborhoodComponentsAnalysis : Learns L by optimisation.

    References
    ----------
    Y. Shi, Y.-K. Noh, F. Sha and D. D. Lee, Learning Discriminative Metrics via Generative Models
    and Kernel Learning, arXiv:1109.3940 (2011).

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_wine(return_X_y=True)
    >>> plain = cross_val_score(KNeighborsClassifier(), X, y).mean()
    >>> learned = make_pipeline(GenerativeMetric(shrinkage=None), KNeighborsClassifier())
    >>> bool(cross_val_score(learned, X, y).mean() > plain + 0.2)
    True
    """

    _frame: Frame
    _models: ClassModels
    _log_priors: FloatArray | None

    def __init__(
        self,
        combination: Any = "uniform",
        *,
        shrinkage: Any = "auto",
        covariance_estimator: Any = None,
        class_model: Any = None,
        interpolation: float = 1.0,
        n_components: int | None = None,
        max_samples: Any = None,
        priors: ArrayLike | None = None,
        preprocessor: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.combination = combination
        self.shrinkage = shrinkage
        self.covariance_estimator = covariance_estimator
        self.class_model = class_model
        self.interpolation = interpolation
        self.n_components = n_components
        self.max_samples = max_samples
        self.priors = priors
        self.preprocessor = preprocessor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> GenerativeMetric:
        """Fit the class models and average the local metrics of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or indices of rows with a `preprocessor`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: 2 is the row twice, 0 is absent.

        Returns
        -------
        self : GenerativeMetric
            The fitted estimator.
        """
        interpolation = check_fraction(self.interpolation, "interpolation")
        gaussian_parameters(self)  # refuses what it cannot use before any work is done
        x, labels = self._validate(X, y)
        n_components = check_n_components(self.n_components, x.shape[1])
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        share = self._check_combination(len(x))
        n_rows, present = len(x), np.arange(len(x))
        if weight is not None and not weight.all():
            present = np.flatnonzero(weight)
            x, labels, weight = x[present], labels[present], weight[present]
            share = None if share is None else share[present]
        classes, codes = encode_classes(labels, self)
        log_priors = check_priors(self.priors, len(classes))
        average = weight if share is None else share if weight is None else share * weight
        n_draws = check_max_samples(self.max_samples, len(x))
        rng = check_random_state(self.random_state)
        drawn, drawn_weight = draw_rows(len(x), n_draws, average, rng)

        with one_blas_thread():
            frame = Frame.of(x)
            stats = class_statistics(
                x, codes, len(classes), frame=frame, sample_weight=weight, n_jobs=self.n_jobs
            )
            gaussians, models = fit_models(self, x, codes, frame, stats, classes, weight, rng)
            total = sum_local_metrics(
                models,
                x[drawn],
                frame,
                weights=drawn_weight,
                log_priors=log_priors,
                n_jobs=self.n_jobs,
            )
            metric = interpolate(total.mean(), interpolation)
            if n_components is None:
                components = symmetric_root(metric)
            else:
                components = rank_limited_factor(metric, n_components, stats.total_covariance)
                metric = components.T @ components

        self._frame, self._models, self._log_priors = frame, models, log_priors
        self.classes_ = classes
        self.means_ = frame.center + frame.scale * gaussians.means
        self.covariances_ = frame.scale**2 * gaussians.covariances
        self.components_, self.metric_ = components, metric
        self.metric_stderr_ = total.relative_stderr(len(x) if average is None else np.inf)
        self.n_iter_ = 1
        if share is not None and average is not None:
            self.weights_ = np.zeros(n_rows)
            self.weights_[present] = average / average.sum()
        if self.verbose:
            sizes = f"{len(x)} rows, {x.shape[1]} features, {len(classes)} classes"
            print(f"[GenerativeMetric] {sizes}")  # noqa: T201
        return self

    def _validate(self, X: Any, y: Any) -> tuple[AnyArray, AnyArray]:
        refuse_lazy(y, "y")
        X = form_points(X, self.preprocessor, self)
        x, labels = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(labels)
        return x, labels

    def _check_combination(self, n_samples: int) -> FloatArray | None:
        if isinstance(self.combination, str):
            if self.combination == "uniform":
                return None
        elif self.combination is not None and np.ndim(self.combination) == 1:
            return check_weights(self.combination, n_samples, "combination")
        raise ValueError(
            'combination must be "uniform" or an array of one weight a row; got '
            f"{self.combination!r}."
        )

    def local_metrics(self, X: ArrayLike) -> FloatArray:
        """The local metric of each row (eq. eLocal), interpolated as in `fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Metrics; of determinant one where `interpolation` is one.
        """

        def of_chunk(x: FloatArray) -> FloatArray:
            metrics = local_metrics(phi(self._models, x, self._log_priors))
            return interpolate(metrics, float(self.interpolation))

        return self._map_rows(of_chunk, X)

    def curvature(self, X: ArrayLike) -> FloatArray:
        """The matrix Phi of each row (eq. eq:MetricEffect, section sProof), up to scale and sign.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Symmetric matrices.
        """
        return self._map_rows(lambda x: phi(self._models, x, self._log_priors), X)

    def bias(self, X: ArrayLike) -> FloatArray:
        """The integrand of the finite-sample bias under the learned metric (eq. eNN) at each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Positive where a neighbour at a distance raises the error.
        """
        log_unit = float(np.log(self._frame.scale)) if hasattr(self, "_frame") else 0.0

        def of_chunk(x: FloatArray) -> FloatArray:
            return density_bias(self._models, x, self.metric_, self._log_priors, log_unit)

        return self._map_rows(of_chunk, X)

    def _map_rows(self, function: Any, X: Any) -> FloatArray:
        """Apply a function of rows in the frame, chunk by chunk."""
        x = self._rows(X)
        chunks = row_chunks(len(x), dense_bytes_per_row(x.shape[1], self._models.n_classes))
        parts = map_chunks(lambda rows: function(self._frame.inward(x[rows])), chunks, self.n_jobs)
        return np.concatenate(list(parts))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

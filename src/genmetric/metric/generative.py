"""GenerativeMetric: averages of generative local metrics, M^UNI, M^KDE and M^GMM."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from genmetric._chunks import one_blas_thread
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    check_n_components,
    check_priors,
    check_weights,
    encode_classes,
    form_points,
    refuse_lazy,
)
from genmetric.density.frame import Frame
from genmetric.density.gaussian import fit_gaussians
from genmetric.density.models import ClassModels
from genmetric.density.statistics import ClassStatistics, class_statistics
from genmetric.geometry.factor import rank_limited_factor, symmetric_root
from genmetric.geometry.local import interpolate
from genmetric.geometry.summation import MetricSum, choose_solver
from genmetric.metric.fitting import (
    MetricJob,
    check_max_samples,
    check_parameters,
    combines_by_density,
    draw_rows,
    fit_models,
    gaussian_parameters,
    sample_until_precise,
    uses_gaussians,
    warn_few_features,
)
from genmetric.metric.local_geometry import LocalGeometryMixin
from genmetric.metric.reservoir import RESERVOIR_ROWS, Reservoir
from genmetric.metric.rounds import HeldOut, check_held_out, combine_by_density, hold_out
from genmetric.metric.streaming import ClassTally, StreamingMixin


class GenerativeMetric(StreamingMixin, LocalGeometryMixin, BaseEstimator):
    r"""A Mahalanobis metric averaged from generative local metrics, in closed form.

    At each training point :math:`x_i` the class densities say which metric :math:`M_i` keeps the
    nearest neighbour honest: the one that makes the first-order bias of its error vanish
    (eq. eLocalSDP, solved in eq. eLocal). The metric learned is their average (eq. eUniform),

    .. math:: M^{\mathrm{UNI}} = \frac1N \sum_i M_i = L^T L,

    and `transform` maps rows to z = Lx, where Euclidean distances are distances under M.

    Parameters
    ----------
    combination : {"uniform", "kde", "gmm"} or array-like of shape (n_samples,), default="uniform"
        Weights of the local metrics in the average: equal, or proportional to the density of the
        rows, or given. A density is estimated in the space of the metric, and metric and density
        in turns (Algorithm aDensity): ``"kde"`` by Gaussian kernels, ``"gmm"`` by one Gaussian a
        class, the classes of the rows re-assigned by their nearest neighbours among held-out rows.
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
    solver : {"auto", "dense", "resolvent"}, default="auto"
        ``"dense"`` makes one eigendecomposition a row, O(D³); ``"resolvent"`` adds up local metrics
        of Gaussian class models in O(D²) a row; ``"auto"`` takes the faster for so many rows,
        features and classes. For the rounds of "kde" and "gmm", local metrics that fit into 512 MB
        are computed once and kept, unless the solver is ``"resolvent"``.
    tol : float, default=1e-2
        For the resolvent solver: at each row, classes beyond the leading pair whose weight in Phi
        is at most this share of the largest are left out. With two classes it has no effect, and
        the answer agrees with ``"dense"`` to about 4e-6; with more, 1e-2 moves the metric by about
        0.1 per cent. 0 leaves out none, 1 keeps the pair alone everywhere.
    max_samples : int, float or "auto", default=None
        Average over a random subset of the rows: so many, that share of them, or (``"auto"``) as
        many as bring `metric_stderr_` to 0.01. The class models still see every row.
    max_iter : int, default=20
        Most rounds of "kde" and "gmm". They end earlier where M changes by less than 1e-4 of its
        Frobenius norm.
    validation_fraction : float, default=0.2
        For "gmm" without `X_val`: the share of each class that is held out, at random. Held-out
        rows give labels to the others and are absent from everything else.
    bandwidth : float, default=None
        For "kde": the width sigma of the kernel exp(-d²/sigma²), in the space of the metric.
        ``None`` takes the one of largest leave-one-out likelihood in each round, or of largest
        likelihood of `X_val` where that is given.
    priors : array-like of shape (n_classes,), default=None
        Class priors in Phi, in the order of `classes_`; ``None`` is equal priors, as in the paper.
        With two classes they make no difference.
    preprocessor : array-like or callable, default=None
        Looks rows up where indices are passed instead, as in metric-learn.
    n_jobs : int, default=None
        Threads over chunks of rows. The answer is the same, bit for bit, for every number.
    random_state : int, RandomState instance or None, default=None
        Draws the subset of `max_samples`, the held-out rows of "gmm", and the rows that carry
        kernels in "kde" where there are more than ten thousand.
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
        Weights of the local metrics, of sum one; only where `combination` is not "uniform". Zero
        for rows that were held out or not among `max_samples`.
    n_iter_ : int
        Rounds of the combination; one unless it is "kde" or "gmm".
    metric_changes_ : ndarray of shape (n_iter_,)
        Change of M in each round, relative to its Frobenius norm; only for "kde" and "gmm".
    bandwidths_ : ndarray of shape (n_iter_,)
        Kernel width sigma of each round; only for "kde".
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
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

    Dense regions count more in M^KDE:

    >>> kde = GenerativeMetric("kde", shrinkage=None).fit(X, y)
    >>> kde.n_iter_ <= 20, bool(kde.metric_changes_[-1] < 1e-4), kde.weights_.shape
    (True, True, (178,))
    """

    #: What `partial_fit` has seen.
    _stream: Any

    def __init__(
        self,
        combination: Any = "uniform",
        *,
        shrinkage: Any = "auto",
        covariance_estimator: Any = None,
        class_model: Any = None,
        interpolation: float = 1.0,
        n_components: int | None = None,
        solver: str = "auto",
        tol: float = 1e-2,
        max_samples: Any = None,
        max_iter: int = 20,
        validation_fraction: float = 0.2,
        bandwidth: float | None = None,
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
        self.solver = solver
        self.tol = tol
        self.max_samples = max_samples
        self.max_iter = max_iter
        self.validation_fraction = validation_fraction
        self.bandwidth = bandwidth
        self.priors = priors
        self.preprocessor = preprocessor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> GenerativeMetric:
        """Fit the class models and average the local metrics of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or indices of rows with a `preprocessor`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequencies: 2 is the row twice, 0 is absent. Weights that sum to one are one row in
            all, which Ledoit-Wolf shrinks accordingly: scale them to the number of rows.
        X_val : array-like of shape (n_held_out, n_features), default=None
            Rows beside the training rows: for "gmm" in place of `validation_fraction`, for "kde"
            to choose the bandwidth by.
        y_val : array-like of shape (n_held_out,), default=None
            Their class labels, for "gmm".

        Returns
        -------
        self : GenerativeMetric
            The fitted estimator.
        """
        self._check_parameters()
        x, labels = self._validate(X, y)
        weight = None if sample_weight is None else check_weights(sample_weight, len(x))
        share = self._check_combination(len(x))
        held_out = check_held_out(self, X_val, y_val)
        n_rows, kept = len(x), np.arange(len(x))
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
        if combines_by_density(self) and self.combination == "gmm" and held_out is None:
            rng = check_random_state(self.random_state)
            kept, aside = hold_out(kept, labels, float(self.validation_fraction), rng)
            held_out = HeldOut(x[aside], labels[aside])
        if len(kept) < n_rows:
            x, labels = x[kept], labels[kept]
            weight = None if weight is None else weight[kept]
            share = None if share is None else share[kept]
        classes, codes = encode_classes(labels, self)
        average = weight if share is None else share if weight is None else share * weight
        if average is not None and not average.any():
            raise ValueError("combination and sample_weight together leave no row any weight.")

        found = None
        with one_blas_thread():
            frame = Frame.of(x)
            stats = class_statistics(
                x, codes, len(classes), frame=frame, sample_weight=weight, n_jobs=self.n_jobs
            )
            job = self._prepare(frame, stats, classes, len(x), (x, codes, weight))
            if combines_by_density(self):
                rows = self._draw(len(x), None, job.rng)
                found = combine_by_density(self, job, x, weight, held_out, rows)
                total, stderr = found.total, found.stderr
            elif isinstance(self.max_samples, str):
                total, stderr = sample_until_precise(job.metric_sum, x, average, job.rng)
            else:
                rows = self._draw(len(x), average, job.rng)
                if rows is None:
                    total, stderr = job.metric_sum(x, average), 0.0
                else:
                    total = job.metric_sum(x[rows])
                    stderr = total.relative_stderr(len(x) if average is None else np.inf)

        self._store(job, total, stderr)
        if share is not None and average is not None:
            self.weights_ = np.zeros(n_rows)
            self.weights_[kept] = average / average.sum()
        if found is not None:
            self.weights_ = np.zeros(n_rows)
            self.weights_[kept if rows is None else kept[rows]] = found.weights
            self.metric_changes_, self.n_iter_ = found.changes, len(found.changes)
            if found.bandwidths is not None:
                self.bandwidths_ = found.bandwidths
        if self.verbose:
            sizes = f"{len(x)} rows, {x.shape[1]} features, {len(classes)} classes"
            rounds = f", {self.n_iter_} rounds" if found is not None else ""
            print(f"[GenerativeMetric] {sizes}, solver {job.solver}{rounds}")  # noqa: T201
        return self

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _validate(self, X: Any, y: Any, *, reset: bool = True) -> tuple[AnyArray, AnyArray]:
        refuse_lazy(y, "y")
        X = form_points(X, self.preprocessor, self)
        x, labels = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=reset)
        check_classification_targets(labels)
        return x, labels

    def _draw(
        self, n_rows: int, weights: FloatArray | None = None, rng: Any = None
    ) -> IntArray | None:
        """Rows to average over, ascending; None for all of them."""
        if isinstance(self.max_samples, str):
            raise ValueError(
                'max_samples="auto" draws rows in random order and needs them in memory. Give a '
                "number to fit_batches."
            )
        n_draws = check_max_samples(self.max_samples, n_rows)
        if n_draws is not None:
            warn_few_features(self.n_features_in_)
        rng = check_random_state(self.random_state) if rng is None else rng
        return draw_rows(n_rows, n_draws, weights, rng)

    def _new_reservoir(self) -> Reservoir:
        size = check_max_samples(self.max_samples, RESERVOIR_ROWS)
        whole = isinstance(self.max_samples, Integral)
        rng = check_random_state(self.random_state)
        return Reservoir(size if whole and size is not None else RESERVOIR_ROWS, rng)

    def _prepare(
        self,
        frame: Frame,
        stats: ClassStatistics,
        classes: AnyArray,
        n_rows: int,
        rows: tuple[AnyArray, IntArray, FloatArray | None] | None = None,
    ) -> MetricJob:
        """Fit the class models and settle how the local metrics are added up."""
        n_features = stats.mean.shape[1]
        check_n_components(self.n_components, n_features)
        if len(classes) < 2:
            encode_classes(classes, self)  # raises the one error about a single class
        rng = check_random_state(self.random_state)
        models: ClassModels
        if rows is None:
            shrinkage, _ = gaussian_parameters(self)
            gaussians = models = fit_gaussians(stats, shrinkage=shrinkage, classes=classes)
        else:
            x, codes, weight = rows
            gaussians, models = fit_models(self, x, codes, frame, stats, classes, weight, rng)
        solver = self.solver
        if solver == "auto":
            plain = uses_gaussians(self)
            solver = choose_solver(n_rows, n_features, len(classes)) if plain else "dense"
        return MetricJob(
            frame,
            stats,
            classes,
            gaussians,
            models,
            check_priors(self.priors, len(classes)),
            solver,
            float(self.tol),
            n_rows,
            self.n_jobs,
            rng,
        )

    def _store(self, job: MetricJob, total: MetricSum, stderr: float) -> None:
        """Set the fitted attributes from the sum of local metrics."""
        interpolation = float(self.interpolation)
        mean = total.mean()
        metric = interpolate(mean, interpolation)
        # The identity has no error: the mix has that of its part of the mean.
        stderr *= interpolation * float(np.linalg.norm(mean) / np.linalg.norm(metric))
        with one_blas_thread():
            if self.n_components is None:
                components = symmetric_root(metric)
            else:
                covariance = job.stats.total_covariance
                components = rank_limited_factor(metric, int(self.n_components), covariance)
                metric = components.T @ components
        self._frame, self._models, self._log_priors = job.frame, job.models, job.log_priors
        self._interpolation = interpolation
        self.classes_ = job.classes
        self.means_ = job.frame.center + job.frame.scale * job.gaussians.means
        self.covariances_ = job.frame.scale**2 * job.gaussians.covariances
        self.components_, self.metric_ = components, metric
        self.metric_stderr_ = stderr
        self.n_iter_ = 1
        self._stream = None
        for name in ("weights_", "metric_changes_", "bandwidths_"):
            self.__dict__.pop(name, None)

    def _store_euclidean(self, tally: ClassTally, stats: ClassStatistics) -> None:
        """Set the fitted attributes where rows of a single class have come so far."""
        n_features = stats.mean.shape[1]
        self.__dict__.pop("_models", None)
        self.classes_ = tally.classes
        self.metric_ = np.eye(n_features)
        self.components_ = self.metric_[: self.n_components]
        self.metric_stderr_, self.n_iter_ = np.inf, 1

    def _check_combination(self, n_samples: int) -> FloatArray | None:
        if isinstance(self.combination, str):
            if self.combination in ("uniform", "kde", "gmm"):
                return None
        elif self.combination is not None and np.ndim(self.combination) == 1:
            return check_weights(self.combination, n_samples, "combination")
        raise ValueError(
            'combination must be "uniform", "kde", "gmm" or an array of one weight a row; got '
            f"{self.combination!r}."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

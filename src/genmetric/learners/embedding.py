"""EmbeddingAdapter: a learned linear map from unit vectors to unit vectors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._parallel import one_blas_thread
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import (
    BOOLEAN,
    FLOATS,
    N_JOBS,
    RANDOM_STATE,
    HasMethods,
    Interval,
    ParameterRules,
    cast_finite,
    check_class_labels,
    check_n_components,
    check_parameters,
    check_weights,
    codes_among,
    encode_classes,
    refuse_lazy,
)
from genmetric.learners.embedding_selection import (
    EmbeddingStatistics,
    named_parameters,
    select_parameters,
)
from genmetric.learners.two_covariance import (
    UnitVectorMapMixin,
    axis_lengths,
    check_size,
    common_mean,
    discriminant_axes,
    log_likelihood_ratio,
    shrunk_covariances,
    two_covariances,
    unit_vectors,
)


def _has_default_map(adapter: EmbeddingAdapter) -> bool:
    """Return whether the map comes from the two-covariance model."""
    return adapter.metric is None


def _can_stream(adapter: EmbeddingAdapter) -> bool:
    """Return whether there is a `partial_fit`."""
    return adapter.metric is None or hasattr(adapter.metric, "partial_fit")


class EmbeddingAdapter(UnitVectorMapMixin, BaseEstimator):
    r"""A learned linear map of embeddings, from unit vectors to unit vectors.

    Embeddings of texts, images or voices are usually compared by the cosine of their angle. The
    adapter learns from labels in which directions they should be compared:

    .. math:: z = \frac{L(u - \mu)}{\|L(u - \mu)\|}, \qquad u = \frac{x}{\|x\|},

    where :math:`\mu` is the mean of the unit vectors u of the training samples. Inner products of
    the outputs z are cosine similarities in the learned space, so the outputs can replace the
    embeddings in every index for cosine, inner-product or Euclidean search.

    By default L comes in closed form from a Gaussian model with one covariance within classes and
    one between classes. Its axes are those of linear discriminant analysis, weighted by how well
    each separates pairs of one class from pairs of two. Two shrinkages and the weighting are
    selected by the mAP@R of searches among held-out classes and among held-out samples.

    Parameters
    ----------
    metric : estimator, default=None
        Metric to fit on the unit vectors instead of the default: an estimator that has
        `components_` after ``fit``, such as :class:`GenerativeMetric`,
        :class:`GenerativeMetricCV` or :class:`LMNN`. It is cloned.
    search_classes : {"any", "new", "training"}, default="any"
        Classes that searches will be about: "training" for samples of the training classes, "new"
        for samples of classes without training samples, "any" for both. The default map is
        selected on held-out samples, on held-out classes, or on both: "any" selects the best map
        for held-out samples among those within 3 % of the best for held-out classes. If all
        searches are about the training classes, "training" is clearly better. Not used by
        other metrics.
    normalize : bool, default=True
        Whether to scale samples and outputs to unit length. ``False`` leaves both as they are:
        only the mean is subtracted, and Euclidean distances of the outputs are the learned
        distances.
    n_components : int, default=None
        Output dimension. Smaller values make search faster and indexes smaller and lose accuracy.
        ``None`` uses the `n_components` of `metric`, and keeps all dimensions by default.
    n_jobs : int, default=None
        Number of threads; ``None`` uses the number of `metric`.
    random_state : int, RandomState instance or None, default=None
        Seed of the splits of the selection, or of `metric`; ``None`` uses the seed of `metric`.

    Attributes
    ----------
    metric_estimator_ : estimator or None
        The fitted metric; ``None`` for the default map.
    best_params_ : dict
        Selected parameters of the default map: `within_factor` and `between_shrinkage`, the
        shrinkage of the two covariances, and `weighting`, which is "whitening", "reliability" or
        "detection". Empty for other metrics.
    cv_results_ : dict
        Scores of the selection: `params`, a list with one entry per candidate, and the arrays
        `new_classes` and `training_classes` of mAP@R. Empty for other metrics, and if there are
        too few classes and samples to leave some out.
    components_ : ndarray of shape (n_components, n_features)
        The factor L, float32 if the training samples are.
    mean_ : ndarray of shape (n_features,)
        Mean :math:`\mu` of the training samples after scaling, in the dtype of `components_`.
    bias_ : ndarray of shape (n_components,)
        The offset :math:`-L\mu`: outputs are the directions of ``u @ components_.T + bias_``.
    classes_ : ndarray of shape (n_classes,)
        Class names.
    n_samples_seen_ : float
        Number of samples, or the sum of their weights, in the mean.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of features seen during `fit`. Defined only when X has feature names that are all
        strings.

    See Also
    --------
    GenerativeMetric : The metric without centring and scaling.
    FaissNeighborsTransformer : Search among many vectors.
    genmetric.metrics.retrieval_scores : Scores of a search.

    Notes
    -----
    The mean has no effect on learned distances, only on angles. With `normalize` a zero vector
    stays zero when samples are scaled, and so does a mapped sample that equals the mean.

    For given parameters the default map has a closed form, so a fit takes seconds. The selection
    uses at most 3072 samples of whole classes (at least 8 samples of each if classes are large),
    and at most 320 principal components. Which samples depends on their values and labels only, so
    `fit_batches`, `partial_fit` and `merge` end with the same map as `fit`.

    The memory is :math:`O(nD + D^2)` for n samples and any number of classes. A fitted adapter
    keeps the class means, the scatter and the samples of the selection for `partial_fit` and
    `merge`, also when it is saved. Classes with a single sample count in the covariance between
    classes only.

    References
    ----------
    S. Ioffe, Probabilistic linear discriminant analysis, ECCV 2006. N. Brümmer and E. de Villiers,
    The speaker partitioning problem, Odyssey 2010 (the two-covariance model).

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric import EmbeddingAdapter
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X.astype(np.float32)
    >>> adapter = EmbeddingAdapter(n_components=16).fit(X[:1000], y[:1000])
    >>> gallery, queries = adapter.transform(X[:1000]), adapter.transform(X[1000:])
    >>> queries.dtype, queries.shape
    (dtype('float32'), (797, 16))
    >>> nearest = np.argmax(queries @ gallery.T, axis=1)
    >>> bool(np.mean(y[nearest] == y[1000:]) > 0.9)
    True
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        "metric": [None, HasMethods(("fit", "get_params"))],
        "search_classes": ["any", "new", "training"],
        "normalize": [BOOLEAN],
        "n_components": [None, Interval(int, 1)],
        "n_jobs": N_JOBS,
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        metric: Any = None,
        *,
        search_classes: str = "any",
        normalize: bool = True,
        n_components: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.search_classes = search_classes
        self.normalize = normalize
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> EmbeddingAdapter:
        """Fit the map on samples of unit length.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples. float32 samples are not copied to float64 as a whole.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Frequency weights, for metrics that have them.

        Returns
        -------
        self : EmbeddingAdapter
            The fitted estimator.
        """
        check_parameters(self)
        x, labels = self._training_samples(X, y)
        weights = None if sample_weight is None else check_weights(sample_weight, len(x))
        if self.metric is None:
            if weights is not None and not weights.all():
                x, labels, weights = x[weights > 0], labels[weights > 0], weights[weights > 0]
            encode_classes(labels, type(self).__name__)  # raises for one class
            self._set_default_map(
                EmbeddingStatistics.of(x, labels, sample_weight=weights, n_jobs=self.n_jobs)
            )
        else:
            metric = self._new_metric()
            options = {} if weights is None else {"sample_weight": weights}
            with _many_classes():
                metric.fit(x, labels, **options)
            total = float(len(x)) if weights is None else float(weights.sum())
            mean = _mean(x) if weights is None else np.average(x, axis=0, weights=weights)
            self._set_metric(metric, total, mean, x.dtype)
            self.classes_ = getattr(metric, "classes_", np.unique(labels))
        self._streaming = False
        return self

    @available_if(_has_default_map)  # type: ignore[untyped-decorator]
    def fit_batches(
        self, make_batches: Callable[[], Iterable[tuple[Any, Any]]]
    ) -> EmbeddingAdapter:
        """Fit on samples that do not fit in memory, in one pass over batches.

        The result is that of `fit` on all samples, up to rounding. Available without a `metric`.

        Parameters
        ----------
        make_batches : callable
            Returns a new iterator of pairs (X, y) over the same samples each time it is called.

        Returns
        -------
        self : EmbeddingAdapter
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from genmetric import EmbeddingAdapter
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> def batches():
        ...     for rows in np.array_split(np.arange(len(X)), 4):
        ...         yield X[rows], y[rows]
        >>> streamed = EmbeddingAdapter(random_state=0).fit_batches(batches)
        >>> whole = EmbeddingAdapter(random_state=0).fit(X, y)
        >>> bool(np.allclose(streamed.transform(X), whole.transform(X)))
        True
        """
        check_parameters(self)
        if not callable(make_batches):
            raise TypeError(
                "make_batches must be a function that returns a new iterator of (X, y) each time; "
                f"got {type(make_batches).__name__}."
            )
        stats: EmbeddingStatistics | None = None
        for X, y in make_batches():
            if len(y):
                x, labels = self._training_samples(X, y, reset=stats is None)
                part = EmbeddingStatistics.of(x, labels, n_jobs=self.n_jobs)
                stats = part if stats is None else stats.merge(part)
        if stats is None:
            raise ValueError("make_batches returned no samples. Return a new iterator each time.")
        encode_classes(stats.classes, type(self).__name__)
        self._set_default_map(stats)
        self._streaming = False
        return self

    @available_if(_can_stream)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> EmbeddingAdapter:
        """Update the map with more samples, also of new classes.

        Available without a `metric`, and if `metric` has ``partial_fit``. The first call, and a
        call after `fit` or `fit_batches`, starts from nothing. Each call selects the parameters
        again; `fit_batches` selects them once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All class names; used in the first call only. Without it, classes are added as they
            occur.

        Returns
        -------
        self : EmbeddingAdapter
            The estimator, fitted on all samples seen so far.
        """
        check_parameters(self)
        streaming = getattr(self, "_streaming", False)
        x, labels = self._training_samples(X, y, reset=not streaming)
        if self.metric is None:
            known = None
            if classes is not None and not streaming:
                known = np.unique(np.asarray(classes))
                codes_among(known, labels, "y", "Name all classes, or none of them.")
            part = EmbeddingStatistics.of(x, labels, known, n_jobs=self.n_jobs)
            self._set_default_map(self._statistics.merge(part) if streaming else part)
        else:
            metric: Any = self.metric_estimator_ if streaming else self._new_metric()
            with _many_classes():
                metric.partial_fit(x, labels, classes=classes)
            total, mean, dtype = float(len(x)), _mean(x), x.dtype
            if streaming:
                total, dtype = total + self.n_samples_seen_, self.components_.dtype
                mean = self._mean + (mean - self._mean) * (len(x) / total)
            self._set_metric(metric, total, mean, dtype)
            self.classes_ = metric.classes_
        self._streaming = True
        return self

    @available_if(_has_default_map)  # type: ignore[untyped-decorator]
    def merge(self, other: EmbeddingAdapter) -> EmbeddingAdapter:
        """Add the samples of another adapter, as if this one had been fitted on both.

        Adapters can be fitted on parts of the samples in different processes. The result is that of
        `fit` on the samples of this adapter followed by those of the other, up to rounding.
        Available without a `metric`.

        Parameters
        ----------
        other : EmbeddingAdapter
            A fitted adapter with the same parameters. It does not change.

        Returns
        -------
        self : EmbeddingAdapter
            The estimator, fitted on all samples. `partial_fit` continues from here.
        """
        if not isinstance(other, EmbeddingAdapter):
            raise TypeError(f"other must be an EmbeddingAdapter; got {type(other).__name__}.")
        for adapter in (self, other):
            check_is_fitted(adapter, "components_")
        for name in ("metric", "normalize", "n_features_in_"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(
                    f"Adapters with {name}={mine!r} and {name}={theirs!r} cannot be merged."
                )
        self._set_default_map(self._statistics.merge(other._statistics))
        self._streaming = True
        return self

    @available_if(_has_default_map)  # type: ignore[untyped-decorator]
    def pair_score(self, pairs: ArrayLike) -> FloatArray:
        """Return the log-likelihood ratio that the samples of each pair are of one class.

        It is that of the Gaussian model of the default map, before outputs are scaled. Positive
        values mean that one class explains the pair better than two. :class:`PairClassifier` has
        calibrated probabilities. Available without a `metric`.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of samples.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Log-likelihood ratios, in nats.
        """
        check_is_fitted(self, "components_")
        lengths = axis_lengths(self._ratios, self.best_params_["weighting"])
        # Axes of length zero have the ratio zero, and no part in the score.
        lengths = np.where(lengths > 0, lengths, 1.0)
        axes = self.components_.T / lengths
        x, index = self._pair_rows(pairs)
        z = self._centred(x) @ axes
        return log_likelihood_ratio(z, index, self._ratios)

    def _training_samples(self, X: Any, y: Any, *, reset: bool = True) -> tuple[AnyArray, AnyArray]:
        """Validate samples and labels, and scale the samples."""
        refuse_lazy(X)
        refuse_lazy(y, "y")
        x, labels = validate_data(self, X, y, dtype=FLOATS, reset=reset)
        if self.metric is None and labels.dtype.kind in "fO":
            with _many_classes():
                check_class_labels(labels, type(self).__name__)
        return unit_vectors(x) if self.normalize else check_size(x), labels

    def _set_default_map(self, stats: EmbeddingStatistics) -> None:
        """Select parameters, and set the map and its attributes."""
        moments, n_features = stats.moments, stats.samples.shape[1]
        n_components = check_n_components(self.n_components, n_features)
        if np.count_nonzero(moments.count) < 2:  # the first batches of a stream
            L, ratios = np.eye(n_features)[:n_components], np.zeros(n_features)[:n_components]
            best, results = named_parameters(4.0, 0.5, "whitening"), dict[str, Any]()
        else:
            with one_blas_thread():
                best, results = select_parameters(
                    stats.samples,
                    stats.labels,
                    self.search_classes,
                    n_components=n_components,
                    normalize=self.normalize,
                    rng=check_random_state(self.random_state),
                )
                shrinkages = best["within_factor"], best["between_shrinkage"]
                covariances = shrunk_covariances(*two_covariances(moments), *shrinkages)
                axes, ratios = discriminant_axes(*covariances)
            ratios = ratios[:n_components]
            L = axes[:n_components] * axis_lengths(ratios, best["weighting"])[:, None]
        self._set_map(L, float(moments.count.sum()), common_mean(moments), stats.samples.dtype)
        self.metric_estimator_, self.best_params_, self.cv_results_ = None, best, results
        self.classes_, self._ratios, self._statistics = stats.classes, ratios, stats

    def _new_metric(self) -> Any:
        """Return the metric to fit."""
        metric = clone(self.metric)
        known = metric.get_params(deep=False)
        for name in ("n_components", "n_jobs", "random_state"):
            value = getattr(self, name)
            if value is None:
                continue
            if name in known:
                metric.set_params(**{name: value})
            elif name == "n_components":
                raise ValueError(
                    f"n_components={value} needs a metric with the parameter n_components; got "
                    f"{type(metric).__name__}. Use n_components=None."
                )
        return metric

    def _set_metric(self, metric: Any, total: float, mean: FloatArray, dtype: Any) -> None:
        """Set the map of a fitted metric and its attributes."""
        components = getattr(metric, "components_", None)
        if components is None:
            raise ValueError(
                "metric must have the attribute components_ after fit; got "
                f"{type(metric).__name__}. Use GenerativeMetric, GenerativeMetricCV or LMNN."
            )
        self._set_map(components, total, mean, dtype)
        self.metric_estimator_, self.best_params_, self.cv_results_ = metric, {}, {}

    def _set_map(self, components: FloatArray, total: float, mean: FloatArray, dtype: Any) -> None:
        """Set the linear map in the type of the training samples."""
        self.components_ = np.asarray(cast_finite(components, dtype, "Components"))
        self._mean, self.mean_ = mean, mean.astype(dtype)
        self.n_samples_seen_ = total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _mean(x: AnyArray) -> FloatArray:
    """Return the mean of samples, summed in float64 without a float64 copy of the samples."""
    return np.asarray(x.mean(axis=0, dtype=float))


@contextmanager
def _many_classes() -> Iterator[None]:
    """Ignore scikit-learn's hint at a numeric target: embeddings often have very many classes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        yield

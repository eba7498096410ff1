"""EmbeddingAdapter: a learned linear map from unit vectors to unit vectors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._neighbors import unit_vectors
from genmetric._parallel import check_memory, one_blas_thread
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    BOOLEAN,
    FLOATS,
    HasMethods,
    Interval,
    ParameterRules,
    cast_finite,
    check_class_labels,
    check_make_batches,
    check_n_components,
    check_parameters,
    check_weights,
    codes_among,
    encode_classes,
    refuse_lazy,
)
from genmetric.density.statistics import ClassStatistics, pooled_statistics
from genmetric.learners.two_covariance import (
    WEIGHTINGS,
    UnitVectorMapMixin,
    axis_lengths,
    check_size,
    common_mean,
    discriminant_axes,
    log_likelihood_ratio,
    row_hashes,
    shrunk_covariances,
    two_covariances,
)
from genmetric.metrics import precision_sums

#: Samples that the parameters are selected on, and how many of each class are kept at least before
#: whole classes are left out.
MAX_SAMPLES, MIN_PER_CLASS = 3072, 8

#: Candidates of the selection; those that differ in the weighting follow each other.
CANDIDATES: list[dict[str, Any]] = [
    {"within_factor": factor, "between_shrinkage": shrinkage, "weighting": weighting}
    for factor in (1.0, 4.0, 16.0, 64.0)
    for shrinkage in (0.1, 0.5, 0.95)
    for weighting in WEIGHTINGS
]

#: Without enough samples to select from.
DEFAULT: dict[str, Any] = {"within_factor": 4.0, "between_shrinkage": 0.5, "weighting": "detection"}


def _has_default_map(adapter: EmbeddingAdapter) -> bool:
    """Return whether the map comes from the two-covariance model."""
    return adapter.metric is None


def _can_stream(adapter: EmbeddingAdapter) -> bool:
    """Return whether there is a `partial_fit`."""
    return adapter.metric is None or hasattr(adapter.metric, "partial_fit")


class EmbeddingAdapter(UnitVectorMapMixin, BaseEstimator):
    r"""A learned linear map of embeddings, from unit vectors to unit vectors.

    Embeddings of texts, images or voices are usually compared by the cosine of their angle. The
    adapter learns from labels which directions matter for the comparison:

    .. math:: z = \frac{L(u - \mu)}{\|L(u - \mu)\|}, \qquad u = \frac{x}{\|x\|},

    where :math:`\mu` is the mean of the unit vectors u of the training samples. Inner products of
    the outputs z are cosine similarities in the learned space, so the outputs can replace the
    embeddings in every index for cosine, inner-product or Euclidean search.

    By default L comes in closed form from a Gaussian model with one covariance within classes and
    one between classes. Its axes are those of linear discriminant analysis, weighted by how well
    each separates pairs from the same class from pairs from different classes. Two shrinkages and
    the weighting are selected by the mAP@R of searches among held-out classes and among held-out
    samples.

    Parameters
    ----------
    metric : estimator, default=None
        Metric to fit on the unit vectors instead of the default: an estimator that has
        `components_` after ``fit``, such as :class:`GenerativeMetric`,
        :class:`GenerativeMetricCV` or :class:`LMNN`. It is cloned.
    search_classes : {"any", "new", "training"}, default="any"
        Which classes you will search: "training" for samples of the training classes, "new"
        for samples of classes without training samples, "any" for both. The default map is
        selected on held-out samples, on held-out classes, or on both: "any" selects the best map
        for held-out samples among those within 3 % of the best for held-out classes. If you
        search training classes only, "training" is clearly better. Not used by
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
        too few classes and samples to hold some out.
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
    `merge`, even when it is saved. Classes with a single sample count in the covariance between
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
        weights, options = None, {}
        if sample_weight is not None:
            weights = check_weights(sample_weight, len(x))
            x, labels, weights = (a[weights > 0] for a in (x, labels, weights))
            options = {"sample_weight": weights}
        if self.metric is None:
            encode_classes(labels, type(self).__name__)  # raises for one class
            self._set_default_map(EmbeddingStatistics.of(x, labels, n_jobs=self.n_jobs, **options))
        else:
            metric = self._new_metric()
            with _many_classes():
                metric.fit(x, labels, **options)
            self._set_metric(metric, x, labels, weights)
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
        check_make_batches(make_batches)
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
        """Update the map with more samples, which may be of new classes.

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
            known = None if streaming else classes
            part = EmbeddingStatistics.of(x, labels, known, n_jobs=self.n_jobs)
            self._set_default_map(self._statistics.merge(part) if streaming else part)
        else:
            metric: Any = self.metric_estimator_ if streaming else self._new_metric()
            with _many_classes():
                metric.partial_fit(x, labels, classes=classes)
            self._set_metric(metric, x, labels, further=streaming)
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
            mine, theirs = (f"{name}={getattr(adapter, name)!r}" for adapter in (self, other))
            if mine != theirs:
                raise ValueError(f"Adapters with {mine} and {theirs} cannot be merged.")
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
        x, index = self._pair_rows(pairs)
        lengths = axis_lengths(self._ratios, self.best_params_["weighting"])
        # Axes of length zero have the ratio zero, and no part in the score.
        axes = self.components_.T / np.where(lengths > 0, lengths, 1.0)
        return log_likelihood_ratio(self._centred(x) @ axes, index, self._ratios)

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
            best, results = {**DEFAULT, "weighting": "whitening"}, dict[str, Any]()
        else:
            with one_blas_thread():
                rng = check_random_state(self.random_state)
                best, results = select_parameters(
                    stats, self.search_classes, n_components, self.normalize, rng
                )
                axes, ratios = (a[:n_components] for a in _axes(two_covariances(moments), best))
            L = axes * axis_lengths(ratios, best["weighting"])[:, None]
        self._set_map(L, float(moments.count.sum()), common_mean(moments), stats.samples.dtype)
        self.metric_estimator_, self.best_params_, self.cv_results_ = None, best, results
        self.classes_, self._ratios, self._statistics = stats.classes, ratios, stats

    def _new_metric(self) -> Any:
        """Return the metric to fit."""
        metric = clone(self.metric)
        known = metric.get_params(deep=False).keys()
        # If a metric without n_components is to have some, set_params raises an error.
        names = {"n_components"} | (known & {"n_jobs", "random_state"})
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return metric.set_params(**given)

    def _set_metric(
        self, metric: Any, x: AnyArray, labels: Any, weights: Any = None, *, further: bool = False
    ) -> None:
        """Set the map of a metric that was fitted on samples, or updated with further ones."""
        if not hasattr(metric, "components_"):
            raise ValueError(
                "metric must have the attribute components_ after fit; got "
                f"{type(metric).__name__}. Use GenerativeMetric, GenerativeMetricCV or LMNN."
            )
        total, dtype = float(len(x) if weights is None else weights.sum()), x.dtype
        # Summed in float64, without a float64 copy of the samples.
        mean = x.mean(axis=0, dtype=float)
        if weights is not None:
            mean = np.average(x, axis=0, weights=weights)
        if further:
            total, dtype = total + self.n_samples_seen_, self.components_.dtype
            mean = self._mean + (mean - self._mean) * (len(x) / total)
        self._set_map(metric.components_, total, mean, dtype)
        self.metric_estimator_, self.best_params_, self.cv_results_ = metric, {}, {}
        self.classes_ = getattr(metric, "classes_", np.unique(labels))

    def _set_map(self, components: FloatArray, total: float, mean: FloatArray, dtype: Any) -> None:
        """Set the linear map in the type of the training samples."""
        self.components_ = np.asarray(cast_finite(components, dtype, "Components"))
        self._mean, self.mean_ = mean, mean.astype(dtype)
        self.n_samples_seen_ = total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@contextmanager
def _many_classes() -> Iterator[None]:
    """Ignore scikit-learn's hint at a numeric target: embeddings often have very many classes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")
        yield


@dataclass(frozen=True)
class EmbeddingStatistics:
    """Moments of all samples, and up to 3072 samples for the selection; two of them can be merged.

    The samples are those of whole classes, or a part of each class if classes are large. Classes
    are drawn by a hash of their names, and samples of a large class by a hash of their values. So
    the draw depends neither on the order of batches nor on how they are merged.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Class names, ascending.
    moments : ClassStatistics
        Pooled statistics of all samples.
    samples : ndarray of shape (n_kept, n_features)
        Samples for the selection, in the order in which they arrived.
    labels : ndarray of shape (n_kept,)
        Their class labels.
    n_seen : int
        Number of samples that they were drawn from.
    limit : int
        Classes whose hash is not below the limit have been left out.
    """

    classes: AnyArray
    moments: ClassStatistics
    samples: AnyArray
    labels: AnyArray
    n_seen: int
    limit: int = 2**63 - 1

    @classmethod
    def of(
        cls,
        x: AnyArray,
        labels: AnyArray,
        classes: Any = None,
        sample_weight: FloatArray | None = None,
        n_jobs: int | None = None,
    ) -> EmbeddingStatistics:
        """Compute the statistics of samples; `classes` may name more classes than there are."""
        names = np.unique(labels if classes is None else np.asarray(classes))
        n_features = x.shape[1]
        codes = codes_among(names, labels, "y", "Name all classes, or none of them.")
        check_memory(
            8 * n_features * (6 * n_features + len(names)),
            f"The covariances of {n_features} features",
            "Reduce the number of features first, for example with TruncatedSVD.",
        )
        moments = pooled_statistics(
            x, codes, len(names), sample_weight=sample_weight, n_jobs=n_jobs
        )
        # The samples are copied in any case, because the caller may change x.
        kept = x.copy() if len(x) <= MAX_SAMPLES else x
        return cls(names, moments, kept, labels, len(x))._drawn()

    def merge(self, other: EmbeddingStatistics) -> EmbeddingStatistics:
        """Return the statistics of the samples of both, even if their classes differ."""
        kinds = {part.classes.dtype.kind for part in (self, other)}
        if kinds & set("US") and kinds & set("biuf"):
            raise ValueError(
                "Labels are text in one part of the samples and numbers in another. Convert them."
            )
        names = np.unique(np.concatenate([self.classes, other.classes]))
        one, two = (
            part.moments.place(np.searchsorted(names, part.classes), len(names))
            for part in (self, other)
        )
        return EmbeddingStatistics(
            names,
            one.merge(two),
            np.concatenate([self.samples, other.samples.astype(self.samples.dtype, copy=False)]),
            np.concatenate([self.labels, other.labels]),
            self.n_seen + other.n_seen,
            min(self.limit, other.limit),
        )._drawn()

    def _drawn(self) -> EmbeddingStatistics:
        """Return the same with at most 3072 samples."""
        if self.n_seen <= MAX_SAMPLES:
            return self
        # Classes are left out only when each has come down to MIN_PER_CLASS samples. From then on
        # a class that is left out stays so, whatever follows.
        n_classes = int(np.count_nonzero(self.moments.count))
        most = max(MAX_SAMPLES // n_classes, MIN_PER_CLASS)
        names, codes, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        hashes = np.array([_label_hash(name) for name in names.tolist()])
        order = np.argsort(hashes)
        beyond = np.cumsum(np.minimum(counts, most)[order]) > MAX_SAMPLES
        limit = int(hashes[order][beyond].min(initial=self.limit))
        rows = np.flatnonzero((hashes < limit)[codes])
        # The samples with the smallest hashes of each class.
        rows = rows[np.lexsort((row_hashes(self.samples, rows), codes[rows]))]
        rank = np.arange(len(rows)) - np.searchsorted(codes[rows], codes[rows])
        rows = np.sort(rows[rank < most])
        return replace(self, samples=self.samples[rows], labels=self.labels[rows], limit=limit)


def _label_hash(label: Any) -> int:
    """Return a number of 63 bits that depends on a class name only; 3 and 3.0 are one name."""
    name = int(label) if isinstance(label, float) and label.is_integer() else label
    return int.from_bytes(blake2b(str(name).encode(), digest_size=8).digest()) >> 1


# Selection of the parameters


def select_parameters(
    stats: EmbeddingStatistics,
    search_classes: str,
    n_components: int | None,
    normalize: bool,
    rng: np.random.RandomState,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Select the parameters of the map by the mAP@R of searches; return also all scores.

    Searches among new classes fit the map on two thirds of the classes and search the samples of
    the other third among themselves. Searches among the training classes fit it on two thirds of
    the samples of each class and search the others among these.
    """
    codes = np.unique(stats.labels, return_inverse=True)[1]
    x, scores = _leading_components(stats.samples), {}
    for name, make_searches in (("new_classes", _by_class), ("training_classes", _by_sample)):
        if search_classes == "any" or name.startswith(search_classes):
            found = [
                _scores(x, codes, train, searched, n_components, normalize)
                for train, *searched in list(make_searches(codes, rng))
            ]
            if found:
                scores[name] = np.mean(found, axis=0)
    if not scores:
        return dict(DEFAULT), {}
    # Maps that separate the training classes best can be worse than no map for other classes. So
    # new classes come first, and 3 % of their score are given for the best score of the others.
    kinds = list(scores.values())
    first, last = kinds[0], kinds[-1]
    best = int(np.argmax(np.where(first >= 0.97 * first.max(), last, -np.inf)))
    return dict(CANDIDATES[best]), {"params": list(map(dict, CANDIDATES)), **scores}


def _leading_components(X: AnyArray) -> AnyArray:
    """Return samples of size one, and the leading 320 principal components if they have more."""
    # A power of two, so squares in float32 stay in range and no digit changes.
    x = np.asarray(np.ldexp(X, -np.frexp(np.abs(X).max())[1]))
    if x.shape[1] <= 320:
        return x
    e = x - x.mean(axis=0, dtype=float).astype(x.dtype)
    return np.asarray(e @ np.linalg.eigh(e.T @ e)[1][:, ::-1][:, :320])


def _axes(
    covariances: tuple[FloatArray, FloatArray, float], params: dict[str, Any]
) -> tuple[FloatArray, FloatArray]:
    """Return the axes of shrunk covariances, and their ratios."""
    shrinkages = params["within_factor"], params["between_shrinkage"]
    return discriminant_axes(*shrunk_covariances(*covariances, *shrinkages))


def _by_class(codes: IntArray, rng: np.random.RandomState) -> Iterator[tuple[IntArray, ...]]:
    """Yield searches among the samples of held-out classes: training, references."""
    n_classes = int(codes.max()) + 1
    fold = rng.permutation(np.arange(n_classes) % 3)[codes]
    for k in range(3):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if _has_pairs(codes[train]) and _has_pairs(codes[test]):
            yield train, rng.permutation(test)[:1000]


def _by_sample(codes: IntArray, rng: np.random.RandomState) -> Iterator[tuple[IntArray, ...]]:
    """Yield searches of held-out samples among those of the fit: training, references, queries."""
    shuffled = rng.permutation(len(codes))
    fold = np.empty(len(codes), int)
    fold[shuffled[np.argsort(codes[shuffled], kind="stable")]] = np.arange(len(codes)) % 3
    for k in range(3):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        test = test[np.isin(codes[test], codes[train])]
        if _has_pairs(codes[train]) and len(test):
            yield train, train, rng.permutation(test)[:500]


def _has_pairs(codes: IntArray) -> bool:
    """Return whether there are two classes, and a class of two samples."""
    counts = np.bincount(codes, minlength=1)
    return bool(np.count_nonzero(counts) > 1 and counts.max() > 1)


def _scores(
    x: AnyArray,
    codes: IntArray,
    train: IntArray,
    searched: list[IntArray],
    n_components: int | None,
    normalize: bool,
) -> FloatArray:
    """Return the mAP@R of all candidates in one search: references, and queries among them."""
    moments = pooled_statistics(x[train], codes[train], int(codes.max()) + 1)
    center = common_mean(moments).astype(x.dtype)
    covariances = two_covariances(moments)
    centred, labels = [x[rows] - center for rows in searched], [codes[rows] for rows in searched]
    scores = []
    for params in CANDIDATES:
        if params["weighting"] == WEIGHTINGS[0]:  # the others share the axes
            axes, ratios = (a[:n_components] for a in _axes(covariances, params))
        L = axes * axis_lengths(ratios, params["weighting"])[:, None]
        z = [part @ L.T.astype(x.dtype) for part in centred]
        scores.append(_map_at_r([unit_vectors(part) for part in z] if normalize else z, labels))
    return np.array(scores)


def _map_at_r(z: list[AnyArray], labels: list[IntArray]) -> float:
    """Return the mAP@R of queries, the last of `z`, among references, the first.

    If both are the same, each is searched among the others. This takes one product of all queries
    with all references; :func:`genmetric.metrics.mean_average_precision_at_r` has the definition.
    """
    references, queries, own, among = z[0], z[-1], labels[-1], labels[0]
    nearness = 2 * (queries @ references.T) - np.einsum("ij,ij->i", references, references)
    n_relevant = np.bincount(among, minlength=int(own.max()) + 1)[own]
    if len(z) == 1:
        np.fill_diagonal(nearness, -np.inf)
        n_relevant = n_relevant - 1
    asked = n_relevant > 0
    if not asked.any():
        return 0.0
    nearness, own, n_relevant = nearness[asked], own[asked], n_relevant[asked]
    depth = int(n_relevant.max())
    found = np.argpartition(-nearness, depth - 1, axis=1)[:, :depth]
    order = np.argsort(-np.take_along_axis(nearness, found, axis=1), axis=1, kind="stable")
    match = among[np.take_along_axis(found, order, axis=1)] == own[:, None]
    return float(precision_sums(match, n_relevant)[1] / len(match))

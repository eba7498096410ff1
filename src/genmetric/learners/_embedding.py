"""EmbeddingAdapter: a learned linear map from unit vectors to unit vectors."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._array_api import dispatch_namespace, float_dtypes, like, unit_length
from genmetric._labels import check_class_labels
from genmetric._parameters import (
    BOOLEAN,
    N_JOBS,
    RANDOM_STATE,
    HasMethods,
    Interval,
    ParameterRules,
    check_parameters,
)
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._unit_vectors import unit_or_zero_vectors, unit_vectors
from genmetric._validation import (
    cast_finite,
    check_n_components,
    check_weights,
    encode_classes,
    refuse_lazy,
)
from genmetric._warnings import suppress_warnings
from genmetric.density._two_covariance import PooledMoments
from genmetric.learners._embedding_map import EmbeddingMoments, EmbeddingStream, fit_default_map
from genmetric.learners._embedding_selection import SearchClasses
from genmetric.learners._reservoir import Reservoir
from genmetric.learners._torch import linear_layer, unit_vector_layers

#: Last sentence of the error about zero vectors.
ZERO_ADVICE = "Drop them, or use normalize=False."

#: Start of scikit-learn's hint at a numeric target. Embeddings often have more classes than half
#: the number of samples.
MANY_CLASSES = "The number of unique classes is greater than 50%"


def _streams(adapter: EmbeddingAdapter) -> bool:
    return adapter.metric is None or hasattr(adapter.metric, "partial_fit")


class EmbeddingAdapter(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""A learned linear map of embeddings, from unit vectors to unit vectors.

    Embeddings of texts, images or voices are usually compared by the cosine of their angle. The
    adapter learns from labels in which directions they should be compared:

    .. math:: z = \frac{L(u - \mu)}{\|L(u - \mu)\|}, \qquad u = \frac{x}{\|x\|},

    where :math:`\mu` is the mean of the unit vectors u of the training samples. Inner products of
    the outputs z are cosine similarities in the learned space, so that the outputs can replace the
    embeddings in every index for cosine, inner-product or Euclidean search.

    By default L comes in closed form from a Gaussian model with one covariance within classes and
    one between classes. Its axes are those of linear discriminant analysis, weighted by how well
    each separates pairs of one class from pairs of two. Two shrinkages and the weighting are
    selected by the mAP@R of searches among left-out classes and among left-out samples.

    Parameters
    ----------
    metric : estimator, default=None
        Metric to fit on the unit vectors instead of the default: an estimator that has
        `components_` after ``fit``, such as :class:`GenerativeMetric`,
        :class:`GenerativeMetricCV` or :class:`LMNN`. It is cloned.
    search_classes : {"any", "new", "training"}, default="any"
        Classes that searches will be about: "training" for samples of the training classes, "new"
        for samples of classes without training samples, "any" for both. The default map is
        selected on left-out samples, on left-out classes, or on both: "any" selects the best map
        for left-out samples among those within 3 per cent of the best for left-out classes. If
        all searches are about the training classes, "training" is clearly better. Not used by
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
    The mean has no effect on learned distances, only on angles. A mapped sample that equals the
    mean has no direction and stays the zero vector.

    The default map has an analytical form for given parameters, so that a fit takes seconds; the
    selection uses at most 3072 samples, and at most 320 principal components. The memory is
    :math:`O(nD + D^2)` for n samples and any number of classes. Classes with a single sample count
    in the covariance between classes only.

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

    #: Whether the map was fitted by `partial_fit`.
    _streaming: bool
    #: Moments of all samples and a random subset of them, of `partial_fit` without a metric.
    _moments: PooledMoments | None = None
    _reservoir: Reservoir | None = None

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

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    @restore_on_error
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> EmbeddingAdapter:
        """Fit the metric on samples of unit length.

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
            classes, codes = encode_classes(labels, type(self).__name__)
            moments = PooledMoments.of(
                x, codes, len(classes), sample_weight=weights, n_jobs=self.n_jobs
            )
            data = EmbeddingMoments(classes, moments, x, codes)
            self._set_default_map(data, check_random_state(self.random_state))
        else:
            metric = self._new_metric()
            with suppress_warnings(UserWarning, MANY_CLASSES):
                if weights is None:
                    metric.fit(x, labels)
                else:
                    metric.fit(x, labels, sample_weight=weights)
            total = float(len(x)) if weights is None else float(weights.sum())
            mean = _mean(x) if weights is None else np.average(x, axis=0, weights=weights)
            self._set_metric(metric, mean, total, x.dtype)
            self.classes_ = getattr(metric, "classes_", np.unique(labels))
        self._streaming, self._moments, self._reservoir = False, None, None
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    @restore_on_error
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> EmbeddingAdapter:
        """Update the map with more samples, also of new classes.

        Available without a `metric`, and if `metric` has ``partial_fit``. The first call, and a
        call after `fit`, starts from nothing. The default map keeps the moments of all samples,
        and selects its parameters on a random subset of 4096 of them in each call.

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
        streaming = getattr(self, "_streaming", False)
        check_parameters(self)
        x, labels = self._training_samples(X, y, reset=not streaming)
        if self.metric is None:
            rng = check_random_state(self.random_state)
            stream = self._stream(x, labels, classes, rng).add(x, labels, self.n_jobs)
            self._set_default_map(stream.collected(), rng)
            self._moments, self._reservoir = stream.moments, stream.reservoir
        else:
            # A copy: if the update fails, the metric of the earlier batches stays as it is.
            metric = _shallow_copy(self.metric_estimator_) if streaming else self._new_metric()
            with suppress_warnings(UserWarning, MANY_CLASSES):
                metric.partial_fit(x, labels, classes=classes)
            mean, total = _mean(x), float(len(x))
            if streaming:
                total += self.n_samples_seen_
                mean = self._mean + (mean - self._mean) * (len(x) / total)
            self._set_metric(metric, mean, total, self.components_.dtype if streaming else x.dtype)
            self.classes_ = metric.classes_
        self._streaming = True
        return self

    def _stream(
        self, x: AnyArray, labels: AnyArray, classes: ArrayLike | None, rng: np.random.RandomState
    ) -> EmbeddingStream:
        """Return the samples of the earlier batches; a new stream in the first call."""
        if getattr(self, "_streaming", False) and self._moments is not None:
            reservoir = cast("Reservoir", self._reservoir)
            return EmbeddingStream(self.classes_, self._moments, reservoir, self.components_.dtype)
        return EmbeddingStream.start(x, labels, classes, rng)

    def _set_default_map(self, data: EmbeddingMoments, rng: np.random.RandomState) -> None:
        """Fit the default map and set its attributes."""
        L, selection = fit_default_map(
            data,
            cast("SearchClasses", self.search_classes),
            n_components=check_n_components(self.n_components, data.samples.shape[1]),
            normalize=self.normalize,
            rng=rng,
            n_jobs=self.n_jobs,
        )
        count, total = data.moments.count, float(data.moments.count.sum())
        self._set_map(None, L, count @ data.moments.mean / total, total, data.samples.dtype)
        self.best_params_, self.cv_results_ = asdict(selection.parameters), selection.scores
        self.classes_ = data.classes

    def transform(self, X: ArrayLike) -> Any:
        """Map samples to the learned space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Mapped samples, of unit length if `normalize`; float32 if X is. Arrays of other
            libraries, such as torch tensors, are mapped to the same kind if scikit-learn's
            ``array_api_dispatch`` is on.
        """
        check_is_fitted(self, "components_")
        xp = dispatch_namespace(X)
        if xp is not None:
            return self._transform_array(xp, X)
        refuse_lazy(X)
        x = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        L, mean = (a.astype(x.dtype, copy=False) for a in (self.components_, self.mean_))
        if self.normalize:
            return unit_or_zero_vectors((unit_vectors(x, advice=ZERO_ADVICE) - mean) @ L.T)
        with np.errstate(over="ignore", invalid="ignore"):
            z = (x - mean) @ L.T
        return cast_finite(z, x.dtype, "Images")

    def _transform_array(self, xp: Any, X: Any) -> Any:
        """Compute `transform` in another array namespace."""
        x = validate_data(self, X, dtype=float_dtypes(xp), reset=False)
        if self.normalize:
            x = unit_length(xp, x)
        z = (x - like(xp, self.mean_, x)) @ like(xp, self.components_.T, x)
        return unit_length(xp, z, keep_zero=True) if self.normalize else z

    def to_torch(self, *, dtype: str = "float32") -> Any:
        """Return the map as layers of torch (``pip install "genmetric[torch]"``).

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float32"
            Type of the weights.

        Returns
        -------
        torch.nn.Module
            With `normalize` a :class:`torch.nn.Sequential` of :class:`torch.nn.RMSNorm`,
            :class:`torch.nn.Linear` and :class:`torch.nn.RMSNorm`, otherwise the linear layer
            only, on the CPU. The output is that of `transform`, except that zero vectors and
            missing values are not errors.
        """
        check_is_fitted(self, "components_")
        make = unit_vector_layers if self.normalize else linear_layer
        return make(self.components_, self.bias_, dtype)

    @property
    def bias_(self) -> AnyArray:
        r"""Offset :math:`-L\mu` of the linear map, shape (n_components,)."""
        bias = -(self.components_.astype(float) @ self._mean)
        return np.asarray(bias.astype(self.components_.dtype))

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

    def _training_samples(self, X: Any, y: Any, *, reset: bool = True) -> tuple[AnyArray, AnyArray]:
        """Validate samples and labels, and scale the samples."""
        refuse_lazy(X)
        refuse_lazy(y, "y")
        x, labels = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=reset)
        if self.metric is None and labels.dtype.kind == "f":
            # Each twice, because scikit-learn warns if all labels differ.
            check_class_labels(np.tile(labels, 2), type(self).__name__)
        return unit_vectors(x, advice=ZERO_ADVICE) if self.normalize else x, labels

    def _set_metric(self, metric: Any, mean: FloatArray, total: float, dtype: Any) -> None:
        """Set the attributes of a fitted metric."""
        components = getattr(metric, "components_", None)
        if components is None:
            raise ValueError(
                "metric must have the attribute components_ after fit; got "
                f"{type(metric).__name__}. Use GenerativeMetric, GenerativeMetricCV or LMNN."
            )
        self._set_map(metric, components, mean, total, dtype)
        self.best_params_, self.cv_results_ = {}, {}
        self._moments = self._reservoir = None

    def _set_map(
        self, metric: Any, components: FloatArray, mean: FloatArray, total: float, dtype: Any
    ) -> None:
        """Set the attributes of the linear map."""
        self.metric_estimator_ = metric
        self.components_ = np.asarray(cast_finite(components, dtype, "Components"))
        self._mean = mean
        self.mean_ = mean.astype(dtype)
        self.n_samples_seen_ = total

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _mean(x: AnyArray) -> FloatArray:
    """Return the mean of samples, summed in float64 without a float64 copy of the samples."""
    return np.asarray(x.mean(axis=0, dtype=float))


def _shallow_copy(metric: Any) -> Any:
    """Return an estimator with the same parameters and fitted attributes."""
    copied = clone(metric)
    vars(copied).update(vars(metric))
    return copied

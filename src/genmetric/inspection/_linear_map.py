"""The linear map of a fitted estimator, from its features to the space of its metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_clusterer
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from genmetric._typing import ArrayLike, FloatArray
from genmetric.inspection._transformer import (
    apply_step,
    check_feature_names,
    finite_samples,
    metric_transformer,
)
from genmetric.learners._mahalanobis import MahalanobisMixin

#: Relative deviation from linearity above which a transformer counts as nonlinear.
LINEARITY_RTOL = 1e-6

#: Samples on which the linearity of a transformer is checked.
CHECKED_SAMPLES = 50


@dataclass(frozen=True)
class LinearMap:
    r"""An affine map :math:`z = A (x - c) + A c + b` from features to the space of a metric.

    The map of a pipeline starts behind its last nonlinear step: the features of a table with
    categories are its encoded columns. :meth:`transform` applies the steps before the map too.

    Attributes
    ----------
    matrix : ndarray of shape (n_components, n_features)
        The matrix A; the metric in the units of the features is ``matrix.T @ matrix``.
    center : ndarray of shape (n_features,)
        A point c within the training data. Differences from it are accurate even if the features
        are far from zero.
    image : ndarray of shape (n_components,)
        The transformed center, A c + b.
    feature_names_in : tuple of str
        Names of the features that the matrix applies to.
    feature_names_out : tuple of str
        Names of the transformed features.
    preprocessing : tuple of transformers
        The fitted steps that turn input samples into those features; empty for a map that starts
        at the input.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import linear_map
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(X, y)
    >>> found = linear_map(model)
    >>> bool(np.allclose(X @ found.matrix.T + found.offset, model.transform(X)))
    True
    """

    matrix: FloatArray
    center: FloatArray
    image: FloatArray
    feature_names_in: tuple[str, ...]
    feature_names_out: tuple[str, ...]
    preprocessing: tuple[Any, ...] = ()

    @property
    def offset(self) -> FloatArray:
        """The constant b of z = A x + b, shape (n_components,)."""
        return np.asarray(self.image - self.matrix @ self.center)

    @property
    def metric(self) -> FloatArray:
        """The metric M = AᵀA in the units of the features, shape (n_features, n_features)."""
        return np.asarray(self.matrix.T @ self.matrix)

    def prepare(self, X: Any) -> FloatArray:
        """Turn input samples into the features of the map.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_input_features)
            Samples, in the form the estimator was fitted on.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The features that the matrix applies to.
        """
        for step in self.preprocessing:
            X = apply_step(step, X)
        features = finite_samples(X)
        if features.shape[1] != self.matrix.shape[1]:
            raise ValueError(
                f"X has {features.shape[1]} features, but the map expects {self.matrix.shape[1]}."
            )
        return features

    def transform(self, X: Any) -> FloatArray:
        """Map input samples to the space of the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_input_features)
            Samples, in the form the estimator was fitted on.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Samples whose Euclidean distances are those of the metric.
        """
        return self.map_features(self.prepare(X))

    def map_features(self, features: FloatArray) -> FloatArray:
        """Apply the matrix to features that :meth:`prepare` returned.

        Parameters
        ----------
        features : ndarray of shape (n_samples, n_features)
            Prepared samples.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Samples in the space of the metric.
        """
        return np.asarray((features - self.center) @ self.matrix.T + self.image)


@dataclass(frozen=True)
class _Affine:
    """One step z = matrix (x - center) + image; `matrix` of one dimension is a diagonal."""

    matrix: FloatArray
    center: FloatArray
    image: FloatArray


def linear_map(
    estimator: Any, X: ArrayLike | None = None, *, feature_names: Sequence[Any] | None = None
) -> LinearMap:
    """Return the linear map of a fitted estimator or pipeline.

    The maps of the linear steps at the end of a pipeline are multiplied. Steps before the last
    nonlinear one (an encoder of categories, an imputer) are kept as `preprocessing`.

    Parameters
    ----------
    estimator : object
        A fitted linear transformer; a fitted pipeline that ends with linear transformers, with or
        without a predictor behind them; a fitted search over one of these; or a predictor that
        holds a fitted transformer.
    X : array-like of shape (n_samples, n_features), default=None
        Samples. They set the point and the step lengths at which unknown transformers are
        evaluated, which matters if the features are far from zero or of extreme scale.
    feature_names : sequence of length n_features, default=None
        Names of the features of the map. By default those of the fit or of `X`, otherwise x0,
        x1, ...

    Returns
    -------
    LinearMap
        The map.

    Raises
    ------
    TypeError
        If the estimator has no metric, or the last transformer is not linear.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import linear_map
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(GenerativeMetric(n_components=2), KNeighborsClassifier()).fit(X, y)
    >>> found = linear_map(model)
    >>> found.matrix.shape, found.feature_names_out
    ((2, 4), ('generativemetric0', 'generativemetric1'))
    """
    transformer = metric_transformer(estimator)
    steps = (
        [step for _, step in transformer.steps]
        if isinstance(transformer, Pipeline)
        else [transformer]
    )
    inputs = _step_inputs(steps, X)
    parts: list[_Affine] = []
    first = len(steps)
    while first > 0:
        try:
            part = affine_step(steps[first - 1], inputs[first - 1])
        except _NotLinearError:
            break
        parts.insert(0, part)
        first -= 1
    if not parts:
        raise TypeError(
            f"{type(steps[-1]).__name__} is not linear, so no matrix describes its distances. Pass "
            "a linear transformer, or a pipeline that ends with linear ones."
        )
    matrix, center, image = _compose(parts)
    names = _input_names(feature_names, steps, first, X, matrix.shape[1])
    return LinearMap(
        matrix, center, image, names, _output_names(steps[-1], len(matrix)), tuple(steps[:first])
    )


class _NotLinearError(TypeError):
    """A step that no matrix describes."""


def affine_step(step: Any, X: FloatArray | None) -> _Affine:
    """Return the affine map of one fitted transformer.

    Parameters
    ----------
    step : transformer
        A fitted transformer. Unknown ones are evaluated at a few points.
    X : ndarray of shape (n_samples, n_features) or None
        Its input, which sets these points; zero and unit steps if None.

    Returns
    -------
    _Affine
        The map.
    """
    if isinstance(step, ColumnTransformer | FeatureUnion):
        # The columns of a table are not features of the metric; the encoded columns are.
        raise _NotLinearError
    if isinstance(step, StandardScaler):
        n = step.n_features_in_
        scale = np.ones(n) if step.scale_ is None else np.asarray(step.scale_, float)
        center = np.asarray(step.mean_, float) if step.with_mean else np.zeros(n)
        return _Affine(1 / scale, center, np.zeros(n))
    factor = getattr(step, "components_", None)
    is_factor = isinstance(factor, np.ndarray) and factor.ndim == 2
    if is_factor and (isinstance(step, MahalanobisMixin) or is_clusterer(step)):
        return _factor(factor)
    return _evaluate(step, X)


def _factor(components: Any) -> _Affine:
    factor = np.atleast_2d(np.asarray(components, float))
    return _Affine(factor, np.zeros(factor.shape[1]), np.zeros(len(factor)))


def _evaluate(step: Any, X: FloatArray | None) -> _Affine:
    """Evaluate a transformer at a center and one step along each feature, and check linearity."""
    try:
        n = int(step.n_features_in_)
        if X is None:
            center, lengths, checks = _known_center(step, n), np.ones(n), np.empty((0, n))
        else:
            center, lengths, checks = X.mean(axis=0), feature_scales(X), X[:CHECKED_SAMPLES]
            lengths[lengths == 0] = 1.0
        checks = np.vstack([center + lengths / 2, center - lengths, checks])
        found = apply_step(step, np.vstack([center, center + np.diag(lengths), checks]))
        imputed = False
        if get_tags(step).input_tags.allow_nan:
            # An imputer is the identity on finite values only.
            imputed = bool(np.isfinite(apply_step(step, np.full((1, n), np.nan))).all())
    except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
        raise _NotLinearError from error
    if found.ndim != 2 or imputed or hasattr(step, "categories_"):
        raise _NotLinearError
    image, moved, checked = found[0], (found[1 : n + 1] - found[0]).T, found[n + 1 :]
    expected = image + (checks - center) / lengths @ moved.T
    size = np.abs(checks - center) / lengths @ np.abs(moved).T + np.abs(image)
    scale = size.max(initial=0.0)
    if not np.abs(checked - expected).max(initial=0.0) <= LINEARITY_RTOL * scale:
        raise _NotLinearError
    return _Affine(moved / lengths, center, image)


def _known_center(step: Any, n: int) -> FloatArray:
    """Return the center that the step itself subtracts, or zero."""
    for name in ("mean_", "center_", "xbar_"):
        center = getattr(step, name, None)
        if isinstance(center, np.ndarray) and center.shape == (n,):
            return np.asarray(center, float)
    return np.zeros(n)


def _compose(parts: Sequence[_Affine]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Multiply maps, first to last."""
    first = parts[0]
    matrix = np.diag(first.matrix) if first.matrix.ndim == 1 else first.matrix
    image = first.image
    for part in parts[1:]:
        if part.matrix.ndim == 1:
            matrix = part.matrix[:, None] * matrix
            image = part.matrix * (image - part.center) + part.image
        else:
            matrix = part.matrix @ matrix
            image = part.matrix @ (image - part.center) + part.image
    return matrix, first.center, image


def _step_inputs(steps: Sequence[Any], X: ArrayLike | None) -> list[FloatArray | None]:
    """Return the input of each step, None for those that are not numeric."""
    if X is None:
        return [None] * len(steps)
    inputs: list[FloatArray | None] = []
    current: Any = X
    for step in steps:
        try:
            inputs.append(finite_samples(current))
        except (TypeError, ValueError):
            inputs.append(None)
        if step is not steps[-1]:
            current = apply_step(step, current)
    return inputs


def _input_names(
    names: Sequence[Any] | None, steps: Sequence[Any], first: int, X: Any, n: int
) -> tuple[str, ...]:
    if names is not None or first == 0:
        return check_feature_names(names, steps[0], X, n)
    known: Any = None
    for step in steps[:first]:
        try:
            known = step.get_feature_names_out(known)
        except (AttributeError, TypeError, ValueError):
            known = None
    if known is None or len(known) != n:
        return check_feature_names(None, None, None, n)
    return tuple(str(name) for name in known)


def _output_names(step: Any, n: int) -> tuple[str, ...]:
    try:
        names = tuple(str(name) for name in step.get_feature_names_out())
    except (AttributeError, TypeError, ValueError):
        names = ()
    return names if len(names) == n else tuple(f"z{i}" for i in range(n))


def feature_scales(X: FloatArray) -> FloatArray:
    """Return standard deviations without overflow; 0 for a feature that is constant.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.

    Returns
    -------
    ndarray of shape (n_features,)
        Standard deviations.
    """
    centred = X - X.mean(axis=0)
    peak = np.abs(centred).max(axis=0, initial=0.0)
    # The mean of a constant feature may differ from it by rounding.
    peak[peak <= 1e-12 * np.abs(X).max(axis=0, initial=0.0)] = 0.0
    return np.asarray(peak * np.std(centred / np.where(peak > 0, peak, 1.0), axis=0))

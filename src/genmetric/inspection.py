"""What a learned metric measures: its linear map, its features, and neighbours with reasons."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import entr
from sklearn.base import is_clusterer
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import check_is_fitted

from genmetric._neighbors import nearest_neighbors
from genmetric._typing import ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier
from genmetric.learners.mahalanobis import MahalanobisMixin
from genmetric.neighbors import LocalMetricClassifier

__all__ = [
    "LearnedMetric",
    "LinearMap",
    "NeighborExplanation",
    "explain_neighbors",
    "feature_contributions",
    "learned_metric",
    "linear_map",
    "map_samples",
    "metric_transformer",
    "pair_contributions",
]

# The transformer inside an estimator


def metric_transformer(estimator: Any) -> Any:
    """Return the fitted transformer after which Euclidean distance is that of the estimator.

    Parameters
    ----------
    estimator : object
        A fitted transformer; a fitted pipeline, with or without a predictor as last step; a fitted
        search such as :class:`~sklearn.model_selection.GridSearchCV`; or a predictor such as
        :class:`genmetric.EnergyClassifier` that holds a fitted transformer.

    Returns
    -------
    object
        A fitted transformer or pipeline of transformers; a clusterer with ``components_`` is
        returned as it is.

    Raises
    ------
    TypeError
        If the estimator has no metric, or more than one.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import metric_transformer
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(GenerativeMetric(), KNeighborsClassifier()).fit(X, y)
    >>> type(metric_transformer(model)).__name__
    'GenerativeMetric'
    """
    steps = _metric_steps(estimator)
    if len(steps) == 1:
        return steps[0]
    return Pipeline([(f"step{number}", step) for number, step in enumerate(steps)])


def _metric_steps(estimator: Any) -> list[Any]:
    """List the fitted transformers that lead from samples to the learned space; raise for none."""
    steps = _steps(estimator)
    if not steps:
        raise TypeError(
            f"{type(estimator).__name__} has not learned a metric. Pass a transformer such as "
            "GenerativeMetric or LMNN, or a pipeline that contains one."
        )
    return steps


def _steps(estimator: Any) -> list[Any]:
    """List the fitted transformers of an estimator, without a predictor behind them."""
    if estimator is None or isinstance(estimator, str):  # "passthrough"
        return []
    if isinstance(estimator, FrozenEstimator):
        return _steps(estimator.estimator)
    check_is_fitted(estimator)
    if isinstance(estimator, LocalMetricClassifier | SimpleMKLClassifier | RegionalKernels):
        raise TypeError(
            f"{type(estimator).__name__} uses more than one metric, so no single matrix describes "
            "its distances. Pass an estimator with one metric, such as GenerativeMetric or LMNN, "
            "or a pipeline that contains one."
        )
    if isinstance(estimator, Pipeline):
        return [part for _, step in estimator.steps for part in _steps(step)]
    if hasattr(estimator, "transform") or _factor(estimator) is not None:
        return [estimator]
    for name in ("best_estimator_", "metric_estimator_", "metric_"):
        held = getattr(estimator, name, None)
        if hasattr(held, "transform") or isinstance(held, Pipeline):
            return _steps(held)
    return []  # a predictor behind the map


def _factor(step: Any) -> FloatArray | None:
    """Return the matrix of a step whose distance is that of its `components_`, or None."""
    factor = getattr(step, "components_", None)
    matrix = isinstance(factor, np.ndarray) and factor.ndim == 2
    if matrix and (isinstance(step, MahalanobisMixin) or is_clusterer(step)):
        return np.asarray(factor, float)
    return None


def _apply(step: Any, X: Any) -> FloatArray:
    """Apply one fitted transformer, without warnings about feature names."""
    factor = _factor(step)
    if factor is not None and is_clusterer(step):
        # transform of a clusterer returns distances to the centres.
        return np.asarray(check_array(X, dtype=np.float64) @ factor.T)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X (does not have valid|has) feature names", UserWarning)
        Z = step.transform(X)
    return np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z, dtype=float)


def map_samples(estimator: Any, X: ArrayLike) -> FloatArray:
    """Apply the map of a fitted estimator, which need not be linear.

    Parameters
    ----------
    estimator : object
        Any fitted estimator that :func:`metric_transformer` accepts.
    X : array-like of shape (n_samples, n_features)
        Samples, in the form the estimator was fitted on.

    Returns
    -------
    ndarray of shape (n_samples, n_components)
        Mapped samples, whose Euclidean distances are the distances of the estimator.

    Examples
    --------
    >>> from genmetric import EnergyClassifier, GenerativeMetric
    >>> from genmetric.inspection import map_samples
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> map_samples(EnergyClassifier(GenerativeMetric()).fit(X, y), X).shape
    (150, 4)
    """
    for step in _metric_steps(estimator):
        X = _apply(step, X)
    return np.asarray(X, float)


# The linear map


@dataclass(frozen=True)
class LinearMap:
    r"""An affine map :math:`z = A (x - c) + A c + b` from features to the learned space.

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
    feature_names_in, feature_names_out : tuple of str
        Names of the features that the matrix applies to, and of the transformed ones.
    columns : tuple of str
        The column of the table that each feature was made of; the feature itself without a table.
    preprocessing : tuple of transformers
        The fitted steps that turn input samples into the features; empty for a map that starts at
        the input.

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
    columns: tuple[str, ...]
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
            X = _apply(step, X)
        features = check_array(X, dtype=np.float64)
        if features.shape[1] != self.matrix.shape[1]:
            raise ValueError(
                f"X has {features.shape[1]} features, but the map expects {self.matrix.shape[1]}."
            )
        return np.asarray(features)

    def map_features(self, features: FloatArray) -> FloatArray:
        """Apply the matrix to features that :meth:`prepare` returned.

        Parameters
        ----------
        features : ndarray of shape (n_samples, n_features)
            Prepared samples.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Samples in the learned space.
        """
        return np.asarray((features - self.center) @ self.matrix.T + self.image)

    def transform(self, X: Any) -> FloatArray:
        """Map input samples to the learned space.

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
    steps = _metric_steps(estimator)
    rows, composed, first, columns = X, None, 0, None
    names = start = getattr(steps[0], "feature_names_in_", getattr(X, "columns", None))
    for number, step in enumerate(steps):
        part = _affine(step, rows)
        names = _names_out(step, names)
        if part is None:  # the map starts behind this step
            composed, first, start = None, number + 1, names
            columns = getattr(step, "feature_columns_", None)
        else:
            matrix, center, image = part
            if composed is not None:  # two maps in a row are one
                image = matrix @ (composed[2] - center) + image
                matrix, center = matrix @ composed[0], composed[1]
            composed = matrix, center, image
        if rows is not None and step is not steps[-1]:
            rows = _apply(step, rows)
    if composed is None:
        raise TypeError(
            f"{type(steps[-1]).__name__} is not linear, so no matrix describes its distances. Pass "
            "a linear transformer, or a pipeline that ends with linear ones."
        )
    n_out, n_in = composed[0].shape
    if feature_names is not None and len(feature_names) != n_in:
        raise ValueError(f"feature_names has {len(feature_names)} names for {n_in} features.")
    inside = _texts(start if feature_names is None else feature_names, n_in, "x")
    owners = inside if columns is None else _texts(columns, n_in, "x")
    return LinearMap(*composed, inside, _texts(names, n_out, "z"), owners, tuple(steps[:first]))


def _affine(step: Any, X: Any) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return matrix, center and image of the map of a transformer; None if it is not linear."""
    factor = _factor(step)
    if factor is not None:
        return factor, np.zeros(factor.shape[1]), np.zeros(len(factor))
    # The columns of a table are not features of the metric; the encoded columns are.
    if isinstance(step, ColumnTransformer | FeatureUnion) or hasattr(step, "feature_columns_"):
        return None
    if isinstance(step, StandardScaler):  # exact, however far from zero the features are
        zeros = np.zeros(step.n_features_in_)
        scale = step.scale_ if step.with_std else zeros + 1
        return np.diag(1 / scale), step.mean_ if step.with_mean else zeros, zeros
    rows = None
    with suppress(TypeError, ValueError):
        rows = None if X is None else np.asarray(check_array(X, dtype=np.float64))
    with suppress(TypeError, ValueError, AttributeError, KeyError, IndexError):
        return _evaluate(step, rows)
    return None


def _evaluate(step: Any, X: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Evaluate a transformer at a center and one step along each feature; None if not linear."""
    n = int(step.n_features_in_)
    if X is None:
        known: list[Any] = [getattr(step, name, None) for name in ("mean_", "center_", "xbar_")]
        center = next((np.asarray(c, float) for c in known if np.shape(c) == (n,)), np.zeros(n))
        lengths, checks = np.ones(n), []
    else:
        center, lengths, checks = X.mean(axis=0), feature_scales(X), [X[:50]]
        lengths[lengths == 0] = 1.0
    points = np.vstack([center + lengths / 2, center - lengths, *checks])
    found = _apply(step, np.vstack([center, center + np.diag(lengths), points]))
    # An imputer is the identity on finite values only.
    imputes = get_tags(step).input_tags.allow_nan and bool(
        np.isfinite(_apply(step, np.full((1, n), np.nan))).all()
    )
    if found.ndim != 2 or imputes or hasattr(step, "categories_"):
        return None
    image, moved, checked = found[0], (found[1 : n + 1] - found[0]).T, found[n + 1 :]
    steps = (points - center) / lengths
    size = (np.abs(steps) @ np.abs(moved).T + np.abs(image)).max(initial=0.0)
    if not np.abs(checked - image - steps @ moved.T).max(initial=0.0) <= 1e-6 * size:
        return None
    return moved / lengths, center, image


def _names_out(step: Any, names: Any) -> Any:
    """Return the names of the transformed features, None if the step has none."""
    try:
        return step.get_feature_names_out(names)
    except (AttributeError, TypeError, ValueError):
        return None


def _texts(names: Any, n: int, letter: str) -> tuple[str, ...]:
    """Return names of n features, x0, x1, ... if there are none that fit."""
    if names is None or len(names) != n:
        return tuple(f"{letter}{i}" for i in range(n))
    return tuple(map(str, names))


def feature_scales(X: FloatArray) -> FloatArray:
    """Return standard deviations; exactly 0 for a feature that is constant up to rounding."""
    centred = X - X.mean(axis=0)
    constant = np.abs(centred).max(axis=0) <= 1e-12 * np.abs(X).max(axis=0)
    return np.where(constant, 0.0, np.sqrt(np.mean(centred**2, axis=0)))


# Contributions of features


def pair_contributions(differences: ArrayLike, metric: ArrayLike) -> FloatArray:
    r"""Return the contribution of each feature to squared distances.

    The squared distance of two samples with difference d is :math:`d^T M d = \sum_i d_i (M d)_i`.
    Feature i contributes :math:`d_i (M d)_i`.

    Parameters
    ----------
    differences : array-like of shape (..., n_features)
        Differences between the samples of each pair.
    metric : array-like of shape (n_features, n_features)
        The metric M, in the same units as the differences.

    Returns
    -------
    ndarray of shape (..., n_features)
        Contributions; their sum over the features is the squared distance. A contribution is
        negative if the differences in other features offset the difference in this one.

    Examples
    --------
    >>> from genmetric.inspection import pair_contributions
    >>> pair_contributions([1.0, 2.0], [[1.0, 0.0], [0.0, 3.0]])
    array([ 1., 12.])
    """
    d = np.asarray(differences, float)
    return np.asarray(d * (d @ np.asarray(metric, float)))


def feature_contributions(
    estimator: Any, X: ArrayLike, *, by_column: bool = True
) -> Mapping[str, float]:
    r"""Return the mean share of each feature in the squared distance between two samples.

    Averaged over all pairs of samples, feature i contributes
    :math:`2 \sum_j M_{ij} C_{ij}` to the squared distance, with M the metric and C the covariance
    of the features. Its share is

    .. math:: s_i = \sum_j M_{ij} C_{ij} \Big/ \sum_{ij} M_{ij} C_{ij}.

    The shares do not depend on the units of the features. They sum to one, and a share can be
    negative when correlated features offset each other.

    Parameters
    ----------
    estimator : object
        Any fitted estimator that :func:`linear_map` accepts.
    X : array-like of shape (n_samples, n_features)
        Samples, in the form the estimator was fitted on.
    by_column : bool, default=True
        Whether to add up the shares of the features that a
        :class:`~genmetric.tables.TableEncoder` made of the same column of a table.

    Returns
    -------
    dict of str to float
        Share of each feature or column by name, in their order.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import feature_contributions
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> shares = feature_contributions(GenerativeMetric().fit(X, y), X)
    >>> round(sum(shares.values()), 6)
    1.0
    """
    into = linear_map(estimator, X)
    shares, names = _mean_shares(into.matrix, into.prepare(X)), into.feature_names_in
    if by_column:
        shares, names = _sum_by_column(shares, into.columns)
    return dict(zip(names, shares.tolist(), strict=True))


def _sum_by_column(parts: FloatArray, columns: Sequence[str]) -> tuple[FloatArray, tuple[str, ...]]:
    """Add up the parts of the features of each column, along the last axis."""
    place = {name: i for i, name in enumerate(dict.fromkeys(columns))}
    if len(place) == len(columns):
        return parts, tuple(columns)
    return parts @ np.eye(len(place))[[place[name] for name in columns]], tuple(place)


def _mean_shares(matrix: FloatArray, features: FloatArray) -> FloatArray:
    """Return the mean share of each feature in squared distances, without forming a covariance."""
    centred = (features - features.mean(axis=0)) * (feature_scales(features) > 0)
    # (M * C).sum(axis=1), with C = centredᵀ centred / n.
    parts = np.einsum("ni,ni->i", centred, (centred @ matrix.T) @ matrix)
    total = parts.sum()
    return np.asarray(parts / total if total > 0 else np.zeros_like(parts))


@dataclass(frozen=True)
class LearnedMetric:
    """A metric in the coordinates of the features.

    Attributes
    ----------
    matrix : ndarray of shape (n_features, n_features)
        The metric M, divided by its mean diagonal, so the identity is Euclidean distance. If
        `standardized`, it applies to features divided by their standard deviations.
    feature_names : tuple of str
        Names of the features.
    standardized : bool
        Whether samples were available to measure features in standard deviations.
    contributions : ndarray of shape (n_features,) or None
        Mean share of each feature in the squared distance between two samples, see
        :func:`feature_contributions`. None if no samples were available.

    Examples
    --------
    >>> from genmetric.inspection import learned_metric
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, _ = load_iris(return_X_y=True)
    >>> found = learned_metric(StandardScaler().fit(X), X)
    >>> round(found.effective_rank, 6)
    4.0
    """

    matrix: FloatArray
    feature_names: tuple[str, ...]
    standardized: bool
    contributions: FloatArray | None = None

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of the matrix in descending order, clipped at 0; shape (n_features,)."""
        return np.clip(np.linalg.eigvalsh(self.matrix)[::-1], 0.0, None)

    @property
    def effective_rank(self) -> float:
        r"""Number of directions in which the metric measures.

        The exponential of the entropy of the normalised eigenvalues (Roy and Vetterli, 2007),

        .. math:: \exp\Big(-\sum_i p_i \log p_i\Big), \qquad
                  p_i = \lambda_i / \textstyle\sum_j \lambda_j,

        between 1, if a single direction counts, and n_features, if all count equally.
        """
        values = self.eigenvalues
        return float(np.exp(entr(values / values.sum()).sum()))


def learned_metric(
    estimator: Any, X: ArrayLike | None = None, *, feature_names: Sequence[Any] | None = None
) -> LearnedMetric:
    """Return the metric of a fitted estimator in comparable units.

    Parameters
    ----------
    estimator : object
        Any fitted estimator that :func:`linear_map` accepts.
    X : array-like of shape (n_samples, n_features), default=None
        Samples, to measure features in standard deviations and to compute contributions. Without
        them the metric is that of the features in their own units.
    feature_names : sequence of length n_features, default=None
        Names of the features of the map; by default those of the fit.

    Returns
    -------
    LearnedMetric
        The metric.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import learned_metric
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> found = learned_metric(GenerativeMetric(base="pooled").fit(X, y), X)
    >>> found.feature_names[:2]
    ('alcohol', 'malic_acid')
    >>> round(float(found.contributions.sum()), 6)
    1.0
    """
    into = linear_map(estimator, X, feature_names=feature_names)
    factor, shares = into.matrix, None
    if X is not None:
        features = into.prepare(X)
        factor, shares = factor * feature_scales(features), _mean_shares(into.matrix, features)
    factor = factor / (np.abs(factor).max(initial=0.0) or 1.0)
    matrix = factor.T @ factor
    size = np.trace(matrix) / len(matrix)
    if not (np.isfinite(matrix).all() and size > 0):
        raise ValueError("The metric is zero or not finite for these samples.")
    return LearnedMetric(matrix / size, into.feature_names_in, X is not None, shares)


# Neighbours and why


@dataclass(frozen=True)
class NeighborExplanation:
    """Nearest neighbours of samples and the contribution of each feature to their distances.

    Attributes
    ----------
    distances, indices : ndarray of shape (n_queries, n_neighbors)
        Distances in ascending order, and positions of the neighbours in the reference samples.
    contributions : ndarray of shape (n_queries, n_neighbors, n_features)
        Contribution of each feature to the squared distance, see :func:`pair_contributions`. The
        features that a :class:`~genmetric.tables.TableEncoder` made of one column are added up.
    feature_names : tuple of str
        Names of the features, which are the columns of a table.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import explain_neighbors
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> found = explain_neighbors(GenerativeMetric().fit(X, y), X, n_neighbors=1)
    >>> found.top_features(2).shape
    (150, 1, 2)
    """

    distances: FloatArray
    indices: IntArray
    contributions: FloatArray
    feature_names: tuple[str, ...]

    @property
    def shares(self) -> FloatArray:
        """Contributions divided by the squared distance; zero where the distance is zero."""
        total = self.contributions.sum(axis=2, keepdims=True)
        share = np.zeros_like(self.contributions)
        return np.asarray(np.divide(self.contributions, total, out=share, where=total > 0))

    def top_features(self, n_features: int = 3) -> IntArray:
        """Return the features with the largest contributions by magnitude.

        Parameters
        ----------
        n_features : int, default=3
            Number of features per neighbour.

        Returns
        -------
        ndarray of shape (n_queries, n_neighbors, n_features)
            Positions of the features, largest magnitude first.
        """
        order = np.argsort(-np.abs(self.contributions), axis=2, kind="stable")
        return np.asarray(order[:, :, :n_features], np.intp)


def explain_neighbors(
    estimator: Any,
    X: ArrayLike,
    X_reference: ArrayLike | None = None,
    *,
    n_neighbors: int = 5,
) -> NeighborExplanation:
    """Find nearest neighbours under the metric of an estimator and explain their distances.

    The contributions of a table are those of its columns, whatever the metric was learned from;
    ``X_reference.iloc[found.indices[0]]`` shows the neighbours of the first query in the values
    and units of the table.

    Parameters
    ----------
    estimator : object
        Any fitted estimator that :func:`linear_map` accepts.
    X : array-like of shape (n_queries, n_features)
        Samples whose neighbours are searched.
    X_reference : array-like of shape (n_samples, n_features), default=None
        Samples among which neighbours are searched. By default the other samples of `X`.
    n_neighbors : int, default=5
        Number of neighbours per query; fewer are returned if there are fewer reference samples.

    Returns
    -------
    NeighborExplanation
        Distances, indices and contributions.

    Examples
    --------
    >>> from genmetric import GenerativeMetric
    >>> from genmetric.inspection import explain_neighbors
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> found = explain_neighbors(GenerativeMetric().fit(X, y), X[:2], X[2:], n_neighbors=3)
    >>> found.indices.shape, found.contributions.shape
    ((2, 3), (2, 3, 4))
    """
    check_count(n_neighbors, "n_neighbors")
    into = linear_map(estimator, X if X_reference is None else X_reference)
    queries = into.prepare(X)
    if X_reference is None:
        return explain_features(into, queries, queries, n_neighbors, np.arange(len(queries)))
    return explain_features(into, queries, into.prepare(X_reference), n_neighbors)


def explain_features(
    into: LinearMap,
    queries: FloatArray,
    references: FloatArray,
    n_neighbors: int,
    exclude: IntArray | None = None,
) -> NeighborExplanation:
    """Explain neighbours among prepared samples; `exclude` is a reference for each query."""
    z, known = into.map_features(queries), into.map_features(references)
    k = min(n_neighbors, len(references) - (exclude is not None))
    distances, indices = nearest_neighbors(known, k, queries=z, exclude=exclude)
    difference = references[indices] - queries[:, None, :]
    parts = difference * ((difference @ into.matrix.T) @ into.matrix)
    return NeighborExplanation(distances, indices, *_sum_by_column(parts, into.columns))

"""What was learned, read off any fitted estimator: M in the units of the input, names, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.base import is_clusterer
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from genmetric._quiet import quiet
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray


@dataclass(frozen=True)
class LearnedMetric:
    """A metric in the coordinates of the input rows.

    Attributes
    ----------
    matrix : ndarray of shape (n_features, n_features)
        M. Where the rows are known, that of standardised features: M_ij times the standard
        deviations of features i and j. Divided by its mean diagonal, so that the identity is the
        Euclidean distance.
    feature_names : tuple of str
        Names of the features.
    standardized : bool
        Whether the rows were known.
    """

    matrix: FloatArray
    feature_names: tuple[str, ...]
    standardized: bool

    @property
    def weights(self) -> FloatArray:
        """Share of each feature in the mean squared distance between rows, were they uncorrelated.

        The diagonal of M times the variance of the feature, over their sum: it does not depend on
        the unit of a feature. Shape (n_features,).
        """
        diagonal = np.diag(self.matrix)
        return np.asarray(diagonal / diagonal.sum())

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of the matrix, largest first, none negative; shape (n_features,)."""
        return np.clip(np.linalg.eigvalsh(self.matrix)[::-1], 0.0, None)


def effective_rank(eigenvalues: FloatArray) -> float:
    r"""Number of dimensions in which a metric measures.

    .. math:: \exp\Big(-\sum_i p_i \log p_i\Big), \qquad p_i = \lambda_i / \textstyle\sum_j \lambda_j

    Parameters
    ----------
    eigenvalues : ndarray of shape (n_features,)
        Eigenvalues of M, none negative.

    Returns
    -------
    float
        From 1, where one direction is all, to n_features, where all count the same.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.plot.learned import effective_rank
    >>> round(effective_rank(np.array([1.0, 1.0, 0.0])), 6)
    2.0
    """
    share = eigenvalues[eigenvalues > 0] / eigenvalues.sum()
    return float(np.exp(-np.sum(share * np.log(share))))


def clustered_order(matrix: FloatArray) -> IntArray:
    """Order of features in which those that a metric couples stand together.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        The metric M.

    Returns
    -------
    ndarray of shape (n_features,)
        Leaves of the average-linkage tree of 1 - |M_ij| / sqrt(M_ii M_jj).
    """
    if len(matrix) < 3:
        return np.arange(len(matrix))
    size = np.sqrt(np.clip(np.diag(matrix), 0.0, None))
    size[size == 0] = 1.0
    distance = np.clip(1 - np.abs(matrix / size / size[:, None]), 0.0, None)
    distance = (distance + distance.T) / 2
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
    return np.asarray(leaves_list(tree), dtype=np.intp)


def name_features(names: Sequence[Any] | None, estimator: Any, X: Any, n: int) -> tuple[str, ...]:
    """Names of the features: given, those of the fit, those of a frame, or x0, x1, ...

    Parameters
    ----------
    names : sequence or None
        Names as given.
    estimator : object
        A fitted estimator, which may have ``feature_names_in_``.
    X : object
        Rows, which may be a frame.
    n : int
        How many there have to be.

    Returns
    -------
    tuple of str
        The names.
    """
    if names is None:
        names = getattr(estimator, "feature_names_in_", getattr(X, "columns", None))
    if names is None:
        return tuple(f"x{i}" for i in range(n))
    if len(names) != n:
        raise ValueError(f"feature_names has {len(names)} names for {n} features.")
    return tuple(str(name) for name in names)


def transformer_of(estimator: Any) -> Any:
    """The part of a fitted estimator that maps rows to the space of its metric.

    Parameters
    ----------
    estimator : object
        A transformer; a pipeline, whose last step is left out where it is a classifier; a fitted
        search; or a classifier such as :class:`genmetric.EnergyClassifier` that holds a
        transformer in ``metric_``.

    Returns
    -------
    object
        It has ``transform``, or ``components_``.
    """
    check_is_fitted(estimator)
    if hasattr(estimator, "best_estimator_"):
        return transformer_of(estimator.best_estimator_)
    if isinstance(estimator, Pipeline) and len(estimator) > 1:
        last = estimator[-1]
        if last == "passthrough" or last is None or not hasattr(last, "transform"):
            return transformer_of(estimator[:-1])
        # Of a step that chose its parameters, what it chose.
        return Pipeline(
            [(name, getattr(step, "best_estimator_", step)) for name, step in estimator.steps]
        )
    held = getattr(estimator, "metric_", None)
    if hasattr(held, "transform"):
        return held
    if hasattr(estimator, "components_") or hasattr(estimator, "transform"):
        return estimator
    raise TypeError(
        f"{type(estimator).__name__} has learned no metric for all rows alike. Pass a transformer "
        "such as GenerativeMetric or LMNN, or a pipeline with one in it."
    )


def map_rows(estimator: Any, X: Any) -> FloatArray:
    """Rows in the space of the metric of a fitted estimator.

    Parameters
    ----------
    estimator : object
        As :func:`transformer_of` takes it.
    X : array-like of shape (n_samples, n_features)
        Rows.

    Returns
    -------
    ndarray of shape (n_samples, n_components)
        Where Euclidean distances are those of the metric.
    """
    transformer = transformer_of(estimator)
    factor = getattr(transformer, "components_", None)
    if is_clusterer(transformer) and _is_matrix(factor):
        # Its transform gives distances to centres.
        return np.asarray(numeric_rows(X) @ np.asarray(factor, float).T)
    return _dense(transformer.transform(X))


def linear_map(estimator: Any, origin: FloatArray, steps: FloatArray) -> FloatArray:
    """The matrix of an affine transformer, found by taking a step along each feature.

    Parameters
    ----------
    estimator : object
        A fitted transformer.
    origin : ndarray of shape (n_features,)
        Where the steps start.
    steps : ndarray of shape (n_features,)
        Their lengths.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        Change of the transformed row for a step along each feature.
    """
    probes = origin + np.vstack([np.zeros_like(steps), np.diag(steps)])
    # One more, half-way along all features at once, tells an affine map from another.
    check = origin + np.atleast_2d(steps) / 2
    with quiet(UserWarning, "X does not have valid feature names"):
        moved = map_rows(estimator, np.vstack([probes, check]))
    matrix = (moved[1:-1] - moved[0]).T
    error = np.abs(moved[-1] - moved[0] - matrix.sum(axis=1) / 2).max(initial=0.0)
    scale = np.abs(matrix).sum(axis=1).max(initial=0.0) + np.abs(moved[0]).max(initial=0.0)
    if not error <= 1e-6 * scale:
        raise TypeError(
            f"{type(estimator).__name__} is not linear, so that no matrix M describes its "
            "distances. Pass a linear transformer, or a pipeline of linear ones."
        )
    return np.asarray(matrix)


def learned_metric(
    estimator: Any, X: ArrayLike | None = None, *, names: Sequence[Any] | None = None
) -> LearnedMetric:
    """The metric of a fitted estimator in the coordinates of its input.

    Parameters
    ----------
    estimator : object
        A fitted linear transformer, a pipeline of such with or without a classifier at its end, a
        fitted search, or anything with ``metric_``.
    X : array-like of shape (n_samples, n_features), default=None
        Rows, to measure features in standard deviations. Without them the metric is that of the
        features as they are.
    names : sequence, default=None
        Names of the features.

    Returns
    -------
    LearnedMetric
        The metric.
    """
    transformer = transformer_of(estimator)
    if X is not None:
        rows = numeric_rows(X)
        n_features = rows.shape[1]
        origin, spread = rows.mean(axis=0), _spread(rows)
    else:
        n_features = int(transformer.n_features_in_)
        origin, spread = np.zeros(n_features), np.ones(n_features)
    steps = np.where(spread > 0, spread, 1.0)
    matrix = getattr(transformer, "metric_", None)
    if _is_matrix(matrix) and not isinstance(transformer, Pipeline):
        scale = spread / spread.max() if spread.max() > 0 else spread
        matrix = np.asarray(matrix, float) * scale * scale[:, None]
    else:
        factor = linear_map(transformer, origin, steps) * (spread > 0)
        peak = np.abs(factor).max(initial=0.0)
        factor = factor / (peak or 1.0)
        matrix = factor.T @ factor
    size = np.trace(matrix) / n_features
    if not (np.isfinite(matrix).all() and size > 0):
        raise ValueError("The metric is zero or not finite on these rows: nothing to show.")
    matrix = (matrix + matrix.T) / (2 * size)
    return LearnedMetric(matrix, name_features(names, transformer, X, n_features), X is not None)


def numeric_rows(X: Any) -> FloatArray:
    """Rows as a finite float64 array of two dimensions."""
    return np.asarray(check_array(X, dtype=np.float64))


def standardize(reference: FloatArray, *others: FloatArray) -> list[FloatArray]:
    """Rows with each feature of the reference at mean zero and variance one, others alike."""
    mean, spread = reference.mean(axis=0), _spread(reference)
    spread[spread == 0] = 1.0
    return [(rows - mean) / spread for rows in (reference, *others)]


def _spread(rows: FloatArray) -> FloatArray:
    """Standard deviations, at any scale: the square of 1e160 is infinite."""
    centred = rows - rows.mean(axis=0)
    peak = np.abs(centred).max(axis=0, initial=0.0)
    # Rounding of a constant is no spread.
    peak[peak <= 1e-12 * np.abs(rows).max(axis=0, initial=0.0)] = 0.0
    return np.asarray(peak * np.std(centred / np.where(peak > 0, peak, 1.0), axis=0))


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2


def _dense(Z: Any) -> FloatArray:
    return np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z, dtype=float)


def draw(n_rows: int, most: int | None, random_state: Any) -> IntArray:
    """Rows to show, ascending: all, or `most` of them at random.

    Parameters
    ----------
    n_rows : int
        How many there are.
    most : int or None
        How many to show at most.
    random_state : int, RandomState instance or None
        Draws them.

    Returns
    -------
    ndarray of shape (n_shown,)
        Their positions.
    """
    from sklearn.utils import check_random_state

    if most is None or n_rows <= most:
        return np.arange(n_rows)
    rng = check_random_state(random_state)
    return np.sort(rng.choice(n_rows, most, replace=False)).astype(np.intp)


def class_codes(y: ArrayLike, names: Sequence[Any] | None) -> tuple[IntArray, tuple[str, ...]]:
    """Number of each row's class in sorted order, and the names of the classes.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels.
    names : sequence or None
        Names to show, in sorted order of the labels; the labels themselves by default.

    Returns
    -------
    codes : ndarray of shape (n_samples,)
        From 0.
    names : tuple of str
        One a class.
    """
    labels: AnyArray
    labels, codes = np.unique(np.asarray(y), return_inverse=True)
    if names is None:
        names = [str(value) for value in labels]
    if len(names) != len(labels):
        raise ValueError(f"class_names has {len(names)} names for {len(labels)} classes.")
    return codes.astype(np.intp), tuple(str(name) for name in names)

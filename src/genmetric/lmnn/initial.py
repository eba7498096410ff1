"""Where LMNN starts: the factor under which the targets are chosen, and its length."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array, check_random_state

from genmetric._chunks import row_chunks
from genmetric._quiet import quiet
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density.frame import Frame
from genmetric.density.statistics import ClassStatistics, class_statistics
from genmetric.geometry.factor import rank_limited_factor
from genmetric.lmnn.objective import Problem
from genmetric.metric.generative import GenerativeMetric

#: Rows that the length of the start is read from, and rows of other classes near each.
_SAMPLE, _NEAREST = 512, 512
#: Least within-class variance of a direction against the mean, for "lda".
_FLOOR = 1e-8
_NAMES = ("auto", "identity", "pca", "lda", "random")


def check_init(init: Any) -> None:
    """Refuse an `init` that is no known name, no array and no estimator."""
    if isinstance(init, str):
        known = init in _NAMES
    elif hasattr(init, "fit"):
        known = not isinstance(init, type)
    else:
        known = init is not None and np.ndim(init) == 2
    if not known:
        raise ValueError(
            f"init must be one of {', '.join(map(repr, _NAMES))}, an array of shape (n_components, "
            f"n_features), or a metric such as GenerativeMetric(); got {init!r}."
        )


def initial_factor(
    init: Any,
    X: AnyArray,
    codes: IntArray,
    *,
    n_components: int | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> FloatArray:
    """The factor that LMNN starts from, of largest entry one.

    Parameters
    ----------
    init : str, array-like of shape (n_components, n_features) or estimator
        As the parameter of :class:`genmetric.LMNN`.
    X : ndarray of shape (n_samples, n_features)
        Rows.
    codes : ndarray of shape (n_samples,)
        Class of each row: 0, 1, ...
    n_components : int, default=None
        Rows of the factor; ``None`` takes as many as there are.
    n_jobs : int, default=None
        Threads.
    random_state : int, RandomState instance or None, default=None
        Draws the entries for ``"random"``.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        The factor.
    """
    check_init(init)
    n_features = X.shape[1]
    if isinstance(init, str):
        if init == "identity":
            L = np.eye(n_components or n_features, n_features)
        elif init == "random":
            rng = check_random_state(random_state)
            L = rng.standard_normal((n_components or n_features, n_features))
        else:
            L = _of_classes(init, X, codes, n_components, n_jobs)
    elif hasattr(init, "fit"):
        L = _of_metric(init, X, codes, n_components, n_jobs)
    else:
        L = check_array(init, dtype=np.float64, input_name="init")
        if n_components is not None and len(L) != n_components:
            raise ValueError(
                f"init has {len(L)} rows, but n_components is {n_components}. Make them agree, or "
                "leave n_components at None."
            )
    if L.shape[1] != n_features:
        raise ValueError(
            f"init is for rows of {L.shape[1]} features, but X has {n_features} features."
        )
    if len(L) > n_features:
        raise ValueError(
            f"init has {len(L)} rows, more than the {n_features} features of X. Drop some."
        )
    size = np.abs(L).max()
    if not (np.isfinite(size) and size > 0):
        raise ValueError(
            f"init must be finite and not zero everywhere; its largest entry is {size}."
        )
    return np.asarray(L / size)


def _statistics(X: AnyArray, codes: IntArray, n_jobs: int | None) -> ClassStatistics:
    return class_statistics(X, codes, int(codes.max()) + 1, frame=Frame.of(X), n_jobs=n_jobs)


def _of_classes(
    name: str, X: AnyArray, codes: IntArray, n_components: int | None, n_jobs: int | None
) -> FloatArray:
    """A metric of the classes, or of all rows, and its leading principal components."""
    if name == "auto":
        # LMNN says itself which classes are small; how M^UNI makes do is not its matter.
        with quiet(UserWarning, "Classes .* have a single row"):
            fitted = GenerativeMetric(n_components=n_components, n_jobs=n_jobs).fit(X, codes)
        return fitted.components_
    stats = _statistics(X, codes, n_jobs)
    n_features = X.shape[1]
    metric = np.eye(n_features)
    if name == "lda":
        variance, U = np.linalg.eigh(stats.pooled_covariance)
        if variance.max() > 0:
            metric = (U / np.maximum(variance / variance.mean(), _FLOOR)) @ U.T
    return rank_limited_factor(metric, n_components or n_features, stats.total_covariance)


def _of_metric(
    init: Any, X: AnyArray, codes: IntArray, n_components: int | None, n_jobs: int | None
) -> FloatArray:
    """The factor of a metric, fitted where it is not, with fewer rows where fewer are asked."""
    fitted = init if hasattr(init, "components_") else clone(init).fit(X, codes)
    if not hasattr(fitted, "components_"):
        raise ValueError(
            f"init={init!r} has no components_ after fit. Pass a metric that has, such as "
            "GenerativeMetric(), or the factor as an array."
        )
    L = check_array(fitted.components_, dtype=np.float64, input_name="init.components_")
    if n_components is None or len(L) == n_components or L.shape[1] != X.shape[1]:
        return np.asarray(L)
    if len(L) < n_components:
        raise ValueError(
            f"n_components is {n_components}, but components_ of init has {len(L)} rows. Ask for "
            "no more than those."
        )
    L = L / np.abs(L).max()
    covariance = _statistics(X, codes, n_jobs).total_covariance
    return rank_limited_factor(L.T @ L, n_components, covariance)


def best_length(problem: Problem, L: FloatArray) -> float:
    r"""The number s for which the objective is least at s·L.

    Along the ray the objective of eq. eLMNN is, with a = s² and the gaps
    :math:`u_{ijl} = d_{il} - d_{ij}` at L,

    .. math:: (1 - \mu)\, a \sum_{ij} d_{ij} + \mu \sum_{ijl} (1 - a\, u_{ijl})_+,

    convex and piecewise linear in a. Its slope vanishes where the positive gaps below 1/a add up
    to what the pull and the negative gaps add up to: a sort finds it. At most 512 rows, evenly
    spaced, and for each the 512 nearest rows of other classes take part.

    Parameters
    ----------
    problem : Problem
        Rows and targets.
    L : ndarray of shape (n_components, n_features)
        The direction.

    Returns
    -------
    float
        The length s, positive; one where nothing says how long.
    """
    Z, starts = problem.X @ L.T, problem.starts
    sample = np.unique(np.linspace(0, len(Z) - 1, min(_SAMPLE, len(Z))).astype(int))
    pull = problem.target_distances(Z)[sample]
    norm2 = np.einsum("ij,ij->i", Z, Z)
    own = np.searchsorted(starts, sample, side="right") - 1
    parts = []
    for part in row_chunks(len(sample), 24 * len(Z)):
        d = norm2[sample[part], None] + norm2 - 2 * Z[sample[part]] @ Z.T
        for row, c in zip(d, own[part], strict=True):
            row[starts[c] : starts[c + 1]] = np.inf
        if d.shape[1] > _NEAREST:
            d = np.partition(d, _NEAREST, axis=1)[:, :_NEAREST]
        u = np.maximum(d, 0.0)[:, None, :] - pull[part, :, None]
        parts.append(u[np.isfinite(u)])
    gaps = np.concatenate(parts)
    share = problem.push
    pulled = float(pull[np.isfinite(pull)].sum()) * (1 - share)
    wanted = pulled - share * float(gaps[gaps < 0].sum())
    gaps = np.sort(gaps[gaps > 0])
    if not len(gaps):
        return 1.0
    # Where even all gaps are too few the least objective is at zero, where no gradient is.
    place = int(np.searchsorted(share * np.cumsum(gaps), wanted))
    return float(1 / np.sqrt(gaps[min(place, len(gaps) - 1)]))

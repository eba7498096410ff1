"""Initial metrics of LMNN: they select the target neighbours and start the minimisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import has_fit_parameter

from genmetric._chunks import row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._warnings import suppress_warnings
from genmetric.density._scaling import Scaling
from genmetric.geometry._factor import rank_limited_factor, symmetric_root
from genmetric.learners._generative import GenerativeMetric
from genmetric.learners._lmnn.objective import Problem

#: With more classes than this, "auto" selects "lda": class covariances from few samples per class
#: are poor, and their memory grows with the number of classes.
MAX_GENERATIVE_CLASSES = 50
#: Number of samples that the initial scale is computed from, and of impostors for each.
_SCALE_SAMPLES, _SCALE_IMPOSTORS = 512, 512
#: Smallest eigenvalue of the metric that defines the coordinates, relative to the largest one.
_COORDINATE_FLOOR = 1e-12
#: Closed forms that "auto" selects from on left-out samples. The first one is used without a
#: selection, or if errors are equal.
CLOSED_FORMS = ("generative", "mixed", "pooled")
INIT_NAMES = ("auto", *CLOSED_FORMS, "identity", "pca", "lda", "random")


@dataclass(frozen=True)
class InitialMetric:
    """Initial factor of LMNN and the metric whose space the minimisation works in.

    Attributes
    ----------
    L : ndarray of shape (n_components, n_features)
        The factor; its largest entry is one.
    coordinates : ndarray of shape (n_features, n_features)
        Nonsingular factor of the metric before its rank was reduced to `n_components`.
    """

    L: FloatArray
    coordinates: FloatArray


def check_init(init: Any) -> None:
    """Raise a ValueError if `init` is not a known name, a 2D array or an estimator."""
    if isinstance(init, str):
        known = init in INIT_NAMES
    elif hasattr(init, "fit"):
        known = not isinstance(init, type)
    else:
        known = init is not None and np.ndim(init) == 2
    if not known:
        raise ValueError(
            f"init must be one of {', '.join(map(repr, INIT_NAMES))}, an array of shape "
            f"(n_components, n_features), or a metric such as GenerativeMetric(); got {init!r}."
        )


def initial_metric(
    init: Any,
    X: AnyArray,
    codes: IntArray,
    *,
    n_components: int | None = None,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> InitialMetric:
    """Compute the metric that LMNN starts from.

    Parameters
    ----------
    init : str, array-like of shape (n_components, n_features) or estimator
        The parameter `init` of :class:`genmetric.LMNN`.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    codes : ndarray of shape (n_samples,)
        Class of each sample: 0, 1, ...
    n_components : int, default=None
        Number of rows of the factor; ``None`` keeps all rows.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive sample weights; ``None`` weights all samples by one.
    n_jobs : int, default=None
        Number of threads.
    random_state : int, RandomState instance or None, default=None
        Seed of the entries for ``"random"``.

    Returns
    -------
    InitialMetric
        The factor and the coordinates.
    """
    check_init(init)
    n_features = X.shape[1]
    metric = None  # the metric before its rank is reduced
    if isinstance(init, str):
        if init == "auto":
            init = candidates(init, codes)[0]
        if init in CLOSED_FORMS:
            metric = closed_forms((init,), X, codes, sample_weight, n_jobs)[init]
            return start_from_metric(metric, X, n_components, sample_weight)
        if init == "identity":
            L = np.eye(n_components or n_features, n_features)
        elif init == "random":
            rng = check_random_state(random_state)
            L = rng.standard_normal((n_components or n_features, n_features))
        else:
            metric = np.eye(n_features) if init == "pca" else whitening(X, codes, sample_weight)
            covariance = total_covariance(X, sample_weight)
            L = rank_limited_factor(metric, n_components or n_features, covariance)
    elif hasattr(init, "fit"):
        L = _factor_of(init, X, codes, n_components, sample_weight)
    else:
        L = check_array(init, dtype=np.float64, input_name="init")
        if n_components is not None and len(L) != n_components:
            raise ValueError(
                f"init has {len(L)} rows, but n_components is {n_components}. Make them agree, or "
                "leave n_components at None."
            )
    check_factor(L, n_features)
    L = L / np.abs(L).max()
    if metric is None:
        metric = L.T @ L if len(L) == n_features else np.eye(n_features)
    return InitialMetric(L, metric_coordinates(metric))


def candidates(init: Any, codes: IntArray) -> tuple[Any, ...]:
    """Return the initial metrics that left-out samples select from: one unless `init` is "auto".

    Parameters
    ----------
    init : str, array-like of shape (n_components, n_features) or estimator
        The parameter `init` of :class:`genmetric.LMNN`.
    codes : ndarray of shape (n_samples,)
        Class of each sample: 0, 1, ...

    Returns
    -------
    tuple
        Values of `init` other than "auto". The first one is used without a selection.
    """
    if not isinstance(init, str) or init != "auto":
        return (init,)
    return ("lda",) if codes.max() >= MAX_GENERATIVE_CLASSES else CLOSED_FORMS


def closed_forms(
    names: Sequence[str],
    X: AnyArray,
    codes: IntArray,
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> dict[str, FloatArray]:
    r"""Compute metrics in closed form.

    "generative" is regularised towards the Euclidean metric, "pooled" towards Mahalanobis distance
    under the pooled within-class covariance. "mixed" is their mean

    .. math:: M_g / \operatorname{tr}(M_g C) + M_p / \operatorname{tr}(M_p C)

    up to a factor, with the covariance C of the samples: both have the same mean squared distance.
    Each of the two is computed at most once.

    Parameters
    ----------
    names : sequence of str
        Some of "generative", "mixed" and "pooled".
    X : ndarray of shape (n_samples, n_features)
        Samples.
    codes : ndarray of shape (n_samples,)
        Class of each sample: 0, 1, ...
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive sample weights; ``None`` weights all samples by one.
    n_jobs : int, default=None
        Number of threads.

    Returns
    -------
    dict of ndarray
        For each name a metric of shape (n_features, n_features).
    """
    bases = {"generative": "identity", "pooled": "pooled"}
    if "mixed" not in names:
        bases = {name: bases[name] for name in names}
    found = {}
    # LMNN warns about small classes itself.
    with suppress_warnings(UserWarning):
        for name, base in bases.items():
            estimator = GenerativeMetric(base=base, n_jobs=n_jobs)
            found[name] = estimator.fit(X, codes, sample_weight).metric_
    if "mixed" in names:
        covariance = total_covariance(X, sample_weight)
        sizes = {name: float(np.vdot(metric, covariance)) for name, metric in found.items()}
        # Without any variance distances vanish, and the metrics are added as they are.
        found["mixed"] = np.sum([M / (sizes[name] or 1.0) for name, M in found.items()], axis=0)
    return {name: found[name] for name in names}


def start_from_metric(
    metric: FloatArray,
    X: AnyArray,
    n_components: int | None,
    sample_weight: FloatArray | None = None,
) -> InitialMetric:
    """Start from a metric: its symmetric root, or its leading principal components.

    Parameters
    ----------
    metric : ndarray of shape (n_features, n_features)
        Symmetric positive semidefinite matrix.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    n_components : int or None
        Number of rows of the factor; ``None`` keeps all features.
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive sample weights; ``None`` weights all samples by one.

    Returns
    -------
    InitialMetric
        The factor and the coordinates.
    """
    if n_components is None:
        L = symmetric_root(metric)
    else:
        L = rank_limited_factor(metric, n_components, total_covariance(X, sample_weight))
    check_factor(L, X.shape[1])
    return InitialMetric(L / np.abs(L).max(), metric_coordinates(metric))


def check_factor(L: FloatArray, n_features: int) -> None:
    """Raise a ValueError if a factor does not fit the features, or is zero or not finite."""
    if L.shape[1] != n_features:
        raise ValueError(
            f"init is for samples with {L.shape[1]} features, but X has {n_features} features."
        )
    if len(L) > n_features:
        raise ValueError(
            f"init has {len(L)} rows, more than the {n_features} features of X. Remove some rows."
        )
    size = np.abs(L).max()
    if not (np.isfinite(size) and size > 0):
        raise ValueError(f"init must be finite and not all zero; its largest entry is {size}.")


def metric_coordinates(metric: FloatArray) -> FloatArray:
    """Compute the symmetric root of a metric, with raised eigenvalues if it is singular."""
    eigenvalues, U = np.linalg.eigh(metric / np.abs(metric).max())
    raised = np.maximum(eigenvalues, _COORDINATE_FLOOR * eigenvalues[-1])
    return np.asarray((U * np.sqrt(raised)) @ U.T)


def _centered(X: AnyArray, sample_weight: FloatArray | None) -> FloatArray:
    """Return scaled samples about their mean, multiplied by the root of weights of mean one."""
    x = Scaling.of(X).apply(X)
    if sample_weight is None:
        return x
    x -= np.average(x, axis=0, weights=sample_weight)
    x *= np.sqrt(sample_weight / sample_weight.mean())[:, None]
    return x


def total_covariance(X: AnyArray, sample_weight: FloatArray | None) -> FloatArray:
    """Compute the weighted covariance of scaled samples."""
    x = _centered(X, sample_weight)
    return np.asarray(x.T @ x / len(x))


def whitening(X: AnyArray, codes: IntArray, sample_weight: FloatArray | None = None) -> FloatArray:
    """Compute the inverse of the pooled within-class covariance, shrunk by Ledoit and Wolf's rule.

    Memory grows with n_samples·n_features + n_features², not with the number of classes.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples.
    codes : ndarray of shape (n_samples,)
        Class of each sample: 0, 1, ...
    sample_weight : ndarray of shape (n_samples,), default=None
        Positive sample weights; ``None`` weights all samples by one.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Metric of mean eigenvalue about one; the identity if no class has any scatter.
    """
    x = Scaling.of(X).apply(X)
    weights = np.ones(len(x)) if sample_weight is None else sample_weight / sample_weight.mean()
    # The sums of the classes as a sparse product, and chunks of samples: no copy of all samples.
    indicator = csr_array((weights, codes, np.arange(len(x) + 1)))
    means = indicator.T @ x / indicator.sum(axis=0)[:, None]
    for rows in row_chunks(len(x), 16 * x.shape[1]):
        x[rows] -= means[codes[rows]]
        if sample_weight is not None:
            x[rows] *= np.sqrt(weights[rows, None])
    covariance, _ = ledoit_wolf(x, assume_centered=True)
    variance, U = np.linalg.eigh(covariance)
    if not variance[-1] > 0:
        return np.eye(x.shape[1])
    inverse = variance.mean() / np.maximum(variance, 1e-8 * variance.mean())
    return np.asarray((U * inverse) @ U.T)


def _factor_of(
    init: Any,
    X: AnyArray,
    codes: IntArray,
    n_components: int | None,
    sample_weight: FloatArray | None,
) -> FloatArray:
    """Return `components_` of an estimator, fitted if necessary, with its rank reduced."""
    fitted = init
    if not hasattr(init, "components_"):
        weighted = sample_weight is not None and has_fit_parameter(init, "sample_weight")
        options = {"sample_weight": sample_weight} if weighted else {}
        fitted = clone(init).fit(X, codes, **options)
    if not hasattr(fitted, "components_"):
        raise ValueError(
            f"init={init!r} has no components_ after fit. Pass a metric that has them, such as "
            "GenerativeMetric(), or the factor as an array."
        )
    L = check_array(fitted.components_, dtype=np.float64, input_name="init.components_")
    if n_components is None or len(L) == n_components or L.shape[1] != X.shape[1]:
        return np.asarray(L)
    if len(L) < n_components:
        raise ValueError(
            f"n_components is {n_components}, but components_ of init has {len(L)} rows. Pass at "
            "most this number."
        )
    L = L / np.abs(L).max()
    return rank_limited_factor(L.T @ L, n_components, total_covariance(X, sample_weight))


def best_scale(problem: Problem, L: FloatArray) -> float:
    r"""Compute the number s that minimises the objective at s·L.

    With :math:`a = s^2` and the gaps :math:`u_{ijl} = d_{il} - d_{ij}` at L, the objective is

    .. math:: (1 - \mu)\, a \sum_{ij} d_{ij} + \mu \sum_{ijl} (1 - a\, u_{ijl})_+,

    which is convex and piecewise linear in a. Its slope vanishes where the sum of the positive
    gaps below 1/a equals the pull plus the sum of the negative gaps, which sorting finds. At most
    512 evenly spaced samples, with 512 impostors each, are used. Sample weights are ignored.

    Parameters
    ----------
    problem : Problem
        Samples and targets.
    L : ndarray of shape (n_components, n_features)
        The factor to scale.

    Returns
    -------
    float
        The scale s, positive; one if it is not determined.
    """
    Z, starts = problem.X @ L.T, problem.starts
    sample = np.unique(np.linspace(0, len(Z) - 1, min(_SCALE_SAMPLES, len(Z))).astype(int))
    pull = problem.target_distances(Z)[sample]
    norm2 = np.einsum("ij,ij->i", Z, Z)
    own = np.searchsorted(starts, sample, side="right") - 1
    parts = []
    for part in row_chunks(len(sample), 24 * len(Z)):
        d = norm2[sample[part], None] + norm2 - 2 * Z[sample[part]] @ Z.T
        for row, c in zip(d, own[part], strict=True):
            row[starts[c] : starts[c + 1]] = np.inf
        if d.shape[1] > _SCALE_IMPOSTORS:
            d = np.partition(d, _SCALE_IMPOSTORS, axis=1)[:, :_SCALE_IMPOSTORS]
        u = np.maximum(d, 0.0)[:, None, :] - pull[part, :, None]
        parts.append(u[np.isfinite(u)])
    gaps = np.concatenate(parts)
    share = problem.push
    pulled = float(pull[np.isfinite(pull)].sum()) * (1 - share)
    wanted = pulled - share * float(gaps[gaps < 0].sum())
    gaps = np.sort(gaps[gaps > 0])
    if not len(gaps):
        return 1.0
    # If the sum of all gaps is too small, the minimum is at zero, where the gradient vanishes.
    place = int(np.searchsorted(share * np.cumsum(gaps), wanted))
    return float(1 / np.sqrt(gaps[min(place, len(gaps) - 1)]))

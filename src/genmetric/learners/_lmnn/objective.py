"""The LMNN objective and its gradient, computed from sparse weights of pairs of samples."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.learners._lmnn.impostors import (
    ImpostorSearch,
    Pairs,
    join_pairs,
    pair_distances,
    search_chunks,
)
from genmetric.learners._lmnn.targets import target_scatter

Loss = Literal["hinge", "squared_hinge"]

#: Squared radius of an active set beyond the reach of the margin, which is one. For samples whose
#: reach exceeds the median, the fraction of the excess that is added, so that outliers do not
#: invalidate the set.
RADIUS_SLACK, OUTLIER_SLACK = 0.5, 0.2
#: Relative movement of the samples up to which an active set is used.
MAX_MOVEMENT = 0.03
#: Maximum number of pairs in an active set, of four bytes each. Beyond it, every evaluation
#: searches all pairs.
MAX_PAIRS = 2**24
#: Number of tasks of a search, independent of the number of threads.
N_TASKS = 64
#: Number of multiplications below which starting threads costs more time than it saves.
MIN_PARALLEL_WORK = 2e8


@dataclass(frozen=True)
class Problem:
    """Samples sorted by class, with their target neighbours: the data of the objective.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples; those of one class are adjacent.
    starts : ndarray of shape (n_classes + 1,)
        Index of the first sample of each class, followed by the number of samples.
    targets : ndarray of shape (n_samples, n_neighbors)
        Indices of the target neighbours; the index of the sample itself marks a missing target.
    scatter : ndarray of shape (n_features, n_features)
        Weighted :func:`~genmetric.learners.target_scatter` of the samples.
    push : float
        Weight of the hinge losses, in [0, 1]; the weight of the pull is ``1 - push``.
    loss : "hinge" or "squared_hinge"
        Loss of a violated margin.
    weights : ndarray of shape (n_samples,) or None
        Sample weights; ``None`` weights all samples by one.
    """

    X: FloatArray
    starts: IntArray
    targets: IntArray
    scatter: FloatArray
    push: float
    loss: Loss
    weights: FloatArray | None = None

    @classmethod
    def of(
        cls,
        X: FloatArray,
        codes: IntArray,
        targets: IntArray,
        *,
        push: float = 0.5,
        loss: Loss = "hinge",
        weights: FloatArray | None = None,
    ) -> Problem:
        """Build the problem of samples in any order from their class codes and targets."""
        order = np.argsort(codes, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return cls.sorted_by_class(
            np.ascontiguousarray(X[order]),
            codes[order],
            place[targets[order]],
            push=push,
            loss=loss,
            weights=None if weights is None else weights[order],
        )

    @classmethod
    def sorted_by_class(
        cls,
        X: FloatArray,
        codes: IntArray,
        targets: IntArray,
        *,
        push: float = 0.5,
        loss: Loss = "hinge",
        weights: FloatArray | None = None,
    ) -> Problem:
        """Build the problem of samples with ascending codes, without a copy of the samples."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        scatter = target_scatter(X, targets, weights)
        return cls(X, starts, targets, scatter, push, loss, weights)

    def target_distances(self, Z: FloatArray) -> FloatArray:
        """Compute squared distances to the targets; minus infinity marks a missing target.

        Parameters
        ----------
        Z : ndarray of shape (n_samples, n_components)
            Samples in the space of the metric.

        Returns
        -------
        ndarray of shape (n_samples, n_neighbors)
            Squared distances. A sample of another class is an impostor if its squared distance
            is less than this plus the margin of one.
        """
        own = np.arange(len(Z))
        d = np.empty(self.targets.shape)
        for j, column in enumerate(self.targets.T):
            d[:, j] = np.where(column == own, -np.inf, pair_distances(Z, own, column))
        return d


@dataclass(frozen=True)
class Evaluation:
    """Value and gradient of the objective at one L.

    Attributes
    ----------
    value : float
        The objective.
    smooth : float
        The objective with smoothed hinges; equal to `value` without smoothing.
    gradient : ndarray of shape (n_components, n_features)
        Derivative of `smooth` with respect to L.
    n_triplets : int
        Number of violated triplets.
    exact : bool
        Whether all triplets were evaluated. Otherwise only those of an active set were, and the
        value is a lower bound.
    """

    value: float
    smooth: float
    gradient: FloatArray
    n_triplets: int
    exact: bool


def lmnn_objective(
    L: FloatArray,
    X: FloatArray,
    codes: IntArray,
    targets: IntArray,
    *,
    push: float = 0.5,
    loss: Loss = "hinge",
    sample_weight: FloatArray | None = None,
    n_jobs: int | None = None,
) -> tuple[float, FloatArray]:
    r"""Compute the LMNN objective and its gradient with respect to L.

    With squared distances :math:`d_{ij} = \|L(x_i - x_j)\|^2`, targets j of sample i and all
    samples l of other classes, the objective of Weinberger and Saul (2009) is

    .. math::
        \varepsilon(L) = (1 - \mu) \sum_{ij} d_{ij} + \mu \sum_{ijl} (1 + d_{ij} - d_{il})_+ .

    With sample weights w, the terms of the first sum are multiplied by :math:`w_i` and those of
    the second by :math:`w_i w_l`. Let A be the sparse matrix with the number of violated triplets
    (i, j, ·) at (i, j) and minus the number of violated triplets (i, ·, l) at (i, l). The gradient
    of the second sum is :math:`2L X^T(D - A - A^T)X`, where D is diagonal with the sums of the
    rows and columns of A. Since only the sum A + Aᵀ matters, a pair of samples that are impostors
    of each other is computed once.

    Parameters
    ----------
    L : ndarray of shape (n_components, n_features)
        Factor of the metric.
    X : ndarray of shape (n_samples, n_features)
        Samples, centred near the origin.
    codes : ndarray of shape (n_samples,)
        Class of each sample: 0, 1, ...
    targets : ndarray of shape (n_samples, n_neighbors)
        Indices of target neighbours; the index of the sample itself marks a missing target.
    push : float, default=0.5
        The weight :math:`\mu` of the hinge losses, in [0, 1]. Larger values separate classes
        more strongly, smaller values keep target neighbours closer.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a violated triplet: its violation, or the square of its violation.
    sample_weight : ndarray of shape (n_samples,), default=None
        Sample weights; ``None`` weights all samples by one.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    value : float
        The objective.
    gradient : ndarray of shape (n_components, n_features)
        Derivative of the objective.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners import lmnn_objective, target_neighbors
    >>> X, codes = np.array([[0.0], [1.0], [1.5]]), np.array([0, 0, 1])
    >>> targets = target_neighbors(X, codes, 1)
    >>> lmnn_objective(np.eye(1), X, codes, targets)  # half of 1 + 1 + 1.75
    (1.875, array([[2.75]]))
    """
    problem = Problem.of(X, codes, targets, push=push, loss=loss, weights=sample_weight)
    found = Objective(problem, n_jobs=n_jobs).exact(L)
    return found.value, found.gradient


@dataclass
class _Sums:
    """Sums over violated triplets: their loss, and the slopes of the loss.

    Attributes
    ----------
    loss, smooth : float
        The loss, and the loss with smoothed hinges.
    n_triplets : int
        Number of violated triplets.
    pull : ndarray of shape (n_samples, n_neighbors)
        Sum of the slopes of the triplets (i, j, ·).
    push : ndarray of shape (n_samples,)
        Sum of the slopes of the triplets (·, ·, l).
    product : ndarray of shape (n_features, n_features)
        XᵀBX, where B has the sum of the slopes of (i, ·, l) and (l, ·, i) at (i, l), i < l.
    """

    loss: float
    smooth: float
    n_triplets: int
    pull: FloatArray
    push: FloatArray
    product: FloatArray

    @classmethod
    def none(cls, problem: Problem) -> _Sums:
        n_samples, n_features = problem.X.shape
        return cls(
            0.0,
            0.0,
            0,
            np.zeros(problem.targets.shape),
            np.zeros(n_samples),
            np.zeros((n_features, n_features)),
        )

    def add(self, other: _Sums) -> None:
        self.loss += other.loss
        self.smooth += other.smooth
        self.n_triplets += other.n_triplets
        self.pull += other.pull
        self.push += other.push
        self.product += other.product


def _sums_of(
    problem: Problem,
    Z: FloatArray,
    norm2: FloatArray,
    reach: FloatArray,
    pairs: Pairs,
    width: float,
) -> _Sums:
    """Sum over the triplets whose sample and impostor are one of the pairs, in either order."""
    n_samples, farthest = len(Z), reach.max(axis=1)
    d = pairs.distances(Z, norm2)
    active = d < np.maximum(farthest[pairs.rows], farthest[pairs.others])
    pairs, d = pairs.select(active), d[active]
    rows, others = pairs.rows, pairs.others
    weights = problem.weights
    pair_weights = None if weights is None else weights[rows] * weights[others]
    sums = _Sums.none(problem)
    total = np.zeros(len(d))
    for samples, impostors in ((rows, others), (others, rows)):
        slopes = np.zeros(len(d))
        for j in range(reach.shape[1]):
            hinge = np.maximum(reach[samples, j] - d, 0.0)
            sums.n_triplets += int(np.count_nonzero(hinge))
            slope, loss, smooth = _hinge_loss(hinge, problem.loss, width, pair_weights)
            sums.loss += loss
            sums.smooth += smooth
            slopes += slope
            sums.pull[:, j] += np.bincount(samples, weights=slope, minlength=n_samples)
        sums.push += np.bincount(impostors, weights=slopes, minlength=n_samples)
        total += slopes
    sums.product += pairs.product(total, problem.X)
    return sums


def _hinge_loss(
    hinge: FloatArray, loss: Loss, width: float, weights: FloatArray | None
) -> tuple[FloatArray, float, float]:
    """Return the weighted slope of each hinge, the loss, and the loss with smoothed hinges."""
    if loss == "squared_hinge":
        slope = 2 * hinge if weights is None else 2 * weights * hinge
        value = float(slope @ hinge) / 2
        return slope, value, value
    # A parabola over the smoothing width, then a line of slope one.
    slope = np.minimum(hinge / width, 1.0) if width > 0 else (hinge > 0).astype(float)
    smooth = hinge - (width / 2) * slope
    if weights is None:
        return slope, float(hinge.sum()), float(slope @ smooth)
    slope = slope * weights
    return slope, float(weights @ hinge), float(slope @ smooth)


@dataclass(frozen=True)
class _ActiveSet:
    """Pairs within a radius at a reference; searched again after the samples have moved."""

    L: FloatArray
    radius2: FloatArray
    parts: list[Pairs]  # not joined, because the copy would double the memory

    def is_valid(
        self, L: FloatArray, gram: FloatArray, reach2: FloatArray, max_movement: float
    ) -> bool:
        """Return whether samples are near the reference and no margin exceeds the radius."""
        # The sum of |Lx|² over the samples is the trace of L XᵀX Lᵀ.
        movement2, size2 = (float(np.vdot(a @ gram, a)) for a in (L - self.L, self.L))
        return movement2 <= max_movement**2 * size2 and bool((reach2 <= self.radius2).all())


class Objective:
    """The objective of a problem as a function of L, with an active set of impostors.

    Parameters
    ----------
    problem : Problem
        Samples and targets.
    width : float, default=0.0
        Width of the smoothed part of a hinge, relative to the margin of one.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Attributes
    ----------
    n_evaluations, n_searches : int
        Number of evaluations, and of those that searched all pairs of samples.
    max_movement : float
        Relative movement of the samples up to which an active set is used; can be changed.
    """

    def __init__(self, problem: Problem, *, width: float = 0.0, n_jobs: int | None = None) -> None:
        self.problem, self.width, self.n_jobs = problem, width, n_jobs
        self.n_evaluations = self.n_searches = 0
        self.max_movement = MAX_MOVEMENT
        self._active: _ActiveSet | None = None
        self._crowded = False  # whether the last search found more than MAX_PAIRS pairs
        self._gram = problem.X.T @ problem.X
        chunks = search_chunks(len(problem.X))
        edges = np.linspace(0, len(chunks), min(N_TASKS, len(chunks)) + 1).astype(int)
        self._tasks = [chunks[a:b] for a, b in pairwise(edges)]

    def exact(self, L: FloatArray) -> Evaluation:
        """Evaluate all triplets at L; the pairs found become the active set.

        Parameters
        ----------
        L : ndarray of shape (n_components, n_features)
            The factor of the metric.

        Returns
        -------
        Evaluation
            Value and gradient.
        """
        Z = self.problem.X @ L.T
        pull = self.problem.target_distances(Z)
        sums = self._search(L, Z, 1 + pull, self._radius2(1 + pull.max(axis=1)))
        return self._evaluation(L, pull, sums, True)

    def active(self, L: FloatArray) -> Evaluation | None:
        """Evaluate the triplets of the active set at L, or return None if L is too far from it.

        Parameters
        ----------
        L : ndarray of shape (n_components, n_features)
            The factor of the metric.

        Returns
        -------
        Evaluation or None
            Lower bound of the objective, exact at the L of the last search.
        """
        if self._active is None:
            return None
        Z = self.problem.X @ L.T
        pull = self.problem.target_distances(Z)
        reach2 = 1 + pull.max(axis=1)
        if not self._active.is_valid(L, self._gram, reach2, self.max_movement):
            return None
        return self._evaluation(L, pull, self._over(self._active.parts, Z, 1 + pull), False)

    def _evaluation(
        self, L: FloatArray, distances: FloatArray, sums: _Sums, exact: bool
    ) -> Evaluation:
        share = self.problem.push
        G = (1 - share) * self.problem.scatter + share * self._push_matrix(sums)
        # Rounding can make trace(L S Lᵀ) negative if L is large and S nearly singular.
        positive = np.maximum(distances, 0.0)
        weights = self.problem.weights
        total = positive.sum() if weights is None else weights @ positive.sum(axis=1)
        pull = (1 - share) * float(total)
        value, smooth = pull + share * sums.loss, pull + share * sums.smooth
        self.n_evaluations += 1
        return Evaluation(value, smooth, 2 * L @ G, sums.n_triplets, exact)

    def _push_matrix(self, sums: _Sums) -> FloatArray:
        """Compute Xᵀ(D - A - Aᵀ)X of :func:`lmnn_objective`.

        The rows of A sum to zero, so D has the sums of its columns: the pull on each target minus
        the push on each impostor.
        """
        X, targets = self.problem.X, self.problem.targets
        pulled = np.bincount(targets.ravel(), weights=sums.pull.ravel(), minlength=len(X))
        degree = pulled - sums.push
        half = sums.product.copy()
        for rows in row_chunks(len(X), 24 * X.shape[1]):
            R = (degree[rows, None] / 2) * X[rows]
            for j, column in enumerate(targets[rows].T):
                R -= sums.pull[rows, j, None] * X[column]
            half += X[rows].T @ R
        return half + half.T

    def _radius2(self, reach2: FloatArray) -> FloatArray:
        if self._crowded:
            return reach2
        rest = reach2 - np.median(reach2[np.isfinite(reach2)])
        return np.asarray(reach2 + RADIUS_SLACK + OUTLIER_SLACK * np.maximum(rest, 0.0))

    def _threads(self, n_products: float) -> int | None:
        return self.n_jobs if n_products * self.problem.X.shape[1] > MIN_PARALLEL_WORK else 1

    def _over(self, parts: list[Pairs], Z: FloatArray, reach: FloatArray) -> _Sums:
        total = _Sums.none(self.problem)
        pieces = [piece for pairs in parts for piece in pairs.pieces()]
        jobs = self._threads(8 * sum(len(pairs.others) for pairs in parts))

        norm2 = np.einsum("ij,ij->i", Z, Z)

        def of_piece(piece: Pairs) -> _Sums:
            return _sums_of(self.problem, Z, norm2, reach, piece, self.width)

        for sums in map_chunks(of_piece, pieces, jobs):
            total.add(sums)
        return total

    def _search(
        self, L: FloatArray, Z: FloatArray, reach: FloatArray, radius2: FloatArray
    ) -> _Sums:
        problem = self.problem
        search, norm2 = ImpostorSearch(Z, problem.starts), np.einsum("ij,ij->i", Z, Z)
        self.n_searches += 1
        self._active = None
        quota = MAX_PAIRS // len(self._tasks)

        def of_task(chunks: list[slice]) -> tuple[_Sums, Pairs | None]:
            total, kept, n_pairs = _Sums.none(problem), [], 0
            for pairs in search.within(chunks, radius2):
                for piece in pairs.pieces():
                    total.add(_sums_of(problem, Z, norm2, reach, piece, self.width))
                n_pairs += len(pairs.others)
                if n_pairs <= quota:
                    kept.append(pairs)
            return total, join_pairs(kept) if n_pairs <= quota else None

        total, found = _Sums.none(problem), []
        for sums, pairs in map_chunks(of_task, self._tasks, self._threads(float(len(Z)) ** 2)):
            total.add(sums)
            found.append(pairs)
        kept = [pairs for pairs in found if pairs is not None]
        self._crowded = len(kept) < len(found)
        if not self._crowded:
            self._active = _ActiveSet(L.copy(), radius2, kept)
        return total

"""The LMNN objective and its gradient, computed from sparse weights of pairs of samples."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from genmetric._chunks import map_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.metric._lmnn.impostors import (
    ImpostorSearch,
    Pairs,
    class_chunks,
    join_pairs,
    pair_distances,
)
from genmetric.metric._lmnn.targets import target_scatter

Loss = Literal["hinge", "squared_hinge"]

#: Squared radius of an active set beyond the reach of the margin, which is one. For samples whose
#: reach exceeds the median, the fraction of the excess that is added, so that outliers do not
#: invalidate the set.
RADIUS_SLACK, OUTLIER_SLACK = 0.5, 0.2
#: Relative movement of the samples up to which an active set is used.
MAX_MOVEMENT = 0.03
#: Maximum number of pairs in an active set, of eight bytes each. Beyond it, every evaluation
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
        Weighted :func:`~genmetric.metric.target_scatter` of the samples.
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
        rows, goals = np.ascontiguousarray(X[order]), place[targets[order]]
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        weights = None if weights is None else weights[order]
        scatter = target_scatter(rows, goals, weights)
        return cls(rows, starts, goals, scatter, push, loss, weights)

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
    rows and columns of A.

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
    >>> from genmetric.metric import lmnn_objective, target_neighbors
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
    """Sums over violated triplets: their loss, and the products with the pair weights A."""

    loss: float
    smooth: float  # the loss with smoothed hinges
    n_triplets: int
    product: FloatArray  # XᵀAX, (n_features, n_features)
    weight: FloatArray  # sums of the columns of A, (n_samples,)

    @classmethod
    def none(cls, X: FloatArray) -> _Sums:
        return cls(0.0, 0.0, 0, np.zeros((X.shape[1], X.shape[1])), np.zeros(len(X)))

    def add(self, other: _Sums) -> None:
        self.loss += other.loss
        self.smooth += other.smooth
        self.n_triplets += other.n_triplets
        self.product += other.product
        self.weight += other.weight


def _sums_of(
    problem: Problem, Z: FloatArray, reach: FloatArray, pairs: Pairs, width: float
) -> _Sums:
    """Sum over the triplets of a range of samples whose impostors are among the pairs.

    A violated triplet (i, j, l) adds its slope to A at (i, j) and subtracts it at (i, l). The rows
    of A therefore sum to zero, and D depends on the sums of its columns only.
    """
    X, span = problem.X, pairs.span
    targets, n_rows = problem.targets[span], span.stop - span.start
    distances = pair_distances(Z, pairs.rows, pairs.others)
    active = distances < reach.max(axis=1)[pairs.rows]
    rows, others, d = pairs.rows[active], pairs.others[active], distances[active]
    local = rows - span.start
    weights = problem.weights
    pair_weights = None if weights is None else weights[rows] * weights[others]
    sums = _Sums.none(X)
    push, product = np.zeros(len(d)), np.zeros((n_rows, X.shape[1]))
    for j, column in enumerate(targets.T):
        hinge = np.maximum(reach[rows, j] - d, 0.0)
        violated = hinge > 0
        sums.n_triplets += int(np.count_nonzero(violated))
        if problem.loss == "hinge":
            # A parabola over the smoothing width, then a line of slope one.
            slope = np.minimum(hinge / width, 1.0) if width > 0 else violated.astype(float)
            loss, smooth = hinge, hinge - (width / 2) * slope
            if pair_weights is None:
                sums.loss += float(loss.sum())
                sums.smooth += float(slope @ smooth)
            else:
                slope = slope * pair_weights
                sums.loss += float(pair_weights @ loss)
                sums.smooth += float(slope @ smooth)
        else:
            slope = 2 * hinge if pair_weights is None else 2 * pair_weights * hinge
            sums.loss += float(slope @ hinge) / 2
            sums.smooth = sums.loss
        push += slope
        pull = np.bincount(local, weights=slope, minlength=n_rows)
        sums.weight += np.bincount(column, weights=pull, minlength=len(X))
        product += pull[:, None] * X[column]
    sums.weight -= np.bincount(others, weights=push, minlength=len(X))
    edges = np.concatenate([[0], np.cumsum(np.bincount(local, minlength=n_rows))])
    product -= csr_array((push, others, edges), shape=(n_rows, len(X))) @ X
    sums.product += X[span].T @ product
    return sums


@dataclass(frozen=True)
class _ActiveSet:
    """Pairs within a radius at a reference; searched again after the samples have moved."""

    Z: FloatArray
    radius2: FloatArray
    parts: list[Pairs]  # not joined, because the copy would double the memory

    def is_valid(self, Z: FloatArray, reach2: FloatArray, max_movement: float) -> bool:
        """Return whether samples are near the reference and no margin exceeds the radius."""
        movement, size = (np.linalg.norm(a) for a in (Z - self.Z, self.Z))
        return bool(movement <= max_movement * size and (reach2 <= self.radius2).all())


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
        # A float32 distance and a bool for every pair, and space for the pairs found.
        chunks = class_chunks(problem.starts, 10 * len(problem.X))
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
        sums = self._search(Z, 1 + pull, self._radius2(1 + pull.max(axis=1)))
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
        if not self._active.is_valid(Z, 1 + pull.max(axis=1), self.max_movement):
            return None
        return self._evaluation(L, pull, self._over(self._active.parts, Z, 1 + pull), False)

    def _evaluation(
        self, L: FloatArray, distances: FloatArray, sums: _Sums, exact: bool
    ) -> Evaluation:
        X, scatter, share = self.problem.X, self.problem.scatter, self.problem.push
        G = (1 - share) * scatter
        G += share * ((X * sums.weight[:, None]).T @ X - sums.product - sums.product.T)
        # Rounding can make trace(L S Lᵀ) negative if L is large and S nearly singular.
        positive = np.maximum(distances, 0.0)
        weights = self.problem.weights
        total = positive.sum() if weights is None else weights @ positive.sum(axis=1)
        pull = (1 - share) * float(total)
        value, smooth = pull + share * sums.loss, pull + share * sums.smooth
        self.n_evaluations += 1
        return Evaluation(value, smooth, 2 * L @ G, sums.n_triplets, exact)

    def _radius2(self, reach2: FloatArray) -> FloatArray:
        if self._crowded:
            return reach2
        rest = reach2 - np.median(reach2[np.isfinite(reach2)])
        return np.asarray(reach2 + RADIUS_SLACK + OUTLIER_SLACK * np.maximum(rest, 0.0))

    def _threads(self, n_products: float) -> int | None:
        return self.n_jobs if n_products * self.problem.X.shape[1] > MIN_PARALLEL_WORK else 1

    def _over(self, parts: list[Pairs], Z: FloatArray, reach: FloatArray) -> _Sums:
        total = _Sums.none(self.problem.X)
        pieces = [piece for pairs in parts for piece in pairs.pieces()]
        jobs = self._threads(8 * sum(len(pairs.rows) for pairs in parts))

        def of_piece(piece: Pairs) -> _Sums:
            return _sums_of(self.problem, Z, reach, piece, self.width)

        for sums in map_chunks(of_piece, pieces, jobs):
            total.add(sums)
        return total

    def _search(self, Z: FloatArray, reach: FloatArray, radius2: FloatArray) -> _Sums:
        problem = self.problem
        search = ImpostorSearch(Z, problem.starts)
        self.n_searches += 1
        self._active = None
        quota = MAX_PAIRS // len(self._tasks)

        def of_task(chunks: list[slice]) -> tuple[_Sums, Pairs | None]:
            total, kept, n_pairs = _Sums.none(problem.X), [], 0
            for pairs in search.within(chunks, radius2):
                for piece in pairs.pieces():
                    total.add(_sums_of(problem, Z, reach, piece, self.width))
                n_pairs += len(pairs.rows)
                if n_pairs <= quota:
                    kept.append(pairs.packed())
            return total, join_pairs(kept) if n_pairs <= quota else None

        total, found = _Sums.none(problem.X), []
        for sums, pairs in map_chunks(of_task, self._tasks, self._threads(float(len(Z)) ** 2)):
            total.add(sums)
            found.append(pairs)
        kept = [pairs for pairs in found if pairs is not None]
        self._crowded = len(kept) < len(found)
        if not self._crowded:
            self._active = _ActiveSet(Z, radius2, kept)
        return total

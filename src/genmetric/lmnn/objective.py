"""The objective of LMNN (eq. eLMNN) and its gradient, from sparse weights of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from genmetric._chunks import map_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.lmnn.impostors import ImpostorSearch, Pairs, class_chunks, join_pairs, pair_distances
from genmetric.lmnn.targets import target_scatter

Loss = Literal["hinge", "squared_hinge"]

#: Squared radius of an active set beyond the reach of the margin, which is one; and for rows of
#: more than median reach the share of the rest, so that an outlier does not void the set.
SLACK, OUTLIER_SLACK = 0.5, 0.2
#: Relative move of the rows up to which an active set is used.
TRUST = 0.03
#: Pairs that an active set may hold, of eight bytes each; with more, every evaluation searches.
MAX_PAIRS = 2**24
#: Tasks that a search is cut into, whatever the number of threads.
N_TASKS = 64
#: Multiplications below which threads cost more than they save.
WORTH_THREADS = 2e8


@dataclass(frozen=True)
class Problem:
    """Rows sorted by class and their targets: all that the objective is made of.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows, those of one class together.
    starts : ndarray of shape (n_classes + 1,)
        First row of each class, and the number of rows.
    targets : ndarray of shape (n_samples, n_neighbors)
        Target neighbours; a row's own index stands for none.
    scatter : ndarray of shape (n_features, n_features)
        :func:`~genmetric.lmnn.target_scatter` of them.
    push : float
        Weight of the hinges, in [0, 1]; the pull has the rest.
    loss : "hinge" or "squared_hinge"
        What a violated margin costs.
    """

    X: FloatArray
    starts: IntArray
    targets: IntArray
    scatter: FloatArray
    push: float
    loss: Loss

    @classmethod
    def of(
        cls,
        X: FloatArray,
        codes: IntArray,
        targets: IntArray,
        *,
        push: float = 0.5,
        loss: Loss = "hinge",
    ) -> Problem:
        """Problem of rows in any order, with the class of each and the indices of its targets."""
        order = np.argsort(codes, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        rows, goals = np.ascontiguousarray(X[order]), place[targets[order]]
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        return cls(rows, starts, goals, target_scatter(rows, goals), push, loss)

    def target_distances(self, Z: FloatArray) -> FloatArray:
        """Squared distances to the targets; minus infinity where there is none.

        Parameters
        ----------
        Z : ndarray of shape (n_samples, n_components)
            Rows in the space of the metric.

        Returns
        -------
        ndarray of shape (n_samples, n_neighbors)
            One more is the squared distance within which a row of another class is an impostor.
        """
        own = np.arange(len(Z))
        d = np.empty(self.targets.shape)
        for j, column in enumerate(self.targets.T):
            d[:, j] = np.where(column == own, -np.inf, pair_distances(Z, own, column))
        return d


@dataclass(frozen=True)
class Evaluation:
    """The objective at one L.

    Attributes
    ----------
    value : float
        The objective.
    smooth : float
        The objective with its kinks rounded; the same where they are not.
    gradient : ndarray of shape (n_components, n_features)
        Derivative of `smooth` by L.
    n_triplets : int
        Violated triplets.
    exact : bool
        Whether all triplets were looked at; else those of an active set, and the value is a lower
        bound.
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
    n_jobs: int | None = None,
) -> tuple[float, FloatArray]:
    r"""The objective of LMNN and its gradient by L.

    With squared distances :math:`d_{ij} = \|L(x_i - x_j)\|^2`, targets j of row i and all rows l
    of other classes (eq. eLMNN, weighted as by Weinberger and Saul, 2009),

    .. math::
        \varepsilon(L) = (1 - \mu) \sum_{ij} d_{ij} + \mu \sum_{ijl} (1 + d_{ij} - d_{il})_+ .

    Where A has the number of violated triplets (i, j, ·) at (i, j) and minus that of (i, ·, l) at
    (i, l), the gradient of the second sum is :math:`2L X^T(D - A - A^T)X`, D diagonal with the
    sums of rows and columns of A. A is sparse.

    Parameters
    ----------
    L : ndarray of shape (n_components, n_features)
        Factor of the metric.
    X : ndarray of shape (n_samples, n_features)
        Rows, of mean about zero.
    codes : ndarray of shape (n_samples,)
        Class of each row: 0, 1, ...
    targets : ndarray of shape (n_samples, n_neighbors)
        Indices of target neighbours; a row's own index stands for none.
    push : float, default=0.5
        The weight :math:`\mu`, in [0, 1].
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Whether a violated triplet costs what it lacks, or the square of that.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Returns
    -------
    value : float
        The objective.
    gradient : ndarray of shape (n_components, n_features)
        Its derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.lmnn import lmnn_objective, target_neighbors
    >>> X, codes = np.array([[0.0], [1.0], [1.5]]), np.array([0, 0, 1])
    >>> targets = target_neighbors(X, codes, 1)
    >>> lmnn_objective(np.eye(1), X, codes, targets)  # half of 1 + 1 + 1.75
    (1.875, array([[2.75]]))
    """
    problem = Problem.of(X, codes, targets, push=push, loss=loss)
    found = Objective(problem, n_jobs=n_jobs).exact(L)
    return found.value, found.gradient


@dataclass
class _Sums:
    """What triplets add up to: their loss, and the weights A of pairs between rows."""

    loss: float
    smooth: float  # the loss with its kinks rounded
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
    """Sums over the triplets of a range of rows, whose impostors are among the pairs.

    A violated triplet (i, j, l) adds its slope to A at (i, j) and takes it off at (i, l), so the
    rows of A sum to zero and D needs the columns only.
    """
    X, span = problem.X, pairs.span
    targets, n_rows = problem.targets[span], span.stop - span.start
    distances = pair_distances(Z, pairs.rows, pairs.others)
    active = distances < reach.max(axis=1)[pairs.rows]
    rows, others, d = pairs.rows[active], pairs.others[active], distances[active]
    local = rows - span.start
    sums = _Sums.none(X)
    push, product = np.zeros(len(d)), np.zeros((n_rows, X.shape[1]))
    for j, column in enumerate(targets.T):
        hinge = np.maximum(reach[rows, j] - d, 0.0)
        violated = hinge > 0
        sums.n_triplets += int(np.count_nonzero(violated))
        if problem.loss == "hinge":
            # A parabola over the width of the kink, then a line of slope one.
            slope = np.minimum(hinge / width, 1.0) if width > 0 else violated.astype(float)
            sums.loss += float(hinge.sum())
            sums.smooth += float(slope @ (hinge - (width / 2) * slope))
        else:
            slope = 2 * hinge
            sums.loss += float(hinge @ hinge)
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
    """Pairs within a radius at a reference, to be searched again when rows have moved far."""

    Z: FloatArray
    radius2: FloatArray
    pairs: Pairs

    def serves(self, Z: FloatArray, reach2: FloatArray, trust: float) -> bool:
        """Whether the rows are near the reference, and no margin reaches beyond the radius."""
        move, size = (np.linalg.norm(a) for a in (Z - self.Z, self.Z))
        return bool(move <= trust * size and (reach2 <= self.radius2).all())


class Objective:
    """The objective of a problem as a function of L, with an active set of impostors.

    Parameters
    ----------
    problem : Problem
        Rows and targets.
    width : float, default=0.0
        Width over which the kink of a hinge is rounded; the margin is one.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Attributes
    ----------
    n_evaluations, n_searches : int
        Evaluations so far, and how many of them searched all pairs of rows.
    trust : float
        Relative move of the rows up to which an active set is used; may be changed.
    """

    def __init__(self, problem: Problem, *, width: float = 0.0, n_jobs: int | None = None) -> None:
        self.problem, self.width, self.n_jobs = problem, width, n_jobs
        self.n_evaluations = self.n_searches = 0
        self.trust = TRUST
        self._active: _ActiveSet | None = None
        self._crowded = False  # whether the last search found more pairs than may be kept
        # A float32 distance and a mark for every pair, and room for those that are found.
        chunks = class_chunks(problem.starts, 10 * len(problem.X))
        edges = np.linspace(0, len(chunks), min(N_TASKS, len(chunks)) + 1).astype(int)
        self._tasks = [chunks[a:b] for a, b in pairwise(edges)]

    def exact(self, L: FloatArray) -> Evaluation:
        """Value and gradient at L over all triplets; the pairs found are the new active set.

        Parameters
        ----------
        L : ndarray of shape (n_components, n_features)
            The factor of the metric.

        Returns
        -------
        Evaluation
            The objective.
        """
        Z = self.problem.X @ L.T
        pull = self.problem.target_distances(Z)
        sums = self._search(Z, 1 + pull, self._radius2(1 + pull.max(axis=1)))
        return self._evaluation(L, pull, sums, True)

    def active(self, L: FloatArray) -> Evaluation | None:
        """Value and gradient at L over the active set, or None where L is too far from it.

        Parameters
        ----------
        L : ndarray of shape (n_components, n_features)
            The factor of the metric.

        Returns
        -------
        Evaluation or None
            A lower bound of the objective, equal to it at the L of the search.
        """
        if self._active is None:
            return None
        Z = self.problem.X @ L.T
        pull = self.problem.target_distances(Z)
        if not self._active.serves(Z, 1 + pull.max(axis=1), self.trust):
            return None
        return self._evaluation(L, pull, self._over(self._active.pairs, Z, 1 + pull), False)

    def _evaluation(
        self, L: FloatArray, distances: FloatArray, sums: _Sums, exact: bool
    ) -> Evaluation:
        X, scatter, share = self.problem.X, self.problem.scatter, self.problem.push
        G = (1 - share) * scatter
        G += share * ((X * sums.weight[:, None]).T @ X - sums.product - sums.product.T)
        # Not trace(L S Lᵀ): rounding makes that negative where L is large and S nearly singular.
        pull = (1 - share) * float(np.maximum(distances, 0.0).sum())
        value, smooth = pull + share * sums.loss, pull + share * sums.smooth
        self.n_evaluations += 1
        return Evaluation(value, smooth, 2 * L @ G, sums.n_triplets, exact)

    def _radius2(self, reach2: FloatArray) -> FloatArray:
        if self._crowded:
            return reach2
        rest = reach2 - np.median(reach2[np.isfinite(reach2)])
        return np.asarray(reach2 + SLACK + OUTLIER_SLACK * np.maximum(rest, 0.0))

    def _threads(self, n_products: float) -> int | None:
        return self.n_jobs if n_products * self.problem.X.shape[1] > WORTH_THREADS else 1

    def _over(self, pairs: Pairs, Z: FloatArray, reach: FloatArray) -> _Sums:
        total = _Sums.none(self.problem.X)
        pieces, jobs = list(pairs.pieces()), self._threads(8 * len(pairs.rows))

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
            self._active = _ActiveSet(Z, radius2, join_pairs(kept))
        return total

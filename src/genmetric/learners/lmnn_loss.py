"""The objective of LMNN and its gradient: target neighbours, impostors, an active set of pairs.

Samples are sorted by class. A pair of samples of different classes is stored once, as the index of
the earlier and of the later sample, and serves as sample and impostor in both directions.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from genmetric._neighbors import nearest_neighbors
from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import rows_by_class

Loss = Literal["hinge", "squared_hinge"]

#: Largest number of pairs in the active set, of eight bytes each. Beyond it, every evaluation
#: searches, and beyond 32 times as many an iteration takes minutes.
MAX_PAIRS = 2**23
MAX_VISITED_PAIRS = 32 * MAX_PAIRS

#: Indices of the earlier and of the later sample of each pair.
Pairs: TypeAlias = tuple[IntArray, IntArray]


def target_neighbors(Z: FloatArray, codes: IntArray, n_neighbors: int) -> IntArray:
    """Find the nearest samples of the same class, excluding the sample itself.

    Parameters
    ----------
    Z : ndarray of shape (n_samples, n_components)
        Samples in the space of the initial metric.
    codes : ndarray of shape (n_samples,)
        Class of each sample: 0, 1, ...
    n_neighbors : int
        Number of targets per sample.

    Returns
    -------
    ndarray of shape (n_samples, n_neighbors)
        Indices of samples, nearest first. If the class has too few other samples, the remaining
        entries are the index of the sample itself.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners import target_neighbors
    >>> target_neighbors(np.array([[0.0], [1.0], [3.0], [9.0]]), np.array([0, 0, 0, 1]), 1)
    array([[1],
           [0],
           [1],
           [3]])
    """
    targets = np.repeat(np.arange(len(Z))[:, None], n_neighbors, axis=1)
    for rows in rows_by_class(codes, int(codes.max()) + 1):
        k = min(n_neighbors, len(rows) - 1)
        if len(rows) > 16:
            targets[rows, :k] = rows[nearest_neighbors(Z[rows], k).indices]
        elif k > 0:  # a search takes longer to start than all distances
            e = Z[rows, None] - Z[rows]
            d = np.einsum("ijd,ijd->ij", e, e)
            np.fill_diagonal(d, np.inf)
            targets[rows, :k] = rows[np.argsort(d, axis=1, kind="stable")[:, :k]]
    return targets


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
        Samples. They are centred, so a common offset costs no accuracy.
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
    order = np.argsort(codes, kind="stable")
    x, place = X[order] - X.mean(axis=0), np.argsort(order)
    weights = np.ones(len(X)) if sample_weight is None else sample_weight[order]
    own = codes[order], place[targets[order]]
    return Objective(x, *own, weights, push, loss, n_jobs, width=1e-200)(L)


class Objective:
    """The objective of samples sorted by class, as a function of L, with an active set of pairs.

    A call returns value and gradient with hinges smoothed over `width`; `value` is the plain
    objective of the last call. A call at L searches all pairs of samples, unless L is near the L of
    the last search: then it visits the pairs found there, and the value is a lower bound.
    """

    def __init__(
        self,
        X: FloatArray,
        codes: IntArray,
        targets: IntArray,
        weights: FloatArray,
        push: float,
        loss: Loss,
        n_jobs: int | None,
        width: float = 3e-3,
    ) -> None:
        self.X, self.targets, self.weights = X, targets, weights
        self.push, self.loss, self.width, self.n_jobs = push, loss, width, n_jobs
        self.class_ends = np.cumsum(np.bincount(codes))[codes]
        self.scatter = np.zeros((X.shape[1], X.shape[1]))  # of the differences to the targets
        for rows in row_chunks(len(X), 16 * X.shape[1]):
            for column in targets[rows].T:
                e = X[rows] - X[column]
                self.scatter += (e * weights[rows, None]).T @ e
        self.gram = X.T @ X
        self.value = np.nan
        #: Relative movement of the samples up to which the active set is used.
        self.max_movement = 0.03
        #: The active set, in parts.
        self.pairs: list[Pairs] | None = None
        self.searched_at, self.radius2 = np.empty((0, 0)), np.empty(0)
        self.is_crowded: bool | None = None  # unknown before the first search
        strips = row_chunks(len(X), 16 * len(X), max_rows=512)
        # Tasks for threads; their number does not depend on n_jobs.
        parts = row_chunks(len(strips), 1, max_rows=-(-len(strips) // 128))
        self.tasks = [strips[part] for part in parts]

    def __call__(self, L: FloatArray, *, exact: bool = False) -> tuple[float, FloatArray]:
        """Return the value with smoothed hinges and its gradient; if `exact`, of all pairs."""
        Z = self.X @ L.T
        pull = self.target_distances(Z)
        loss, smooth, pulled, pushed, half = self._totals(L, Z, 1 + pull, exact=exact)
        # XᵀAX; the rows of A sum to zero, so D has the sums of its columns.
        degree = np.bincount(self.targets.ravel(), pulled.ravel(), len(self.X)) - pushed
        for rows in row_chunks(len(self.X), 24 * self.X.shape[1]):
            R = (degree[rows, None] / 2) * self.X[rows]
            for j, column in enumerate(self.targets[rows].T):
                R -= pulled[rows, j, None] * self.X[column]
            half += self.X[rows].T @ R
        G = (1 - self.push) * self.scatter + self.push * (half + half.T)
        # Not trace(L S Lᵀ), which rounding can make negative if S is nearly singular.
        near = (1 - self.push) * float(self.weights @ np.maximum(pull, 0.0).sum(axis=1))
        self.value = near + self.push * loss
        return near + self.push * smooth, 2 * L @ G

    def target_distances(self, Z: FloatArray) -> FloatArray:
        """Compute squared distances to the targets; minus infinity marks a missing target."""
        own = np.arange(len(Z))
        columns = [np.where(j == own, -np.inf, pair_distances(Z, own, j)) for j in self.targets.T]
        return np.column_stack(columns)

    def _totals(
        self, L: FloatArray, Z: FloatArray, reach: FloatArray, *, exact: bool
    ) -> tuple[Any, ...]:
        """Sum over the active set if L is near the last search, else over all pairs in reach."""
        farthest = reach.max(axis=1)
        visit = self.pairs is not None and not exact
        if visit:
            # The sum of |Lx|² over the samples is the trace of L XᵀX Lᵀ.
            matrices = L - self.searched_at, self.searched_at
            moved, size = (float(np.vdot(A @ self.gram, A)) for A in matrices)
            visit = moved <= self.max_movement**2 * size and bool((farthest <= self.radius2).all())
        if not visit:
            self.searched_at, self.radius2 = L.copy(), farthest
            if not self.is_crowded:
                # A slack around the reach; a larger one for outliers, whose reach changes most.
                rest = farthest - np.median(farthest[np.isfinite(farthest)])
                self.radius2 = farthest + 0.5 + 0.2 * np.maximum(rest, 0.0)
            points, bounds = search_points(Z, self.radius2)

        def of_task(task: Any) -> tuple[tuple[Any, ...], Pairs]:
            pairs = task if visit else impostors(points, bounds, self.class_ends, task)
            return self._sums(Z, reach, farthest, *pairs), pairs

        tasks: Any = self.pairs if visit else self.tasks
        n_products = 8.0 * sum(len(task[0]) for task in tasks) if visit else float(len(Z)) ** 2
        # Starting threads takes longer than few products.
        n_jobs = self.n_jobs if n_products * self.X.shape[1] > 2e8 else 1
        totals, kept, n_pairs = tuple[Any, ...](), list[Pairs](), 0
        for sums, pairs in map_chunks(of_task, tasks, n_jobs):
            totals = tuple(a + b for a, b in zip(totals, sums, strict=True)) if totals else sums
            n_pairs += len(pairs[0])
            kept = [*kept, pairs] if n_pairs <= MAX_PAIRS else []
            if self.is_crowded is None and n_pairs > MAX_VISITED_PAIRS:
                raise ValueError(
                    f"Classes overlap: LMNN would visit more than {MAX_VISITED_PAIRS:.2g} pairs of "
                    "a sample and an impostor in each iteration. Fit on fewer samples or "
                    "neighbors, or use GenerativeMetric, which needs no impostors."
                )
        if not visit:
            self.is_crowded = n_pairs > MAX_PAIRS
            self.pairs = None if self.is_crowded else kept
        return totals

    def _sums(
        self,
        Z: FloatArray,
        reach: FloatArray,
        farthest: FloatArray,
        rows: IntArray,
        others: IntArray,
    ) -> tuple[Any, ...]:
        """Sum over the triplets whose sample and impostor are one of the pairs, in either order.

        Returns the loss, the smoothed loss, the slopes of the loss summed over impostors and over
        samples, and XᵀBX with the slopes B of the pairs.
        """
        n_samples = len(Z)
        d = pair_distances(Z, rows, others)
        active = d < np.maximum(farthest[rows], farthest[others])
        rows, others, d = rows[active], others[active], d[active]
        w = self.weights[rows] * self.weights[others]
        loss = smooth = 0.0
        pulled, pushed = np.zeros(reach.shape), np.zeros(n_samples)
        total = np.zeros(len(d))
        for samples, partners in ((rows, others), (others, rows)):
            slopes = np.zeros(len(d))
            for j in range(reach.shape[1]):
                hinge = np.maximum(reach[samples, j] - d, 0.0)
                if self.loss == "squared_hinge":
                    slope, rounded = 2 * w * hinge, hinge / 2
                    loss += float(slope @ rounded)
                else:
                    # A parabola over the smoothing width, then a line of slope one.
                    slope = np.minimum(hinge / self.width, 1.0)
                    rounded = hinge - (self.width / 2) * slope
                    slope *= w
                    loss += float(w @ hinge)
                smooth += float(slope @ rounded)
                slopes += slope
                pulled[:, j] += np.bincount(samples, slope, n_samples)
            pushed += np.bincount(partners, slopes, n_samples)
            total += slopes
        first, last = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        edges = np.searchsorted(rows, np.arange(first, last + 1))
        B = csr_array((total, others, edges), shape=(last - first, n_samples))
        return loss, smooth, pulled, pushed, self.X[first:last].T @ (B @ self.X)


def pair_distances(Z: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
    """Compute squared distances between ``Z[a]`` and ``Z[b]`` from their differences."""
    out = np.empty(len(a))
    size = 2**18 // Z.shape[1] + 1  # 4 MB of differences fit into the processor's cache
    for part in (slice(low, low + size) for low in range(0, len(a), size)):
        e = np.take(Z, a[part], axis=0)
        e -= np.take(Z, b[part], axis=0)
        np.einsum("ij,ij->i", e, e, out=out[part])
    return out


def search_points(Z: FloatArray, radius2: FloatArray) -> tuple[AnyArray, AnyArray]:
    """Return points whose products are minus half the squared distances, and bounds of these.

    The product of (z, 1, -|z|²/2) and (z', -|z'|²/2, 1) is computed in float32 if that is accurate
    enough. Distances are rounded down: no pair is missed, and a few extra ones are found.
    """
    norm2 = np.einsum("ij,ij->i", Z, Z)
    error = {kind: (2 * Z.shape[1] + 8) * np.finfo(kind).eps for kind in (np.float32, np.float64)}
    dtype = np.float32 if error[np.float32] * 2 * norm2.max() < 0.05 else np.float64
    points = np.empty((len(Z), Z.shape[1] + 2), dtype)
    points[:, :-2], points[:, -1] = Z, 1
    points[:, -2] = norm2 * (error[dtype] - 1) / 2
    return points, np.nextafter((-radius2 / 2).astype(dtype), np.asarray(-np.inf, dtype))


def impostors(points: AnyArray, bounds: AnyArray, ends: IntArray, strips: list[slice]) -> Pairs:
    """Find pairs of a sample in the strips and a later one of another class, within either radius.

    `ends` are the ends of the classes of all samples. The pairs are sorted by the first index.
    """
    found = []
    for strip in strips:
        first = int(ends[strip.start])  # the end of the earliest class
        left = points[strip].copy()
        left[:, -2:] = left[:, :-3:-1]
        product = left @ points[first:].T
        hit = product > bounds[strip, None]
        hit |= product > bounds[first:]
        hit &= np.arange(first, len(points)) >= ends[strip, None]
        rows, others = np.divmod(np.flatnonzero(hit), max(hit.shape[1], 1))
        found.append(((rows + strip.start).astype(np.int32), (others + first).astype(np.int32)))
    rows, others = (np.concatenate(part) for part in zip(*found, strict=True))
    return rows, others

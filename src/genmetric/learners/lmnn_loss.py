"""The objective of LMNN and its gradient: target neighbours, impostors, an active set of pairs.

Samples are sorted by class. A pair of samples of different classes is stored once, as the index of
the earlier and of the later sample, and serves as sample and impostor in both directions.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from genmetric._neighbors import nearest_neighbors
from genmetric._parallel import CHUNK_BYTES, map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import rows_by_class

Loss = Literal["hinge", "squared_hinge"]

#: Largest number of pairs in the active set, of eight bytes each. Beyond it, every evaluation
#: searches, and beyond 32 times as many an iteration takes minutes.
MAX_PAIRS = 2**23
MAX_VISITED_PAIRS = 32 * MAX_PAIRS
#: Columns whose products with a strip of samples stay in the processor's cache.
TILE_COLUMNS = 1024


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
    options: Any = {"push": push, "loss": loss, "width": 1e-200, "n_jobs": n_jobs}
    return Objective(x, codes[order], place[targets[order]], weights, **options)(L)


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
        *,
        push: float,
        loss: Loss,
        width: float = 3e-3,
        n_jobs: int | None = None,
    ) -> None:
        self.X, self.targets, self.weights = X, targets, weights
        self.push, self.loss, self.width, self.n_jobs = push, loss, width, n_jobs
        self.is_weighted = bool((weights != 1).any())
        self.class_ends = np.cumsum(np.bincount(codes))[codes]
        self.scatter = np.zeros((X.shape[1], X.shape[1]))  # of the differences to the targets
        for rows in row_chunks(len(X), 16 * X.shape[1]):
            for column in targets[rows].T:
                e = X[rows] - X[column]
                self.scatter += (e * weights[rows, None]).T @ e
        self.gram = X.T @ X
        self.value, self.n_searches = np.nan, 0
        #: Relative movement of the samples up to which the active set is used.
        self.max_movement = 0.03
        #: The active set: indices of the earlier and of the later samples, in parts.
        self.pairs: list[tuple[IntArray, IntArray]] | None = None
        self.searched_at, self.radius2, self.is_crowded = np.empty((0, 0)), np.empty(0), False
        strips = row_chunks(len(X), 16 * len(X), max_rows=512)
        # Tasks for threads; their number does not depend on n_jobs.
        parts = row_chunks(len(strips), 1, max_rows=-(-len(strips) // 128))
        self.tasks = [strips[part] for part in parts]

    def __call__(self, L: FloatArray) -> tuple[float, FloatArray]:
        """Return the value with smoothed hinges, and its gradient."""
        self.Z = self.X @ L.T
        self.norm2 = np.einsum("ij,ij->i", self.Z, self.Z)
        pull = self.target_distances(self.Z)
        self.reach = 1 + pull
        self.farthest = self.reach.max(axis=1)
        sums = self._visit() if self._is_near(L) else self._search(L)
        loss, smooth, pulled, pushed, half = sums
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
        self.value = near + self.push * float(loss)
        return near + self.push * float(smooth), 2 * L @ G

    def exact(self, L: FloatArray) -> float:
        """Search all pairs at L and return the value with smoothed hinges."""
        self.pairs = None
        return self(L)[0]

    def target_distances(self, Z: FloatArray) -> FloatArray:
        """Compute squared distances to the targets; minus infinity marks a missing target."""
        own = np.arange(len(Z))
        columns = [np.where(j == own, -np.inf, pair_distances(Z, own, j)) for j in self.targets.T]
        return np.column_stack(columns)

    def _is_near(self, L: FloatArray) -> bool:
        """Return whether samples are near those of the last search, and no margin exceeds it."""
        if self.pairs is None:
            return False
        # The sum of |Lx|² over the samples is the trace of L XᵀX Lᵀ.
        matrices = L - self.searched_at, self.searched_at
        moved, size = (float(np.vdot(A @ self.gram, A)) for A in matrices)
        return moved <= self.max_movement**2 * size and bool((self.farthest <= self.radius2).all())

    def _threads(self, n_products: float) -> int | None:
        """Return `n_jobs`, or 1 if starting threads takes longer than the products."""
        return self.n_jobs if n_products * self.X.shape[1] > 2e8 else 1

    def _visit(self) -> list[Any]:
        """Sum over the pairs of the active set."""
        pairs = self.pairs or []
        n_jobs = self._threads(8.0 * sum(len(rows) for rows, _ in pairs))
        return reduce(_add, map_chunks(lambda part: self._sums(*part), pairs, n_jobs))

    def _search(self, L: FloatArray) -> list[Any]:
        """Sum over all pairs of samples within a radius, which become the active set."""
        self.searched_at, self.radius2 = L.copy(), self.farthest
        if not self.is_crowded:
            # A slack around the reach; a larger one for outliers, whose reach changes most.
            rest = self.farthest - np.median(self.farthest[np.isfinite(self.farthest)])
            self.radius2 = self.farthest + 0.5 + 0.2 * np.maximum(rest, 0.0)
        points, bounds = search_points(self.Z, self.norm2, self.radius2)

        def of_task(strips: list[slice]) -> tuple[list[Any], tuple[IntArray, IntArray]]:
            found = [impostors(points, bounds, self.class_ends[rows], rows) for rows in strips]
            rows, others = (np.concatenate(part) for part in zip(*found, strict=True))
            return self._sums(rows, others), (rows, others)

        totals, kept, n_pairs = list[Any](), list[tuple[IntArray, IntArray]](), 0
        for sums, pairs in map_chunks(of_task, self.tasks, self._threads(float(len(self.X)) ** 2)):
            totals = _add(totals, sums) if totals else sums
            n_pairs += len(pairs[0])
            kept = [*kept, pairs] if n_pairs <= MAX_PAIRS else []
            if self.n_searches == 0 and n_pairs > MAX_VISITED_PAIRS:
                raise ValueError(
                    f"LMNN visits every impostor in every iteration. {len(self.X)} samples have "
                    f"more than {MAX_VISITED_PAIRS:.2g} pairs of a sample and an impostor, because "
                    "the classes overlap. Fit on some of the classes or samples, use fewer "
                    "neighbors, or use GenerativeMetric, which needs no impostors."
                )
        self.n_searches += 1
        self.is_crowded = n_pairs > MAX_PAIRS
        self.pairs = None if self.is_crowded else kept
        return totals

    def _sums(self, rows: IntArray, others: IntArray) -> list[Any]:
        """Sum over the triplets whose sample and impostor are one of the pairs, in either order.

        Returns the loss, the smoothed loss, the slopes of the loss summed over impostors and over
        samples, and XᵀBX with the slopes B of the pairs.
        """
        n_samples, reach = len(self.X), self.reach
        d = distances_of_pairs(self.Z, self.norm2, rows, others)
        active = d < np.maximum(self.farthest[rows], self.farthest[others])
        rows, others, d = rows[active], others[active], d[active]
        w = self.weights[rows] * self.weights[others] if self.is_weighted else 1.0
        loss = smooth = 0.0
        pulled, pushed = np.zeros(reach.shape), np.zeros(n_samples)
        total = np.zeros(len(d))
        for samples, partners in ((rows, others), (others, rows)):
            slopes = np.zeros(len(d))
            for j in range(reach.shape[1]):
                hinge = np.maximum(reach[samples, j] - d, 0.0)
                slope, plain, rounded = hinge_loss(hinge, self.loss, self.width, w)
                loss += plain
                smooth += rounded
                slopes += slope
                pulled[:, j] += np.bincount(samples, slope, n_samples)
            pushed += np.bincount(partners, slopes, n_samples)
            total += slopes
        product = product_of_pairs(self.X, rows, others, total)
        return [loss, smooth, pulled, pushed, product]


def _add(totals: list[Any], sums: list[Any]) -> list[Any]:
    """Add two lists of arrays."""
    return [a + b for a, b in zip(totals, sums, strict=True)]


def hinge_loss(
    hinge: FloatArray, loss: Loss, width: float, weights: FloatArray | float
) -> tuple[FloatArray, float, float]:
    """Return the weighted slope of each hinge, the loss, and the loss with smoothed hinges."""
    if loss == "squared_hinge":
        slope = 2 * weights * hinge
        return slope, float(slope @ hinge) / 2, float(slope @ hinge) / 2
    # A parabola over the smoothing width, then a line of slope one.
    slope = np.minimum(hinge / width, 1.0)
    rounded = hinge - (width / 2) * slope
    slope = weights * slope
    plain = hinge.sum() if isinstance(weights, float) else weights @ hinge
    return slope, float(plain), float(slope @ rounded)


def pair_distances(Z: FloatArray, a: IntArray, b: IntArray) -> FloatArray:
    """Compute squared distances between ``Z[a]`` and ``Z[b]`` from their differences."""
    out = np.empty(len(a))
    # An eighth of the usual budget fits into the processor's cache.
    for part in row_chunks(len(a), 16 * Z.shape[1], budget=CHUNK_BYTES // 8):
        e = np.take(Z, a[part], axis=0)
        e -= np.take(Z, b[part], axis=0)
        np.einsum("ij,ij->i", e, e, out=out[part])
    return out


def rounding_error(Z: FloatArray, dtype: type) -> float:
    """Bound the error of squared distances computed from products, relative to squared norms."""
    return float((2 * Z.shape[1] + 8) * np.finfo(dtype).eps)


def block_of_pairs(rows: IntArray, others: IntArray) -> tuple[slice, slice] | None:
    """Return the block that contains the pairs, if a matrix product over it is faster than them."""
    if not len(rows):
        return None
    block = slice(rows[0], rows[-1] + 1), slice(others.min(), others.max() + 1)
    size = int(block[0].stop - block[0].start) * int(block[1].stop - block[1].start)
    return block if size < 40 * len(rows) and 8 * size <= 2 * CHUNK_BYTES else None


def distances_of_pairs(
    Z: FloatArray, norm2: FloatArray, rows: IntArray, others: IntArray
) -> FloatArray:
    """Compute the squared distances of the pairs, from a matrix product where that is accurate."""
    accurate = 2 * rounding_error(Z, np.float64) * norm2.max() < 1e-8
    block = block_of_pairs(rows, others) if accurate else None
    if block is None:
        return pair_distances(Z, rows, others)
    products = Z[block[0]] @ Z[block[1]].T
    d = norm2[rows] + norm2[others]
    d -= 2 * products[rows - block[0].start, others - block[1].start]
    return np.maximum(d, 0.0, out=d)


def product_of_pairs(
    X: FloatArray, rows: IntArray, others: IntArray, weights: FloatArray
) -> FloatArray:
    """Compute XᵀBX, where the sparse matrix B has a weight for each of the pairs."""
    block = block_of_pairs(rows, others)
    if block is None:
        first, last = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
        edges = np.searchsorted(rows, np.arange(first, last + 1))
        B = csr_array((weights, others, edges), shape=(last - first, len(X)))
        return np.asarray(X[first:last].T @ (B @ X))
    dense = np.zeros([part.stop - part.start for part in block])
    dense[rows - block[0].start, others - block[1].start] = weights
    return np.asarray(X[block[0]].T @ (dense @ X[block[1]]))


def search_points(
    Z: FloatArray, norm2: FloatArray, radius2: FloatArray
) -> tuple[AnyArray, AnyArray]:
    """Return points whose products are minus half the squared distances, and bounds of these.

    The product of (z, 1, -|z|²/2) and (z', -|z'|²/2, 1) is computed in float32 if that is accurate
    enough. Distances are rounded down: no pair is missed, and a few extra ones are found.
    """
    largest = 2 * float(norm2.max())
    dtype = np.float32 if rounding_error(Z, np.float32) * largest < 0.05 else np.float64
    points = np.empty((len(Z), Z.shape[1] + 2), dtype)
    points[:, :-2], points[:, -1] = Z, 1
    points[:, -2] = norm2 * (rounding_error(Z, dtype) - 1) / 2
    return points, np.nextafter((-radius2 / 2).astype(dtype), np.asarray(-np.inf, dtype))


def impostors(
    points: AnyArray, bounds: AnyArray, ends: IntArray, strip: slice
) -> tuple[IntArray, IntArray]:
    """Find pairs of a strip of samples and later samples of other classes, within either's radius.

    `ends` are the ends of the classes of the strip. The pairs are sorted by the first index.
    """
    left = points[strip].copy()
    left[:, -2:] = left[:, :-3:-1]
    rows: list[Any] = [np.empty(0, np.uint16)]
    others: list[Any] = [np.empty(0, np.int32)]
    for low in range(int(ends.min()), len(points), TILE_COLUMNS):
        tile = slice(low, min(low + TILE_COLUMNS, len(points)))
        product = left @ points[tile].T
        if low < ends.max():  # without earlier samples and the own class
            product[np.arange(tile.start, tile.stop) < ends[:, None]] = -np.inf
        hit = product > bounds[strip, None]
        hit |= product > bounds[tile]
        row, other = np.divmod(np.flatnonzero(hit), tile.stop - tile.start)
        rows.append(row.astype(np.uint16))
        others.append((other + low).astype(np.int32))
    row = np.concatenate(rows)
    order = np.argsort(row, kind="stable")
    return (row[order] + np.int32(strip.start)).astype(np.int32), np.concatenate(others)[order]

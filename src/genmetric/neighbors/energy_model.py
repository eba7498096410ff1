r"""The energies of a sample in every class (Weinberger and Saul 2009); all distances are squared.

For k target neighbours j, margins m and :math:`m_2` and a weight :math:`\mu` of the push,

.. math:: E(x, c) = (1-\mu) \sum_{j \to x} d(x,j)
          + \mu \Big[\sum_{j \to x} \sum_{l \notin c} \big(m_2 + d(x,j) - d(x,l)\big)_+
          + \sum_{i \notin c} \sum_{j \to i} \big(m + d(i,j) - d(i,x)\big)_+\Big] ,

with :math:`j \to x` the k samples of class c nearest to x and :math:`j \to i` the k samples of i's
own class nearest to i. Both push terms are sums of hinges over the same block of squared distances
between queries and training samples. The third involves few entries of it; the second, for all
classes at once, is read from the sorted distances. A class with fewer than k samples uses all of
them, each counted k times over their number, so sums are comparable between classes.

A prediction needs the energy of one class and lower bounds of the others. The class of the nearest
sample is the candidate. Let L be the margin :math:`m_2` plus the distance of its k-th sample. Its
energy depends only on the distances below L and on those below the threshold of their training
sample: a few hundred. If n of the samples outside a class c are at most L away, the sum of their
distances is S and the nearest sample of class c is at :math:`d_1(c)`, then

.. math:: E(x, c) \ge (1-\mu)\, k\, d_1(c)
          + \mu \Big[k \big(n (m_2 + d_1(c)) - S\big)_+ + \text{third term}\Big],

since hinges are never negative and no neighbour in c is nearer. This holds for every :math:`m_2`,
and without the second term for the form that omits it. All energies are computed for the few
queries that these bounds do not decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import AnyArray, BoolArray, FloatArray, IntArray
from genmetric.density import Coordinates
from genmetric.neighbors.metric_space import refuse_distant

#: The margin of the second term as a multiple of the margin m; None leaves the second term out.
SECOND_MARGIN: dict[str, float | None] = {"one-sided": 0.0, "three-term": 1.0, "two-term": None}


@dataclass(frozen=True)
class EnergyModel:
    """Training samples and parameters that determine the energies of new samples.

    Use :meth:`of` to build one, and :func:`dataclasses.replace` for other parameters with the same
    samples: any `n_neighbors` up to the number of targets, any `margin`, `push` and `energy`. A
    model that was built for "difference" has no targets, and no other form.

    Attributes
    ----------
    coordinates : Coordinates
        Centre and scale of the samples. The other attributes, but the margin, are in these units.
    columns : ndarray of shape (n_features + 2, n_samples)
        Samples as columns, sorted by class, with a one and the squared norm below them.
    codes : ndarray of shape (n_samples,)
        Class of each column, ascending.
    counts : ndarray of shape (n_classes,)
        Number of samples of each class.
    n_neighbors : int
        Number k of neighbours in each sum.
    energy : {"difference", "one-sided", "three-term", "two-term"}
        Form of the energy.
    targets : ndarray of shape (n_samples, k) or None
        Squared distances to the nearest other samples of the same class, infinite for missing ones;
        None for the difference of distances.
    margin_unit : float
        The unit of the margin (appendix C of the paper): the absolute median over the samples of
        the squared distance to the nearest sample of another class minus that to the nearest of
        the same class. In units of the input, like `margin`.
    margin : float
        The margin m.
    push : float
        Weight of the two push terms, in [0, 1].
    """

    coordinates: Coordinates
    columns: FloatArray
    codes: IntArray
    counts: IntArray
    n_neighbors: int
    energy: str
    targets: FloatArray | None = None
    margin_unit: float = 0.0
    margin: float = 0.0
    push: float = 0.5

    @classmethod
    def of(
        cls, Z: AnyArray, codes: IntArray, n_neighbors: int, energy: str, n_jobs: int | None = None
    ) -> EnergyModel:
        """Sort samples by class; find their targets and the margin if the energy needs them."""
        coordinates, order = Coordinates.of(Z), np.argsort(codes, kind="stable")
        z, codes, counts = coordinates.apply(Z[order]), codes[order], np.bincount(codes)
        columns = np.vstack([z.T, np.ones(len(z)), np.einsum("ij,ij->i", z, z)])
        if energy == "difference":
            return cls(coordinates, columns, codes, counts, n_neighbors, energy)
        targets, nearest_other = target_distances(columns, counts, n_neighbors, n_jobs)
        known = np.isfinite(targets[:, 0])  # samples that are not the only one of their class
        gap = np.median(nearest_other[known] - targets[known, 0]) if known.any() else 0.0
        unit = float(abs(gap)) * coordinates.scale**2
        return cls(coordinates, columns, codes, counts, n_neighbors, energy, targets, unit)

    @property
    def classes(self) -> list[slice]:
        """Columns of each class."""
        return class_slices(self.counts)

    @property
    def inner_margin(self) -> float:
        """The margin in the units of the columns, limited so sums of hinges stay finite."""
        return min(self.margin / self.coordinates.scale**2, 1e150)

    @property
    def second_margin(self) -> float | None:
        """The margin of the second term; None leaves the term out."""
        factor = SECOND_MARGIN[self.energy]
        return None if factor is None else factor * self.inner_margin

    @property
    def thresholds(self) -> FloatArray:
        """Margin plus distance to each target, (k, n_samples); minus infinity for missing ones."""
        assert self.targets is not None
        return add_margin(self.targets[:, : self.n_neighbors].T, self.inner_margin)

    @property
    def neighbor_weights(self) -> FloatArray:
        """Weight of a neighbour in each class, which has fewer than k samples if it exceeds one."""
        return np.asarray(self.n_neighbors / np.minimum(self.counts, self.n_neighbors))

    @property
    def target_weights(self) -> FloatArray:
        """Weight of a target of a sample of each class."""
        return np.asarray(self.n_neighbors / np.clip(self.counts - 1, 1, self.n_neighbors))

    def queries(self, Z: AnyArray) -> FloatArray:
        """Return queries in the coordinates of the columns; raise if they are too far away."""
        z = self.coordinates.apply(Z)
        refuse_distant(z, 1e15)
        return z


def class_slices(counts: IntArray) -> list[slice]:
    """Return the range of each class among samples sorted by class."""
    return [slice(a, b) for a, b in pairwise([0, *np.cumsum(counts).tolist()])]


def add_margin(squared: FloatArray, margin: float) -> FloatArray:
    """Return the thresholds m + d; minus infinity for missing neighbours, whose d is infinite."""
    return np.where(np.isfinite(squared), squared + margin, -np.inf)


def squared_distances(queries: FloatArray, columns: FloatArray) -> FloatArray:
    """Compute |x|² - 2 x·x' + |x'|² as one product: adding the norms takes as long again."""
    left = np.ones((len(queries), queries.shape[1] + 2))
    np.multiply(queries, -2.0, out=left[:, :-2])
    np.einsum("ij,ij->i", queries, queries, out=left[:, -2])
    d = left @ columns
    return np.asarray(np.maximum(d, 0.0, out=d))


def least_sorted(distances: FloatArray, k: int) -> FloatArray:
    """Return the k smallest entries of each row, ascending; infinite where a row has fewer."""
    out = np.full((len(distances), k), np.inf)
    if k < distances.shape[1]:
        distances = np.partition(distances, k - 1, axis=1)[:, :k]
    out[:, : distances.shape[1]] = np.sort(distances, axis=1)
    return out


def target_distances(
    columns: FloatArray, counts: IntArray, k: int, n_jobs: int | None
) -> tuple[FloatArray, FloatArray]:
    """Find the squared distances of sorted samples to their targets, and to the nearest others.

    Targets are the k nearest samples of the same class, others are of another class.
    """
    n_samples = columns.shape[1]
    targets, nearest_other = np.empty((n_samples, k)), np.empty(n_samples)

    def of_chunk(chunk: slice) -> None:
        distances = squared_distances(columns[:-2, chunk].T, columns)
        for own in class_slices(counts):
            start, stop = max(own.start, chunk.start), min(own.stop, chunk.stop)
            if start < stop:
                d = distances[start - chunk.start : stop - chunk.start]
                before, after = d[:, : own.start], d[:, own.stop :]
                least = [part.min(axis=1, initial=np.inf) for part in (before, after)]
                nearest_other[start:stop] = np.minimum(*least)
                np.fill_diagonal(d[:, start:], np.inf)
                targets[start:stop] = least_sorted(d[:, own], k)

    for _ in map_chunks(of_chunk, row_chunks(n_samples, 16 * n_samples, max_rows=256), n_jobs):
        pass
    return targets, nearest_other


def energies(model: EnergyModel, Z: AnyArray, *, n_jobs: int | None = None) -> FloatArray:
    """Compute the energies of samples in every class, (n_samples, n_classes)."""
    queries = model.queries(Z)
    differences = model.energy == "difference"
    thresholds = np.empty(0) if differences else model.thresholds

    def of_chunk(chunk: slice) -> FloatArray:
        d = squared_distances(queries[chunk], model.columns)
        nearest = np.stack([least_sorted(d[:, c], model.n_neighbors) for c in model.classes], 1)
        if differences:
            return _difference_energies(model, nearest)
        return _margin_energies(model, thresholds, d, nearest)

    bytes_per_row = 13 * len(model.codes) + 24 * int(model.counts.max())
    bytes_per_row += 64 * len(model.counts) * model.n_neighbors
    chunks = row_chunks(len(queries), bytes_per_row, max_rows=256)
    found = np.concatenate(list(map_chunks(of_chunk, chunks, n_jobs)))
    return np.asarray(found * model.coordinates.scale**2)


def _margin_energies(
    model: EnergyModel, thresholds: FloatArray, distances: FloatArray, nearest: FloatArray
) -> FloatArray:
    """Compute the energies of a chunk of queries; `distances` are sorted in place."""
    pull = finite_sum(nearest) * model.neighbor_weights
    by_class = [_hinges(distances[:, c], thresholds[:, None, c]) for c in model.classes]
    third = outside(np.stack(by_class, 1) * model.target_weights)
    energy = (1 - model.push) * pull + model.push * third
    if model.second_margin is not None:
        thresholds = add_margin(nearest, model.second_margin)
        energy += model.push * _second_term(model, distances, thresholds)
    return energy


def _second_term(model: EnergyModel, distances: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Sum the hinges of the samples outside each class, for thresholds (n_queries, n_classes, k).

    With n(t) distances below t and S(t) their sum, the sum of (t - d)₊ over all samples is
    t·n(t) - S(t), read from the sorted distances; that over the samples of the class is subtracted.
    """
    own = [
        _hinges(distances[:, c], thresholds[:, i].T[:, :, None])
        for i, c in enumerate(model.classes)
    ]
    distances.sort(axis=1)
    n_below, sum_below = np.empty(thresholds.shape, np.intp), np.empty(thresholds.shape)
    prefix = np.zeros(len(model.codes) + 1)
    for row, t, n, total in zip(distances, thresholds, n_below, sum_below, strict=True):
        n[...] = row.searchsorted(t)
        last = n.max()
        row[:last].cumsum(out=prefix[1 : last + 1])
        total[...] = prefix[n]
    hinges = np.where(n_below > 0, thresholds, 0.0) * n_below - sum_below
    second = np.maximum(hinges.sum(axis=2) - np.stack(own, 1), 0.0)
    return np.asarray(second * model.neighbor_weights)


def _hinges(distances: FloatArray, thresholds: FloatArray) -> FloatArray:
    """Sum (t - d)₊ over the columns of a block and over k thresholds, (k, n_queries, n_columns)."""
    inside = distances < thresholds.max(axis=0)
    if np.count_nonzero(inside) > 0.05 * inside.size:
        return np.asarray(sum(np.maximum(t - distances, 0.0).sum(axis=1) for t in thresholds))
    query, column = np.divmod(np.flatnonzero(inside), distances.shape[1])
    t = np.broadcast_to(thresholds, (len(thresholds), *distances.shape))[:, query, column]
    hinge = np.maximum(t - distances[query, column], 0.0).sum(axis=0)
    return np.asarray(np.bincount(query, hinge, minlength=len(distances)), float)


def finite_sum(nearest: FloatArray) -> FloatArray:
    """Sum distances over the last axis, without the infinite ones of missing neighbours."""
    return np.asarray(np.where(np.isfinite(nearest), nearest, 0.0).sum(axis=-1))


def outside(by_class: FloatArray) -> FloatArray:
    """Turn sums over the samples of each class into sums over the samples of all others."""
    return np.asarray(np.maximum(by_class.sum(axis=1, keepdims=True) - by_class, 0.0))


def _difference_energies(model: EnergyModel, nearest: FloatArray) -> FloatArray:
    """Subtract the sum to the k nearest samples outside of each class from that to those inside."""
    k = model.n_neighbors
    inside = finite_sum(nearest) * model.neighbor_weights
    # At most k of the 2k nearest samples of all classes are of class c.
    flat = nearest.reshape(len(nearest), -1)
    first = np.argsort(flat, axis=1, kind="stable")[:, : 2 * k]
    d, code = np.take_along_axis(flat, first, axis=1), first // k
    other_sum = np.empty_like(inside)
    for c in range(len(model.counts)):
        other = (code != c) & np.isfinite(d)
        other &= np.cumsum(other, axis=1) <= k
        other_sum[:, c] = np.where(other, d, 0.0).sum(axis=1)
    weights = k / np.minimum(len(model.codes) - model.counts, k)
    return np.asarray(inside - other_sum * weights)


def least_energies(model: EnergyModel, Z: AnyArray, *, n_jobs: int | None = None) -> IntArray:
    """Find the first class of lowest energy of each sample, (n_samples,)."""
    if model.energy == "difference":
        return np.asarray(energies(model, Z, n_jobs=n_jobs).argmin(axis=1))
    queries, thresholds = model.queries(Z), model.thresholds
    best, undecided = np.empty(len(queries), np.intp), np.empty(len(queries), bool)

    def of_chunk(chunk: slice) -> None:
        best[chunk], undecided[chunk] = _decide_by_bounds(model, thresholds, queries[chunk])

    bytes_per_row = int((10 + 56 * _CROWDED) * len(model.codes)) + 128 * len(model.counts)
    for _ in map_chunks(of_chunk, row_chunks(len(queries), bytes_per_row, max_rows=128), n_jobs):
        pass
    if undecided.any():
        best[undecided] = energies(model, Z[undecided], n_jobs=n_jobs).argmin(axis=1)
    return best


#: Beyond this fraction of distances that the bounds need, computing all energies is faster.
_CROWDED = 0.15


def _decide_by_bounds(
    model: EnergyModel, thresholds: FloatArray, queries: FloatArray
) -> tuple[IntArray, BoolArray]:
    """Find the class of the nearest sample, and whether another class may have a lower energy."""
    k, push, m2, classes = model.n_neighbors, model.push, model.second_margin, model.classes
    d = squared_distances(queries, model.columns)
    least = np.stack([d[:, c].min(axis=1) for c in classes], axis=1)
    every, leader = np.arange(len(least)), least.argmin(axis=1)
    nearest = np.empty((len(queries), k))  # of the leading class
    for c in np.unique(leader):
        rows = np.flatnonzero(leader == c)
        nearest[rows] = least_sorted(d[rows, classes[c]], k)
    limit = np.where(np.isfinite(nearest), nearest, 0.0).max(axis=1)
    limit += -np.inf if m2 is None else m2
    needed = d < thresholds.max(axis=0)
    needed |= d <= limit[:, None]
    if np.count_nonzero(needed) > len(d) * max(_CROWDED * d.shape[1], 8 * k):
        return leader, np.ones(len(queries), bool)
    flat = np.flatnonzero(needed)
    query, column = np.divmod(flat, d.shape[1])
    d, code = d.ravel()[flat], model.codes[column]

    hinges = sum(np.maximum(t[column] - d, 0.0) for t in thresholds)
    third = outside(_by_class(query, code, hinges, least.shape) * model.target_weights)
    bound = (1 - push) * k * least + push * third
    energy = (1 - push) * finite_sum(nearest)
    if m2 is not None:
        near = np.flatnonzero(d <= limit[query])
        query, code, d = query[near], code[near], d[near]
        n_others = outside(_by_class(query, code, np.ones(len(d)), least.shape))
        sum_others = outside(_by_class(query, code, d, least.shape))
        bound += push * k * np.maximum(n_others * (m2 + least) - sum_others, 0.0)
        other = np.flatnonzero(code != leader[query])
        query, d = query[other], d[other]
        hinges = sum(np.maximum(t[query] - d, 0.0) for t in add_margin(nearest, m2).T)
        energy += push * np.bincount(query, hinges, minlength=len(least))
    energy = model.neighbor_weights[leader] * energy + push * third[every, leader]
    bound[every, leader] = np.inf
    # With a tolerance, because both sides are rounded.
    return leader, bound.min(axis=1) * (1 - 1e-9) <= energy


def _by_class(
    query: IntArray, code: IntArray, values: FloatArray, shape: tuple[int, ...]
) -> FloatArray:
    """Sum the values of each query and class, (n_queries, n_classes)."""
    sums = np.bincount(query * shape[1] + code, values, minlength=shape[0] * shape[1])
    return np.asarray(sums.reshape(shape))

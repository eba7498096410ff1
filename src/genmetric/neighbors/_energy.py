r"""Energies of a sample in every class (Weinberger and Saul 2009); all distances are squared.

For k target neighbours j, margins m and :math:`m_2` and a weight :math:`\mu` of the push,

.. math:: E(x, c) = (1-\mu) \sum_{j \to x} d(x,j)
          + \mu \Big[\sum_{j \to x} \sum_{l \notin c} \big(m_2 + d(x,j) - d(x,l)\big)_+
          + \sum_{i \notin c} \sum_{j \to i} \big(m + d(i,j) - d(i,x)\big)_+\Big] ,

with :math:`j \to x` the k samples of class c nearest to x and :math:`j \to i` the k samples of i's
own class nearest to i. The first term is the distance to the class. The second sums over the
samples of other classes that are nearer to x than its targets, plus a margin. The third sums over
the samples of other classes that have x within their own margin. :data:`FORMS` lists the choices of
:math:`m_2`.

Both push terms are sums of hinges over the same block of squared distances between queries and
training samples. The third involves few entries of it; the second, for all classes at once, is read
from the sorted distances. :mod:`genmetric.neighbors._energy_race` predicts without most of this.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.neighbors._class_rows import ClassRows

#: Forms of the energy, and the margin of the second term as a multiple of the margin m; None
#: leaves the second term out.
FORMS: dict[str, float | None] = {"one-sided": 0.0, "three-term": 1.0, "two-term": None}

#: Beyond this fraction of entries below their thresholds, all entries are processed.
_DENSE = 0.05


def margin_unit(targets: FloatArray, nearest_other: FloatArray) -> float:
    r"""Compute the unit :math:`\gamma_0` of the margin (appendix C of the paper).

    .. math:: \gamma_0 = \Big|\mathrm{median}_i \big(d(i, \text{nearest of another class})
              - d(i, \text{nearest of the same class})\big)\Big|

    Parameters
    ----------
    targets : ndarray of shape (n_samples, k)
        Squared distances to samples of the same class, ascending.
    nearest_other : ndarray of shape (n_samples,)
        Squared distance to the nearest sample of another class.

    Returns
    -------
    float
        Median over the samples that have another sample of their class; zero if none has.
    """
    known = np.isfinite(targets[:, 0])
    gaps = nearest_other[known] - targets[known, 0]
    return float(abs(np.median(gaps))) if len(gaps) else 0.0


@dataclass(frozen=True)
class EnergyModel:
    """Training samples, thresholds and weights that determine the energies of new samples.

    A class with fewer than k samples uses all of them, each counted k times over their number, so
    that sums are comparable between classes. In the same way the samples of a class with at most k
    samples have all others of it as targets. The only sample of a class has no target: its third
    term is zero.

    Attributes
    ----------
    rows : ClassRows
        Training samples.
    thresholds : ndarray of shape (k, n_samples)
        Margin plus squared distance to each target of each sample; minus infinity for missing
        targets.
    reach : ndarray of shape (n_samples,)
        The largest threshold of each sample.
    query_margin : float or None
        The margin of the second term; None leaves the term out.
    push : float
        The weight of the two push terms, in [0, 1].
    """

    rows: ClassRows
    thresholds: FloatArray
    reach: FloatArray
    query_margin: float | None
    push: float

    @classmethod
    def of(
        cls,
        rows: ClassRows,
        targets: FloatArray,
        margin: float,
        push: float,
        energy: str = "three-term",
    ) -> EnergyModel:
        """Build a model from the squared distances of training samples to their targets.

        Parameters
        ----------
        rows : ClassRows
            Training samples.
        targets : ndarray of shape (n_samples, k)
            Squared distances to the targets, infinite for missing ones.
        margin : float
            The margin m.
        push : float
            The weight of the two push terms, in [0, 1].
        energy : {"one-sided", "three-term", "two-term"}, default="three-term"
            Form of the energy, which determines the margin of the second term.

        Returns
        -------
        EnergyModel
            The model.
        """
        thresholds = margins(targets, margin).T.copy()
        factor = FORMS[energy]
        query_margin = None if factor is None else factor * margin
        return cls(rows, thresholds, thresholds.max(axis=0), query_margin, push)

    @property
    def n_neighbors(self) -> int:
        """Number k of targets."""
        return len(self.thresholds)

    @property
    def repeats(self) -> FloatArray:
        """Weight of a neighbour in each class, shape (n_classes,)."""
        return np.asarray(self.n_neighbors / np.minimum(self.rows.counts, self.n_neighbors))

    @property
    def target_repeats(self) -> FloatArray:
        """Weight of a target of a sample of each class, shape (n_classes,)."""
        return np.asarray(self.n_neighbors / np.clip(self.rows.counts - 1, 1, self.n_neighbors))


def margins(squared: FloatArray, margin: float) -> FloatArray:
    """Return the thresholds m + d; minus infinity for missing neighbours, whose d is infinite."""
    return np.where(np.isfinite(squared), squared + margin, -np.inf)


def hinges_by_class(rows: ClassRows, distances: FloatArray, thresholds: FloatArray) -> FloatArray:
    r"""Sum :math:`\sum_j (t_j - d)_+` over the columns of each class.

    Parameters
    ----------
    rows : ClassRows
        The samples behind the columns.
    distances : ndarray of shape (n_queries, n_samples)
        The numbers d.
    thresholds : ndarray of shape (k, n_queries, n_classes) or (k, 1, n_samples)
        Thresholds of each query for the columns of a class, or of each column; minus infinity
        contributes nothing.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        Sums, never negative.
    """
    by_column = thresholds.shape[1] == 1 and thresholds.shape[2] == rows.n_samples
    top = thresholds.max(axis=0)
    if by_column:
        inside = distances < top
    else:
        inside = np.empty(distances.shape, bool)
        for c, columns in enumerate(rows.classes):
            np.less(distances[:, columns], top[:, c, None], out=inside[:, columns])
    if np.count_nonzero(inside) <= _DENSE * inside.size:
        query, column = np.divmod(np.flatnonzero(inside), rows.n_samples)
        d, code = distances[query, column], rows.codes[column]
        hinge = np.zeros(len(d))
        for t in thresholds:
            hinge += np.maximum((t[0, column] if by_column else t[query, code]) - d, 0.0)
        return sum_cells(query, code, hinge, (len(distances), rows.n_classes))
    out = np.zeros((len(distances), rows.n_classes))
    for c, columns in enumerate(rows.classes):
        block = distances[:, columns]
        buffer = np.empty_like(block)
        for t in thresholds:
            np.subtract(t[:, columns] if by_column else t[:, c, None], block, out=buffer)
            out[:, c] += np.maximum(buffer, 0.0, out=buffer).sum(axis=1)
    return out


def sum_cells(
    query: IntArray, code: IntArray, values: FloatArray, shape: tuple[int, int]
) -> FloatArray:
    """Sum the values of each query and class, shape (n_queries, n_classes)."""
    sums = np.bincount(query * shape[1] + code, values, minlength=shape[0] * shape[1])
    return np.asarray(sums.reshape(shape))


def pull(model: EnergyModel, nearest: FloatArray) -> FloatArray:
    r"""Compute the first term, :math:`\sum_{j \to x} d(x, j)`, for every class.

    Parameters
    ----------
    model : EnergyModel
        Training samples.
    nearest : ndarray of shape (n_queries, n_classes, k)
        The k smallest distances to each class.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        The term for every class.
    """
    return np.asarray(np.where(np.isfinite(nearest), nearest, 0.0).sum(axis=2) * model.repeats)


def push_on_rows(model: EnergyModel, hinges: FloatArray) -> FloatArray:
    r"""Compute the third term, :math:`\sum_{i \notin c} \sum_{j \to i} (m + d(i,j) - d(i,x))_+`.

    Parameters
    ----------
    model : EnergyModel
        Training samples.
    hinges : ndarray of shape (n_queries, n_classes)
        The same sum over the samples i of each class.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        The sum over the samples outside of each class.
    """
    by_class = hinges * model.target_repeats
    return np.asarray(np.maximum(by_class.sum(axis=1, keepdims=True) - by_class, 0.0))


def push_on_queries(
    model: EnergyModel, distances: FloatArray, nearest: FloatArray, *, overwrite: bool = False
) -> FloatArray:
    r"""Compute the second term, :math:`\sum_{j \to x} \sum_{l \notin c} (m_2 + d(x,j) - d(x,l))_+`.

    With n(t) distances below t and S(t) their sum, :math:`\sum_l (t - d_l)_+ = t\,n(t) - S(t)` over
    all samples l, read from the sorted distances; the sum over the samples of class c is
    subtracted.

    Parameters
    ----------
    model : EnergyModel
        Training samples and margin.
    distances : ndarray of shape (n_queries, n_samples)
        Squared distances of queries x to training samples l.
    nearest : ndarray of shape (n_queries, n_classes, k)
        The k smallest distances to each class.
    overwrite : bool, default=False
        Whether `distances` may be sorted in place.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        The term for every class c.
    """
    if model.query_margin is None:
        return np.zeros(nearest.shape[:2])
    rows, thresholds = model.rows, margins(nearest, model.query_margin)
    own = hinges_by_class(rows, distances, thresholds.transpose(2, 0, 1))
    if overwrite:
        distances.sort(axis=1)
    else:
        distances = np.sort(distances, axis=1)
    n_below = np.empty(nearest.shape, np.intp)
    sum_below = np.empty(nearest.shape)
    prefix = np.zeros(rows.n_samples + 1)
    for row, t, n, total in zip(distances, thresholds, n_below, sum_below, strict=True):
        n[...] = row.searchsorted(t)
        last = n.max()
        row[:last].cumsum(out=prefix[1 : last + 1])
        total[...] = prefix[n]
    hinges = np.where(n_below > 0, thresholds, 0.0) * n_below - sum_below
    return np.asarray(np.maximum(hinges.sum(axis=2) - own, 0.0) * model.repeats)


def margin_energies(
    model: EnergyModel, queries: FloatArray, *, n_jobs: int | None = None
) -> FloatArray:
    r"""Compute the energies of queries in every class.

    .. math:: E(x, c) = (1-\mu) \sum_{j \to x} d(x,j)
              + \mu \Big[\sum_{j \to x} \sum_{l \notin c} \big(m_2 + d(x,j) - d(x,l)\big)_+
              + \sum_{i \notin c} \sum_{j \to i} \big(m + d(i,j) - d(i,x)\big)_+\Big] ,

    with :math:`j \to x` the k samples of class c nearest to x, :math:`j \to i` the k samples of i's
    own class nearest to i, and d squared distances.

    Parameters
    ----------
    model : EnergyModel
        Training samples, targets, margin and push.
    queries : ndarray of shape (n_queries, n_features)
        Queries, in the coordinates of the samples.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        Energies, never negative.
    """
    rows = model.rows

    def of_chunk(chunk: slice) -> FloatArray:
        distances = rows.squared_distances(queries[chunk])
        nearest = rows.nearest(distances, model.n_neighbors)
        energy = (1 - model.push) * pull(model, nearest)
        if model.push > 0:
            by_class = hinges_by_class(rows, distances, model.thresholds[:, None, :])
            third = push_on_rows(model, by_class)
            second = push_on_queries(model, distances, nearest, overwrite=True)
            energy += model.push * (second + third)
        return energy

    bytes_per_row = 13 * rows.n_samples + 24 * int(rows.counts.max())
    bytes_per_row += 64 * rows.n_classes * model.n_neighbors
    chunks = row_chunks(len(queries), bytes_per_row, max_rows=256)
    return np.concatenate(list(map_chunks(of_chunk, chunks, n_jobs)))


def difference_energies(
    rows: ClassRows, queries: FloatArray, k: int, *, n_jobs: int | None = None
) -> FloatArray:
    r"""Compute differences of distances as energies, as in a footnote of the paper.

    .. math:: E(x, c) = \sum_{j \to x} d(x,j) - \sum_{l \to x} d(x,l)

    with j the k nearest samples of class c and l the k nearest samples outside of it. If there are
    fewer than k, each counts k times over their number.

    Parameters
    ----------
    rows : ClassRows
        Training samples.
    queries : ndarray of shape (n_queries, n_features)
        Queries, in the coordinates of the samples.
    k : int
        Number of neighbours in each sum.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    ndarray of shape (n_queries, n_classes)
        Energies of either sign.
    """
    n_inside, n_outside = rows.counts, rows.n_samples - rows.counts

    def of_chunk(chunk: slice) -> FloatArray:
        nearest = rows.nearest(rows.squared_distances(queries[chunk]), k)
        inside = np.where(np.isfinite(nearest), nearest, 0.0).sum(axis=2)
        # At most k of the 2k nearest samples of all classes are of class c.
        flat = nearest.reshape(len(nearest), -1)
        first = np.argsort(flat, axis=1, kind="stable")[:, : 2 * k]
        d, code = np.take_along_axis(flat, first, axis=1), first // k
        outside = np.empty_like(inside)
        for c in range(rows.n_classes):
            other = (code != c) & np.isfinite(d)
            other &= np.cumsum(other, axis=1) <= k
            outside[:, c] = np.where(other, d, 0.0).sum(axis=1)
        inside *= k / np.minimum(n_inside, k)
        return np.asarray(inside - outside * (k / np.minimum(n_outside, k)))

    bytes_per_row = 8 * rows.n_samples + 24 * int(rows.counts.max()) + 64 * rows.n_classes * k
    chunks = row_chunks(len(queries), bytes_per_row, max_rows=256)
    return np.concatenate(list(map_chunks(of_chunk, chunks, n_jobs)))

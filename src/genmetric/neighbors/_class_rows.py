"""Rows sorted by class: blocks of squared distances, and the nearest samples of every class.

Energies sum over all distances, so they need whole blocks and not a search for few neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import FloatArray, IntArray


@dataclass(frozen=True)
class ClassRows:
    """Training samples, sorted by class.

    Attributes
    ----------
    columns : ndarray of shape (n_features + 2, n_samples)
        Rows as columns, sorted by class, with a one and the squared norm below them. They must be
        centred and of size about one, as after a :class:`~genmetric.density.Scaling`: squared
        distances come from products of matrices and are exact to 1e-16 of the squared norms.
    codes : ndarray of shape (n_samples,)
        Class of each column, ascending.
    starts : ndarray of shape (n_classes + 1,)
        Class c is ``columns[:, starts[c]:starts[c + 1]]``.
    """

    columns: FloatArray
    codes: IntArray
    starts: IntArray

    @classmethod
    def of(cls, rows: FloatArray, codes: IntArray, n_classes: int) -> ClassRows:
        """Sort `rows`, whose class is ``codes[i]`` in ``range(n_classes)``, by class."""
        order = np.argsort(codes, kind="stable")
        columns = np.ones((rows.shape[1] + 2, len(rows)))
        columns[:-2] = rows[order].T
        columns[-1] = np.einsum("ij,ij->i", rows, rows)[order]
        counts = np.bincount(codes, minlength=n_classes)
        return cls(columns, codes[order], np.concatenate([[0], np.cumsum(counts)]))

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.codes)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.starts) - 1

    @property
    def counts(self) -> IntArray:
        """Rows of each class."""
        return np.diff(self.starts)

    @property
    def classes(self) -> list[slice]:
        """Columns of each class."""
        return [slice(int(a), int(b)) for a, b in pairwise(self.starts)]

    def squared_distances(
        self, queries: FloatArray, columns: slice = slice(None), *, out: FloatArray | None = None
    ) -> FloatArray:
        """Compute squared distances to some of the samples.

        Parameters
        ----------
        queries : ndarray of shape (n_queries, n_features)
            Queries, in the coordinates of the samples; a chunk that fits the memory budget.
        columns : slice, default=slice(None)
            Range of the sorted samples.
        out : ndarray of shape (n_queries, n_columns), default=None
            Array for the result; new memory for every block costs as much as the product.

        Returns
        -------
        ndarray of shape (n_queries, n_columns)
            Never negative.
        """
        # |x|² - 2 x·x' + |x'|² as one product: adding the norms separately costs as much again.
        left = np.ones((len(queries), queries.shape[1] + 2))
        np.multiply(queries, -2.0, out=left[:, :-2])
        np.einsum("ij,ij->i", queries, queries, out=left[:, -2])
        d = np.matmul(left, self.columns[:, columns], out=out)
        return np.asarray(np.maximum(d, 0.0, out=d))

    def nearest(self, distances: FloatArray, k: int) -> FloatArray:
        """Return the k smallest distances to each class, ascending.

        Parameters
        ----------
        distances : ndarray of shape (n_queries, n_samples)
            From :meth:`squared_distances`.
        k : int
            Number of distances.

        Returns
        -------
        ndarray of shape (n_queries, n_classes, k)
            Infinite beyond the samples that a class has.
        """
        out = np.full((len(distances), self.n_classes, k), np.inf)
        for c, columns in enumerate(self.classes):
            least = least_sorted(distances[:, columns], k)
            out[:, c, : least.shape[1]] = least
        return out


def least_sorted(distances: FloatArray, k: int) -> FloatArray:
    """Return the k smallest entries of each row, ascending; all of them if there are fewer.

    Parameters
    ----------
    distances : ndarray of shape (n_queries, n_columns)
        Any numbers.
    k : int
        Number of entries.

    Returns
    -------
    ndarray of shape (n_queries, min(k, n_columns))
        Sorted along the rows.
    """
    if k < distances.shape[1]:
        distances = np.partition(distances, k - 1, axis=1)[:, :k]
    return np.sort(distances, axis=1)


def training_neighbors(
    rows: ClassRows, k: int, *, others: bool = True, n_jobs: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Find the targets of every training sample, and the nearest sample of another class.

    Parameters
    ----------
    rows : ClassRows
        Training samples.
    k : int
        Number of targets: nearest samples of the same class, without the sample itself.
    others : bool, default=True
        Whether to search other classes, which takes all pairs of samples instead of those of each
        class.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    targets : ndarray of shape (n_samples, k)
        Squared distances to the targets, ascending, in the order of the sorted samples; infinite
        for missing targets.
    nearest_other : ndarray of shape (n_samples,)
        Squared distance to the nearest sample of another class; infinite without `others`.
    """
    targets = np.full((rows.n_samples, k), np.inf)
    nearest_other = np.full(rows.n_samples, np.inf)
    # The others of a class are the columns before and after it, in blocks of this width: one
    # product for each of many small classes would cost more in calls than in arithmetic.
    width = max(int(rows.counts.max()), 1024)

    def of_chunk(task: tuple[slice, slice]) -> None:
        own, chunk = task
        queries = rows.columns[:-2, chunk].T
        buffer = np.empty(len(queries) * width)

        def distances(columns: slice) -> FloatArray:
            shape = (len(queries), columns.stop - columns.start)
            block = buffer[: shape[0] * shape[1]].reshape(shape)
            return rows.squared_distances(queries, columns, out=block)

        d = distances(own)
        every = np.arange(len(queries))
        d[every, every + chunk.start - own.start] = np.inf
        least = least_sorted(d, k)
        targets[chunk, : least.shape[1]] = least
        best = nearest_other[chunk]
        for start, stop in ((0, own.start), (own.stop, rows.n_samples)) if others else ():
            for part in row_chunks(stop - start, 1, max_rows=width):
                columns = slice(start + part.start, start + part.stop)
                np.minimum(best, distances(columns).min(axis=1), out=best)

    tasks = [
        (own, slice(own.start + part.start, own.start + part.stop))
        for own in rows.classes
        for part in row_chunks(own.stop - own.start, 24 * width, max_rows=256)
    ]
    for _ in map_chunks(of_chunk, tasks, n_jobs):
        pass
    return targets, nearest_other

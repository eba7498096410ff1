r"""The class of least energy without all energies: a race that most classes leave early.

To decide, the energy of one class and lower bounds of the others will do. The class of the nearest
row leads. Let L be the margin plus the distance to its k-th row. The energy of the leader depends
on the distances below L, and those below the reach of their training row, alone: a few hundred. If
n of the rows outside a class c are no further than L, the sum of their distances is S and the
nearest row of class c is at :math:`d_1(c)`, then

.. math:: E(x, c) \ge (1-\mu)\, k\, d_1(c)
          + \mu \Big[k \big(n (m + d_1(c)) - S\big)_+ + \text{third term}\Big],

since hinges are never negative and no neighbour in c is nearer. The few queries in a hundred that
these bounds do not decide get all their energies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genmetric._chunks import map_chunks, one_blas_thread, row_chunks
from genmetric._typing import BoolArray, FloatArray, IntArray
from genmetric.neighbors.class_rows import least_sorted
from genmetric.neighbors.energy import (
    EnergyModel,
    margins,
    push_on_rows,
    sum_cells,
    three_term_energies,
)

#: Beyond this share of entries that matter the race does not pay.
_CROWDED = 0.15


def least_energies(
    model: EnergyModel, queries: FloatArray, *, n_jobs: int | None = None
) -> IntArray:
    """Class of least three-term energy of each query.

    Parameters
    ----------
    model : EnergyModel
        Training rows, targets, margin and push.
    queries : ndarray of shape (n_queries, n_features)
        Queries, in the frame of the rows.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Returns
    -------
    ndarray of shape (n_queries,)
        The first class of least energy.
    """
    best = np.empty(len(queries), np.intp)
    undecided = np.empty(len(queries), bool)

    def of_chunk(chunk: slice) -> None:
        best[chunk], undecided[chunk] = race(model, queries[chunk])

    bytes_per_row = int((10 + 56 * _CROWDED) * model.rows.n_samples) + 128 * model.rows.n_classes
    chunks = row_chunks(len(queries), bytes_per_row, max_rows=128)
    with one_blas_thread():  # setting the limit twice would take longer than a small set
        for _ in map_chunks(of_chunk, chunks, n_jobs):
            pass
        late = np.flatnonzero(undecided)
        if len(late):
            best[late] = three_term_energies(model, queries[late], n_jobs=n_jobs).argmin(axis=1)
    return best


class Entries(NamedTuple):
    """Squared distances of a chunk of queries that matter in the race.

    Attributes
    ----------
    query, column : ndarray of shape (n_entries,)
        Row and column of each entry in the matrix of distances.
    squared : ndarray of shape (n_entries,)
        The entries: all up to the limit of their query, all below the reach of their column.
    least : ndarray of shape (n_queries, n_classes)
        The least distance to each class.
    leading : ndarray of shape (n_queries, k)
        The k least distances to the class of the nearest row; infinite beyond its rows.
    limit : ndarray of shape (n_queries,)
        The margin plus the last of them.
    """

    query: IntArray
    column: IntArray
    squared: FloatArray
    least: FloatArray
    leading: FloatArray
    limit: FloatArray


def relevant_entries(model: EnergyModel, queries: FloatArray) -> Entries | None:
    """Squared distances that the race needs; None where they are too many to pick out.

    Parameters
    ----------
    model : EnergyModel
        Training rows, targets and margin.
    queries : ndarray of shape (n_queries, n_features)
        Queries.

    Returns
    -------
    Entries or None
        What was picked out.
    """
    rows, k = model.rows, model.n_neighbors
    d = rows.squared_distances(queries)
    least = np.stack([d[:, columns].min(axis=1) for columns in rows.classes], axis=1)
    leader = least.argmin(axis=1)
    leading = np.full((len(queries), k), np.inf)
    for c in np.unique(leader):
        led = np.flatnonzero(leader == c)
        nearest = least_sorted(d[led, rows.classes[c]], k)
        leading[led, : nearest.shape[1]] = nearest
    limit = model.margin + np.where(np.isfinite(leading), leading, 0.0).max(axis=1)
    inside = d < model.reach
    inside |= d <= limit[:, None]
    if np.count_nonzero(inside) > len(d) * max(_CROWDED * rows.n_samples, 8 * k):
        return None
    flat = np.flatnonzero(inside)
    query, column = np.divmod(flat, rows.n_samples)
    return Entries(query, column, d.ravel()[flat], least, leading, limit)


def leading_energy(model: EnergyModel, entries: Entries) -> tuple[IntArray, FloatArray, FloatArray]:
    """Class of the nearest row, its energy, and lower bounds of all energies.

    Parameters
    ----------
    model : EnergyModel
        Training rows, targets, margin and push.
    entries : Entries
        From :func:`relevant_entries`.

    Returns
    -------
    leader : ndarray of shape (n_queries,)
        The class of the nearest row.
    energy : ndarray of shape (n_queries,)
        The energy in it.
    bound : ndarray of shape (n_queries, n_classes)
        At most the energy in each class; the equation heads this module.
    """
    query, column, d, least, leading, limit = entries
    k, shape = model.n_neighbors, least.shape
    code = model.rows.codes[column]
    hinge = np.zeros(len(d))
    for t in model.thresholds:
        hinge += np.maximum(t[column] - d, 0.0)
    third = push_on_rows(model, sum_cells(query, code, hinge, shape))

    near = np.flatnonzero(d <= limit[query])
    query, code, d = query[near], code[near], d[near]
    n_near = sum_cells(query, code, np.ones(len(d)), shape)
    sum_near = sum_cells(query, code, d, shape)
    n_others = n_near.sum(axis=1, keepdims=True) - n_near
    sum_others = sum_near.sum(axis=1, keepdims=True) - sum_near
    second = k * np.maximum(n_others * (model.margin + least) - sum_others, 0.0)
    bound = (1 - model.push) * k * least + model.push * (second + third)

    every, leader = np.arange(len(least)), least.argmin(axis=1)
    outside = np.flatnonzero(code != leader[query])
    query, d = query[outside], d[outside]
    hinge = np.zeros(len(d))
    for t in margins(leading, model.margin).T:
        hinge += np.maximum(t[query] - d, 0.0)
    invaders = np.bincount(query, hinge, minlength=len(least))
    pull = np.where(np.isfinite(leading), leading, 0.0).sum(axis=1)
    energy = model.repeats[leader] * ((1 - model.push) * pull + model.push * invaders)
    return leader, energy + model.push * third[every, leader], bound


def race(model: EnergyModel, queries: FloatArray) -> tuple[IntArray, BoolArray]:
    """Leading class of each query in a chunk, and whether another class may yet be better.

    Parameters
    ----------
    model : EnergyModel
        Training rows, targets, margin and push.
    queries : ndarray of shape (n_queries, n_features)
        Queries, in the frame of the rows; a chunk that fits the memory budget.

    Returns
    -------
    leader : ndarray of shape (n_queries,)
        The class of the nearest row.
    undecided : ndarray of shape (n_queries,)
        Whether the lower bound of another class is not above the energy of the leader.
    """
    entries = relevant_entries(model, queries)
    if entries is None:
        return np.zeros(len(queries), np.intp), np.ones(len(queries), bool)
    leader, energy, bound = leading_energy(model, entries)
    bound[np.arange(len(queries)), leader] = np.inf
    # A hair off, since both sides are rounded.
    return leader, bound.min(axis=1) * (1 - 1e-9) <= energy

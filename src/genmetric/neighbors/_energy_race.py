r"""The class of lowest energy from the energy of one class and lower bounds of the others.

The class of the nearest sample is the candidate. Let L be the margin :math:`m_2` plus the distance
of its k-th sample. Its energy depends only on the distances below L and on those below the
threshold of their training sample: a few hundred. If n of the samples outside a class c are at most
L away, the sum of their distances is S and the nearest sample of class c is at :math:`d_1(c)`, then

.. math:: E(x, c) \ge (1-\mu)\, k\, d_1(c)
          + \mu \Big[k \big(n (m_2 + d_1(c)) - S\big)_+ + \text{third term}\Big],

since hinges are never negative and no neighbour in c is nearer. This holds for every :math:`m_2`,
and without the second term for the form that omits it. All energies are computed for the few
queries that these bounds do not decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from genmetric._chunks import map_chunks, one_blas_thread, row_chunks
from genmetric._typing import BoolArray, FloatArray, IntArray
from genmetric.neighbors._class_rows import least_sorted
from genmetric.neighbors._energy import (
    EnergyModel,
    margin_energies,
    margins,
    push_on_rows,
    sum_cells,
)

#: Beyond this fraction of relevant entries, computing all energies is faster.
_CROWDED = 0.15


def least_energies(
    model: EnergyModel, queries: FloatArray, *, n_jobs: int | None = None
) -> IntArray:
    """Find the class of lowest energy of each query.

    Parameters
    ----------
    model : EnergyModel
        Training samples, thresholds, margin and push.
    queries : ndarray of shape (n_queries, n_features)
        Queries, in the coordinates of the samples.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    ndarray of shape (n_queries,)
        The first class of lowest energy.
    """
    (best,) = least_energies_of_each([model], queries, n_jobs=n_jobs)
    return np.asarray(best)


def least_energies_of_each(
    models: Sequence[EnergyModel], queries: FloatArray, *, n_jobs: int | None = None
) -> IntArray:
    """Find the class of lowest energy of each query under several numbers of targets and margins.

    Distances are computed and searched once for all models.

    Parameters
    ----------
    models : sequence of EnergyModel
        Models with the same training samples.
    queries : ndarray of shape (n_queries, n_features)
        Queries, in the coordinates of the samples.
    n_jobs : int, default=None
        Number of threads; the result is the same for every number.

    Returns
    -------
    ndarray of shape (n_models, n_queries)
        The first class of lowest energy under each model.
    """
    rows = models[0].rows
    best = np.empty((len(models), len(queries)), np.intp)
    undecided = np.empty(best.shape, bool)

    def of_chunk(chunk: slice) -> None:
        best[:, chunk], undecided[:, chunk] = race(models, queries[chunk])

    bytes_per_row = int((10 + 56 * _CROWDED) * rows.n_samples) + 128 * rows.n_classes
    chunks = row_chunks(len(queries), bytes_per_row, max_rows=128)
    with one_blas_thread():  # setting the limit twice takes longer than a small prediction
        for _ in map_chunks(of_chunk, chunks, n_jobs):
            pass
        for i, model in enumerate(models):
            late = np.flatnonzero(undecided[i])
            if len(late):
                energies = margin_energies(model, queries[late], n_jobs=n_jobs)
                best[i, late] = energies.argmin(axis=1)
    return best


class Entries(NamedTuple):
    """Squared distances of a chunk of queries that the bounds need.

    Attributes
    ----------
    query, column : ndarray of shape (n_entries,)
        Row and column of each entry in the matrix of distances.
    squared : ndarray of shape (n_entries,)
        The entries up to the limit of their query or below the largest threshold of their column,
        and possibly others, which add nothing to the sums.
    least : ndarray of shape (n_queries, n_classes)
        The smallest distance to each class.
    leading : ndarray of shape (n_queries, k)
        The k smallest distances to the class of the nearest sample; infinite beyond its samples.
    limit : ndarray of shape (n_queries,)
        The margin of the second term plus the last of them; minus infinity without that term.
    """

    query: IntArray
    column: IntArray
    squared: FloatArray
    least: FloatArray
    leading: FloatArray
    limit: FloatArray


def relevant_entries(models: Sequence[EnergyModel], queries: FloatArray) -> list[Entries] | None:
    """Select the squared distances that the bounds need; None if they are too many.

    Parameters
    ----------
    models : sequence of EnergyModel
        Thresholds and margins, with the same training samples.
    queries : ndarray of shape (n_queries, n_features)
        Queries.

    Returns
    -------
    list of Entries or None
        The entries of each model: the same distances, which all models need together, with the
        neighbours and limits of the model.
    """
    rows = models[0].rows
    most = max(model.n_neighbors for model in models)
    d = rows.squared_distances(queries)
    least = np.stack([d[:, columns].min(axis=1) for columns in rows.classes], axis=1)
    leader = least.argmin(axis=1)
    leading = np.full((len(queries), most), np.inf)
    for c in np.unique(leader):
        led = np.flatnonzero(leader == c)
        nearest = least_sorted(d[led, rows.classes[c]], most)
        leading[led, : nearest.shape[1]] = nearest
    farthest = np.maximum.accumulate(np.where(np.isfinite(leading), leading, 0.0), axis=1)
    limits = [
        (-np.inf if model.query_margin is None else model.query_margin)
        + farthest[:, model.n_neighbors - 1]
        for model in models
    ]
    inside = d < np.max([model.reach for model in models], axis=0)
    inside |= d <= np.max(limits, axis=0)[:, None]
    if np.count_nonzero(inside) > len(d) * max(_CROWDED * rows.n_samples, 8 * most):
        return None
    flat = np.flatnonzero(inside)
    query, column = np.divmod(flat, rows.n_samples)
    squared = d.ravel()[flat]
    return [
        Entries(query, column, squared, least, leading[:, : model.n_neighbors], limit)
        for model, limit in zip(models, limits, strict=True)
    ]


def leading_energy(model: EnergyModel, entries: Entries) -> tuple[FloatArray, FloatArray]:
    """Compute the energy of the class of the nearest sample, and lower bounds of all energies.

    Parameters
    ----------
    model : EnergyModel
        Training samples, thresholds, margin and push.
    entries : Entries
        From :func:`relevant_entries`.

    Returns
    -------
    energy : ndarray of shape (n_queries,)
        The energy of the class of the nearest sample.
    bound : ndarray of shape (n_queries, n_classes)
        Lower bound of the energy in each class; the module docstring has the equation.
    """
    query, column, d, least, leading, limit = entries
    k, shape = model.n_neighbors, least.shape
    code = model.rows.codes[column]
    hinge = np.zeros(len(d))
    for t in model.thresholds:
        hinge += np.maximum(t[column] - d, 0.0)
    third = push_on_rows(model, sum_cells(query, code, hinge, shape))

    every, leader = np.arange(len(least)), least.argmin(axis=1)
    second = np.zeros(shape)
    invaders = np.zeros(len(least))
    if model.query_margin is not None:
        near = np.flatnonzero(d <= limit[query])
        query, code, d = query[near], code[near], d[near]
        n_near = sum_cells(query, code, np.ones(len(d)), shape)
        sum_near = sum_cells(query, code, d, shape)
        n_others = n_near.sum(axis=1, keepdims=True) - n_near
        sum_others = sum_near.sum(axis=1, keepdims=True) - sum_near
        second = k * np.maximum(n_others * (model.query_margin + least) - sum_others, 0.0)
        outside = np.flatnonzero(code != leader[query])
        query, d = query[outside], d[outside]
        hinge = np.zeros(len(d))
        for t in margins(leading, model.query_margin).T:
            hinge += np.maximum(t[query] - d, 0.0)
        invaders += np.bincount(query, hinge, minlength=len(least))
    bound = (1 - model.push) * k * least + model.push * (second + third)
    pull = np.where(np.isfinite(leading), leading, 0.0).sum(axis=1)
    energy = model.repeats[leader] * ((1 - model.push) * pull + model.push * invaders)
    return energy + model.push * third[every, leader], bound


def race(models: Sequence[EnergyModel], queries: FloatArray) -> tuple[IntArray, BoolArray]:
    """Find the class of the nearest sample of each query, and whether another class may be better.

    Parameters
    ----------
    models : sequence of EnergyModel
        Thresholds, margin and push of each model, with the same training samples.
    queries : ndarray of shape (n_queries, n_features)
        Queries, in the coordinates of the samples; a chunk that fits the memory budget.

    Returns
    -------
    leader : ndarray of shape (n_models, n_queries)
        The class of the nearest sample.
    undecided : ndarray of shape (n_models, n_queries)
        Whether the lower bound of another class is not above the energy of the leader.
    """
    shape = (len(models), len(queries))
    found = relevant_entries(models, queries)
    if found is None and len(models) > 1:
        parts = [race([model], queries) for model in models]
        leaders, late = zip(*parts, strict=True)
        return np.concatenate(leaders), np.concatenate(late)
    if found is None:
        return np.zeros(shape, np.intp), np.ones(shape, bool)
    leader, undecided = found[0].least.argmin(axis=1), np.empty(shape, bool)
    for i, (model, entries) in enumerate(zip(models, found, strict=True)):
        energy, bound = leading_energy(model, entries)
        bound[np.arange(len(queries)), leader] = np.inf
        # With a tolerance, because both sides are rounded.
        undecided[i] = bound.min(axis=1) * (1 - 1e-9) <= energy
    return np.broadcast_to(leader, shape), undecided

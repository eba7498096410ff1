"""The two-covariance model of pairs: covariances from connected vectors, scores of pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from genmetric._parallel import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density.gaussian import correlation_shrinkage
from genmetric.learners.two_covariance import (
    discriminant_axes,
    log_likelihood_ratio,
    pair_products,
    shrunk_covariances,
    unit_vectors,
)

#: Shrinkages of the candidates, as multiples of the odds of the Ledoit-Wolf shrinkage.
WITHIN_FACTORS = (1.0, 4.0, 16.0, 64.0)


class PairModel(NamedTuple):
    """A two-covariance model of whitened vectors; without `ratios`, the cosine or a distance."""

    normalize: bool
    mean: FloatArray | None
    whitening: FloatArray | None
    axes: FloatArray | None
    ratios: FloatArray | None

    def coordinates(self, x: AnyArray) -> AnyArray:
        """Return the coordinates of vectors on the axes, in their own type."""
        x = unit_vectors(x) if self.normalize else x
        if self.whitening is not None:
            x = (x - self.mean).astype(x.dtype) @ self.whitening.T.astype(x.dtype)
            x = unit_vectors(x) if self.normalize else x
        return x if self.axes is None else np.asarray(x @ self.axes.T.astype(x.dtype))


def fit_pair_models(
    x: AnyArray,
    groups: IntArray,
    n_components: int | None,
    normalize: bool,
    candidates: Sequence[int] = range(1 + len(WITHIN_FACTORS)),
    n_jobs: int | None = None,
) -> list[PairModel]:
    """Fit candidates: plain cosine is number 0, then come models with more and more shrinkage.

    Vectors are scaled to unit length, centred, whitened by the shrunk covariance within entities
    and scaled again. Then both covariances are estimated again.
    """
    plain = PairModel(normalize, None, None, None, None)
    chunks = row_chunks(len(x), 24 * x.shape[1], budget=2**23)
    sums = map_chunks(lambda rows: plain.coordinates(x[rows]).sum(axis=0, dtype=float), chunks)
    mean = np.asarray(sum(sums) / len(x))
    within, total, degrees = _moments(x, groups, lambda v: plain.coordinates(v) - mean, n_jobs)
    models = []
    for candidate in candidates:
        if candidate == 0:
            axes = None
            if n_components is not None:  # the leading axes of all vectors
                axes = np.linalg.eigh(total + np.outer(mean, mean))[1].T[::-1][:n_components]
            models.append(plain._replace(axes=axes))
            continue
        factor = WITHIN_FACTORS[candidate - 1]
        shrunk = _shrunk(within, total, degrees, factor, 0.0)[0]
        whitening = np.linalg.inv(np.linalg.cholesky(shrunk))
        white = PairModel(normalize, mean, whitening, None, None)
        # About zero, because whitened vectors are directions. A quarter of the covariance between
        # entities is that of all vectors, for directions that few entities show.
        moments = _moments(x, groups, white.coordinates, n_jobs)
        axes, ratios = discriminant_axes(*_shrunk(*moments, factor, 0.25))
        models.append(white._replace(axes=axes[:n_components], ratios=ratios[:n_components]))
    return models


def _shrunk(
    within: FloatArray, total: FloatArray, degrees: float, factor: float, between_shrinkage: float
) -> tuple[FloatArray, FloatArray]:
    """Return the shrunk covariances within and between entities."""
    shrinkage = correlation_shrinkage(within / (np.trace(within) or 1.0), degrees)
    return shrunk_covariances(within, total - within, shrinkage, factor, between_shrinkage)


def _moments(
    x: AnyArray, groups: IntArray, vectors: Callable[[AnyArray], AnyArray], n_jobs: int | None
) -> tuple[FloatArray, FloatArray, float]:
    """Return the covariance within entities, the second moments, and the former's freedom.

    The moments are those of ``vectors(x)``, which is computed in blocks of whole entities.
    """
    order = np.argsort(groups, kind="stable")
    starts = np.r_[0, np.flatnonzero(np.diff(groups[order])) + 1]
    wanted = [rows.start for rows in row_chunks(len(x), 24 * x.shape[1], budget=2**23)]
    edges = np.unique(np.r_[starts[np.searchsorted(starts, wanted[1:], "right") - 1], 0, len(x)])

    def of_block(edge: tuple[int, int]) -> tuple[FloatArray, FloatArray]:
        v = vectors(x[order[slice(*edge)]]).astype(float)
        first = (
            starts[np.searchsorted(starts, edge[0]) : np.searchsorted(starts, edge[1])] - edge[0]
        )
        counts = np.diff(np.r_[first, len(v)])
        means = np.add.reduceat(v, first) / counts[:, None]
        v -= np.repeat(means, counts, axis=0)
        means *= np.sqrt(counts)[:, None]
        return v.T @ v, means.T @ means

    within, between = np.zeros((2, x.shape[1], x.shape[1]))
    for w, b in map_chunks(of_block, list(pairwise(edges.tolist())), n_jobs):
        within += w
        between += b
    degrees = float(len(x) - len(starts))
    return within / degrees, (within + between) / len(x), degrees


def pair_scores(
    x: AnyArray, pairs: IntArray, model: PairModel, n_jobs: int | None = None
) -> FloatArray:
    """Return the scores of pairs of rows of `x`, before calibration."""
    chunks = row_chunks(len(x), 48 * x.shape[1])
    z = np.empty((len(x), x.shape[1] if model.axes is None else len(model.axes)), x.dtype)
    parts = map_chunks(lambda rows: model.coordinates(x[rows]), chunks, n_jobs)
    for rows, part in zip(chunks, parts, strict=True):
        z[rows] = part
    if model.ratios is not None:
        return log_likelihood_ratio(z, pairs, model.ratios)
    products = pair_products(z, pairs, np.ones(z.shape[1]))
    squares = np.einsum("ij,ij->i", z, z, dtype=float)[pairs]
    if model.normalize:  # the cosine, and zero for a zero vector
        return np.asarray(products / np.sqrt(np.maximum(squares.prod(axis=1), 1e-300)))
    return np.asarray(2 * products - squares.sum(axis=1))  # minus the squared distance

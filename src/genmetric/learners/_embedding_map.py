"""The default map of embeddings: from all samples, or from the moments of a stream of batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import codes_among
from genmetric.density._two_covariance import PooledMoments
from genmetric.learners._embedding_selection import (
    MapParameters,
    SearchClasses,
    Selection,
    embedding_map,
    select_parameters,
)
from genmetric.learners._reservoir import RESERVOIR_SIZE, Reservoir


@dataclass(frozen=True)
class EmbeddingMoments:
    """What the default map is computed from.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Class names, ascending.
    moments : PooledMoments
        Moments of all samples.
    samples : ndarray of shape (n_kept, n_features)
        Samples that the parameters are selected on: all of them, or a random subset of a stream.
    codes : ndarray of shape (n_kept,)
        Their classes, as indices into `classes`.
    """

    classes: AnyArray
    moments: PooledMoments
    samples: AnyArray
    codes: IntArray


@dataclass(frozen=True)
class EmbeddingStream:
    """Moments and a random subset of the samples of the batches so far.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Class names, ascending.
    moments : PooledMoments or None
        Moments of all samples; None before the first batch.
    reservoir : Reservoir
        The random subset.
    dtype : dtype
        Type of its samples.
    """

    classes: AnyArray
    moments: PooledMoments | None
    reservoir: Reservoir
    dtype: Any

    @classmethod
    def start(
        cls, x: AnyArray, labels: AnyArray, classes: ArrayLike | None, rng: np.random.RandomState
    ) -> EmbeddingStream:
        """Return a stream without samples; raise if labels are not among the classes named.

        Parameters
        ----------
        x : ndarray of shape (n_samples, n_features)
            First batch, for its type.
        labels : ndarray of shape (n_samples,)
            Its class labels.
        classes : array-like of shape (n_classes,) or None
            All class names; None adds classes as they occur.
        rng : RandomState
            Random number generator of the subset.

        Returns
        -------
        EmbeddingStream
            The stream.
        """
        known = labels[:0] if classes is None else np.unique(np.asarray(classes))
        if classes is not None:
            codes_among(known, labels, "y", "Name all classes, or none of them.")
        return cls(known, None, Reservoir(RESERVOIR_SIZE, rng), x.dtype)

    def add(self, x: AnyArray, labels: AnyArray, n_jobs: int | None = None) -> EmbeddingStream:
        """Return the stream with the samples of one more batch.

        Parameters
        ----------
        x : ndarray of shape (n_samples, n_features)
            Samples.
        labels : ndarray of shape (n_samples,)
            Class labels, also of new classes.
        n_jobs : int, default=None
            Number of threads.

        Returns
        -------
        EmbeddingStream
            The moments of all samples so far; this stream stays as it is.
        """
        names = np.unique(np.concatenate([self.classes, labels]))
        moments = PooledMoments.of(x, np.searchsorted(names, labels), len(names), n_jobs=n_jobs)
        if self.moments is not None:
            places = np.searchsorted(names, self.classes)
            moments = self.moments.spread(places, len(names)).merge(moments)
        reservoir = replace(self.reservoir)
        reservoir.add(x.astype(self.dtype, copy=False), labels)
        return EmbeddingStream(names, moments, reservoir, self.dtype)

    def collected(self) -> EmbeddingMoments:
        """Return what the map of the samples so far is computed from."""
        assert self.moments is not None
        kept = np.searchsorted(self.classes, np.asarray(self.reservoir.labels))
        return EmbeddingMoments(self.classes, self.moments, np.asarray(self.reservoir.rows), kept)


def fit_default_map(
    data: EmbeddingMoments,
    search_classes: SearchClasses,
    *,
    n_components: int | None,
    normalize: bool,
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[FloatArray, Selection]:
    """Select the parameters of the default map on samples, and compute it from all moments.

    Parameters
    ----------
    data : EmbeddingMoments
        Moments and samples.
    search_classes : {"any", "new", "training"}
        Classes that searches will be about.
    n_components : int or None
        Output dimension; None keeps all dimensions.
    normalize : bool
        Whether outputs are scaled to unit length.
    rng : RandomState
        Random number generator of the splits.
    n_jobs : int or None
        Number of threads.

    Returns
    -------
    L : ndarray of shape (n_components, n_features)
        The map; the identity before there are samples of two classes.
    selection : Selection
        The parameters, and the scores of all candidates.
    """
    if np.count_nonzero(data.moments.count) < 2:  # the first batches of a stream
        L = np.eye(data.samples.shape[1])[:n_components]
        return L, Selection(MapParameters(weighting="whitening"), {})
    selection = select_parameters(
        data.samples,
        data.codes,
        search_classes,
        n_components=n_components,
        normalize=normalize,
        rng=rng,
        n_jobs=n_jobs,
    )
    return embedding_map(data.moments, selection.parameters, n_components), selection

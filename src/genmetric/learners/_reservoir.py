"""A uniform random sample of a stream, with bounded size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from genmetric._typing import AnyArray, FloatArray

#: Number of samples that `partial_fit` keeps to average over, unless `max_samples` is a number.
RESERVOIR_SIZE = 4096


@dataclass
class Reservoir:
    """The samples with the smallest random keys: every subset of that size is equally likely.

    Attributes
    ----------
    size : int
        Maximum number of samples.
    rng : RandomState
        Random number generator of the keys.
    n_seen : int
        Number of samples seen so far.
    rows : ndarray of shape (n_kept, n_features) or None
        Samples in the reservoir.
    labels : ndarray of shape (n_kept,) or None
        Class labels, if they were given.
    """

    size: int
    rng: np.random.RandomState
    n_seen: int = 0
    rows: AnyArray | None = None
    labels: AnyArray | None = None
    _keys: FloatArray = field(default_factory=lambda: np.empty(0))

    def add(self, X: AnyArray, labels: AnyArray | None = None) -> None:
        """Offer samples to the reservoir."""
        keys = np.concatenate([self._keys, self.rng.random_sample(len(X))])
        rows = X.copy() if self.rows is None else np.concatenate([self.rows, X])
        if labels is not None and self.labels is not None:
            labels = np.concatenate([self.labels, labels])
        self.n_seen += len(X)
        if len(rows) > self.size:
            kept = np.sort(np.argpartition(keys, self.size)[: self.size])
            keys, rows = keys[kept], rows[kept]
            labels = None if labels is None else labels[kept]
        self._keys, self.rows, self.labels = keys, rows, labels

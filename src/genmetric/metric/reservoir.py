"""A uniform sample of a stream of rows, of bounded size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from genmetric._typing import AnyArray, FloatArray

#: Rows that `partial_fit` keeps to average local metrics over, unless `max_samples` says more.
RESERVOIR_ROWS = 4096


@dataclass
class Reservoir:
    """The rows with the smallest of random keys: each subset of that size is equally likely.

    Attributes
    ----------
    size : int
        Most rows that are kept.
    rng : RandomState
        Source of the keys.
    n_seen : int
        Rows seen so far.
    rows : ndarray of shape (n_kept, n_features) or None
        Rows kept.
    """

    size: int
    rng: np.random.RandomState
    n_seen: int = 0
    rows: AnyArray | None = None
    _keys: FloatArray = field(default_factory=lambda: np.empty(0))

    def add(self, X: AnyArray) -> None:
        """Let rows take their chance."""
        keys = np.concatenate([self._keys, self.rng.random_sample(len(X))])
        rows = X.copy() if self.rows is None else np.concatenate([self.rows, X])
        self.n_seen += len(X)
        if len(rows) > self.size:
            kept = np.sort(np.argpartition(keys, self.size)[: self.size])
            keys, rows = keys[kept], rows[kept]
        self._keys, self.rows = keys, rows

"""Samples in batches: class statistics that merge, and a random sample of bounded size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from genmetric._typing import AnyArray, FloatArray
from genmetric._validation import codes_among
from genmetric.density import Coordinates
from genmetric.density.statistics import ClassStatistics, class_statistics

#: Bytes of the scatter matrices of a stream beyond which it is refused.
MAX_BYTES = 2**30


@dataclass(frozen=True)
class ClassStream:
    """Class statistics of the samples of some batches, with the names of the classes.

    `partial_fit`, `fit_batches`, `merge` and Dask are loops over :meth:`of` and :meth:`merge`. If
    `fixed`, all classes were named in advance, and some may have no samples.
    """

    classes: AnyArray
    coordinates: Coordinates
    stats: ClassStatistics
    fixed: bool = False

    @classmethod
    def of(
        cls,
        x: AnyArray,
        labels: AnyArray,
        *,
        classes: Any = None,
        coordinates: Coordinates | None = None,
        n_jobs: int | None = None,
    ) -> ClassStream:
        """Count the samples of one batch, in given coordinates or in their own."""
        fixed = classes is not None
        names = np.unique(np.asarray(classes) if fixed else labels)
        codes = codes_among(names, labels, "y", "Name all classes, or none of them.")
        _check_size(len(names), x.shape[1])
        own = Coordinates.of(x) if coordinates is None else coordinates
        stats = class_statistics(x, codes, len(names), coordinates=own, n_jobs=n_jobs)
        return cls(names, own, stats, fixed)

    @property
    def n_samples(self) -> int:
        """Number of samples counted."""
        return int(self.stats.count.sum())

    def merge(self, other: ClassStream) -> ClassStream:
        """Return the statistics of the samples of both, in the coordinates of this one."""
        if (self.classes.dtype.kind in "biuf") != (other.classes.dtype.kind in "biuf"):
            raise TypeError(
                f"y has the labels {self.classes.tolist()} in some samples and "
                f"{other.classes.tolist()} in others: numbers and names. Convert the column to one "
                "kind."
            )
        classes = np.union1d(self.classes, other.classes)
        _check_size(len(classes), self.stats.mean.shape[1])
        moved = other.stats.moved(other.coordinates, self.coordinates)
        left, right = (
            stats.place(np.searchsorted(classes, names), len(classes))
            for stats, names in ((self.stats, self.classes), (moved, other.classes))
        )
        return ClassStream(classes, self.coordinates, left.merge(right), self.fixed)

    def seen_stats(self) -> ClassStatistics:
        """Return the statistics of the classes that have samples."""
        return self.stats.take(np.flatnonzero(self.stats.count))


def _check_size(n_classes: int, n_features: int) -> None:
    """Raise a ValueError if the scatter matrices of a stream would take too much memory."""
    if 8 * n_classes * n_features**2 > MAX_BYTES:
        raise ValueError(
            f"The scatter matrices of {n_classes} classes of {n_features} features take more than "
            f"{MAX_BYTES / 2**30:.0f} GiB. For many classes use genmetric.EmbeddingAdapter, which "
            "learns from batches without them, or fit, which keeps small classes as samples."
        )


@dataclass(frozen=True)
class Reservoir:
    """A uniform random sample of bounded size: the samples with the smallest random keys."""

    size: int
    keys: FloatArray
    rows: AnyArray
    labels: AnyArray

    def merge(self, other: Reservoir) -> Reservoir:
        """Return the random sample of the samples of both."""
        keys, rows, labels = (
            np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("keys", "rows", "labels")
        )
        kept = np.arange(len(keys))
        if len(keys) > self.size:
            kept = np.sort(np.argpartition(keys, self.size)[: self.size])
        return Reservoir(self.size, keys[kept], rows[kept], labels[kept])

"""Samples in batches: class statistics that merge, and a random sample of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.random import sample_without_replacement

from genmetric._parallel import one_blas_thread
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import codes_among, labelled_samples
from genmetric.density import Coordinates
from genmetric.density.statistics import ClassStatistics, class_statistics, fourth_moments
from genmetric.geometry import MetricSum

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

    def seen(self) -> ClassStream:
        """Return the classes that have samples."""
        some = np.flatnonzero(self.stats.count)
        return replace(self, classes=self.classes[some], stats=self.stats.take(some))

    def add_fourth_moments(self, parts: Iterable[FloatArray], advice: str) -> FloatArray:
        """Add up the results of :func:`batch_fourth_moments`; raise if labels have changed."""
        first = self.seen().stats.count
        moments, again = sum(parts, np.zeros((2, len(first))))
        if (again != first).any():
            raise ValueError(
                f"The classes had {first.astype(int).tolist()} samples the first time and "
                f"{again.astype(int).tolist()} the second time. {advice}"
            )
        return np.asarray(moments)


def batch_fourth_moments(
    x: AnyArray,
    labels: AnyArray,
    classes: AnyArray,
    means: FloatArray,
    coordinates: Coordinates,
    advice: str = "",
    n_jobs: int | None = None,
) -> FloatArray:
    """Return fourth moments and numbers of samples of the classes in a batch, (2, n_classes)."""
    codes = codes_among(classes, labels, "y", advice)
    fourth = fourth_moments(x, codes, means, coordinates, n_jobs=n_jobs)
    return np.stack([fourth, np.bincount(codes, minlength=len(classes))])


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

    def fourth_moments(
        self, stream: ClassStream, means: FloatArray, coordinates: Coordinates
    ) -> FloatArray:
        """Estimate the fourth moments of the classes of the stream that this is a sample of.

        They are exact while it has all samples. A class without samples in it gets the fourth
        moment of its Gaussian.
        """
        seen = stream.seen()
        parts = batch_fourth_moments(self.rows, self.labels, seen.classes, means, coordinates)
        fourth, kept = parts[0] / np.maximum(parts[1], 1), parts[1] > 0
        count, traces, squares, _ = seen.stats.moved(stream.coordinates, coordinates).moments
        return np.asarray(count * np.where(kept, fourth, traces**2 + 2 * squares))


# Loops over batches


def checked_batches(
    estimator: Any, make_batches: Callable[[], Iterable[tuple[Any, Any]]], *, reset: bool = False
) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Validate the samples of each batch; skip empty ones."""
    for number, (X, y) in enumerate(make_batches()):
        if len(X) == len(y) == 0:
            continue
        try:
            yield labelled_samples(estimator, X, y, reset=reset)
        except (TypeError, ValueError) as error:
            error.add_note(f"in batch {number} of make_batches()")
            raise
        reset = False


def stream_of_batches(
    batches: Iterable[tuple[AnyArray, AnyArray]], n_jobs: int | None
) -> ClassStream:
    """Return the class statistics of the samples of all batches."""
    stream: ClassStream | None = None
    with one_blas_thread():
        for x, labels in batches:
            start = None if stream is None else stream.coordinates
            part = ClassStream.of(x, labels, coordinates=start, n_jobs=n_jobs)
            stream = part if stream is None else stream.merge(part)
    if stream is None:
        raise ValueError(
            "make_batches() returned no samples. It must return a new iterator each time."
        )
    return stream


def draw_rows(n_samples: int, n_draws: int | None, rng: np.random.RandomState) -> IntArray:
    """Draw samples without replacement, ascending; None draws all."""
    if n_draws is None:
        return np.arange(n_samples)
    return np.sort(sample_without_replacement(n_samples, n_draws, random_state=rng))


def sum_of_batches(
    sum_metrics: Callable[[AnyArray], MetricSum],
    batches: Iterable[tuple[AnyArray, AnyArray]],
    n_samples: int,
    n_draws: int | None,
    rng: np.random.RandomState,
) -> MetricSum:
    """Sum the local metrics of the samples of all batches, or of a random subset."""
    wanted = np.arange(0) if n_draws is None else draw_rows(n_samples, n_draws, rng)
    total, start = None, 0
    for x, _ in batches:
        first, last = np.searchsorted(wanted, [start, start + len(x)])
        chosen = x if n_draws is None else x[wanted[first:last] - start]
        start += len(x)
        if len(chosen):
            part = sum_metrics(chosen)
            total = part if total is None else total.merge(part)
    if total is None or start != n_samples:
        raise ValueError(
            f"make_batches() returned {n_samples} samples the first time and {start} the last "
            "time. It must return the same samples each time."
        )
    return total

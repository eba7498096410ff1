"""Fits that see the rows batch by batch: from disk in two passes, or as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from genmetric._chunks import one_blas_thread
from genmetric._typing import AnyArray, ArrayLike, IntArray
from genmetric.density.frame import Frame
from genmetric.density.statistics import ClassStatistics, class_statistics
from genmetric.geometry.summation import MetricSum
from genmetric.metric.fitting import refuse_row_models

#: A batch so many times larger than the first moves the frame.
MUCH_LARGER = 2.0**10


class ClassTally:
    """Class statistics of a stream in which classes may turn up late.

    Parameters
    ----------
    classes : array-like of shape (n_classes,), default=None
        All class names, where known; an unknown label is then an error.
    """

    def __init__(self, classes: ArrayLike | None = None) -> None:
        self.fixed = classes is not None
        self.classes: AnyArray = np.empty(0) if classes is None else np.unique(np.asarray(classes))
        self.frame: Frame | None = None
        self._sized = False
        self.stats: ClassStatistics | None = None

    def codes(self, labels: AnyArray) -> IntArray:
        """Class index of each label, among the classes known so far."""
        codes = np.searchsorted(self.classes, labels)
        known = self.classes[np.minimum(codes, len(self.classes) - 1)] == labels
        if not np.all(known):
            strange = np.unique(labels[~np.asarray(known)])
            raise ValueError(
                f"y has labels {strange.tolist()} that are none of the classes "
                f"{self.classes.tolist()}. Name all classes in the first call of partial_fit."
            )
        return np.asarray(codes, np.intp)

    def add(self, X: AnyArray, labels: AnyArray, n_jobs: int | None = None) -> None:
        """Count rows in."""
        self._fit_frame(X)
        if not self.fixed:
            self._meet(np.unique(labels))
        new = class_statistics(
            X, self.codes(labels), len(self.classes), frame=self.frame, n_jobs=n_jobs
        )
        self.stats = new if self.stats is None else self.stats.merge(new)

    def _fit_frame(self, X: AnyArray) -> None:
        """Take the frame of the first batch: it only keeps numbers small, so it is near enough.

        Unless its rows were all equal, or all but equal against those that follow.
        """
        frame, constant = Frame.of(X), bool((X[0] == X).all())
        if self.frame is None:
            self.frame, self._sized = frame, not constant
        elif not constant and not (self._sized and frame.scale < MUCH_LARGER * self.frame.scale):
            if self.stats is not None:
                self.stats = self.stats.rescaled(self.frame.scale / frame.scale)
            self.frame, self._sized = Frame(self.frame.center, frame.scale), True

    def _meet(self, labels: AnyArray) -> None:
        if self.stats is None:
            self.classes = labels
            return
        classes = np.union1d(self.classes, labels)
        if len(classes) > len(self.classes):
            places = np.searchsorted(classes, self.classes)
            self.stats = self.stats.spread(places, len(classes))
            self.classes = classes

    def present(self) -> tuple[AnyArray, ClassStatistics]:
        """Names and statistics of the classes that have rows."""
        assert self.stats is not None
        seen = np.flatnonzero(self.stats.count)
        return self.classes[seen], self.stats.take(seen)


class StreamingMixin:
    """`fit_batches` and `partial_fit` of :class:`~genmetric.GenerativeMetric`."""

    def fit_batches(self: Any, make_batches: Callable[[], Iterable[tuple[Any, Any]]]) -> Any:
        """Fit on rows that do not fit in memory, in two passes over batches of them.

        The first pass fits the Gaussians, the second averages the local metrics; the answer is
        that of `fit` on all rows together, up to rounding.

        Parameters
        ----------
        make_batches : callable
            Returns a fresh iterator of pairs (X, y) each time it is called, over the same rows.

        Returns
        -------
        self : GenerativeMetric
            The fitted estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from genmetric import GenerativeMetric
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> def batches():
        ...     for rows in np.array_split(np.arange(150), 4):
        ...         yield X[rows], y[rows]
        >>> streamed = GenerativeMetric().fit_batches(batches)
        >>> bool(np.allclose(streamed.metric_, GenerativeMetric().fit(X, y).metric_))
        True
        """
        self._check_parameters()
        refuse_row_models(self, "fit_batches")
        if not callable(make_batches):
            raise TypeError(
                "make_batches must be a function that returns a fresh iterator of (X, y) each "
                f"time; got {type(make_batches).__name__}. Two passes are made."
            )
        tally = ClassTally()
        n_rows = 0
        with one_blas_thread():
            for x, labels in self._batches(make_batches, first=True):
                tally.add(x, labels, self.n_jobs)
                n_rows += len(x)
            classes, stats = tally.present()
            wanted = self._draw(n_rows)
            job = self._prepare(tally.frame, stats, classes, n_rows)
            total: MetricSum | None = None
            n_again = 0
            for x, _ in self._batches(make_batches, first=False):
                rows = slice(None)
                if wanted is not None:
                    ends = np.searchsorted(wanted, [n_again, n_again + len(x)])
                    rows = wanted[ends[0] : ends[1]] - n_again
                n_again += len(x)
                part = job.metric_sum(x[rows])
                total = part if total is None else total.merge(part)
        if n_again != n_rows:
            raise ValueError(
                f"make_batches gave {n_rows} rows the first time and {n_again} the second. It has "
                "to return a fresh iterator over the same rows each time it is called."
            )
        assert total is not None
        self._store(job, total, total.relative_stderr(n_rows))
        return self

    def _batches(
        self: Any, make_batches: Callable[[], Iterable[tuple[Any, Any]]], *, first: bool
    ) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Validated batches; an error says in which of them it arose."""
        reset = first
        for number, batch in enumerate(make_batches()):
            try:
                X, y = batch
                if len(X) == 0:
                    continue
                x, labels = self._validate(X, y, reset=reset)
            except (TypeError, ValueError) as error:
                error.add_note(f"in batch {number} of make_batches()")
                raise
            reset = False
            yield x, labels
        if reset and first:
            raise ValueError("make_batches() gave no rows at all.")

    def partial_fit(self: Any, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Any:
        """Learn from more rows.

        The Gaussians are those of all rows seen so far, exactly; the local metrics are averaged
        over a uniform sample of them, of `max_samples` rows where that is a number and 4096
        otherwise, and `metric_stderr_` says how far that average may be off. A first call, or one
        after `fit`, starts anew.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All class names; only read by the first call. Where missing, classes join as they come.

        Returns
        -------
        self : GenerativeMetric
            The estimator, fitted on all rows seen so far. Until rows of two classes have come the
            metric is Euclidean.
        """
        self._check_parameters()
        refuse_row_models(self, "partial_fit")
        stream = getattr(self, "_stream", None)
        x, labels = self._validate(X, y, reset=stream is None)
        if stream is None:
            stream = ClassTally(classes), self._new_reservoir()
        tally, reservoir = stream
        with one_blas_thread():
            tally.add(x, labels, self.n_jobs)
            reservoir.add(x)
            seen, stats = tally.present()
            if len(seen) < 2:
                self._store_euclidean(tally, stats)
            else:
                job = self._prepare(tally.frame, stats, seen, reservoir.n_seen)
                total = job.metric_sum(reservoir.rows)
                self._store(job, total, total.relative_stderr(reservoir.n_seen))
        self._stream = stream
        return self

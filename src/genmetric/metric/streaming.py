"""Fits that see the rows batch by batch: from disk in two passes, or as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, validate_data

from genmetric._chunks import one_blas_thread
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, IntArray
from genmetric._validation import codes_among, form_points, refuse_lazy
from genmetric.density.frame import SMALLEST, Frame
from genmetric.density.statistics import ClassStatistics, class_statistics
from genmetric.geometry.summation import MetricSum
from genmetric.metric.fitting import MetricJob, refuse_row_models
from genmetric.metric.merging import TreeMerge

#: Rows that a batch's frame is made from, and the mean square in it at which all rows are taken.
FRAME_ROWS, FAR = 1024, 2.0**20


@dataclass(frozen=True)
class ClassTally:
    """Class statistics of some of the rows, in the frame of those rows.

    Nothing in it depends on what other rows there are, so batches of a stream and blocks on a
    cluster are counted alike, in any order, and merged.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Class names, ascending.
    frame : Frame
        Coordinates of the statistics.
    stats : ClassStatistics
        Moments of the classes.
    fixed : bool
        Whether all classes were named beforehand, so that some may have no rows.
    """

    classes: AnyArray
    frame: Frame
    stats: ClassStatistics
    fixed: bool = False

    @classmethod
    def of(
        cls,
        X: AnyArray,
        labels: AnyArray,
        *,
        classes: AnyArray | None = None,
        n_jobs: int | None = None,
    ) -> ClassTally:
        """Count rows; with `classes`, sorted, any other label is an error."""
        if classes is None:
            found, codes = _encoded(labels)
        else:
            advice = "Name all classes, or none of them."
            found, codes = classes, codes_among(classes, labels, "y", advice)
        fixed, n_features = classes is not None, X.shape[1]
        if len(X) > FRAME_ROWS:
            # Frames only keep numbers small. That of some rows does, unless others are unlike them.
            with suppress(ValueError), np.errstate(over="ignore", invalid="ignore"):
                frame = Frame.of(X[:: len(X) // FRAME_ROWS])
                stats = class_statistics(X, codes, len(found), frame=frame, n_jobs=n_jobs)
                if 1 / FAR < np.trace(stats.total_covariance) / n_features < FAR:
                    return cls(found, frame, stats, fixed)
        frame = Frame.of(X)
        stats = class_statistics(X, codes, len(found), frame=frame, n_jobs=n_jobs)
        return cls(found, frame, stats, fixed)

    @property
    def n_rows(self) -> int:
        """Rows counted."""
        return int(self.stats.count.sum())

    def merge(self, other: ClassTally) -> ClassTally:
        """The tally of the rows of both."""
        classes = _union(self.classes, other.classes)
        frame = self._common_frame(other)
        stats = [
            tally._moved(frame).stats.spread(np.searchsorted(classes, tally.classes), len(classes))
            for tally in (self, other)
        ]
        return ClassTally(classes, frame, stats[0].merge(stats[1]), self.fixed)

    def _common_frame(self, other: ClassTally) -> Frame:
        """The centre of these rows, and a scale for what is spread widest."""
        scales = [
            tally.frame.scale
            for tally in (self, other)
            if tally.stats.mean.any() or tally.stats.scatter.any()
        ]
        apart = other.frame.center / 2 - self.frame.center / 2
        reach = float(np.abs(apart).max())
        if reach:
            distance = 2 * reach * float(np.sqrt(np.mean((apart / reach) ** 2)))
            if distance >= SMALLEST:
                scales.append(Frame.around(self.frame.center, distance).scale)
        return Frame(self.frame.center, max(scales, default=1.0))

    def _moved(self, frame: Frame) -> ClassTally:
        """The same rows in another frame."""
        stats = self.stats.rescaled(self.frame.scale / frame.scale)
        shift = (self.frame.center - frame.center) / frame.scale
        mean = np.where(stats.count[:, None] > 0, stats.mean + shift, 0.0)
        return replace(self, frame=frame, stats=replace(stats, mean=mean))

    def settled(self) -> ClassTally:
        """The classes that have rows, in the frame of all of them together."""
        seen = np.flatnonzero(self.stats.count)
        stats, frame = self.stats.take(seen), self.frame
        mean = (stats.count @ stats.mean) / stats.count.sum()
        spread = float(np.sqrt(np.trace(stats.total_covariance) / len(mean)))
        present = replace(self, classes=self.classes[seen], stats=stats)
        center = frame.center + frame.scale * mean
        return present._moved(
            Frame.around(center, frame.scale * spread) if spread else Frame(center, 1.0)
        )


def _encoded(labels: AnyArray) -> tuple[AnyArray, IntArray]:
    """Class names, ascending, and the class index of each label; refuse what is no class."""
    if labels.dtype.kind == "O":
        # Ten times faster than sorting the labels, which are Python's own.
        values = labels.tolist()
        names = sorted(set(values))
        found, places = np.array(names, object), dict(zip(names, range(len(names)), strict=True))
        codes = np.fromiter(map(places.__getitem__, values), np.intp, len(values))
    else:
        found, codes = np.unique(labels, return_inverse=True)
    if labels.dtype.kind not in "biu":
        # Each twice: of names that all differ scikit-learn warns.
        check_classification_targets(np.tile(found, 2))
    return found, codes


def _union(left: AnyArray, right: AnyArray) -> AnyArray:
    """Names of the classes of both; numbers and names are no labels of one column."""
    kinds = {"number" if names.dtype.kind in "biuf" else "name" for names in (left, right)}
    if len(kinds) > 1:
        raise TypeError(
            f"y has the labels {left.tolist()} in some rows and {right.tolist()} in others: numbers "
            "and names. Convert the column to one kind."
        )
    return left if np.array_equal(left, right) else np.union1d(left, right)


def batch_tally(
    estimator: Any, X: Any, y: Any, *, classes: AnyArray | None = None, reset: bool = False
) -> ClassTally | None:
    """First pass over one batch: its class statistics, or None where it has no rows."""
    refuse_lazy(X)
    refuse_lazy(y, "y")
    # Before anything is said of rows: an empty batch with labels is one that does not line up.
    check_consistent_length(X, y)
    if len(X) == 0:
        return None
    X = form_points(X, estimator.preprocessor, estimator)
    x, labels = validate_data(estimator, X, y, dtype=[np.float64, np.float32], reset=reset)
    return ClassTally.of(_in_order(x), labels, classes=classes, n_jobs=estimator.n_jobs)


def batch_rows(estimator: Any, X: Any) -> AnyArray:
    """Rows of one batch, validated as those of the first pass were."""
    if len(X) == 0:
        return np.empty((0, estimator.n_features_in_))
    X = form_points(X, estimator.preprocessor, estimator)
    return _in_order(validate_data(estimator, X, dtype=[np.float64, np.float32], reset=False))


def batch_sum(job: MetricJob, x: AnyArray, wanted: IntArray | None = None) -> MetricSum | None:
    """Second pass over one batch: the sum over its wanted rows, or None where it has none."""
    rows = x if wanted is None else x[wanted]
    return job.metric_sum(rows) if len(rows) else None


def plan_second_pass(estimator: Any, tally: ClassTally) -> tuple[MetricJob, IntArray | None]:
    """What to add up, and over which rows, once all rows have been counted.

    Parameters
    ----------
    estimator : GenerativeMetric
        Its parameters are read; the number of features is set.
    tally : ClassTally
        Of all rows.

    Returns
    -------
    job : MetricJob
        For :func:`batch_sum`.
    wanted : ndarray of int or None
        Rows that `max_samples` draws, ascending; ``None`` for all.
    """
    estimator.n_features_in_ = tally.stats.mean.shape[1]
    with one_blas_thread():
        wanted = estimator._draw(tally.n_rows)
        settled = tally.settled()
        job = estimator._prepare(settled.frame, settled.stats, settled.classes, tally.n_rows)
    return job, wanted


def finish(estimator: Any, job: MetricJob, total: MetricSum) -> Any:
    """Set the fitted attributes from the sum over all rows, and return the estimator."""
    estimator._store(job, total, total.relative_stderr(job.n_rows))
    return estimator


def wanted_of(wanted: IntArray | None, start: int, n_rows: int) -> IntArray | None:
    """Which rows of a batch are wanted, of ascending numbers in the whole; None for all."""
    if wanted is None:
        return None
    ends = np.searchsorted(wanted, [start, start + n_rows])
    return np.asarray(wanted[ends[0] : ends[1]] - start)


def _in_order(x: AnyArray) -> AnyArray:
    """Rows one after the other in memory: a product's last bits follow the layout."""
    return np.require(x, requirements=["C", "A"])


def _numbered(make_batches: Callable[[], Iterable[Any]]) -> Iterator[tuple[int, tuple[Any, Any]]]:
    """Batches and their numbers."""
    for number, batch in enumerate(make_batches()):
        with _naming(number):
            X, y = batch
        yield number, (X, y)


@contextmanager
def _naming(number: int) -> Iterator[None]:
    """Let an error say in which batch it arose."""
    try:
        yield
    except (TypeError, ValueError) as error:
        error.add_note(f"in batch {number} of make_batches()")
        raise


class StreamingMixin:
    """`fit_batches` and `partial_fit` of :class:`~genmetric.GenerativeMetric`."""

    @all_or_nothing
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
        with one_blas_thread():
            tallies: TreeMerge[ClassTally] = TreeMerge()
            reset = True
            for number, (X, y) in _numbered(make_batches):
                with _naming(number):
                    part = batch_tally(self, X, y, reset=reset)
                tallies.add(part)
                reset &= part is None
            tally = tallies.result()
            if tally is None:
                raise ValueError("make_batches() gave no rows at all.")
            job, wanted = plan_second_pass(self, tally)
            sums: TreeMerge[MetricSum] = TreeMerge()
            n_again = 0
            for number, (X, _) in _numbered(make_batches):
                with _naming(number):
                    x = batch_rows(self, X)
                    sums.add(batch_sum(job, x, wanted_of(wanted, n_again, len(x))))
                n_again += len(x)
        if n_again != job.n_rows:
            raise ValueError(
                f"make_batches gave {job.n_rows} rows the first time and {n_again} the second. It "
                "has to return a fresh iterator over the same rows each time it is called."
            )
        total = sums.result()
        assert total is not None
        return finish(self, job, total)

    @all_or_nothing
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
        tally, reservoir = (None, self._new_reservoir()) if stream is None else stream
        if tally is not None:
            classes = tally.classes if tally.fixed else None
        elif classes is not None:
            classes = np.unique(np.asarray(classes))
        with one_blas_thread():
            new = ClassTally.of(x, labels, classes=classes, n_jobs=self.n_jobs)
            tally = new if tally is None else tally.merge(new)
            reservoir = replace(reservoir)  # the one there is stays, should what follows fail
            reservoir.add(x)
            seen = tally.settled()
            if len(seen.classes) < 2:
                self._store_euclidean(tally, seen.stats)
            else:
                job = self._prepare(seen.frame, seen.stats, seen.classes, reservoir.n_seen)
                finish(self, job, job.metric_sum(reservoir.rows))
        self._stream = tally, reservoir
        return self

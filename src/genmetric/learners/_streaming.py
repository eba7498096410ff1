"""Fits that receive the samples in batches: from disk in passes, or as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, validate_data

from genmetric._array_api import host_array
from genmetric._labels import check_class_labels
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import codes_among, form_points, refuse_lazy
from genmetric.density._factored_statistics import AnyStatistics, model_statistics
from genmetric.density._mixed_statistics import (
    MergeableStatistics,
    merge_classes,
    mergeable_statistics,
)
from genmetric.density._scaling import MIN_SPREAD, Scaling
from genmetric.density._whitening import fourth_moments
from genmetric.geometry._summation import MetricSum
from genmetric.learners._fitting import (
    Average,
    MetricPlan,
    base_coordinates,
    plan_fit,
    warn_limited,
    warn_unscaled,
)
from genmetric.learners._merging import Mergeable, TreeMerge, merge_two
from genmetric.learners._sample_totals import SampleTotals
from genmetric.learners._sampling import draw_samples, warn_few_features
from genmetric.learners._specification import FitSpecification

#: Number of samples that determine the frame of a batch, and the mean square in it beyond which
#: all samples of the batch determine it.
FRAME_SAMPLES, FAR_RATIO = 1024, 2.0**20

#: From coordinates and class statistics in them to the fourth moments of the classes.
FourthPass: TypeAlias = Callable[[Scaling, AnyStatistics], FloatArray]


@dataclass(frozen=True)
class ClassTally:
    """Class statistics of some samples, in coordinates that fit these samples.

    Nothing in it depends on other samples, so that batches of a stream and blocks on a cluster are
    counted in the same way, in any order, and merged.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Class names, ascending.
    frame : Scaling
        Coordinates of the statistics.
    stats : ClassStatistics or MixedStatistics
        Moments of the classes. With many classes only those with more samples than features have
        scatter matrices.
    fixed : bool
        Whether all classes were named beforehand, so that some may have no samples.
    """

    classes: AnyArray
    frame: Scaling
    stats: MergeableStatistics
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
        """Count samples; with `classes`, which must be sorted, any other label is an error."""
        if classes is None:
            found, codes = _encoded(labels)
        else:
            advice = "Name all classes, or none of them."
            found, codes = classes, codes_among(classes, labels, "y", advice)
        fixed, n_features = classes is not None, X.shape[1]
        if len(X) > FRAME_SAMPLES:
            # A frame only keeps numbers small. The frame of some samples does, unless others
            # differ.
            with suppress(ValueError), np.errstate(over="ignore", invalid="ignore"):
                frame = Scaling.of(X[:: len(X) // FRAME_SAMPLES])
                stats = mergeable_statistics(X, codes, len(found), frame=frame, n_jobs=n_jobs)
                if 1 / FAR_RATIO < stats.total_variance / n_features < FAR_RATIO:
                    return cls(found, frame, stats, fixed)
        frame = Scaling.of(X)
        stats = mergeable_statistics(X, codes, len(found), frame=frame, n_jobs=n_jobs)
        return cls(found, frame, stats, fixed)

    @property
    def n_samples(self) -> int:
        """Number of samples counted."""
        return int(self.stats.count.sum())

    def merge(self, other: ClassTally) -> ClassTally:
        """Return the tally of the samples of both."""
        classes = _union(self.classes, other.classes)
        frame = self._common_frame(other)
        stats = merge_classes(
            (self._moved(frame).stats, other._moved(frame).stats),
            (
                np.searchsorted(classes, self.classes),
                np.searchsorted(classes, other.classes),
            ),
            len(classes),
        )
        return ClassTally(classes, frame, stats, self.fixed)

    def _common_frame(self, other: ClassTally) -> Scaling:
        """Return the centre of these samples, with a scale for the widest spread."""
        scales = [tally.frame.scale for tally in (self, other) if not tally.stats.is_zero]
        apart = other.frame.center / 2 - self.frame.center / 2
        reach = float(np.abs(apart).max())
        if reach:
            distance = 2 * reach * float(np.sqrt(np.mean((apart / reach) ** 2)))
            if distance >= MIN_SPREAD:
                scales.append(Scaling.around(self.frame.center, distance).scale)
        return Scaling(self.frame.center, max(scales, default=1.0))

    def _moved(self, frame: Scaling) -> ClassTally:
        """Return the tally of the same samples in another frame."""
        stats = self.stats.rescaled(self.frame.scale / frame.scale)
        shift = (self.frame.center - frame.center) / frame.scale
        mean = np.where(stats.count[:, None] > 0, stats.mean + shift, 0.0)
        return replace(self, frame=frame, stats=replace(stats, mean=mean))

    def settled(self) -> ClassTally:
        """Return the tally of the classes with samples, in the frame of all of them."""
        seen = np.flatnonzero(self.stats.count)
        stats, frame = self.stats.take(seen), self.frame
        mean = (stats.count @ stats.mean) / stats.count.sum()
        spread = float(np.sqrt(stats.total_variance / len(mean)))
        present = replace(self, classes=self.classes[seen], stats=stats)
        center = frame.center + frame.scale * mean
        return present._moved(
            Scaling.around(center, frame.scale * spread) if spread else Scaling(center, 1.0)
        )


def _encoded(labels: AnyArray) -> tuple[AnyArray, IntArray]:
    """Return the class names, ascending, and the class index of each label."""
    if labels.dtype.kind == "O":
        # Ten times faster than sorting the labels, which are Python objects.
        values = labels.tolist()
        names = sorted(set(values))
        found, places = np.array(names, object), dict(zip(names, range(len(names)), strict=True))
        codes = np.fromiter(map(places.__getitem__, values), np.intp, len(values))
    else:
        found, codes = np.unique(labels, return_inverse=True)
    return class_names(found), codes


def class_names(labels: AnyArray) -> AnyArray:
    """Return the distinct labels, ascending; raise if they are not classes."""
    found = np.unique(labels)
    if found.dtype.kind not in "biu":
        # Each twice, because scikit-learn warns if all labels differ.
        check_class_labels(np.tile(found, 2), "GenerativeMetric")
    return found


def _union(left: AnyArray, right: AnyArray) -> AnyArray:
    """Return the class names of both; raise if one has numbers and the other names."""
    kinds = {"number" if names.dtype.kind in "biuf" else "name" for names in (left, right)}
    if len(kinds) > 1:
        raise TypeError(
            f"y has the labels {left.tolist()} in some samples and {right.tolist()} in others: numbers "
            "and names. Convert the column to one kind."
        )
    return left if np.array_equal(left, right) else np.union1d(left, right)


@dataclass(frozen=True)
class FirstPass:
    """Results of the first pass over some samples.

    Attributes
    ----------
    tally : ClassTally
        Statistics of the classes.
    totals : SampleTotals
        Totals that later passes must find again.
    """

    tally: ClassTally
    totals: SampleTotals

    @classmethod
    def of(
        cls,
        X: AnyArray,
        labels: AnyArray,
        *,
        classes: AnyArray | None = None,
        n_jobs: int | None = None,
    ) -> FirstPass:
        """Count samples and add them up; see :meth:`ClassTally.of`."""
        return cls(ClassTally.of(X, labels, classes=classes, n_jobs=n_jobs), SampleTotals.of(X))

    def merge(self, other: FirstPass) -> FirstPass:
        """Return the results over the samples of both."""
        return FirstPass(self.tally.merge(other.tally), self.totals.merge(other.totals))


@dataclass(frozen=True)
class FourthMoments:
    """Fourth moment of each class over some samples, about means that are known."""

    values: FloatArray

    def merge(self, other: FourthMoments) -> FourthMoments:
        """Return the moments over the samples of both."""
        return FourthMoments(self.values + other.values)


def labelled_batch(
    estimator: BaseEstimator, X: Any, y: Any, *, reset: bool = False
) -> tuple[AnyArray, AnyArray] | None:
    """Return the validated samples and labels of a batch, or None if it is empty.

    Parameters
    ----------
    estimator : GenerativeMetric
        Estimator that checks the number and names of features, and takes them if `reset`.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Class labels.
    reset : bool, default=False
        Whether this is the first batch.

    Returns
    -------
    tuple of ndarray or None
        Samples, contiguous in memory, and labels.
    """
    refuse_lazy(X)
    refuse_lazy(y, "y")
    # First of all, because an empty batch with labels is inconsistent, not empty.
    check_consistent_length(X, y)
    X = host_array(X)
    if len(X) == 0:
        return None
    X = form_points(X, estimator.preprocessor, estimator)
    x, labels = validate_data(
        estimator, X, host_array(y), dtype=[np.float64, np.float32], reset=reset
    )
    return _contiguous(x), labels


def batch_samples(estimator: BaseEstimator, X: Any) -> AnyArray:
    """Return the validated samples of a batch of a later pass."""
    X = host_array(X)
    if len(X) == 0:
        return np.empty((0, estimator.n_features_in_))
    X = form_points(X, estimator.preprocessor, estimator)
    return _contiguous(validate_data(estimator, X, dtype=[np.float64, np.float32], reset=False))


def batch_sum(plan: MetricPlan, x: AnyArray, wanted: IntArray | None = None) -> MetricSum | None:
    """Return the sum of the local metrics of the wanted samples of a batch, or None."""
    rows = x if wanted is None else x[wanted]
    return plan.metric_sum(rows) if len(rows) else None


def batch_fourth_moments(
    x: AnyArray,
    labels: AnyArray,
    classes: AnyArray,
    frame: Scaling,
    means: FloatArray,
    n_jobs: int | None = None,
) -> FourthMoments:
    """Return the fourth moments of the classes over a batch, in known coordinates."""
    codes = codes_among(classes, labels, "y", "All passes need the same labels.")
    return FourthMoments(fourth_moments(x, codes, means, frame, n_jobs=n_jobs))


def plan_batches(
    spec: FitSpecification, tally: ClassTally, fourth: Callable[[AnyArray], FourthPass]
) -> tuple[MetricPlan, IntArray | None]:
    """Plan the sum over batches once all samples have been counted.

    Parameters
    ----------
    spec : FitSpecification
        Parameters of the fit.
    tally : ClassTally
        Tally of all samples.
    fourth : callable
        From the classes that have samples to a function that makes the pass over the batches for
        their fourth moments, if one is needed.

    Returns
    -------
    plan : MetricPlan
        For :func:`batch_sum`.
    wanted : ndarray of int or None
        Samples that `max_samples` draws, ascending; ``None`` for all.
    """
    n_draws, n_samples = spec.n_draws(tally.n_samples), tally.n_samples
    if n_draws is not None:
        warn_few_features(tally.stats.mean.shape[1])
    wanted = draw_samples(n_samples, n_draws, None, spec.rng())
    settled = tally.settled()
    before = model_statistics(settled.stats, allow_factors=spec.allows_factors)
    warn_unscaled(spec, before)
    frame, stats = base_coordinates(spec, settled.frame, before, fourth(settled.classes))
    plan = plan_fit(spec, frame, stats, settled.classes, n_samples)
    limit = plan.default_limit(n_samples)
    return plan, wanted if limit is None else draw_samples(n_samples, limit, None, spec.rng())


def average_batches(plan: MetricPlan, total: MetricSum) -> Average:
    """Return the average of the local metrics of batches; warn if not all could be computed."""
    average = Average(total, total.relative_stderr(plan.n_samples))
    if plan.spec.max_samples is None and total.weight < plan.n_samples:
        warn_limited(average, plan.n_samples)
    return average


def wanted_of(wanted: IntArray | None, start: int, n_samples: int) -> IntArray | None:
    """Return the wanted samples of a batch, given ascending indices in the whole; None for all."""
    if wanted is None:
        return None
    ends = np.searchsorted(wanted, [start, start + n_samples])
    return np.asarray(wanted[ends[0] : ends[1]] - start)


def _contiguous(x: AnyArray) -> AnyArray:
    """Return samples contiguous in memory, because the last bits of a product depend on it."""
    return np.require(x, requirements=["C", "A"])


@dataclass(frozen=True)
class BatchSource:
    """Batches that can be read several times, validated by an estimator.

    Attributes
    ----------
    estimator : GenerativeMetric
        Estimator that checks the number and names of features.
    make_batches : callable
        Returns a new iterator of pairs (X, y) over the same samples.
    n_jobs : int or None
        Number of threads.
    """

    estimator: BaseEstimator
    make_batches: Callable[[], Iterable[tuple[Any, Any]]]
    n_jobs: int | None

    def first_pass(self) -> FirstPass:
        """Read all batches, and return the statistics of the classes and the totals."""
        seen = False

        def part(X: Any, y: Any) -> FirstPass | None:
            nonlocal seen
            batch = labelled_batch(self.estimator, X, y, reset=not seen)
            if batch is None:
                return None
            seen = True
            return FirstPass.of(*batch, n_jobs=self.n_jobs)

        merged: FirstPass | None = self._merge(part)
        if merged is None:
            raise ValueError("make_batches() returned no samples.")
        return merged

    def fourth_moments(self, classes: AnyArray) -> FourthPass:
        """Return a function that reads all batches for the fourth moments of the classes."""

        def read(frame: Scaling, stats: AnyStatistics) -> FloatArray:
            def part(X: Any, y: Any) -> FourthMoments | None:
                batch = labelled_batch(self.estimator, X, y)
                if batch is None:
                    return None
                return batch_fourth_moments(*batch, classes, frame, stats.mean, self.n_jobs)

            merged: FourthMoments | None = self._merge(part)
            return stats.fourth if merged is None else merged.values

        return read

    def metric_sum(
        self, plan: MetricPlan, wanted: IntArray | None, totals: SampleTotals
    ) -> MetricSum:
        """Read all batches, and return the sum of the local metrics of the wanted samples.

        Samples in another order give the same sum; other samples than those of the first pass, of
        which `totals` are the totals, raise a ValueError.
        """
        found: SampleTotals | None = None

        def part(X: Any, _: Any) -> MetricSum | None:
            nonlocal found
            x = batch_samples(self.estimator, X)
            start = 0 if found is None else found.n_samples
            found = merge_two(found, SampleTotals.of(x))
            return batch_sum(plan, x, wanted_of(wanted, start, len(x)))

        total: MetricSum | None = self._merge(part)
        difference = totals.difference(found)
        if difference is not None or total is None:
            raise ValueError(
                f"make_batches returned {difference}. It must return a new iterator over the same "
                "samples each time; save values that are random or computed again."
            )
        return total

    def _merge(self, part: Callable[[Any, Any], Any]) -> Any:
        """Merge the parts of all batches in a fixed order; None if no batch has samples."""
        tree: TreeMerge[Mergeable] = TreeMerge()
        for number, batch in enumerate(self.make_batches()):
            with naming_batch(number):
                X, y = batch
                tree.add(part(X, y))
        return tree.result()


@contextmanager
def naming_batch(number: int) -> Iterator[None]:
    """Add the number of the batch to errors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        error.add_note(f"in batch {number} of make_batches()")
        raise

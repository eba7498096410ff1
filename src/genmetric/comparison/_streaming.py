"""Fit a method in passes over batches, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from genmetric._scoring import Task
from genmetric._typing import AnyArray, FloatArray
from genmetric.comparison._method import FittedMethod, Method
from genmetric.comparison._voting import fit_neighbors
from genmetric.learners._reservoir import Reservoir
from genmetric.learners._sampling import MIN_FEATURES

Batches = Callable[[], Iterable[tuple[FloatArray, AnyArray]]]

#: Passes of a metric over the batches: statistics and sums, and for numeric targets also the edges
#: of the slices and the fourth moments.
_N_PASSES: Mapping[Task, int] = {"classification": 2, "regression": 4}


@dataclass(frozen=True)
class StreamedFit:
    """A method fitted in batches.

    Attributes
    ----------
    fitted : FittedMethod
        The model and the parameters selected.
    n_samples, n_kept : int
        Number of samples, and of those kept as neighbours.
    class_counts : dict of str to int
        Number of samples per class; empty for numeric targets.
    target_range : tuple of float or None
        Smallest and largest numeric target; None for classes.
    sample : ndarray of shape (n_kept, n_features)
        The samples kept, before scaling.
    averaged : int or None
        Number of samples whose local metrics were averaged; None if it is all of them.
    metric_stderr : float or None
        Relative standard error of the metric due to that.
    """

    fitted: FittedMethod
    n_samples: int
    n_kept: int
    class_counts: Mapping[str, int]
    target_range: tuple[float, float] | None
    sample: FloatArray
    averaged: int | None = None
    metric_stderr: float | None = None


@dataclass
class _LabelCodes:
    """Class labels as numbers, so that they are kept with the samples, and their counts."""

    codes: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, y: AnyArray) -> FloatArray:
        """Count the labels of a batch and return their numbers."""
        words, codes, numbers = np.unique(y, return_inverse=True, return_counts=True)
        self.counts.update(dict(zip(words.tolist(), numbers.tolist(), strict=True)))
        known = [self.codes.setdefault(word, len(self.codes)) for word in words.tolist()]
        return np.array(known, float)[codes]

    def labels(self, numbers: FloatArray) -> AnyArray:
        """Return the labels with the given numbers."""
        return np.asarray(np.array(list(self.codes))[numbers.astype(int)])


@dataclass
class _Numbers:
    """Numeric targets: they are kept as they are, and their range."""

    low: float = np.inf
    high: float = -np.inf

    def add(self, y: AnyArray) -> FloatArray:
        """Include the targets of a batch in the range and return them."""
        self.low, self.high = (
            min(self.low, y.min(initial=np.inf)),
            max(self.high, y.max(initial=-np.inf)),
        )
        return np.asarray(y, float)


def fit_in_batches(
    method: Method,
    make_batches: Batches,
    *,
    keep_samples: int,
    average_samples: int,
    task: Task = "classification",
    seed: int = 0,
    standardise: bool | None = None,
    n_neighbors: int | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> StreamedFit:
    """Fit a method in passes over batches.

    One pass scales the features, counts the classes and draws the samples that are kept. Further
    passes fit the metric by its `fit_batches`.

    Parameters
    ----------
    method : Method
        A method that can be fitted in batches.
    make_batches : callable
        Returns a new iterator of batches (X, y); y has class labels as strings, or numbers.
    keep_samples : int
        Most samples that are kept as neighbours, a random sample.
    average_samples : int
        Most samples whose local metrics are averaged. More samples lower the standard error of
        the metric and take longer.
    task : {"classification", "regression"}, default="classification"
        Kind of target.
    seed : int, default=0
        Seed of random samples.
    standardise : bool, default=None
        Whether features are scaled to unit variance; the default of the method by default.
    n_neighbors : int, default=None
        Number of neighbours; selected by leave-one-out by default.
    settings : mapping, default=None
        Keyword arguments of the metric.
    progress : callable, default=None
        Called as ``progress(text, fraction)``.

    Returns
    -------
    StreamedFit
        The fitted method and what is known about the samples.
    """
    if not method.streams or method.metric is None:
        raise ValueError(f"Method {method.key!r} needs all samples in memory.")

    def report(text: str, share: float) -> None:
        if progress is not None:
            progress(text, share)

    metric = method.metric(seed, **method.batch_settings, **(settings or {}))
    n_passes = 1 if metric is None else 1 + _N_PASSES[task]
    spread = StandardScaler()
    classes, numbers = _LabelCodes(), _Numbers()
    kept = Reservoir(keep_samples, check_random_state(seed))
    n = 0
    for X, y in make_batches():
        spread.partial_fit(X)
        kept.add(np.column_stack([X, (numbers if task == "regression" else classes).add(y)]))
        n += len(X)
        report(f"{n} rows", 0.0)
    if kept.rows is None:
        raise ValueError("There are no samples.")
    sample, targets = kept.rows[:, :-1], kept.rows[:, -1]
    if task == "classification":
        targets = classes.labels(targets)
    scale = spread
    if not (method.standardise if standardise is None else standardise):
        scale = StandardScaler(with_std=False).partial_fit(spread.mean_[None])
    steps: list[tuple[str, Any]] = [("scale", scale)]
    averaged = stderr = None
    if metric is not None:
        # With few features single samples can dominate a subsample, and all of them are cheap.
        if n > average_samples and sample.shape[1] >= MIN_FEATURES:
            metric.set_params(max_samples=average_samples)
        passes = count(1)

        def scaled() -> Iterator[tuple[FloatArray, AnyArray]]:
            start, seen = next(passes), 0
            for X, y in make_batches():
                seen += len(X)
                report("learning", min((start + seen / n) / n_passes, 1.0))
                yield scale.transform(X), y

        metric.fit_batches(scaled)
        steps.append(("metric", metric))
        if metric.max_samples is not None:
            averaged, stderr = int(metric.max_samples), float(metric.metric_stderr_)
    Z = Pipeline(steps).transform(sample)
    neighbors, by_k = fit_neighbors(Z, targets, n_neighbors, seed, task)
    steps.append(("neighbors", neighbors))
    return StreamedFit(
        FittedMethod(Pipeline(steps), {"n_neighbors": neighbors.n_neighbors}, by_k),
        n,
        len(sample),
        {name: int(classes.counts[name]) for name in sorted(classes.counts)},
        (numbers.low, numbers.high) if task == "regression" else None,
        sample,
        averaged,
        stderr,
    )

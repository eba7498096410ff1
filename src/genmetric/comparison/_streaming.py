"""Fit a method in passes over batches, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from genmetric._typing import AnyArray, FloatArray
from genmetric._votes import select_n_neighbors
from genmetric.comparison._method import FittedMethod, Method
from genmetric.metric._reservoir import Reservoir
from genmetric.metric._sampling import MIN_FEATURES

Batches = Callable[[], Iterable[tuple[FloatArray, AnyArray]]]


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
        Number of samples per class.
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
    sample: FloatArray
    averaged: int | None = None
    metric_stderr: float | None = None


def fit_in_batches(
    method: Method,
    make_batches: Batches,
    *,
    keep_samples: int,
    average_samples: int,
    seed: int = 0,
    standardise: bool | None = None,
    n_neighbors: int | None = None,
    settings: Mapping[str, Any] | None = None,
    check_labels: Callable[[AnyArray], None] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> StreamedFit:
    """Fit a method in passes over batches.

    One pass scales the features, counts the classes and draws the samples that are kept. Two more
    passes fit the metric by :meth:`genmetric.GenerativeMetric.fit_batches`.

    Parameters
    ----------
    method : Method
        A method that can be fitted in batches.
    make_batches : callable
        Returns a new iterator of batches (X, y); labels are strings.
    keep_samples : int
        Most samples that are kept as neighbours, a random sample.
    average_samples : int
        Most samples whose local metrics are averaged. More samples lower the standard error of
        the metric and take longer.
    seed : int, default=0
        Seed of random samples.
    standardise : bool, default=None
        Whether features are scaled to unit variance; the default of the method by default.
    n_neighbors : int, default=None
        Number of neighbours; selected by leave-one-out by default.
    settings : mapping, default=None
        Keyword arguments of the metric.
    check_labels : callable, default=None
        Called with the labels of the samples kept before a metric is fitted; may raise.
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

    metric = method.metric(seed, **(settings or {}))
    n_passes = 1 if metric is None else 3
    spread = StandardScaler()
    counts: Counter[str] = Counter()
    kept = Reservoir(keep_samples, check_random_state(seed))
    codes_of: dict[str, int] = {}
    n = 0
    for X, y in make_batches():
        spread.partial_fit(X)
        words, codes, numbers = np.unique(y, return_inverse=True, return_counts=True)
        counts.update(dict(zip(words.tolist(), numbers.tolist(), strict=True)))
        of_batch = np.array([codes_of.setdefault(word, len(codes_of)) for word in words.tolist()])
        kept.add(np.column_stack([X, of_batch[codes]]))
        n += len(X)
        report(f"{n} rows", 0.0)
    if kept.rows is None:
        raise ValueError("There are no samples.")
    names = np.array(list(codes_of))
    sample, labels = kept.rows[:, :-1], names[kept.rows[:, -1].astype(int)]
    if check_labels is not None:
        check_labels(labels if len(counts) > 1 else names)
    scale = spread
    if not (method.standardise if standardise is None else standardise):
        scale = StandardScaler(with_std=False).partial_fit(spread.mean_[None])
    steps: list[tuple[str, Any]] = [("scale", scale)]
    averaged = stderr = None
    if metric is not None:
        # With few features single samples can dominate a subsample, and all of them are cheap.
        if n > average_samples and sample.shape[1] >= MIN_FEATURES:
            metric.set_params(max_samples=average_samples)
        passes = iter((1, 2))

        def scaled() -> Iterator[tuple[FloatArray, AnyArray]]:
            start, seen = next(passes), 0
            for X, y in make_batches():
                seen += len(X)
                report("learning", (start + seen / n) / n_passes)
                yield scale.transform(X), y

        metric.fit_batches(scaled)
        steps.append(("metric", metric))
        if metric.max_samples is not None:
            averaged, stderr = int(metric.max_samples), float(metric.metric_stderr_)
    Z = Pipeline(steps).transform(sample)
    best, ks, errors = select_n_neighbors(Z, labels, random_state=seed)
    k = min(n_neighbors or best, len(Z))
    steps.append(("neighbors", KNeighborsClassifier(k).fit(Z, labels)))
    return StreamedFit(
        FittedMethod(Pipeline(steps), {"n_neighbors": k}, (ks, errors)),
        n,
        len(sample),
        {name: int(counts[name]) for name in sorted(counts)},
        sample,
        averaged,
        stderr,
    )

"""What the default map of embeddings is computed from, and the selection of its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from genmetric._parallel import check_memory
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density.statistics import ClassStatistics, pooled_statistics
from genmetric.learners.two_covariance import (
    WEIGHTINGS,
    axis_lengths,
    common_mean,
    discriminant_axes,
    row_hashes,
    shrunk_covariances,
    two_covariances,
    unit_vectors,
)

#: Samples that the parameters are selected on, and how many of each class are kept at least before
#: whole classes are left out.
MAX_SAMPLES, MIN_PER_CLASS = 3072, 8

#: Candidates of the selection: within_factor, between_shrinkage and weighting.
CANDIDATES = list(product((1.0, 4.0, 16.0, 64.0), (0.1, 0.5, 0.95), WEIGHTINGS))


def named_parameters(
    within_factor: float, between_shrinkage: float, weighting: str
) -> dict[str, Any]:
    """Return the parameters of a map with their names."""
    return {
        "within_factor": within_factor,
        "between_shrinkage": between_shrinkage,
        "weighting": weighting,
    }


@dataclass(frozen=True)
class EmbeddingStatistics:
    """Moments of all samples, and up to 3072 samples for the selection; two of them can be merged.

    The samples are those of whole classes, or a part of each class if classes are large. Classes
    are drawn by a hash of their names, and samples of a large class by a hash of their values. So
    the draw depends neither on the order of batches nor on how they are merged.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Class names, ascending.
    moments : ClassStatistics
        Pooled statistics of all samples.
    samples : ndarray of shape (n_kept, n_features)
        Samples for the selection, in the order in which they arrived.
    labels : ndarray of shape (n_kept,)
        Their class labels.
    n_seen : int
        Number of samples that they were drawn from.
    limit : int
        Classes whose hash is not below the limit have been left out.
    """

    classes: AnyArray
    moments: ClassStatistics
    samples: AnyArray
    labels: AnyArray
    n_seen: int
    limit: int = 2**63 - 1

    @classmethod
    def of(
        cls,
        x: AnyArray,
        labels: AnyArray,
        classes: AnyArray | None = None,
        sample_weight: FloatArray | None = None,
        n_jobs: int | None = None,
    ) -> EmbeddingStatistics:
        """Compute the statistics of samples; `classes` may name more classes than there are."""
        names = np.unique(labels) if classes is None else classes
        n_features = x.shape[1]
        check_memory(
            8 * n_features * (6 * n_features + len(names)),
            f"The covariances of {n_features} features",
            "Reduce the number of features first, for example with TruncatedSVD.",
        )
        moments = pooled_statistics(
            x,
            np.searchsorted(names, labels),
            len(names),
            sample_weight=sample_weight,
            n_jobs=n_jobs,
        )
        # The samples are copied in any case, because the caller may change x.
        kept = x.copy() if len(x) <= MAX_SAMPLES else x
        return cls(names, moments, kept, labels, len(x))._drawn()

    def merge(self, other: EmbeddingStatistics) -> EmbeddingStatistics:
        """Return the statistics of the samples of both, also with different classes."""
        kinds = {part.classes.dtype.kind for part in (self, other)}
        if kinds & set("US") and kinds & set("biuf"):
            raise ValueError(
                "Labels are text in one part of the samples and numbers in another. Convert them to "
                "one type."
            )
        names = np.unique(np.concatenate([self.classes, other.classes]))
        one, two = (
            part.moments.place(np.searchsorted(names, part.classes), len(names))
            for part in (self, other)
        )
        return EmbeddingStatistics(
            names,
            one.merge(two),
            np.concatenate([self.samples, other.samples.astype(self.samples.dtype, copy=False)]),
            np.concatenate([self.labels, other.labels]),
            self.n_seen + other.n_seen,
            min(self.limit, other.limit),
        )._drawn()

    def _drawn(self) -> EmbeddingStatistics:
        """Return the same with at most 3072 samples."""
        if self.n_seen <= MAX_SAMPLES:
            return self
        # Classes are left out only when each has come down to MIN_PER_CLASS samples. From then on
        # a class that is left out stays so, whatever follows.
        n_classes = int(np.count_nonzero(self.moments.count))
        most = max(MAX_SAMPLES // n_classes, MIN_PER_CLASS)
        names, codes, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        hashes = np.array([_label_hash(name) for name in names.tolist()])
        order = np.argsort(hashes)
        beyond = np.cumsum(np.minimum(counts, most)[order]) > MAX_SAMPLES
        limit = int(hashes[order][beyond].min(initial=self.limit))
        rows = np.flatnonzero((hashes < limit)[codes])
        # The samples with the smallest hashes of each class.
        rows = rows[np.lexsort((row_hashes(self.samples, rows), codes[rows]))]
        first = np.r_[0, np.flatnonzero(np.diff(codes[rows])) + 1]
        rank = np.arange(len(rows)) - np.repeat(first, np.diff(np.r_[first, len(rows)]))
        rows = np.sort(rows[rank < most])
        return replace(self, samples=self.samples[rows], labels=self.labels[rows], limit=limit)


def _label_hash(label: Any) -> int:
    """Return a number of 63 bits that depends on a class name only; 3 and 3.0 are one name."""
    name = int(label) if isinstance(label, float) and label.is_integer() else label
    return int.from_bytes(blake2b(str(name).encode(), digest_size=8).digest()) >> 1


# Selection of the parameters


def select_parameters(
    X: AnyArray,
    labels: AnyArray,
    search_classes: str,
    *,
    n_components: int | None,
    normalize: bool,
    rng: np.random.RandomState,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Select the parameters of the map by the mAP@R of searches; return also all scores.

    Searches among new classes fit the map on two thirds of the classes and search the samples of
    the other third among themselves. Searches among the training classes fit it on two thirds of
    the samples of each class and search the others among these.
    """
    codes = np.unique(labels, return_inverse=True)[1]
    x = _leading_components(X)
    if n_components is not None:
        n_components = min(n_components, x.shape[1])
    scores = {}
    for name, make_searches in (("new_classes", _by_class), ("training_classes", _by_sample)):
        if search_classes == "any" or name.startswith(search_classes):
            found = [
                _scores(x, codes, *search, n_components, normalize)
                for search in list(make_searches(codes, rng))
            ]
            if found:
                scores[name] = np.mean(found, axis=0)
    if not scores:
        return named_parameters(4.0, 0.5, "detection"), {}
    # Maps that separate the training classes best can be worse than no map for other classes. So
    # new classes come first, and 3 % of their score are given for the best score of the others.
    kinds = list(scores.values())
    first, last = kinds[0], kinds[-1]
    best = int(np.argmax(np.where(first >= 0.97 * first.max(), last, -np.inf)))
    grid = [named_parameters(*values) for values in CANDIDATES]
    return grid[best], {"params": grid, **scores}


def _leading_components(X: AnyArray) -> AnyArray:
    """Return samples of size one, and the leading 320 principal components if they have more."""
    # A power of two, so that squares in float32 stay in range and no digit changes.
    x = np.asarray(np.ldexp(X, -np.frexp(np.abs(X).max())[1]))
    if x.shape[1] <= 320:
        return x
    e = x - x.mean(axis=0, dtype=float).astype(x.dtype)
    return np.asarray(e @ np.linalg.eigh(e.T @ e)[1][:, ::-1][:, :320])


#: Training samples, references, and queries or None.
Search: TypeAlias = tuple[IntArray, IntArray, IntArray | None]


def _by_class(codes: IntArray, rng: np.random.RandomState) -> Iterator[Search]:
    """Yield searches among the samples of left-out classes: training, references, no queries."""
    n_classes = int(codes.max()) + 1
    fold = rng.permutation(np.arange(n_classes) % 3)[codes]
    for k in range(3):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if _has_pairs(codes[train]) and _has_pairs(codes[test]):
            yield train, rng.permutation(test)[:1000], None


def _by_sample(codes: IntArray, rng: np.random.RandomState) -> Iterator[Search]:
    """Yield searches of left-out samples among those of the fit: training, references, queries."""
    shuffled = rng.permutation(len(codes))
    fold = np.empty(len(codes), int)
    fold[shuffled[np.argsort(codes[shuffled], kind="stable")]] = np.arange(len(codes)) % 3
    for k in range(3):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        test = test[np.isin(codes[test], codes[train])]
        if _has_pairs(codes[train]) and len(test):
            yield train, train, rng.permutation(test)[:500]


def _has_pairs(codes: IntArray) -> bool:
    """Return whether there are two classes, and a class of two samples."""
    counts = np.bincount(codes, minlength=1)
    return bool(np.count_nonzero(counts) > 1 and counts.max() > 1)


def _scores(
    x: AnyArray,
    codes: IntArray,
    train: IntArray,
    references: IntArray,
    queries: IntArray | None,
    n_components: int | None,
    normalize: bool,
) -> FloatArray:
    """Return the mAP@R of all candidates in one search."""
    moments = pooled_statistics(x[train], codes[train], int(codes.max()) + 1)
    center = common_mean(moments).astype(x.dtype)
    covariances = two_covariances(moments)
    parts = [references] if queries is None else [references, queries]
    centred, labels = [x[rows] - center for rows in parts], [codes[rows] for rows in parts]
    scores = []
    for *shrinkages, weighting in CANDIDATES:
        if weighting == WEIGHTINGS[0]:  # candidates that differ in the weighting share the axes
            axes, ratios = discriminant_axes(*shrunk_covariances(*covariances, *shrinkages))
            axes, ratios = axes[:n_components], ratios[:n_components]
        L = axes * axis_lengths(ratios, weighting)[:, None]
        z = [part @ L.T.astype(x.dtype) for part in centred]
        scores.append(_map_at_r([unit_vectors(part) for part in z] if normalize else z, labels))
    return np.array(scores)


def _map_at_r(z: list[AnyArray], labels: list[IntArray]) -> float:
    """Return the mAP@R of queries, the last of `z`, among references, the first.

    If both are the same, each is searched among the others. This takes one product of all queries
    with all references; :func:`genmetric.metrics.mean_average_precision_at_r` has the definition.
    """
    references, queries, own, among = z[0], z[-1], labels[-1], labels[0]
    nearness = 2 * (queries @ references.T) - np.einsum("ij,ij->i", references, references)
    n_relevant = np.bincount(among, minlength=int(own.max()) + 1)[own]
    if len(z) == 1:
        np.fill_diagonal(nearness, -np.inf)
        n_relevant = n_relevant - 1
    asked = n_relevant > 0
    if not asked.any():
        return 0.0
    nearness, own, n_relevant = nearness[asked], own[asked], n_relevant[asked]
    depth = int(n_relevant.max())
    found = np.argpartition(-nearness, depth - 1, axis=1)[:, :depth]
    order = np.argsort(-np.take_along_axis(nearness, found, axis=1), axis=1, kind="stable")
    match = among[np.take_along_axis(found, order, axis=1)] == own[:, None]
    ranks = np.arange(1, depth + 1)
    precision = np.cumsum(match, axis=1, dtype=np.float32) / ranks
    match &= ranks <= n_relevant[:, None]
    return float((np.einsum("ij,ij->i", match, precision, dtype=float) / n_relevant).mean())

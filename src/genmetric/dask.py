"""Metrics of samples in dask arrays and frames: one task per block of samples.

All passes of a fit are sums over blocks, merged in the order of the blocks. The results equal those
of ``fit`` on all samples up to rounding. The work is done by the current ``distributed.Client``, or
by dask's threads without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._parallel import one_blas_thread
from genmetric._text import import_optional
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import (
    FLOATS,
    ParameterRules,
    check_parameters,
    encode_classes,
    labelled_samples,
)
from genmetric.density import Coordinates
from genmetric.geometry import MetricSum
from genmetric.learners.embedding import EmbeddingAdapter, EmbeddingStatistics
from genmetric.learners.generative import GenerativeMetric
from genmetric.learners.streaming import ClassStream, batch_fourth_moments

__all__ = ["DaskEmbeddingAdapter", "DaskGenerativeMetric"]

#: Advice of errors if data differs between passes.
SAME_DATA = "All passes need the same samples: persist data that is computed again each time."


class Blocks(NamedTuple):
    """Samples of a dask collection: delayed blocks, their lengths (NaN if unknown), and a meta."""

    blocks: list[Any]
    lengths: tuple[float, ...]
    meta: Any
    dtype: Any


def _blocks(X: Any, name: str, n_dims: int = 2) -> Blocks:
    """Return the blocks of a dask array, DataFrame or Series; raise for other types."""
    dask, da = import_optional("dask", "dask"), import_optional("dask.array", "dask")
    is_array = isinstance(X, da.Array) and X.ndim == n_dims
    is_like = (dask.utils.is_series_like, dask.utils.is_dataframe_like)[n_dims - 1]
    if not dask.is_dask_collection(X) or not (is_array or is_like(X)):
        raise TypeError(
            f"{name} must be a dask array of {n_dims} dimensions or a dask "
            f"{'DataFrame' if n_dims == 2 else 'Series'}; got {type(X).__name__}. For samples in "
            "memory use genmetric.GenerativeMetric."
        )
    if not is_array:
        single = n_dims == 2 and {str(kind) for kind in X.dtypes} == {"float32"}
        dtype = np.dtype(np.float32 if single else np.float64)
        return Blocks(list(X.to_delayed()), (np.nan,) * X.npartitions, X._meta, dtype)
    meta: AnyArray = np.empty(0)
    if n_dims == 2:
        if np.isnan(X.shape[1]):
            raise ValueError(f"{name} has an unknown number of columns: see compute_chunk_sizes.")
        X = X.rechunk({1: -1})
        meta = np.empty((0, X.shape[1]))
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    return Blocks(list(X.to_delayed().ravel()), X.chunks[0], meta, dtype)


def _aligned_blocks(X: Any, y: Any) -> tuple[Blocks, Blocks]:
    """Return the blocks of samples and of their labels; raise if they cannot be matched."""
    rows, labels = _blocks(X, "X"), _blocks(y, "y", n_dims=1)
    n_rows, n_labels = sum(rows.lengths), sum(labels.lengths)
    if not np.isnan([n_rows, n_labels]).any():
        if n_rows != n_labels:
            raise ValueError(
                f"X has {n_rows} samples and y {n_labels} labels. Pass one label per sample."
            )
        if rows.lengths != labels.lengths:
            labels = _blocks(y.rechunk((rows.lengths,)), "y", n_dims=1)
    elif all(getattr(a, "known_divisions", False) for a in (X, y)) and X.divisions != y.divisions:
        labels = _blocks(y.repartition(divisions=X.divisions), "y", n_dims=1)
    if len(rows.blocks) != len(labels.blocks):
        raise ValueError(
            f"X has {len(rows.blocks)} blocks and y {len(labels.blocks)}, of unknown lengths, so "
            "their samples cannot be matched. Take both from one frame, or call compute_chunk_sizes()."
        )
    return rows, labels


def _map_blocks(function: Callable[..., Any], shared: Any, *columns: Sequence[Any]) -> list[Any]:
    """Return one task per block, ``function(shared, *block)``; errors name the block."""
    delayed = import_optional("dask", "dask").delayed
    shared = delayed(shared, traverse=False)  # sent once
    tasks = enumerate(zip(*columns, strict=True))
    return [delayed(_in_block)(function, number, shared, *block) for number, block in tasks]


def _in_block(function: Callable[..., Any], number: int, *arguments: Any) -> Any:
    """Call a function and add the number of the block to errors."""
    try:
        with one_blas_thread():
            return function(*arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(f"In block {number}: {error}") from error


def _merged(parts: Sequence[Any]) -> Any:
    """Return a task that merges the parts in order, eight at a time; None is an empty part."""
    delayed = import_optional("dask", "dask").delayed
    parts = list(parts)
    while len(parts) > 1:
        parts = [delayed(_merge)(parts[i : i + 8]) for i in range(0, len(parts), 8)]
    return parts[0]


def _merge(parts: Sequence[Any]) -> Any:
    """Merge adjacent parts from left to right."""
    present = [part for part in parts if part is not None]
    return reduce(lambda left, right: left.merge(right), present) if present else None


def _compute(*tasks: Any) -> tuple[Any, ...]:
    """Compute tasks with the current client, or with dask's threads."""
    return tuple(import_optional("dask", "dask").compute(*tasks))


class _DaskMetric(TransformerMixin, BaseEstimator):
    """What dask estimators share: a fitted local estimator, applied block by block."""

    _local: Any

    def _set_local(self, local: Any) -> None:
        """Keep the fitted estimator, and take over its fitted attributes."""
        self._local = local
        for name, value in vars(local).items():
            if name.endswith("_"):
                setattr(self, name, value)

    def to_local(self) -> Any:
        """Return a copy of the fitted plain estimator, for samples in memory and for files.

        Returns
        -------
        estimator
            The estimator that ``fit`` on all samples would give, up to rounding.
        """
        check_is_fitted(self, "components_")
        return deepcopy(self._local)

    def transform(self, X: Any) -> Any:
        """Apply the learned map, lazily.

        Parameters
        ----------
        X : dask array of shape (n_samples, n_features) or dask DataFrame
            Samples.

        Returns
        -------
        dask array of shape (n_samples, n_components)
            Transformed samples in the same blocks, float32 if X is.
        """
        check_is_fitted(self, "components_")
        x, da = _blocks(X, "X"), import_optional("dask.array", "dask")
        validate_data(self._local, x.meta, skip_check_array=True, reset=False)
        tasks = _map_blocks(_transform, self._local, x.blocks)
        parts = [
            da.from_delayed(task, (length, len(self.components_)), x.dtype)
            for task, length in zip(tasks, x.lengths, strict=True)
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)


def _transform(local: Any, X: Any) -> AnyArray:
    """Transform the samples of one block, which may be empty."""
    return np.asarray(local.transform(X) if len(X) else np.empty((0, len(local.components_))))


class DaskGenerativeMetric(_DaskMetric):
    """:class:`~genmetric.GenerativeMetric` of samples in a dask array or dask DataFrame.

    `fit` reads the samples twice, and three times with ``base="pooled"`` and ``shrinkage="auto"``:
    ``persist`` them first if they fit in the memory of the cluster. Parameters that need all
    samples of a class at once (`class_model`, `combination`) are left to
    :class:`~genmetric.GenerativeMetric`.

    Parameters
    ----------
    shrinkage, base, normalization, interpolation, n_components, solver, class_tol, priors
        See :class:`~genmetric.GenerativeMetric`.
    max_samples : int or float, default=None
        Number or fraction of samples to average over, drawn at random; larger values are more
        accurate and slower. ``None`` uses all. Blocks without any of these samples are not read in
        the last pass.
    random_state : int, RandomState instance or None, default=None
        See :class:`~genmetric.GenerativeMetric`.

    Attributes
    ----------
    components_, metric_, metric_stderr_, classes_, means_, covariances_, n_iter_
        See :class:`~genmetric.GenerativeMetric`.
    n_features_in_, feature_names_in_
        Number of features, and their names if X is a DataFrame.

    See Also
    --------
    genmetric.GenerativeMetric.fit_batches : Fits on one machine, from disk.

    Examples
    --------
    >>> import dask.array as da
    >>> from genmetric.dask import DaskGenerativeMetric
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> X, y = da.from_array(X, chunks=(50, 13)), da.from_array(y, chunks=50)
    >>> metric = DaskGenerativeMetric(base="pooled").fit(X, y)
    >>> metric.transform(X)  # lazy
    dask.array<concatenate, shape=(178, 13), dtype=float64, chunksize=(50, 13), ...>
    >>> metric.to_local().metric_.shape
    (13, 13)
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        name: rules
        for name, rules in GenerativeMetric._parameter_rules.items()
        if name not in ("combination", "n_jobs")
    }

    def __init__(
        self,
        *,
        shrinkage: Any = "auto",
        base: str = "identity",
        normalization: str = "trace",
        interpolation: float = 1.0,
        n_components: int | None = None,
        solver: str = "auto",
        class_tol: float = 1e-2,
        max_samples: Any = None,
        priors: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.base = base
        self.normalization = normalization
        self.interpolation = interpolation
        self.n_components = n_components
        self.solver = solver
        self.class_tol = class_tol
        self.max_samples = max_samples
        self.priors = priors
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, classes: ArrayLike | None = None) -> DaskGenerativeMetric:
        """Fit the Gaussians in one pass over the blocks, and average local metrics in another.

        Parameters
        ----------
        X : dask array of shape (n_samples, n_features) or dask DataFrame
            Training samples, in blocks of any length, known or not.
        y : dask array of shape (n_samples,) or dask Series
            Class labels. Blocks that differ from those of X are cut again if lengths or divisions
            are known.
        classes : array-like of shape (n_classes,), default=None
            All class names; any other label is then an error. ``None`` determines them from y.

        Returns
        -------
        self : DaskGenerativeMetric
            The fitted estimator.
        """
        check_parameters(self)
        local = GenerativeMetric(**self.get_params(deep=False))
        local._check_parameters("fit_batches")
        x, labels = _aligned_blocks(X, y)
        validate_data(local, x.meta, skip_check_array=True)
        parts = _map_blocks(_count, (local, classes), x.blocks, labels.blocks)
        stream, *counts = _compute(_merged(parts), *_map_blocks(_n_samples, None, parts))
        if stream is None:
            raise ValueError("X has no samples.")
        local.n_features_in_ = stream.stats.mean.shape[1]

        def fourth(means: FloatArray, coordinates: Coordinates) -> FloatArray:
            shared = (local, coordinates, means)
            parts = _compute(*_map_blocks(_fourth, shared, x.blocks, labels.blocks))
            moments: FloatArray = stream.add_fourth_moments(parts, SAME_DATA)
            return moments

        def total() -> MetricSum:
            wanted = _wanted_rows(local, np.cumsum([0, *counts]))
            read = [i for i, rows in enumerate(wanted) if rows is None or len(rows)]
            columns = ([column[i] for i in read] for column in (x.blocks, counts, wanted))
            parts = _map_blocks(_sum, (local, stream.n_samples), *columns)
            summed: MetricSum = _compute(_merged(parts))[0]
            return summed

        local._fit_stream(stream, fourth, total)
        self._set_local(local)
        return self

    @property
    def covariances_(self) -> FloatArray:
        """Covariances of the class Gaussians, shape (n_classes, n_features, n_features)."""
        covariances: FloatArray = self._local.covariances_
        return covariances


def _count(shared: tuple[GenerativeMetric, Any], X: Any, y: Any) -> ClassStream | None:
    """Return the class statistics of one block."""
    local, classes = shared
    if len(X) == len(y) == 0:
        return None
    return ClassStream.of(*labelled_samples(local, X, y, reset=False), classes=classes)


def _n_samples(_: None, stream: ClassStream | None) -> int:
    """Return the number of samples of one block."""
    return 0 if stream is None else stream.n_samples


def _fourth(shared: tuple[GenerativeMetric, Coordinates, FloatArray], X: Any, y: Any) -> FloatArray:
    """Return the fourth moments and the numbers of samples of the classes in one block."""
    local, coordinates, means = shared
    if len(X) == len(y) == 0:
        return np.zeros((2, len(means)))
    samples = labelled_samples(local, X, y, reset=False)
    return batch_fourth_moments(*samples, local.classes_, means, coordinates, SAME_DATA)


def _wanted_rows(local: GenerativeMetric, starts: IntArray) -> list[IntArray | None]:
    """Return the samples of each block to average over; None for all of them."""
    n_samples = int(starts[-1])
    n_draws = local._n_draws(n_samples)
    if n_draws is None:
        return [None] * (len(starts) - 1)
    rng = check_random_state(local.random_state)
    drawn = np.sort(sample_without_replacement(n_samples, n_draws, random_state=rng))
    parts = np.split(drawn, np.searchsorted(drawn, starts[1:-1]))
    return [part - start for part, start in zip(parts, starts[:-1], strict=True)]


def _sum(
    shared: tuple[GenerativeMetric, int], X: Any, n_samples: int, wanted: IntArray | None
) -> MetricSum | None:
    """Return the sum of the local metrics of the wanted samples of one block."""
    local, n_total = shared
    if len(X) != n_samples:
        raise ValueError(
            f"{n_samples} samples the first time and {len(X)} the last time. {SAME_DATA}"
        )
    if not len(X):
        return None
    x = validate_data(local, X, dtype=FLOATS, reset=False)
    return local._sum_metrics(x if wanted is None else x[wanted], n_total=n_total)


class DaskEmbeddingAdapter(_DaskMetric):
    """:class:`~genmetric.EmbeddingAdapter` of samples in a dask array or dask DataFrame.

    `fit` reads the samples once. Memory does not grow with their number, only with that of the
    classes: one mean each.

    Parameters
    ----------
    search_classes, normalize, n_components, random_state
        See :class:`~genmetric.EmbeddingAdapter`.

    Attributes
    ----------
    components_, mean_, bias_, classes_, best_params_, cv_results_, n_samples_seen_
        See :class:`~genmetric.EmbeddingAdapter`.

    See Also
    --------
    genmetric.EmbeddingAdapter.fit_batches : Fits on one machine, from disk.

    Examples
    --------
    >>> import dask.array as da
    >>> from genmetric.dask import DaskEmbeddingAdapter
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y = da.from_array(X, chunks=(500, 64)), da.from_array(y, chunks=500)
    >>> adapter = DaskEmbeddingAdapter(n_components=16, random_state=0).fit(X, y)
    >>> adapter.transform(X).shape
    (1797, 16)
    """

    def __init__(
        self,
        *,
        search_classes: str = "any",
        normalize: bool = True,
        n_components: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.search_classes = search_classes
        self.normalize = normalize
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> DaskEmbeddingAdapter:
        """Add up the statistics of the blocks, select the parameters, and compute the map.

        Parameters
        ----------
        X : dask array of shape (n_samples, n_features) or dask DataFrame
            Training samples, in blocks of any length, known or not.
        y : dask array of shape (n_samples,) or dask Series
            Class labels.

        Returns
        -------
        self : DaskEmbeddingAdapter
            The fitted estimator.
        """
        local = EmbeddingAdapter(**self.get_params(deep=False))
        check_parameters(local)
        x, labels = _aligned_blocks(X, y)
        validate_data(local, x.meta, skip_check_array=True)
        parts = _map_blocks(_embedding_statistics, local, x.blocks, labels.blocks)
        stats = _compute(_merged(parts))[0]
        if stats is None:
            raise ValueError("X has no samples.")
        local.n_features_in_ = stats.samples.shape[1]
        encode_classes(stats.classes, type(self).__name__)
        local._set_default_map(stats)
        self._set_local(local)
        return self


def _embedding_statistics(local: EmbeddingAdapter, X: Any, y: Any) -> EmbeddingStatistics | None:
    """Return the statistics of one block, which may be empty."""
    if len(X) == len(y) == 0:
        return None
    return EmbeddingStatistics.of(*local._training_samples(X, y, reset=False))

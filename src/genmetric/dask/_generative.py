"""DaskGenerativeMetric: the accumulators of `fit_batches`, with one task per block.

All passes of a fit are sums over blocks of samples. The parts are merged in the order of the blocks
(:mod:`genmetric.learners._merging`), independent of which worker finishes first, so that the result
is bit-identical to :meth:`~genmetric.GenerativeMetric.fit_batches` on the same blocks, even if a
worker is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._chunks import one_blas_thread
from genmetric._optional import import_optional
from genmetric._parameters import ParameterRules, check_parameters
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count
from genmetric.dask._blocks import BlockNeighbors, Blocks, aligned_blocks
from genmetric.dask._tasks import Tasks, compute, naming_block
from genmetric.density._factored_statistics import AnyStatistics
from genmetric.density._scaling import Scaling
from genmetric.geometry._summation import MetricSum
from genmetric.learners._fitting import MetricPlan, fitted_attributes, set_attributes
from genmetric.learners._generative import GenerativeMetric
from genmetric.learners._mahalanobis import fitted_samples
from genmetric.learners._sample_totals import SampleTotals
from genmetric.learners._specification import (
    DEFAULT_NORMALIZATION,
    METRIC_RULES,
    FitSpecification,
)
from genmetric.learners._streaming import (
    FirstPass,
    FourthMoments,
    FourthPass,
    average_batches,
    batch_fourth_moments,
    batch_samples,
    batch_sum,
    labelled_batch,
    plan_batches,
    wanted_of,
)


class DaskGenerativeMetric(TransformerMixin, BaseEstimator):
    """:class:`~genmetric.GenerativeMetric` of samples in a dask array or dask DataFrame.

    The work is done by the current ``distributed.Client``, or by dask's threads without one. `fit`
    reads the samples twice, and three times with ``base="pooled"`` and ``shrinkage="auto"``:
    ``persist`` them first if they fit in the memory of the cluster. Parameters that need all
    samples of a class at once (`class_model`, `combination`) are left to
    :class:`~genmetric.GenerativeMetric`.

    Parameters
    ----------
    shrinkage, base, normalization, interpolation, n_components, solver, class_tol, priors
        See :class:`~genmetric.GenerativeMetric`.
    random_state : int, RandomState instance or None, default=None
        See :class:`~genmetric.GenerativeMetric`.
    max_samples : int or float, default=None
        Number or fraction of samples to average over, drawn at random; larger values are more
        accurate and slower. ``None`` uses all. Blocks without any of these samples are not read in
        the last pass.

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
    >>> metric = DaskGenerativeMetric().fit(X, y)
    >>> metric.transform(X)  # lazy
    dask.array<concatenate, shape=(178, 13), dtype=float64, chunksize=(50, 13), ...>
    >>> metric.to_local().metric_.shape
    (13, 13)
    """

    _parameter_rules: ClassVar[ParameterRules] = {
        name: METRIC_RULES[name]
        for name in (
            "shrinkage",
            "base",
            "normalization",
            "interpolation",
            "n_components",
            "solver",
            "class_tol",
            "max_samples",
            "random_state",
        )
    }

    _local: GenerativeMetric
    _fit_samples: Any = None

    def __init__(
        self,
        *,
        shrinkage: Any = "auto",
        base: str = "identity",
        normalization: str = DEFAULT_NORMALIZATION,
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

    @restore_on_error
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
        spec = FitSpecification.of(local.get_params(deep=False))
        spec.check_streaming("DaskGenerativeMetric.fit")
        x, labels = aligned_blocks(X, y)
        validate_data(local, x.sample, skip_check_array=True)
        blocks = list(zip(x.blocks, labels.blocks, strict=True))
        names = None if classes is None else np.unique(np.asarray(classes))
        task = Tasks("statistics")
        parts = [task(i, _first, local, *pair, names, i) for i, pair in enumerate(blocks)]
        totals = [task(f"totals-{i}", _totals, part) for i, part in enumerate(parts)]
        first, totals = compute(task("all", _together, task.merge(parts), totals))
        if first is None:
            raise ValueError("X has no samples.")
        tally, counts = first.tally, [0 if part is None else part.n_samples for part in totals]
        local.n_features_in_ = tally.stats.mean.shape[1]
        with one_blas_thread():
            plan, wanted = plan_batches(spec, tally, _fourth_pass(local, blocks))
        task = Tasks("metrics")
        shared, starts = task.share((local, plan)), np.cumsum([0, *counts])
        sums: list[Any] = []
        for i, (block, n_samples) in enumerate(zip(x.blocks, counts, strict=True)):
            rows = wanted_of(wanted, starts[i], n_samples)
            idle = rows is not None and len(rows) == 0
            sums.append(None if idle else task(i, _sum, shared, block, totals[i], rows, i))
        total: MetricSum = compute(task.merge(sums))
        set_attributes(local, fitted_attributes(plan, average_batches(plan, total)))
        self._local, self._fit_samples = local, X
        self.__dict__.pop("covariances_", None)
        for name, value in vars(local).items():
            if name.endswith("_"):
                setattr(self, name, value)
        return self

    @cached_property
    def covariances_(self) -> FloatArray:
        """Class covariances; with many classes they are computed on first access."""
        if "_local" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'covariances_'")
        return self._local.covariances_

    def to_local(self) -> GenerativeMetric:
        """Return the fitted plain estimator, for samples in memory, files and other packages.

        Returns
        -------
        GenerativeMetric
            The same as after :meth:`~genmetric.GenerativeMetric.fit_batches` on the same blocks.
        """
        check_is_fitted(self, "components_")
        return deepcopy(self._local)

    def transform(self, X: Any) -> Any:
        """Map samples to the space of the metric, lazily.

        Parameters
        ----------
        X : dask array of shape (n_samples, n_features) or dask DataFrame
            Samples.

        Returns
        -------
        dask array of shape (n_samples, n_components)
            Transformed samples in the same blocks, float32 if X is.
        """
        x, task = self._blocks(X, "X"), Tasks("transform")
        local, width = task.share(self._local), len(self.components_)
        da = import_optional("dask.array", "dask")
        parts = [
            da.from_delayed(task(i, _transform, local, block, i), (length, width), x.dtype)
            for i, (block, length) in enumerate(zip(x.blocks, x.lengths, strict=True))
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)

    def kneighbors(
        self,
        X: ArrayLike,
        n_neighbors: int = 5,
        *,
        reference: Any = None,
        return_distance: bool = True,
    ) -> AnyArray | tuple[FloatArray, IntArray]:
        """Find the nearest samples of a dask collection under the learned metric, exactly.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries, in memory; all of them are sent to every task.
        n_neighbors : int, default=5
            Number of neighbours.
        reference : dask array or dask DataFrame, default=None
            Samples to search; ``None`` searches those of `fit`.
        return_distance : bool, default=True
            Whether to return distances as well.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Distances, ascending; only if `return_distance` is true.
        indices : ndarray of shape (n_queries, n_neighbors)
            Indices of samples of the reference; equal distances are ordered by index.
        """
        k = check_count(n_neighbors, "n_neighbors")
        reference = self._fit_samples if reference is None else reference
        rows, task = self._blocks(reference, "reference"), Tasks("neighbors")
        shared = task.share((self._local, _mapped(self._local, fitted_samples(self._local, X))))
        found = [task(i, _nearest, shared, block, k, i) for i, block in enumerate(rows.blocks)]
        best = compute(task.merge(found))
        if best is None or best.n_rows < k:
            n_samples = 0 if best is None else best.n_rows
            raise ValueError(f"n_neighbors={k}, but there are {n_samples} samples to search.")
        distances = _plain_frame(self._local).scale * best.distances
        return (distances, best.indices) if return_distance else best.indices

    def _blocks(self, X: Any, name: str) -> Blocks:
        """Return blocks of samples that have the features of `fit`."""
        check_is_fitted(self, "components_")
        blocks = Blocks.of(X, name)
        validate_data(self._local, blocks.sample, skip_check_array=True, reset=False)
        return blocks

    def __getstate__(self) -> Any:
        # A graph of samples, or of handles to samples on a cluster, has no meaning elsewhere.
        return {**super().__getstate__(), "_fit_samples": None}


def _first(
    local: GenerativeMetric, X: Any, y: Any, classes: AnyArray | None, number: int
) -> FirstPass | None:
    with naming_block(number):
        batch = labelled_batch(local, X, y)
        return None if batch is None else FirstPass.of(*batch, classes=classes)


def _totals(first: FirstPass | None) -> SampleTotals | None:
    return None if first is None else first.totals


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


def _fourth_pass(
    local: GenerativeMetric, blocks: list[tuple[Any, Any]]
) -> Callable[[AnyArray], FourthPass]:
    """Return the pass over the blocks for the fourth moments of classes."""

    def of_classes(classes: AnyArray) -> FourthPass:
        def read(frame: Scaling, stats: AnyStatistics) -> FloatArray:
            task = Tasks("moments")
            shared = task.share((local, classes, frame, stats.mean))
            parts = [task(i, _fourth, shared, *pair, i) for i, pair in enumerate(blocks)]
            found: FourthMoments = compute(task.merge(parts))
            return found.values

        return read

    return of_classes


def _fourth(
    shared: tuple[GenerativeMetric, AnyArray, Scaling, FloatArray], X: Any, y: Any, number: int
) -> FourthMoments | None:
    local, classes, frame, means = shared
    with naming_block(number):
        batch = labelled_batch(local, X, y)
        return None if batch is None else batch_fourth_moments(*batch, classes, frame, means)


def _sum(
    shared: tuple[GenerativeMetric, MetricPlan],
    X: Any,
    totals: SampleTotals | None,
    wanted: IntArray | None,
    number: int,
) -> MetricSum | None:
    local, plan = shared
    with naming_block(number):
        x = batch_samples(local, X)
        expected = SampleTotals.of(x[:0]) if totals is None else totals
        difference = expected.difference(SampleTotals.of(x))
        if difference is not None:
            raise ValueError(
                f"{difference}. All passes need the same samples: persist data that is random or "
                "computed again each time."
            )
        return batch_sum(plan, x, wanted)


def _transform(local: GenerativeMetric, X: Any, number: int) -> AnyArray:
    with naming_block(number):
        return np.asarray(local.transform(X) if len(X) else np.empty((0, len(local.components_))))


def _plain_frame(local: GenerativeMetric) -> Scaling:
    """Return the shift and the scale of the samples, without a whitening."""
    return Scaling(local._frame.center, local._frame.scale)


def _mapped(local: GenerativeMetric, x: AnyArray) -> FloatArray:
    """Return samples in the space of the metric, centred and divided by their scale."""
    with one_blas_thread():
        return np.asarray(_plain_frame(local).apply(x) @ local.components_.T)


def _nearest(
    shared: tuple[GenerativeMetric, FloatArray], X: Any, n_neighbors: int, number: int
) -> BlockNeighbors | None:
    local, queries = shared
    with naming_block(number):
        x = batch_samples(local, X)
    return BlockNeighbors.of(queries, _mapped(local, x), n_neighbors) if len(x) else None

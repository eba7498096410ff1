"""DaskGenerativeMetric: the accumulators of `fit_batches`, one task a block.

Both passes of a fit are sums over blocks of rows. The parts are merged in the order of the blocks
(:mod:`genmetric.metric.merging`), whichever worker is done first, so that the answer has the bits of
:meth:`~genmetric.GenerativeMetric.fit_batches` on the same blocks, even after the loss of a worker.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._chunks import one_blas_thread
from genmetric._extras import need
from genmetric._rollback import all_or_nothing
from genmetric._typing import AnyArray, ArrayLike, FloatArray, IntArray
from genmetric._validation import check_count
from genmetric.dask.blocks import Blocks, aligned_blocks
from genmetric.dask.tasks import Tasks, compute, naming_block
from genmetric.geometry.summation import MetricSum
from genmetric.metric.fitting import MetricJob
from genmetric.metric.generative import GenerativeMetric
from genmetric.metric.streaming import (
    ClassTally,
    batch_rows,
    batch_sum,
    batch_tally,
    finish,
    plan_second_pass,
    wanted_of,
)
from genmetric.neighbors.block_search import BlockNeighbors


class DaskGenerativeMetric(TransformerMixin, BaseEstimator):
    """:class:`~genmetric.GenerativeMetric` of rows in a dask array or dask DataFrame.

    Work goes to the current ``distributed.Client``, or to dask's threads where there is none. `fit`
    reads the rows twice: where they fit the memory of the cluster, ``persist`` them first. What
    needs all rows of a class at once (`class_model`, `covariance_estimator`, `combination`) is left
    to :class:`~genmetric.GenerativeMetric`.

    Parameters
    ----------
    shrinkage, interpolation, n_components, solver, tol, priors, random_state
        As of :class:`~genmetric.GenerativeMetric`.
    max_samples : int or float, default=None
        Average over a random subset of the rows: so many, or that share of them. Blocks that have
        none of them are not read a second time.

    Attributes
    ----------
    components_, metric_, metric_stderr_, classes_, means_, covariances_, n_iter_
        As of :class:`~genmetric.GenerativeMetric`.
    n_features_in_, feature_names_in_
        Number of features, and their names where X is a frame.

    See Also
    --------
    genmetric.GenerativeMetric.fit_batches : The same on one machine, from disk.

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

    _local: GenerativeMetric
    _fit_rows: Any = None

    def __init__(
        self,
        *,
        shrinkage: Any = "auto",
        interpolation: float = 1.0,
        n_components: int | None = None,
        solver: str = "auto",
        tol: float = 1e-2,
        max_samples: Any = None,
        priors: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.interpolation = interpolation
        self.n_components = n_components
        self.solver = solver
        self.tol = tol
        self.max_samples = max_samples
        self.priors = priors
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any, *, classes: ArrayLike | None = None) -> DaskGenerativeMetric:
        """Fit the Gaussians in one pass over the blocks, average local metrics in another.

        Parameters
        ----------
        X : dask array of shape (n_samples, n_features) or dask DataFrame
            Rows, in blocks of any length, known or not.
        y : dask array of shape (n_samples,) or dask Series
            Class labels. Blocks unlike those of X are cut anew where lengths or divisions are known.
        classes : array-like of shape (n_classes,), default=None
            All class names; any other label is then an error. ``None`` finds them.

        Returns
        -------
        self : DaskGenerativeMetric
            The fitted estimator.
        """
        local = GenerativeMetric(**self.get_params(deep=False))
        local._check_parameters()
        x, labels = aligned_blocks(X, y)
        validate_data(local, x.sample, skip_check_array=True)
        names = None if classes is None else np.unique(np.asarray(classes))
        task = Tasks("statistics")
        tallies = [
            task(i, _tally, local, *pair, names, i)
            for i, pair in enumerate(zip(x.blocks, labels.blocks, strict=True))
        ]
        counts = [task(f"rows-{i}", _n_rows, tally) for i, tally in enumerate(tallies)]
        tally, counts = compute(task("all", _together, task.merge(tallies), counts))
        if tally is None:
            raise ValueError("X has no rows at all.")
        job, wanted = plan_second_pass(local, tally)
        task = Tasks("metrics")
        shared, starts = task.share((local, job)), np.cumsum([0, *counts])
        sums: list[Any] = []
        for i, (block, n_rows) in enumerate(zip(x.blocks, counts, strict=True)):
            rows = wanted_of(wanted, starts[i], n_rows)
            idle = rows is not None and len(rows) == 0
            sums.append(None if idle else task(i, _sum, shared, block, n_rows, rows, i))
        self._local = finish(local, job, compute(task.merge(sums)))
        self._fit_rows = X
        for name, value in vars(local).items():
            if name.endswith("_"):
                setattr(self, name, value)
        return self

    def to_local(self) -> GenerativeMetric:
        """The plain estimator, fitted: for rows in memory, files and other packages.

        Returns
        -------
        GenerativeMetric
            As :meth:`~genmetric.GenerativeMetric.fit_batches` on the same blocks would leave it.
        """
        check_is_fitted(self, "components_")
        return deepcopy(self._local)

    def transform(self, X: Any) -> Any:
        """Map rows to the space of the metric, once the result is computed.

        Parameters
        ----------
        X : dask array of shape (n_samples, n_features) or dask DataFrame
            Rows.

        Returns
        -------
        dask array of shape (n_samples, n_components)
            In the same blocks; float32 where X is.
        """
        x, task = self._blocks(X, "X"), Tasks("transform")
        local, width = task.share(self._local), len(self.components_)
        da = need("dask.array", "dask")
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
        """Nearest rows of a dask collection in the learned metric, exactly: all are looked at.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries, in memory: every task is sent all of them.
        n_neighbors : int, default=5
            How many neighbours.
        reference : dask array or dask DataFrame, default=None
            Rows to search; ``None`` is those of `fit`.
        return_distance : bool, default=True
            Whether to return distances too.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Ascending; only where `return_distance` is true.
        indices : ndarray of shape (n_queries, n_neighbors)
            Rows of the reference; of equal distances the first row comes first.
        """
        k = check_count(n_neighbors, "n_neighbors")
        reference = self._fit_rows if reference is None else reference
        rows, task = self._blocks(reference, "reference"), Tasks("neighbors")
        shared = task.share((self._local, _mapped(self._local, self._local._rows(X))))
        found = [task(i, _nearest, shared, block, k, i) for i, block in enumerate(rows.blocks)]
        best = compute(task.merge(found))
        if best is None or best.n_rows < k:
            n_rows = 0 if best is None else best.n_rows
            raise ValueError(f"n_neighbors={k}, but there are {n_rows} rows to search.")
        distances = self._local._frame.scale * np.sqrt(best.squared)
        return (distances, best.indices) if return_distance else best.indices

    def _blocks(self, X: Any, name: str) -> Blocks:
        """Blocks of rows with the features of `fit`."""
        check_is_fitted(self, "components_")
        blocks = Blocks.of(X, name)
        validate_data(self._local, blocks.sample, skip_check_array=True, reset=False)
        return blocks

    def __getstate__(self) -> Any:
        # A graph of rows, or of handles to rows on a cluster, has no meaning elsewhere.
        return {**super().__getstate__(), "_fit_rows": None}


def _tally(local: Any, X: Any, y: Any, classes: AnyArray | None, number: int) -> ClassTally | None:
    with naming_block(number):
        return batch_tally(local, X, y, classes=classes)


def _n_rows(tally: ClassTally | None) -> int:
    return 0 if tally is None else tally.n_rows


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


def _sum(
    shared: tuple[Any, MetricJob], X: Any, n_rows: int, wanted: IntArray | None, number: int
) -> MetricSum | None:
    local, job = shared
    with naming_block(number):
        if len(X) != n_rows:
            raise ValueError(
                f"{n_rows} rows the first time and {len(X)} the second. Both passes need the same "
                "rows: persist what is drawn or read anew each time."
            )
        return batch_sum(job, batch_rows(local, X), wanted)


def _transform(local: Any, X: Any, number: int) -> AnyArray:
    with naming_block(number):
        return np.asarray(local.transform(X) if len(X) else np.empty((0, len(local.components_))))


def _mapped(local: Any, x: AnyArray) -> FloatArray:
    """Rows in the space of the metric, centred and of size about one."""
    with one_blas_thread():
        return np.asarray(local._frame.inward(x) @ local.components_.T)


def _nearest(
    shared: tuple[Any, FloatArray], X: Any, n_neighbors: int, number: int
) -> BlockNeighbors | None:
    local, queries = shared
    with naming_block(number):
        x = batch_rows(local, X)
    return BlockNeighbors.of(queries, _mapped(local, x), n_neighbors) if len(x) else None

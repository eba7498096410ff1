"""Metrics of samples that arrive over time, computed when they are read.

A batch changes the class models and with them the local metrics of all samples so far. Therefore
`partial_fit` only merges statistics and updates the reservoir, and the first access to a fitted
attribute averages the local metrics, once for all batches since the last access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from genmetric._chunks import one_blas_thread
from genmetric._typing import AnyArray, FloatArray
from genmetric._validation import codes_among
from genmetric.density._factored_statistics import AnyStatistics, model_statistics
from genmetric.density._scaling import Scaling
from genmetric.density._whitening import fourth_moments
from genmetric.metric._fitting import (
    COMPUTED,
    Average,
    base_coordinates,
    clear_attributes,
    fitted_attributes,
    plan_fit,
)
from genmetric.metric._reservoir import Reservoir
from genmetric.metric._specification import FitSpecification
from genmetric.metric._streaming import ClassTally, FourthPass


def reservoir_fourth_moments(reservoir: Reservoir, classes: AnyArray) -> FourthPass:
    """Return a function that estimates fourth moments from the samples of a reservoir.

    The mean over the samples of a class in the reservoir is exact while the reservoir has all
    samples. A class without samples there gets the fourth moment of its Gaussian.

    Parameters
    ----------
    reservoir : Reservoir
        Random sample of all samples, with labels.
    classes : ndarray of shape (n_classes,)
        Class names.

    Returns
    -------
    callable
        From coordinates and class statistics to fourth moments.
    """

    def estimate(frame: Scaling, stats: AnyStatistics) -> FloatArray:
        assert reservoir.rows is not None
        assert reservoir.labels is not None
        codes = codes_among(classes, reservoir.labels, "y", "")
        kept = np.bincount(codes, minlength=len(classes))
        fourth = fourth_moments(reservoir.rows, codes, stats.mean, frame) / np.maximum(kept, 1)
        gaussian = stats.traces**2 + 2 * stats.squares
        return np.asarray(stats.count * np.where(kept > 0, fourth, gaussian))

    return estimate


def stream_attributes(
    spec: FitSpecification, tally: ClassTally, reservoir: Reservoir
) -> dict[str, Any]:
    """Fit the class models of a stream, and average local metrics over the reservoir.

    Parameters
    ----------
    spec : FitSpecification
        Parameters of the last batch.
    tally : ClassTally
        Statistics of all samples so far, of at least two classes.
    reservoir : Reservoir
        Random sample of them, with labels.

    Returns
    -------
    dict
        Attributes as of :func:`~genmetric.metric._fitting.fitted_attributes`.
    """
    seen = tally.settled()
    before = model_statistics(seen.stats, allow_factors=spec.allows_factors)
    fourth = reservoir_fourth_moments(reservoir, seen.classes)
    frame, stats = base_coordinates(spec, seen.frame, before, fourth)
    plan = plan_fit(spec, frame, stats, seen.classes, reservoir.n_seen)
    assert reservoir.rows is not None
    total = plan.metric_sum(reservoir.rows)
    return fitted_attributes(plan, Average(total, total.relative_stderr(reservoir.n_seen)))


class OnlineMixin:
    """Fitted attributes that are computed from a stream when one of them is first read."""

    #: Tally and reservoir of `partial_fit`; None after `fit`.
    _stream: tuple[ClassTally, Reservoir] | None

    #: Parameters of the last `partial_fit`, only while the attributes have not been computed.
    _pending: FitSpecification

    def _defer_attributes(self, spec: FitSpecification) -> None:
        """Remove the fitted attributes, to be computed when one of them is read."""
        clear_attributes(self)
        self._pending = spec

    def _compute_deferred(self) -> None:
        """Compute the fitted attributes if a batch has come since they were computed."""
        spec, stream = vars(self).get("_pending"), vars(self).get("_stream")
        if spec is not None and stream is not None:
            with one_blas_thread():
                attributes = stream_attributes(spec, *stream)
            # In this order, because another thread may be reading an attribute.
            vars(self).update({**attributes, "_stream": stream})
            vars(self).pop("_pending", None)

    if not TYPE_CHECKING:  # type checkers should still find misspelt names

        def __getattr__(self, name: str) -> Any:
            # Called only for names that are not in the dictionary of the object.
            if "_pending" in vars(self) and name in COMPUTED:
                self._compute_deferred()
                return vars(self)[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> Any:
        # Copies and files have the metric, so that it is not computed again in each of them.
        self._compute_deferred()
        return super().__getstate__()

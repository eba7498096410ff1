"""Metrics of samples that arrive over time, computed when they are read.

A batch changes the class models and with them the local metrics of all samples so far. Therefore
`partial_fit` only merges statistics and updates the reservoir, and the first access to a fitted
attribute averages the local metrics, once for all batches since the last access.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from genmetric._chunks import one_blas_thread
from genmetric._rollback import restore_on_error
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import check_n_components, codes_among
from genmetric.density._factored_statistics import AnyStatistics, model_statistics
from genmetric.density._scaling import Scaling
from genmetric.density._whitening import fourth_moments
from genmetric.learners._fitting import (
    COMPUTED,
    Average,
    base_coordinates,
    clear_attributes,
    fitted_attributes,
    plan_fit,
)
from genmetric.learners._reservoir import RESERVOIR_SIZE, Reservoir
from genmetric.learners._specification import FitSpecification
from genmetric.learners._streaming import ClassTally, FourthPass, class_names


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
        Attributes as of :func:`~genmetric.learners._fitting.fitted_attributes`.
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
    """`partial_fit`, and fitted attributes that are computed when one of them is first read."""

    #: Tally and reservoir of `partial_fit`; None after `fit`.
    _stream: tuple[ClassTally, Reservoir] | None

    #: Parameters of the last `partial_fit`, only while the attributes have not been computed.
    _pending: FitSpecification

    if TYPE_CHECKING:  # defined by the estimator
        n_components: int | None

        def _specification(self) -> FitSpecification: ...

        def _labelled_samples(
            self, X: Any, y: Any, *, reset: bool = True
        ) -> tuple[AnyArray, AnyArray]: ...

    @restore_on_error
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Update the metric with more samples.

        The Gaussians are those of all samples seen so far, exactly. The local metrics are averaged
        over a uniform random sample of them, of `max_samples` samples if that is an integer and
        4096 otherwise; `metric_stderr_` is the standard error of that average. (With
        ``base="pooled"`` and ``shrinkage="auto"``, the amount of shrinkage is estimated from the
        same random sample.) The first call, and a call after `fit`, discards earlier samples.

        A call merges the statistics of the batch with those of the earlier ones. The metric is
        computed, with the parameters of the last call, when a fitted attribute is first read or
        used (by `transform`, for example), so that a call does not take the time of a fit.
        Warnings about the class models are given then. If the covariance matrices of all classes
        would take more than 32 MB, classes with fewer samples than features are stored as their
        centred samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (n_classes,), default=None
            All class names; used in the first call only. Without it, classes are added as they
            occur.

        Returns
        -------
        self : object
            The estimator, fitted on all samples seen so far. The metric is Euclidean until samples
            of two classes have been seen.
        """
        spec = self._specification()
        spec.check_streaming("partial_fit")
        stream = getattr(self, "_stream", None)
        x, labels = self._labelled_samples(X, y, reset=stream is None)
        if stream is None:
            names = None if classes is None else class_names(np.asarray(classes))
            whole = spec.n_draws(RESERVOIR_SIZE) if isinstance(spec.max_samples, int) else None
            tally, reservoir = None, Reservoir(whole or RESERVOIR_SIZE, spec.rng())
        else:
            tally, reservoir = stream[0], replace(stream[1])  # the old one stays if a step fails
            names = tally.classes if tally.fixed else None
        with one_blas_thread():
            new = ClassTally.of(x, labels, classes=names, n_jobs=spec.n_jobs)
            tally = new if tally is None else tally.merge(new)
            reservoir.add(x, labels)
        seen = tally.classes[tally.stats.count > 0]
        if len(seen) < 2:
            self._set_euclidean(tally)
        else:
            check_n_components(spec.n_components, x.shape[1])
            spec.log_priors(len(seen))  # raises if they are not valid
            self._defer_attributes(spec)
            self.classes_ = seen
        self._stream = tally, reservoir
        return self

    def _set_euclidean(self, tally: ClassTally) -> None:
        """Set the fitted attributes while samples of a single class have been seen."""
        clear_attributes(self)
        self.classes_ = tally.classes
        self.metric_ = np.eye(tally.stats.mean.shape[1])
        self.components_ = self.metric_[: self.n_components]
        self.metric_stderr_, self.n_iter_ = np.inf, 1

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

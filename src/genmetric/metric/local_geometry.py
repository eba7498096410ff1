"""What the class models say at single rows: local metrics, curvature, bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import ArrayLike, FloatArray
from genmetric.density.frame import Frame
from genmetric.density.models import ClassModels
from genmetric.geometry.local import interpolate, local_metrics
from genmetric.geometry.phi import phi
from genmetric.geometry.risk import density_bias
from genmetric.geometry.summation import dense_bytes_per_row
from genmetric.metric.mahalanobis import MahalanobisMixin


class LocalGeometryMixin(MahalanobisMixin):
    """Methods of a metric estimator that keeps its class models, in a frame."""

    _frame: Frame
    _models: ClassModels
    _log_priors: FloatArray | None
    _interpolation: float
    n_jobs: int | None

    def local_metrics(self, X: ArrayLike) -> FloatArray:
        """The local metric of each row (eq. eLocal), interpolated as in `fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Metrics; of determinant one where `interpolation` is one.
        """

        def of_chunk(x: FloatArray) -> FloatArray:
            metrics = local_metrics(phi(self._models, x, self._log_priors))
            return interpolate(metrics, self._interpolation)

        return self._map_rows(of_chunk, X)

    def curvature(self, X: ArrayLike) -> FloatArray:
        """The matrix Phi of each row (eq. eq:MetricEffect, section sProof), up to scale and sign.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Symmetric matrices.
        """
        return self._map_rows(lambda x: phi(self._models, x, self._log_priors), X)

    def bias(self, X: ArrayLike) -> FloatArray:
        """The integrand of the finite-sample bias under the learned metric (eq. eNN) at each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Positive where a neighbour at a distance raises the error. It goes with the power
            -(D + 2) of the unit of X: an error says so where that is no float64 number.
        """
        log_unit = float(np.log(self._frame.scale)) if hasattr(self, "_frame") else 0.0

        def of_chunk(x: FloatArray) -> FloatArray:
            return density_bias(self._models, x, self.metric_, self._log_priors, log_unit)

        return self._map_rows(of_chunk, X)

    def _map_rows(self, function: Any, X: Any) -> FloatArray:
        """Apply a function of rows in the frame, chunk by chunk."""
        x = self._rows(X)
        if not hasattr(self, "_models"):
            raise ValueError(
                "Rows of a single class have been seen so far, so there is no local metric yet. "
                "Call partial_fit with rows of another class."
            )
        chunks = row_chunks(len(x), dense_bytes_per_row(x.shape[1], self._models.n_classes))
        parts = map_chunks(lambda rows: function(self._frame.inward(x[rows])), chunks, self.n_jobs)
        return np.concatenate(list(parts))

"""Local metrics, Phi and bias of a fitted metric at single samples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import ArrayLike, FloatArray
from genmetric.density._low_rank import LowRankGaussians
from genmetric.density._models import ClassModels
from genmetric.density._scaling import Scaling
from genmetric.geometry._local import Normalization, interpolate, local_metrics
from genmetric.geometry._phi import phi
from genmetric.geometry._risk import density_bias
from genmetric.geometry._summation import dense_bytes_per_row
from genmetric.learners._mahalanobis import fitted_samples


class LocalGeometryMixin:
    """Methods of a metric estimator that keeps its class models and their coordinates."""

    _frame: Scaling
    _models: ClassModels
    _log_priors: FloatArray | None
    _interpolation: float
    _normalization: Normalization
    metric_: FloatArray

    @cached_property
    def covariances_(self) -> FloatArray:
        """Class covariances in input space, shape (n_classes, n_features, n_features).

        `fit` sets them if they are small. With many classes they are computed on first access.
        """
        models = getattr(self, "_models", None)
        if "covariances_" in vars(self):  # computed together with the models
            return np.asarray(vars(self)["covariances_"])
        if not isinstance(models, LowRankGaussians):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'covariances_'")
        return self._frame.restore_covariances(models.covariances)

    def local_metrics(self, X: ArrayLike) -> FloatArray:
        """Return the local metric of each sample, interpolated as in `fit`.

        The local metric of a sample is the one under which the first-order bias of the
        nearest-neighbour error vanishes there. `metric_` is the average over the training samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Local metrics. With ``interpolation=1`` and ``base="identity"`` they have determinant
            one or trace `n_features`, depending on `normalization`.
        """

        def of_chunk(x: FloatArray) -> FloatArray:
            matrices = phi(self._models, x, self._log_priors)
            metrics = local_metrics(matrices, normalization=self._normalization)
            return self._frame.restore_metrics(interpolate(metrics, self._interpolation))

        return self._map_samples(of_chunk, X)

    def curvature(self, X: ArrayLike) -> FloatArray:
        """Return the matrix Phi of each sample, up to scale and sign.

        Phi is the sum over classes of the Hessian of the class density, weighted by the densities
        of all classes. With two classes it is the difference of their Hessians, each divided by its
        density. A
        neighbour at a small displacement d changes the expected error by a term proportional to
        dᵀ Phi d, so that eigenvectors with eigenvalues of opposite sign are directions in which a
        distant neighbour raises and lowers the error. (The `curvature` of a class model is the
        Hessian of its density divided by the density.)

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features, n_features)
            Symmetric matrices.
        """
        return self._map_samples(
            lambda x: self._frame.restore_metrics(phi(self._models, x, self._log_priors)), X
        )

    def bias(self, X: ArrayLike) -> FloatArray:
        """Return the integrand of the finite-sample bias under the learned metric at each sample.

        The nearest neighbour among N samples lies at a distance, and its error differs from the
        error with infinitely many samples by an integral over this quantity, times a factor that
        depends on N. Large absolute values mark samples where the distance of the nearest neighbour
        matters most. The sum over many samples shows by how much a metric raises or lowers the
        error.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Positive if a neighbour at a distance raises the error. The unit is that of X to the
            power -(D + 2); an error is raised if the result is outside the range of float64.
        """

        def of_chunk(x: FloatArray) -> FloatArray:
            metric = self._frame.apply_metric(self.metric_)
            return density_bias(self._models, x, metric, self._log_priors, self._frame.log_unit)

        return self._map_samples(of_chunk, X)

    def _map_samples(
        self, function: Callable[[FloatArray], FloatArray], X: ArrayLike
    ) -> FloatArray:
        """Apply a function to samples in the coordinates of the class models, in chunks."""
        x = fitted_samples(self, X)
        if not hasattr(self, "_models"):
            raise ValueError(
                "Only samples of a single class have been seen so far, so that there are no local "
                "metrics. Call partial_fit with samples of another class."
            )
        chunks = row_chunks(len(x), dense_bytes_per_row(x.shape[1], self._models.n_classes))
        n_jobs = getattr(self, "n_jobs", None)
        parts = map_chunks(lambda rows: function(self._frame.apply(x[rows])), chunks, n_jobs)
        return np.concatenate(list(parts))

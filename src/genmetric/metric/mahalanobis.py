"""What every estimator with a learned Mahalanobis metric offers."""

from __future__ import annotations

from collections.abc import Callable
from math import hypot
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import cast_finite, form_points, refuse_lazy


class MahalanobisMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    r"""Methods of a metric :math:`M = L^T L` that is kept as `components_`, the factor L.

    The distance is :math:`d(x, x') = \sqrt{(x-x')^T M (x-x')} = \|Lx - Lx'\|` (eq. eMaha2).
    The names and shapes are those of metric-learn, so that code moves over as it is.
    """

    components_: FloatArray
    preprocessor: Any = None

    def _rows(self, X: Any) -> AnyArray:
        """Validated rows of `X` for a fitted estimator, float32 or float64."""
        check_is_fitted(self, "components_")
        X = form_points(X, self.preprocessor, self)
        return np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: ArrayLike) -> Any:
        """Map rows to the space of the metric, where distances are Euclidean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, or indices of rows with a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            ``X @ components_.T``, float32 where X is.
        """
        x = self._rows(X)
        with np.errstate(over="ignore", invalid="ignore"):
            z = x @ self.components_.T.astype(x.dtype, copy=False)
            if not np.isfinite(z).all():
                # float32 ends at 3e38, which a factor or a sum on the way may exceed.
                z = cast_finite(x.astype(float) @ self.components_.T, x.dtype, "Images")
        return z

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """Map rows back from the space of the metric; only where `components_` is square.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Rows in the space of the metric.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows in the space of the input.
        """
        check_is_fitted(self, "components_")
        L = self.components_
        if L.shape[0] != L.shape[1]:
            raise ValueError(
                f"components_ has shape {L.shape}: {L.shape[1] - L.shape[0]} dimensions were "
                "dropped and cannot be brought back. Fit with n_components=None."
            )
        refuse_lazy(X)
        z = check_array(X, dtype=[np.float64, np.float32])
        if z.shape[1] != L.shape[0]:
            raise ValueError(
                f"X has {z.shape[1]} columns, but the metric's space has {L.shape[0]}."
            )
        return np.asarray(np.linalg.solve(L, z.T.astype(float)).T.astype(z.dtype))

    def get_mahalanobis_matrix(self) -> FloatArray:
        """The matrix M of the metric.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            A copy of ``components_.T @ components_``.
        """
        check_is_fitted(self, "components_")
        return np.asarray(self.components_.T @ self.components_)

    def get_metric(self) -> Callable[..., float]:
        """The metric as a function of two rows, which a later fit does not change.

        Returns
        -------
        callable
            ``metric(u, v, squared=False)``, fit for the ``metric`` of scikit-learn's estimators
            (slow there: transforming the rows first is 40 to 125 times faster).
        """
        check_is_fitted(self, "components_")
        factor = np.atleast_2d(np.array(self.components_))

        def metric(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            a, b = (np.atleast_1d(np.squeeze(np.asarray(p, float))) for p in (u, v))
            if a.shape != (factor.shape[1],) or b.shape != a.shape:
                raise ValueError(
                    f"The metric compares two rows of {factor.shape[1]} features; got shapes "
                    f"{np.shape(u)} and {np.shape(v)}."
                )
            d = factor @ (a - b)
            return float(d @ d) if squared else hypot(*d)  # no square of 1e-200 or 1e200

        return metric

    def pair_distance(self, pairs: ArrayLike) -> FloatArray:
        """Distance between the two rows of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of rows, or with a `preprocessor` pairs of indices, shape (n_pairs, 2).

        Returns
        -------
        ndarray of shape (n_pairs,)
            Distances.
        """
        check_is_fitted(self, "components_")
        formed = form_points(pairs, self.preprocessor, self, per_tuple=2)
        formed = check_array(formed, dtype=np.float64, allow_nd=True, ensure_2d=False)
        n_features = self.components_.shape[1]
        if formed.shape[2] != n_features:
            raise ValueError(
                f"The pairs have {formed.shape[2]} features, but {type(self).__name__} is expecting "
                f"{n_features} features as input."
            )
        difference = (formed[:, 1] - formed[:, 0]) @ self.components_.T
        # Scaled by the largest entry: the square of 1e160 is infinite.
        size = np.abs(difference).max(axis=1, keepdims=True, initial=0.0)
        size[size == 0] = 1.0
        return np.asarray(size[:, 0] * np.linalg.norm(difference / size, axis=1))

    def pair_score(self, pairs: ArrayLike) -> FloatArray:
        """Similarity of the two rows of each pair: minus their distance.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of rows, or with a `preprocessor` pairs of indices, shape (n_pairs, 2).

        Returns
        -------
        ndarray of shape (n_pairs,)
            The larger, the more alike.
        """
        return -self.pair_distance(pairs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

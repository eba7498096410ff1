"""Methods that estimators share: of a learned linear map, and of a Mahalanobis metric."""

from __future__ import annotations

from collections.abc import Callable
from math import hypot
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._text import import_optional
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import FLOATS, cast_finite, check_parameter, form_points, refuse_lazy


def fitted_samples(estimator: BaseEstimator, X: Any) -> AnyArray:
    """Validate samples, or indices of samples, for a fitted estimator; keep float32."""
    check_is_fitted(estimator, "components_")
    X = form_points(X, getattr(estimator, "preprocessor", None), estimator)
    return np.asarray(validate_data(estimator, X, dtype=FLOATS, reset=False))


def linear_layer(weight: AnyArray, bias: AnyArray | None, dtype: str) -> Any:
    """Return a :class:`torch.nn.Linear` with the given weight and bias, on the CPU."""
    check_parameter(dtype, "dtype", ["float32", "float64"])
    torch = import_optional("torch", "torch")
    n_components, n_features = weight.shape
    layer = torch.nn.Linear(
        n_features, n_components, bias=bias is not None, dtype=getattr(torch, dtype)
    )
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.array(weight, dtype=dtype)))
        if bias is not None:
            layer.bias.copy_(torch.from_numpy(np.array(bias, dtype=dtype)))
    return layer


class LinearMapMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of a supervised transformer that multiplies samples by `components_`, a matrix L.

    A class that inherits from this mixin sets `components_` in ``fit``; `preprocessor` is optional.
    """

    components_: FloatArray

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: ArrayLike) -> Any:
        """Apply the learned map; Euclidean distance after it is the learned distance.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or indices of samples if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            ``X @ components_.T``, float32 if X is.
        """
        x = fitted_samples(self, X)
        with np.errstate(over="ignore", invalid="ignore"):
            # The factor may exceed the range of float32 even if the result does not.
            z = x @ self.components_.T.astype(x.dtype, copy=False)
            if not np.isfinite(z).all():
                z = cast_finite(x.astype(float) @ self.components_.T, x.dtype, "Images")
        return z

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Undo the learned map, if `components_` is square.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Samples after the learned map.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Samples in input space.
        """
        check_is_fitted(self, "components_")
        L = self.components_
        if L.shape[0] != L.shape[1]:
            raise ValueError(
                f"components_ has shape {L.shape}: {L.shape[1] - L.shape[0]} dimensions were "
                "dropped and cannot be restored. Fit with n_components=None."
            )
        refuse_lazy(X)
        z = check_array(X, dtype=FLOATS)
        if z.shape[1] != L.shape[0]:
            raise ValueError(f"X has {z.shape[1]} columns, but the learned space has {L.shape[0]}.")
        return np.asarray(np.linalg.solve(L, z.T.astype(float)).T.astype(z.dtype))

    def to_torch(self, *, dtype: str = "float32") -> Any:
        """Return the map as a layer of torch (``pip install "genmetric[torch]"``).

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float32"
            Type of the weights. "float64" has the precision of `components_`.

        Returns
        -------
        torch.nn.Linear
            A layer without bias, on the CPU, whose output is that of `transform`. Its weights can
            be trained further.
        """
        check_is_fitted(self, "components_")
        return linear_layer(self.components_, None, dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.target_tags.required = True
        return tags


class MahalanobisMixin:
    r"""Methods of an estimator with a metric :math:`M = L^T L`, kept as its factor `components_`.

    The distance is :math:`d(x, x') = \sqrt{(x-x')^T M (x-x')} = \|Lx - Lx'\|`. Names and shapes are
    those of metric-learn. The estimator need not be a transformer: see :class:`LinearMapMixin`.
    """

    components_: FloatArray

    def get_mahalanobis_matrix(self) -> FloatArray:
        """Return the matrix M of the metric.

        Returns
        -------
        ndarray of shape (n_features, n_features)
            A copy of ``components_.T @ components_``.
        """
        check_is_fitted(self, "components_")
        return self.components_.T @ self.components_

    def get_metric(self) -> Callable[..., float]:
        """Return the metric as a function of two samples, which a later fit does not change.

        Returns
        -------
        callable
            ``metric(u, v, squared=False)``, suitable as the ``metric`` of scikit-learn's
            estimators. Transforming the samples first is about a thousand times faster.
        """
        check_is_fitted(self, "components_")
        factor = np.array(self.components_, ndmin=2)

        def metric(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            a, b = (np.atleast_1d(np.squeeze(np.asarray(p, float))) for p in (u, v))
            if a.shape != (factor.shape[1],) or b.shape != a.shape:
                raise ValueError(
                    f"The metric compares two samples of {factor.shape[1]} features; got shapes "
                    f"{np.shape(u)} and {np.shape(v)}."
                )
            d = factor @ (a - b)
            return float(d @ d) if squared else hypot(*d)

        return metric

    def pair_distance(self, pairs: ArrayLike) -> FloatArray:
        """Return the distance between the two samples of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of samples; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Distances.
        """
        check_is_fitted(self, "components_")
        formed = form_points(pairs, getattr(self, "preprocessor", None), self, per_tuple=2)
        formed = check_array(formed, dtype=np.float64, allow_nd=True, ensure_2d=False)
        if formed.shape[2] != self.components_.shape[1]:
            raise ValueError(
                f"The pairs have {formed.shape[2]} features, but {type(self).__name__} is expecting "
                f"{self.components_.shape[1]} features as input."
            )
        difference = (formed[:, 1] - formed[:, 0]) @ self.components_.T
        return np.asarray(np.linalg.norm(difference, axis=1))

    def pair_score(self, pairs: ArrayLike) -> FloatArray:
        """Return the similarity of the two samples of each pair: minus their distance.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of samples; pairs of indices, shape (n_pairs, 2), if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_pairs,)
            Similarities; larger values are more similar.
        """
        return -self.pair_distance(pairs)

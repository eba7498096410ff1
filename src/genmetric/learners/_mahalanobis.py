"""Mixins of estimators with a learned linear map, and of those with a Mahalanobis metric."""

from __future__ import annotations

from collections.abc import Callable
from math import hypot
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._array_api import as_numpy, dispatch_namespace, float_dtypes, like
from genmetric._typing import AnyArray, ArrayLike, FloatArray
from genmetric._validation import cast_finite, form_points, refuse_lazy
from genmetric.learners._torch import linear_layer


def fitted_samples(estimator: BaseEstimator, X: Any) -> AnyArray:
    """Return validated samples for a fitted estimator, float32 or float64.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator with `components_`.
    X : array-like of shape (n_samples, n_features)
        Samples, or indices of samples if the estimator has a `preprocessor`.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        The samples.
    """
    check_is_fitted(estimator, "components_")
    X = form_points(X, getattr(estimator, "preprocessor", None), estimator)
    return np.asarray(validate_data(estimator, X, dtype=[np.float64, np.float32], reset=False))


def numpy_components(estimator: Any, method: str) -> FloatArray:
    """Return `components_` as a NumPy array, for a method that was given NumPy arrays.

    As in scikit-learn, arrays of different libraries are an error under array API dispatch.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator.
    method : str
        Name of its method, for the error.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        The factor.
    """
    xp = dispatch_namespace(estimator.components_)
    if xp is not None:
        raise ValueError(
            f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace and "
            f"the same device as those passed to fit(), {xp.__name__}; got NumPy or an array-like. "
            "Convert X, or switch array_api_dispatch off."
        )
    return as_numpy(estimator.components_)


class LinearMapMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of a transformer that multiplies samples by `components_`, a matrix L.

    A class that inherits from this mixin sets `components_` in ``fit``; `preprocessor` is optional.
    """

    components_: FloatArray

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: ArrayLike) -> Any:
        """Map samples to the space of the metric, in which distances are Euclidean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, or indices of samples if there is a `preprocessor`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            ``X @ components_.T``, float32 if X is. Arrays of other libraries, such as torch
            tensors, are mapped to the same kind if scikit-learn's ``array_api_dispatch`` is on.
        """
        xp = dispatch_namespace(X)
        if xp is not None:
            check_is_fitted(self, "components_")
            x = validate_data(self, X, dtype=float_dtypes(xp), reset=False)
            return x @ like(xp, self.components_.T, x)
        x = fitted_samples(self, X)
        L = numpy_components(self, "transform")
        with np.errstate(over="ignore", invalid="ignore"):
            # The factor may exceed the range of float32 even if the result does not.
            z = x @ L.T.astype(x.dtype, copy=False)
            if not np.isfinite(z).all():
                z = cast_finite(x.astype(float) @ L.T, x.dtype, "Images")
        return z

    def inverse_transform(self, X: ArrayLike) -> Any:
        """Map samples back from the space of the metric, if `components_` is square.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Samples in the space of the metric.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Samples in input space. Arrays of other libraries give the same kind if scikit-learn's
            ``array_api_dispatch`` is on.
        """
        check_is_fitted(self, "components_")
        xp, L = dispatch_namespace(X), self.components_
        if L.shape[0] != L.shape[1]:
            raise ValueError(
                f"components_ has shape {L.shape}: {L.shape[1] - L.shape[0]} dimensions were "
                "dropped and cannot be restored. Fit with n_components=None."
            )
        refuse_lazy(X)
        z = check_array(X, dtype=float_dtypes(np if xp is None else xp))
        if z.shape[1] != L.shape[0]:
            raise ValueError(
                f"X has {z.shape[1]} columns, but the metric's space has {L.shape[0]}."
            )
        if xp is not None:
            return xp.linalg.solve(like(xp, L, z), z.T).T
        L = numpy_components(self, "inverse_transform")
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
        return linear_layer(as_numpy(self.components_), None, dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class MahalanobisMixin:
    r"""Methods of an estimator with a metric :math:`M = L^T L`, kept as its factor `components_`.

    The distance is :math:`d(x, x') = \sqrt{(x-x')^T M (x-x')} = \|Lx - Lx'\|`. Names and shapes are
    those of metric-learn, so that code that uses it runs without changes. The estimator need not be
    a transformer: see :class:`LinearMapMixin`.
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
        factor = np.atleast_2d(np.array(as_numpy(self.components_)))

        def metric(u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
            a, b = (np.atleast_1d(np.squeeze(np.asarray(p, float))) for p in (u, v))
            if a.shape != (factor.shape[1],) or b.shape != a.shape:
                raise ValueError(
                    f"The metric compares two samples of {factor.shape[1]} features; got shapes "
                    f"{np.shape(u)} and {np.shape(v)}."
                )
            d = factor @ (a - b)
            return float(d @ d) if squared else hypot(*d)  # avoids squares of 1e-200 or 1e200

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
            Distances. Arrays of other libraries give the same kind if scikit-learn's
            ``array_api_dispatch`` is on.
        """
        check_is_fitted(self, "components_")
        xp = dispatch_namespace(pairs)
        if xp is not None:
            distances: FloatArray = self._pair_distance_array(xp, pairs)
            return distances
        formed = form_points(pairs, getattr(self, "preprocessor", None), self, per_tuple=2)
        formed = check_array(formed, dtype=np.float64, allow_nd=True, ensure_2d=False)
        self._check_pair_features(formed.shape[2])
        difference = (formed[:, 1] - formed[:, 0]) @ numpy_components(self, "pair_distance").T
        # Scaled by the largest entry, because the square of 1e160 is infinite.
        size = np.abs(difference).max(axis=1, keepdims=True, initial=0.0)
        size[size == 0] = 1.0
        return np.asarray(size[:, 0] * np.linalg.norm(difference / size, axis=1))

    def _check_pair_features(self, found: int) -> None:
        """Raise a ValueError if pairs have another number of features than the metric."""
        n_features = self.components_.shape[1]
        if found != n_features:
            raise ValueError(
                f"The pairs have {found} features, but {type(self).__name__} is expecting "
                f"{n_features} features as input."
            )

    def _pair_distance_array(self, xp: Any, pairs: Any) -> Any:
        """Compute `pair_distance` in another array namespace."""
        formed = form_points(pairs, None, self, per_tuple=2)
        options = {"dtype": float_dtypes(xp), "allow_nd": True, "ensure_2d": False}
        formed = check_array(formed, **options)
        self._check_pair_features(formed.shape[2])
        difference = formed[:, 1, :] - formed[:, 0, :]
        mapped = difference @ like(xp, self.components_.T, formed)
        return xp.sqrt(xp.sum(mapped * mapped, axis=1))

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

"""Class models of any kind behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._covariance import fit_weighted
from genmetric.density._gaussian import ClassGaussians, GaussianDensity


class DensityModel(Protocol):
    """Interface of a fitted model of one class."""

    def log_density(self, X: FloatArray, /) -> FloatArray:
        """Return the log-density, shape (n_samples,)."""

    def gradient(self, X: FloatArray, /) -> FloatArray:
        """Return the gradient of the log-density, shape (n_samples, n_features)."""

    def curvature(self, X: FloatArray, /) -> FloatArray:
        """Return the Hessian of the density divided by the density, one matrix per sample."""


class ClassModels(Protocol):
    """Interface of the class models of all classes."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""

    def log_density(self, X: FloatArray, /) -> FloatArray:
        """Return the log-density of each class at each sample, shape (n_samples, n_classes)."""

    def weighted_curvature(self, X: FloatArray, weights: FloatArray, /) -> FloatArray:
        """Return the sum over classes of w_c G_c, shape (n_samples, n_features, n_features)."""

    def precision_size(self, weights: FloatArray, /) -> FloatArray:
        """Return the size of the precisions in the sum, a measure of its rounding errors."""


@dataclass(frozen=True)
class SeparateModels:
    """One fitted :class:`DensityModel` per class.

    Attributes
    ----------
    models : sequence of DensityModel
        In class order.
    """

    models: Sequence[DensityModel]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.models)

    def log_density(self, X: FloatArray) -> FloatArray:
        """Return the log-density of each class at each sample, shape (n_samples, n_classes)."""
        return np.column_stack([model.log_density(X) for model in self.models])

    def weighted_curvature(self, X: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sum over classes of w_c G_c, shape (n_samples, n_features, n_features)."""
        total = np.zeros((*X.shape, X.shape[1]))
        for model, weight in zip(self.models, weights.T, strict=True):
            rows = np.flatnonzero(weight)
            if len(rows):
                total[rows] += weight[rows, None, None] * model.curvature(X[rows])
        return total

    def precision_size(self, weights: FloatArray) -> FloatArray:
        """Return zeros, shape (n_samples,): general models have no precision matrices."""
        return np.zeros(len(weights))


def fit_class_models(
    model: Any,
    X: FloatArray,
    codes: IntArray,
    gaussians: ClassGaussians,
    *,
    sample_weight: FloatArray | None = None,
    classes: AnyArray | None = None,
    rng: np.random.RandomState | None = None,
) -> SeparateModels:
    """Clone and fit a density model on the samples of each class.

    Parameters
    ----------
    model : estimator
        Class model with ``fit(X)``, ``log_density``, ``gradient`` and ``curvature``.
    X : ndarray of shape (n_samples, n_features)
        Samples.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    gaussians : ClassGaussians
        One Gaussian per class, used for a class with a single distinct sample.
    sample_weight : ndarray of shape (n_samples,), default=None
        Frequencies of the samples.
    classes : ndarray of shape (n_classes,), default=None
        Class names for errors.
    rng : RandomState, default=None
        Draws the seeds of models whose `random_state` is None.

    Returns
    -------
    SeparateModels
        The fitted models.
    """
    missing = [
        name
        for name in ("fit", "log_density", "gradient", "curvature")
        if not callable(getattr(model, name, None))
    ]
    if missing:
        raise TypeError(
            f"class_model={model!r} has no method {', '.join(missing)}. A class model needs fit, "
            "log_density, gradient and curvature, like genmetric.GaussianMixtureModel."
        )
    fitted: list[DensityModel] = []
    params = model.get_params() if hasattr(model, "get_params") else {}
    seed_it = rng is not None and params.get("random_state", 0) is None
    for c in range(gaussians.n_classes):
        rows = codes == c
        x = X[rows]
        if (x == x[0]).all():
            fitted.append(GaussianDensity.of_class(gaussians, c))
            continue
        try:
            weight = None if sample_weight is None else sample_weight[rows]
            own = clone(model, safe=False)  # a plain object is copied
            if rng is not None and seed_it:
                own.set_params(random_state=rng.randint(2**31 - 1))
            fitted.append(fit_weighted(own, x, weight))
        except Exception as error:
            name = c if classes is None else classes[c]
            error.add_note(f"while fitting class_model={model!r} on class {name!r}")
            raise
    return SeparateModels(fitted)

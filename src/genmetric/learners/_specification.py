"""Specification of a fit: the validated parameters that all functions of a fit take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from genmetric._parameters import (
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
    ArrayLike,
    InstanceOf,
    Interval,
    ParameterRules,
)
from genmetric._typing import FloatArray
from genmetric._validation import check_priors
from genmetric.geometry._local import Normalization
from genmetric.learners._class_models import ClassModelSpecification
from genmetric.learners._combination import (
    Combination,
    GaussianMixtureWeights,
    KernelDensityWeights,
    as_combination,
)

#: Default of the parameter `normalization` of all estimators.
DEFAULT_NORMALIZATION: Normalization = "trace"

#: Valid values of the parameters that :class:`GenerativeMetric` and its relatives share.
METRIC_RULES: ParameterRules = {
    "combination": [
        "uniform",
        "kde",
        "gmm",
        InstanceOf(
            (KernelDensityWeights, GaussianMixtureWeights),
            "a KernelDensityWeights, a GaussianMixtureWeights",
        ),
        ArrayLike("an array of one weight per sample"),
    ],
    "shrinkage": [None, "auto", Interval(float, 0, 1)],
    "base": ["identity", "pooled"],
    "normalization": ["determinant", "trace"],
    "interpolation": [Interval(float, 0, 1)],
    "n_components": [None, Interval(int, 1)],
    "solver": ["auto", "dense", "resolvent"],
    "class_tol": [Interval(float, 0, 1)],
    "max_samples": [None, "auto", Interval(int, 1), Interval(float, 0, 1, closed="right")],
    "n_jobs": N_JOBS,
    "random_state": RANDOM_STATE,
    "verbose": VERBOSE,
}


@dataclass(frozen=True)
class FitSpecification:
    """Parameters of a fit, validated and independent of the estimator they come from.

    Attributes
    ----------
    combination : Combination
        Weights of the local metrics in the average.
    class_models : ClassModelSpecification
        Density of each class.
    base : {"identity", "pooled"}
        Metric towards which shrinkage and interpolation regularise.
    normalization : {"determinant", "trace"}
        Quantity that all local metrics have in common before they are averaged.
    interpolation : float
        Weight of the local metrics against the base.
    n_components : int or None
        Output dimension.
    solver : {"auto", "dense", "resolvent"}
        Solver of the sum of local metrics.
    class_tol : float
        Relative weight below which the resolvent solver ignores a class.
    max_samples : int, float, "auto" or None
        Number or fraction of samples to average over.
    priors : array-like or None
        Class priors.
    n_jobs : int or None
        Number of threads.
    random_state : int, RandomState or None
        Seed.
    """

    combination: Combination
    class_models: ClassModelSpecification
    base: Literal["identity", "pooled"]
    normalization: Normalization
    interpolation: float
    n_components: int | None
    solver: Literal["auto", "dense", "resolvent"]
    class_tol: float
    max_samples: Any
    priors: Any
    n_jobs: int | None
    random_state: Any

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> FitSpecification:
        """Build the specification from parameters that satisfy :data:`METRIC_RULES`.

        Parameters
        ----------
        parameters : mapping
            Parameters of a :class:`GenerativeMetric`, by name.

        Returns
        -------
        FitSpecification
            The specification, after a check of the combinations of parameters.
        """
        n_components = parameters["n_components"]
        spec = cls(
            combination=as_combination(parameters["combination"]),
            class_models=ClassModelSpecification.of(
                parameters["shrinkage"], parameters["class_model"]
            ),
            base=parameters["base"],
            normalization=parameters["normalization"],
            interpolation=float(parameters["interpolation"]),
            n_components=None if n_components is None else int(n_components),
            solver=parameters["solver"],
            class_tol=float(parameters["class_tol"]),
            max_samples=parameters["max_samples"],
            priors=parameters["priors"],
            n_jobs=parameters["n_jobs"],
            random_state=parameters["random_state"],
        )
        if spec.solver == "resolvent" and not spec.class_models.is_gaussian:
            raise ValueError(
                'solver="resolvent" requires Gaussian class models; got '
                f'class_model={spec.class_models.class_model!r}. Use solver="auto" or "dense".'
            )
        if spec.combination.by_density and spec.max_samples == "auto":
            raise ValueError(
                'max_samples="auto" requires combination="uniform"; got '
                f"combination={spec.combination!r}. Give a number or a fraction of samples."
            )
        return spec

    def check_streaming(self, method: str) -> None:
        """Raise a ValueError if the fit needs all samples in memory.

        Parameters
        ----------
        method : str
            Name of the method that receives the samples in batches.
        """
        if not self.combination.streams:
            raise ValueError(
                f'{method} receives samples in batches and requires combination="uniform"; got '
                f"{self.combination!r}. Use fit."
            )
        if not self.class_models.streams:
            raise ValueError(
                f"{method} receives samples in batches and requires Gaussian class models without "
                "a covariance_estimator; got a class_model that needs all samples of a class at "
                "once. Use shrinkage instead, or fit."
            )
        if self.max_samples == "auto" and method != "partial_fit":
            raise ValueError(
                f'{method} does not support max_samples="auto", which draws samples in random order '
                "from memory. Give a number or a fraction of samples."
            )

    def on_arrays(self, library: str) -> FitSpecification:
        """Return the specification of a fit on arrays of another library than NumPy.

        Only the dense solver computes in other libraries. ``"auto"`` therefore selects it.

        Parameters
        ----------
        library : str
            Name of the array namespace, for errors.

        Returns
        -------
        FitSpecification
            The specification with ``solver="dense"``.
        """
        advice = (
            f"in the array namespace {library}. Convert X to NumPy for this fit, or switch "
            "array_api_dispatch off."
        )
        if self.solver == "resolvent":
            raise ValueError(
                f'solver="resolvent" does not compute in the array namespace {library}. Use '
                'solver="dense", or convert X to NumPy.'
            )
        if not self.class_models.is_gaussian:
            raise ValueError(
                f"class_model={self.class_models.class_model!r} does not compute {advice}"
            )
        if self.combination.by_density:
            raise ValueError(f"combination={self.combination!r} does not compute {advice}")
        return replace(self, solver="dense")

    def check_validation(self, X_val: Any, y_val: Any, given: Any) -> None:
        """Raise a ValueError if validation samples have no use for the `given` combination."""
        if not self.combination.by_density:
            raise ValueError(
                'X_val and y_val require combination="gmm" (and X_val "kde"); got '
                f"combination={given!r}. Leave them out."
            )
        needs_labels = isinstance(self.combination, GaussianMixtureWeights)
        if X_val is None or (y_val is None and needs_labels):
            missing, there = ("X_val", "y_val") if X_val is None else ("y_val", "X_val")
            raise ValueError(f"{there} was given without {missing}. Pass both to fit.")

    @property
    def depends_on_units(self) -> bool:
        """Whether the metric depends on the units of single features beyond a change of units."""
        plain = self.class_models.streams and not self.class_models.shrinkage
        return self.base == "identity" and not (
            plain
            and self.interpolation == 1
            and self.normalization == "determinant"
            and not self.combination.by_density
        )

    @property
    def allows_factors(self) -> bool:
        """Whether classes can be represented by their samples instead of covariance matrices."""
        return (
            self.solver == "auto"
            and self.class_models.streams
            and self.class_models.shrinkage not in (None, 0)
        )

    @property
    def needs_fourth_moments(self) -> bool:
        """Whether fourth moments in the whitened coordinates take a pass over the samples."""
        return self.base == "pooled" and self.class_models.shrinkage == "auto"

    def n_draws(self, n_samples: int) -> int | None:
        """Return the number of samples to draw out of `n_samples`, or None for all of them."""
        if self.max_samples is None or self.max_samples == "auto":
            return None
        if isinstance(self.max_samples, Integral):
            return int(self.max_samples)
        return max(1, round(float(self.max_samples) * n_samples))

    def log_priors(self, n_classes: int) -> FloatArray | None:
        """Return the logarithms of the class priors, or None if they are equal."""
        return check_priors(self.priors, n_classes)

    def rng(self) -> np.random.RandomState:
        """Return a random number generator at its start."""
        rng: np.random.RandomState = check_random_state(self.random_state)
        return rng

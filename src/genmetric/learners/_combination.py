"""Combinations: which weights the local metrics get in their average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from sklearn.base import BaseEstimator, clone

from genmetric._parameters import Interval, ParameterRules, check_parameters


@dataclass(frozen=True)
class UniformWeights:
    """Equal weights."""

    #: Whether the weight of a sample is known before all samples have been seen.
    streams: ClassVar[bool] = True
    #: Whether weights are proportional to a density under the metric, found by iteration.
    by_density: ClassVar[bool] = False


@dataclass(frozen=True)
class GivenWeights:
    """Weights that the user passed, one per sample."""

    weights: Any
    streams: ClassVar[bool] = False
    by_density: ClassVar[bool] = False


class KernelDensityWeights(BaseEstimator):
    """Weights proportional to a kernel density estimate under the learned metric.

    Pass it to :class:`GenerativeMetric` as ``combination`` to change the defaults of
    ``combination="kde"``. Samples in dense regions get larger weights. The density depends on the
    metric and the metric on the density, so that both are computed in turns.

    Parameters
    ----------
    bandwidth : float, default=None
        Width sigma of the kernel exp(-d²/sigma²), in units of the learned distance. A large width
        makes all weights equal; a small one makes each weight depend on the nearest samples only.
        ``None`` selects the width with the largest leave-one-out likelihood in each iteration, or
        the largest likelihood of `X_val` if that is passed to ``fit``.
    max_iter : int, default=20
        Maximum number of iterations. They end earlier when the metric changes by less than 1e-4 of
        its Frobenius norm.

    See Also
    --------
    GaussianMixtureWeights : Weights by one Gaussian per class.

    Examples
    --------
    >>> from genmetric import GenerativeMetric, KernelDensityWeights
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = GenerativeMetric(KernelDensityWeights(bandwidth=0.5)).fit(X, y)
    >>> metric.weights_.shape, float(metric.bandwidths_[-1])
    ((150,), 0.5)
    """

    streams: ClassVar[bool] = False
    by_density: ClassVar[bool] = True
    _parameter_rules: ClassVar[ParameterRules] = {
        "bandwidth": [None, Interval(float, 0, closed="neither")],
        "max_iter": [Interval(int, 1)],
    }

    def __init__(self, *, bandwidth: float | None = None, max_iter: int = 20) -> None:
        self.bandwidth = bandwidth
        self.max_iter = max_iter


class GaussianMixtureWeights(BaseEstimator):
    """Weights proportional to the density of one Gaussian per class under the learned metric.

    Pass it to :class:`GenerativeMetric` as ``combination`` to change the defaults of
    ``combination="gmm"``. In each iteration every sample gets the class of the majority of its
    nearest held-out samples under the current metric, and the Gaussians are fitted to these
    classes.

    Parameters
    ----------
    validation_fraction : float, default=0.2
        Fraction of each class that is held out at random if no `X_val` is passed to ``fit``. A
        larger fraction makes the re-assigned classes more reliable and leaves fewer samples to
        learn from: held-out samples are used for nothing else.
    max_iter : int, default=20
        Maximum number of iterations. They end earlier when the metric changes by less than 1e-4 of
        its Frobenius norm.

    See Also
    --------
    KernelDensityWeights : Weights by a kernel density estimate.

    Examples
    --------
    >>> from genmetric import GaussianMixtureWeights, GenerativeMetric
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> weights = GaussianMixtureWeights(validation_fraction=0.3)
    >>> metric = GenerativeMetric(weights, random_state=0).fit(X, y)
    >>> int((metric.weights_ == 0).sum())  # the samples held out
    45
    """

    streams: ClassVar[bool] = False
    by_density: ClassVar[bool] = True
    _parameter_rules: ClassVar[ParameterRules] = {
        "validation_fraction": [Interval(float, 0, 1, closed="neither")],
        "max_iter": [Interval(int, 1)],
    }

    def __init__(self, *, validation_fraction: float = 0.2, max_iter: int = 20) -> None:
        self.validation_fraction = validation_fraction
        self.max_iter = max_iter


Combination: TypeAlias = (
    UniformWeights | GivenWeights | KernelDensityWeights | GaussianMixtureWeights
)

#: Combinations by the names that `combination` accepts.
NAMED = {
    "uniform": UniformWeights,
    "kde": KernelDensityWeights,
    "gmm": GaussianMixtureWeights,
}


def as_combination(value: Any) -> Combination:
    """Return the combination that a valid value of the parameter `combination` stands for.

    Parameters
    ----------
    value : str, KernelDensityWeights, GaussianMixtureWeights or array-like
        Value of the parameter.

    Returns
    -------
    Combination
        An independent object, which later changes of `value` do not affect.
    """
    if isinstance(value, str):
        return NAMED[value]()
    if isinstance(value, KernelDensityWeights | GaussianMixtureWeights):
        check_parameters(value)
        copied: KernelDensityWeights | GaussianMixtureWeights = clone(value)
        return copied
    return GivenWeights(value)

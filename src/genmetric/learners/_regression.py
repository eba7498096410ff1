"""Metrics for numeric targets as pure functions: slices, kernel regression and their average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density import GaussianMixtureModel, GaussianModel, JointDensity
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import class_statistics
from genmetric.density._whitening import pooled_whitening
from genmetric.geometry import average_regression_metrics, interpolate, rank_limited_factor
from genmetric.geometry._factor import symmetric_root
from genmetric.learners._generative import GenerativeMetric
from genmetric.learners._slices import default_n_slices, quantile_edges, slice_targets

RegressionMethod = Literal["combined", "kernel", "slices"]


@dataclass(frozen=True)
class RegressionSpecification:
    """Validated parameters of a metric for numeric targets.

    Attributes
    ----------
    method : {"combined", "kernel", "slices"}
        Local metrics that are averaged.
    n_slices : int or None
        Number of slices; None chooses by the number of samples.
    density_model : GaussianModel, GaussianMixtureModel or None
        Model of each slice, and of samples and targets together for "kernel".
    slices : GenerativeMetric
        Metric of the slices as classes, with ``base="identity"`` and all parameters but
        `interpolation` and `n_components`.
    base : {"identity", "pooled"}
        Metric towards which shrinkage and interpolation regularise.
    interpolation : float
        Weight of the learned metric against the base.
    n_components : int or None
        Output dimension.
    shrinkage : None, "auto" or float
        Shrinkage of covariances.
    """

    method: RegressionMethod
    n_slices: int | None
    density_model: Any
    slices: GenerativeMetric
    base: Literal["identity", "pooled"]
    interpolation: float
    n_components: int | None
    shrinkage: Any


@dataclass(frozen=True)
class RegressionTraining:
    """Training data in the coordinates of the base.

    Attributes
    ----------
    frame : Scaling
        Coordinates: a shift and a scale, with ``base="pooled"`` also whitening.
    z : ndarray of shape (n_samples, n_features)
        Samples in these coordinates.
    y : ndarray of shape (n_samples,)
        Targets, centred, with the mean variance of the features of `z`.
    weight : ndarray of shape (n_samples,) or None
        Frequencies, all positive.
    edges : ndarray of shape (n_edges,)
        Edges of the slices, in the units of the targets.
    codes : ndarray of shape (n_samples,)
        Slice of each sample.
    covariance : ndarray of shape (n_features, n_features)
        Covariance of `z`.
    """

    frame: Scaling
    z: FloatArray
    y: FloatArray
    weight: FloatArray | None
    edges: FloatArray
    codes: IntArray
    covariance: FloatArray


def regression_training(
    spec: RegressionSpecification,
    x: AnyArray,
    targets: FloatArray,
    weight: FloatArray | None,
    edges: FloatArray | None = None,
) -> RegressionTraining:
    """Slice the targets and map the samples to the coordinates of the base.

    Parameters
    ----------
    spec : RegressionSpecification
        Parameters.
    x : ndarray of shape (n_samples, n_features)
        Samples.
    targets : ndarray of shape (n_samples,)
        Numeric targets, not constant.
    weight : ndarray of shape (n_samples,) or None
        Positive frequencies.
    edges : ndarray, default=None
        Edges of the slices if they are known.

    Returns
    -------
    RegressionTraining
        The data of the fit.
    """
    if edges is None:
        n_samples = len(x) if weight is None else int(weight.sum())
        edges = quantile_edges(targets, spec.n_slices or default_n_slices(n_samples), weight)
    codes = slice_targets(targets, edges)
    frame = Scaling.of(x)
    stats = class_statistics(x, codes, len(edges) + 1, frame=frame, sample_weight=weight)
    if spec.base == "pooled":
        frame = pooled_whitening(stats, frame)
        stats = frame.transform_statistics(stats)
    z = frame.apply(x)
    covariance = stats.total_covariance
    center = np.average(targets, weights=weight)
    size = float(np.abs(targets - center).max())
    y = (targets - center) / size
    variance = float(np.average(y**2, weights=weight))
    y *= np.sqrt(np.trace(covariance) / len(covariance) / variance)
    return RegressionTraining(frame, z, y, weight, edges, codes, covariance)


def joint_density(spec: RegressionSpecification, data: RegressionTraining) -> JointDensity:
    """Fit a Gaussian or a Gaussian mixture to samples and targets together.

    Parameters
    ----------
    spec : RegressionSpecification
        Its `density_model` and `shrinkage`.
    data : RegressionTraining
        Samples and targets.

    Returns
    -------
    JointDensity
        Density of x and regression function.
    """
    table = np.column_stack([data.z, data.y])
    if spec.density_model is None:
        model: Any = GaussianModel(shrinkage=spec.shrinkage)
    else:
        model = clone(spec.density_model)
    model.fit(table, sample_weight=data.weight)
    if isinstance(model, GaussianMixtureModel):
        return JointDensity.from_moments(model.means_, model.covariances_, model.mixing_weights_)
    return JointDensity.from_moments(model.mean_[None], model.covariance_[None])


def slices_metric(spec: RegressionSpecification, data: RegressionTraining) -> GenerativeMetric:
    """Fit the generative metric of the slices, in the coordinates of the base.

    Parameters
    ----------
    spec : RegressionSpecification
        Its `slices`.
    data : RegressionTraining
        Samples and slices.

    Returns
    -------
    GenerativeMetric
        The fitted metric.
    """
    metric: GenerativeMetric = clone(spec.slices)
    return metric.fit(data.z, data.codes, data.weight)


def unit_trace(metric: FloatArray) -> FloatArray:
    """Scale a metric to the trace of the identity."""
    return np.asarray(metric * (len(metric) / np.trace(metric)))


@dataclass(frozen=True)
class RegressionMetricParts:
    """Learned metrics in the coordinates of the base, before interpolation.

    Attributes
    ----------
    metric : ndarray of shape (n_features, n_features)
        Average metric, of trace D.
    stderr : float
        Relative standard error of the average.
    slices : GenerativeMetric or None
        Metric of the slices.
    density : JointDensity or None
        Density of samples and targets.
    """

    metric: FloatArray
    stderr: float
    slices: GenerativeMetric | None
    density: JointDensity | None


def learn_regression_metric(
    spec: RegressionSpecification, data: RegressionTraining
) -> RegressionMetricParts:
    r"""Average the local metrics of the method in the coordinates of the base.

    "slices" averages the local metrics of the slices as classes. "kernel" averages the local
    metrics that remove the first-order bias of kernel regression. "combined" is the mean of the
    two, each scaled to trace D.

    Parameters
    ----------
    spec : RegressionSpecification
        Parameters.
    data : RegressionTraining
        Data of the fit.

    Returns
    -------
    RegressionMetricParts
        The metric and what it was made of.
    """
    slices, density = None, None
    metrics, errors = [], []
    if spec.method != "kernel":
        slices = slices_metric(spec, data)
        metrics.append(unit_trace(slices.metric_))
        errors.append(slices.metric_stderr_)
    if spec.method != "slices":
        density = joint_density(spec, data)
        total = average_regression_metrics(*density.gradients(data.z), data.weight)
        metrics.append(total.mean)
        errors.append(total.stderr)
    metric = np.mean(metrics, axis=0)
    parts = [e * np.linalg.norm(m) for e, m in zip(errors, metrics, strict=True)]
    stderr = float(np.linalg.norm(parts) / len(parts) / np.linalg.norm(metric))
    return RegressionMetricParts(metric, stderr, slices, density)


def regression_factor(
    spec: RegressionSpecification, data: RegressionTraining, metric: FloatArray
) -> FloatArray:
    """Interpolate a learned metric with the base and return its factor in input space.

    Parameters
    ----------
    spec : RegressionSpecification
        Its `interpolation` and `n_components`.
    data : RegressionTraining
        Coordinates and covariance.
    metric : ndarray of shape (n_features, n_features)
        Learned metric in the coordinates of the base.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        Factor L of the metric.
    """
    inside = interpolate(metric, spec.interpolation)
    if spec.n_components is None:
        return data.frame.restore_factor(symmetric_root(inside))
    return data.frame.restore_factor(
        rank_limited_factor(inside, spec.n_components, data.covariance)
    )

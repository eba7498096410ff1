"""Averages of local metrics in memory: which samples, with which weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from genmetric._array_api import take_rows
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import check_weights, encode_classes
from genmetric.density._factored_statistics import AnyStatistics, FactoredStatistics
from genmetric.density._scaling import Scaling
from genmetric.density._statistics import class_statistics
from genmetric.density._whitening import fourth_moments
from genmetric.learners._combination import GaussianMixtureWeights, GivenWeights
from genmetric.learners._density_weighting import HeldOut, average_by_density, hold_out
from genmetric.learners._fitting import (
    Average,
    MetricPlan,
    base_coordinates,
    plan_fit,
    warn_limited,
    warn_unscaled,
)
from genmetric.learners._sampling import draw_samples, sample_until_precise, warn_few_features
from genmetric.learners._specification import FitSpecification


@dataclass(frozen=True)
class TrainingSamples:
    """Samples that a fit learns from.

    Attributes
    ----------
    x : ndarray of shape (n_kept, n_features)
        Samples in input space, without those of weight zero and those held out.
    codes : ndarray of shape (n_kept,)
        Class of each sample.
    classes : ndarray of shape (n_classes,)
        Class names.
    frequency : ndarray of shape (n_kept,) or None
        Sample weights.
    average : ndarray of shape (n_kept,) or None
        Weights of the local metrics, if they are known before the fit.
    held_out : HeldOut or None
        Validation samples.
    kept : ndarray of shape (n_kept,)
        Indices of the samples among all that were passed.
    n_passed : int
        Number of samples that were passed.
    """

    x: AnyArray
    codes: IntArray
    classes: AnyArray
    frequency: FloatArray | None
    average: FloatArray | None
    held_out: HeldOut | None
    kept: IntArray
    n_passed: int

    def spread(self, weights: FloatArray, rows: IntArray | None = None) -> FloatArray:
        """Return weights of some samples as weights of all that were passed, zero for the rest."""
        out = np.zeros(self.n_passed)
        out[self.kept if rows is None else self.kept[rows]] = weights
        return out


def select_samples(
    spec: FitSpecification,
    x: AnyArray,
    labels: AnyArray,
    sample_weight: FloatArray | None,
    held_out: HeldOut | None,
    name: str,
) -> TrainingSamples:
    """Remove samples of weight zero, and hold out some if the combination needs them.

    Parameters
    ----------
    spec : FitSpecification
        Parameters of the fit.
    x : ndarray of shape (n_samples, n_features)
        Samples.
    labels : ndarray of shape (n_samples,)
        Class labels.
    sample_weight : ndarray of shape (n_samples,) or None
        Frequencies.
    held_out : HeldOut or None
        Validation samples that were passed.
    name : str
        Name of the estimator, for errors.

    Returns
    -------
    TrainingSamples
        The samples to learn from.
    """
    combination, share = spec.combination, None
    if isinstance(combination, GivenWeights):
        share = check_weights(combination.weights, len(x), "combination")
    weight, n_passed, kept = sample_weight, len(x), np.arange(len(x))
    if weight is not None and not weight.all():
        kept = np.flatnonzero(weight)
    if isinstance(combination, GaussianMixtureWeights) and held_out is None:
        kept, aside = hold_out(kept, labels, combination.validation_fraction, spec.rng())
        held_out = HeldOut(x[aside], labels[aside])
    if len(kept) < n_passed:
        x, labels = x[kept], labels[kept]
        weight = None if weight is None else weight[kept]
        share = None if share is None else share[kept]
    classes, codes = encode_classes(labels, name)
    average = weight if share is None else share if weight is None else share * weight
    if average is not None and not average.any():
        raise ValueError("combination and sample_weight together give every sample weight zero.")
    return TrainingSamples(x, codes, classes, weight, average, held_out, kept, n_passed)


def plan_in_memory(spec: FitSpecification, samples: TrainingSamples) -> MetricPlan:
    """Compute the class statistics of samples in memory, and plan the fit.

    Parameters
    ----------
    spec : FitSpecification
        Parameters of the fit.
    samples : TrainingSamples
        Samples to learn from.

    Returns
    -------
    MetricPlan
        Coordinates, class models and solver.
    """
    x, codes, weight = samples.x, samples.codes, samples.frequency
    scaling, n_classes = Scaling.of(x), len(samples.classes)
    compute: Callable[..., AnyStatistics] = class_statistics
    if spec.allows_factors and FactoredStatistics.saves_memory(np.bincount(codes), x.shape[1]):
        compute = FactoredStatistics.of
    stats = compute(x, codes, n_classes, frame=scaling, sample_weight=weight, n_jobs=spec.n_jobs)

    def fourth(frame: Scaling, inside: AnyStatistics) -> FloatArray:
        return fourth_moments(
            x, codes, inside.mean, frame, sample_weight=weight, n_jobs=spec.n_jobs
        )

    warn_unscaled(spec, stats)
    frame, inside = base_coordinates(spec, scaling, stats, fourth)
    return plan_fit(spec, frame, inside, samples.classes, len(x), (x, codes, weight))


def average_metrics(plan: MetricPlan, samples: TrainingSamples) -> Average:
    """Average the local metrics of samples in memory with the weights of the combination.

    Parameters
    ----------
    plan : MetricPlan
        Coordinates, class models and solver.
    samples : TrainingSamples
        Samples to learn from.

    Returns
    -------
    Average
        The average, with weights over all samples that were passed.
    """
    spec, x, weights = plan.spec, samples.x, samples.average
    n_samples = x.shape[0]
    given = None
    if isinstance(spec.combination, GivenWeights) and weights is not None:
        given = samples.spread(weights / weights.sum())
    if spec.max_samples == "auto":
        return Average(*sample_until_precise(plan.metric_sum, x, weights, plan.rng), given)
    limit = plan.default_limit(n_samples)
    if limit is not None:
        total, stderr = sample_until_precise(plan.metric_sum, x, weights, plan.rng, limit)
        average = Average(total, stderr, given)
        warn_limited(average, n_samples)
        return average
    n_draws = spec.n_draws(n_samples)
    if n_draws is not None:
        warn_few_features(x.shape[1])
    if spec.combination.by_density:
        rows = draw_samples(n_samples, n_draws, None, plan.rng)
        found = average_by_density(plan, x, samples.frequency, samples.held_out, rows)
        assert found.weights is not None
        spread = samples.spread(found.weights, rows)
        return Average(found.total, found.stderr, spread, found.changes, found.bandwidths)
    rows = draw_samples(n_samples, n_draws, weights, plan.rng)
    if rows is None:
        return Average(plan.metric_sum(x, weights), 0.0, given)
    total = plan.metric_sum(take_rows(x, rows))
    return Average(total, total.relative_stderr(n_samples if weights is None else np.inf), given)

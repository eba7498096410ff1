"""Training runs of LMNN: from a specification and samples to a factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genmetric._chunks import row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density._scaling import Scaling
from genmetric.geometry._factor import rank_limited_factor, symmetric_root
from genmetric.learners._early_stopping import (
    ValidationMetrics,
    ValidationPath,
    limit_folds,
    select_n_iter,
)
from genmetric.learners._lmnn.early_stopping import DEFAULT_N_ITER, class_folds, neighbor_errors
from genmetric.learners._lmnn.initial import (
    InitialMetric,
    best_scale,
    candidates,
    closed_forms,
    initial_metric,
    start_from_metric,
)
from genmetric.learners._lmnn.objective import MAX_PAIRS, Loss, Objective, Problem
from genmetric.learners._lmnn.solver import IterationCallback, Solution, minimize_objective
from genmetric.learners._lmnn.targets import target_neighbors

#: Maximum number of pairs of a sample and an impostor at the start, 16 times what is kept in
#: memory: every iteration visits all of them, which takes minutes.
MAX_IMPOSTOR_PAIRS = 16 * MAX_PAIRS
#: Number of samples that the number of pairs is estimated from.
_ESTIMATE_SAMPLES = 256


@dataclass(frozen=True)
class Specification:
    """Parameters of one training run.

    Attributes
    ----------
    n_neighbors : int
        Maximum number of target neighbours per sample.
    n_components : int or None
        Number of rows of L; ``None`` keeps those of the initial metric.
    init : str, array-like or estimator
        The initial metric.
    push : float
        Weight of the hinge losses.
    loss : "hinge" or "squared_hinge"
        Loss of a violated margin.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Relative decrease of the objective below which the run ends.
    stay_near_init : bool
        Whether to minimise in the space of the initial metric, so that the first iterations stay
        close to it, or in the coordinates of fastest convergence.
    n_jobs : int or None
        Number of threads.
    random_state : int, RandomState instance or None
        Seed of ``init="random"``.
    """

    n_neighbors: int
    n_components: int | None
    init: Any
    push: float
    loss: Loss
    max_iter: int
    tol: float
    stay_near_init: bool
    n_jobs: int | None
    random_state: Any


@dataclass(frozen=True)
class TrainingData:
    """Samples of one training run.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples in input coordinates.
    scaling : Scaling
        Shift and scale of the coordinates of L. Scaled samples are computed when needed, because
        they would be a second copy of the samples.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    weights : ndarray of shape (n_samples,) or None
        Positive sample weights of mean one; ``None`` weights all samples by one.
    """

    X: AnyArray
    scaling: Scaling
    codes: IntArray
    weights: FloatArray | None

    def subset(self, indices: IntArray) -> TrainingData:
        """Return the samples with the given indices."""
        codes = np.unique(self.codes[indices], return_inverse=True)[1]
        weights = None if self.weights is None else self.weights[indices]
        return TrainingData(self.X[indices], self.scaling, codes, weights)

    def mapped(self, L: FloatArray, indices: IntArray) -> FloatArray:
        """Map scaled samples by L, shape (n_indices, n_components)."""
        Z = np.empty((len(indices), len(L)))
        for part in row_chunks(len(indices), 16 * self.X.shape[1]):
            Z[part] = self.scaling.apply(self.X[indices[part]]) @ L.T
        return Z


def train(
    data: TrainingData,
    specification: Specification,
    *,
    initial: InitialMetric | None = None,
    resume_from: FloatArray | None = None,
    average_with: ValidationMetrics | None = None,
    callback: IterationCallback | None = None,
    at_start: Callable[[FloatArray], Any] | None = None,
) -> Solution:
    """Select target neighbours under the initial metric and minimise the objective.

    Parameters
    ----------
    data : TrainingData
        Samples.
    specification : Specification
        Parameters of the run.
    initial : InitialMetric, default=None
        The initial metric, if it is known; ``None`` computes it.
    resume_from : ndarray of shape (n_components, n_features), default=None
        Factor to start the minimisation from, for scaled samples. The initial metric still selects
        the target neighbours.
    average_with : ValidationMetrics, default=None
        Metrics of other runs, for scaled samples; the result is their average with that of this
        run.
    callback : callable, default=None
        Called after each iteration with its number, the evaluation and L.
    at_start : callable, default=None
        Called with the factor that the minimisation starts from.

    Returns
    -------
    Solution
        The factor, for scaled samples.
    """
    spec = specification
    if initial is None:
        initial = initial_metric(
            spec.init,
            data.X,
            data.codes,
            n_components=spec.n_components,
            sample_weight=data.weights,
            n_jobs=spec.n_jobs,
            random_state=spec.random_state,
        )
    L = initial.L
    n_neighbors = min(spec.n_neighbors, int(np.bincount(data.codes).max()) - 1)
    order = np.argsort(data.codes, kind="stable")
    targets = target_neighbors(data.mapped(L, order), data.codes[order], n_neighbors)
    problem = Problem.sorted_by_class(
        data.scaling.apply(data.X[order]),
        data.codes[order],
        targets,
        push=spec.push,
        loss=spec.loss,
        weights=None if data.weights is None else data.weights[order],
    )
    if resume_from is None:
        L = L * best_scale(problem, L)
    elif resume_from.shape == L.shape:
        L = resume_from
    else:
        raise ValueError(
            f"warm_start continues from components_ of shape {resume_from.shape}, but this fit "
            f"needs {L.shape}. Fit with warm_start=False first."
        )
    check_impostor_pairs(problem, L)
    if at_start is not None:
        at_start(L)
    solution = minimize_objective(
        problem,
        L,
        max_iter=spec.max_iter,
        tol=spec.tol,
        coordinates=initial.coordinates if spec.stay_near_init else None,
        n_jobs=spec.n_jobs,
        callback=callback,
    )
    if average_with is None:
        return solution
    L = average_factor(solution.L, average_with, problem.X)
    found = Objective(problem, n_jobs=spec.n_jobs).exact(L)
    return replace(solution, L=L, value=found.value, n_triplets=found.n_triplets)


def average_factor(L: FloatArray, others: ValidationMetrics, X: FloatArray) -> FloatArray:
    """Average the metric LᵀL with those of other runs.

    Parameters
    ----------
    L : ndarray of shape (n_components, n_features)
        Factor of a metric.
    others : ValidationMetrics
        Metrics of the other runs.
    X : ndarray of shape (n_samples, n_features)
        Centred samples.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        Factor of the average. With fewer components than features, the leading principal
        components of the samples in its space.
    """
    metric = (others.total + L.T @ L) / (others.n_runs + 1)
    if len(L) == L.shape[1]:
        return symmetric_root(metric)
    return rank_limited_factor(metric, len(L), X.T @ X / len(X))


def expected_pairs(problem: Problem, L: FloatArray) -> float:
    """Estimate the number of pairs of a sample and an impostor from evenly spaced samples.

    Parameters
    ----------
    problem : Problem
        Samples and targets.
    L : ndarray of shape (n_components, n_features)
        The factor of the metric.

    Returns
    -------
    float
        The mean number of impostors of a sample, times the number of samples.
    """
    Z = problem.X @ L.T
    norm2 = np.einsum("ij,ij->i", Z, Z)
    sample = np.unique(np.linspace(0, len(Z) - 1, min(_ESTIMATE_SAMPLES, len(Z))).astype(int))
    reach = 1 + problem.target_distances(Z).max(axis=1)[sample]
    own = np.searchsorted(problem.starts, sample, side="right") - 1
    found = 0
    for part in row_chunks(len(sample), 24 * len(Z)):
        d = norm2[sample[part], None] + norm2 - 2 * Z[sample[part]] @ Z.T
        for row, c in zip(d, own[part], strict=True):
            row[problem.starts[c] : problem.starts[c + 1]] = np.inf
        found += int(np.count_nonzero(d < reach[part, None]))
    return found / len(sample) * len(Z)


def check_impostor_pairs(problem: Problem, L: FloatArray) -> None:
    """Raise a ValueError if an iteration would visit more pairs than it can in minutes.

    Parameters
    ----------
    problem : Problem
        Samples and targets.
    L : ndarray of shape (n_components, n_features)
        The factor that the minimisation starts from.
    """
    n_samples, n_classes = len(problem.X), len(problem.starts) - 1
    # Fewer samples cannot have this number of pairs.
    if n_samples**2 <= MAX_IMPOSTOR_PAIRS:
        return
    found = expected_pairs(problem, L)
    if found > MAX_IMPOSTOR_PAIRS:
        raise ValueError(
            f"LMNN visits every impostor in every iteration: at most {MAX_IMPOSTOR_PAIRS:.2g} pairs "
            f"of a sample and an impostor are expected, but {n_samples} samples of {n_classes} "
            f"classes have about {found:.2g}, because the classes overlap. Fit on some of the "
            "classes or samples, use fewer neighbors, or use GenerativeMetric, which needs no "
            "impostors."
        )


@dataclass(frozen=True)
class ValidatedInit:
    """The initial metric selected on left-out samples.

    Attributes
    ----------
    init : str, array-like or estimator
        The value of `init` to train with; not "auto".
    metrics : list of ndarray, default=None
        The metrics of the folds, each of shape (n_features, n_features), if there was a choice.
    """

    init: Any
    metrics: list[FloatArray] | None = None


def validate_init(data: TrainingData, specification: Specification) -> ValidatedInit:
    """Select the initial metric by the error of left-out samples if `init` is "auto".

    No single closed form is the best start on all data: regularisation towards the pooled
    within-class covariance helps if features are strongly correlated within classes, and hurts if
    many features are noise. Which case it is shows before the first iteration, so only the errors
    of the initial metrics themselves are compared, and the minimisation runs from one of them.
    If one fold leaves out enough samples, the first candidate is used: the selection was
    found to help with few samples, and would take a third of the time of a fit of 6000 samples.

    Parameters
    ----------
    data : TrainingData
        Samples.
    specification : Specification
        Parameters of the runs.

    Returns
    -------
    ValidatedInit
        The initial metric with the smallest error; the first candidate if errors are equal or if
        there are fewer than two folds.
    """
    spec, names = specification, candidates(specification.init, data.codes)
    folds = limit_folds(class_folds(data.codes))
    if len(names) == 1 or len(folds) < 2:
        return ValidatedInit(names[0])
    metrics: dict[str, list[FloatArray]] = {name: [] for name in names}
    errors = dict.fromkeys(names, 0.0)
    for train_indices, left_out in folds:
        part = data.subset(train_indices)
        found = closed_forms(names, part.X, part.codes, part.weights, spec.n_jobs)
        weights = np.ones(len(left_out)) if data.weights is None else data.weights[left_out]
        for name, metric in found.items():
            L = start_from_metric(metric, part.X, spec.n_components, part.weights).L
            wrong = left_out_errors(data, L, train_indices, left_out, spec.n_jobs)
            errors[name] += float(weights @ wrong)
            metrics[name].append(metric)
    best = min(names, key=errors.__getitem__)
    return ValidatedInit(best, metrics[best])


def validate_n_iter(
    data: TrainingData, specification: Specification, start: ValidatedInit
) -> ValidationPath:
    """Select the number of iterations by the error of left-out samples.

    Parameters
    ----------
    data : TrainingData
        Samples.
    specification : Specification
        Parameters of the runs; `max_iter` bounds the number of iterations.
    start : ValidatedInit
        The initial metric, which replaces `init` of the specification.

    Returns
    -------
    ValidationPath
        The selected number of iterations and the errors.
    """
    spec = replace(specification, init=start.init)
    known = None if start.metrics is None else iter(start.metrics)

    def run(indices: IntArray, after_iteration: Callable[[int, FloatArray], bool]) -> None:
        part, initial = data.subset(indices), None
        if known is not None:  # the runs are in the order of the folds
            initial = start_from_metric(next(known), part.X, spec.n_components, part.weights)
        train(
            part,
            spec,
            initial=initial,
            callback=lambda n_iter, _, L: after_iteration(n_iter, L),
            at_start=lambda L: after_iteration(0, L),
        )

    return select_n_iter(
        run,
        lambda L, voters, left_out: left_out_errors(data, L, voters, left_out, spec.n_jobs),
        class_folds(data.codes),
        data.weights,
        default_n_iter=DEFAULT_N_ITER,
        max_iter=spec.max_iter,
        keep_metrics=True,
    )


def left_out_errors(
    data: TrainingData,
    L: FloatArray,
    voters: IntArray,
    left_out: IntArray,
    n_jobs: int | None = None,
) -> FloatArray:
    """Compute the error of nearest-neighbour votes in the space of L for left-out samples.

    Parameters
    ----------
    data : TrainingData
        Samples.
    L : ndarray of shape (n_components, n_features)
        Factor of a metric, for scaled samples.
    voters, left_out : ndarray
        Indices of the samples that vote and of those to classify.
    n_jobs : int, default=None
        Number of threads.

    Returns
    -------
    ndarray of shape (n_left_out,)
        Fraction of wrong predictions of each sample over 1, 3 and 5 neighbours.
    """
    return neighbor_errors(
        data.mapped(L, voters),
        data.codes[voters],
        data.mapped(L, left_out),
        data.codes[left_out],
        n_jobs,
    )

"""The resolvent solver: sums over samples that share their leading classes, in O(D²) per sample."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import FloatArray, IntArray
from genmetric.density._gaussian import ClassGaussians
from genmetric.geometry._dense_solver import (
    dense_bytes_per_row,
    dense_chunks,
    dense_metric_sum,
    sum_dense,
)
from genmetric.geometry._metric_sum import MetricSum, SumProblem
from genmetric.geometry._pairs import (
    LeadingClasses,
    leading_classes,
    pair_metric_sum,
    triple_metric_sum,
)
from genmetric.geometry._phi import phi_weights
from genmetric.geometry._resolvent import resolvent_bytes_per_row

#: Largest numbers of samples and of array entries of one task. Short tasks keep all threads busy
#: until the end; long ones avoid that threads wait for the interpreter lock.
TASK_ROWS, TASK_NUMBERS = 2048, 2**17


@dataclass(frozen=True)
class _Task:
    """Samples that one thread treats at once; an empty tuple of classes means the dense solver."""

    rows: IntArray
    classes: tuple[int, ...]
    tau: FloatArray


def _resolvent_tasks(problem: SumProblem, gaussians: ClassGaussians, *, nodes: bool) -> list[_Task]:
    """Group samples by the classes that matter at them, and split the groups into tasks."""
    n_rows, n_features = problem.X.shape
    n_classes = gaussians.n_classes

    def leading(chunk: slice) -> LeadingClasses:
        weights = phi_weights(gaussians, problem.samples(chunk), problem.log_priors)
        return leading_classes(weights, problem.tol)

    chunks = row_chunks(n_rows, 8 * (4 * n_features + 12 * n_classes))
    parts = list(map_chunks(leading, chunks, problem.n_jobs))
    order = np.concatenate([part.order for part in parts])
    tau = np.concatenate([part.tau for part in parts])
    matter = np.concatenate([part.n_classes for part in parts])
    # The pair (b, a) is the pair (a, b): Phi changes its sign, and the metric does not.
    order[matter == 2, :2] = np.sort(order[matter == 2, :2], axis=1)
    # One number per group: the classes that matter as digits, dense samples below all others.
    digits = n_classes + 1
    third = np.where(matter == 2, 0, order[:, 2] + 1)
    key = (order[:, 0] * digits + order[:, 1]) * digits + third
    key[(matter > 3) | ((matter == 3) & (not nodes))] = -1
    by_key = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.diff(key[by_key], prepend=-2, append=-2))
    tasks: list[_Task] = []
    for start, stop in pairwise(edges):
        rows = by_key[start:stop]
        if key[rows[0]] < 0:
            chunks_of_rows = dense_chunks(rows, n_features, n_classes)
            tasks += [_Task(chunk, (), np.zeros(0)) for chunk in chunks_of_rows]
            continue
        n_terms = int(matter[rows[0]])
        classes = tuple(int(c) for c in order[rows[0], :n_terms])
        per_row = resolvent_bytes_per_row(n_features, n_terms)
        if n_terms == 3:
            per_row += dense_bytes_per_row(n_features, n_classes)
        most = min(TASK_ROWS, max(1024, TASK_NUMBERS // n_features))
        for chunk in row_chunks(len(rows), per_row, max_rows=most):
            tasks.append(_Task(rows[chunk], classes, tau[rows[chunk]]))
    return tasks


def use_interpolation_nodes(n_rows: float, n_features: int, n_classes: int) -> bool:
    """Return whether nodes for triples of classes are cheaper than the dense solver.

    Diagonalising the nodes of a triple costs as much as the dense solver for about a hundred
    samples, and with few features the dense solver is cheap.
    """
    triples = n_classes * (n_classes - 1) * (n_classes - 2)
    return n_features >= 32 and n_rows >= 400 * triples


def sum_resolvent(problem: SumProblem) -> MetricSum:
    """Sum the local metrics of samples by the resolvent solver.

    Samples whose metric would lose accuracy are treated by the dense solver.
    """
    gaussians = problem.models
    assert isinstance(gaussians, ClassGaussians)
    nodes = problem.tol > 0 and use_interpolation_nodes(
        problem.n_total, problem.n_features, gaussians.n_classes
    )
    tasks = _resolvent_tasks(problem, gaussians, nodes=nodes)

    def work(task: _Task) -> tuple[MetricSum, IntArray]:
        rows, classes, kind = task.rows, task.classes, problem.normalization
        x, weight = problem.samples(rows), problem.weights[rows]
        if not classes:
            part = dense_metric_sum(gaussians, x, weight, problem.log_priors, kind)
            return part, rows[:0]
        if len(classes) == 2:
            total, square, treated = pair_metric_sum(gaussians, classes, x, weight, kind)
        else:
            total, square, treated = triple_metric_sum(
                gaussians, classes, x, weight, task.tau, kind
            )
        return MetricSum(total, float(weight[treated].sum()), square), rows[~treated]

    found, left = problem.zero(), []
    for part, untreated in map_chunks(work, tasks, problem.n_jobs):
        found = found.merge(part)
        left.append(untreated)
    return found.merge(sum_dense(problem, np.concatenate(left)))

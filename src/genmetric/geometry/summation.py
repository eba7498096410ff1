"""The sum of local metrics over rows: the second accumulator of the fit.

The uniform combination (eq. eUniform) is a mean, and a mean is a sum and a count: chunks in
threads, batches from disk and blocks on a cluster each make a :class:`MetricSum`, and
:meth:`MetricSum.merge` puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from genmetric._chunks import map_chunks, row_chunks
from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric.density.frame import Frame
from genmetric.density.gaussian import ClassGaussians
from genmetric.density.models import ClassModels
from genmetric.geometry.local import local_metric_factors
from genmetric.geometry.pairs import (
    LeadingClasses,
    leading_classes,
    pair_metric_sum,
    triple_metric_sum,
)
from genmetric.geometry.phi import phi, phi_weights
from genmetric.geometry.resolvent import resolvent_bytes_per_row

#: Most rows and numbers of one task of the resolvent solver: short enough to keep every thread busy
#: to the end, long enough that threads do not queue for the interpreter.
TASK_ROWS, TASK_NUMBERS = 2048, 2**17


@dataclass(frozen=True)
class MetricSum:
    """Sum of local metrics, and what the standard error of their mean needs.

    Attributes
    ----------
    total : ndarray of shape (n_features, n_features)
        Sum of w_i M_i.
    weight : float
        Sum of w_i.
    square : float
        Sum of w_i times the squared Frobenius norm of M_i.
    """

    total: FloatArray
    weight: float
    square: float

    def merge(self, other: MetricSum) -> MetricSum:
        """The sum over the rows of both."""
        return MetricSum(
            self.total + other.total, self.weight + other.weight, self.square + other.square
        )

    def mean(self) -> FloatArray:
        """The weighted mean of the local metrics, exactly symmetric."""
        return np.asarray((self.total + self.total.T) / (2 * self.weight))

    def relative_stderr(self, population: float = np.inf) -> float:
        r"""Standard error of the mean of sampled metrics, relative to its Frobenius norm.

        For n metrics drawn without replacement out of N,

        .. math:: \mathrm{se}^2 = \frac{1 - n/N}{n - 1}
                  \left(\frac1n\sum_i \|M_i\|_F^2 - \|\bar M\|_F^2\right).

        Parameters
        ----------
        population : float, default=inf
            The number N of rows the sample was drawn from.

        Returns
        -------
        float
            Zero when every row was used.
        """
        mean = self.mean()
        norm2 = float(np.einsum("ij,ij->", mean, mean))
        if self.weight <= 1:
            return float("inf") if population > self.weight else 0.0
        variance = max(self.square / self.weight - norm2, 0.0)
        share = max(1 - self.weight / population, 0.0)
        return float(np.sqrt(share * variance / (self.weight - 1) / norm2))


def dense_metric_sum(
    models: ClassModels,
    X: FloatArray,
    weights: FloatArray,
    log_priors: FloatArray | None = None,
) -> MetricSum:
    r"""Sum of local metrics by one eigendecomposition a row.

    The metrics themselves are never formed: with :math:`M_i = U_i \mathrm{diag}(m_i) U_i^T` the
    sum is one product of a wide matrix, the columns :math:`\sqrt{w_i m_{ik}} u_{ik}`, with its
    transpose.

    Parameters
    ----------
    models : ClassModels
        Class models.
    X : ndarray of shape (n_samples, n_features)
        Rows; a chunk that fits the memory budget.
    weights : ndarray of shape (n_samples,)
        Weight of each row.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors.

    Returns
    -------
    MetricSum
        Over these rows.
    """
    m, U = local_metric_factors(phi(models, X, log_priors))
    U *= np.sqrt(m * weights[:, None])[:, None, :]
    wide = U.transpose(1, 0, 2).reshape(X.shape[1], -1)
    return MetricSum(wide @ wide.T, float(weights.sum()), float(weights @ (m**2).sum(axis=1)))


def dense_bytes_per_row(n_features: int, n_classes: int) -> int:
    """Bytes of temporary arrays that a row needs on the dense path."""
    return 8 * (6 * n_features**2 + 3 * n_classes * (n_features + 4))


@dataclass(frozen=True)
class _Task:
    """Rows that one thread treats in one go: `classes` say how, none of them is the dense way."""

    rows: IntArray
    classes: tuple[int, ...]
    tau: FloatArray


def _dense_tasks(rows: IntArray, n_features: int, n_classes: int) -> list[_Task]:
    chunks = row_chunks(len(rows), dense_bytes_per_row(n_features, n_classes))
    return [_Task(rows[chunk], (), np.zeros(0)) for chunk in chunks]


def _resolvent_tasks(
    gaussians: ClassGaussians,
    X: AnyArray,
    frame: Frame,
    *,
    tol: float,
    nodes: bool,
    log_priors: FloatArray | None,
    n_jobs: int | None,
) -> list[_Task]:
    """Sort rows by the classes that matter at them, and cut the groups into tasks."""
    n_rows, n_features = X.shape
    n_classes = gaussians.n_classes

    def leading(chunk: slice) -> LeadingClasses:
        weights = phi_weights(gaussians, frame.inward(X[chunk]), log_priors)
        return leading_classes(weights, tol)

    chunks = row_chunks(n_rows, 8 * (4 * n_features + 12 * n_classes))
    parts = list(map_chunks(leading, chunks, n_jobs))
    order = np.concatenate([part.order for part in parts])
    tau = np.concatenate([part.tau for part in parts])
    matter = np.concatenate([part.n_classes for part in parts])
    # The pair (b, a) is the pair (a, b): Phi changes its sign, and the metric does not.
    order[matter == 2, :2] = np.sort(order[matter == 2, :2], axis=1)
    # One number a group: the classes that matter as digits, dense rows below all others.
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
            tasks += _dense_tasks(rows, n_features, n_classes)
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


def sum_local_metrics(
    models: ClassModels,
    X: AnyArray,
    frame: Frame,
    *,
    weights: FloatArray | None = None,
    log_priors: FloatArray | None = None,
    solver: str = "dense",
    tol: float = 1e-2,
    n_total: float | None = None,
    n_jobs: int | None = None,
) -> MetricSum:
    """Sum of the local metrics of all rows, in chunks.

    Parameters
    ----------
    models : ClassModels
        Class models, in the coordinates of `frame`.
    X : ndarray of shape (n_samples, n_features)
        Rows as they came.
    frame : Frame
        Coordinates of the models.
    weights : ndarray of shape (n_samples,), default=None
        Weight of each row; ``None`` is one each.
    log_priors : ndarray of shape (n_classes,), default=None
        Logarithms of the class priors; ``None`` is equal priors.
    solver : {"dense", "resolvent"}, default="dense"
        One eigendecomposition a row, or the sums of :mod:`~genmetric.geometry.pairs` (Gaussian
        class models only).
    tol : float, default=1e-2
        For "resolvent": classes beyond the leading pair whose weight in Phi is at most this share
        of the largest are left out; zero leaves out none and treats rows with a third class the
        dense way.
    n_total : float, default=None
        Rows of the whole job where `X` is a batch of it: it decides how rows at which three
        classes matter are treated, so that batches change rounding only.
    n_jobs : int, default=None
        Threads; the answer is the same for every number.

    Returns
    -------
    MetricSum
        Over all rows.
    """
    w = np.ones(len(X)) if weights is None else weights
    n_rows, n_features = X.shape
    total = MetricSum(np.zeros((n_features, n_features)), 0.0, 0.0)
    if n_rows == 0:
        return total
    gaussians = models if isinstance(models, ClassGaussians) else None
    if solver == "resolvent" and gaussians is None:
        raise ValueError('solver="resolvent" is for Gaussian class models. Use solver="dense".')
    if solver == "resolvent" and gaussians is not None:
        nodes = tol > 0 and nodes_pay(
            n_rows if n_total is None else n_total, n_features, models.n_classes
        )
        tasks = _resolvent_tasks(
            gaussians, X, frame, tol=tol, nodes=nodes, log_priors=log_priors, n_jobs=n_jobs
        )
    else:
        tasks = _dense_tasks(np.arange(n_rows), n_features, models.n_classes)

    def work(task: _Task) -> tuple[MetricSum, IntArray]:
        rows, classes = task.rows, task.classes
        x, weight = frame.inward(X[rows]), w[rows]
        if gaussians is None or not classes:
            return dense_metric_sum(models, x, weight, log_priors), rows[:0]
        if len(classes) == 2:
            part, square, treated = pair_metric_sum(gaussians, classes, x, weight)
        else:
            part, square, treated = triple_metric_sum(gaussians, classes, x, weight, task.tau)
        return MetricSum(part, float(weight[treated].sum()), square), rows[~treated]

    left = []
    for part, untreated in map_chunks(work, tasks, n_jobs):
        total = total.merge(part)
        left.append(untreated)
    remaining = np.concatenate(left)
    if len(remaining):
        for part, _ in map_chunks(
            work, _dense_tasks(remaining, n_features, models.n_classes), n_jobs
        ):
            total = total.merge(part)
    return total


def nodes_pay(n_rows: float, n_features: int, n_classes: int) -> bool:
    """Whether rows at which three classes matter are many against their shared parts.

    Diagonalising the nodes of a triple costs as much as the dense way for about a hundred of its
    rows, and of few features the dense way is cheap.
    """
    triples = n_classes * (n_classes - 1) * (n_classes - 2)
    return n_features >= 32 and n_rows >= 400 * triples


def choose_solver(n_rows: float, n_features: int, n_classes: int) -> str:
    """The faster solver for so many rows, features and classes.

    In microseconds, measured by ``benchmarks/crossover.py``: the dense way takes about D²/10 a row;
    the resolvent 4.5 + D²/330 a row and 5500 for each pair of classes. With more than two classes a
    third of the rows, as a rule, goes the dense way all the same.
    """
    dense = 0.1 * n_features**2
    saved = (1.0 if n_classes == 2 else 0.65) * dense - 4.5 - 0.003 * n_features**2
    n_pairs = n_classes * (n_classes - 1) / 2
    return "resolvent" if saved * n_rows > 5500 * n_pairs else "dense"

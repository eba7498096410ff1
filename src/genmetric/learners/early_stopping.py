"""What LMNN and MLKR share: the start, L-BFGS, and the number of iterations by held-out errors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state

from genmetric._text import print_progress
from genmetric._typing import FloatArray, IntArray
from genmetric._validation import warn_user
from genmetric.geometry import rank_limited_factor, symmetric_root

#: Samples, centred and scaled; class codes or targets; weights.
Samples: TypeAlias = tuple[Any, ...]
#: Value and gradient as a function of L.
Evaluate: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
#: L and its value after 0, 1, ... iterations.
Iterates: TypeAlias = Iterator[tuple[FloatArray, float]]
#: A validation run: the iterates, the samples that they are trained on, and held-out samples.
Run: TypeAlias = tuple[Iterates, Samples, Samples]
#: Errors of held-out samples, from L, the training samples and the held-out samples.
Errors: TypeAlias = Callable[[FloatArray, Samples, Samples], FloatArray]

#: Numbers of iterations after which held-out samples are predicted.
CHECKPOINTS = (0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512)
#: A run ends after this number of checkpoints without a lower error.
PATIENCE = 3
#: The samples are divided into five parts, which are held out in turn until 1000 samples have been.
N_FOLDS, N_HELD_OUT = 5, 1000


def start(
    init: Any,
    x: FloatArray,
    weights: FloatArray,
    n_components: int | None,
    random_state: Any = None,
) -> tuple[FloatArray, FloatArray]:
    """Return a factor with the rank reduced, and the metric in whose space iterations move.

    The factor is given, or "identity", "random" or "pca".
    """
    n_features = x.shape[1]
    if isinstance(init, str) and init == "random":
        shape = n_components or n_features, n_features
        init = check_random_state(random_state).standard_normal(shape)
    elif isinstance(init, str):
        init = np.eye((n_components if init == "identity" else None) or n_features, n_features)
    F = check_array(init, dtype=np.float64, input_name="init")
    if F.shape[1] != n_features or not (n_components or 1) <= len(F) <= n_features or not F.any():
        raise ValueError(
            f"init must be a matrix with {n_features} columns, the features of X, and "
            f"{n_components or 1} to {n_features} rows, not all zero; got shape {F.shape}. Change init."
        )
    F = F / np.abs(F).max()
    L = F if n_components in (None, len(F)) else factor(F.T @ F, n_components, x, weights)
    whole = len(F) == n_features
    return L, positive_definite(F.T @ F if whole else np.eye(n_features), 1e-12)


def positive_definite(matrix: FloatArray, floor: float) -> FloatArray:
    """Divide a matrix by its mean eigenvalue and raise those below `floor`; replace zero by I."""
    eigenvalues, U = np.linalg.eigh(matrix / (np.abs(matrix).max() or 1.0))
    if not eigenvalues[-1] > 0:
        return np.eye(len(matrix))
    return np.asarray((U * np.maximum(eigenvalues / eigenvalues.mean(), floor)) @ U.T)


def factor(
    metric: FloatArray, n_components: int, x: FloatArray, weights: FloatArray | None = None
) -> FloatArray:
    """Return the root of a metric, or the leading principal components of samples in its space."""
    if n_components == len(metric):
        return symmetric_root(metric)
    covariance = np.atleast_2d(np.cov(x, rowvar=False, ddof=0, aweights=weights))
    return rank_limited_factor(metric, n_components, covariance)


def lbfgs(
    evaluate: Evaluate, L: FloatArray, metric: FloatArray, tol: float, unit: float = 1.0
) -> Iterates:
    """Yield L and its value after each iteration, until one lowers the value too little.

    Directions are those of L-BFGS over A with L = A·F and FᵀF = `metric`: the first iterations stay
    near the metric, and directions in which it is small change last. The value is of order `unit`,
    and an iteration lowers it by at least `tol` of that.
    """
    value, gradient = evaluate(L)
    n_kept = int(np.clip(2**21 // L.size, 5, 20))  # 32 MB of steps and changes of the gradient
    steps: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=n_kept)
    # The first step is a quarter of the start; both lengths are those of A.
    length = float(np.sqrt(np.vdot(L, np.linalg.solve(metric, L.T).T))) / 4
    while (norm := float(np.sqrt(np.vdot(gradient @ metric, gradient)))) * length > 1e-12 * unit:
        rest, shares = gradient, []
        for step, change, product in reversed(steps):
            shares.append(float(np.vdot(step, rest)) / product)
            rest = rest - shares[-1] * change
        direction = -rest @ metric
        if steps:
            step, change, product = steps[-1]
            direction *= product / float(np.vdot(change @ metric, change))
        else:
            direction *= length / norm
        for (step, change, product), share in zip(steps, reversed(shares), strict=True):
            direction -= (share + float(np.vdot(change, direction)) / product) * step
        slope = float(np.vdot(gradient, direction))
        found = _line_search(evaluate, L, value, slope, direction)
        if found is None:
            return
        before, (ahead, value, slopes) = value, found
        product = float(np.vdot(ahead - L, slopes - gradient))
        if product > 0:
            steps.append((ahead - L, slopes - gradient, product))
        L, gradient = ahead, slopes
        yield L, value
        if before - value <= tol * max(before, unit):
            return


def _line_search(
    evaluate: Evaluate, L: FloatArray, value: float, slope: float, direction: FloatArray
) -> tuple[FloatArray, float, FloatArray] | None:
    """Return a point that satisfies the weak Wolfe conditions, its value and gradient."""
    low, high, step = 0.0, np.inf, 1.0
    for _ in range(20):
        ahead = L + step * direction
        found, slopes = evaluate(ahead)
        excess = found - value - step * slope
        if not found <= value + 1e-3 * step * slope:
            high = step
            # The minimum of the parabola through both values, with the slope at L.
            guess = -slope * step**2 / (2 * excess) if np.isfinite(excess) else 0.0
            step = float(np.clip(guess, 0.9 * low + 0.1 * high, 0.5 * (low + high)))
        elif np.vdot(slopes, direction) < 0.9 * slope:
            low = step
            step = 4 * step if high == np.inf else 0.5 * (low + high)
        else:
            return ahead, found, slopes
    return None


def held_out_folds(codes: IntArray, data: Samples) -> list[tuple[Samples, Samples]]:
    """Return training and held-out samples of the folds, with similar fractions of each class.

    Consecutive samples of a class stay together, since near copies may follow each other. The only
    sample of a class is never held out, and every training part has two samples of a class.
    """
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Classes smaller than the number of folds start at different folds.
    number = np.empty(len(codes), int)
    number[order] = (N_FOLDS * rank // sizes[codes[order]] + codes[order]) % N_FOLDS
    number[sizes[codes] == 1] = -1
    folds: list[tuple[Samples, Samples]] = []
    for fold in range(N_FOLDS):
        out = number == fold
        enough = sum(len(held[0]) for _, held in folds) >= N_HELD_OUT
        if out.any() and not enough and (~out).sum() > 2 and np.bincount(codes[~out]).max() > 1:
            part, held_out = (tuple(a[rows] for a in data) for rows in (~out, out))
            folds.append((part, held_out))
    return folds


def train(
    estimator: Any,
    iterates: Iterates,
    runs: Iterable[Run],
    errors: Errors,
    x: FloatArray,
    default: int | None = None,
) -> tuple[FloatArray, int, FloatArray]:
    """Iterate until convergence, or as often as held-out samples say, with early stopping.

    The result is then the average of the metrics of the validation runs and of the run on all
    samples `x`, which varies less than a single one. Returns its factor, the number of iterations,
    and the path of :func:`select_n_iter`.
    """
    name, max_iter = type(estimator).__name__, int(estimator.max_iter)
    path, metrics = np.empty((0, 2)), list[FloatArray]()
    if estimator.early_stopping:
        max_iter, path, metrics = select_n_iter(runs, errors, max_iter, default)
    for n_iter, found in enumerate(islice(iterates, max_iter + 1)):
        if n_iter > 0 and estimator.verbose:
            print_progress(name, f"iteration {n_iter}: objective {found[1]:.6g}")
    L = found[0]
    if n_iter == max_iter and not estimator.early_stopping:
        text = f"{name} did not converge in max_iter={max_iter} iterations. Increase it, or tol."
        warn_user(text, ConvergenceWarning)
    if len(metrics) > 1:
        L = factor(np.mean([*metrics, L.T @ L], axis=0), len(L), x)
    return L, n_iter, path


def select_n_iter(
    runs: Iterable[Run], errors: Errors, max_iter: int, default: int | None = None
) -> tuple[int, FloatArray, list[FloatArray]]:
    """Select the number of iterations with the lowest error of held-out samples.

    Errors of adjacent checkpoints are averaged with weights 1/4, 1/2 and 1/4. A `default` number is
    only replaced if the difference exceeds its standard error: the errors of a few hundred samples
    are noisy, and the path is often flat.

    Returns the selected number; the numbers of iterations and the mean errors after them, shape
    (n_checkpoints, 2); and the metric of each run after the selected number of iterations.
    """
    checkpoints = np.array([n for n in CHECKPOINTS if n < max_iter] + [max_iter])
    least = int(np.searchsorted(checkpoints, min(default or 0, max_iter)))
    paths, weights = [], []  # of each run: held-out errors and L after each checkpoint
    for iterates, part, held_out in runs:
        path: list[tuple[FloatArray, FloatArray]] = []
        for n_iter, (L, _) in enumerate(iterates):
            if n_iter != checkpoints[len(path)]:
                continue
            path.append((errors(L, part, held_out), L))
            waited = len(path) - 1 - int(np.argmin([e.mean() for e, _ in path]))
            patient = waited < PATIENCE or len(path) <= least + PATIENCE
            if len(path) == len(checkpoints) or not patient:
                break
        paths.append(path)
        weights.append(held_out[2])
    if not paths:
        return int(checkpoints[least]), np.empty((0, 2)), []
    # A run that ended early keeps its last error and its last metric.
    places = range(max(least + 1, *map(len, paths)))
    loss = np.array([np.hstack([p[min(c, len(p) - 1)][0] for p in paths]) for c in places])
    w = np.concatenate(weights) / np.concatenate(weights).sum()
    mean = loss @ w
    padded = np.pad(mean, 1, mode="edge")
    smooth = padded[:-2] / 4 + mean / 2 + padded[2:] / 4
    best = int(np.argmin(smooth))
    if default is not None:
        difference = loss[least] - loss[best]
        stderr = np.sqrt(((w * (difference - w @ difference)) ** 2).sum())
        best = best if smooth[least] - smooth[best] > stderr else least
    chosen = [path[min(best, len(path) - 1)][1] for path in paths]
    table = np.column_stack([checkpoints[: len(mean)], mean])
    return int(checkpoints[best]), table, [L.T @ L for L in chosen]

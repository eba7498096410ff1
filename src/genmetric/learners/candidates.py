"""What the cross-validated metrics share: grids, splits, metrics of the candidates, and results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.metrics import check_scoring

from genmetric._typing import AnyArray, FloatArray, IntArray
from genmetric._validation import (
    CALLABLE,
    HasMethods,
    InstanceOf,
    Interval,
    ParameterRules,
    RuleOrValue,
    check_parameter,
    check_parameters,
)
from genmetric.density import Coordinates

#: Rules of the parameters that both estimators have.
SEARCH_RULES: ParameterRules = {
    "cv": [None, Interval(int, 2), HasMethods(("split",)), HasMethods(("__iter__",))],
    "scoring": [None, InstanceOf(str, "the name of a scorer"), CALLABLE],
}


def grid_values(values: Any, name: str, rules: Sequence[RuleOrValue]) -> list[Any]:
    """Return the valid values of a grid, or of a single value, without repetitions."""
    single = isinstance(values, str) or not isinstance(values, Iterable)
    found = [values] if single else list(values)
    for value in found:
        check_parameter(value, f"Every value of {name}", rules)
    if not found:
        raise ValueError(f"{name} is empty. Pass at least one value.")
    return list(dict.fromkeys(found))


def neighbor_numbers(values: Any, n_allowed: int) -> IntArray:
    """Return the numbers of neighbours of a grid, ascending, that there are enough samples for."""
    numbers = np.unique(grid_values(values, "n_neighbors", [Interval(int, 1)]))
    if numbers[0] > n_allowed:
        raise ValueError(
            f"n_neighbors={values!r} is too large: there are {n_allowed} samples to search among. "
            "Use a smaller number."
        )
    return np.asarray(numbers[numbers <= n_allowed], np.intp)


def given_splits(
    cv: Any, x: AnyArray, y: AnyArray, weight: FloatArray, groups: Any = None
) -> list[tuple[IntArray, IntArray]]:
    """Return the splits of a splitter or a list, as indices among samples of positive weight.

    A splitter sees these samples only. The indices of a list refer to all samples.
    """
    kept = np.flatnonzero(weight)
    if hasattr(cv, "split"):
        own = None if groups is None else np.asarray(groups)[kept]
        pairs = list(cv.split(x[kept], y[kept], own))
    else:
        place = np.cumsum(weight > 0) - 1
        given = [[np.asarray(part) for part in pair] for pair in cv]
        pairs = [[place[part[weight[part] > 0]] for part in pair] for pair in given]
    if not pairs:
        raise ValueError("cv yields no splits. Check n_splits and groups.")
    return [(np.sort(train), np.sort(test)) for train, test in pairs]


def scorer_values(
    model: Any, scoring: Any, k: IntArray, known: Any, queries: Any, **options: Any
) -> FloatArray:
    """Return the score of a nearest-neighbour model for each number of neighbours.

    The model is fitted on the pair `known` of samples and targets, and scored on `queries`.
    """
    scores = []
    for number in k:
        fitted = clone(model).set_params(n_neighbors=min(number, len(known[0]))).fit(*known)
        scores.append(check_scoring(fitted, scoring)(fitted, *queries, **options))
    return np.array(scores)


def seeded_copy(metric: Any, random_state: Any, rng: np.random.RandomState) -> Any:
    """Return a copy of the metric that all candidates share, with a seed, validated."""
    template = clone(metric)
    if template.random_state is None:
        whole = isinstance(random_state, int | np.integer)
        seed = random_state if whole else rng.randint(2**31 - 1)
        template.set_params(random_state=int(seed))
    check_parameters(template)
    return template


def candidate_factors(
    metric: Any,
    grid: list[dict[str, Any]],
    x: AnyArray,
    y: AnyArray,
    weight: FloatArray,
    *,
    base_options: dict[str, Any],
    mix: bool = True,
) -> Iterator[FloatArray]:
    """Yield a factor of every candidate metric; interpolations and dimensions share their fits.

    In the coordinates of the base M(lambda) = (1-lambda)·I + lambda·M, so in input space the base
    metric and the learned one are averaged, unless `mix` is False. `base_options` are parameters
    that have no effect on a base metric and make its fit fast.
    """
    own = None if (weight == 1).all() else weight  # None is understood by every estimator
    covariance = weighted_covariance(x, weight)
    fits: dict[tuple[Any, ...], FloatArray] = {}
    for params in grid:
        amount = params["interpolation"]
        shared = {name: params[name] for name in params if name != "n_components"}
        base: dict[str, Any] = {"interpolation": 0.0, **base_options}
        base |= {name: params[name] for name in ("base", "n_slices") if name in params}
        mixture = [(1.0 - amount, base), (amount, shared | {"interpolation": 1.0})]
        if not mix and amount > 0:
            mixture = [(1.0, shared)]
        parts = []
        for part, setting in mixture:
            key = tuple(setting.items())
            if part > 0 and key not in fits:
                estimator = clone(metric).set_params(n_components=None, preprocessor=None)
                fits[key] = estimator.set_params(**setting).fit(x, y, own).components_
            if part > 0:
                parts.append(np.sqrt(part) * fits[key])
        factor = parts[0] if len(parts) == 1 else np.linalg.qr(np.concatenate(parts))[1]
        yield reduced_factor(factor, params.get("n_components", metric.n_components), covariance)


def weighted_covariance(x: AnyArray, weight: FloatArray) -> FloatArray:
    """Return the covariance of weighted samples."""
    return np.cov(x.T, aweights=weight, bias=True).reshape(x.shape[1], -1)


def reduced_factor(
    factor: FloatArray, n_components: int | None, covariance: FloatArray
) -> FloatArray:
    """Project onto the leading principal components in the learned space."""
    if n_components is None:
        return factor
    _, axes = np.linalg.eigh(factor @ covariance @ factor.T)
    return np.asarray(axes.T[::-1][:n_components] @ factor)


def span_coordinates(x: AnyArray) -> tuple[FloatArray, FloatArray | None]:
    """Return centred samples; in an orthonormal basis of their span if that has fewer dimensions.

    The second value is the basis, one axis per row, or None.
    """
    z = np.subtract(x, Coordinates.of(x).center, dtype=float)
    if len(z) > z.shape[1]:
        return z, None
    _, sizes, axes = np.linalg.svd(z, full_matrices=False)
    basis = axes[sizes > 1e-10 * sizes[0]]
    return (z @ basis.T, basis) if len(basis) else (z, None)


def lifted_factor(factor: FloatArray, basis: FloatArray) -> FloatArray:
    """Return a factor in input space of a metric in the span of the samples."""
    if len(factor) < len(basis):
        return factor @ basis
    outside = np.sqrt(np.mean(np.sum(factor**2, axis=1)))
    middle = factor - outside * np.eye(len(basis))
    return np.asarray(basis.T @ middle @ basis + outside * np.eye(basis.shape[1]))


def results_table(grid: list[dict[str, Any]], by_split: FloatArray) -> dict[str, Any]:
    """Return the columns of `cv_results_` from scores of shape (n_candidates, n_splits)."""
    columns: dict[str, Any] = {"params": grid}
    for name in grid[0]:
        column = np.empty(len(grid), object)
        column[:] = [params[name] for params in grid]
        columns[f"param_{name}"] = column
    for s, values in enumerate(by_split.T):
        columns[f"split{s}_test_score"] = values
    means = np.round(by_split.mean(axis=1), 12)
    columns["mean_test_score"] = means
    columns["std_test_score"] = by_split.std(axis=1)
    columns["rank_test_score"] = rankdata(-means, method="min").astype(np.int32)
    return columns

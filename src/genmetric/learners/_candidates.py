"""Candidates of GenerativeMetricCV: the grid, and the rule that selects one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np
from scipy.stats import rankdata

from genmetric._parameters import RuleOrValue, check_parameter
from genmetric._typing import BoolArray, FloatArray
from genmetric.density._covariance import Shrinkage


@dataclass(frozen=True)
class Candidate:
    """Parameters of a :class:`GenerativeMetric` to compare with others.

    Attributes
    ----------
    base, normalization, shrinkage, interpolation, n_components
        See :class:`GenerativeMetric`. With ``interpolation=0`` the metric is the base itself, and
        `normalization` and `shrinkage` have no effect.
    """

    base: str
    normalization: str
    shrinkage: Shrinkage
    interpolation: float
    n_components: int | None

    @property
    def params(self) -> dict[str, Any]:
        """Parameters by name."""
        return asdict(self)

    @property
    def averages(self) -> tuple[str, str, Shrinkage]:
        """Parameters of the average of local metrics, which candidates may share."""
        return self.base, self.normalization, self.shrinkage

    @property
    def preference(self) -> tuple[float, ...]:
        """Sort key: the preferred one of equally good candidates has the smallest.

        Preferred is what is best on average over datasets: all dimensions, a learned metric, the
        pooled base, Ledoit-Wolf shrinkage, equal trace, no interpolation.
        """
        return (
            float(self.n_components is not None),
            float(self.interpolation == 0),
            float(self.base != "pooled"),
            float(self.shrinkage != "auto"),
            float(self.normalization != "trace"),
            1 - self.interpolation,
        )


def as_grid(values: Any, name: str, rules: Sequence[RuleOrValue]) -> list[Any]:
    """Return the candidates of a parameter as a list without repetitions.

    Parameters
    ----------
    values : object or iterable of object
        A single value or several.
    name : str
        Name of the grid, for errors.
    rules : sequence
        Valid values, see :mod:`genmetric._parameters`.

    Returns
    -------
    list
        The values.
    """
    single = isinstance(values, str) or not isinstance(values, Iterable)
    found: list[Any] = []
    for value in [values] if single else list(values):
        check_parameter(value, f"Every value of {name}", rules)
        if value not in found:
            found.append(value)
    if not found:
        raise ValueError(f"{name} is empty. Pass at least one value to select from.")
    return found


def make_candidates(
    bases: Sequence[str],
    normalizations: Sequence[str],
    shrinkages: Sequence[Shrinkage],
    interpolations: Sequence[float],
    n_components: Sequence[int | None],
) -> list[Candidate]:
    """Return the product of the grids, with one candidate per base for ``interpolation=0``.

    Parameters
    ----------
    bases, normalizations, shrinkages, interpolations, n_components : sequence
        Values of each parameter.

    Returns
    -------
    list of Candidate
        Candidates that share an average of local metrics are next to each other.
    """
    learned = [float(value) for value in interpolations if value > 0]
    grid = [
        Candidate(base, normalizations[0], shrinkages[0], 0.0, k)
        for base, k in product(bases, n_components)
        if len(learned) < len(interpolations)
    ]
    for base, normalization, shrinkage in product(bases, normalizations, shrinkages):
        for value, k in product(learned, n_components):
            grid.append(Candidate(base, normalization, shrinkage, value, k))
    return grid


class HasParameters(Protocol):
    """A candidate with parameters and a preference among equally good ones."""

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the metric."""

    @property
    def preference(self) -> tuple[float, ...]:
        """Sort key: the preferred one of equally good candidates has the smallest."""


def smooth(values: FloatArray) -> FloatArray:
    """Average adjacent values with weights 1/4, 1/2 and 1/4; the ends are repeated.

    Parameters
    ----------
    values : ndarray of shape (..., n_values)
        Scores or errors of ordered settings.

    Returns
    -------
    ndarray of shape (..., n_values)
        Smoothed values.
    """
    padded = np.concatenate([values[..., :1], values, values[..., -1:]], axis=-1)
    return np.asarray(padded[..., :-2] / 4 + padded[..., 1:-1] / 2 + padded[..., 2:] / 4)


def weights_at_best(scores: FloatArray) -> FloatArray:
    """Return weights of ordered settings around the best one of each candidate.

    Metrics of few dimensions need more neighbours than others, so that a candidate is compared at
    the number of neighbours that suits it. A single score is noisy: adjacent numbers count as well.

    Parameters
    ----------
    scores : ndarray of shape (n_candidates, n_numbers)
        Score for each number of neighbours, ascending.

    Returns
    -------
    ndarray of shape (n_candidates, n_numbers)
        Weights that sum to one: 1/2 at the number with the best smoothed score, which is the first
        of several, and 1/4 at each adjacent one. An end counts for the number missing beyond it.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.learners._candidates import weights_at_best
    >>> weights_at_best(np.array([[0.7, 0.8, 0.9, 0.8], [0.9, 0.8, 0.7, 0.7]]))
    array([[0.  , 0.25, 0.5 , 0.25],
           [0.75, 0.25, 0.  , 0.  ]])
    """
    # Rounded, so that equal counts of samples have equal scores.
    best = np.round(smooth(scores), 12).argmax(axis=1)
    return np.asarray(smooth(np.eye(scores.shape[1]))[best])


def within_one_standard_error(means: FloatArray, scores: FloatArray) -> BoolArray:
    """Return which candidates are within one standard error of the best.

    The standard error is that of the mean difference from the best candidate, over the same
    samples (or splits): differences of paired scores vary less than the scores themselves.

    Parameters
    ----------
    means : ndarray of shape (n_candidates,)
        Mean score of each candidate.
    scores : ndarray of shape (n_candidates, n_scores)
        Paired scores, of samples or of splits.

    Returns
    -------
    ndarray of bool of shape (n_candidates,)
        True for the best candidate and those that count as equally good.
    """
    best = int(np.argmax(means))
    difference = scores[best] - scores
    n_scores = scores.shape[1]
    error = difference.std(axis=1, ddof=1) / np.sqrt(n_scores) if n_scores > 1 else 0.0
    return np.asarray(means >= means[best] - error - 1e-12)


def results_table(
    candidates: Sequence[HasParameters], by_split: FloatArray, scores: FloatArray
) -> dict[str, Any]:
    """Return the columns of `cv_results_` that all selections have.

    Parameters
    ----------
    candidates : sequence
        Candidates.
    by_split : ndarray of shape (n_candidates, n_splits)
        Score of each candidate on each split.
    scores : ndarray of shape (n_candidates, n_scores)
        Paired scores, of samples or of splits.

    Returns
    -------
    dict
        `params`, `param_<name>`, `split<i>_test_score`, `mean_test_score`, `std_test_score`,
        `rank_test_score` and `within_one_standard_error`.
    """
    columns: dict[str, Any] = {"params": [candidate.params for candidate in candidates]}
    for name in candidates[0].params:
        column = np.empty(len(candidates), object)
        column[:] = [candidate.params[name] for candidate in candidates]
        columns[f"param_{name}"] = column
    for s, values in enumerate(by_split.T):
        columns[f"split{s}_test_score"] = values
    means = np.round(by_split.mean(axis=1), 12)
    columns["mean_test_score"] = means
    columns["std_test_score"] = by_split.std(axis=1)
    columns["rank_test_score"] = rankdata(-means, method="min").astype(np.int32)
    columns["within_one_standard_error"] = within_one_standard_error(means, scores)
    return columns


def select_candidate(candidates: Sequence[HasParameters], results: dict[str, Any]) -> int:
    """Return the preferred candidate of those within one standard error of the best.

    Parameters
    ----------
    candidates : sequence of Candidate
        Candidates.
    results : dict
        Columns of :func:`results_table`.

    Returns
    -------
    int
        Index of the candidate. Of equally preferred ones the better, then the first.
    """
    means = results["mean_test_score"]
    close = np.flatnonzero(results["within_one_standard_error"])
    return min(close.tolist(), key=lambda c: (candidates[c].preference, -means[c]))

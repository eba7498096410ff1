"""Candidates of GenerativeMetricCV: the grid, and the rule that selects one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np

from genmetric._parameters import RuleOrValue, check_parameter
from genmetric._typing import FloatArray
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


class HasPreference(Protocol):
    """A candidate with a preference among equally good ones."""

    @property
    def preference(self) -> tuple[float, ...]:
        """Sort key: the preferred one of equally good candidates has the smallest."""


def select_candidate(
    candidates: Sequence[HasPreference], means: FloatArray, scores: FloatArray
) -> int:
    """Return the preferred candidate within one standard error of the best.

    The standard error is that of the mean difference from the best candidate, over the same
    samples (or splits): differences of paired scores vary less than the scores themselves.

    Parameters
    ----------
    candidates : sequence of Candidate
        Candidates.
    means : ndarray of shape (n_candidates,)
        Mean score of each.
    scores : ndarray of shape (n_candidates, n_scores)
        Paired scores, of samples or of splits.

    Returns
    -------
    int
        Index of the candidate. Of equally preferred ones the better, then the first.
    """
    best = int(np.argmax(means))
    difference = scores[best] - scores
    n_scores = scores.shape[1]
    error = difference.std(axis=1, ddof=1) / np.sqrt(n_scores) if n_scores > 1 else 0.0
    close = np.flatnonzero(means >= means[best] - error - 1e-12)
    return min(close.tolist(), key=lambda c: (candidates[c].preference, -means[c]))

"""The recommendation that follows from the results of a comparison, and its significance test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from genmetric._results import MethodResult
from genmetric._scoring import Scoring
from genmetric._typing import FloatArray
from genmetric.comparison._methods import METHODS

#: Level of significance of recommendations.
LEVEL = 0.05


#: Differences of mean losses up to this size are rounding.
TIE = 1e-12


class Advice(NamedTuple):
    """A recommendation.

    Attributes
    ----------
    baseline, best : str
        Names of the best method that does not learn, and of the best distance.
    p_value : float
        Significance of their difference.
    recommended : str
        Key of the recommended method; empty if there is none.
    text : str
        The recommendation in words.
    """

    baseline: str
    best: str
    p_value: float
    recommended: str
    text: str


def advise(
    results: Sequence[MethodResult], test_share: float, scoring: Scoring, digits: int = 1
) -> Advice:
    """Recommend a method.

    Parameters
    ----------
    results : sequence of MethodResult
        Results of all methods on the same folds.
    test_share : float
        Test samples divided by training samples of a fold.
    scoring : Scoring
        Score that methods are judged by.
    digits : int, default=1
        Decimals of scores in the text.

    Returns
    -------
    Advice
        The learned metric with the lowest loss if its advantage over the best method without
        learning is significant, otherwise the latter.
    """
    nan = float("nan")
    ran = [r for r in results if not r.skipped]
    distances = [r for r in ran if r.distance]
    if not distances:
        text = (
            "No distance has a result, so nothing can be recommended. Raise the time limit, or choose "
            "other methods."
        )
        return Advice("", "", nan, "", text)
    best = min(distances, key=lambda r: r.error)

    def shown(result: MethodResult) -> str:
        return scoring.text(result.error, digits)

    def p_of(result: MethodResult, other: MethodResult, n_tests: int) -> float:
        p = corrected_resampled_t(other.errors - result.errors, test_share)[1]
        return min(1.0, n_tests * p)

    plain = [r for r in distances if not _learns(r)]
    baseline = min(plain, key=lambda r: r.error) if plain else None
    constant = next((r for r in ran if r.key in ("majority", "mean")), None)
    if constant is not None and best.error >= constant.error - TIE:
        text = (
            f"No distance is better than always predicting the {constant.name} "
            f"({scoring.label} {shown(constant)}): these methods find no signal in the features."
        )
        name = "" if baseline is None else baseline.name
        return Advice(name, best.name, nan, "", text)
    reference = _reference_sentence(best, ran, p_of, shown)
    if baseline is None:
        text = f"{_named(best)} has the best {scoring.label}, {shown(best)}.{reference}"
        return Advice("", best.name, nan, best.key, text)
    if best.error >= baseline.error - TIE:
        text = (
            f"Keep {_named(baseline)}: no learned metric has a better {scoring.label} than "
            f"{shown(baseline)}.{reference}"
        )
        return Advice(baseline.name, baseline.name, nan, baseline.key, text)
    learned = [r for r in distances if _learns(r)]
    p = p_of(best, baseline, len(learned))
    test = "corrected resampled t-test"
    if len(learned) > 1:
        test += f", adjusted for {len(learned)} methods"
    if not p < LEVEL and constant is not None and baseline.error >= constant.error - TIE:
        # Keeping a distance that is worse than a constant would be no advice.
        p = p_of(best, constant, len(distances))
        first = f"{_named(best)} has the best {scoring.label}, {shown(best)}"
        compared = f"{shown(constant)} for always predicting the {constant.name}"
        if not p < LEVEL:
            text = (
                f"No distance is clearly better than a constant: {first}, against {compared}, a "
                "difference that may be due to chance. More samples or other features may help."
                f"{reference}"
            )
            return Advice(baseline.name, best.name, p, "", _capital(text))
        text = (
            f"Use {_named(best)}{_settings(best)}: the {scoring.label} is {shown(best)}, against "
            f"{compared}, significant at the 5% level (p = {p:.2g}). {_capital(_named(baseline))} "
            f"({shown(baseline)}) is not better than a constant.{reference}"
        )
        return Advice(baseline.name, best.name, p, best.key, text)
    if not p < LEVEL:
        chance = "a test needs at least two folds" if np.isnan(p) else f"p = {p:.2g}, {test}"
        text = (
            f"Keep {_named(baseline)}: no learned distance is clearly better. The {scoring.label} is "
            f"{shown(baseline)}, and {shown(best)} with {_named(best)}, a difference that may be "
            f"due to chance ({chance}). More samples or more repeats make the test more sensitive."
            f"{reference}"
        )
        return Advice(baseline.name, best.name, p, baseline.key, text)
    text = (
        f"Use {_named(best)}{_settings(best)}: the {scoring.label} "
        f"{'rises' if scoring.greater_is_better else 'falls'} from {shown(baseline)} with "
        f"{_named(baseline)} to {shown(best)}, significant at the 5% level (p = {p:.2g}, {test})."
    )
    faster = [
        r
        for r in learned
        if r is not best
        and float(np.mean(r.fit_seconds)) < 0.5 * float(np.mean(best.fit_seconds))
        and not p_of(best, r, 1) < LEVEL
        and p_of(r, baseline, len(learned)) < LEVEL
    ]
    if faster:
        quick = min(faster, key=lambda r: r.error)
        ratio = float(np.mean(best.fit_seconds)) / max(float(np.mean(quick.fit_seconds)), 1e-9)
        text += (
            f" {_capital(_named(quick))}, with {shown(quick)}, is not significantly worse and fits "
            f"{ratio:.0f} times faster."
        )
    return Advice(baseline.name, best.name, p, best.key, text + reference)


def _learns(result: MethodResult) -> bool:
    return METHODS[result.key].learns if result.key in METHODS else True


def _reference_sentence(best: MethodResult, ran: Sequence[MethodResult], p_of, shown) -> str:  # type: ignore[no-untyped-def]
    """Name a method that is not a distance and is significantly better, if there is one."""
    others = [r for r in ran if not r.distance and r.error < best.error - TIE]
    others = [r for r in others if p_of(r, best, 1) < LEVEL]
    if not others:
        return ""
    first = min(others, key=lambda r: r.error)
    return f" For prediction only, {first.name} is better ({shown(first)}); it is not a distance."


def _named(result: MethodResult) -> str:
    """Return the label with the key that commands and functions accept."""
    return f"{result.name} (method {result.key!r})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _settings(result: MethodResult) -> str:
    """Return the parameters that most folds selected, in words."""
    selected = {}
    for name in result.parameters[0] if result.parameters else ():
        values = Counter(repr(entry.get(name)) for entry in result.parameters)
        selected[name] = values.most_common(1)[0][0].strip("'")
    n_neighbors = selected.pop("n_neighbors", None)
    words = [f"{n.replace('_', ' ')} {value}" for n, value in selected.items() if value != "None"]
    if n_neighbors is not None:
        words.append(f"{n_neighbors} neighbour{'' if n_neighbors == '1' else 's'}")
    return f" with {', '.join(words)}" if words else ""


def corrected_resampled_t(differences: FloatArray, test_share: float) -> tuple[float, float]:
    r"""Compute the corrected resampled t-test of Nadeau and Bengio.

    Folds share training samples, so their errors are correlated and the variance between folds
    underestimates the variance of the mean. With J differences of mean d and variance s², and test
    sets :math:`\rho` times as large as training sets,

    .. math:: t = \frac{d}{\sqrt{(1/J + \rho)\, s^2}} ,

    on J - 1 degrees of freedom.

    Parameters
    ----------
    differences : ndarray of shape (n_folds,)
        Error of one method minus the error of the other in each fold.
    test_share : float
        Number of test samples divided by the number of training samples of a fold.

    Returns
    -------
    t : float
        The statistic; infinite if all differences are equal and not zero.
    p : float
        Two-sided p-value; NaN with fewer than two folds, 1 if all differences are zero.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52, 239-281
    (2003).

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.comparison import corrected_resampled_t
    >>> t, p = corrected_resampled_t(np.array([0.1, 0.12, 0.08, 0.11, 0.09]), 0.25)
    >>> round(t, 2), round(p, 4)
    (9.43, 0.0007)
    """
    n = len(differences)
    if n < 2:
        return float("nan"), float("nan")
    mean, variance = float(np.mean(differences)), float(np.var(differences, ddof=1))
    if variance <= (1e-12 * abs(mean)) ** 2:
        return (float("inf") * np.sign(mean), 0.0) if mean else (0.0, 1.0)
    t = mean / np.sqrt((1 / n + test_share) * variance)
    return float(t), float(2 * stats.t.sf(abs(t), n - 1))

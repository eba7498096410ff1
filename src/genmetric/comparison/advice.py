"""The verdict of a comparison: one question, one test, in plain words."""

from __future__ import annotations

import numpy as np
from scipy import stats

from genmetric._typing import FloatArray
from genmetric.comparison.methods import METHODS, QUESTION
from genmetric.comparison.result import Comparison, MethodResult, value_text

#: Differences of mean losses up to this size are rounding.
TIE = 1e-12


def advise(found: Comparison) -> None:
    """Answer the question of a comparison by the results of the methods that ran."""
    ran = {r.key: r for r in found.ran}
    maps = [r for r in found.ran if r.has_map]
    found.baseline, found.challenger = _question(found)
    if found.skipped:
        found.footnote = f"Without a result: {', '.join(r.key for r in found.skipped)}. "
    if found.not_run:
        others = ", ".join(found.not_run)
        found.footnote += f"Not compared by default: {others} (--add, or methods=)."
    if not maps:
        found.advice = "No metric has a result, so nothing can be recommended."
        return
    chosen = min(maps, key=lambda r: r.error)
    text = (
        f"of the metrics that ran, {_named(chosen)} has the best {found.scoring.label}, "
        f"{_score(found, chosen)}; this was not tested."
    )
    if found.challenger in ran and found.baseline in ran:
        chosen, text = _answer(found, ran[found.baseline], ran[found.challenger])
    for result in found.skipped:
        if result.key in (found.baseline, found.challenger):
            text = f"{result.name} has no result ({result.note}), so the question is open: {text}"
    constant = ran.get("majority") or ran.get("mean")
    found.recommended = chosen.key
    if constant is not None and chosen.error >= constant.error - TIE:
        found.recommended = ""
        text = (
            f"no metric is recommended: {_named(chosen)} is not better than always predicting the "
            f"{constant.name} ({found.scoring.label} {_score(found, chosen)} and "
            f"{_score(found, constant)}). More samples or other features may help."
        )
    settled = (chosen, ran.get(found.challenger), constant)
    lower = [r for r in found.ran if r.error < chosen.error - TIE and r not in settled]
    if constant is not None:
        lower = [r for r in lower if r.error + np.nan_to_num(r.margin) < constant.error]
    lower.sort(key=lambda r: r.error)
    found.more_accurate = tuple(r.key for r in lower if not r.has_map)
    for has_map, why in (
        (True, "not tested"),
        (False, "but without a map to find neighbours with"),
    ):
        shown = [f"{r.name} ({_score(found, r)})" for r in lower if r.has_map == has_map]
        text += f" Better {found.scoring.label}, {why}: {', '.join(shown[:3])}." if shown else ""
    if found.incomplete:
        text = f"incomplete: {found.incomplete}. {text[:1].upper()}{text[1:]}"
    found.advice = text[:1].upper() + text[1:]


def _question(found: Comparison) -> tuple[str, str]:
    """Return the keys of baseline and challenger, which the methods asked for decide."""
    asked = [r.key for r in found.results]
    baseline, challenger = QUESTION[found.task]
    if baseline not in asked:
        baseline = "euclidean" if "euclidean" in asked else ""
    if challenger not in asked:
        learned = [r.key for r in found.results if r.has_map and METHODS[r.key].learns]
        challenger = learned[0] if len(learned) == 1 else ""
    return (baseline, challenger) if baseline and challenger else ("", "")


def _answer(
    found: Comparison, baseline: MethodResult, challenger: MethodResult
) -> tuple[MethodResult, str]:
    """Test whether the challenger is better; return the method to use and the verdict."""
    n = min(len(baseline.errors), len(challenger.errors))
    differences = baseline.errors[:n] - challenger.errors[:n]
    gain = float(np.mean(differences))
    p = found.p_value = corrected_resampled_t(differences, challenger.test_share)[1]
    test = f"Test: corrected resampled t-test on {n} folds, p = {p:.2g}. "
    found.footnote = (test if n > 1 else "One fold is not enough for a test. ") + found.footnote
    plain = [r for r in found.ran if r.has_map and not METHODS[r.key].learns]
    kept = min(plain, key=lambda r: r.error)
    new, old, simple = (_score(found, r) for r in (challenger, baseline, kept))
    scores = f"{found.scoring.label} {new} instead of {old}"
    if kept is not baseline:
        scores += f", and {simple} with {kept.name}"
    if p < 0.05 and gain > 0 and challenger.error < kept.error:
        words = _gain(found, gain, baseline, challenger)
        return challenger, f"use {_named(challenger)}: {words} with {baseline.name} ({scores})."
    why = "may be better by chance" if gain > TIE and not p < 0.05 else "is not better"
    return kept, f"keep {_named(kept)}: {challenger.name} {why} ({scores})."


def _gain(found: Comparison, gain: float, old: MethodResult, new: MethodResult) -> str:
    """Write a gain in words: how many more predictions are right, or how far numbers are off."""
    if found.scoring.percent:
        of = 100 if gain >= 0.0095 else 1000
        equally = ", each class counted equally," if found.scoring.key == "balanced_error" else ""
        return f"{max(round(of * gain), 1)} of {of} more are right{equally} than"
    if new.typical_error < old.typical_error:
        before, now = (value_text(r.typical_error) for r in (old, new))
        return f"half of the predictions are off by less than {now}, instead of {before}"
    return f"the {found.scoring.label} is better than"


def _named(result: MethodResult) -> str:
    """Return the label with the key that commands and functions accept."""
    return f"{result.name} ({result.key!r})"


def _score(found: Comparison, result: MethodResult) -> str:
    """Write the mean score of a method."""
    return found.score_text(result, margin=False)


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

"""The verdict of a comparison: one question, one test, in plain words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from genmetric._typing import FloatArray
from genmetric.comparison.methods import METHODS, QUESTION
from genmetric.comparison.result import Comparison, MethodResult

#: Differences of mean losses up to this size are rounding.
TIE = 1e-12


class Advice(NamedTuple):
    """The verdict; the fields are those of :class:`genmetric.comparison.Comparison`."""

    baseline: str
    challenger: str
    p_value: float
    recommended: str
    more_accurate: tuple[str, ...]
    advice: str
    footnote: str


def advise(found: Comparison) -> Advice:
    """Answer the question of a comparison by the results of the methods that ran."""
    ran = {r.key: r for r in found.ran}
    maps = [r for r in found.ran if r.has_map]
    baseline, challenger = _question(found)
    p_value = float("nan")
    if not maps:
        text = "No metric has a result, so nothing can be recommended."
        return Advice(baseline, challenger, p_value, "", (), text, _footnote(found, ""))
    chosen, footnote = min(maps, key=lambda r: r.error), ""
    if challenger in ran and baseline in ran:
        chosen, p_value, text = _answer(found, ran[baseline], ran[challenger])
        footnote = (
            f"Test: corrected resampled t-test on {len(ran[challenger].errors)} folds, p = "
            f"{p_value:.2g}."
            if np.isfinite(p_value)
            else "One fold is not enough for a test."
        )
    else:
        text = (
            f"Of the metrics that ran, {named(chosen)} has the best {found.scoring.label}, "
            f"{_score(found, chosen)}. This was not tested."
        )
        if challenger:
            missing = next(key for key in (challenger, baseline) if key not in ran)
            reason = next((f" ({r.note})" for r in found.skipped if r.key == missing), "")
            text = f"{METHODS[missing].label} did not run{reason}. {text}"
    constant = ran.get("majority") or ran.get("mean")
    recommended = chosen.key
    if constant is not None and chosen.error >= constant.error - TIE:
        recommended = ""
        text = (
            f"{_capital(named(chosen))} is not better than always predicting the {constant.name} "
            f"({found.scoring.label} {_score(found, chosen)} and {_score(found, constant)}), so no "
            "metric is recommended: more samples or other features may help."
        )
    lower = sorted((r for r in ran.values() if r.error < chosen.error - TIE), key=lambda r: r.error)
    lower = [r for r in lower if r is not constant]
    if lower:
        shown = ", ".join(
            f"{r.name} ({_score(found, r)}{'' if r.has_map else ', without a map'})"
            for r in lower[:3]
        )
        text += f" A better {found.scoring.label}, not tested: {shown}."
    more_accurate = tuple(r.key for r in lower if not r.has_map)
    if found.incomplete:
        text = f"Incomplete: {found.incomplete}. {_capital(text)}"
    return Advice(
        baseline,
        challenger,
        p_value,
        recommended,
        more_accurate,
        _capital(text),
        _footnote(found, footnote),
    )


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
) -> tuple[MethodResult, float, str]:
    """Test whether the challenger is better; return the method to use, p and the verdict."""
    n = min(len(baseline.errors), len(challenger.errors))
    differences = baseline.errors[:n] - challenger.errors[:n]
    p = corrected_resampled_t(differences, challenger.test_share)[1]
    gain = float(np.mean(differences))
    plain = [r for r in found.ran if r.has_map and not METHODS[r.key].learns]
    kept = min(plain, key=lambda r: r.error)
    scores = (
        f"{found.scoring.label} {_score(found, challenger)} instead of {_score(found, baseline)}"
    )
    if p < 0.05 and gain > 0:
        if kept.error <= challenger.error:
            text = (
                f"Use {named(kept)}: its {found.scoring.label}, {_score(found, kept)}, is not worse "
                f"than that of {named(challenger)}, {_score(found, challenger)}."
            )
            return kept, p, text
        words = _more_right(found, gain)
        text = f"Use {named(challenger)}: {words} than with {baseline.name} ({scores})."
        return challenger, p, text
    why = "is not better" if gain <= TIE else "is not clearly better; the difference may be chance"
    text = f"Keep {named(kept)}: {challenger.name} {why} ({scores}"
    if kept is not baseline:
        text += f" for {baseline.name}, {_score(found, kept)} for {kept.name}"
    return kept, p, text + ")."


def _more_right(found: Comparison, gain: float) -> str:
    """Write a gain in words: how many more predictions are right."""
    if not found.scoring.percent:
        return f"the {found.scoring.label} is better"
    of = 100 if gain >= 0.0095 else 1000
    equally = ", each class counted equally," if found.scoring.key == "balanced_error" else ""
    return f"{max(round(of * gain), 1)} of {of} more are right{equally}"


def _footnote(found: Comparison, test: str) -> str:
    """Add the methods that did not run to the sentence about the test."""
    parts = [test] if test else []
    if found.skipped:
        parts.append(f"Without a result: {', '.join(r.key for r in found.skipped)}.")
    if found.not_run:
        parts.append(
            f"Not compared: {', '.join(found.not_run)} (name them in methods, or --methods)."
        )
    return " ".join(parts)


def named(result: MethodResult) -> str:
    """Return the label with the key that commands and functions accept."""
    return f"{result.name} ({result.key!r})"


def _score(found: Comparison, result: MethodResult) -> str:
    return found.scoring.text(result.error, found.scoring.digits(found.n_samples))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


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

"""The scores that methods are judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any, Literal

from genmetric._text import did_you_mean
from genmetric.comparison.methods import Task


@dataclass(frozen=True)
class Scoring:
    """One way to judge predictions.

    Comparisons store losses, of which lower values are better. The loss of a score that should be
    high, such as the area under the ROC curve, is one minus the score.

    Attributes
    ----------
    key : str
        Identifier, accepted by ``compare_metrics(scoring=...)`` and ``--scoring``.
    label : str
        Name shown in tables and sentences.
    function : callable
        ``function(y_true, response, n_classes)`` returns the score; `y_true` holds class codes
        0, 1, ..., and the columns of probabilities are in this order, or numeric targets.
    response : {"predict", "predict_proba"}
        Method of the model whose result is judged.
    greater_is_better : bool
        Whether higher scores are better.
    percent : bool
        Whether scores are shown in percent.
    task : {"classification", "regression"}
        Kind of target.
    significant : bool
        Whether scores have the unit of the target and are shown with four significant digits.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.comparison import SCORINGS
    >>> SCORINGS["error"].loss(np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0]), 2)
    0.25
    """

    key: str
    label: str
    function: Callable[[Any, Any, int], float]
    response: Literal["predict", "predict_proba"] = "predict"
    greater_is_better: bool = False
    percent: bool = False
    task: Task = "classification"
    significant: bool = False

    def loss(self, y_true: Any, response: Any, n_classes: int) -> float:
        """Compute the loss of predictions; lower is better."""
        return float(self.score(float(self.function(y_true, response, n_classes))))

    def score(self, loss: Any) -> Any:
        """Convert a loss to a score, or a score to a loss."""
        return 1 - loss if self.greater_is_better else loss

    def digits(self, n_predictions: int) -> int:
        """Return the number of decimals that shows a change of one prediction."""
        needed = ceil(log10(max(n_predictions, 10))) - 2
        return min(max(needed, 1), 3) if self.percent else 3

    def number(self, value: float, digits: int = 1, like: float | None = None) -> str:
        """Write a score, or a difference of scores with the decimals of the score `like`."""
        size = abs(value if like is None else like)
        if self.significant and isfinite(size) and size > 0:
            digits = min(max(3 - floor(log10(size)), 0), 12)
        return f"{(100 if self.percent else 1) * value:.{digits}f}"

    def text(self, loss: float, digits: int = 1) -> str:
        """Write the score of a loss, with a percent sign if scores are shown in percent."""
        digits = digits if self.percent else max(digits, 3)
        return self.number(float(self.score(loss)), digits) + ("%" if self.percent else "")

    @property
    def heading(self) -> str:
        """Heading of a column of scores."""
        return f"{self.label}, %" if self.percent else self.label


def _metrics() -> Any:
    """Import scikit-learn's scores when they are needed; it takes a second."""
    from sklearn import metrics

    return metrics


def _roc_auc(y: Any, proba: Any, n_classes: int) -> float:
    """Compute the area under the ROC curve, for more than two classes one versus rest."""
    if n_classes == 2:
        return float(_metrics().roc_auc_score(y, proba[:, 1]))
    labels = list(range(n_classes))
    return float(_metrics().roc_auc_score(y, proba, multi_class="ovr", labels=labels))


#: All scorings by key.
SCORINGS: dict[str, Scoring] = {
    scoring.key: scoring
    for scoring in (
        Scoring("error", "error rate", lambda y, z, _: (y != z).mean(), percent=True),
        Scoring(
            "balanced_error",
            "balanced error rate",
            lambda y, z, _: 1 - _metrics().balanced_accuracy_score(y, z),
            percent=True,
        ),
        Scoring(
            "f1_macro",
            "macro F1",
            lambda y, z, n: _metrics().f1_score(
                y, z, labels=list(range(n)), average="macro", zero_division=0
            ),
            greater_is_better=True,
        ),
        Scoring(
            "log_loss",
            "log loss",
            lambda y, p, n: _metrics().log_loss(y, p, labels=list(range(n))),
            "predict_proba",
        ),
        Scoring("roc_auc", "ROC AUC", _roc_auc, "predict_proba", greater_is_better=True),
        Scoring(
            "r2",
            "R²",
            lambda y, z, _: _metrics().r2_score(y, z),
            greater_is_better=True,
            task="regression",
        ),
        Scoring(
            "mae",
            "mean absolute error",
            lambda y, z, _: _metrics().mean_absolute_error(y, z),
            task="regression",
            significant=True,
        ),
    )
}

#: What to use instead of scores with other names, by task.
SCORE_ADVICE: dict[Task, dict[str, str]] = {
    "classification": {
        "accuracy": "Use error (100% minus accuracy).",
        "balanced_accuracy": "Use balanced_error (100% minus balanced accuracy).",
        "auc": "Did you mean roc_auc?",
        "f1": "Did you mean f1_macro?",
    },
    "regression": {
        "rmse": "Use mae (mean absolute error) or r2.",
        "mse": "Use mae (mean absolute error) or r2.",
    },
}


def find_scoring(scoring: str | Scoring, task: Task) -> Scoring:
    """Look a scoring up by its key; a :class:`Scoring` must be for the task."""
    found = SCORINGS.get(scoring) if isinstance(scoring, str) else scoring
    if found is None or found.task != task:
        able = [key for key, s in SCORINGS.items() if s.task == task]
        text = f"scoring for {task} must be one of {', '.join(able)}; got {scoring!r}."
        word = str(scoring)
        hint = SCORE_ADVICE[task].get(word.lower()) or did_you_mean(word, able)
        raise ValueError(f"{text} {hint if found is None else ''}".rstrip())
    return found

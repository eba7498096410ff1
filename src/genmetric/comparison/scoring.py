"""The scores that methods are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan
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
    function : str
        Function of :mod:`sklearn.metrics`.
    options : mapping
        Its parameters.
    response : {"predict", "predict_proba"}
        Method of the model whose result is judged.
    percent : bool
        Whether scores are shown in percent.
    task : {"classification", "regression"}
        Kind of target.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.comparison import SCORINGS
    >>> SCORINGS["error"].loss(np.array([0, 1, 1, 1]), np.array([0, 1, 1, 0]), 2)
    0.25
    """

    key: str
    label: str
    function: str
    options: Mapping[str, Any] = field(default_factory=dict)
    response: Literal["predict", "predict_proba"] = "predict"
    percent: bool = False
    task: Task = "classification"

    @property
    def greater_is_better(self) -> bool:
        """Whether higher scores are better."""
        return self.function.endswith("score") and not self.percent

    def loss(self, y_true: Any, response: Any, n_classes: int) -> float:
        """Compute the loss of predictions; lower is better.

        Parameters
        ----------
        y_true : ndarray of shape (n_samples,)
            Class codes 0, 1, ..., or numeric targets.
        response : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Predicted codes, probabilities or targets.
        n_classes : int
            Number of classes; 0 for numeric targets.

        Returns
        -------
        float
            The loss.
        """
        from sklearn import metrics

        options = dict(self.options)
        if self.key in ("f1_macro", "log_loss", "roc_auc"):
            options["labels"] = list(range(n_classes))
        if self.key == "roc_auc" and n_classes == 2:
            response = response[:, 1]
        value = float(getattr(metrics, self.function)(y_true, response, **options))
        return 1 - value if self.function.endswith("score") else value

    def score(self, loss: Any) -> Any:
        """Convert a loss to a score.

        Parameters
        ----------
        loss : float or ndarray
            Loss, smaller is better.

        Returns
        -------
        float or ndarray
            The score as people read it.
        """
        return 1 - loss if self.greater_is_better else loss

    def text(self, loss: float, margin: float = float("nan"), *, digits: int = 1) -> str:
        """Write the score of a loss, and a margin if there is one: "17.3% ± 2.1".

        Parameters
        ----------
        loss : float
            Loss.
        margin : float, default=nan
            Half of the interval of the loss.
        digits : int, default=1
            Digits after the point of a percentage.

        Returns
        -------
        str
            Text.
        """
        unit, form, sign = (100, f".{digits}f", "%") if self.percent else (1, ".3f", "")
        form = ".4g" if self.key == "mae" else form
        text = f"{unit * self.score(loss):{form}}{sign}"
        return text if isnan(margin) else f"{text} ± {unit * margin:{form}}"

    @property
    def heading(self) -> str:
        """Heading of a column of scores."""
        return f"{self.label}, %" if self.percent else self.label


_ENTRIES = (
    Scoring("error", "error rate", "zero_one_loss", percent=True),
    Scoring("balanced_error", "balanced error rate", "balanced_accuracy_score", percent=True),
    Scoring("f1_macro", "macro F1", "f1_score", {"average": "macro", "zero_division": 0}),
    Scoring("log_loss", "log loss", "log_loss", {}, "predict_proba"),
    Scoring("roc_auc", "ROC AUC", "roc_auc_score", {"multi_class": "ovr"}, "predict_proba"),
    Scoring("r2", "R²", "r2_score", task="regression"),
    Scoring("mae", "mean absolute error", "mean_absolute_error", task="regression"),
)

#: All scorings by key.
SCORINGS: dict[str, Scoring] = {scoring.key: scoring for scoring in _ENTRIES}

#: What to use instead of scores with other names.
SCORE_ADVICE = {
    "accuracy": "Use error (100% minus accuracy).",
    "balanced_accuracy": "Use balanced_error (100% minus balanced accuracy).",
    "auc": "Did you mean roc_auc?",
    "f1": "Did you mean f1_macro?",
    "rmse": "Use mae (mean absolute error) or r2.",
    "mse": "Use mae (mean absolute error) or r2.",
}


def find_scoring(scoring: str | Scoring, task: Task) -> Scoring:
    """Look a scoring up by its key; a :class:`Scoring` must be for the task."""
    found = SCORINGS.get(scoring) if isinstance(scoring, str) else scoring
    if found is None or found.task != task:
        able = [key for key, s in SCORINGS.items() if s.task == task]
        hint = SCORE_ADVICE.get(str(scoring).lower()) or did_you_mean(str(scoring), able)
        text = f"scoring for {task} must be one of {', '.join(able)}; got {scoring!r}. {hint}"
        raise ValueError(text.rstrip())
    return found

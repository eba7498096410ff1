"""The scores that methods are judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.metrics import (
    balanced_accuracy_score,
    f1_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

from genmetric._method_texts import SCORE_ADVICE
from genmetric._nearest import did_you_mean
from genmetric._typing import AnyArray, FloatArray, IntArray

Task = Literal["classification", "regression"]
Response = Literal["predict", "predict_proba"]


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
        Whether scores are shown in per cent.
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
    function: Callable[[AnyArray, AnyArray, int], float]
    response: Response = "predict"
    greater_is_better: bool = False
    percent: bool = False
    task: Task = "classification"
    significant: bool = False

    def loss(self, y_true: AnyArray, response: AnyArray, n_classes: int) -> float:
        """Compute the loss of predictions.

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
            The loss; lower is better.
        """
        score = float(self.function(y_true, response, n_classes))
        return 1 - score if self.greater_is_better else score

    def score(self, loss: Any) -> Any:
        """Convert losses to scores.

        Parameters
        ----------
        loss : float or ndarray
            Losses.

        Returns
        -------
        float or ndarray
            Scores.
        """
        return 1 - loss if self.greater_is_better else loss

    def digits(self, n_predictions: int) -> int:
        """Return the number of decimals that shows a change of one prediction.

        Parameters
        ----------
        n_predictions : int
            Number of predictions that a score is computed from.

        Returns
        -------
        int
            Number of decimals.
        """
        needed = int(np.ceil(np.log10(max(n_predictions, 10))))
        return int(np.clip(needed - 2, 1, 3)) if self.percent else 4

    def text(self, loss: float, digits: int = 1) -> str:
        """Write the score of a loss, with a percent sign if scores are shown in per cent.

        Parameters
        ----------
        loss : float
            The loss.
        digits : int, default=1
            Number of decimals.

        Returns
        -------
        str
            The score.
        """
        value = self.score(loss)
        if self.percent:
            return f"{100 * value:.{digits}f}%"
        return f"{value:.{self.decimals(value, max(digits, 3))}f}"

    def decimals(self, score: float, digits: int) -> int:
        """Return the number of decimals to show a score with.

        Parameters
        ----------
        score : float
            The score.
        digits : int
            Number of decimals of scores that do not have the unit of the target.

        Returns
        -------
        int
            `digits`, or the decimals that make four significant digits.
        """
        if not self.significant or not np.isfinite(score) or score == 0:
            return digits
        return int(np.clip(3 - np.floor(np.log10(abs(score))), 0, 12))

    @property
    def heading(self) -> str:
        """Heading of a column of scores."""
        return f"{self.label}, %" if self.percent else self.label


def _error(y_true: AnyArray, y_pred: AnyArray, _: int) -> float:
    return float(np.mean(y_true != y_pred))


def _balanced_error(y_true: AnyArray, y_pred: AnyArray, _: int) -> float:
    return 1 - float(balanced_accuracy_score(y_true, y_pred))


def _macro_f1(y_true: AnyArray, y_pred: AnyArray, n_classes: int) -> float:
    labels = np.arange(n_classes)
    return float(f1_score(y_true, y_pred, labels=labels, average="macro", zero_division=0))


def _log_loss(y_true: AnyArray, proba: FloatArray, n_classes: int) -> float:
    return float(log_loss(y_true, proba, labels=np.arange(n_classes)))


def _roc_auc(y_true: IntArray, proba: FloatArray, n_classes: int) -> float:
    if n_classes == 2:
        return float(roc_auc_score(y_true, proba[:, 1]))
    return float(roc_auc_score(y_true, proba, multi_class="ovr", labels=np.arange(n_classes)))


def _r2(y_true: FloatArray, y_pred: FloatArray, _: int) -> float:
    return float(r2_score(y_true, y_pred))


def _mae(y_true: FloatArray, y_pred: FloatArray, _: int) -> float:
    return float(mean_absolute_error(y_true, y_pred))


_ENTRIES = (
    Scoring("error", "error rate", _error, percent=True),
    Scoring("balanced_error", "balanced error rate", _balanced_error, percent=True),
    Scoring("f1_macro", "macro F1", _macro_f1, greater_is_better=True),
    Scoring("log_loss", "log loss", _log_loss, "predict_proba"),
    Scoring("roc_auc", "ROC AUC", _roc_auc, "predict_proba", greater_is_better=True),
    Scoring("r2", "R²", _r2, greater_is_better=True, task="regression"),
    Scoring("mae", "mean absolute error", _mae, task="regression", significant=True),
)

#: Key of the scoring of each task if none is given.
DEFAULT_SCORINGS: dict[Task, str] = {"classification": "error", "regression": "r2"}

#: All scorings by key.
SCORINGS: dict[str, Scoring] = {scoring.key: scoring for scoring in _ENTRIES}


def find_scoring(scoring: str | Scoring | None, task: Task = "classification") -> Scoring:
    """Look a scoring up by its key.

    Parameters
    ----------
    scoring : str, Scoring or None
        Key of :data:`SCORINGS`; a :class:`Scoring` is returned as it is, and None is the default
        of the task.
    task : {"classification", "regression"}, default="classification"
        Kind of target that the scoring must be for.

    Returns
    -------
    Scoring
        The scoring.
    """
    found = DEFAULT_SCORINGS[task] if scoring is None else scoring
    able = [key for key, s in SCORINGS.items() if s.task == task]
    what = "numbers" if task == "regression" else "classes"
    if isinstance(found, str):
        if found not in SCORINGS:
            text = (
                f"scoring must be one of {', '.join(able)} for a target of {what}; got {found!r}."
            )
            hint = SCORE_ADVICE[task].get(found.lower()) or did_you_mean(found, able)
            raise ValueError(f"{text} {hint}".rstrip())
        found = SCORINGS[found]
    if found.task != task:
        raise ValueError(
            f"scoring {found.key!r} is not for a target of {what}; use one of {', '.join(able)}."
        )
    return found

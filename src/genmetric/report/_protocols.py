"""What a report needs to know of a comparison, a score and a column.

The report is below :mod:`genmetric.comparison` in the order of layers, so it names the attributes
it reads instead of importing the classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from genmetric._typing import FloatArray, IntArray


class ScoreLike(Protocol):
    """A score that methods are judged by."""

    @property
    def key(self) -> str:
        """Identifier, such as "error"."""

    @property
    def label(self) -> str:
        """Name in plain words, such as "error rate"."""

    @property
    def percent(self) -> bool:
        """Whether scores are shown in per cent."""

    @property
    def greater_is_better(self) -> bool:
        """Whether larger scores are better."""

    @property
    def task(self) -> str:
        """Kind of target: "classification" or "regression"."""

    def score(self, loss: Any) -> Any:
        """Convert a loss, of which lower values are better, to the score."""

    def digits(self, n_predictions: int) -> int:
        """Return the number of decimals to show."""

    def decimals(self, score: float, digits: int) -> int:
        """Return the number of decimals to show a score with, `digits` unless it has a unit."""

    def text(self, loss: float, digits: int = 1) -> str:
        """Write the score of a loss."""


class ResultLike(Protocol):
    """The result of one method, one entry per fold."""

    @property
    def name(self) -> str:
        """Label in plain words, unique in a comparison."""

    @property
    def key(self) -> str:
        """Identifier that commands accept."""

    @property
    def errors(self) -> FloatArray:
        """Losses of the folds; empty if the method was skipped."""

    @property
    def fit_seconds(self) -> FloatArray:
        """Seconds to fit, per fold."""

    @property
    def predict_seconds(self) -> FloatArray:
        """Seconds to predict, per fold."""

    @property
    def skipped_seconds(self) -> float:
        """Seconds spent on the method before it was skipped."""

    @property
    def parameters(self) -> Sequence[Mapping[str, Any]]:
        """Parameters selected in each fold."""

    @property
    def note(self) -> str:
        """Reason why the method was skipped, or a remark."""

    @property
    def confusion(self) -> IntArray | None:
        """Test samples by true class (rows) and predicted class (columns)."""

    @property
    def distance(self) -> bool:
        """Whether the method is a distance; others are shown for reference."""

    @property
    def skipped(self) -> bool:
        """Whether the method has no result."""

    @property
    def error(self) -> float:
        """Mean loss over the folds."""

    @property
    def standard_error(self) -> float:
        """Standard error of the mean loss; NaN with fewer than two folds."""


class ComparisonLike(Protocol):
    """A cross-validated comparison of metrics on one table.

    If ``scoring.task`` is "regression", a result may have an attribute ``predictions``: a pair of
    arrays with the actual and predicted values of the test samples.
    """

    @property
    def title(self) -> str:
        """Name of the table."""

    @property
    def n_samples(self) -> int:
        """Number of samples compared on."""

    @property
    def n_features(self) -> int:
        """Number of features after encoding."""

    @property
    def feature_names(self) -> Sequence[str]:
        """Names of the features."""

    @property
    def class_names(self) -> Sequence[str]:
        """Names of the classes in sorted order of the labels; empty for regression."""

    @property
    def class_counts(self) -> IntArray:
        """Number of samples per class."""

    @property
    def results(self) -> Sequence[ResultLike]:
        """One result per method, in the order of the table."""

    @property
    def ran(self) -> Sequence[ResultLike]:
        """Results of the methods that were not skipped."""

    @property
    def advice(self) -> str:
        """The recommendation in one or two sentences."""

    @property
    def n_splits(self) -> int:
        """Number of folds."""

    @property
    def n_repeats(self) -> int:
        """Number of repetitions of the cross-validation."""

    @property
    def seed(self) -> int:
        """Seed of the folds."""

    @property
    def baseline(self) -> str:
        """Name of the best method that does not learn."""

    @property
    def best(self) -> str:
        """Name of the distance with the lowest loss."""

    @property
    def recommended(self) -> str:
        """Key of the recommended method; empty if none is recommended."""

    @property
    def p_value(self) -> float:
        """Significance of the difference between `best` and `baseline`."""

    @property
    def error_by_k(self) -> Mapping[str, tuple[IntArray, FloatArray]]:
        """Numbers of neighbours and the error of each on test samples, by name of the method."""

    @property
    def notes(self) -> Sequence[str]:
        """Remarks on samples and columns that were left out or changed."""

    @property
    def scoring(self) -> ScoreLike:
        """Score that methods are judged by."""


class ColumnLike(Protocol):
    """How one column of a table was read."""

    @property
    def name(self) -> str:
        """Name of the column."""

    @property
    def kind(self) -> str:
        """How it was read: "number", "category", "date", "left out", ..."""

    @property
    def reason(self) -> str:
        """Why it was left out, or how its values were changed; may be empty."""


def result_of(comparison: ComparisonLike, name: str) -> ResultLike | None:
    """Return the result of a method that ran, by key or name, or None.

    Parameters
    ----------
    comparison : ComparisonLike
        The comparison.
    name : str
        Key or name of the method.

    Returns
    -------
    ResultLike or None
        The result.
    """
    return next((r for r in comparison.ran if name and name in (r.key, r.name)), None)


def shown_result(comparison: ComparisonLike) -> ResultLike | None:
    """Return the result of the recommended method, or of the best one if none is recommended."""
    found = result_of(comparison, comparison.recommended)
    return found or result_of(comparison, comparison.best)


def recommends_learned_metric(comparison: ComparisonLike) -> bool:
    """Return whether the recommended method is one that learns."""
    found = result_of(comparison, comparison.recommended)
    return found is not None and found.name != comparison.baseline

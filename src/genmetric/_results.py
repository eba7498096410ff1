"""Records of a cross-validated comparison, which figures, reports and comparisons share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genmetric._scoring import SCORINGS, Scoring
from genmetric._typing import FloatArray, IntArray


@dataclass(frozen=True)
class MethodResult:
    """Losses and times of one method, one entry per fold.

    Attributes
    ----------
    name : str
        Label, unique in a comparison: "Euclidean distance", "generative metric".
    errors : ndarray of shape (n_folds,)
        Loss on the test samples of each fold, lower is better: the error rate with
        ``scoring="error"``. Empty if the method was skipped.
    fit_seconds, predict_seconds : ndarray of shape (n_folds,)
        Time to fit, including the selection of parameters, and to predict the test samples.
    parameters : tuple of dict
        Parameters selected on the training samples of each fold, for example
        ``{"n_neighbors": 5}``.
    note : str
        Reason why the method was skipped, or a remark on its results.
    key : str
        Key in :data:`genmetric.comparison.METHODS`.
    confusion : ndarray of shape (n_classes, n_classes) or None
        Number of test samples by true class (rows) and predicted class (columns), summed over all
        folds and repeats. None if the method was skipped or there are more than 100 classes.
    distance : bool
        Whether the method is a distance; other methods are shown for reference only.
    predictions : (actual, predicted) or None
        Numeric targets: those of all samples, and what the folds of the first cross-validation
        predicted for them. None for classes or if the method was skipped.
    skipped_seconds : float
        Seconds spent on the method before it was skipped.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.comparison import MethodResult
    >>> one = np.ones(2)
    >>> round(MethodResult("generative metric", np.array([0.1, 0.2]), one, one).error, 3)
    0.15
    """

    name: str
    errors: FloatArray
    fit_seconds: FloatArray
    predict_seconds: FloatArray
    parameters: tuple[Mapping[str, Any], ...] = ()
    note: str = ""
    key: str = ""
    confusion: IntArray | None = None
    distance: bool = True
    predictions: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False)
    skipped_seconds: float = 0.0

    def __repr__(self) -> str:
        """Return key, score and number of folds."""
        name = self.key or self.name
        if self.skipped:
            return f"MethodResult({name!r}, skipped: {self.note})"
        folds = f"{len(self.errors)} folds"
        return f"MethodResult({name!r}, error={self.error:.4g}, {folds})"

    @property
    def skipped(self) -> bool:
        """Whether the method has no result; `note` is the reason."""
        return len(self.errors) == 0

    @property
    def error(self) -> float:
        """Mean loss over the folds; NaN if the method was skipped."""
        return float(np.mean(self.errors)) if len(self.errors) else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over the folds; NaN with fewer than two folds."""
        n = len(self.errors)
        return float(np.std(self.errors, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")

    @classmethod
    def left_out(
        cls, name: str, note: str, *, key: str = "", distance: bool = True
    ) -> MethodResult:
        """Create the result of a method that was skipped.

        Parameters
        ----------
        name : str
            Label of the method.
        note : str
            Reason why it was skipped.
        key : str, default=""
            Key of the method.
        distance : bool, default=True
            Whether the method is a distance.

        Returns
        -------
        MethodResult
            A result without folds.
        """
        none = np.empty(0)
        return cls(name, none, none, none, (), note, key, None, distance)


@dataclass(frozen=True)
class ComparisonResult:
    """Results of all methods on one table, and the recommendation.

    :class:`genmetric.comparison.Comparison` documents the attributes.
    """

    title: str
    n_samples: int
    n_features: int
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    class_counts: IntArray
    results: tuple[MethodResult, ...]
    advice: str = ""
    n_splits: int = 5
    n_repeats: int = 1
    seed: int = 0
    baseline: str = ""
    best: str = ""
    p_value: float = float("nan")
    error_by_k: Mapping[str, tuple[IntArray, FloatArray]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    scoring: Scoring = SCORINGS["error"]
    recommended: str = ""
    splitter: str = ""

    def __getitem__(self, name: str) -> MethodResult:
        """Return the result of a method by its key or its label."""
        for result in self.results:
            if name in (result.key, result.name):
                return result
        raise KeyError(name)

    @property
    def ran(self) -> tuple[MethodResult, ...]:
        """Results of the methods that were not skipped."""
        return tuple(result for result in self.results if not result.skipped)


def result_of(comparison: ComparisonResult, name: str) -> MethodResult | None:
    """Return the result of a method that ran, by key or name, or None."""
    return next((r for r in comparison.ran if name and name in (r.key, r.name)), None)


def shown_result(comparison: ComparisonResult) -> MethodResult | None:
    """Return the result of the recommended method, or of the best one if none is recommended."""
    found = result_of(comparison, comparison.recommended)
    return found or result_of(comparison, comparison.best)

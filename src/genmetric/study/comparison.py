"""What a cross-validated comparison of metrics found: plain figures, for tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genmetric._typing import FloatArray, IntArray


@dataclass(frozen=True)
class MethodResult:
    """Errors and times of one method, one entry a fold.

    Attributes
    ----------
    name : str
        As shown, and unique in a comparison: "Euclidean", "M^UNI".
    errors : ndarray of shape (n_folds,)
        Share of the test rows of each fold that were given the wrong class; empty where the method
        was skipped.
    fit_seconds, predict_seconds : ndarray of shape (n_folds,)
        Time of fitting, the choice of parameters included, and of predicting the test rows.
    parameters : tuple of dict
        What was chosen inside the training rows of each fold, such as ``{"n_neighbors": 5}``.
    note : str
        Why the method was skipped, or what to know about its figures.
    """

    name: str
    errors: FloatArray
    fit_seconds: FloatArray
    predict_seconds: FloatArray
    parameters: tuple[Mapping[str, Any], ...] = ()
    note: str = ""

    @property
    def skipped(self) -> bool:
        """Whether the method was not run; `note` says why."""
        return len(self.errors) == 0

    @property
    def error(self) -> float:
        """Mean error over the folds; NaN where skipped."""
        return float(np.mean(self.errors)) if len(self.errors) else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard deviation over the folds over the root of their number; NaN below two folds."""
        n = len(self.errors)
        return float(np.std(self.errors, ddof=1) / np.sqrt(n)) if n > 1 else float("nan")

    @classmethod
    def left_out(cls, name: str, note: str) -> MethodResult:
        """A method that was not run, and why."""
        none = np.empty(0)
        return cls(name, none, none, none, (), note)


@dataclass(frozen=True)
class Comparison:
    """A cross-validated comparison of metrics on one table.

    Attributes
    ----------
    title : str
        Name of the table.
    n_samples, n_features : int
        Rows and features compared on.
    feature_names : tuple of str
        In the order of the columns.
    class_names : tuple of str
        In sorted order of the labels.
    class_counts : ndarray of shape (n_classes,)
        Rows of each class.
    results : tuple of MethodResult
        In the order to show; all methods saw the same folds.
    advice : str
        What the figures say to do, in a sentence or two.
    n_splits, n_repeats : int
        Folds, and how often the rows were parted anew.
    seed : int
        Of the folds.
    baseline : str
        Name of the best method without learning, which `best` is measured against.
    best : str
        Name of the method of least error.
    p_value : float
        Of the error of `best` below that of `baseline`, by the corrected resampled t-test,
        adjusted for the number of methods; NaN where there is nothing to test.
    error_by_k : dict of str to (ks, errors)
        For methods that vote: numbers of neighbours and the leave-one-out error of each, mean over
        the training folds.
    notes : tuple of str
        What was left out or replaced before the comparison.
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

    def __getitem__(self, name: str) -> MethodResult:
        """The result of a method by its name."""
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(name)

    @property
    def ran(self) -> tuple[MethodResult, ...]:
        """The results of the methods that were not skipped."""
        return tuple(result for result in self.results if not result.skipped)

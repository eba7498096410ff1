"""Compare metrics on one dataset: the methods, the scores, the protocol and the result."""

from genmetric._results import MethodResult
from genmetric._scoring import SCORINGS, Scoring
from genmetric.comparison._advice import corrected_resampled_t
from genmetric.comparison._compare import ComparisonInterrupted, compare_metrics
from genmetric.comparison._method import (
    Budget,
    BudgetDecision,
    FittedMethod,
    Method,
    TrainingData,
)
from genmetric.comparison._methods import DEFAULT_METHODS, DEFAULT_REGRESSION_METHODS, METHODS
from genmetric.comparison._result import Comparison

__all__ = [
    "DEFAULT_METHODS",
    "DEFAULT_REGRESSION_METHODS",
    "METHODS",
    "SCORINGS",
    "Budget",
    "BudgetDecision",
    "Comparison",
    "ComparisonInterrupted",
    "FittedMethod",
    "Method",
    "MethodResult",
    "Scoring",
    "TrainingData",
    "compare_metrics",
    "corrected_resampled_t",
]

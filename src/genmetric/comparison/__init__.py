"""Compare metrics on one dataset: the methods, the scores, the protocol and the result.

Names are imported when they are first used: the help of a command lists methods and scores, and
must not import scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genmetric.comparison.advice import corrected_resampled_t as corrected_resampled_t
    from genmetric.comparison.compare import ComparisonInterrupted as ComparisonInterrupted
    from genmetric.comparison.compare import compare_metrics as compare_metrics
    from genmetric.comparison.methods import DEFAULT_METHODS as DEFAULT_METHODS
    from genmetric.comparison.methods import (
        DEFAULT_REGRESSION_METHODS as DEFAULT_REGRESSION_METHODS,
    )
    from genmetric.comparison.methods import METHODS as METHODS
    from genmetric.comparison.methods import Method as Method
    from genmetric.comparison.methods import find_methods as find_methods
    from genmetric.comparison.pipelines import fit_in_batches as fit_in_batches
    from genmetric.comparison.result import Comparison as Comparison
    from genmetric.comparison.result import MethodResult as MethodResult
    from genmetric.comparison.scoring import SCORINGS as SCORINGS
    from genmetric.comparison.scoring import Scoring as Scoring

#: Where each public name lives.
_HOMES = {
    "Comparison": "result",
    "ComparisonInterrupted": "compare",
    "DEFAULT_METHODS": "methods",
    "DEFAULT_REGRESSION_METHODS": "methods",
    "METHODS": "methods",
    "Method": "methods",
    "MethodResult": "result",
    "SCORINGS": "scoring",
    "Scoring": "scoring",
    "compare_metrics": "compare",
    "corrected_resampled_t": "advice",
    "find_methods": "methods",
    "fit_in_batches": "pipelines",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import a public name from its home when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'genmetric.comparison' has no attribute {name!r}")
    value = getattr(import_module(f"genmetric.comparison.{_HOMES[name]}"), name)
    globals()[name] = value
    return value

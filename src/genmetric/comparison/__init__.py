"""Compare metrics on one dataset: the methods, the scores, the protocol and the result.

What needs scikit-learn is imported when it is first used: the help of a command lists methods and
scores, and must be quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from genmetric.comparison.methods import METHODS, SCORINGS, Method, Scoring, find_methods

if TYPE_CHECKING:
    from genmetric.comparison.advice import corrected_resampled_t as corrected_resampled_t
    from genmetric.comparison.compare import ComparisonInterrupted as ComparisonInterrupted
    from genmetric.comparison.compare import compare_metrics as compare_metrics
    from genmetric.comparison.pipelines import fit_in_batches as fit_in_batches
    from genmetric.comparison.result import Comparison as Comparison
    from genmetric.comparison.result import MethodResult as MethodResult

__all__ = ["METHODS", "SCORINGS", "Comparison", "ComparisonInterrupted", "Method", "MethodResult"]
__all__ += ["Scoring", "compare_metrics", "corrected_resampled_t", "find_methods", "fit_in_batches"]


def __getattr__(name: str) -> Any:
    """Import a public name from its module when it is first used."""
    if name in __all__:
        for module in ("result", "advice", "pipelines", "compare"):
            found = vars(import_module(f"genmetric.comparison.{module}"))
            if name in found:
                globals()[name] = found[name]
                return found[name]
    raise AttributeError(f"module 'genmetric.comparison' has no attribute {name!r}")

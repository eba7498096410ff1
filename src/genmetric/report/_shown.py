"""The results that a report shows, as protocols.

The report lies below :mod:`genmetric.comparison`, which computes these results and calls the
report. Any object with these attributes can be shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from genmetric._typing import FloatArray, IntArray


class ShownMethod(Protocol):
    """Cross-validated errors and times of one method.

    Attributes
    ----------
    name : str
        Label of the method, unique in a comparison.
    errors, fit_seconds, predict_seconds : ndarray of shape (n_folds,)
        Error and times of each fold; empty if the method was skipped.
    parameters : sequence of mapping
        Parameters selected in each fold.
    note : str
        Reason why the method was skipped, or a remark on its results.
    """

    @property
    def name(self) -> str: ...
    @property
    def errors(self) -> FloatArray: ...
    @property
    def fit_seconds(self) -> FloatArray: ...
    @property
    def predict_seconds(self) -> FloatArray: ...
    @property
    def parameters(self) -> Sequence[Mapping[str, Any]]: ...
    @property
    def note(self) -> str: ...
    @property
    def skipped(self) -> bool: ...
    @property
    def error(self) -> float: ...
    @property
    def standard_error(self) -> float: ...


class ShownComparison(Protocol):
    """Results of all methods on one table.

    Attributes
    ----------
    title, advice : str
        Name of the table and the recommendation.
    n_samples, n_features, n_splits, n_repeats, seed : int
        Size of the table and the cross-validation protocol.
    feature_names, class_names, notes : sequence of str
        Names, and remarks on preprocessing.
    class_counts : ndarray of shape (n_classes,)
        Number of samples per class.
    results, ran : sequence of ShownMethod
        All methods, and those that were not skipped.
    baseline, best : str
        Names of the best method without learning and of the best method.
    p_value : float
        Significance of the difference between both.
    error_by_k : mapping of str to (ks, errors)
        Errors by number of neighbours.
    """

    @property
    def title(self) -> str: ...
    @property
    def n_samples(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def feature_names(self) -> Sequence[str]: ...
    @property
    def class_names(self) -> Sequence[str]: ...
    @property
    def class_counts(self) -> IntArray: ...
    @property
    def results(self) -> Sequence[ShownMethod]: ...
    @property
    def ran(self) -> Sequence[ShownMethod]: ...
    @property
    def advice(self) -> str: ...
    @property
    def n_splits(self) -> int: ...
    @property
    def n_repeats(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def baseline(self) -> str: ...
    @property
    def best(self) -> str: ...
    @property
    def p_value(self) -> float: ...
    @property
    def error_by_k(self) -> Mapping[str, tuple[IntArray, FloatArray]]: ...
    @property
    def notes(self) -> Sequence[str]: ...

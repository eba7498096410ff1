"""Transformers of single cells: numbers, booleans and categories, one output per column.

They take data frames whose cells may be text, as a file has them. Their parameters and fitted
attributes are numbers, texts and arrays of these, so that model files can hold them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._typing import AnyArray, FloatArray
from genmetric.tables._cells import (
    FALSE_WORDS,
    TRUE_WORDS,
    auto_min_count,
    cell_texts,
    column_array,
    count_texts,
    is_frame,
    plain_array,
)
from genmetric.tables._numbers import NumberFormat, parse_numbers


class CellTransformer(TransformerMixin, BaseEstimator):
    """Base class that checks columns, not their cells."""

    def _columns(self, X: Any, *, reset: bool) -> list[tuple[str, AnyArray]]:
        """Check the shape and the names of `X`, and return its columns."""
        if not is_frame(X) and getattr(X, "ndim", 2) != 2:
            raise ValueError(
                f"Expected a data frame or a 2D array, got an array with {X.ndim} dimension(s)."
            )
        validate_data(self, X, skip_check_array=True, reset=reset)
        if is_frame(X):
            return [(str(name), column_array(X, name)) for name in X.columns]
        X = np.asarray(X, dtype=None if hasattr(X, "dtype") else object)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(X.shape[1])])
        return [(str(name), plain_array(X[:, j])) for j, name in enumerate(names)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.no_validation = True
        return tags


def feature_names(transformer: Any, input_features: Any) -> list[str]:
    """Return the names of the input features of a fitted transformer."""
    if input_features is not None:
        return [str(name) for name in input_features]
    default = [f"x{j}" for j in range(transformer.n_features_in_)]
    return [str(name) for name in getattr(transformer, "feature_names_in_", default)]


#: Category of missing values, and of values that are rare or were not in the training data.
MISSING_CATEGORY = "missing"
OTHER_CATEGORY = "other"


class _CellParser(OneToOneFeatureMixin, CellTransformer):
    """Base class of transformers that read each column as numbers."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that the columns can be read.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (n_samples, n_features)
            Columns of numbers, of booleans or of texts that stand for them.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        self._parse(X, reset=True)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the numbers; those of true and false are 1 and 0.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (n_samples, n_features)
            Columns of numbers, of booleans or of texts that stand for them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            NaN where a value is missing.
        """
        check_is_fitted(self, "n_features_in_")
        return self._parse(X, reset=False)

    def _parse(self, X: Any, *, reset: bool) -> FloatArray:
        columns = self._columns(X, reset=reset)
        numbers = np.empty((len(X), len(columns)))
        for j, (name, array) in enumerate(columns):
            numbers[:, j] = self._parse_column(name, array)
        return numbers

    def _parse_column(self, name: str, array: AnyArray) -> AnyArray:
        """Return one column as numbers, NaN where missing."""
        raise NotImplementedError


class NumberParser(_CellParser):
    """Read columns of numbers, which may be written as text.

    Parameters
    ----------
    decimal : {".", ","}, default="."
        Separates the whole part from the fraction.
    thousands : {"", ",", ".", " ", "'"}, default=""
        Separates groups of three digits. If it is empty, the separator that is not the decimal one
        is accepted where this leaves no doubt: "1.234,5" with a decimal comma.
    percent : bool, default=False
        Whether the numbers carry a percent sign; 57% becomes 0.57.
    unit : str, default=""
        Unit that follows every number, such as "kg". Cells without it cannot be read.
    missing_words : sequence of str, default=None
        Texts that stand for a missing value, compared without regard to case. None uses the
        common ones, for example an empty cell, NA, ?, -, null and unknown.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.tables import NumberParser
    >>> cells = np.array([["988", "n/a"], ["2,848", "15"]], dtype=object)
    >>> NumberParser(thousands=",").fit_transform(cells)
    array([[ 988.,   nan],
           [2848.,   15.]])
    """

    def __init__(
        self,
        decimal: str = ".",
        thousands: str = "",
        percent: bool = False,
        unit: str = "",
        missing_words: Sequence[str] | None = None,
    ) -> None:
        self.decimal = decimal
        self.thousands = thousands
        self.percent = percent
        self.unit = unit
        self.missing_words = missing_words

    def _parse_column(self, name: str, array: AnyArray) -> AnyArray:
        if array.dtype.kind in "iufb":
            return array
        texts = cell_texts(array, self.missing_words)
        format_ = NumberFormat(self.decimal, self.thousands, self.percent, self.unit)
        numbers, bad = parse_numbers(texts, format_, new=True)
        if bad:
            raise ValueError(
                f"column {name!r}: {texts[bad[0]]!r} in row {bad[0]} is not a number; "
                f"{len(texts) - len(bad)} of {len(texts)} cells are numbers or missing. Correct the "
                "cell or replace it by a missing value."
            )
        return numbers


class BooleanParser(_CellParser):
    """Read columns of true and false (yes and no, on and off, 1 and 0) as 1 and 0.

    Parameters
    ----------
    missing_words : sequence of str, default=None
        Texts that stand for a missing value, compared without regard to case. None uses the
        common ones, for example an empty cell, NA, ?, -, null and unknown.

    Attributes
    ----------
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.tables import BooleanParser
    >>> BooleanParser().fit_transform(np.array([["yes"], ["No"], ["?"]], dtype=object))
    array([[ 1.],
           [ 0.],
           [nan]])
    """

    def __init__(self, missing_words: Sequence[str] | None = None) -> None:
        self.missing_words = missing_words

    def _parse_column(self, name: str, array: AnyArray) -> AnyArray:
        values = {**dict.fromkeys(TRUE_WORDS, 1.0), **dict.fromkeys(FALSE_WORDS, 0.0)}
        numbers = np.full(len(array), np.nan)
        for i, text in enumerate(cell_texts(array, self.missing_words)):
            if text is None:
                continue
            if text.lower() not in values:
                raise ValueError(
                    f"column {name!r}: {text!r} in row {i} is neither true nor false (yes or no, 1 "
                    "or 0). Correct the cell or replace it by a missing value."
                )
            numbers[i] = values[text.lower()]
        return numbers


class CategoryPooler(OneToOneFeatureMixin, CellTransformer):
    """Read columns of categories as text and pool the rare ones.

    The result is made for :class:`~sklearn.preprocessing.OneHotEncoder`: every cell is text,
    "missing" where there is no value and "other" for rare categories and for those that were not
    in the training data.

    Parameters
    ----------
    min_count : int or "auto", default="auto"
        Categories that occur less often are pooled. Larger values give fewer features. "auto" is
        one per cent of the samples and at least 2, so that a column gives at most 101 features.
    binary : bool, default=False
        Whether the columns have two such values, so that one feature tells them apart. A third
        value in new samples is then replaced by the more frequent of the two, and an unknown one
        never by "missing".
    missing_words : sequence of str, default=None
        Texts that stand for a missing value, compared without regard to case. None uses the
        common ones, for example an empty cell, NA, ?, -, null and unknown.

    Attributes
    ----------
    categories_ : list of ndarray of shape (n_categories,)
        Categories of each column that are not pooled, sorted.
    unknown_categories_, missing_categories_ : ndarray of shape (n_features_in_,)
        What a category that was not in the training data, and a missing value, are replaced by:
        "other" and "missing", or with `binary` the more frequent of two values.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.tables import CategoryPooler
    >>> cells = np.array([["red"], ["blue"], ["red"], ["mauve"], ["blue"], [None]], dtype=object)
    >>> CategoryPooler(min_count=2).fit_transform(cells).ravel().tolist()
    ['red', 'blue', 'red', 'other', 'blue', 'missing']
    """

    def __init__(
        self,
        min_count: int | str = "auto",
        binary: bool = False,
        missing_words: Sequence[str] | None = None,
    ) -> None:
        self.min_count = min_count
        self.binary = binary
        self.missing_words = missing_words

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the categories that are frequent enough.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (n_samples, n_features)
            Columns of categories.
        y : None
            Ignored.

        Returns
        -------
        self : CategoryPooler
            The fitted transformer.
        """
        least = auto_min_count(len(X)) if self.min_count == "auto" else self.min_count
        if not isinstance(least, int) or least < 1:
            raise ValueError(
                f"min_count must be 'auto' or an integer of at least 1; got {self.min_count!r}."
            )
        self.categories_ = []
        unknown: list[str] = []
        missing: list[str] = []
        for _, array in self._columns(X, reset=True):
            counts = count_texts(cell_texts(array, self.missing_words))
            kept = sorted(text for text, count in counts.items() if count >= least)
            self.categories_.append(np.array(kept, dtype=str))
            values = Counter({text: counts[text] for text in kept})
            values[MISSING_CATEGORY] += len(X) - counts.total()
            values[OTHER_CATEGORY] += counts.total() - sum(counts[text] for text in kept)
            values = +values
            usual = next((t for t, _ in values.most_common() if t != MISSING_CATEGORY), None)
            settled = self.binary and usual is not None and len(values) < 3
            for word, replaced in ((OTHER_CATEGORY, unknown), (MISSING_CATEGORY, missing)):
                replaced.append(str(usual) if settled and word not in values else word)
        self.unknown_categories_ = np.array(unknown, dtype=np.str_)
        self.missing_categories_ = np.array(missing, dtype=np.str_)
        return self

    def transform(self, X: Any) -> AnyArray:
        """Return the categories, the rare and unknown ones pooled.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (n_samples, n_features)
            Columns of categories.

        Returns
        -------
        ndarray of shape (n_samples, n_features), dtype object
            Texts.
        """
        check_is_fitted(self, "categories_")
        columns = self._columns(X, reset=False)
        pooled = np.empty((len(X), len(columns)), dtype=object)
        for j, ((_, array), kept) in enumerate(zip(columns, self.categories_, strict=True)):
            unknown = str(self.unknown_categories_[j])
            known: dict[str | None, str] = {text: text for text in kept.tolist()}
            known[None] = str(self.missing_categories_[j])
            texts = cell_texts(array, self.missing_words)
            pooled[:, j] = [known.get(text, unknown) for text in texts]
        return pooled

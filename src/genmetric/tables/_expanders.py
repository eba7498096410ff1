"""Transformers with several outputs per column: dates and vectors.

Like the encoders they store only numbers, texts and arrays of these, so that model files can
contain them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from genmetric._typing import AnyArray, FloatArray
from genmetric.tables._cells import cell_texts, count_texts, is_vector, vector_matrix
from genmetric.tables._dates import (
    DATE_FEATURES,
    TIME_FEATURES,
    choose_date_format,
    date_features,
    parse_moments,
)
from genmetric.tables._encoders import CellTransformer, feature_names


class DateEncoder(CellTransformer):
    """Describe dates by numbers: days since 1970, and positions in the year, week and day.

    A position is given by its sine and cosine, so that 31 December is near 1 January and Sunday
    near Monday.

    Parameters
    ----------
    format : str, default="auto"
        How dates are written as text: "iso" for ISO 8601, or a format of ``strptime``. "auto"
        chooses the one that reads every cell of a column. Columns of time stamps need no format.
    missing_words : sequence of str, default=None
        Texts that stand for a missing value, compared without regard to case. None uses the
        common ones, for example an empty cell, NA, ?, -, null and unknown.

    Attributes
    ----------
    formats_ : ndarray of shape (n_features_in_,)
        Format of each column; empty for columns of time stamps.
    has_time_ : ndarray of shape (n_features_in_,)
        Whether some moment of the column has a time of day other than midnight.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    Examples
    --------
    >>> import numpy as np
    >>> from genmetric.tables import DateEncoder
    >>> encoder = DateEncoder().fit(np.array([["1970-01-02"], ["1970-01-05"]], dtype=object))
    >>> encoder.transform(np.array([["1970-01-02"]], dtype=object))[0, :1]
    array([1.])
    >>> encoder.get_feature_names_out(["when"])[:2].tolist()
    ['when_days', 'when_year_sin']
    """

    def __init__(self, format: str = "auto", missing_words: Sequence[str] | None = None) -> None:
        self.format = format
        self.missing_words = missing_words

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the format of each column and whether it has times of day.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (n_samples, n_features)
            Columns of dates, as time stamps or as text.
        y : None
            Ignored.

        Returns
        -------
        self : DateEncoder
            The fitted transformer.
        """
        columns = self._columns(X, reset=True)
        formats, has_time = [], []
        for name, array in columns:
            format_ = "" if array.dtype.kind == "M" else self._format_of(name, array)
            moments = self._moments(name, array, format_)
            moments = moments[~np.isnat(moments)]
            formats.append(format_)
            has_time.append(bool((moments != moments.astype("datetime64[D]")).any()))
        self.formats_ = np.array(formats, dtype=str)
        self.has_time_ = np.array(has_time, dtype=bool)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the numbers that describe the dates.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (n_samples, n_features)
            Columns of dates, as time stamps or as text.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Five numbers per column, seven if it has times of day; NaN where missing.
        """
        check_is_fitted(self, "formats_")
        parts = [
            date_features(self._moments(name, array, str(format_)), time_of_day=bool(has_time))
            for (name, array), format_, has_time in zip(
                self._columns(X, reset=False), self.formats_, self.has_time_, strict=True
            )
        ]
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Return the names of the numbers.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; None takes those seen during fit.

        Returns
        -------
        ndarray of str
            Such as "when_days" and "when_year_sin".
        """
        check_is_fitted(self, "formats_")
        return np.array(
            [
                f"{name}_{part}"
                for name, has_time in zip(
                    feature_names(self, input_features), self.has_time_, strict=True
                )
                for part in DATE_FEATURES + (TIME_FEATURES if has_time else ())
            ],
            dtype=object,
        )

    def _format_of(self, name: str, array: AnyArray) -> str:
        if self.format != "auto":
            return self.format
        texts = count_texts(cell_texts(array, self.missing_words))
        found = choose_date_format(texts)
        if texts and found is None:
            raise ValueError(
                f"column {name!r}: no known date format fits all cells, such as "
                f"{next(iter(texts))[:40]!r}. Set format, for example format='%d %b %Y'."
            )
        return "iso" if found is None else found[0]

    def _moments(self, name: str, array: AnyArray, format_: str) -> AnyArray:
        if array.dtype.kind == "M":
            return array
        texts = cell_texts(array, self.missing_words)
        return parse_moments(texts, format_ or "iso", name)


class VectorExpander(CellTransformer):
    """Expand columns of vectors (lists or arrays of equal length) to one feature per entry.

    Attributes
    ----------
    lengths_ : ndarray of shape (n_features_in_,)
        Number of entries of the vectors of each column.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    Examples
    --------
    >>> import pandas as pd
    >>> from genmetric.tables import VectorExpander
    >>> frame = pd.DataFrame({"embedding": [[1.0, 2.0], [3.0, 4.0]]})
    >>> VectorExpander().fit_transform(frame)
    array([[1., 2.],
           [3., 4.]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the lengths of the vectors.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (n_samples, n_features)
            Columns of lists, tuples or arrays.
        y : None
            Ignored.

        Returns
        -------
        self : VectorExpander
            The fitted transformer.
        """
        columns = self._columns(X, reset=True)
        self.lengths_ = np.array(
            [next((len(v) for v in array if is_vector(v)), 0) for _, array in columns],
            dtype=np.int64,
        )
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the entries of the vectors.

        Parameters
        ----------
        X : DataFrame or ndarray of shape (n_samples, n_features)
            Columns of lists, tuples or arrays.

        Returns
        -------
        ndarray of shape (n_samples, sum of lengths)
            NaN where a vector is missing.
        """
        check_is_fitted(self, "lengths_")
        out = np.empty((len(X), int(self.lengths_.sum())))
        edges = np.concatenate([[0], np.cumsum(self.lengths_)]).tolist()
        for (name, array), (start, stop) in zip(
            self._columns(X, reset=False), pairwise(edges), strict=True
        ):
            out[:, start:stop] = vector_matrix(array, name, stop - start)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Return the names of the entries.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns; None takes those seen during fit.

        Returns
        -------
        ndarray of str
            Such as "embedding_0" and "embedding_1".
        """
        check_is_fitted(self, "lengths_")
        return np.array(
            [
                f"{name}_{i}"
                for name, length in zip(
                    feature_names(self, input_features), self.lengths_, strict=True
                )
                for i in range(length)
            ],
            dtype=object,
        )

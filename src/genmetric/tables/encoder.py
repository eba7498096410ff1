"""One scikit-learn transformer from a table with columns of any kind to numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._text import did_you_mean, import_optional
from genmetric._typing import AnyArray, FloatArray
from genmetric._validation import warn_user
from genmetric.tables import TableError
from genmetric.tables.columns import (
    Decider,
    Words,
    as_text,
    as_words,
    left_out,
    listed,
    rarest,
    read_cells,
    to_numbers,
)
from genmetric.tables.read import row_label, unique_names

pd = import_optional("pandas", "cli")

#: Kinds of columns in the order in which a summary lists them, and their plural.
KINDS = {
    "number": "numbers",
    "boolean": "booleans",
    "ordered": "ordered",
    "category": "categories",
    "date": "dates",
    "vector": "vectors",
    "left out": "left out",
}

#: Values of a category that stand for missing cells, and for rare ones.
MISSING, OTHER = "missing", "other"


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a table with columns of any kind into numbers.

    `fit` decides for each column whether it is a number, a boolean, a category, an ordered answer,
    a date, a vector, or left out (identifiers, row counters, free text, constants), and remembers
    why. Missing numbers are replaced by the mean, and a feature marks them if more than 5% are
    missing. Categories are one-hot encoded, with one feature for two values; rare values, below 1%
    of the rows or with a single row, share the value "other"; missing cells are a value of their
    own. Nothing is scaled.

    Parameters
    ----------
    columns : list of dict, default=None
        Decisions to take over, as `columns_` of a fitted encoder has them; only means and
        categories are then fitted. In a cross-validation decide on the whole table and pass the
        decisions: a row counter, for example, has gaps in the training part of a fold. None
        decides in `fit`.
    drop : sequence of str, default=()
        Columns to leave out.
    as_category, as_number : sequence of str, default=()
        Columns to read as categories or as numbers, whatever they look like.
    decimal, thousands : str, default=None
        Separators of numbers that are written as text. None decides by the cells.
    na_values : sequence of str, default=()
        Texts that stand for a missing value, in addition to the usual ones (an empty cell, NA, ?,
        -, null, unknown and others). "-999" also stands for the number -999.

    Attributes
    ----------
    columns_ : list of dict
        One decision per column of the table: `name`, `kind` ("number", "boolean", "category",
        "ordered", "date", "vector" or "left out"), `reason` in words, `n_missing`, `indicator`
        (whether a feature marks missing cells), `asked` (whether a parameter settled it),
        `features` (names of the output) and how cells are read.
    notes_ : list of str
        Sentences about cells that could not be read and decisions in doubt.
    used_columns_ : list of str
        Columns that `transform` needs.
    feature_columns_ : ndarray of shape (n_features_out,)
        The column of the table that each output feature comes from.
    one_hot_ : dict of str to OneHotEncoder
        Categories of each column of categories.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features seen during fit. Defined only when X has feature names that are all
        strings.

    Examples
    --------
    >>> import pandas as pd
    >>> from genmetric.tables import TableEncoder
    >>> frame = pd.DataFrame(
    ...     {"size": ["988", "2,848", "n/a"] * 9, "colour": ["red", "blue", "red"] * 9}
    ... )
    >>> encoder = TableEncoder(decimal=".").fit(frame)
    >>> print(encoder.summary())
    columns: 2 used
      numbers     size (2,848 is read as 2848)
      categories  colour (2 values)
      missing     size 9: imputed by the mean, with an indicator feature
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'size_missing', 'colour_red']
    """

    def __init__(
        self,
        *,
        columns: Sequence[dict[str, Any]] | None = None,
        drop: Sequence[str] = (),
        as_category: Sequence[str] = (),
        as_number: Sequence[str] = (),
        decimal: str | None = None,
        thousands: str | None = None,
        na_values: Sequence[str] = (),
    ) -> None:
        self.columns = columns
        self.drop = drop
        self.as_category = as_category
        self.as_number = as_number
        self.decimal = decimal
        self.thousands = thousands
        self.na_values = na_values

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide what the columns are, and learn means and categories.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            A pandas or polars frame.
        y : None
            Ignored.

        Returns
        -------
        self : TableEncoder
            The fitted encoder.
        """
        frame = self._frame(X, reset=True)
        self.notes_: list[str] = []
        if self.columns is None:
            self.columns_ = self._decide(frame)
        else:
            self.columns_ = [dict(column) for column in self.columns]
        self.used_columns_ = [c["name"] for c in self.columns_ if c["kind"] != "left out"]
        if not self.used_columns_:
            listed = "; ".join(f"{c['name']}: {c['reason']}" for c in self.columns_)
            raise TableError(f"no column is left as a feature ({listed}).")
        self.one_hot_: dict[str, OneHotEncoder] = {}
        for column in self.columns_:
            column["features"] = []
            if column["kind"] != "left out":
                cells = read_cells(frame[column["name"]], self.na_values)
                self._learn(column, cells)
        names, _ = unique_names([name for c in self.columns_ for name in c["features"]])
        for column in self.columns_:
            column["features"] = [names.pop(0) for _ in column["features"]]
        owners = [c["name"] for c in self.columns_ for _ in c["features"]]
        self.feature_columns_ = np.array(owners, dtype=object)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the features of rows.

        Columns are found by name, in any order. Cells that cannot be read are missing, and
        categories that `fit` did not see are "other" if there were rare ones, and otherwise zero
        in all features of the column, or the mean for a column of two values. One warning counts
        both.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            Rows with the columns of `used_columns_`; other columns are ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Finite numbers.
        """
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        blocks, messages = [], []
        for column in self.columns_:
            if column["kind"] == "left out":
                continue
            cells = read_cells(frame[column["name"]], self.na_values)
            if column["kind"] == "category":
                block, message = self._categories(column, cells)
                messages += message
            else:
                block, unreadable = to_numbers(cells, column)
                messages += _unreadable_message(frame, column, cells, unreadable)
                missing = np.isnan(block)
                block = np.where(missing, column["means"], block)
                if column["indicator"]:
                    block = np.column_stack([block, missing[:, 0]])
            blocks.append(block)
        if messages:
            warn_user(" ".join(messages))
        return np.hstack(blocks)

    def inverse_transform(self, X: Any) -> Any:
        """Return features in the values and units of the table.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)
            Features.

        Returns
        -------
        DataFrame
            The columns of `used_columns_`: numbers, the most likely word of a category, the
            nearest word of an ordered answer, true or false, and days as dates.
        """
        check_is_fitted(self)
        features = np.asarray(X, dtype=float)
        table = {}
        for column in self.columns_:
            if column["kind"] != "left out":
                block = features[:, self.feature_columns_ == column["name"]]
                table[column["name"]] = self._original(column, block)
        return pd.DataFrame(table)

    def summary(self) -> str:
        """Return what is done with the columns, one line per kind.

        Returns
        -------
        str
            Lines for people, without `notes_`.
        """
        check_is_fitted(self)
        n_used = len(self.used_columns_)
        n_other = len(self.columns_) - n_used
        lines = [f"columns: {n_used} used" + (f", {n_other} left out" if n_other else "")]
        kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
        gaps: dict[str, list[str]] = {}
        for column in self.columns_:
            name, reason = column["name"] or "(no name)", column["reason"]
            kinds[column["kind"]].append(f"{name} ({reason})" if reason else name)
            if column["n_missing"]:
                category = column["kind"] == "category"
                how = "a category of its own" if category else "imputed by the mean"
                how += ", with an indicator feature" if column["indicator"] else ""
                gaps.setdefault(how, []).append(f"{name} {column['n_missing']}")
        lines += [f"  {KINDS[kind]:<11} {_some(found)}" for kind, found in kinds.items() if found]
        lines += [f"  {'missing':<11} {_some(found)}: {how}" for how, found in gaps.items()]
        return "\n".join(lines)

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None
            Ignored; the names are those of `columns_`.

        Returns
        -------
        ndarray of str
            Such as "size", "size_missing", "colour_red", "city_other" and "when_days".
        """
        check_is_fitted(self)
        return np.array([name for c in self.columns_ for name in c["features"]], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _frame(self, X: Any, *, reset: bool) -> Any:
        """Return a table as a pandas frame, and check its names."""
        if hasattr(X, "to_pandas"):  # polars
            X = X.to_pandas()
        if not hasattr(X, "iloc"):
            X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
            return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        if not reset:
            absent = [name for name in self.used_columns_ if name not in X.columns]
            if absent:
                near = did_you_mean(absent[0], X.columns)
                raise TableError(f"no column {absent[0]!r}, which the model was fitted on. {near}")
            return X
        names = Counter(X.columns)
        strange = [name for name in names if not isinstance(name, str) or names[name] > 1]
        if strange:
            raise TableError(f"names of columns must be different texts; got {strange[0]!r}.")
        validate_data(self, X, skip_check_array=True)
        if len(X) == 0:
            raise TableError("the table has no rows.")
        wanted = (*self.drop, *self.as_category, *self.as_number)
        for name in wanted if self.columns is None else ():
            if name not in names:
                raise TableError(f"there is no column {name!r}. {did_you_mean(name, names)}")
        return X

    def _decide(self, frame: Any) -> list[dict[str, Any]]:
        """Decide what each column is."""
        decider = Decider(
            self.decimal, self.thousands, lambda row: row_label(frame, row), self.notes_
        )
        asked = dict.fromkeys(self.as_category, "category")
        asked |= dict.fromkeys(self.as_number, "number")
        dropped = set(self.drop)
        cells = {n: read_cells(frame[n], self.na_values) for n in frame if n not in dropped}
        if self.decimal is None and self.thousands is None:
            decider.learn_decimal(cells.values())
        columns = []
        for name in frame:
            if name in dropped:
                column = left_out(name, "on request", asked=True)
            else:
                column = decider.decide(name, cells[name], asked.get(name, ""))
            columns.append({"asked": False, "indicator": False, **column})
        return columns

    def _learn(self, column: dict[str, Any], cells: Any) -> None:
        """Learn the means or the categories of a column, and name its features."""
        name = column["name"]
        if column["kind"] == "category":
            texts = _category_texts(column, cells)
            one_hot = OneHotEncoder(
                min_frequency=rarest(len(texts)),
                handle_unknown="infrequent_if_exist",
                # Two features for two values would be each other's negatives and count twice.
                drop="if_binary",
                sparse_output=False,
            )
            column["means"] = one_hot.fit_transform(texts).mean(axis=0).tolist()
            self.one_hot_[name] = one_hot
            column["features"] = [
                f"{name}_{OTHER}" if found == f"{name}_infrequent_sklearn" else found
                for found in one_hot.get_feature_names_out([name])
            ]
            return
        numbers, bad = to_numbers(cells, column)
        if "ignored" not in column:
            texts = dict.fromkeys(_cell(cells, row) for row in np.flatnonzero(bad).tolist())
            column["ignored"] = list(texts)[:1000]
        known = np.isfinite(numbers)
        # A column that is empty in one fold of a cross-validation must stay a column.
        totals = np.where(known, numbers, 0.0).sum(axis=0)
        column["means"] = (totals / np.maximum(1, known.sum(axis=0))).tolist()
        first = int(column["kind"] == "number")
        parts = column.get("parts") or range(first, column.get("length", 0) + first)
        column["features"] = [f"{name}_{part}" for part in parts] or [name]
        if column["indicator"]:
            column["features"].append(f"{name}_{MISSING}")

    def _categories(self, column: dict[str, Any], cells: Any) -> tuple[FloatArray, list[str]]:
        """Return the features of a column of categories, and a message on unknown ones."""
        one_hot, texts = self.one_hot_[column["name"]], _category_texts(column, cells)
        known = one_hot.categories_[0]
        strange = ~np.isin(texts[:, 0], known)
        if one_hot.infrequent_categories_[0] is not None or not strange.any():
            return one_hot.transform(texts), []
        words = [text for text in dict.fromkeys(texts[strange, 0].tolist()) if text != MISSING]
        block: FloatArray = one_hot.transform(np.where(strange[:, np.newaxis], known[0], texts))
        two_values = len(known) == 2
        block[strange] = column["means"] if two_values else 0.0
        shown = ", ".join(repr(word[:20]) for word in words[:3]) + (", ..." if words[3:] else "")
        message = (
            f"column {column['name']!r}: {int(strange.sum())} cells have categories that the training "
            f"data does not have ({shown}); {'the mean' if two_values else '0'} is used for them."
        )
        return block, [message] if words else []

    def _original(self, column: dict[str, Any], block: FloatArray) -> AnyArray:
        """Return the features of one column as the table has them."""
        if column["kind"] == "category":
            words = self.one_hot_[column["name"]].inverse_transform(block.round())[:, 0]
            words[words == "infrequent_sklearn"] = OTHER
            return np.asarray(words)
        if column["kind"] == "boolean":
            return block[:, 0] > 0.5
        if column["kind"] == "date":
            days = column["parts"][0] == "days"
            return (block[:, 0] * 86400e6).astype("datetime64[us]") if days else block[:, 0]
        if "scale" in column:
            values = np.array(list(column["scale"].values()))
            nearest = np.abs(block[:, :1] - values).argmin(axis=1)
            return np.array(list(column["scale"]), dtype=object)[nearest]
        length = column.get("length", 1)
        numbers = block[:, :length]
        return numbers[:, 0] if length == 1 else np.array([*numbers.tolist(), None], object)[:-1]


def _category_texts(column: dict[str, Any], cells: Any) -> AnyArray:
    """Return a column of categories as texts, in one column of a matrix."""
    words = as_words(cells)
    texts = words.texts
    if column["numeric"]:  # 1.50 in a file is 1.5 in a column of numbers
        numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
        texts = [t if np.isnan(x) else as_text(x) for t, x in zip(texts, numbers, strict=True)]
    return np.array([*texts, MISSING], dtype=object)[words.codes][:, np.newaxis]


def _cell(cells: Any, row: int) -> str:
    """Return one cell as text."""
    return cells.texts[cells.codes[row]] if isinstance(cells, Words) else str(cells[row])


def _expected(column: dict[str, Any]) -> str:
    """Return what the cells of a column must be."""
    words = {"date": "a date", "boolean": "true or false", "vector": "a list of numbers"}
    return words.get(column["kind"], "one of its answers" if "scale" in column else "a number")


def _unreadable_message(frame: Any, column: dict[str, Any], cells: Any, bad: AnyArray) -> list[str]:
    """Return a sentence on the cells of a column that cannot be read and were not in `fit`."""
    found = {row: _cell(cells, row) for row in np.flatnonzero(bad).tolist()}
    found = {row: text for row, text in found.items() if text not in column["ignored"]}
    if not found:
        return []
    problem = listed(found.values(), len(found), _expected(column))
    place = f"{row_label(frame, next(iter(found)))}, column {column['name']!r}"
    return [f"{place}: {problem}; treated as missing."]


def _some(listed: Sequence[str]) -> str:
    """Join texts; beyond twelve the first ten and the number of the others."""
    shown = listed if len(listed) <= 12 else [*listed[:10], f"{len(listed) - 10} more"]
    return ", ".join(shown)

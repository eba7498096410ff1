"""One scikit-learn transformer from a table with columns of any kind to numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from genmetric._text import did_you_mean, import_optional
from genmetric._typing import AnyArray, FloatArray
from genmetric._validation import warn_user
from genmetric.tables import TableError, columns, numbers, read
from genmetric.tables.text import unique_names

pd = import_optional("pandas", "cli")

#: Kinds of columns in the order in which a summary lists them, and plurals.
KINDS = ("number", "boolean", "ordered", "category", "date", "vector", "left out")
PLURALS = {"ordered": "ordered", "category": "categories", "left out": "left out"}

#: The format of numbers that Python reads.
PLAIN = asdict(numbers.PLAIN)

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
        Separators of numbers that are written as text, for columns where the cells leave a doubt:
        "2,848" is 2848 or 2.848. None decides by the cells.
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
            rows = "1 sample" if len(frame) == 1 else f"{len(frame)} samples"
            raise TableError(f"no column of {rows} is left as a feature ({listed}).")
        for column in self.columns_:
            column["features"] = []
            if column["kind"] != "left out":
                _learn(column, self._cells(frame, column))
        rest = iter(unique_names([name for c in self.columns_ for name in c["features"]]))
        for column in self.columns_:
            column["features"] = [next(rest) for _ in column["features"]]
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
            if column["kind"] != "left out":
                block, bad, cells = _encode(column, self._cells(frame, column))
                blocks.append(block)
                messages += _message(frame, column, cells, bad)
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
                table[column["name"]] = _original(column, block)
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
        for kind, found in kinds.items():
            if found:
                lines.append(f"  {PLURALS.get(kind, f'{kind}s'):<11} {_some(found)}")
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

    def _cells(self, frame: Any, column: dict[str, Any]) -> Any:
        """Return the cells of a column; plain numbers in text at once, which is much faster."""
        series = frame[column["name"]]
        is_plain = column["kind"] == "number" and column.get("format", PLAIN) == PLAIN
        if is_plain and "parser" not in column and pd.api.types.is_string_dtype(series):
            with suppress(ValueError, TypeError):
                texts = read.pa.array(series, read.pa.string(), from_pandas=True)
                series = pd.Series(texts.cast("float64").to_numpy(zero_copy_only=False))
        return columns.read_cells(series, self.na_values)

    def _decide(self, frame: Any) -> list[dict[str, Any]]:
        """Decide what each column is."""
        asked = dict.fromkeys(self.as_category, "category")
        asked |= dict.fromkeys(self.as_number, "number") | dict.fromkeys(self.drop, "drop")
        decider = columns.Decider(
            self.decimal, self.thousands, lambda row: read.row_label(frame, row), self.notes_
        )
        cells = {name: columns.read_cells(frame[name], self.na_values) for name in frame}
        if self.decimal is None and self.thousands is None:
            decider.learn_decimal(c for name, c in cells.items() if name not in asked)
        return [decider.decide(name, cells[name], asked.get(name, "")) for name in frame]


def _learn(column: dict[str, Any], cells: Any) -> None:
    """Learn the means or the values of a column, and name its features."""
    name = column["name"]
    if column["kind"] == "category":
        words = _category_words(column, cells)
        counts, n_rows = words.counts, len(words.codes)
        values = sorted(t for t, n in counts.items() if n >= columns.rarest(n_rows))
        values += [OTHER] * (len(values) < len(counts)) + [MISSING] * (counts.total() < n_rows)
        # Two features for two values would be each other's negatives and count twice.
        column["values"], column["first"] = values, int(len(values) == 2)
        column["features"] = [f"{name}_{value}" for value in values[column["first"] :]]
        column["means"] = [0.0] * len(column["features"])
        if column["first"]:
            column["means"] = _encode(column, cells)[0].mean(axis=0).tolist()
        return
    block, bad = columns.to_numbers(cells, column)
    texts = dict.fromkeys(columns.cell_text(cells, row) for row in np.flatnonzero(bad).tolist())
    column.setdefault("ignored", list(texts)[:1000])
    known = np.isfinite(block)
    # A column that is empty in one fold of a cross-validation must stay a column.
    totals = np.where(known, block, 0.0).sum(axis=0)
    column["means"] = (totals / np.maximum(1, known.sum(axis=0))).tolist()
    column["features"] = [f"{name}_{part}" for part in column.get("parts", [])] or [name]
    column["features"] += [f"{name}_{MISSING}"] * column["indicator"]


def _encode(column: dict[str, Any], cells: Any) -> tuple[FloatArray, AnyArray, Any]:
    """Return the features of a column, which cells are not known, and the cells."""
    if column["kind"] != "category":
        block, bad = columns.to_numbers(cells, column)
        missing = np.isnan(block)
        marks = missing[:, :1][:, : column["indicator"]]
        return np.hstack([np.where(missing, column["means"], block), marks]), bad, cells
    words = _category_words(column, cells)
    place = {value: i for i, value in enumerate(column["values"])}
    other = place.get(OTHER, -1)
    places = [place.get(text, other) for text in words.texts] + [place.get(MISSING, -1)]
    codes = np.array(places)[words.codes]
    block = np.eye(len(place) + 1)[codes, column["first"] : -1]
    block[codes < 0] = column["means"]
    return block, (codes < 0) & (words.codes >= 0), words


def _category_words(column: dict[str, Any], cells: Any) -> columns.Words:
    """Return a column of categories as text; 1.50 in a file is 1.5 in a column of numbers."""
    if column["numeric"] and isinstance(cells, columns.Words):
        cells = columns.to_numbers(cells, {"kind": "number"})[0][:, 0]
    return columns.as_words(cells)


def _message(frame: Any, column: dict[str, Any], cells: Any, bad: AnyArray) -> list[str]:
    """Return a sentence on cells that are not known; those of `fit` are not named again."""
    known = set(column.get("ignored", ()))
    rows = np.flatnonzero(bad)
    bad[rows] = [columns.cell_text(cells, row) not in known for row in rows.tolist()]
    if not bad.any():
        return []
    effect = "treated as missing"
    if column["kind"] == "category":
        effect = "read as the mean" if column["first"] else "all features of the column are 0"
    place = f"{read.row_label(frame, int(bad.argmax()))}, column {column['name']!r}"
    return [f"{place}: {columns.say_unreadable(cells, bad, column)}; {effect}."]


def _original(column: dict[str, Any], block: FloatArray) -> Any:
    """Return the features of one column as the table has them."""
    first, length = np.asarray(block[:, 0]), column.get("length", 1)
    if column["kind"] == "category":
        rest = 1 - block.sum(axis=1, keepdims=True)
        scores = np.hstack([rest, block]) if column["first"] else block
        words = np.array(column["values"], dtype=object)
        return words[scores.argmax(axis=1)]
    if column["kind"] == "boolean":
        return np.asarray(first > 0.5)
    if column.get("parts", [""])[0] == "days":
        return (first * 86400e6).astype("datetime64[us]")
    if "words" in column:
        values = np.array(list(column["words"].values()))
        nearest = np.abs(block[:, :1] - values).argmin(axis=1)
        answers = np.array(list(column["words"]), dtype=object)
        return answers[nearest]
    return first if length == 1 else np.array([*block[:, :length].tolist(), None], object)[:-1]


def _some(listed: Sequence[str]) -> str:
    """Join texts; beyond twelve the first ten and the number of the others."""
    shown = listed if len(listed) <= 12 else [*listed[:10], f"{len(listed) - 10} more"]
    return ", ".join(shown)

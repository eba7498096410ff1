"""What each column of a table is, and the numbers that it becomes."""

import datetime as dt
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

from genmetric.tables import TableEncoder, TableError, read_table  # noqa: E402

N = 60


def fit(cells, **options):
    """Fit an encoder on one column, repeated to enough rows, next to a column of numbers."""
    cells = list(cells) * (-(-30 // len(cells)))
    frame = pd.DataFrame({"c": pd.Series(cells), "n": np.arange(len(cells)) ** 2 / 7})
    return TableEncoder(**options).fit(frame), frame


def column_of(cells, **options):
    """Return the decision on a column."""
    return fit(cells, **options)[0].columns_[0]


def numbers_of(cells, **options):
    """Return the numbers of a column that is one feature."""
    encoder, frame = fit(cells, **options)
    assert encoder.columns_[0]["kind"] in ("number", "ordered", "boolean"), encoder.columns_[0]
    return encoder.transform(frame)[: len(cells), 0].tolist()


@pytest.fixture
def mixed(rng):
    """A frame with columns of every kind."""
    y = rng.integers(0, 2, N)
    return pd.DataFrame(
        {
            "PassengerId": np.arange(1, N + 1),
            "name": [f"Somebody with the number {i}, a person" for i in range(N)],
            "ticket": [f"T{i * 7919 % 1000}" for i in range(N)],
            "size": rng.normal(size=N) + y,
            "age": [None if i % 5 == 0 else float(i % 37) for i in range(N)],
            "price": ["988" if i % 2 else "2,848" for i in range(N)],
            "share": [f"{i % 90}%" for i in range(N)],
            "colour": [["red", "blue", "green"][i % 3] for i in range(N)],
            "alive": ["yes" if i % 3 else "no" for i in range(N)],
            "when": [f"2020-0{1 + i % 9}-1{i % 9}" for i in range(N)],
            "answer": [["agree", "neutral", "disagree"][i % 3] for i in range(N)],
            "empty": [None] * N,
            "constant": ["same"] * N,
            "vector": [[float(i), float(-i), 1.5] for i in range(N)],
        }
    )


KINDS = (
    *["left out", "left out", "left out", "number", "number", "number", "number"],
    *["category", "boolean", "date", "ordered", "left out", "left out", "vector"],
)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_every_kind_of_column(mixed, library):
    table = mixed if library == "pandas" else pl.DataFrame(mixed.to_dict("list"))
    encoder = TableEncoder().fit(table)
    assert tuple(c["kind"] for c in encoder.columns_) == KINDS
    for words in (
        "9 used, 5 left out",
        "PassengerId (a row counter)",
        "name (free text)",
        "ticket (an identifier",
        "age 12: imputed by the mean, with an indicator feature",
        "price (2,848 is read as 2848)",
        "colour (3 values)",
        "answer (disagree < neutral < agree)",
        "empty (is empty)",
        "constant (is constant, 'same')",
        "vector (3 entries)",
    ):
        assert words in encoder.summary()
    names = encoder.get_feature_names_out()
    Z = encoder.transform(table)
    assert Z.shape == (N, len(names)) == (N, len(encoder.feature_columns_))
    assert np.isfinite(Z).all()
    # Each feature knows its column, and each column its features.
    assert encoder.used_columns_ == list(dict.fromkeys(encoder.feature_columns_))
    for column in encoder.columns_:
        owned = names[encoder.feature_columns_ == column["name"]]
        assert owned.tolist() == column["features"]
    assert (Z[:, names == "age_missing"].ravel() == mixed["age"].isna()).all()
    assert {"when_days", "when_year_sin", "colour_red", "vector_2", "size"} <= set(names)


def test_features_in_the_values_of_the_table(mixed):
    encoder = TableEncoder().fit(mixed)
    table = encoder.inverse_transform(encoder.transform(mixed))
    assert table.columns.tolist() == encoder.used_columns_
    for name in ("colour", "answer"):
        assert table[name].tolist() == mixed[name].tolist()
    assert table["alive"].tolist() == [word == "yes" for word in mixed["alive"]]
    assert table["size"].tolist() == mixed["size"].tolist()
    assert table["share"].tolist() == [i % 90 / 100 for i in range(N)]
    assert table["when"].dt.strftime("%Y-%m-%d").tolist() == mixed["when"].tolist()
    assert table["vector"].tolist() == mixed["vector"].tolist()
    two = pd.DataFrame({"c": ["p", "q", "q", None, None] * 6, "d": ["u", "v", "v"] * 10})
    encoder = TableEncoder().fit(two)
    table = encoder.inverse_transform(encoder.transform(two))
    assert table["c"].tolist() == two["c"].fillna("missing").tolist()
    assert table["d"].tolist() == two["d"].tolist()


def test_pipelines_clones_and_files(mixed):
    y = np.arange(N) % 2
    plan = TableEncoder().fit(mixed)
    model = Pipeline(
        [
            ("columns", TableEncoder(columns=plan.columns_)),
            ("scale", StandardScaler()),
            ("neighbors", KNeighborsClassifier()),
        ]
    )
    expected = clone(model).fit(mixed, y).predict(mixed)
    model.fit(mixed, y)
    # Columns in another order, polars, a pickle and text frames: the same predictions.
    assert (model.predict(mixed[mixed.columns[::-1]]) == expected).all()
    assert (model.predict(pl.DataFrame(mixed.to_dict("list"))) == expected).all()
    assert (pickle.loads(pickle.dumps(model)).predict(mixed) == expected).all()
    assert model[0].get_params()["columns"] == plan.columns_
    out = TableEncoder().set_output(transform="pandas").fit_transform(mixed)
    assert out.columns.tolist() == plan.get_feature_names_out().tolist()
    assert (out.index == mixed.index).all()
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(plan)
    trusted = ["genmetric.tables.encoder.TableEncoder"]
    assert set(skops.get_untrusted_types(data=data)) <= set(trusted)
    loaded = skops.loads(data, trusted=trusted)
    assert (loaded.transform(mixed) == plan.transform(mixed)).all()


def test_folds_take_over_the_decisions(mixed):
    """In a part of the rows the counter has gaps, and a column is empty or constant."""
    plan = TableEncoder().fit(mixed)
    part = mixed[mixed["age"].isna()].iloc[:6]
    encoder = TableEncoder(columns=plan.columns_).fit(part)
    assert tuple(c["kind"] for c in encoder.columns_) == KINDS
    assert np.isfinite(encoder.transform(mixed)).all()


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["988", "2,848", "1,234,567"], [988, 2848, 1234567]),
        (["2,5", "3", "0,123"], [2.5, 3, 0.123]),
        (["1.234,5", "7"], [1234.5, 7]),
        (["1 234,5", "1\u202f000"], [1234.5, 1000]),
        (["1'234.5", "12"], [1234.5, 12]),
        (["$1,200", "€ 3", "-$4.5", "5 €"], [1200, 3, -4.5, 5]),
        (["€ -3.832,68", "€-5", "€+1,5", "-7"], [-3832.68, -5, 1.5, -7]),
        (["EUR 12.50", "7 USD", "CHF 1'200", "3 kr"], [12.5, 7, 1200, 3]),
        (["(1,234)", "5", "(2)", "7-"], [-1234, 5, -2, -7]),
        (["1e3", "-.5", "+2.", "\u22121"], [1000, -0.5, 2, -1]),
        (["57%", "3.5 %", "-100%"], [0.57, 0.035, -1.0]),
        (["1,525 kg", "994 kg"], [1525, 994]),
        (["1.200,5 m²", "7 m²"], [1200.5, 7]),
        (["-5 °C", "3.1°C"], [-5, 3.1]),
        (["1 year", "2 Years", "3 years"], [1, 2, 3]),
        (["90 mg/dL", "88.5 mg/dL"], [90, 88.5]),
        (["88.0 °C", "90 °C", "91 °C", "92.5 °C", "70"], [88, 90, 91, 92.5, 70]),
        (["1,384 kg", "998 kg", "1,040 kg", "877 kg", "1,500"], [1384, 998, 1040, 877, 1500]),
        (["€ 960", "€ 1.651", "€ 12.100"], [960, 1651, 12100]),
        (["<0.5", "3", "4", "5.5", ">90"], [0.5, 3, 4, 5.5, 90]),
        (["1h 30min", "45min", "2 h"], [5400, 2700, 7200]),
        (["26:05:00", "00:30:10"], [93900, 1810]),
        (["18-25", "26-35", "36-45", "65+"], [21.5, 30.5, 40.5, 65]),
        (["under 18", "18 to 25", "26 to 35"], [18, 21.5, 30.5]),
        (["S", "XL", "M", "L"], [0, 3, 1, 2]),
        (["Never", "sometimes", "often", "Always"], [0, 1, 2, 3]),
        (["Yes", "no"], [1, 0]),
    ],
)
def test_numbers_written_as_text(cells, values):
    assert numbers_of(cells) == pytest.approx(values, rel=1e-15)


@pytest.mark.parametrize(
    "cells",
    [
        ["900 g", "1.2 kg"],
        ["5 mW", "3 MW"],
        ["1.5M", "900K"],
        ["3rd", "2nd", "1st"],
        ["12 Main Street", "14 Main Street"],
        ["S001", "S002"],
        ["01067", "10115"],
        [">50K", "<=50K"],
        ["(12", "7)"],
        ["555-1234", "555-9876"],
    ],
)
def test_texts_that_are_not_numbers(cells):
    assert column_of(cells)["kind"] == "category"


@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=2, max_size=20, unique=True),
    st.sampled_from([",", ".", " ", "'"]),
)
def test_written_integers_are_read_back(integers, separator):
    """No choice of a format may change an integer that is written with its separators."""
    texts = [f"{n:,}".replace(",", separator) for n in integers]
    encoder, frame = fit(texts, thousands=separator)
    if encoder.columns_[0]["kind"] == "number":
        assert encoder.transform(frame)[: len(texts), 0].tolist() == integers
    encoder, frame = fit(texts, as_number=["c"])
    read = encoder.transform(frame)[: len(texts), 0].tolist()
    assert read == integers or any("with the decimal separator" in n for n in encoder.notes_)


def test_two_numbers_in_one_cell():
    encoder, frame = fit(["120/80", "135/85", "110/70"])
    assert encoder.get_feature_names_out().tolist() == ["c_1", "c_2", "n"]
    assert encoder.transform(frame)[:2, :2].tolist() == [[120, 80], [135, 85]]
    assert encoder.columns_[0]["reason"].endswith("120/80 is read as 120 and 80")


def test_separators_are_decided_by_the_whole_table():
    table = pd.DataFrame({"a": ["9", "2,848"] * 6, "b": [f"{i},5" for i in range(12)]})
    encoder = TableEncoder().fit(table)
    assert encoder.transform(table)[:2].tolist() == [[9, 0.5], [2.848, 1.5]]
    assert encoder.notes_ == [
        (
            "column 'a': '2,848' is read as 2.848; with the decimal separator '.' it is 2848 "
            "(--thousands , or --decimal , decides)."
        )
    ]
    points = table.assign(a=["988", "2.848"] * 6)
    assert TableEncoder().fit_transform(points)[1].tolist() == [2848, 1.5]
    encoder, _ = fit(["988", "2,848"])
    assert encoder.notes_ == [
        (
            "column 'c': '2,848' is read as 2848; with the decimal separator ',' it is 2.848 "
            "(--thousands , or --decimal , decides)."
        )
    ]
    assert numbers_of(["988", "2,848"], decimal=",") == [988, 2.848]


def test_thousands_next_to_decimal_commas():
    """The magnitude decides: no column has both 960 and 1.651. Options decide doubts alone."""
    prices = ["€ 960", "€ 1,651", "€ 450", "€ 12,100"]
    table = pd.DataFrame({"price": prices * 3, "size": ["3,5", "12,25", "1,125", "7"] * 3})
    encoder = TableEncoder().fit(table)
    Z = encoder.transform(table)
    assert Z[:4].tolist() == [[960, 3.5], [1651, 12.25], [450, 1.125], [12100, 7]]
    assert len(encoder.notes_) == 1
    assert "'€ 1,651' is read as 1651; with the decimal separator ','" in encoder.notes_[0]
    encoder = TableEncoder(thousands=",").fit(table)
    assert (encoder.transform(table) == Z).all()
    assert encoder.notes_ == []
    decimals = TableEncoder(decimal=",").fit_transform(table)
    assert decimals[:4].tolist() == [[960, 3.5], [1.651, 12.25], [450, 1.125], [12.1, 7]]
    # One cell that an option cannot read does not overrule it.
    encoder, _ = fit(["1,651", "960", "2,300", "3,5", "4,100", "5,200", "6,300"], thousands=",")
    assert "'3,5' is not a number" in encoder.notes_[0]


def test_new_cells_without_the_unit():
    frame = pd.DataFrame({"t": ["88.0 °C", "90 °C"] * 9, "w": ["1,384 kg", "998 kg"] * 9})
    new = pd.DataFrame({"t": ["70", "71.5 °C"], "w": ["1500", "1,500"]})
    for options in ({}, {"as_number": ["t", "w"]}):
        encoder = TableEncoder(**options).fit(frame)
        assert encoder.transform(new).tolist() == [[70, 1500], [71.5, 1500]]
    encoder, _ = fit(["57%", "3%", "4%"])
    with pytest.warns(UserWarning, match="'0.5' is not a number"):
        encoder.transform(pd.DataFrame({"c": ["0.5", "3%"], "n": 0.0}))


def test_new_dates_and_answers():
    frame = pd.DataFrame(
        {"d": ["03.02.2025", "04.02.2025"] * 9, "s": ["low", "medium", "high"] * 6}
    )
    encoder = TableEncoder().fit(frame)
    new = pd.DataFrame({"d": ["2025-02-03", "03/02/2025"], "s": ["low", "extreme"]})
    with pytest.warns(UserWarning, match="'extreme' is not one of low, medium, high") as caught:
        Z = encoder.transform(new)
    assert (Z[0] == encoder.transform(frame)[0]).all()
    assert "'03/02/2025' is not a date in a format of the column;" in str(caught[0].message)


def test_separators_that_are_given_are_kept():
    assert numbers_of(["1.234", "5.678"], thousands=".") == [1234, 5678]
    frame = read_table(b"a,b\n" + b"1.234,1\n5.678,2\n988,4\n" * 5, thousands=".")
    Z = TableEncoder(thousands=".").fit_transform(frame)
    assert Z[:3].tolist() == [[1234, 1], [5678, 2], [988, 4]]


def test_limits_infinities_and_bad_cells_are_counted():
    encoder, _ = fit(["<0.5", "3", "4", "5.5", "7"] * 6)
    assert encoder.notes_ == ["column 'c': '<0.5' is read as 0.5, like all limits (cells: 6)."]
    encoder, frame = fit([1.5, np.inf, 3.0, 1e200, 2.5])
    assert encoder.notes_ == [
        (
            "row 1, column 'c': 'inf' is not a number below 1e+100 (12 cells, also '1e+200'); "
            "18 of 30 cells are. They are treated as missing."
        )
    ]
    assert np.isfinite(encoder.transform(frame)).all()
    cells = [f"{i}.25" for i in range(199)] + ["oops"]
    encoder, frame = fit(cells)
    assert encoder.notes_ == [
        "row 199, column 'c': 'oops' is not a number; 199 of 200 cells are. It is treated as missing."
    ]
    # The cell is known, so that it does not warn again.
    assert encoder.transform(frame)[199, 0] == pytest.approx(99.25)
    encoder, _ = fit([*cells, "oops", "inf"])
    assert "(3 cells, also 'inf'); 199 of 202 cells are. They are" in encoder.notes_[0]
    lines = read_table(b"a\n" + "\n".join(cells).encode())
    assert TableEncoder().fit(lines).notes_[0].startswith("line 201, column 'a': 'oops'")


def test_text_that_is_left_out_says_how_many_numbers_it_has():
    cells = [f"{i}.5" if i % 4 else f"see {i}" for i in range(40)]
    encoder, _ = fit(cells)
    assert encoder.columns_[0]["reason"] == "numbers and text"
    assert encoder.notes_ == [
        "column 'c' is left out, but 30 of 40 cells are numbers (--as-number c)."
    ]
    encoder, _ = fit(cells, as_number=["c"])
    assert encoder.columns_[0]["n_missing"] == 10


@pytest.mark.parametrize(
    ("cells", "kind", "reason"),
    [
        ([3.5 + i for i in range(30)], "number", ""),
        (range(30), "left out", "a row counter"),
        ([7919 * i % 1000 for i in range(30)], "number", ""),
        ([f"{i}.5" for i in range(30)], "number", ""),
        ([7] * 30, "left out", "is constant, 7"),
        (
            [f"k{i}" for i in range(30)],
            "left out",
            "an identifier: almost every value is different",
        ),
        (
            ["5 kg", "900 g"] + [f"{i} kg" for i in range(28)],
            "left out",
            "numbers in different units",
        ),
        ([{"a": 1}] * 30, "left out", "nested objects"),
        ([b"x"] * 30, "left out", "contains cells of type bytes"),
        ([["x"], ["y"]] * 15, "left out", "lists of something other than numbers"),
        ([[1.0] * (1 + i % 3) for i in range(30)], "left out", "lists of different lengths"),
        (["x" * 5000, "y"] * 15, "left out", "contains texts of more than 4096 characters"),
        (["01067", "10115"] * 15, "category", "2 values"),
        ([f"C{i}" if i % 4 == 0 else None for i in range(30)], "category", "almost every value"),
        ([None] * 29 + ["C1"], "left out", "97% empty"),
    ],
)
def test_decisions_and_reasons(cells, kind, reason):
    column = column_of(cells)
    assert (column["kind"], column["reason"][: len(reason)]) == (kind, reason)


@pytest.mark.parametrize(
    "name",
    ["id", "customer_id", "PassengerId", "userID", "index", "acid", "humid", "grid"],
)
def test_names_of_identifiers(name):
    frame = pd.DataFrame({name: [7919 * i % 1000 for i in range(30)], "n": np.arange(30) ** 2})
    is_id = name not in ("acid", "humid", "grid")
    assert (TableEncoder().fit(frame).columns_[0]["kind"] == "left out") == is_id
    # A decimal is never an identifier.
    frame[name] += 0.5
    assert TableEncoder().fit(frame).columns_[0]["kind"] == "number"


def test_missing_values():
    for word in ("", "NA", "n/a", "n.a.", "None", "-", "--", ".", "missing", "unknown", "?"):
        assert column_of(["1", "2.5", "4", word])["n_missing"] == 8
    assert column_of([1, 2.5, -999], na_values=["-999"])["n_missing"] == 10
    assert column_of(["1", "2.5", "-999.0"], na_values=["-999.0"])["n_missing"] == 10
    assert column_of(["p", "q", "nothing"], na_values=["Nothing"])["n_missing"] == 10
    cells = ["a", np.nan, None, pd.NA, pd.NaT, "b"] * 5
    assert column_of(cells)["n_missing"] == 20
    for values in ([True, False, None], ["true", "false", None]):
        assert column_of(pd.array(values * 10, dtype=None))["kind"] == "boolean"


def test_rare_unknown_and_missing_categories():
    encoder, _ = fit(["a"] * 20 + ["b"] * 20 + ["rare"] + [None] * 9)
    assert encoder.columns_[0]["features"] == ["c_a", "c_b", "c_other", "c_missing"]
    new = pd.DataFrame({"c": ["a", "new", " b ", None, "rare"], "n": 0.0})
    places = encoder.transform(new)[:, :4].argmax(axis=1)
    assert places.tolist() == [0, 2, 1, 3, 2]


def test_categories_that_training_did_not_have():
    encoder, _ = fit(["male", "female", "male"])
    new = pd.DataFrame({"c": ["other", "male", None, "other"], "n": 0.0})
    message = r"row 0, column 'c': 'other' is not a known category \(2 cells\); read as the mean\."
    with pytest.warns(UserWarning, match=message):
        Z = encoder.transform(new)
    assert Z[:, 0].tolist() == pytest.approx([2 / 3, 1, 2 / 3, 2 / 3])
    encoder, _ = fit(["red", "green", "blue"])
    with pytest.warns(UserWarning, match=r"'other' is not a known .* features of the column are 0"):
        assert encoder.transform(new)[0, :3].tolist() == [0, 0, 0]


def test_new_cells_that_cannot_be_read():
    frame = pd.DataFrame(
        {
            "a": ["1.5", "2.5", "4.5"] * 10,
            "d": ["2020-01-01", "2020-02-03", "2021-01-01"] * 10,
            "b": ["yes", "no", "no"] * 10,
            "s": ["S", "M", "L"] * 10,
        }
    )
    encoder = TableEncoder().fit(frame)
    new = pd.DataFrame({"a": ["x1", "y2", "1"], "d": "soon", "b": "perhaps", "s": "M"})
    with pytest.warns(UserWarning, match="is not a number") as caught:
        Z = encoder.transform(new)
    assert len(caught) == 1
    for words in (
        "row 0, column 'a': 'x1' is not a number (2 cells, also 'y2'); treated as missing.",
        "'soon' is not a date in a format of the column (3 cells); treated as missing.",
        "'perhaps' is not true or false (3 cells); treated as missing.",
    ):
        assert words in str(caught[0].message)
    assert np.isfinite(Z).all()
    # Numbers where text was, and thousands separators that leave no doubt, are read.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = new.assign(a=["1,234.5", "7", None], d=pd.Timestamp("2020-01-01"), b=[True, 0, "no"])
        assert encoder.transform(good)[:2, 0].tolist() == [1234.5, 7]
    with pytest.raises(TableError, match=r"no column 'a', which the model was fitted on. Did you"):
        encoder.transform(new.rename(columns={"a": "A"}))


def test_categories_of_numbers_do_not_depend_on_their_type():
    encoder, _ = fit([1, 2, 1.5, 1, 2, 1.5], as_category=["c"])
    assert encoder.columns_[0]["features"] == ["c_1", "c_1.5", "c_2"]
    for cells in ([1, 1.5, 2], ["1", "1.50", "2.0"], pd.Categorical([1, 1.5, 2])):
        new = pd.DataFrame({"c": cells, "n": 0.0})
        assert encoder.transform(new)[:, :3].tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("texts", "moment"),
    [
        (["2021-03-04", "2020-12-31"], dt.datetime(2021, 3, 4)),
        (["2021-03-04T05:06:07Z", "2020-12-31T00:00:00+01:00"], dt.datetime(2021, 3, 4, 5, 6, 7)),
        (["04.03.2021", "31.12.2020"], dt.datetime(2021, 3, 4)),
        (["04/03/2021", "31/12/2020"], dt.datetime(2021, 3, 4)),
        (["03/04/2021", "12/31/2020"], dt.datetime(2021, 3, 4)),
        (["03/04/2021 02:30 PM", "12/31/2020 11:00 AM"], dt.datetime(2021, 3, 4, 14, 30)),
        (["4 Mar 2021", "31 Dec 2020"], dt.datetime(2021, 3, 4)),
        (["March 4, 2021", "December 31, 2020"], dt.datetime(2021, 3, 4)),
        (["2021-03-04", "31.12.2020"], dt.datetime(2021, 3, 4)),
    ],
)
def test_dates_as_text_and_as_time_stamps_agree(texts, moment):
    encoder, frame = fit(texts)
    assert encoder.columns_[0]["kind"] == "date"
    Z = encoder.transform(frame)
    n = len(encoder.columns_[0]["features"])
    stamps = pd.DataFrame({"c": [moment], "n": 0.0})
    assert encoder.transform(stamps)[0, :n] == pytest.approx(Z[0, :n], rel=1e-14, abs=1e-14)
    assert Z[0, 0] == (moment - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1)
    days = Z[:, 0].min(), Z[:, 0].max()
    assert 60 < days[1] - days[0] < 70


def test_positions_in_the_year_the_week_and_the_day():
    when = ["2020-12-31 23:30", "2021-01-01 00:30", "2021-06-30 12:00"]
    encoder, frame = fit(when)
    names = encoder.get_feature_names_out().tolist()
    assert names[:7] == [
        *("c_days", "c_year_sin", "c_year_cos", "c_weekday_sin", "c_weekday_cos"),
        *("c_hour_sin", "c_hour_cos"),
    ]
    Z = encoder.transform(frame)
    # The end of a year is near its beginning and far from its middle, and so are hours.
    for places in (slice(1, 3), slice(5, 7)):
        near, far = (np.linalg.norm(Z[0, places] - Z[i, places]) for i in (1, 2))
        assert near < 0.3 < far
    for cells in (["09:30", "23:15"], ["9:30 AM", "11:15 PM"]):
        encoder, frame = fit(cells)
        assert encoder.columns_[0]["features"] == ["c_hour_sin", "c_hour_cos"]
        angle = 2 * np.pi * 9.5 / 24
        assert encoder.transform(frame)[0, :2] == pytest.approx([np.sin(angle), np.cos(angle)])
    for cells in (["Mon", "Tue", "Sun"], ["Monday", "tuesday", "SUNDAY"]):
        encoder, frame = fit(cells)
        assert encoder.columns_[0]["features"] == ["c_weekday_sin", "c_weekday_cos"]
        assert encoder.transform(frame)[0, :2] == pytest.approx([0, 1])


def test_doubtful_dates_are_noted():
    encoder, _ = fit(["03/04/2020", "05/06/2020"])
    assert "dates such as '03/04/2020' are read month first" in encoder.notes_[0]
    encoder, _ = fit(["2020-04-30", "03/04/2020", "05/06/2020"])
    assert "dates such as '03/04/2020' are read month first" in encoder.notes_[0]
    encoder, _ = fit(["13/04/2020", "05/06/2020"])
    assert encoder.notes_ == []


def test_vectors():
    cells = [[1.0, 2.0], [3.0, 4.0], None, [1.0, 2.0, 3.0], [np.nan, 1.0]] + [[5.0, 6.0]] * 30
    encoder, frame = fit(cells)
    assert encoder.columns_[0]["features"] == ["c_0", "c_1", "c_missing"]
    assert "row 3, column 'c': '[1.0, 2.0, 3.0]' is not 2 numbers (2 cells" in encoder.notes_[0]
    Z = encoder.transform(frame)
    assert Z[:2, :3].tolist() == [[1, 2, 0], [3, 4, 0]]
    assert Z[2, 0] == pytest.approx(Z[[0, 1, *range(5, 35)], 0].mean())


def test_decisions_can_be_changed(mixed):
    encoder = TableEncoder(drop=["size"], as_category=["age"], as_number=["PassengerId"]).fit(mixed)
    found = {c["name"]: (c["kind"], c["asked"]) for c in encoder.columns_}
    assert found["size"] == ("left out", True)
    assert found["age"] == ("category", True)
    assert found["PassengerId"] == ("number", True)
    assert found["price"] == ("number", False)


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (
            {"a": [1.0, 1.0]},
            {},
            r"no column of 2 samples is left as a feature \(a: is constant, 1\)",
        ),
        ({"a": []}, {}, "the table has no rows"),
        ({0: [1.0, 2.0]}, {}, "names of columns must be different texts; got 0"),
        ({"a": [1.0, 2.5]}, {"drop": ["A"]}, r"there is no column 'A'. Did you mean 'a'\?"),
    ],
)
def test_frames_that_cannot_be_encoded(frame, options, words):
    with pytest.raises(TableError, match=words):
        TableEncoder(**options).fit(pd.DataFrame(frame))
    with pytest.raises(NotFittedError):
        TableEncoder().transform(pd.DataFrame(frame))
    twice = pd.DataFrame(np.ones((3, 2)), columns=["a", "a"])
    with pytest.raises(TableError, match="names of columns must be different texts; got 'a'"):
        TableEncoder().fit(twice)


def test_arrays_without_names(rng):
    X = rng.normal(size=(30, 3))
    encoder = TableEncoder().fit(X)
    assert (encoder.transform(X) == X).all()
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1", "x2"]
    with pytest.raises(ValueError, match="expecting 3 features"):
        encoder.transform(X[:, :2])
    with pytest.raises(ValueError, match="2D array"):
        TableEncoder().fit(X[0])


@pytest.mark.filterwarnings("ignore")
def test_conventions_of_scikit_learn():
    results = check_estimator(TableEncoder(), on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_names_of_features_are_different():
    frame = pd.DataFrame({"a": ["b", "c", "d"] * 10, "a_b": np.arange(30) ** 2})
    assert TableEncoder().fit(frame).get_feature_names_out().tolist() == [
        "a_b",
        "a_c",
        "a_d",
        "a_b_2",
    ]


def test_summary_names_the_treatment_of_missing_values_once(rng):
    table = pd.DataFrame(rng.normal(size=(100, 4)), columns=list("abcd"))
    table.loc[:1, ["a", "b"]] = np.nan
    table.loc[:20, ["c", "d"]] = np.nan
    table["colour"] = ["red", "blue", "red", None] * 25
    lines = TableEncoder().fit(table).summary().split("\n")
    assert [line for line in lines if line.startswith("  missing")] == [
        "  missing     a 2, b 2: imputed by the mean",
        "  missing     c 21, d 21: imputed by the mean, with an indicator feature",
        "  missing     colour 25: a category of its own",
    ]

"""Plans of columns, and the preprocessor that is built from them."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from genmetric.tables import TableError, _cells, make_preprocessor, plan_columns, split_target

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

N = 60


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
            "empty": [None] * N,
            "constant": ["same"] * N,
            "vector": [[float(i), float(-i), 1.5] for i in range(N)],
            "y": np.array(["no", "yes"])[y],
        }
    )


KINDS = {
    "PassengerId": "left out",
    "name": "left out",
    "ticket": "left out",
    "size": "number",
    "age": "number",
    "price": "number",
    "share": "number",
    "colour": "category",
    "alive": "boolean",
    "when": "date",
    "empty": "left out",
    "constant": "left out",
    "vector": "vector",
}


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_every_kind_of_column(mixed, library):
    table = mixed if library == "pandas" else pl.DataFrame(mixed.to_dict("list"))
    plan = plan_columns(table, target="y")
    assert {c.name: c.kind for c in plan.columns} == KINDS
    text = str(plan)
    for words in (
        "8 used, 5 left out",
        "PassengerId (a row counter)",
        "name (free text)",
        "ticket (an identifier",
        "age 12: imputed by the mean, with an indicator feature",
        "price (2,848 is read as 2848)",
        "colour (3 values)",
        "empty (is empty)",
        "constant (is constant, 'same')",
        "vector (3 entries)",
        "y: 2 classes",
    ):
        assert words in text


def test_mostly_empty_columns_of_different_values():
    y = ["u", "v"] * 50
    cabin = [f"C{i}" if i % 4 == 0 else None for i in range(100)]
    rare = [f"C{i}" if i % 25 == 0 else None for i in range(100)]
    frame = pd.DataFrame({"x": np.arange(100.0) ** 2, "cabin": cabin, "rare": rare, "y": y})
    plan = plan_columns(frame, target="y")
    text = str(plan)
    assert "cabin (almost every value is different; only whether there is one is used" in text
    assert "rare (96% empty, and the other values are nearly all different)" in text
    columns = make_preprocessor(plan).fit(frame)
    assert columns.get_feature_names_out().tolist() == ["x", "cabin_other"]
    gaps = columns.transform(frame)[:, 1]
    assert gaps.tolist() == [float(cell is not None) for cell in cabin]


def test_a_pipeline_fits_and_predicts_on_the_frame(mixed):
    plan = plan_columns(mixed, target="y")
    X, y = split_target(mixed, plan)
    model = Pipeline(
        [
            ("columns", make_preprocessor(plan)),
            ("scale", StandardScaler()),
            ("neighbors", KNeighborsClassifier()),
        ]
    )
    expected = model.fit(X, y).predict(X)
    assert set(expected) == {"no", "yes"}
    names = model[:-1].get_feature_names_out().tolist()
    assert len(names) == model[:-1].transform(X).shape[1]
    assert {"size", "age", "missingindicator_age", "colour_red", "when_days", "vector_2"} <= set(
        names
    )
    # The whole frame, columns in another order, polars: the same predictions.
    assert (model.predict(mixed) == expected).all()
    assert (model.predict(mixed[mixed.columns[::-1]]) == expected).all()
    assert (model.predict(pl.DataFrame(mixed.to_dict("list"))) == expected).all()
    # Gaps and unknown categories of new rows are no errors.
    new = mixed.head(2).assign(colour=["mauve", None], size=[None, 1.0], alive=["yes", "?"])
    assert len(model.predict(new)) == 2


def test_a_saved_pipeline_predicts_on_the_frame(mixed, tmp_path):
    import genmetric

    plan = plan_columns(mixed, target="y")
    X, y = split_target(mixed, plan)
    model = Pipeline([("columns", make_preprocessor(plan)), ("vote", KNeighborsClassifier())])
    expected = model.fit(X, y).predict_proba(X)
    genmetric.save(model, tmp_path / "m.gm")
    loaded = genmetric.load(tmp_path / "m.gm")
    assert (loaded.predict_proba(mixed) == expected).all()
    names = model["columns"].get_feature_names_out()
    assert (loaded["columns"].get_feature_names_out() == names).all()


def test_folds_without_some_values(mixed):
    """A column that is empty or constant in a fold keeps its number of features."""
    plan = plan_columns(mixed, target="y")
    columns = make_preprocessor(plan)
    part = mixed[mixed["age"].isna()]
    out = clone(columns).fit(part).transform(mixed)
    assert np.isfinite(out).all()


def test_separators_are_decided_by_the_whole_table():
    n = 12
    table = pd.DataFrame({"a": ["988", "2,848"] * 6, "b": [f"{i},5" for i in range(n)]})
    columns = make_preprocessor(plan_columns(table))
    assert columns.fit_transform(table)[:2].tolist() == [[988, 0.5], [2.848, 1.5]]
    points = pd.DataFrame({"a": ["988", "2.848"] * 6, "b": [f"{i},5" for i in range(n)]})
    assert make_preprocessor(plan_columns(points)).fit_transform(points)[1].tolist() == [2848, 1.5]
    lone = pd.DataFrame({"a": ["988", "2,848"] * 6})
    plan = plan_columns(lone)
    assert any(
        "'2,848' is read as 2848; with the decimal separator ',' it is 2.848" in x
        for x in plan.notes
    )
    plan = plan_columns(lone, decimal=",")
    assert make_preprocessor(plan).fit_transform(lone)[1, 0] == 2.848


def test_one_bad_cell_is_named_and_missing():
    table = pd.DataFrame({"a": [str(i * 1.5) for i in range(199)] + ["oops"]})
    plan = plan_columns(table, line_of=lambda row: f"line {row + 2}")
    assert plan.notes == (
        (
            "line 201, column 'a': 'oops' is not a number; 199 of 200 cells are. "
            "It is treated as missing."
        ),
    )
    columns = make_preprocessor(plan).fit(table)
    assert np.isclose(columns.transform(table)[199, 0], 1.5 * 99)
    two = plan_columns(pd.DataFrame({"a": [*table["a"], "oops"]}))
    assert two.notes[0].endswith("199 of 201 cells are. They are treated as missing.")
    with pytest.raises(ValueError, match="'what' in row 0 is not a number"):
        columns.transform(pd.DataFrame({"a": ["what"]}))


def test_codes_with_leading_zeros_are_categories():
    table = pd.DataFrame({"zip": ["01234", "99999", "04567"] * 10, "a": range(30)})
    assert plan_columns(table, as_number=["a"]).columns[0].kind == "category"


def test_decisions_can_be_changed(mixed):
    plan = plan_columns(
        mixed,
        target="y",
        drop=["size"],
        as_category=["age"],
        as_number=["PassengerId"],
        id_column="name",
    )
    kinds = {c.name: (c.kind, c.reason) for c in plan.columns}
    assert kinds["size"] == ("left out", "on request")
    assert kinds["age"][0] == "category"
    assert kinds["PassengerId"][0] == "number"
    assert kinds["name"] == ("left out", "identifies the rows")
    assert plan_columns(mixed, target="y", features=["size"]).features == ("size",)


def test_all_problems_at_once():
    numbers = [2.0] * 10
    vectors = [[1.0], [1.0, 2.0], *([[1.0]] * 10)]
    table = pd.DataFrame(
        {"a": [1.0, np.inf, *numbers], "b": [1e301, 1.0, *numbers], "c": vectors, "y": "u"}
    )
    with pytest.raises(TableError) as caught:
        plan_columns(table, target="y")
    text = str(caught.value)
    for words in (
        "'y' contains a single class, 'u'; at least two are required",
        "row 1, column 'a': inf is infinite",
        "row 0, column 'b': 1e+301 is beyond 1e+100",
        "column 'c': expected vectors of 1 numbers, found 2 entries in row 1",
    ):
        assert words in text
    assert caught.value.options == ("--drop", "a", "--drop", "b", "--drop", "c")


def test_names_that_do_not_exist(mixed):
    with pytest.raises(TableError, match=r"no column 'Size' \(drop\)\. Did you mean 'size'\?"):
        plan_columns(mixed, target="y", drop=["Size"])
    with pytest.raises(TableError, match=r"no column 'zzz' \(target\)\. The columns are 'Pass"):
        plan_columns(mixed, target="zzz")
    with pytest.raises(TableError, match="cannot be a feature, the id or left out"):
        plan_columns(mixed, target="y", drop=["y"])


def test_strict_refuses_what_would_be_decided(mixed):
    with pytest.raises(
        TableError, match=r"left out: 'PassengerId' \(a row counter\).*'age' \(12\)"
    ):
        plan_columns(mixed, target="y", strict=True)
    clean = mixed[["size", "y"]]
    assert plan_columns(clean, target="y", strict=True).features == ("size",)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["u", "v"] * 20, "classes"),
        ([1, 2, 3, 4] * 10, "classes"),
        ([0.5, 1.5] * 20, "classes"),
        (list(range(10)) * 4, "classes"),
        (list(range(40)), "number"),
        ([i / 7 for i in range(40)], "number"),
        ([f"{i},5" for i in range(40)], "number"),
        ([True, False] * 20, "classes"),
    ],
)
def test_classes_or_numbers(values, kind):
    table = pd.DataFrame({"a": np.random.default_rng(0).normal(size=40), "y": values})
    plan = plan_columns(table, target="y")
    assert plan.target.kind == kind
    _, y = split_target(table, plan)
    assert (y.dtype == float) == (kind == "number")
    other = {"classes": "as_number", "number": "as_category"}[kind]
    if len(set(values)) > 2:
        assert plan_columns(table, target="y", **{other: ["y"]}).target.kind != kind


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"name{i}" for i in range(40)], "40 distinct values in 40 rows, so it looks like an id"),
        (
            [*(f"{i}.5" for i in range(39)), "oops"],
            "40 distinct values in 40 rows, and 39 of the cells are numbers. Use --task number",
        ),
        ([[1, 2]] * 40, "contains lists"),
        ([None] * 40, "has no values"),
        ([np.inf] + [1.0, 2.0, 3.0] * 13, "row 0: the target 'y' is infinite"),
    ],
)
def test_invalid_targets(values, words):
    table = pd.DataFrame({"a": np.random.default_rng(0).normal(size=40), "y": values})
    with pytest.raises(TableError, match=words) as caught:
        plan_columns(table, target="y")
    assert "no column is left" not in str(caught.value)


def test_rows_without_a_target_are_not_used(mixed):
    table = mixed.assign(y=[None, "?", *mixed["y"][2:]])
    plan = plan_columns(table, target="y")
    assert "2 rows have no target 'y' and are not used (first: row 0)." in plan.notes
    X, y = split_target(table, plan)
    assert len(X) == len(y) == N - 2
    plan = plan_columns(mixed.assign(y=[None, *mixed["y"][1:]]), target="y")
    assert "1 row has no target 'y' and is not used (row 0)." in plan.notes


def test_frames_that_cannot_be_planned():
    with pytest.raises(TypeError, match="must be a pandas or polars DataFrame; got ndarray"):
        plan_columns(np.ones((3, 2)))
    with pytest.raises(TableError, match="names of columns must be text; got 0"):
        plan_columns(pd.DataFrame(np.ones((3, 2))))
    with pytest.raises(TableError, match="'a' names more than one column"):
        plan_columns(pd.DataFrame(np.ones((3, 2)), columns=["a", "a"]))
    with pytest.raises(TableError, match="no column is left as a feature"):
        plan_columns(pd.DataFrame({"a": [1.0, 1.0]}))
    with pytest.raises(TableError, match="the table has no rows"):
        plan_columns(pd.DataFrame({"a": []}))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("id", True),
        ("customer_id", True),
        ("PassengerId", True),
        ("userID", True),
        ("index", True),
        ("acid", False),
        ("humid", False),
        ("width", False),
        ("grid", False),
    ],
)
def test_names_of_identifiers(name, expected):
    from genmetric.tables._columns import is_id_name

    assert is_id_name(name) is expected


def test_plan_names_the_treatment_of_missing_values_once(rng):
    table = pd.DataFrame(rng.normal(size=(100, 4)), columns=list("abcd"))
    table.loc[:1, ["a", "b"]] = np.nan
    table.loc[:20, ["c", "d"]] = np.nan
    table["colour"] = ["red", "blue", "red", None] * 25
    lines = plan_columns(table).lines()
    assert [line for line in lines if line.startswith("  missing")] == [
        "  missing     a 2, b 2: imputed by the mean",
        "  missing     c 21, d 21: imputed by the mean, with an indicator feature",
        "  missing     colour 25: a category of its own",
    ]
    assert max(map(len, lines)) <= 80


def test_two_values_are_one_feature(rng):
    table = pd.DataFrame({"a": rng.normal(size=40), "sex": ["male", "female"] * 20})
    table.loc[1, "sex"] = "male"
    table["colour"] = ["red", "blue", "green", "blue"] * 10
    columns = make_preprocessor(plan_columns(table)).fit(table)
    names = ["a", "sex_male", "colour_blue", "colour_green", "colour_red"]
    assert columns.get_feature_names_out().tolist() == names
    new = table[:2].assign(sex=["other", None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert columns.transform(new)[:, 1].tolist() == [1.0, 1.0]


def test_cells_of_text_are_not_looked_at_one_by_one(monkeypatch):
    words = np.array(["a", None, " b "] * 1000, dtype=object)
    frame = pd.DataFrame({"t": pd.Series(words, dtype=object)})
    calls = []

    def count(value):
        calls.append(value)
        return None if value is None else value.strip()

    monkeypatch.setattr(_cells, "is_missing", lambda _: pytest.fail("looked at a cell"))
    monkeypatch.setattr(_cells, "cell_text", count)
    array = _cells.column_array(frame, "t")
    assert array.tolist() == words.tolist()
    assert _cells.cell_texts(array) == ["a", None, "b"] * 1000
    assert len(calls) == 3


def test_missing_cells_of_any_kind_are_none():
    cells = ["a", np.nan, None, pd.NA, pd.NaT, [1]]
    frame = pd.DataFrame({"t": pd.Series(cells, dtype=object)})
    array = _cells.column_array(frame, "t")
    assert array.tolist() == ["a", None, None, None, None, [1]]
    assert _cells.cell_texts(array) == ["a", None, None, None, None, "[1]"]

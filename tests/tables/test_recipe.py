"""Which columns become features, and how."""

import json
import warnings

import numpy as np
import pytest

from genmetric.tables import (
    Recipe,
    TableError,
    check_labels,
    counting_columns,
    learn_recipe,
    open_table,
    plan_columns,
    read_rows,
    row_batches,
)

pytest.importorskip("pyarrow")


@pytest.fixture
def table(tmp_path):
    def table(text):
        path = tmp_path / "t.csv"
        path.write_text(text, "utf-8")
        return open_table(path)

    return table


MIXED = (
    "id,size,colour,when,y\nr1,1,red,2020-01-01,u\nr2,2,blue,2020-01-02,v\nr3,3,red,2020-01-03,u\n"
)


def test_words_and_dates_are_refused_by_name(table):
    with pytest.raises(TableError, match=r"'id' holds 'r1', 'r2', 'r3'.*in all: 'id', 'colour'"):
        plan_columns(table(MIXED), target="y")
    with pytest.raises(TableError, match=r"'when' holds dates or times.*--ignore when"):
        plan_columns(table(MIXED), target="y", id_column="id", ignore=["colour"])


def test_categories_are_one_feature_a_word(table):
    opened = table(MIXED)
    plan = plan_columns(opened, target="y", id_column="id", ignore=["when"], categorical=True)
    recipe = learn_recipe(opened, plan)
    rows = read_rows(opened, recipe)
    assert recipe.feature_names == ("size", "colour=blue", "colour=red")
    assert rows.X.tolist() == [[1, 0, 1], [2, 1, 0], [3, 0, 1]]
    assert rows.ids.tolist() == ["r1", "r2", "r3"]


def test_numbers_can_be_categories_too(table):
    opened = table("zip,a,y\n10,1,u\n20,2,v\n10,3,u\n")
    recipe = learn_recipe(opened, plan_columns(opened, target="y", category=["zip"]))
    assert recipe.feature_names == ("zip=10", "zip=20", "a")
    assert read_rows(opened, recipe).X.tolist() == [[1, 0, 1], [0, 1, 2], [1, 0, 3]]


def test_chosen_features_in_the_order_asked_for(table):
    opened = table("a,b,c,y\n1,2,3,u\n4,5,6,v\n")
    recipe = plan_columns(opened, target="y", features=["c", "a"])
    assert read_rows(opened, recipe).X.tolist() == [[3, 1], [6, 4]]


def test_true_and_false_are_one_and_zero(table):
    opened = table("a,flag,y\n1,true,u\n2,false,v\n3,,u\n")
    with pytest.raises(TableError, match="'flag' has no value in data row 3"):
        read_rows(opened, plan_columns(opened, target="y"))
    recipe = learn_recipe(opened, plan_columns(opened, target="y", impute=True))
    assert read_rows(opened, recipe).X.tolist() == [[1, 1], [2, 0], [3, 0.5]]


@pytest.mark.parametrize("word", ["", "NA", "nan", "NaN", "null", "?", " ?", "n/a"])
def test_missing_values(table, word):
    opened = table(f"a,b,y\n1,5,u\n2,{word},v\n4,6,u\n")
    with pytest.raises(TableError, match=r"'b' has no value in data row 2\. --impute"):
        read_rows(opened, plan_columns(opened, target="y"))
    recipe = learn_recipe(opened, plan_columns(opened, target="y", impute=True))
    assert recipe.columns[1].fill == 5.5
    assert read_rows(opened, recipe).X[1].tolist() == [2, 5.5]
    assert np.isnan(read_rows(opened, recipe, fill=False).X[1, 1])


def test_missing_categories_are_none_of_the_words(table):
    opened = table("a,c,y\n1,p,u\n2,,v\n3,q,u\n")
    plan = plan_columns(opened, target="y", categorical=True)
    with pytest.raises(TableError, match="'c' has no value in data row 2"):
        read_rows(opened, learn_recipe(opened, plan))
    recipe = learn_recipe(opened, plan_columns(opened, target="y", categorical=True, impute=True))
    assert read_rows(opened, recipe).X.tolist() == [[1, 1, 0], [2, 0, 0], [3, 0, 1]]


def test_means_far_from_zero(table):
    opened = table("a,y\n" + "".join(f"{10**15 + i},u\n" for i in range(4)) + ",v\n")
    recipe = learn_recipe(opened, plan_columns(opened, target="y", impute=True))
    assert recipe.columns[0].fill == 10**15 + 1.5


def test_new_rows_follow_the_recipe_by_name(table, tmp_path):
    opened = table("a,c,y\n1,p,u\n2,q,v\n")
    recipe = learn_recipe(opened, plan_columns(opened, target="y", categorical=True))
    other = tmp_path / "new.csv"
    other.write_text("extra,c,a\nx,q,5\nx,r,6\n")
    rows = read_rows(open_table(other), recipe, target=False)
    assert rows.X.tolist() == [[5, 0, 1], [6, 0, 0]]
    assert rows.unknown == {"c": {"r"}}
    assert rows.labels is None


def test_new_rows_without_the_columns_are_refused(table, tmp_path):
    opened = table("alpha,beta,y\n1,2,u\n3,4,v\n")
    recipe = plan_columns(opened, target="y")
    other = tmp_path / "new.csv"
    other.write_text("alpha,betta\n1,2\n")
    with pytest.raises(TableError, match=r"no column 'beta'.*Did you mean 'betta'"):
        read_rows(open_table(other), recipe, target=False)
    other.write_text("c,d\n1,2\n")
    with pytest.raises(TableError, match="columns 'alpha', 'beta' are missing"):
        read_rows(open_table(other), recipe, target=False)
    other.write_text("alpha,beta\n1,two\n")
    with pytest.raises(TableError, match="'beta' holds 'two', where numbers are needed"):
        read_rows(open_table(other), recipe, target=False)


def test_a_recipe_survives_json(table):
    opened = table(MIXED)
    plan = plan_columns(
        opened, target="y", id_column="id", ignore=["when"], categorical=True, impute=True
    )
    recipe = learn_recipe(opened, plan)
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_names_that_are_not_there(table):
    opened = table("Alpha,beta,y\n1,2,u\n3,4,v\n")
    with pytest.raises(TableError, match=r"no column 'alpha' \(--target\)\. Did you mean 'Alpha'"):
        plan_columns(opened, target="alpha")
    with pytest.raises(TableError, match=r"no column 'zzz' \(--ignore\)\. It has 'Alpha', 'beta'"):
        plan_columns(opened, target="y", ignore=["zzz"])
    with pytest.raises(TableError, match="cannot be a feature"):
        plan_columns(opened, target="y", features=["y"])
    with pytest.raises(TableError, match="no column is left"):
        plan_columns(opened, target="y", ignore=["Alpha", "beta"])


def test_a_nameless_column_is_left_out(table):
    with pytest.warns(UserWarning, match="without a name"):
        recipe = plan_columns(table(",a,y\n0,1,u\n1,2,v\n"), target="y")
    assert recipe.feature_names == ("a",)


def test_too_many_words_for_a_category(table):
    opened = table("a,c,y\n" + "".join(f"1,word{i},u\n" for i in range(200)))
    with pytest.raises(TableError, match="more than 100 different words"):
        learn_recipe(opened, plan_columns(opened, target="y", categorical=True))


def test_a_column_without_any_value(table):
    opened = table("a,b,y\n1,,u\n2,,v\n")
    with pytest.raises(TableError, match="'b' has no values at all"):
        learn_recipe(opened, plan_columns(opened, target="y", impute=True))


@pytest.mark.parametrize("value", ["inf", "-inf", "1e400"])
def test_infinite_values(table, value):
    opened = table(f"a,y\n1,u\n{value},v\n")
    with pytest.raises(TableError, match=r"'a' is infinite .* in data row 2"):
        read_rows(opened, plan_columns(opened, target="y", impute=True))


def test_a_target_without_value(table):
    opened = table("a,y\n1,u\n2,\n")
    with pytest.raises(TableError, match="target 'y' has no value in data row 2"):
        read_rows(opened, plan_columns(opened, target="y"))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["u"] * 30, "one class, 'u'"),
        ([str(i / 7) for i in range(60)], "60 different numbers in 60 rows.*quantity"),
        ([str(i) for i in range(60)], "60 different numbers.*quantity"),
        ([f"name{i}" for i in range(60)], "looks like a name of each row"),
    ],
)
def test_targets_that_are_no_classes(table, labels, words):
    opened = table("a,y\n" + "".join(f"1,{label}\n" for label in labels))
    rows = read_rows(opened, plan_columns(opened, target="y"))
    with pytest.raises(TableError, match=words):
        check_labels(rows.labels, opened, "y")


@pytest.mark.parametrize(
    "labels", [["u", "v"] * 10, list("abcdefghij") * 3, ["1", "2"], [0.5, 1.5]]
)
def test_targets_that_are_classes(table, labels):
    opened = table("a,y\n" + "".join(f"1,{label}\n" for label in labels))
    check_labels(read_rows(opened, plan_columns(opened, target="y")).labels, opened, "y")


def test_columns_that_count_the_rows(table):
    opened = table("n,a,y\n" + "".join(f"{i},{i % 3},u\n" for i in range(30)))
    recipe = plan_columns(opened, target="y")
    assert counting_columns(read_rows(opened, recipe), opened, recipe) == ["n"]


def test_batches_are_the_whole(table, monkeypatch):
    from genmetric.tables import sources

    lines = "".join(f"{i},{i % 7},w{i % 3},c{i % 2}\n" for i in range(3000))
    opened = table("a,b,c,y\n" + lines)
    plan = plan_columns(opened, target="y", categorical=True)
    whole = read_rows(opened, learn_recipe(opened, plan), keep=["c", "a"])
    monkeypatch.setattr(sources, "BLOCK_BYTES", 4096)
    recipe = learn_recipe(opened, plan)
    parts = list(row_batches(opened, recipe, keep=["c", "a"]))
    assert len(parts) > 3
    again = read_rows(opened, recipe, keep=["c", "a"])
    for rows in (again, whole):
        assert (np.concatenate([part.X for part in parts]) == rows.X).all()
        assert rows.labels.tolist() == [f"c{i % 2}" for i in range(3000)]
        assert rows.kept["c"].tolist() == [f"w{i % 3}" for i in range(3000)]
        assert rows.kept["a"].tolist() == list(range(3000))


def test_errors_of_later_batches_know_their_row(table, monkeypatch):
    from genmetric.tables import sources

    monkeypatch.setattr(sources, "BLOCK_BYTES", 4096)
    opened = table("a,y\n" + "1,u\n" * 5000 + ",v\n")
    with pytest.raises(TableError, match="data row 5001"):
        for _ in row_batches(opened, plan_columns(opened, target="y")):
            pass


def test_planning_warns_of_nothing_usually(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan_columns(table("a,y\n1,u\n2,v\n"), target="y")

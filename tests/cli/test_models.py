"""Models from tables: fitted, inspected, applied to new rows, streamed."""

import csv
import io
import json
import re

import numpy as np
import pytest

import genmetric as package

pd = pytest.importorskip("pandas")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_saved_model_is_the_pipeline_it_says(model, wine):
    from sklearn.preprocessing import StandardScaler

    from genmetric.files import load

    table = pd.read_csv(wine)
    X = table.drop(columns=["name", "cultivar"]).to_numpy()
    loaded, metadata = load(model, return_metadata=True)
    assert [name for name, _ in loaded.steps] == ["columns", "scale", "metric", "neighbors"]
    metric = package.GenerativeMetric().fit(StandardScaler().fit_transform(X), table["cultivar"])
    np.testing.assert_allclose(loaded["metric"].metric_, metric.metric_, rtol=1e-10)
    assert (metadata["method"], metadata["id"]) == ("generative", "name")
    assert metadata["training"]["rows"] == 178
    assert metadata["training"]["classes"] == {"class 0": 59, "class 1": 71, "class 2": 48}
    assert metadata["target"]["name"] == "cultivar"


def test_transform_and_predict_agree_with_python(genmetric, wine, model):
    table, loaded = pd.read_csv(wine), package.load(model)
    done = genmetric("transform", model, wine, "--keep", "cultivar")
    assert (done.code, done.err) == (0, "")
    found = rows_of(done.out)
    assert list(found[0]) == ["name", "cultivar", *(f"z{j}" for j in range(1, 14))]
    z = np.array([[float(row[f"z{j}"]) for j in range(1, 14)] for row in found])
    np.testing.assert_allclose(z, loaded[:-1].transform(table), rtol=1e-9, atol=1e-12)
    done = genmetric("predict", model, wine, "--proba")
    found = rows_of(done.out)
    predicted = loaded.predict(table)
    assert [row["predicted"] for row in found] == predicted.tolist()
    shares = [[float(row[f"p_class {c}"]) for c in range(3)] for row in found]
    np.testing.assert_allclose(shares, loaded.predict_proba(table), rtol=1e-6)
    n_wrong = int((predicted != table["cultivar"]).sum())
    assert done.err.startswith(f"error rate {n_wrong / 178:.1%}: {n_wrong} of 178 rows differ")
    assert "fitted on a file of this name and size; its leave-one-out error" in done.err


def test_new_rows_need_only_the_features(genmetric, wine, model, tmp_path):
    """Other columns are ignored, the order is free, classes and names of rows are not needed."""
    table = pd.read_csv(wine).drop(columns=["name", "cultivar"])
    table[table.columns[::-1]].assign(remark="a, b").to_csv(tmp_path / "new.csv", index=False)
    done = genmetric("predict", model, tmp_path / "new.csv")
    assert (done.code, done.err) == (0, "")
    expected = [row["predicted"] for row in rows_of(genmetric("predict", model, wine).out)]
    assert [row["predicted"] for row in rows_of(done.out)] == expected
    table.rename(columns={"hue": "hues"}).to_csv(tmp_path / "new.csv", index=False)
    done = genmetric("predict", model, tmp_path / "new.csv")
    assert (done.code, done.out) == (2, "")
    assert "no column 'hue', which the model was fitted on. Did you mean 'hues'?" in done.err


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet", "out.jsonl"])
def test_output_format_follows_the_file_name(genmetric, wine, model, tmp_path, name):
    from genmetric.tables import read_table

    done = genmetric("predict", model, wine, "-o", tmp_path / name, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert list(read_table(tmp_path / name)) == ["name", "predicted"]
    assert [p.name for p in tmp_path.iterdir()] == [name]


def methods():
    from genmetric.comparison import METHODS

    return [(m.key, task) for m in METHODS.values() if m.distance for task in m.tasks]


@pytest.mark.parametrize(("method", "task"), methods())
def test_every_method_is_saved_and_applied(genmetric, wine, tmp_path, method, task):
    from genmetric.comparison import METHODS

    table, out = tmp_path / "small.csv", tmp_path / "m.gm"
    pd.read_csv(wine).iloc[::3, [0, 1, 7, 10, 13, 14]].to_csv(table, index=False)
    target, drop = ("cultivar", "alcohol") if task == "classification" else ("alcohol", "cultivar")
    words = ["fit", table, "-t", target, "--drop", drop, "--id", "name", "-m", method, "-o", out]
    done = genmetric(*words)
    assert done.code == 0, done.err
    assert f"m.gm: {method} from 60 rows, 3 features, " in done.err
    done = genmetric("predict", out, table)
    assert done.code == 0, done.err
    assert ("error rate" if task == "classification" else "R²") in done.err
    assert genmetric("inspect", out).code == 0
    done = genmetric("transform", out, table)
    assert done.code == (0 if METHODS[method].has_map else 2), done.err
    if done.code:
        assert "has no map, so there is no single metric. Fit with --method" in done.err


def test_numbers_are_predicted_and_judged(genmetric, numbers, tmp_path):
    out = tmp_path / "m.gm"
    done = genmetric("fit", numbers, "-t", "y", "-o", out)
    assert done.code == 0, done.err
    assert "regression-cv from 60 rows, 3 features, numeric target; " in done.err
    done = genmetric("predict", out, numbers)
    predicted = [float(row["predicted"]) for row in rows_of(done.out)]
    assert np.corrcoef(predicted, pd.read_csv(numbers)["y"])[0, 1] > 0.9
    assert "mean absolute error" in done.err
    assert "numbers from " in genmetric("inspect", out).out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-m", "regression"], "does not support classification, the task here. Use one of"),
        (["-m", "lda", "--shrinkage", "0.5"], "--shrinkage needs one of the methods generative"),
        (["-m", "lda", "-k", "3"], "--neighbors needs one of the methods euclidean"),
        (["-m", "lmnn", "--stream"], "needs all rows in memory. Use one of euclidean"),
        (["--shrinkage", "2"], "shrinkage must be"),
        (["--shrinkage", "much"], "shrinkage must be"),
        (["--drop", "absent"], "there is no column 'absent'"),
        (["--drop", "cultivar"], "'cultivar' is named by two options"),
        (["--feature", "hue", "--drop", "hue"], "'hue' is named by two options"),
    ],
)
def test_options_that_do_not_fit(genmetric, wine, tmp_path, words, error):
    done = genmetric("fit", wine, "-t", "cultivar", "-o", tmp_path / "m.gm", *words)
    assert (done.code, done.out) == (2, "")
    assert error in done.err
    assert done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_settings_reach_the_model(genmetric, wine, tmp_path):
    out = tmp_path / "m.gm"
    words = ["--shrinkage", "none", "--interpolation", 0.5, "-k", 3, "--raw", "--feature", "hue"]
    words += ["--feature", "ash", "--feature", "alcohol"]
    done = genmetric("fit", wine, "-t", "cultivar", "-o", out, *words)
    assert done.code == 0, done.err
    loaded = package.load(out)
    assert loaded["metric"].shrinkage is None
    assert loaded["metric"].interpolation == 0.5
    assert loaded["neighbors"].n_neighbors == 3
    assert not loaded["scale"].with_std
    assert loaded["columns"].used_columns_ == ["alcohol", "ash", "hue"]


def test_inspect_shows_columns_in_their_own_units(genmetric, two_classes, tmp_path):
    out = tmp_path / "m.gm"
    assert genmetric("fit", two_classes(300), "-t", "y", "-m", "uniform", "-o", out).code == 0
    found = json.loads(genmetric("inspect", out, "--json").out)
    assert found["columns"] == ["a", "b", "c", "d"]
    assert found["features"] == ["a", "b", "c", "d_p", "d_q", "d_r"]
    assert set(found["contributions"]) == {"a", "b", "c", "d"}
    assert sum(found["contributions"].values()) == pytest.approx(1)
    # A difference of this size in one column alone is a distance of 1.
    loaded = package.load(out)
    rows = pd.DataFrame({"a": [0, found["unit_differences"]["a"]], "b": 1, "c": 1, "d": "p"})
    z = loaded[:-1].transform(rows)
    assert np.linalg.norm(z[1] - z[0]) == pytest.approx(1)
    text = genmetric("inspect", out, "--top", 2).out
    assert "and 2 more (--all)" in text
    assert "is a distance of 1" in text


def test_models_saved_from_python(genmetric, wine, tmp_path):
    X = pd.read_csv(wine)[["hue", "ash"]]
    path = tmp_path / "python.gm"
    metric = package.GenerativeMetric().fit(X, pd.read_csv(wine)["cultivar"])
    package.save(metric, path)
    done = genmetric("transform", path, wine)
    assert done.code == 0, done.err
    np.testing.assert_allclose(pd.read_csv(io.StringIO(done.out)), metric.transform(X), rtol=1e-9)
    assert genmetric("inspect", path).code == 0
    assert "has no predict" in genmetric("predict", path, wine).err
    package.save(package.GenerativeMetric().fit(X.to_numpy(), pd.read_csv(wine)["cultivar"]), path)
    done = genmetric("transform", path, wine)
    assert done.code == 2
    assert "the model has no column names. Fit it with genmetric fit" in done.err


@pytest.mark.parametrize("method", ["uniform", "standardised"])
def test_a_streamed_fit_equals_a_fit_in_memory(genmetric, two_classes, tmp_path, method):
    table, whole, parts = two_classes(), tmp_path / "whole.gm", tmp_path / "parts.gm"
    words = ["fit", table, "-t", "y", "-m", method, "-k", 5]
    assert genmetric(*words, "-o", whole).code == 0
    done = genmetric(*words, "-o", parts, "--stream")
    assert done.code == 0, done.err
    assert "from 2000 rows" in done.err
    maps = [package.inspection.linear_map(package.load(path)).metric for path in (whole, parts)]
    np.testing.assert_allclose(*maps, rtol=1e-8, atol=1e-12)
    assert genmetric("predict", whole, table).out == genmetric("predict", parts, table).out
    assert "2000 rows of two.csv, streamed" in genmetric("inspect", parts).out


def test_large_files_are_streamed(genmetric, two_classes, tmp_path, numbers, monkeypatch):
    monkeypatch.setattr("genmetric.cli.fit.STREAM_BYTES", 1000)
    out = tmp_path / "m.gm"
    done = genmetric("fit", two_classes(), "-t", "y", "-o", out, "--keep-rows", 100)
    assert done.code == 0, done.err
    assert "generative from 2000 rows" in done.err
    assert package.load(out)["neighbors"].n_samples_fit_ == 100
    done = genmetric("fit", numbers, "-t", "y", "-o", out)
    assert done.code == 0, done.err
    assert "regression from 60 rows" in done.err


# --- neighbours -----------------------------------------------------------------------------------


def test_neighbors_are_explained_by_columns_in_original_units(genmetric, two_classes, tmp_path):
    table, out = two_classes(200), tmp_path / "m.gm"
    assert genmetric("fit", table, "-t", "y", "-m", "uniform", "-o", out, "-q").code == 0
    done = genmetric("neighbors", out, table, table, "-k", 2, "--top", 4)
    assert (done.code, done.err) == (0, "")
    found = pd.read_csv(io.StringIO(done.out))
    assert len(found) == 400
    frame = pd.read_csv(table)
    z = package.load(out)[:-1].transform(frame)
    assert (found["query"] != found["neighbor"]).all()
    gaps = np.linalg.norm(z[found["query"] - 1] - z[found["neighbor"] - 1], axis=1)
    np.testing.assert_allclose(found["distance"], gaps, rtol=1e-6)
    shares = found["top_columns"].str.findall(r"(-?\d+)%").map(lambda texts: sum(map(int, texts)))
    assert shares.between(96, 104).all()
    assert found["neighbor_y"].tolist() == frame["y"].iloc[found["neighbor"] - 1].tolist()
    query, neighbor = frame.iloc[0], frame.iloc[found["neighbor"][0] - 1]
    assert f"({query['a']:.6g}, {neighbor['a']:.6g})" in found["top_columns"][0]
    assert "d_p" not in done.out


def test_neighbors_show_the_cells_of_the_tables(genmetric, tmp_path):
    """Not what the encoder makes of cells that are missing, unknown or cannot be read."""
    rng = np.random.default_rng(0)
    rows = [
        f"{'yes' if i % 3 else 'no'},{20 + rng.normal()!r},{('Berlin', 'Bonn', 'Kiel')[i % 7 % 3]},"
        f"2024-0{1 + i % 9}-1{i % 5},{'low' if i % 2 else 'high'}"
        for i in range(90)
    ]
    table, new, out = tmp_path / "flats.csv", tmp_path / "new.csv", tmp_path / "m.gm"
    head = "balcony,temperature,city,day,rent"
    table.write_text("\n".join([head, *rows]) + "\n")
    new.write_text(f"{head}\n,,München,soon,\nno,21.5,Kiel,2024-02-03,\n")
    done = genmetric("fit", table, "-t", "rent", "-m", "standardized", "-o", out, "-q")
    assert done.code == 0, done.err
    done = genmetric("neighbors", out, table, new, "-k", 60, "--top", 4)
    assert done.code == 0, done.err
    near = {"balcony": "yes|no", "temperature": r"\d\d\.\d{1,4}", "city": "Berlin|Bonn|Kiel"}
    near["day"] = r"2024-0\d-1\d"
    asked = [["missing", "missing", "München", "soon"], ["no", "21.5", "Kiel", "2024-02-03"]]
    for number, cells in enumerate(asked, 1):
        why = " ".join(r["top_columns"] for r in rows_of(done.out) if r["query"] == str(number))
        for (name, pattern), cell in zip(near.items(), cells, strict=True):
            shown = re.findall(rf"{name} -?\d+% \(([^)]*)\)", why)
            assert shown
            assert all(re.fullmatch(rf"{re.escape(cell)}, ({pattern})", pair) for pair in shown)


def test_neighbors_of_other_files_with_ids(genmetric, wine, model, tmp_path):
    head, *rows = wine.read_text().splitlines(keepends=True)
    (tmp_path / "new.csv").write_text(head + "".join(rows[:3]))
    done = genmetric("neighbors", model, wine, tmp_path / "new.csv", "-k", 1)
    found = rows_of(done.out)
    assert [row["query"] for row in found] == ["w0", "w1", "w2"]
    assert [row["neighbor"] for row in found] == ["w0", "w1", "w2"]
    assert {row["top_columns"] for row in found} == {"equal"}
    (tmp_path / "one.csv").write_text(head + rows[0])
    done = genmetric("neighbors", model, tmp_path / "one.csv", tmp_path / "one.csv")
    assert (done.code, done.out) == (2, "")
    assert "REFERENCE has no other row to be a neighbour" in done.err

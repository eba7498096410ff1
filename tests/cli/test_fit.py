"""Models from tables: fitted, applied to new rows, streamed."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest

import genmetric as package
from genmetric.files import read_header


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def columns(path, *names):
    with path.open() as file:
        listed = list(csv.DictReader(file))
    return [[row[name] for row in listed] for name in names]


def wine_frame(path):
    pandas = pytest.importorskip("pandas")
    return pandas.read_csv(path)


def wine_arrays():
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return X, np.array([f"class {k}" for k in y])


def test_the_saved_model_is_the_pipeline_it_says(model):
    from sklearn.preprocessing import StandardScaler

    X, y = wine_arrays()
    loaded = package.load(model)
    assert [name for name, _ in loaded.steps] == ["columns", "scale", "metric", "neighbors"]
    metric = package.GenerativeMetric().fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_allclose(loaded["metric"].metric_, metric.metric_, rtol=1e-10)
    header = read_header(model)["command"]
    assert header["method"] == "uniform"
    assert header["training"]["rows"] == 178
    assert header["training"]["classes"] == {"class 0": 59, "class 1": 71, "class 2": 48}
    assert header["target"] == "cultivar"
    assert header["id"] == "name"


def test_transform_and_predict_agree_with_python(genmetric, wine, model):
    X, y = wine_frame(wine), wine_arrays()[1]
    loaded = package.load(model)
    done = genmetric("transform", model, wine, "--keep", "cultivar")
    assert (done.code, done.err) == (0, "")
    found = rows_of(done.out)
    assert list(found[0]) == ["name", "cultivar", *(f"z{j}" for j in range(1, 14))]
    z = np.array([[float(row[f"z{j}"]) for j in range(1, 14)] for row in found])
    np.testing.assert_allclose(z, loaded[:-1].transform(X), rtol=1e-12, atol=1e-14)
    assert [row["cultivar"] for row in found] == y.tolist()

    done = genmetric("predict", model, wine, "--proba")
    assert done.code == 0
    found = rows_of(done.out)
    assert [row["predicted"] for row in found] == loaded.predict(X).tolist()
    shares = [[float(row[f"p_class {c}"]) for c in range(3)] for row in found]
    np.testing.assert_allclose(shares, loaded.predict_proba(X), rtol=5.1e-4)
    n_wrong = int((loaded.predict(X) != y).sum())
    assert done.err.startswith(f"error rate {100 * n_wrong / 178:.1f}%: {n_wrong} of 178 rows ")


def test_new_rows_need_only_the_features(genmetric, wine, model, tmp_path):
    """Other columns are ignored, the order is free, classes and names of rows are not needed."""
    with wine.open() as file:
        listed = list(csv.DictReader(file))[:5]
    fields = [n for n in reversed(listed[0]) if n not in ("name", "cultivar")]
    path = tmp_path / "new.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*fields, "remark"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**row, "remark": "a, b"} for row in listed)
    done = genmetric("predict", model, path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "predicted"
    expected = genmetric("predict", model, wine).out.splitlines()[1:6]
    assert done.out.splitlines()[1:] == [line.partition(",")[2] for line in expected]


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet"])
def test_output_format_follows_the_file_name(genmetric, wine, model, tmp_path, name):
    from genmetric.tables import read_table

    out = tmp_path / name
    done = genmetric("predict", model, wine, "-o", out, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert read_table(out).shape == (178, 2)
    assert list(read_table(out)) == ["name", "predicted"]
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "method",
    [
        "cv",
        "kde",
        "gmm",
        "lmnn",
        "nca",
        "lda",
        "energy",
        "local",
        "mkl",
        "standardised",
        "euclidean",
    ],
)
def test_every_method_predicts(genmetric, wine, tmp_path, method):
    model = tmp_path / "m.gm"
    done = genmetric("fit", wine, "-t", "cultivar", "--id", "name", "-m", method, "-o", model)
    assert done.code == 0, done.err
    assert done.err.startswith(f"{model}: {method} from 178 rows, 13 features, 3 classes")
    done = genmetric("predict", model, wine, "-o", tmp_path / "p.csv")
    assert done.code == 0, done.err
    wrong = int(done.err.split()[3])
    assert wrong < (60 if method == "euclidean" else 9)
    done = genmetric("inspect", model)
    assert done.code == 0, done.err
    done = genmetric("transform", model, wine)
    if method in ("local", "mkl"):
        assert done.code == 2
        assert "does not have a single metric" in done.err
    else:
        assert done.code == 0, done.err
        assert done.out.count("\n") == 179


def test_settings_reach_the_metric(genmetric, wine, tmp_path):
    model = tmp_path / "m.gm"
    words = ["fit", wine, "-t", "cultivar", "--id", "name", "-o", model, "-q"]
    assert genmetric(*words, "--shrinkage", "none", "--interpolation", 0.5, "-k", 7).code == 0
    loaded = package.load(model)
    assert loaded["metric"].shrinkage is None
    assert loaded["metric"].interpolation == 0.5
    assert loaded["neighbors"].n_neighbors == 7
    assert genmetric(*words, "--shrinkage", 0.25, "--raw").code == 0
    loaded = package.load(model)
    assert loaded["metric"].shrinkage == 0.25
    assert not loaded["scale"].with_std


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--shrinkage", "2"], "none, auto or a number from 0 to 1"),
        (["--shrinkage", "much"], "none, auto or a number from 0 to 1"),
        (
            ["--shrinkage", "0.1", "-m", "cv"],
            "--shrinkage needs one of the methods uniform, kde, gmm; got cv.",
        ),
        (
            ["-k", "3", "-m", "mkl"],
            "--neighbors needs a method that votes among neighbours; got mkl.",
        ),
        (["--raw", "-m", "energy"], "--raw is not available for the method energy."),
        (["--stream", "-m", "lmnn"], "needs all rows in memory"),
    ],
)
def test_settings_that_do_not_fit_the_method(genmetric, wine, tmp_path, extra, words):
    model = tmp_path / "m.gm"
    done = genmetric("fit", wine, "-t", "cultivar", "--id", "name", "-o", model, *extra)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1
    assert not model.exists()


def test_words_and_gaps_in_new_rows(genmetric, tmp_path):
    data, model = tmp_path / "t.csv", tmp_path / "m.gm"
    lines = [f"{i % 9},{'pqr'[i % 3]},{'uv'[i % 9 > 4]}" for i in range(90)]
    data.write_text("a,c,y\n" + "\n".join(lines) + "\n,p,u\n3,,v\n")
    done = genmetric("fit", data, "-t", "y", "-o", model)
    assert done.code == 0, done.err
    assert package.load(model)["scale"].n_features_in_ == 5
    new = tmp_path / "new.csv"
    new.write_text("c,a\nq,\nzebra,1\n,2\n")
    done = genmetric("predict", model, new)
    assert done.code == 0
    assert done.out.count("\n") == 4
    assert "column 'c' has categories that the training data does not have ('zebra')" in done.err


def test_streams_learn_the_same_metric(genmetric, two_classes, tmp_path, monkeypatch):
    path = two_classes(3000)
    whole, stream = tmp_path / "whole.gm", tmp_path / "stream.gm"
    words = ["fit", path, "-t", "y", "-m", "uniform"]
    assert genmetric(*words, "-o", whole).code == 0
    monkeypatch.setattr("genmetric.tables._blocks.BLOCK_BYTES", 20_000)
    done = genmetric(*words, "-o", stream, "--stream", "--keep-rows", 1000)
    assert done.code == 0, done.err
    assert "random sample of 1000 of the 3000 rows" in done.err
    a, b = package.load(whole), package.load(stream)
    np.testing.assert_allclose(a["scale"].scale_, b["scale"].scale_, rtol=1e-10)
    np.testing.assert_allclose(a["metric"].metric_, b["metric"].metric_, rtol=1e-8)
    assert b["neighbors"].n_samples_fit_ == 1000
    facts = read_header(stream)["command"]["training"]
    assert facts["rows"] == 3000
    assert facts["streamed"]
    done = genmetric("predict", stream, path, "-o", tmp_path / "p.csv")
    assert int(done.err.split()[3]) < 450


def test_streams_average_a_sample_of_the_rows(genmetric, tmp_path, rng):
    path, model = tmp_path / "t.csv", tmp_path / "m.gm"
    y = rng.integers(0, 2, 2000)
    X = rng.normal(size=(2000, 6)) * np.where(y[:, None], [1, 1, 1, 2, 2, 2], [2, 2, 2, 1, 1, 1])
    lines = [",".join(map(repr, [*row, k])) for row, k in zip(X.tolist(), y.tolist(), strict=True)]
    path.write_text("a,b,c,d,e,f,y\n" + "\n".join(lines) + "\n")
    words = ["fit", path, "-t", "y", "-o", model, "--stream"]
    done = genmetric(*words, "--average-rows", 500)
    assert done.code == 0, done.err
    assert "averaged over 500 of 2000 rows" in done.err
    facts = read_header(model)["command"]["training"]
    assert facts["averaged_rows"] == 500
    assert 0 < facts["metric_stderr"] < 0.2


def test_streams_with_words_and_gaps(genmetric, tmp_path):
    data = tmp_path / "t.csv"
    lines = [f"{i % 9},{'pqr'[i % 3]},{'uv'[i % 9 > 4]}" for i in range(90)]
    data.write_text("a,c,y\n" + "\n".join(lines) + "\n,p,u\n3,,v\n")
    words = ["fit", data, "-t", "y", "-m", "uniform", "-q", "-o"]
    assert genmetric(*words, tmp_path / "whole.gm").code == 0
    assert genmetric(*words, tmp_path / "stream.gm", "--stream").code == 0
    a, b = (package.load(tmp_path / name) for name in ("whole.gm", "stream.gm"))
    np.testing.assert_allclose(a["metric"].metric_, b["metric"].metric_, rtol=1e-8)


def test_large_files_are_streamed_automatically(genmetric, two_classes, tmp_path, monkeypatch):
    monkeypatch.setattr("genmetric.cli._fit.STREAM_BYTES", 1000)
    model = tmp_path / "m.gm"
    assert genmetric("fit", two_classes(500), "-t", "y", "-o", model, "-q").code == 0
    assert read_header(model)["command"]["training"]["streamed"]
    assert read_header(model)["command"]["method"] == "uniform"


def test_models_that_python_saved(genmetric, wine, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(wine)
    X, y = frame.drop(columns=["name", "cultivar"]), frame["cultivar"]
    named, bare = tmp_path / "named.gm", tmp_path / "bare.gm"
    metric = package.GenerativeMetric().fit(X, y)
    package.save(metric, named)
    package.save(package.GenerativeMetric().fit(X.to_numpy(), y), bare)
    done = genmetric("transform", named, wine)
    assert done.code == 0, done.err
    z = np.array([[float(v) for v in line.split(",")] for line in done.out.split()[1:]])
    np.testing.assert_allclose(z, metric.transform(X), rtol=1e-9, atol=1e-9)
    assert genmetric("inspect", named).code == 0
    done = genmetric("predict", named, wine)
    assert done.code == 2
    assert "does not predict" in done.err
    done = genmetric("transform", bare, wine)
    assert done.code == 2
    assert "the model has no column names" in done.err


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"PK\x03\x04nonsense"])
def test_damaged_models(genmetric, wine, tmp_path, damage):
    path = tmp_path / "m.gm"
    path.write_bytes(damage)
    for words in (["inspect", path], ["predict", path, wine], ["neighbors", path, wine, wine]):
        done = genmetric(*words)
        assert done.code == 2
        assert done.err.count("\n") == 1
        assert str(path) in done.err


def test_inspect(genmetric, model):
    done = genmetric("inspect", model)
    assert (done.code, done.err) == (0, "")
    for words in ("178 rows of wine.csv", "class 1", "71", "effective rank", "proline", "spectrum"):
        assert words in done.out
    found = json.loads(genmetric("inspect", model, "--json").out)
    loaded = package.load(model)
    metric = loaded["metric"].metric_
    X, _ = wine_arrays()
    parts = (metric * np.corrcoef(X, rowvar=False)).sum(axis=1)
    names = found["features"]
    given = [found["contributions"][n] for n in names]
    np.testing.assert_allclose(given, parts / parts.sum(), rtol=1e-9)
    values = np.linalg.eigvalsh(metric)[::-1]
    np.testing.assert_allclose(found["spectrum"], values / values.mean(), rtol=1e-9)
    share = values / values.sum()
    np.testing.assert_allclose(found["effective_rank"], np.exp(-(share * np.log(share)).sum()))
    assert 1 <= found["effective_rank"] <= 13
    few = genmetric("inspect", model, "--top", 2).out
    assert "and 11 more (--all)" in few
    assert "more (--all)" not in genmetric("inspect", model, "--all").out


def test_contributions_of_raw_features_are_their_variances(genmetric, wine, tmp_path):
    model = tmp_path / "m.gm"
    words = ["fit", wine, "-t", "cultivar", "--id", "name", "-m", "euclidean", "-q", "-o", model]
    assert genmetric(*words).code == 0
    found = json.loads(genmetric("inspect", model, "--json").out)
    X, _ = wine_arrays()
    share = X.var(axis=0) / X.var(axis=0).sum()
    np.testing.assert_allclose(
        [found["contributions"][n] for n in found["features"]], share, rtol=1e-9
    )


def test_fit_prints_a_summary_and_the_next_command(genmetric, wine, tmp_path):
    out = tmp_path / "m.gm"
    words = ["fit", wine, "-t", "cultivar", "--id", "name", "-m", "standardised", "-o", out]
    done = genmetric(*words)
    assert done.err.endswith(f".\nNext: genmetric predict {out} NEW.csv\n")
    assert "The former file is replaced." not in done.err
    assert "The former file is replaced.\nNext" in genmetric(*words).err
    shown = genmetric("inspect", out).out
    assert "This method weights all features equally; nothing was learned." in shown
    assert "contributions" not in shown


def test_missing_options_have_an_example(genmetric, wine):
    done = genmetric("fit", wine)
    assert done.code == 2
    assert done.err.endswith("Example: genmetric fit data.csv --target COLUMN --output model.gm\n")


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "absent.csv", "-t", "y"],
        ["compare", "t.csv", "-t", "y", "--scoring", "auc"],
        ["compare", "t.csv", "-t", "y", "--methods", "magic"],
        ["compare", "t.csv", "-t", "Y"],
        ["fit", "t.csv", "-t", "y", "-o", "m.gm", "--method", "magic"],
        ["fit", "t.csv", "-t", "Y", "-o", "m.gm"],
        ["fit", "t.csv", "-t", "y", "--drop", "b", "-o", "m.gm"],
        ["predict", "absent.gm", "t.csv"],
        ["predict", "t.csv", "absent.csv"],
        ["transform", "t.csv", "absent.csv"],
        ["neighbors", "t.csv", "t.csv", "absent.csv"],
    ],
    ids=" ".join,
)
def test_wrong_arguments_are_found_before_slow_imports(words, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,u\n")
    code = (
        "import sys; from genmetric.cli import main; code = main(sys.argv[1:]);"
        "sys.exit(code if not {'sklearn', 'scipy'} & sys.modules.keys() else 99)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 2, done.stderr


def test_predictions_of_the_training_rows_are_marked(genmetric, wine, model, tmp_path):
    done = genmetric("predict", model, wine, "-o", tmp_path / "p.csv")
    assert (
        "The model was fitted on a file of this name and size; its leave-one-out error" in done.err
    )
    part = tmp_path / "wine.csv"
    part.write_text("\n".join(wine.read_text().splitlines()[:100]) + "\n")
    done = genmetric("predict", model, part, "-o", tmp_path / "p.csv")
    assert done.err.startswith("error rate ")
    assert "fitted on" not in done.err


def test_the_next_command_has_the_format_of_the_table(genmetric, tmp_path, two_classes):
    pd = pytest.importorskip("pandas")
    path = tmp_path / "t.parquet"
    pd.read_csv(two_classes(60)).to_parquet(path)
    out = tmp_path / "m.gm"
    done = genmetric("fit", path, "-t", "y", "-m", "lda", "-o", out)
    assert done.err.endswith(f"Next: genmetric predict {out} NEW.parquet\n")


def test_negative_contributions_have_other_bars():
    from genmetric.cli._inspect import lines_of

    found = {
        "file": "m.gm", "method": "cv", "class": "x", "genmetric": "0.1", "target": None, "id": None,
        "columns": ["a", "b"], "features": ["a", "b"], "spectrum": [2.0, 1.0],
        "effective_rank": 1.8, "contributions": {"a": 1.2, "b": -0.2},
    }  # fmt: skip
    assert lines_of(found, None)[-2:] == [
        f"  a   120.0%  {'#' * 30}",
        f"  b   -20.0%  {'-' * 5}",
    ]

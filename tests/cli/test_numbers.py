"""Commands on tables with a numeric target."""

import json

import numpy as np
import pytest


def write_table(path, target, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    lines = ["a,b,c,y", *(f"{a},{b},{c},{target(a, i)}" for i, (a, b, c) in enumerate(X))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("numbers") / "numbers.csv"
    return write_table(path, lambda a, i: round(50 + 7 * a + 0.1 * (i % 3), 3))


@pytest.fixture(scope="module")
def model(table, tmp_path_factory):
    from genmetric.cli import main

    path = tmp_path_factory.mktemp("model") / "numbers.gm"
    words = ["fit", table, "-t", "y", "--method", "regression", "-q", "-o", path]
    assert main([str(word) for word in words]) == 0
    return path


def test_compare_prints_the_decision_and_the_next_command(genmetric, table):
    words = ["--methods", "mean,standardised,regression", "--folds", "3", "--repeats", "2"]
    found = genmetric("compare", table, "-t", "y", *words)
    assert found.code == 0
    assert "target y: a number, 60 distinct values in 60 rows" in found.err
    assert "numeric target" in found.out
    assert "R²" in found.out
    assert "Next: genmetric fit" in found.err
    assert "--method regression" in found.err


def test_compare_as_json(genmetric, table):
    words = ["--methods", "standardised", "--scoring", "mae", "--folds", "2", "--json", "-q"]
    found = json.loads(genmetric("compare", table, "-t", "y", *words).out)
    assert (found["task"], found["scoring"], found["classes"]) == ("regression", "mae", {})
    assert 0 < found["methods"][0]["score"] < 10


def test_fit_prints_what_it_learned(genmetric, table, tmp_path):
    words = ["-t", "y", "--method", "standardised", "-o", tmp_path / "m.gm"]
    found = genmetric("fit", table, *words)
    assert found.code == 0
    assert "3 features, numeric target; n_neighbors" in found.err
    assert "leave-one-out R² 0." in found.err
    shown = genmetric("inspect", tmp_path / "m.gm")
    assert "numbers from " in shown.out
    assert "R² 0." in shown.out


def test_predict_reports_the_error_if_the_target_is_known(genmetric, table, model, tmp_path):
    out = tmp_path / "p.csv"
    found = genmetric("predict", model, table, "-o", out)
    assert found.code == 0
    header, *rows = out.read_text().splitlines()
    assert header == "predicted"
    predicted = np.array(rows, float)
    actual = np.genfromtxt(table, delimiter=",", names=True)["y"]
    error = np.mean(np.abs(actual - predicted))
    assert f"mean absolute error {error:.4g}: 60 rows compared with 'y'." in found.err
    assert "R² 0.9" in found.err


def test_neighbors_show_the_target(genmetric, table, model):
    found = genmetric("neighbors", model, table, table, "-k", "1")
    header, first, *_ = found.out.splitlines()
    names = header.split(",")
    assert names[:5] == ["query", "rank", "neighbor", "distance", "neighbor_y"]
    cells = dict(zip(names, first.split(","), strict=True))
    actual = np.genfromtxt(table, delimiter=",", names=True)["y"]
    assert float(cells["neighbor_y"]) == actual[int(cells["neighbor"]) - 1]


def test_kernel_regression_is_saved(genmetric, table, tmp_path):
    model = tmp_path / "k.gm"
    words = ["-t", "y", "--method", "kernel_regression", "-o", model]
    found = genmetric("fit", table, *words)
    assert found.code == 0
    assert "bandwidth " in found.err
    assert genmetric("predict", model, table, "-o", tmp_path / "p.csv").code == 0


def test_two_numbers_are_classes(genmetric, tmp_path):
    path = write_table(tmp_path / "two.csv", lambda a, _: int(a > 0))
    words = ["--methods", "standardised", "--folds", "2", "--repeats", "1"]
    found = genmetric("compare", path, "-t", "y", *words)
    assert found.code == 0
    assert "2 classes" in found.out


@pytest.mark.parametrize(
    ("target", "words", "message"),
    [
        (lambda a, _: int(a > 0), ["--task", "number"], "too few distinct values for a number"),
        (lambda *_: 5, ["--task", "number"], "too few distinct values for a number (5)"),
        (lambda *_: 5, [], "contains a single class, '5'"),
        (lambda a, _: "up" if a > 0 else "down", ["--task", "number"], "Use --task classes."),
        (lambda a, _: a, ["--method", "uniform"], "--method uniform is not for the target y"),
        (lambda a, _: a, ["--stream", "-m", "uniform"], "--method uniform is not for the target y"),
        (lambda a, _: a, ["--stream", "-m", "mlkr"], "--method mlkr needs all rows in memory"),
        (lambda a, i: "1e400" if i == 5 else a, ["--stream"], "line 7: the target 'y' is infinite"),
        (lambda _, i: i % 3, ["--method", "mlkr"], "--method mlkr is not for the target y"),
    ],
)
def test_invalid_targets_give_one_line(genmetric, tmp_path, target, words, message):
    path = write_table(tmp_path / "bad.csv", target)
    found = genmetric("fit", path, "-t", "y", "-q", "-o", tmp_path / "m.gm", *words)
    assert found.code == 2
    assert message in found.err
    assert len(found.err.strip().splitlines()) == 1


def test_cells_that_are_not_numbers_are_left_out(genmetric, tmp_path):
    path = write_table(tmp_path / "few.csv", lambda a, i: "broken" if i == 7 else a)
    words = ["-t", "y", "--task", "number", "--method", "standardised", "-o", tmp_path / "m.gm"]
    found = genmetric("fit", path, *words)
    assert found.code == 0
    assert "1 row has a target 'y' that is not a number" in found.err
    assert "from 59 rows" in found.err


class TestStreams:
    def fit(self, genmetric, table, path, *words):
        done = genmetric("fit", table, "-t", "y", "-o", path, "--stream", *words)
        assert done.code == 0
        return done

    def test_the_metric_is_that_of_the_slices_of_all_rows(self, genmetric, table, tmp_path):
        import pandas as pd

        import genmetric as package

        model = tmp_path / "stream.gm"
        done = self.fit(genmetric, table, model)
        assert "regression from 60 rows, 3 features, numeric target; n_neighbors" in done.err
        assert "fitted in batches with method slices." in done.err
        assert "leave-one-out R² 0." in done.err
        frame = pd.read_csv(table)
        pipeline = package.load(model)
        X = pipeline["scale"].transform(frame[["a", "b", "c"]].to_numpy())
        expected = package.GenerativeRegressionMetric("slices").fit(X, frame["y"])
        found = pipeline["metric"].metric_
        scale = np.trace(expected.metric_) / np.trace(found)
        np.testing.assert_allclose(scale * found, expected.metric_, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(pipeline["metric"].slice_edges_, expected.slice_edges_)

    def test_several_batches(self, genmetric, table, tmp_path, monkeypatch):
        models = []
        for n_bytes in (1 << 20, 300):
            monkeypatch.setattr("genmetric.tables._blocks.BLOCK_BYTES", n_bytes)
            models.append(tmp_path / f"{n_bytes}.gm")
            self.fit(genmetric, table, models[-1])
        outputs = []
        for model in models:
            out = tmp_path / "p.csv"
            found = genmetric("predict", model, table, "-o", out)
            assert "60 rows compared with 'y'." in found.err
            outputs.append(np.array(out.read_text().splitlines()[1:], float))
        np.testing.assert_allclose(*outputs)

    def test_facts_and_kept_rows(self, genmetric, table, tmp_path):
        model = tmp_path / "m.gm"
        words = ["--method", "standardised", "--keep-rows", 20, "-k", 2]
        done = self.fit(genmetric, table, model, *words)
        assert "predict will use a random sample of 20 of the 60 rows" in done.err
        facts = json.loads(genmetric("inspect", model, "--json").out)
        actual = np.genfromtxt(table, delimiter=",", names=True)["y"]
        assert facts["target_range"] == [actual.min(), actual.max()]
        assert facts["streamed"]
        assert facts["classes"] == {}
        assert facts["parameters"] == {"n_neighbors": 2}

    def test_numbers_with_separators_and_cells_that_are_not_numbers(self, genmetric, tmp_path):
        path = tmp_path / "comma.csv"
        rows = [
            "a;y",
            *(
                f"{i};{'?' if i == 3 else 'broken' if i == 7 else f'1.{i:03d},5'}"
                for i in range(60)
            ),
        ]
        path.write_text("\n".join(rows) + "\n")
        model = tmp_path / "m.gm"
        words = ["--task", "number", "--method", "standardised"]
        done = self.fit(genmetric, path, model, *words)
        assert done.err.count("line 9, column 'y': 'broken' is not a number") == 1
        facts = json.loads(genmetric("inspect", model, "--json").out)
        assert facts["rows"] == 58
        assert facts["target_range"] == [1000.5, 1059.5]
        strict = genmetric(
            "fit", path, "-t", "y", "--task", "number", "-o", model, "--stream", "--strict"
        )
        assert strict.code == 2

    def test_infinite_targets_after_the_sample(self, genmetric, tmp_path, monkeypatch):
        monkeypatch.setattr("genmetric.cli._fit_streaming.PLAN_ROWS", 10)
        path = write_table(tmp_path / "bad.csv", lambda a, i: "1e400" if i == 5 else a)
        words = ["-t", "y", "--task", "number", "-o", tmp_path / "m.gm", "--stream", "-q"]
        found = genmetric("fit", path, *words)
        assert found.code == 2
        assert "bad.csv: line 7: the target 'y' is infinite or beyond" in found.err
        assert not (tmp_path / "m.gm").exists()

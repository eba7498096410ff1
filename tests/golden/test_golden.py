"""Every public estimator gives the numbers it gave before the redesign.

cases.py says what is frozen and how closely, record.py records. The tests below the recorded ones
compare two ways to the same result, without stored values.
"""

import importlib.util
import json
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import genmetric as gm

pytest.importorskip("click")
pytest.importorskip("pyarrow")
pytest.importorskip("faiss")

HERE = Path(__file__).parent


def _cases():
    spec = importlib.util.spec_from_file_location("golden_cases", HERE / "cases.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = _cases()

# Golden tests are about numbers; tests beside the estimators are about warnings.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def golden():
    """Recorded values by case and quantity."""
    found = json.loads((HERE / "golden.json").read_text())
    with np.load(HERE / "golden.npz") as arrays:
        for name, quantities in found.items():
            start = 0
            for key, value in quantities.items():
                if isinstance(value, dict) and "shape" in value:
                    size = int(np.prod(value["shape"]))
                    flat = arrays[name][start : start + size]
                    quantities[key] = flat.reshape(value["shape"])
                    start += size
    return found


@pytest.mark.parametrize("name", cases.CASES)
def test_recorded(name, golden):
    quantities = cases.CASES[name]()
    assert quantities.keys() == golden[name].keys()
    failures = {key: check.failure(golden[name][key]) for key, check in quantities.items()}
    failures = {key: failure for key, failure in failures.items() if failure is not None}
    assert not failures, "\n".join(f"{name} {key} {text}" for key, text in failures.items())


def test_every_recorded_case_is_checked(golden):
    assert golden.keys() == cases.CASES.keys()


# --- several ways to one result -------------------------------------------------------------------


def assert_same_metric(a, b, rtol=1e-9, *, classes=True):
    scale = np.abs(b.metric_).max()
    np.testing.assert_allclose(a.metric_, b.metric_, rtol=0, atol=rtol * scale)
    for name in ("classes_", "slice_edges_"):
        if classes and hasattr(b, name):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("means_", "covariances_"):
        if classes and hasattr(b, name):
            expected = getattr(b, name)
            level = rtol * np.abs(expected).max()
            np.testing.assert_allclose(getattr(a, name), expected, rtol=0, atol=level)


def batches(d, n_batches=5):
    """A function that makes batches of unequal sizes."""
    cuts = (len(d.X) * np.linspace(0, 1, n_batches + 1) ** 1.5).astype(int)

    def make():
        for start, stop in pairwise(cuts):
            yield d.X[start:stop], d.y[start:stop]

    return make


STREAMED = {
    "default": {},
    "pooled": {"base": "pooled"},
    "paper": {"shrinkage": None, "normalization": "determinant"},
    "shrunk": {"shrinkage": 0.3, "interpolation": 0.5},
    "resolvent": {"solver": "resolvent", "base": "pooled"},
    "components": {"n_components": 3},
}


#: Variants and datasets; the paper's covariances are singular on ionosphere, digits are slow.
STREAMS = [
    (variant, dataset)
    for variant in STREAMED
    for dataset in ("iris", "vehicle", "ionosphere", "digits")
    if not (variant == "paper" and dataset == "ionosphere")
    and not (variant not in ("default", "pooled") and dataset == "digits")
]


@pytest.mark.parametrize(("variant", "dataset"), STREAMS)
def test_batches_and_partial_fits_give_the_metric_of_fit(variant, dataset):
    d, parameters = cases.data(dataset), STREAMED[variant]
    whole = gm.GenerativeMetric(**parameters).fit(d.X, d.y)
    assert_same_metric(gm.GenerativeMetric(**parameters).fit_batches(batches(d)), whole)
    streamed = gm.GenerativeMetric(**parameters)
    for X, y in batches(d)():
        streamed.partial_fit(X, y, classes=np.unique(d.y))
    assert_same_metric(streamed, whole)


@pytest.mark.parametrize("dataset", ["diabetes", "alcohol"])
@pytest.mark.parametrize("n_slices", [None, 3])
def test_batches_give_the_regression_metric_of_fit(dataset, n_slices):
    """Slices can be streamed; the other methods need all samples at once."""
    d = cases.data(dataset)
    whole = gm.GenerativeRegressionMetric("slices", n_slices=n_slices).fit(d.X, d.y)
    streamed = gm.GenerativeRegressionMetric("slices", n_slices=n_slices)
    assert_same_metric(streamed.fit_batches(batches(d)), whole)
    first = gm.GenerativeRegressionMetric("slices", n_slices=n_slices).partial_fit(d.X, d.y)
    assert_same_metric(first, whole)
    half = len(d.X) // 2
    halves = gm.GenerativeRegressionMetric("slices", n_slices=3)
    halves.partial_fit(d.X[:half], d.y[:half]).partial_fit(d.X[half:], d.y[half:])
    slices = np.searchsorted(halves.slice_edges_, d.y)
    assert_same_metric(halves, gm.GenerativeMetric(base="pooled").fit(d.X, slices), classes=False)


@pytest.mark.parametrize("dataset", ["digits", "vehicle"])
def test_partial_fits_of_embeddings_see_all_samples(dataset):
    """Which samples select the map is not frozen; its mean is that of all."""
    d = cases.data(dataset)
    whole = gm.EmbeddingAdapter(random_state=0).fit(d.X + 0.1, d.y)
    streamed = gm.EmbeddingAdapter(random_state=0)
    for X, y in batches(d)():
        streamed.partial_fit(X + 0.1, y, classes=np.unique(d.y))
    np.testing.assert_allclose(streamed.mean_, whole.mean_, rtol=1e-9, atol=1e-12)
    assert streamed.n_samples_seen_ == len(d.X)
    score, expected = cases.embedding_score(streamed, d), cases.embedding_score(whole, d)
    assert score > expected - 0.05


@pytest.mark.parametrize("dataset", ["iris", "vehicle"])
@pytest.mark.parametrize("variant", STREAMED)
def test_dask_gives_the_metric_of_fit(dataset, variant):
    da = pytest.importorskip("dask.array")
    from genmetric.dask import DaskGenerativeMetric

    d, parameters = cases.data(dataset), STREAMED[variant]
    X, y = da.from_array(d.X, chunks=(40, -1)), da.from_array(d.y, chunks=40)
    metric = DaskGenerativeMetric(**parameters).fit(X, y)
    whole = gm.GenerativeMetric(**parameters).fit(d.X, d.y)
    assert_same_metric(metric, whole)
    assert_same_metric(metric.to_local(), whole)
    expected = cases.pair_distances(whole.transform(d.X))
    mapped = metric.transform(X).compute()
    np.testing.assert_allclose(cases.pair_distances(mapped), expected, rtol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("base", ["identity", "pooled"])
def test_weights_are_repetitions(base, weighted):
    d = cases.data("wine")
    weight = np.arange(len(d.X)) % 3
    rows = np.repeat(np.arange(len(d.X)), weight)
    combination = "kde" if weighted else "uniform"
    a = gm.GenerativeMetric(combination, base=base).fit(d.X, d.y, sample_weight=weight)
    b = gm.GenerativeMetric(combination, base=base).fit(d.X[rows], d.y[rows])
    assert_same_metric(a, b, 1e-6 if weighted else 1e-9)


#: Estimators with n_jobs, a dataset, and what must be the same bits.
THREADED = {
    "uniform": (gm.GenerativeMetric(), "vehicle", "metric_"),
    "resolvent": (gm.GenerativeMetric(solver="resolvent"), "vehicle", "metric_"),
    "kde": (gm.GenerativeMetric("kde"), "vehicle", "metric_"),
    "gmm": (gm.GenerativeMetric("gmm", random_state=0), "vehicle", "metric_"),
    "subset": (gm.GenerativeMetric(max_samples=50, random_state=0), "vehicle", "metric_"),
    "cv": (gm.GenerativeMetricCV(cv=2, random_state=0), "wine", "metric_"),
    "regression": (gm.GenerativeRegressionMetric(), "diabetes", "metric_"),
    "lmnn": (gm.LMNN(max_iter=20, random_state=0), "wine", "metric_"),
    "mlkr": (gm.MLKR(max_iter=20, random_state=0), "alcohol", "metric_"),
    "kmeans": (gm.MetricKMeans(3, n_init=2, random_state=0), "wine", "metric_"),
    "embedding": (gm.EmbeddingAdapter(random_state=0), "vehicle", "components_"),
    "local": (gm.LocalMetricClassifier(), "wine", "predict_proba"),
    "energy": (gm.EnergyClassifier(), "vehicle", "decision_function"),
    "kernel_regressor": (gm.KernelRegressor(), "diabetes", "predict"),
    "simplemkl": (
        gm.SimpleMKLClassifier(gm.RegionalKernels(1, scales=[0.5, 2.0])),
        "iris",
        "decision_function",
    ),
    "regional": (gm.RegionalKernels(2, scales=[0.5, 2.0], random_state=0), "wine", "gram"),
}


@pytest.mark.parametrize("name", THREADED)
def test_threads_do_not_change_a_bit(name):
    """Two fits with one seed: their numbers of threads differ."""
    estimator, dataset, what = THREADED[name]
    d = cases.data(dataset)
    found = []
    for n_jobs in (1, 2):
        model = clone(estimator).set_params(n_jobs=n_jobs).fit(d.X, d.y)
        value = getattr(model, what)
        found.append(np.asarray(value(d.X_test) if callable(value) else value))
    np.testing.assert_array_equal(*found)


# --- command line ---------------------------------------------------------------------------------


def read_csv(path):
    import pandas as pd

    return pd.read_csv(path)


@pytest.fixture(scope="module")
def wine_table(tmp_path_factory):
    return cases.write_table(tmp_path_factory.mktemp("golden") / "wine.csv", "wine")


@pytest.fixture(scope="module")
def wine_model(wine_table, tmp_path_factory):
    path = tmp_path_factory.mktemp("golden") / "wine.model"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        words = ["fit", wine_table, "--target", "kind", "--id", "name", "--method", "uniform"]
        done = cases.run(*words, "-o", path, "-q")
    assert done.code == 0, done.err
    assert path.stat().st_size > 0
    return path


@pytest.fixture(scope="module")
def wine_pipeline(wine_table):
    """What the command fits, by the Python interface."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = read_csv(wine_table)
    X = table.drop(columns=["name", "kind"])
    return make_pipeline(StandardScaler(), gm.GenerativeMetric()).fit(X, table["kind"]), X, table


def test_transform_writes_the_space_of_the_python_interface(
    wine_table, wine_model, wine_pipeline, tmp_path
):
    done = cases.run("transform", wine_model, wine_table, "-o", tmp_path / "z.csv", "-q")
    assert done.code == 0, done.err
    written = read_csv(tmp_path / "z.csv")
    assert written["name"].tolist() == wine_pipeline[2]["name"].tolist()
    Z = written.drop(columns="name").to_numpy()
    pipeline, X, _ = wine_pipeline
    expected = pipeline.transform(X)
    assert Z.shape == expected.shape
    distances = cases.pair_distances(np.asarray(expected))
    np.testing.assert_allclose(cases.pair_distances(Z), distances, rtol=1e-8)


def test_predict_writes_a_class_for_each_row(wine_table, wine_model, tmp_path):
    done = cases.run("predict", wine_model, wine_table, "-o", tmp_path / "p.csv", "-q")
    assert done.code == 0, done.err
    written, table = read_csv(tmp_path / "p.csv"), read_csv(wine_table)
    assert written["name"].tolist() == table["name"].tolist()
    predicted = written[next(name for name in written.columns if "predict" in name)]
    assert set(predicted) <= set(table["kind"])
    assert np.mean(predicted != table["kind"]) < 0.03  # 0 of 178 when recorded
    done = cases.run("predict", wine_model, wine_table, "--proba", "-o", tmp_path / "q.csv", "-q")
    assert done.code == 0, done.err
    numbers = read_csv(tmp_path / "q.csv").select_dtypes("number").to_numpy()
    np.testing.assert_allclose(numbers.sum(axis=1), 1, atol=1e-6)


def test_neighbors_are_those_of_the_python_interface(
    wine_table, wine_model, wine_pipeline, tmp_path
):
    words = ["neighbors", wine_model, wine_table, wine_table, "--id", "name", "-k", 2]
    done = cases.run(*words, "-o", tmp_path / "n.csv", "-q")
    assert done.code == 0, done.err
    written = read_csv(tmp_path / "n.csv")
    assert len(written) == 2 * 178
    from sklearn.neighbors import NearestNeighbors

    pipeline, X, table = wine_pipeline
    search = NearestNeighbors(n_neighbors=2).fit(pipeline.transform(X))
    distances, indices = search.kneighbors()
    np.testing.assert_allclose(written["distance"], distances.ravel(), rtol=2e-3)
    names = table["name"].to_numpy()[indices].ravel()
    assert np.mean(written["neighbor"].to_numpy() == names) > 0.99


def test_inspect_shows_the_shares_of_the_features(wine_model, wine_pipeline):
    from genmetric.inspection import feature_contributions

    done = cases.run("inspect", wine_model, "--json")
    assert done.code == 0, done.err
    shown = json.loads(done.out)["contributions"]
    pipeline, X, _ = wine_pipeline
    expected = feature_contributions(pipeline, X)
    assert shown.keys() == expected.keys()
    for name, share in expected.items():
        assert abs(shown[name] - share) < 0.01, name
    assert cases.run("inspect", wine_model).code == 0


def test_numbers_are_predicted(wine_table, tmp_path):
    words = ["fit", wine_table, "--target", "alcohol", "--id", "name", "--drop", "kind"]
    done = cases.run(*words, "--method", "regression", "-o", tmp_path / "model", "-q")
    assert done.code == 0, done.err
    done = cases.run("predict", tmp_path / "model", wine_table, "-o", tmp_path / "p.csv", "-q")
    assert done.code == 0, done.err
    written, table = read_csv(tmp_path / "p.csv"), read_csv(wine_table)
    predicted = written[next(name for name in written.columns if "predict" in name)]
    assert np.corrcoef(predicted, table["alcohol"])[0, 1] > 0.8


BAD = {
    "no file": ["fit", "nowhere.csv", "--target", "kind", "-o", "out"],
    "no column": ["fit", "TABLE", "--target", "nothing", "-o", "out"],
    "no method": ["fit", "TABLE", "--target", "kind", "--method", "magic", "-o", "out"],
    "empty file": ["fit", "EMPTY", "--target", "kind", "-o", "out"],
    "not a model": ["transform", "TABLE", "TABLE", "-o", "out.csv"],
    "damaged model": ["predict", "DAMAGED", "TABLE", "-o", "out.csv"],
    "other columns": ["transform", "MODEL", "OTHER", "-o", "out.csv"],
    "no table of the paper": ["reproduce", "huge", "--output", "out"],
    "no target to compare": ["compare", "TABLE", "--target", "nothing", "--report", "out.html"],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_code_2(name, wine_table, wine_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.csv").write_text("")
    Path("damaged").write_bytes(wine_model.read_bytes()[:-500])
    cases.write_table(Path("other.csv"), "iris")
    places = {
        "TABLE": wine_table,
        "MODEL": wine_model,
        "EMPTY": "empty.csv",
        "DAMAGED": "damaged",
        "OTHER": "other.csv",
    }
    before = sorted(Path().iterdir())
    done = cases.run(*(places.get(word, word) for word in BAD[name]))
    assert done.code == 2
    assert done.out == ""
    # A usage line of the option parser may come before the message.
    lines = [
        line for line in done.err.splitlines() if line and not line.startswith(("Usage", "Try"))
    ]
    assert len(lines) == 1, done.err
    assert "Traceback" not in done.err
    assert sorted(Path().iterdir()) == before


def test_saved_estimators_predict_the_same(tmp_path):
    d = cases.data("wine")
    for estimator in (gm.GenerativeMetric(), gm.EnergyClassifier(gm.GenerativeMetric())):
        estimator.fit(d.X, d.y)
        gm.save(estimator, tmp_path / "model")
        again = gm.load(tmp_path / "model")
        name = "transform" if hasattr(estimator, "transform") else "decision_function"
        expected = getattr(estimator, name)(d.X_test)
        np.testing.assert_array_equal(getattr(again, name)(d.X_test), expected)
        (tmp_path / "model").unlink()

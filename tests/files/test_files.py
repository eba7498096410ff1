"""Model files: every estimator makes the round trip, and a bad file gives one clear line."""

import io
import json
import os
import stat
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import genmetric
from genmetric import GenerativeMetric, load, save
from genmetric.files import TRUSTED_TYPES, ModelFileError, write_atomically

X, Y = load_iris(return_X_y=True)
XR, YR = (a[:120] for a in load_diabetes(return_X_y=True))

ESTIMATORS = [
    GenerativeMetric(base="pooled"),
    GenerativeMetric("kde"),
    GenerativeMetric(genmetric.GaussianMixtureWeights(max_iter=2), random_state=0),
    GenerativeMetric(class_model=genmetric.GaussianMixtureModel(2), random_state=0),
    genmetric.GenerativeMetricCV(),
    genmetric.LMNN(max_iter=5),
    genmetric.EmbeddingAdapter(),
    genmetric.LocalMetricClassifier(),
    genmetric.EnergyClassifier(GenerativeMetric()),
    genmetric.SimpleMKLClassifier(),
    genmetric.RegionalKernels(),
    genmetric.MetricKMeans(3, random_state=0),
    genmetric.GaussianModel(),
    genmetric.GaussianMixtureModel(2, random_state=0),
    make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier()),
    make_pipeline(PCA(2), LogisticRegression()),
    make_pipeline(ColumnTransformer([("hot", OneHotEncoder(), [0])]), LogisticRegression()),
]
REGRESSORS = [
    genmetric.GenerativeRegressionMetric(),
    genmetric.GenerativeRegressionMetricCV(),
    genmetric.MLKR(max_iter=3),
    genmetric.KernelRegressor(),
]


def answers(model, x):
    names = ("predict", "predict_proba", "decision_function", "transform", "log_density")
    return [getattr(model, name)(x) for name in names if hasattr(model, name)]


def iris_file(tmp_path, model=None):
    path = tmp_path / "model.skops"
    save(model or GenerativeMetric().fit(X, Y), path)
    return path


def edited(path, name="schema.json", change=lambda data: data):
    """Write the archive again with one changed member."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    members[name] = change(members[name])
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [*ESTIMATORS, *REGRESSORS], ids=lambda e: type(e).__name__)
def test_round_trip(estimator, tmp_path):
    x, y = (XR, YR) if estimator in REGRESSORS else (X, Y)
    model = estimator.fit(x, y)
    loaded = load(iris_file(tmp_path, model))
    assert type(loaded) is type(model)
    found = answers(loaded, x[:20])
    assert found or hasattr(model, "kernel_metrics_") or hasattr(loaded, "fit")
    for a, b in zip(found, answers(model, x[:20]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_streams_continue_and_merge_after_loading(tmp_path):
    whole = GenerativeMetric(base="pooled").fit(X, Y)
    left, right = (
        load(iris_file(tmp_path, GenerativeMetric(base="pooled").partial_fit(X[i::2], Y[i::2])))
        for i in (0, 1)
    )
    np.testing.assert_allclose(left.merge(right).metric_, whole.metric_, rtol=1e-9, atol=1e-12)


def test_metadata_and_unfitted_estimators(tmp_path):
    path = tmp_path / "model"
    save(GenerativeMetric(shrinkage=0.2), path, metadata={"source": "iris"})
    estimator, metadata = load(path, return_metadata=True)
    assert estimator.shrinkage == 0.2
    assert metadata == {"source": "iris"}


def test_files_have_no_search_trees_and_start_no_processes(tmp_path):
    model = make_pipeline(GenerativeMetric(n_jobs=2), KNeighborsClassifier(n_jobs=2)).fit(X, Y)
    loaded = load(iris_file(tmp_path, model))
    assert loaded[-1].algorithm == "brute"
    assert loaded[-1].n_jobs is None
    assert loaded[0].n_jobs is None
    assert model[-1].algorithm == "auto"
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_trusted_types_exist_and_are_enough_for_skops(tmp_path):
    path = iris_file(tmp_path)
    assert set(skops.io.get_untrusted_types(file=path)) <= set(TRUSTED_TYPES)
    for name in TRUSTED_TYPES:
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(__import__(module, fromlist=["_"]), attribute), type), name


def test_functions_and_classes_are_not_saved(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(TypeError, match="estimators of genmetric and scikit-learn; got"):
        save(make_pipeline(FunctionTransformer(os.getcwd), GenerativeMetric()), path)
    with pytest.raises(TypeError, match="a class, not an instance"):
        save(GenerativeMetric, path)
    assert not path.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"text", b"PK\x03\x04broken", b"\x80\x04]q\x00.", bytes(range(256))],
    ids=["empty", "text", "zip", "pickle", "bytes"],
)
def test_other_files_are_refused_in_one_line(content, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="is not a model file of genmetric, or it is damaged"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")


def test_truncated_files_are_refused(tmp_path):
    path = iris_file(tmp_path)
    content = path.read_bytes()
    for end in np.linspace(0, len(content) - 1, 40, dtype=int):
        path.write_bytes(content[:end])
        with pytest.raises(ModelFileError):
            load(path)


def test_untrusted_types_are_refused_by_name(tmp_path):
    path = edited(
        iris_file(tmp_path),
        change=lambda data: data.replace(b'"Coordinates"', b'"Popen"').replace(
            b'"genmetric.density.coordinates"', b'"subprocess"'
        ),
    )
    with pytest.raises(ModelFileError, match=r"subprocess\.Popen"):
        load(path)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [("memory", "memory"), ("_doc_link_template", "doc_link"), ("__doc_link_template", "doc_link")],
)
def test_attributes_that_run_code_when_used_are_refused(attribute, message, tmp_path):
    model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(X, Y)
    vars(model)[attribute] = "somewhere"
    with pytest.raises(ModelFileError, match=message):
        load(iris_file(tmp_path, model))


def test_wrong_arrays_are_refused(tmp_path):
    for change in (lambda m: m.components_.fill(np.nan), lambda m: setattr(m, "n_features_in_", 3)):
        model = GenerativeMetric().fit(X, Y)
        change(model)
        with pytest.raises(ModelFileError, match="components_ of GenerativeMetric"):
            load(iris_file(tmp_path, model))


def test_sizes_are_checked_before_reading(tmp_path):
    path = iris_file(tmp_path)
    with pytest.raises(ModelFileError, match="more than max_bytes"):
        load(path, max_bytes=1000)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ModelFileError, match="compressed members"):
        load(path)


def test_an_array_that_declares_more_than_the_file_holds(tmp_path):
    header = io.BytesIO()
    np.save(header, np.zeros(3))
    path = iris_file(tmp_path)
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".npy"))
    bomb = header.getvalue().replace(b"(3,), }", b"(10000000000000,), }")
    with pytest.raises(ModelFileError):
        load(edited(path, name, lambda _: bomb))


def test_schemas_of_wrong_types_are_refused(tmp_path):
    for text in (b"[]", b"{}", b"null", b"[" * 100_000, json.dumps({"content": 1}).encode()):
        with pytest.raises(ModelFileError):
            load(edited(iris_file(tmp_path), change=lambda _, text=text: text))


def test_writes_are_atomic(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with pytest.raises(RuntimeError), write_atomically(path) as file:  # noqa: PT012
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    with write_atomically(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208
    with pytest.raises(OSError, match="not a regular file"), write_atomically("/dev/null") as file:
        file.write(b"x")
    with pytest.raises(FileNotFoundError, match="nowhere"), write_atomically("nowhere/f") as file:
        file.write(b"x")

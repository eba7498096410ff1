"""Model files: every estimator makes the round trip, and a bad file gives one clear line."""

import io
import json
import os
import stat
import struct
import sys
import zipfile

import numpy as np
import pytest
import scipy.sparse
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
            b'"genmetric.density.statistics"', b'"subprocess"'
        ),
    )
    with pytest.raises(ModelFileError, match=r"subprocess\.Popen"):
        load(path)


# --- hostile files ------------------------------------------------------------------------------


def crafted(tmp_path, model):
    """Write a model as skops does, with whatever it contains, and our metadata."""
    path = tmp_path / "crafted"
    skops.io.dump(model, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("genmetric.json", json.dumps({"metadata": {}}))
    return path


def tampered(tmp_path, change, model=None):
    """Write a model whose description is changed by a function."""

    def edit(data):
        schema = json.loads(data)
        change(schema)
        return json.dumps(schema).encode()

    return edited(iris_file(tmp_path, model), change=edit)


def json_node(value, **more):
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(value),
        **more,
    }


def set_attribute(schema, name, node):
    """Set an attribute of the object that a description is of."""
    schema["content"]["content"][name] = node
    kind = {"__class__": "str", "__module__": "builtins", "__loader__": "TypeNode"}
    schema["content"]["key_types"]["content"].append(kind)


def test_a_cache_is_not_read_and_nothing_is_fitted(tmp_path, monkeypatch):
    model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(X, Y)
    hidden = KNeighborsClassifier().fit(X, Y)
    hidden.algorithm, hidden._tree, hidden._fit_method = "brute", None, "brute"
    inner = make_pipeline(StandardScaler(), memory=str(tmp_path / "cache"))
    hidden.inner_ = np.empty(1, object)
    hidden.inner_[0] = inner
    for estimator in (StandardScaler, GenerativeMetric):
        monkeypatch.setattr(estimator, "fit", lambda *_: pytest.fail("fitted on load"))
    load(iris_file(tmp_path, model))
    for bad in (inner, hidden):
        with pytest.raises(
            ModelFileError, match="Pipeline sets 'memory', which a model may not do"
        ):
            load(crafted(tmp_path, bad))
    assert not (tmp_path / "cache").exists()
    # Saved by us, the pipeline has no cache; the estimator itself keeps it.
    assert load(iris_file(tmp_path, inner)).memory is None
    assert inner.memory is not None


@pytest.mark.parametrize(
    "name",
    [
        "_doc_link_template",
        "__doc_link_template",
        "_doc_link_module",
        "_repr_html_",
        "_html_repr",
        "_sk_visual_block_",
        "transform",
        "<img src=x onerror=alert(1)>",
    ],
)
def test_attributes_that_reach_a_notebook_are_refused(name, tmp_path):
    model = GenerativeMetric().fit(X, Y)
    vars(model)[name] = "<script>alert(1)</script>"
    with pytest.raises(ModelFileError, match=r"GenerativeMetric sets '.*which a model may not do"):
        load(crafted(tmp_path, model))


def test_values_are_escaped_in_a_notebook(tmp_path):
    script = "<script>alert(1)</script>"
    metric = GenerativeMetric().fit(X, np.array([script, "b", "c"])[Y])
    metric.feature_names_in_ = np.array([script] * 4, object)
    metric.combination = script
    model = make_pipeline(metric)
    model.steps = [(script, metric)]
    page = load(iris_file(tmp_path, model))._repr_html_()
    assert "GenerativeMetric" in page
    assert script not in page


WRONG = {
    "NaN": lambda m: m.components_.fill(np.nan),
    "another number of features": lambda m: setattr(m, "n_features_in_", 3),
    "not symmetric": lambda m: m.metric_.__setitem__((0, 1), 7.0),
    "an infinite metric": lambda m: m.metric_.fill(np.inf),
    "a cut metric": lambda m: setattr(m, "metric_", m.metric_[:2]),
    "a list": lambda m: setattr(m, "components_", m.components_.tolist()),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_arrays_are_refused(kind, tmp_path):
    model = GenerativeMetric().fit(X, Y)
    WRONG[kind](model)
    with pytest.raises(ModelFileError):
        load(iris_file(tmp_path, model))


def test_coefficients_of_other_classes_are_refused(tmp_path):
    model = LogisticRegression(max_iter=200).fit(X, Y)
    load(iris_file(tmp_path, model))
    model.coef_ = model.coef_[:2]
    with pytest.raises(ModelFileError, match="coef_ of LogisticRegression does not fit"):
        load(iris_file(tmp_path, model))


def test_arrays_without_values_are_refused(tmp_path):
    for array in (np.zeros((10**9, 0)), np.zeros(10**9, "V0")):
        model = GenerativeMetric().fit(X, Y)
        model.counts_ = array
        with pytest.raises(ModelFileError, match="without values"):
            load(crafted(tmp_path, model))


def test_one_array_cannot_be_read_many_times(tmp_path):
    model = GenerativeMetric().fit(X, Y)
    model.copies_ = [np.zeros(10_000)]

    def repeat(schema):
        copies = schema["content"]["content"]["copies_"]["content"]
        node = {key: value for key, value in copies[0].items() if key != "__id__"}
        copies[:] = [node] * 50_000

    with pytest.raises(ModelFileError, match="more than max_bytes"):
        load(tampered(tmp_path, repeat, model))


def doubled(schema):
    """Make 2^40 objects of forty lists, each of which refers to the next one twice."""
    tip = json_node(0)
    for i in range(40):
        first = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
        first |= {"content": [tip, {"__id__": tip["__id__"]} if i else tip], "__id__": -1 - i}
        tip = first
    set_attribute(schema, "steps_", tip)


def own_child(schema):
    """Let an object contain itself."""
    number = schema["__id__"]
    set_attribute(schema, "child_", {**json_node(0), "__id__": number})


def aliased(schema):
    """Give the number of one object to another one of another type."""
    number = schema["content"]["content"]["shrinkage"]["__id__"]
    kind = {"__class__": "int", "__module__": "builtins", "__loader__": "TypeNode"}
    set_attribute(schema, "other_", {**kind, "__id__": number})


def many_objects(schema):
    """Describe more objects than a model has."""
    content = [json_node(0) for _ in range(200_000)]
    node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
    set_attribute(schema, "many_", {**node, "content": content})


def colliding_keys(schema):
    """Use keys that have the same hash."""
    keys = {str(i * (2**61 - 1)): json_node(0) for i in range(1, 20_000)}
    kind = {"__class__": "int", "__module__": "builtins", "__loader__": "TypeNode"}
    types = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
    node = {"__class__": "dict", "__module__": "builtins", "__loader__": "DictNode"}
    types["content"] = [kind] * len(keys)
    set_attribute(schema, "keys_", {**node, "content": keys, "key_types": types})


def lists_in_a_value(schema):
    """Hide many lists in a simple value."""
    set_attribute(schema, "value_", json_node([[]] * 1000))


def constructor(schema):
    """Call a constructor with arguments of the file."""
    node = {"__class__": "dtype", "__module__": "numpy", "__loader__": "ConstructorFromReduceNode"}
    set_attribute(schema, "type_", {**node, "content": json_node("V1000000000")})


@pytest.mark.parametrize(
    "change",
    [doubled, own_child, aliased, many_objects, colliding_keys, lists_in_a_value, constructor],
    ids=lambda change: change.__name__,
)
def test_descriptions_of_other_things_than_models_are_refused(change, tmp_path):
    with pytest.raises(ModelFileError):
        load(tampered(tmp_path, change))


def test_deep_nesting_is_refused(tmp_path):
    def nest(schema):
        tip = json_node(0)
        for _ in range(5000):
            node = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
            tip = {**node, "content": [tip]}
        set_attribute(schema, "deep_", tip)

    old = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        path = tampered(tmp_path, nest)
    finally:
        sys.setrecursionlimit(old)
    with pytest.raises(ModelFileError, match="recursion"):
        load(path)


def test_a_zip64_record_cannot_hide_a_size(tmp_path):
    path = iris_file(tmp_path)
    content = bytearray(path.read_bytes())
    # The entry says 2^32 - 1 bytes, which means: see the 64-bit record, and that says 2^40.
    start = content.rindex(b"PK\x01\x02")
    extra = struct.pack("<HHQ", 1, 8, 2**40)
    content[start + 24 : start + 28] = b"\xff" * 4
    name_length = int.from_bytes(content[start + 28 : start + 30], "little")
    content[start + 30 : start + 32] = len(extra).to_bytes(2, "little")
    content[start + 46 + name_length : start + 46 + name_length] = extra
    end = content.rindex(b"PK\x05\x06")
    size = int.from_bytes(content[end + 12 : end + 16], "little") + len(extra)
    content[end + 12 : end + 16] = size.to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"takes up to 1.* TB, more than max_bytes"):
        load(path)


def test_limits_can_be_raised(tmp_path):
    model = GenerativeMetric().fit(X, Y)
    model.names_ = np.array([f"n{i}" for i in range(3000)], object)
    path = iris_file(tmp_path, model)
    with pytest.raises(ModelFileError, match="Pass a larger max_bytes if you trust the file"):
        load(path, max_bytes=2**25)
    assert len(load(path, max_bytes=2**26).names_) == 3000


def test_sparse_matrices_are_not_saved(tmp_path):
    model = KNeighborsClassifier(algorithm="brute").fit(scipy.sparse.csr_matrix(X), Y)
    with pytest.raises(TypeError, match=r"got scipy\.sparse"):
        save(model, tmp_path / "model")


def test_file_objects():
    parts = []
    for i in (0, 1):
        buffer = io.BytesIO()
        part = GenerativeMetric(base="pooled").partial_fit(X[i::2], Y[i::2])
        save(part, buffer, metadata={"part": i})
        again, metadata = load(buffer, return_metadata=True)
        assert metadata == {"part": i}
        parts.append(again)
    whole = GenerativeMetric(base="pooled").fit(X, Y)
    merged = parts[0].merge(parts[1])
    np.testing.assert_allclose(merged.metric_, whole.metric_, rtol=1e-9, atol=1e-12)
    with pytest.raises(ModelFileError, match="The file object is not a model file"):
        load(io.BytesIO(b"text"))


@pytest.mark.parametrize("facts", [None, [], 3, {"metadata": 1}, {"metadata": [1]}, {}])
def test_metadata_of_wrong_types_are_refused(facts, tmp_path):
    path = edited(iris_file(tmp_path), "genmetric.json", lambda _: json.dumps(facts).encode())
    with pytest.raises(ModelFileError):
        load(path)


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

"""Models in onnxruntime compared with the same models in Python."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import genmetric.onnx
from genmetric import (
    LMNN,
    EmbeddingAdapter,
    EnergyClassifier,
    FaissNeighborsTransformer,
    GenerativeMetric,
    GenerativeMetricCV,
    GenerativeRegressionMetric,
    KernelRegressor,
    LocalMetricClassifier,
    MetricKMeans,
    SimpleMKLClassifier,
)
from genmetric.datasets import load_dataset

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

# skl2onnx and onnx use functions that they deprecate themselves.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def registered():
    genmetric.onnx.register()


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def run(model, rows, **options):
    """Return all outputs of a model in onnxruntime for samples of any type."""
    converted = skl2onnx.to_onnx(model, rows[:1], **options)
    session = onnxruntime.InferenceSession(
        converted.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: rows})


METRICS = [
    GenerativeMetric(),
    GenerativeMetric(n_components=2),
    GenerativeMetric("kde"),
    GenerativeMetricCV(shrinkages=0.1, interpolations=1.0, n_neighbors=3),
    LMNN(max_iter=5),
    GenerativeRegressionMetric(),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("parameters", [{}, {"n_components": 2}, {"normalize": False}])
def test_embedding_adapter(parameters, dtype, iris):
    X, y = iris
    X = X.astype(dtype)
    adapter = EmbeddingAdapter(**parameters).fit(X, y)
    (found,) = run(adapter, X)
    expected = adapter.transform(X)
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=100 * np.finfo(dtype).eps, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_transform(metric, dtype, iris):
    X, y = iris
    metric.fit(X, y)
    X = X.astype(dtype)
    (found,) = run(metric, X)
    expected = metric.transform(X)
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=20 * np.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("opset", [13, 15, 18])
def test_versions_of_onnx(opset, iris):
    X, y = iris
    metric = GenerativeMetric().fit(X, y)
    (found,) = run(metric, X, target_opset=opset)
    np.testing.assert_allclose(found, metric.transform(X), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["iris", "wine", "vehicle", "ionosphere", "breast_cancer"])
def test_nearest_neighbours(name, dtype):
    X, y = load_dataset(name, return_X_y=True)
    names = np.array([f"class {label}" for label in y])
    model = make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier(5))
    model.fit(X[::2], names[::2])
    rows = X[1::2].astype(dtype)
    labels, probabilities = run(model, rows, options={"zipmap": False})
    np.testing.assert_array_equal(labels, model.predict(rows))
    np.testing.assert_allclose(probabilities, model.predict_proba(rows), atol=1e-6)


def test_pipeline_with_other_steps(iris):
    # The imputer of onnxruntime supports only float32.
    X, y = iris[0].astype(np.float32), iris[1]
    X[::20, 1] = np.nan
    steps = SimpleImputer(), MinMaxScaler(), GenerativeMetric(), PCA(2), KNeighborsClassifier()
    model = make_pipeline(*steps).fit(X[::2], y[::2])
    labels, probabilities = run(model, X[1::2], options={"zipmap": False})
    np.testing.assert_array_equal(labels, model.predict(X[1::2]))
    np.testing.assert_allclose(probabilities, model.predict_proba(X[1::2]), atol=1e-6)


def test_integers(iris):
    X, y = iris
    rows = np.round(10 * X).astype(np.int64)
    metric = GenerativeMetric().fit(rows, y)
    (found,) = run(metric, rows)
    np.testing.assert_allclose(found, metric.transform(rows), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_clusters(dtype, offset, iris):
    X = (iris[0] + offset).astype(dtype)
    model = MetricKMeans(3, random_state=0).fit(X)
    labels, distances = run(model, X)
    np.testing.assert_array_equal(labels, model.predict(X))
    assert distances.dtype == dtype
    np.testing.assert_allclose(distances, model.transform(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        EnergyClassifier(),
        LocalMetricClassifier(),
        SimpleMKLClassifier(["linear"]),
        KernelRegressor(),
        FaissNeighborsTransformer(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_that_cannot_be_converted_are_refused(model, iris):
    X, y = iris
    with pytest.raises(NotImplementedError, match=f"{type(model).__name__} cannot be converted"):
        skl2onnx.to_onnx(model.fit(X, y), X[:1])


def test_invalid_models_and_inputs(iris):
    X, y = iris
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        skl2onnx.to_onnx(GenerativeMetric(), X[:1])
    with pytest.raises(ValueError, match="3 columns"):
        skl2onnx.to_onnx(GenerativeMetric().fit(X, y), X[:1, :3])


def test_without_skl2onnx(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"genmetric\[onnx\]"):
        genmetric.onnx.register()

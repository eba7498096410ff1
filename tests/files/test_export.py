"""Exported maps read back by other libraries."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from genmetric import EmbeddingAdapter, GenerativeMetric
from genmetric.files import export_map


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_npy_holds_the_matrix(iris, tmp_path):
    metric = GenerativeMetric(n_components=2).fit(*iris)
    export_map(metric, tmp_path / "map.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "map.npy"), metric.components_)


def test_safetensors_of_a_pipeline_hold_weight_and_bias(iris, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    X, y = iris
    model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(X, y)
    export_map(model, tmp_path / "map.safetensors")
    found = safetensors.load_file(tmp_path / "map.safetensors")
    np.testing.assert_allclose(X @ found["weight"].T + found["bias"], model.transform(X), atol=1e-9)


def test_safetensors_of_the_adapter(iris, tmp_path):
    safetensors = pytest.importorskip("safetensors")
    X, y = iris
    X = X.astype(np.float32)
    adapter = EmbeddingAdapter().fit(X, y)
    export_map(adapter, str(tmp_path / "map.safetensors"))
    with safetensors.safe_open(tmp_path / "map.safetensors", "np") as file:
        assert file.metadata()["normalize"] == "true"
        weight, bias = file.get_tensor("weight"), file.get_tensor("bias")
    assert weight.dtype == bias.dtype == np.float32
    z = X / np.linalg.norm(X, axis=1, keepdims=True) @ weight.T + bias
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    np.testing.assert_allclose(z, adapter.transform(X), atol=1e-3)


def test_refusals(iris, tmp_path):
    X, y = iris
    metric = GenerativeMetric().fit(X, y)
    with pytest.raises(ValueError, match=r"must end in \.npy or \.safetensors; got '.*map\.pt'"):
        export_map(metric, tmp_path / "map.pt")
    with pytest.raises(ValueError, match=r"A \.npy file holds one matrix"):
        export_map(EmbeddingAdapter().fit(X, y), tmp_path / "map.npy")
    with pytest.raises(ValueError, match=r"steps that are not linear \(Normalizer\)"):
        export_map(make_pipeline(Normalizer(), metric).fit(X, y), tmp_path / "map.safetensors")
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        export_map(GenerativeMetric(), tmp_path / "map.npy")
    assert list(tmp_path.iterdir()) == []


def test_failed_write_keeps_the_old_file(iris, tmp_path, monkeypatch):
    path = tmp_path / "map.npy"
    export_map(GenerativeMetric().fit(*iris), path)
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        export_map(GenerativeMetric(n_components=1).fit(*iris), path)
    assert path.read_bytes() == before

"""Maps as layers of torch: the same numbers as transform."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris

from genmetric import LMNN, EmbeddingAdapter, GenerativeMetric

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "estimator",
    [
        GenerativeMetric(),
        GenerativeMetric(n_components=2),
        LMNN(max_iter=2),
        EmbeddingAdapter(),
        EmbeddingAdapter(n_components=2),
        EmbeddingAdapter(normalize=False),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layers_compute_transform(estimator, dtype, iris):
    X, y = iris
    X = X.astype(dtype)
    estimator.fit(X, y)
    with torch.no_grad():
        found = estimator.to_torch(dtype=dtype)(torch.from_numpy(X)).numpy()
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, estimator.transform(X), atol=1e-4 if dtype == "float32" else 1e-12
    )


def test_a_metric_is_one_linear_layer(iris):
    layer = GenerativeMetric(n_components=2).fit(*iris).to_torch()
    assert type(layer) is torch.nn.Linear
    assert (layer.in_features, layer.out_features, layer.bias) == (4, 2, None)
    assert layer.weight.dtype == torch.float32
    assert layer.weight.requires_grad


def test_layers_of_the_adapter_are_saved_and_do_not_train_the_norm(iris):
    X, y = iris
    layers = EmbeddingAdapter().fit(X, y).to_torch(dtype="float64")
    x = torch.from_numpy(X)
    again = pickle.loads(pickle.dumps(layers))
    torch.testing.assert_close(again(x), layers(x))
    trained = [name for name, p in layers.named_parameters() if p.requires_grad]
    assert trained == ["1.weight", "1.bias"]


def test_later_fits_do_not_change_a_layer(iris):
    X, y = iris
    metric = GenerativeMetric().fit(X, y)
    layer = metric.to_torch()
    before = layer.weight.detach().clone()
    metric.components_ *= 2
    torch.testing.assert_close(layer.weight.detach(), before)


def test_invalid_dtype(iris):
    with pytest.raises(ValueError, match="dtype must be 'float32' or 'float64'; got 'half'"):
        GenerativeMetric().fit(*iris).to_torch(dtype="half")

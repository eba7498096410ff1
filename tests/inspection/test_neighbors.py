"""Nearest neighbours and the contributions of features to their distances."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.inspection import explain_neighbors, linear_map, nearest_in_batches


def naive(Z, queries, k, own):
    """Indices and distances by sorting all pairs; at equal distance the earlier sample first."""
    indices, distances = [], []
    for i, q in enumerate(queries):
        d = np.sqrt(((Z - q) ** 2).sum(axis=1))
        if own:
            d[i] = np.inf
        order = sorted(range(len(Z)), key=lambda j: (d[j], j))[: min(k, len(Z) - own)]
        indices.append(order)
        distances.append(d[order])
    return np.array(indices), np.array(distances)


@pytest.fixture
def model(samples):
    return make_pipeline(StandardScaler(), GenerativeMetric()).fit(*samples)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("k", [1, 4, 200])
def test_neighbors_equal_a_full_sort(samples, model, own, k):
    X, _ = samples
    reference = None if own else X[20:]
    found = explain_neighbors(model, X if own else X[:20], reference, n_neighbors=k)
    Z = model.transform(X)
    indices, distances = naive(Z if own else Z[20:], Z if own else Z[:20], k, own)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-9)
    np.testing.assert_allclose(found.contributions.sum(2), distances**2, rtol=1e-8)
    np.testing.assert_allclose(found.shares.sum(2), 1)
    top = found.top_features(2)
    largest = np.abs(found.contributions).max(axis=2)
    picked = np.take_along_axis(found.contributions, top, axis=2)
    np.testing.assert_allclose(np.abs(picked[..., 0]), largest)


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 40), max_size=4), k=st.integers(1, 6))
def test_batches_of_the_reference_do_not_change_the_result(cuts, k):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    into = linear_map(GenerativeMetric().fit(X, y))
    names = np.array([f"n{i}" for i in range(40)])
    edges = [0, *sorted(cuts), 40]
    parts = [(X[a:b], names[a:b]) for a, b in itertools.pairwise(edges)]
    whole = nearest_in_batches(into, X[5:9], [(X, names)], n_neighbors=k, first_query=5)
    found = nearest_in_batches(into, X[5:9], parts, n_neighbors=k, first_query=5)
    np.testing.assert_array_equal(found.indices, whole.indices)
    np.testing.assert_array_equal(found.names, names[found.indices])
    np.testing.assert_allclose(found.contributions, whole.contributions)
    assert not (found.indices == np.arange(5, 9)[:, None]).any()


def test_equal_samples_have_no_shares(model):
    X = np.ones((3, 5))
    found = explain_neighbors(model, X, n_neighbors=2)
    assert not found.distances.any()
    assert not found.shares.any()


def test_names_of_a_table(samples):
    pd = pytest.importorskip("pandas")
    X, y = samples
    frame = pd.DataFrame(X, columns=list("abcde"))
    found = explain_neighbors(GenerativeMetric().fit(frame, y), frame[:3], frame)
    assert found.feature_names == tuple("abcde")
    with pytest.raises(ValueError, match="n_neighbors must be an integer >= 1"):
        explain_neighbors(GenerativeMetric().fit(X, y), X, n_neighbors=0)

"""Nearest neighbours and the contributions of features to their distances."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genmetric import GenerativeMetric
from genmetric.inspection import explain_neighbors, feature_contributions, linear_map


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


def test_a_table_is_explained_by_its_columns():
    """One contribution per column, however many features the encoder makes of it."""
    pd = pytest.importorskip("pandas")
    from genmetric.tables import TableEncoder

    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    table = pd.DataFrame(
        {
            "price": rng.normal(10, 1, 120) + y,
            "color": rng.choice(["red", "green", "blue"], 120),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(700, size=120), "D"),
        }
    )
    table.loc[3, "price"] = np.nan
    model = make_pipeline(TableEncoder(), StandardScaler(), GenerativeMetric()).fit(table, y)
    into = linear_map(model, table)
    assert len(into.feature_names_in) > 5
    found = explain_neighbors(model, table[:6], table[6:], n_neighbors=4)
    assert found.feature_names == ("price", "color", "day")
    assert found.contributions.shape == (6, 4, 3)
    np.testing.assert_allclose(found.contributions.sum(2), found.distances**2, rtol=1e-8)
    difference = into.prepare(table[6:])[found.indices] - into.prepare(table[:6])[:, None]
    parts = difference * (difference @ into.metric)
    for j, column in enumerate(found.feature_names):
        own = parts[..., np.array(into.columns) == column].sum(axis=2)
        np.testing.assert_allclose(found.contributions[..., j], own, atol=1e-9)
    shares = feature_contributions(model, table)
    each = feature_contributions(model, table, by_column=False)
    assert list(shares) == ["price", "color", "day"]
    assert list(each) == list(into.feature_names_in)
    assert shares["color"] == pytest.approx(
        sum(share for name, share in each.items() if name.startswith("color_"))
    )


def test_a_single_sample_has_no_neighbor(model):
    with pytest.raises(ValueError, match="number of samples that can be neighbours"):
        explain_neighbors(model, np.ones((1, 5)))

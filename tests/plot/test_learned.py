"""What was learned, read off estimators of every kind."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from genmetric import (
    LMNN,
    EnergyClassifier,
    GenerativeMetric,
    LocalMetricClassifier,
    MetricKMeans,
)
from genmetric.plot.learned import (
    clustered_order,
    draw,
    effective_rank,
    learned_metric,
    map_rows,
    transformer_of,
)


def naive(M, X):
    """M of standardised features, of mean diagonal one, entry by entry."""
    s = X.std(axis=0)
    n = len(M)
    scaled = np.array([[M[i, j] * s[i] * s[j] for j in range(n)] for i in range(n)])
    return scaled / np.mean([scaled[i, i] for i in range(n)])


def test_the_matrix_is_that_of_standardised_features(rows):
    X, y = rows
    metric = GenerativeMetric().fit(X, y)
    learned = learned_metric(metric, X)
    np.testing.assert_allclose(learned.matrix, naive(metric.metric_, X), rtol=1e-9, atol=1e-12)
    assert learned.feature_names == ("x0", "x1", "x2", "x3", "x4")
    plain = learned_metric(metric)
    np.testing.assert_allclose(
        plain.matrix, metric.metric_ / np.diag(metric.metric_).mean(), rtol=1e-12
    )


def test_a_pipeline_has_the_metric_of_its_input(rows):
    X, y = rows
    scaler = StandardScaler().fit(X)
    metric = GenerativeMetric().fit(scaler.transform(X), y)
    pipeline = make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier()).fit(X, y)
    M = metric.metric_ / scaler.scale_ / scaler.scale_[:, None]
    np.testing.assert_allclose(learned_metric(pipeline, X).matrix, naive(M, X), atol=1e-8)


@pytest.mark.parametrize(
    "estimator",
    [
        LMNN(max_iter=5),
        NeighborhoodComponentsAnalysis(2, max_iter=5, random_state=0),
        PCA(3),
        LinearDiscriminantAnalysis(),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_linear_transformer_has_a_metric(rows, estimator):
    X, y = rows
    fitted = estimator.fit(X, y)
    learned = learned_metric(fitted, X)
    # Distances between rows are those of the matrix, up to one factor for all.
    Z, spread = map_rows(fitted, X), X.std(axis=0)
    there = ((Z[1:] - Z[0]) ** 2).sum(axis=1)
    steps = (X[1:] - X[0]) / spread
    here = np.einsum("ni,ij,nj->n", steps, learned.matrix, steps)
    np.testing.assert_allclose(here / here[0], there / there[0], rtol=1e-6)


def test_units_of_features_change_nothing(rows):
    X, y = rows
    model = make_pipeline(StandardScaler(), GenerativeMetric())
    first = learned_metric(model.fit(X, y), X)
    factors = np.array([1e-3, 1.0, 1e6, 7.0, 1.0])
    second = learned_metric(model.fit(X * factors + 3.0, y), X * factors + 3.0)
    np.testing.assert_allclose(first.weights, second.weights, rtol=1e-5)
    assert first.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(first.eigenvalues, second.eigenvalues, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_any_scale(rows, scale):
    X, y = rows
    metric = GenerativeMetric().fit(X * scale, y)
    weights = learned_metric(metric, X * scale).weights
    np.testing.assert_allclose(
        weights, learned_metric(GenerativeMetric().fit(X, y), X).weights, rtol=1e-6
    )


def test_a_constant_feature_has_no_weight(rows):
    X, y = rows
    X = np.column_stack([X, np.full(len(X), 1e8 / 3)])
    learned = learned_metric(make_pipeline(StandardScaler(), GenerativeMetric()).fit(X, y), X)
    assert learned.weights[-1] == 0
    assert np.isfinite(learned.matrix).all()


def test_estimators_that_hold_a_metric(rows):
    X, y = rows
    metric = GenerativeMetric().fit(X, y)
    energy = EnergyClassifier(GenerativeMetric()).fit(X, y)
    search = GridSearchCV(
        make_pipeline(GenerativeMetric(), KNeighborsClassifier()),
        {"generativemetric__shrinkage": [0.0]},
        cv=2,
    ).fit(X, y)
    for holder in (energy, search, make_pipeline(GenerativeMetric(), "passthrough").fit(X, y)):
        assert hasattr(transformer_of(holder), "transform")
        assert learned_metric(holder, X).matrix.shape == (5, 5)
    assert transformer_of(metric) is metric


def test_a_clusterer_maps_rows_by_its_metric(rows):
    X, _ = rows
    clusters = MetricKMeans(3, random_state=0).fit(X)
    np.testing.assert_allclose(map_rows(clusters, X), X @ clusters.components_.T)


def test_no_metric_for_all_rows_is_refused(rows):
    X, y = rows
    with pytest.raises(TypeError, match="LocalMetricClassifier has learned no metric for all rows"):
        learned_metric(LocalMetricClassifier().fit(X, y), X)
    with pytest.raises(TypeError, match="not linear"):
        learned_metric(QuantileTransformer(n_quantiles=20).fit(X), X)


def test_names(rows):
    pd = pytest.importorskip("pandas")
    X, y = rows
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    metric = GenerativeMetric().fit(frame, y)
    assert learned_metric(metric, frame).feature_names == tuple("vwxyz")
    assert learned_metric(metric, X).feature_names == tuple("vwxyz")
    assert learned_metric(metric, X, names=range(5)).feature_names == tuple("01234")
    with pytest.raises(ValueError, match="2 names for 5 features"):
        learned_metric(metric, X, names=["a", "b"])


def test_effective_rank_lies_between_one_and_all(rng):
    assert effective_rank(np.array([3.0, 0.0])) == pytest.approx(1)
    assert effective_rank(np.full(7, 0.2)) == pytest.approx(7)
    values = rng.exponential(size=20)
    assert 1 < effective_rank(values) < 20


def test_coupled_features_stand_together():
    M = np.eye(6)
    for i, j in ((0, 4), (1, 5), (2, 3)):
        M[i, j] = M[j, i] = -0.9
    order = list(clustered_order(M))
    assert sorted(order) == list(range(6))
    for i, j in ((0, 4), (1, 5), (2, 3)):
        assert abs(order.index(i) - order.index(j)) == 1
    assert list(clustered_order(np.eye(2))) == [0, 1]


def test_rows_are_drawn_with_a_seed():
    assert list(draw(5, 9, 0)) == [0, 1, 2, 3, 4]
    assert list(draw(100, 10, 3)) == list(draw(100, 10, 3))
    assert len(set(draw(100, 10, 3))) == 10

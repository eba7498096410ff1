"""Linear maps of fitted estimators and pipelines."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from genmetric import (
    LMNN,
    EnergyClassifier,
    GenerativeMetric,
    GenerativeMetricCV,
    LocalMetricClassifier,
    MetricKMeans,
    SimpleMKLClassifier,
)
from genmetric.inspection import linear_map, map_samples, metric_transformer


def assert_same_map(found, X, Z):
    """Check z = A x + b and the stable form against the estimator's own output."""
    scale = np.abs(Z).max()
    np.testing.assert_allclose(found.transform(X), Z, atol=1e-9 * scale)
    features = found.prepare(X)
    size = scale + np.abs(features).max() * np.abs(found.matrix).sum()
    np.testing.assert_allclose(features @ found.matrix.T + found.offset, Z, atol=1e-9 * size)


@pytest.mark.parametrize(
    "estimator",
    [
        GenerativeMetric(),
        GenerativeMetric(n_components=2),
        LMNN(max_iter=5),
        NeighborhoodComponentsAnalysis(2, max_iter=5, random_state=0),
        PCA(3, whiten=True),
        LinearDiscriminantAnalysis(),
        StandardScaler(with_mean=False),
        MinMaxScaler(),
        make_pipeline(StandardScaler(), PCA(4), GenerativeMetric()),
        make_pipeline(MinMaxScaler(), RobustScaler(), LinearDiscriminantAnalysis()),
        make_pipeline(StandardScaler(), "passthrough", GenerativeMetric(), "passthrough"),
    ],
    ids=lambda e: str(e).replace("\n", "")[:60],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("with_samples", [True, False])
def test_map_equals_transform(samples, estimator, with_samples):
    X, y = samples
    fitted = estimator.fit(X, y)
    found = linear_map(fitted, X if with_samples else None)
    assert_same_map(found, X, fitted.transform(X))
    np.testing.assert_allclose(found.metric, found.matrix.T @ found.matrix)
    assert found.matrix.shape == (len(found.feature_names_out), len(found.feature_names_in))


@pytest.mark.parametrize("shift", [0.0, 1e10])
@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
def test_map_keeps_digits_of_shifted_and_scaled_features(samples, shift, scale):
    X, y = samples
    moved = (X + shift) * scale
    model = make_pipeline(StandardScaler(), GenerativeMetric()).fit(moved, y)
    found = linear_map(model)
    np.testing.assert_allclose(found.transform(moved), model.transform(moved), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(10, 30), d=st.integers(1, 6))
def test_composition_of_random_steps(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d) + rng.normal(size=d)
    steps = [StandardScaler(), MinMaxScaler(), RobustScaler(), PCA(min(n, d))]
    chosen = [steps[i] for i in rng.integers(0, 4, rng.integers(1, 4))]
    model = make_pipeline(*chosen).fit(X)
    assert_same_map(linear_map(model, X), X, model.transform(X))


def test_a_predictor_at_the_end_is_left_out(samples):
    X, y = samples
    model = make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier()).fit(X, y)
    np.testing.assert_allclose(map_samples(model, X), model[:-1].transform(X))
    assert_same_map(linear_map(model), X, model[:-1].transform(X))
    plain = make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(X, y)
    np.testing.assert_allclose(np.diag(linear_map(plain).matrix), 1 / X.std(axis=0))


def test_holders_of_a_metric(samples):
    X, y = samples
    metric = GenerativeMetric().fit(X, y)
    search = GridSearchCV(
        make_pipeline(GenerativeMetric(), KNeighborsClassifier()),
        {"generativemetric__shrinkage": [0.0]},
        cv=2,
    )
    holders = [
        FrozenEstimator(metric),
        EnergyClassifier(GenerativeMetric()).fit(X, y),
        make_pipeline(StandardScaler(), EnergyClassifier(GenerativeMetric())).fit(X, y),
        search.fit(X, y),
        GenerativeMetricCV(cv=2).fit(X, y),
    ]
    for holder in holders:
        assert linear_map(holder).matrix.shape == (5, 5)
    assert metric_transformer(metric) is metric
    assert metric_transformer(holders[0]) is metric


def test_a_clusterer_maps_samples_by_its_metric(samples):
    X, _ = samples
    clusters = MetricKMeans(3, random_state=0).fit(X)
    np.testing.assert_allclose(map_samples(clusters, X), X @ clusters.components_.T)
    np.testing.assert_array_equal(linear_map(clusters).matrix, clusters.components_)


def test_a_table_with_categories_starts_behind_the_encoder(samples):
    pd = pytest.importorskip("pandas")
    X, y = samples
    table = pd.DataFrame(X[:, :2], columns=["width", "height"])
    table["color"] = np.where(np.arange(len(X)) % 3, "red", "blue")
    table.loc[3, "width"] = np.nan
    columns = make_column_transformer(
        (SimpleImputer(), ["width", "height"]),
        (OneHotEncoder(handle_unknown="ignore"), ["color"]),
        verbose_feature_names_out=False,
    )
    model = make_pipeline(columns, StandardScaler(), GenerativeMetric(), KNeighborsClassifier())
    model.fit(table, y)
    found = linear_map(model, table)
    assert found.feature_names_in == ("width", "height", "color_blue", "color_red")
    assert len(found.preprocessing) == 1
    np.testing.assert_allclose(found.transform(table), model[:-1].transform(table), atol=1e-10)
    assert linear_map(model).feature_names_in == found.feature_names_in


@pytest.mark.parametrize(
    "first",
    [
        SimpleImputer(),
        QuantileTransformer(n_quantiles=20),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("with_samples", [True, False])
def test_steps_that_are_not_linear_are_kept_as_preprocessing(samples, first, with_samples):
    X, y = samples
    X = np.round(X)
    model = make_pipeline(first, GenerativeMetric()).fit(X, y)
    found = linear_map(model, X if with_samples else None)
    assert [type(step) for step in found.preprocessing] == [type(first)]
    np.testing.assert_allclose(found.transform(X), model.transform(X), atol=1e-9)


def test_estimators_without_a_single_metric_are_rejected(samples):
    X, y = samples
    local = LocalMetricClassifier().fit(X, y)
    for estimator in (local, make_pipeline(StandardScaler(), LocalMetricClassifier()).fit(X, y)):
        with pytest.raises(TypeError, match="LocalMetricClassifier uses more than one metric"):
            linear_map(estimator)
    with pytest.raises(TypeError, match="SimpleMKLClassifier uses more than one metric"):
        linear_map(SimpleMKLClassifier().fit(X[:40], y[:40]))
    with pytest.raises(TypeError, match="QuantileTransformer is not linear"):
        linear_map(QuantileTransformer(n_quantiles=20).fit(X), X)
    with pytest.raises(TypeError, match="KNeighborsClassifier has not learned a metric"):
        linear_map(KNeighborsClassifier().fit(X, y))


def test_feature_names(samples):
    pd = pytest.importorskip("pandas")
    X, y = samples
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    metric = GenerativeMetric().fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (frame, X):
            found = linear_map(metric, rows)
            assert found.feature_names_in == tuple("vwxyz")
            map_samples(metric, rows)
    assert found.feature_names_out[0] == "generativemetric0"
    assert linear_map(GenerativeMetric().fit(X, y), frame).feature_names_in == tuple("vwxyz")
    assert linear_map(metric, feature_names=range(5)).feature_names_in == tuple("01234")
    assert linear_map(GenerativeMetric().fit(X, y)).feature_names_in[:2] == ("x0", "x1")
    with pytest.raises(ValueError, match="2 names for 5 features"):
        linear_map(metric, feature_names=["a", "b"])
    with pytest.raises(ValueError, match="X has 4 features, but the map expects 5"):
        found.transform(X[:, :4])

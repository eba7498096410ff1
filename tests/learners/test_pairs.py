"""PairClassifier against its formulas, on unseen entities, and as metric-learn's learners."""

import pickle

import numpy as np
import pytest
from scipy.linalg import inv, sqrtm
from scipy.sparse import csr_array
from scipy.special import expit, logit
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, fbeta_score, roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import normalize
from sklearn.utils import estimator_checks

from genmetric import PairClassifier


def simulated(n_entities=120, n_each=2, n_features=8, noise=0.6, seed=0):
    """Return vectors of entities with much noise where entities differ little, and entities."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_entities), n_each)
    means = rng.normal(size=(n_entities, n_features)) * np.linspace(1, 0.3, n_features)
    deviations = rng.normal(size=(len(groups), n_features)) * np.linspace(0.3, 2, n_features)
    return means[groups] + noise * deviations + 0.3, groups


def labelled_pairs(X, groups, n_different=400, seed=1):
    """Return pairs of neighbours in each entity and random pairs of two, with labels."""
    rng = np.random.default_rng(seed)
    same = np.stack([np.arange(len(X) - 1), np.arange(1, len(X))], axis=1)
    same = same[groups[same[:, 0]] == groups[same[:, 1]]]
    other = rng.integers(len(X), size=(n_different, 2))
    other = other[groups[other[:, 0]] != groups[other[:, 1]]]
    return np.concatenate([same, other]), np.repeat([1, -1], [len(same), len(other)])


@pytest.fixture(scope="module")
def unseen():
    """Return pairs of vectors and labels, of entities that are not in the training pairs."""
    X, groups = simulated(400, seed=7)
    index, y = labelled_pairs(X, groups, 20_000)
    return X[index], y


@pytest.fixture(scope="module")
def model():
    X, _ = simulated(300)
    return PairClassifier(random_state=0).fit(X.reshape(300, 2, 8))


def naive_shrunk(W, T, degrees, factor, t):
    """Return W shrunk towards the identity and B = T - W shrunk towards T."""
    D, B = len(W), T - W
    square, trace2 = np.trace(W @ W), np.trace(W) ** 2
    s = ((degrees - 2) / degrees * square + trace2) / ((degrees + 2) * (square - trace2 / D))
    s = factor * min(s, 1) / (1 - min(s, 1) + factor * min(s, 1))
    W = (1 - s) * W + s * np.trace(W) / D * np.eye(D)
    return W, (1 - t) * B + t * np.trace(B) / np.trace(T) * T


def naive_ratios(X, groups, pairs, factor, scaled=True):
    """Return log-likelihood ratios of pairs by the model of vectors and entities."""
    unit = normalize if scaled else np.asarray

    def within(v):
        names = np.unique(groups)
        e = [x - v[groups == c].mean(axis=0) for c in names for x in v[groups == c]]
        degrees = len(v) - len(names)
        return np.einsum("ij,ik->jk", e, e) / degrees, v.T @ v / len(v), degrees

    mean = unit(X).mean(axis=0)
    W = naive_shrunk(*within(unit(X) - mean), factor, 0.0)[0]
    A = inv(sqrtm(W).real)
    W, B = naive_shrunk(*within(unit((unit(X) - mean) @ A)), factor, 0.25)
    values, vectors = np.linalg.eig(np.linalg.solve(W, B))
    B = W @ (vectors * np.maximum(values, 0)) @ np.linalg.inv(vectors)  # without negative ratios
    a, b = (unit((unit(pairs[:, side]) - mean) @ A) for side in (0, 1))
    T, zero, both = W + B.real, np.zeros_like(W), np.concatenate([a, b], axis=1)
    T, B = (T + T.T) / 2, (B.real + B.real.T) / 2
    same = multivariate_normal(cov=np.block([[T, B], [B, T]])).logpdf(both)
    return same - multivariate_normal(cov=np.block([[T, zero], [zero, T]])).logpdf(both)


# The model and its scores


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("n_each", [2, 3])
def test_scores_are_those_of_the_formulas_up_to_calibration(scaled, n_each, unseen):
    X, groups = simulated(150, n_each)
    X = np.concatenate([X, simulated(40, 1, seed=3)[0]])  # vectors in no pair
    groups = np.concatenate([groups, 200 + np.arange(40)])
    index, y = labelled_pairs(X, groups)
    found = PairClassifier(normalize=scaled, preprocessor=X, random_state=0).fit(index[y > 0])
    assert found.best_params_["model"] == "two-covariance"
    pairs = unseen[0][:300]
    expected = naive_ratios(X, groups, pairs, found.best_params_["within_factor"], scaled)
    scores = found.decision_function(pairs)
    slope, intercept = np.polyfit(expected, scores, 1)
    assert slope > 0
    np.testing.assert_allclose(scores, slope * expected + intercept, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found.pair_score(pairs), scores)


def test_better_than_cosine_on_unseen_entities(model, unseen):
    pairs, y = unseen
    cosine = (normalize(pairs[:, 0]) * normalize(pairs[:, 1])).sum(axis=1)
    assert model.score(pairs, y) == roc_auc_score(y, model.decision_function(pairs))
    assert 1 - model.score(pairs, y) < 0.6 * (1 - roc_auc_score(y, cosine))


def test_probabilities_are_calibrated_on_unseen_entities(model, unseen):
    pairs, y = unseen
    p = model.predict_proba(pairs)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(p[:, 1], expit(model.decision_function(pairs)))  # prior_ is 0.5
    weight = np.where(y > 0, 0.5 / (y > 0).sum(), 0.5 / (y < 0).sum())
    bins = np.minimum((10 * p[:, 1]).astype(int), 9)
    error = sum(abs((weight * (p[:, 1] - (y > 0)))[bins == b].sum()) for b in range(10))
    assert error < 0.04


@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_threshold_of_a_false_match_rate_holds_for_unseen_entities(rate, model, unseen):
    pairs, y = unseen
    found = pickle.loads(pickle.dumps(model))
    found.set_threshold(found.threshold(false_match_rate=rate))
    assert 0.6 * rate < np.mean(found.predict(pairs[y < 0]) == 1) < 1.6 * rate


def test_cosine_remains_if_the_pairs_say_nothing_more():
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(60, 1, 40)) + 0.8 * rng.normal(size=(60, 2, 40))
    model = PairClassifier(random_state=0).fit(pairs)
    assert model.best_params_ == {"model": "cosine"}
    cosine = (normalize(pairs[:, 0]) * normalize(pairs[:, 1])).sum(axis=1)
    np.testing.assert_array_equal(np.argsort(model.decision_function(pairs)), np.argsort(cosine))
    np.testing.assert_allclose(model.transform(pairs[:, 0]), normalize(pairs[:, 0]))
    short = PairClassifier(n_components=30, random_state=0).fit(pairs)
    assert short.transform(pairs[:, 0]).shape == (60, 30)
    losses = model.cv_results_["log_loss"]
    assert losses.argmin() == 0
    assert losses.shape == (5,)


def test_fewer_components_keep_the_best_axes(unseen):
    X, _ = simulated(300)
    model = PairClassifier(n_components=3, random_state=0).fit(X.reshape(300, 2, 8))
    assert model.components_.shape == (3, 8)
    assert model.transform(X).shape == (600, 3)
    assert model.score(*unseen) > 0.8


# Pairs, groups and preprocessors


def test_groups_equal_the_pairs_that_join_them():
    X, groups = simulated(100, 3)
    index, y = labelled_pairs(X, groups)
    by_pairs = PairClassifier(preprocessor=X, random_state=0).fit(index[y > 0])
    names = np.array([f"entity {g}" for g in groups])
    by_groups = PairClassifier(random_state=0).fit_groups(X, names)
    assert by_pairs.best_params_ == by_groups.best_params_
    np.testing.assert_allclose(by_pairs.components_, by_groups.components_, atol=1e-8)


@pytest.mark.parametrize("unknown", [-1, -1.0, np.nan, None])
def test_unknown_groups_count_in_the_mean_only(unknown):
    X, groups = simulated(100, 2)
    more = simulated(30, 1, seed=5)[0]
    everything = np.concatenate([X, more])
    names = [f"entity {g}" for g in groups] if unknown is None else groups
    labels = np.array([*names, *30 * [unknown]], object if unknown is None else None)
    model = PairClassifier(random_state=0).fit_groups(everything, labels)
    np.testing.assert_allclose(model.mean_, normalize(everything).mean(axis=0))
    index = np.arange(200).reshape(100, 2)
    expected = PairClassifier(preprocessor=everything, random_state=0).fit(index)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)
    without = PairClassifier(preprocessor=X, random_state=0).fit(index)
    assert not np.allclose(without.mean_, model.mean_)


def test_indices_are_looked_up():
    X, groups = simulated(100, 2)
    index, y = labelled_pairs(X, groups)
    vectors = PairClassifier(random_state=0).fit(X[index], y)
    lists = PairClassifier(preprocessor=X.tolist(), random_state=0).fit(index.tolist(), list(y))
    function = PairClassifier(preprocessor=lambda rows: X[rows], random_state=0).fit(index, y)
    table = pytest.importorskip("pandas").DataFrame(X, columns=list("abcdefgh"))
    frame = PairClassifier(preprocessor=table, random_state=0).fit(index, y)
    for model in (lists, function, frame):
        np.testing.assert_allclose(model.mean_, vectors.mean_, rtol=1e-9)
        scores = model.decision_function(index)
        np.testing.assert_allclose(scores, model.decision_function(X[index]), rtol=1e-9)
        np.testing.assert_allclose(model.transform(index[:, 0]), model.transform(X[index[:, 0]]))
        np.testing.assert_allclose(model.pair_distance(index), model.pair_distance(X[index]))
    assert 0 < vectors.prior_ < 0.5
    assert vectors.threshold_ == pytest.approx(-logit(vectors.prior_))
    np.testing.assert_array_equal(
        vectors.predict(X[index]) == 1, vectors.predict_proba(X[index])[:, 1] >= 0.5
    )


def test_given_negatives_calibrate():
    """Pairs of different entities that are alike make the same score a lower probability."""
    X, _ = simulated(200, 2)
    same = X.reshape(200, 2, 8)
    alike = np.stack([X[::2], X[::2] + 0.3], axis=1)
    alike += 0.5 * np.random.default_rng(0).normal(size=alike.shape)
    plain = PairClassifier(random_state=0).fit(same)
    hard = PairClassifier(random_state=0).fit(
        np.concatenate([same, alike]), np.repeat([1, -1], [200, 200])
    )
    assert np.median(hard.decision_function(alike)) < np.median(plain.decision_function(alike)) - 1


def test_the_same_vector_in_several_pairs_is_one_vector():
    X, groups = simulated(60, 3)
    index, y = labelled_pairs(X, groups)
    index = index[y > 0]
    by_value = PairClassifier(random_state=0).fit(X[np.concatenate([index, index[:, ::-1]])])
    np.testing.assert_allclose(by_value.mean_, normalize(X).mean(axis=0))
    assert by_value.n_features_in_ == 8


def test_large_data_are_drawn_from(monkeypatch):
    """With more vectors than the cross-validation uses: many entities, few large ones, singles."""
    monkeypatch.setattr("genmetric.learners.pairs.MAX_VECTORS", 200)
    for n_entities, n_each in ((300, 2), (60, 15)):
        X, groups = simulated(n_entities, n_each)
        X = np.concatenate([X, simulated(500, 1, seed=2)[0]])
        groups = np.concatenate([groups, np.full(500, -1)])
        model = PairClassifier(random_state=0).fit_groups(X, groups)
        np.testing.assert_allclose(model.mean_, normalize(X).mean(axis=0))
        index, y = labelled_pairs(*simulated(200, 2, seed=9))
        assert model.score(simulated(200, 2, seed=9)[0][index], y) > 0.85


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_and_threads(dtype):
    X = simulated(100)[0].astype(dtype).reshape(100, 2, 8)
    one, two = (PairClassifier(n_jobs=n, random_state=0).fit(X) for n in (None, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))
    assert one.components_.dtype == one.transform(X[:, 0]).dtype == dtype
    wide = PairClassifier(random_state=0).fit(X.astype(float))
    np.testing.assert_allclose(one.decision_function(X), wide.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scales_do_not_matter(scale):
    X = simulated(100)[0].reshape(100, 2, 8)
    for scaled in (True, False):
        model = PairClassifier(normalize=scaled, random_state=0)
        scores = model.fit(X).decision_function(X)
        np.testing.assert_allclose(model.fit(X * scale).decision_function(X * scale), scores, 1e-6)
    with pytest.raises(ValueError, match="normalize=True"):
        PairClassifier(normalize=False).fit(X * 1e150)


# metric-learn's interface


def test_outputs_are_unit_vectors_whose_distance_is_that_of_pairs(model):
    X = simulated(50, seed=3)[0]
    z = model.transform(X)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1)
    expected = normalize((normalize(X) - model.mean_) @ model.components_.T)
    np.testing.assert_allclose(z, expected)
    pairs, metric = X.reshape(50, 2, 8), model.get_metric()
    distances = model.pair_distance(pairs)
    np.testing.assert_allclose(distances, np.linalg.norm(z[::2] - z[1::2], axis=1))
    np.testing.assert_allclose([metric(*pair) for pair in pairs], distances)
    np.testing.assert_allclose([metric(*pair, squared=True) for pair in pairs], distances**2)


def test_without_normalize_the_map_is_linear():
    X = simulated(100)[0]
    model = PairClassifier(normalize=False, random_state=0).fit(X.reshape(100, 2, 8))
    np.testing.assert_allclose(model.transform(X), X @ model.components_.T)
    M, d = model.get_mahalanobis_matrix(), X[0] - X[1]
    np.testing.assert_allclose(model.pair_distance(X[None, :2]), np.sqrt(d @ M @ d))
    np.testing.assert_allclose(model.get_metric()(X[0], X[1]), np.sqrt(d @ M @ d))


def rates(y, predicted):
    return np.mean(predicted[y > 0] == 1), np.mean(predicted[y < 0] == -1)


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({}, accuracy_score),
        ({"strategy": "f_beta", "beta": 0.5}, lambda y, p: fbeta_score(y, p, beta=0.5)),
        ({"strategy": "f_beta", "beta": 2}, lambda y, p: fbeta_score(y, p, beta=2)),
        (
            {"strategy": "max_tpr", "min_rate": 0.9},
            lambda y, p: rates(y, p)[0] if rates(y, p)[1] >= 0.9 else -1,
        ),
        (
            {"strategy": "max_tnr", "min_rate": 0.9},
            lambda y, p: rates(y, p)[1] if rates(y, p)[0] >= 0.9 else -1,
        ),
    ],
)
def test_calibrated_threshold_is_the_best(options, value, model, unseen):
    pairs, y = (a[300:500] for a in unseen)
    found = pickle.loads(pickle.dumps(model)).calibrate_threshold(pairs, y, **options)
    best = value(y, found.predict(pairs))
    scores = found.decision_function(pairs)
    for threshold in [scores.min() - 1, *scores, scores.max() + 1]:
        assert value(y, np.where(scores >= threshold, 1, -1)) <= best + 1e-12


def test_threshold_in_fit():
    X, groups = simulated(100)
    index, y = labelled_pairs(X, groups)
    options = {"strategy": "max_tnr", "min_rate": 1.0}
    model = PairClassifier(random_state=0).fit(X[index], y, calibration_params=options)
    assert (model.predict(X[index][y > 0]) == 1).all()


@pytest.mark.parametrize(
    "name",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_get_params_invariance",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_set_params",
        "check_valid_tag_types",
    ],
)
def test_checks_of_scikit_learn_that_need_no_samples(name):
    """The others pass arrays of samples, not of pairs."""
    getattr(estimator_checks, name)("PairClassifier", PairClassifier())


def test_cross_validation_of_scikit_learn():
    X, groups = simulated(150)
    index, y = labelled_pairs(X, groups)
    scores = cross_val_score(PairClassifier(preprocessor=X, random_state=0), index, y, cv=3)
    assert scores.shape == (3,)
    assert (scores > 0.8).all()


def test_not_fitted():
    X, model = np.ones((3, 2, 4)), PairClassifier()
    calls = [
        lambda: model.predict(X),
        lambda: model.decision_function(X),
        lambda: model.predict_proba(X),
        lambda: model.transform(X[0]),
        lambda: model.pair_distance(X),
        lambda: model.set_threshold(0.5),
        lambda: model.threshold(false_match_rate=0.1),
        lambda: model.calibrate_threshold(X, [1, 1, -1]),
        model.get_mahalanobis_matrix,
        model.get_metric,
    ]
    for call in calls:
        with pytest.raises(NotFittedError):
            call()


# Invalid input


def test_few_entities_are_reported():
    X = simulated(20)[0].reshape(20, 2, 8)
    with pytest.warns(UserWarning, match="of 20 entities. With fewer than about 50"):
        PairClassifier(random_state=0).fit(X)
    with pytest.warns(UserWarning, match="of 2 entities"):
        model = PairClassifier(random_state=0).fit(X[:2])
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("n_entities", [0, 1])
def test_too_few_entities(n_entities):
    X = simulated(1, 5)[0]
    index = np.array([[0, 1], [1, 2], [3, 4], [2, 3]])
    y = np.full(4, 2 * n_entities - 1)
    found = "all join one entity" if n_entities else "no such pairs"
    with pytest.raises(ValueError, match=f"at least 2 entities; got .*{found}"):
        PairClassifier(preprocessor=X).fit(index, y)


def test_a_vector_with_itself_is_ignored():
    X = simulated(100)[0]
    index = np.arange(200).reshape(100, 2)
    expected = PairClassifier(preprocessor=X, random_state=0).fit(index)
    with pytest.warns(UserWarning, match="2 pairs of the same entity are a vector with itself"):
        found = PairClassifier(preprocessor=X, random_state=0).fit([*index, [0, 0], [7, 7]])
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_contradictions_are_ignored():
    X, groups = simulated(100)
    index, y = labelled_pairs(X, groups)
    expected = PairClassifier(preprocessor=X, random_state=0).fit(index, y)
    with pytest.warns(UserWarning, match=rf"1 pairs are labelled as different.*is pair {len(y)}\)"):
        found = PairClassifier(preprocessor=X, random_state=0).fit([*index, [1, 0]], [*y, -1])
    np.testing.assert_array_equal(found.components_, expected.components_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1, 0] * 50}, r"must be 1 \(same entity\) or -1 .*got \[0, 1\]"),
        ({"y": ["a", "b"] * 50}, "must be 1 .* or -1"),
        ({"y": [1, -1]}, "one label per pair, 100; got 2"),
        ({"pairs": np.ones((4, 3, 8))}, r"shape \(n_tuples, 2, n_features\)"),
        ({"pairs": np.ones((4, 2))}, r"shape \(n_tuples, 2, n_features\)"),
        ({"pairs": np.full((4, 2, 8), np.nan)}, "contains NaN"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"n_components": 9}, r"n_components.*\[1, 8\]"),
        ({"normalize": 1}, "normalize must be a bool"),
        ({"preprocessor": "X"}, "preprocessor must be None, a callable or an array-like"),
    ],
)
def test_invalid_input(change, message):
    values = {"pairs": simulated(100)[0].reshape(100, 2, 8), "y": None, **change}
    pairs, y = values.pop("pairs"), values.pop("y")
    with pytest.raises(ValueError, match=message):
        PairClassifier(**values).fit(pairs, y)


@pytest.mark.parametrize(
    "index",
    [[[0, 200]], [[-1, 3]], [[0.5, 1.0]], [["a", "b"]]],
    ids=["high", "low", "float", "text"],
)
def test_invalid_indices(index):
    X = simulated(100)[0]
    model = PairClassifier(preprocessor=X, random_state=0).fit(np.arange(200).reshape(100, 2))
    for method in (model.fit, model.predict):
        with pytest.raises(ValueError, match="must be integers from 0 to 199"):
            method(index)


def test_a_sparse_preprocessor_is_refused():
    with pytest.raises(TypeError, match=r"sparse matrix; expected an array.*TruncatedSVD"):
        PairClassifier(preprocessor=csr_array(np.eye(10))).fit([[0, 1], [2, 3]])


def test_invalid_thresholds(model, unseen):
    with pytest.raises(ValueError, match=r"false_match_rate must be a number in \(0, 1\)"):
        model.threshold(false_match_rate=0)
    with pytest.raises(ValueError, match="false_match_rate=1e-06 is below 1/"):
        model.threshold(false_match_rate=1e-6)
    with pytest.raises(ValueError, match="strategy must be 'accuracy', 'f_beta'"):
        model.calibrate_threshold(*unseen, strategy="weird")
    with pytest.raises(ValueError, match=r"min_rate must be a number in \[0, 1\]; got None"):
        model.calibrate_threshold(*unseen, strategy="max_tpr")
    with pytest.raises(ValueError, match="must have pairs of the same entity and of different"):
        model.calibrate_threshold(unseen[0][:3], [1, 1, 1])
    with pytest.raises(ValueError, match="threshold must be a number"):
        model.set_threshold("high")
    with pytest.raises(ValueError, match="one name per vector, 4; got 3"):
        PairClassifier().fit_groups(np.ones((4, 2)), [0, 0, 1])
    with pytest.raises(ValueError, match="X has 5 features, but PairClassifier is expecting 8"):
        model.predict(np.ones((3, 2, 5)))

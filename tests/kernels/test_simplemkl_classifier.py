import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, minmax_scale
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from genmetric import GenerativeMetric
from genmetric import _memory as memory
from genmetric.kernels import RegionalKernels, SimpleMKLClassifier, metric_kernel

GAUSSIANS = [partial(rbf_kernel, gamma=gamma) for gamma in (0.05, 0.5, 5.0)]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return minmax_scale(X, (-1, 1)), y


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return minmax_scale(X, (-1, 1))[::3], y[::3]


# The checks have classes of one sample, about which the metric warns.
@pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")
@parametrize_with_checks(
    [
        SimpleMKLClassifier(RegionalKernels(2, random_state=0), strategy="ovr"),
        SimpleMKLClassifier(["rbf", "linear"]),
        RegionalKernels(0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("strategy", ["ovo", "ovr"])
@pytest.mark.parametrize("shared", [True, False])
def test_every_source_of_kernels_gives_the_same_result(wine, strategy, shared):
    X, y = wine
    X_fit, y_fit, X_new = X[::2], y[::2], X[1::2]
    stack = np.array([kernel(X_fit, X_fit) for kernel in GAUSSIANS])
    new_stack = np.array([kernel(X_new, X_fit) for kernel in GAUSSIANS])
    options = {"strategy": strategy, "shared_weights": shared, "C": 5.0}
    by_list = SimpleMKLClassifier(GAUSSIANS, **options).fit(X_fit, y_fit)
    by_stack = SimpleMKLClassifier("precomputed", **options).fit(stack, y_fit)
    np.testing.assert_array_equal(by_list.weights_, by_stack.weights_)
    scores = by_stack.decision_function(new_stack)
    assert scores.shape == (len(X_new), 3)
    np.testing.assert_allclose(by_list.decision_function(X_new), scores, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(by_list.predict(X_new), by_stack.predict(new_stack))
    np.testing.assert_array_equal(scores.argmax(axis=1), by_stack.predict(new_stack))
    assert by_list.score(X_new, y[1::2]) > 0.9


def test_two_classes_equal_svc_on_the_combined_kernel(cancer):
    X, y = cancer
    model = SimpleMKLClassifier(GAUSSIANS, C=5.0, tol=1e-4).fit(X[::2], y[::2])
    K, K_new = model.transform(X[::2]), model.transform(X[1::2])
    expected = sum(w * k(X[::2], X[::2]) for w, k in zip(model.weights_, GAUSSIANS, strict=True))
    np.testing.assert_allclose(K, expected, rtol=1e-12)
    svc = SVC(C=5.0, kernel="precomputed", tol=1e-6).fit(K, y[::2])
    np.testing.assert_allclose(
        model.decision_function(X[1::2]), svc.decision_function(K_new), atol=2e-3
    )
    a = svc.dual_coef_[0]
    own = K[np.ix_(svc.support_, svc.support_)]
    assert model.objective_ == pytest.approx(np.abs(a).sum() - a @ own @ a / 2, rel=1e-4)
    assert model.dual_coef_.shape == (1, len(model.support_))


@pytest.mark.parametrize("strategy", ["ovo", "ovr"])
def test_attributes(wine, strategy):
    X, y = wine
    model = SimpleMKLClassifier(RegionalKernels(2, random_state=0), strategy=strategy, C=4.0)
    model.fit(X, y)
    assert model.weights_.shape == (30,)
    assert model.weights_.min() >= 0
    assert model.weights_.sum() == pytest.approx(1)
    assert 0 <= model.duality_gap_ <= model.tol
    assert model.n_iter_ == len(model.history_)
    assert model.history_[-1].objective == model.objective_
    assert model.history_[-1].duality_gap == model.duality_gap_
    assert model.history_[-1].n_active == np.count_nonzero(model.weights_)
    np.testing.assert_array_equal(model.normalization_, 1)  # Gaussian kernels are normal already
    assert model.kernels_.metrics_.shape == (2, 13, 13)
    assert model.intercept_.shape == (3,)
    assert len(model.get_feature_names_out()) == len(X)


def test_separate_weights(wine):
    X, y = wine
    apart = SimpleMKLClassifier(GAUSSIANS, shared_weights=False, tol=1e-3).fit(X, y)
    assert apart.weights_.shape == (3, 3)
    np.testing.assert_allclose(apart.weights_.sum(axis=1), 1)
    assert apart.duality_gap_ <= 1e-3
    assert len(apart.history_) == 3
    # Each problem equals that of its two classes.
    pair = np.flatnonzero(y != 1)
    single = SimpleMKLClassifier(GAUSSIANS, tol=1e-3).fit(X[pair], y[pair])
    np.testing.assert_allclose(apart.weights_[1], single.weights_, atol=1e-6)
    # More freedom: the sum of the minima is at most the minimum of the sum.
    shared = SimpleMKLClassifier(GAUSSIANS, tol=1e-3).fit(X, y)
    assert apart.objective_ <= shared.objective_ * (1 + 1e-3)
    with pytest.raises(ValueError, match="shared_weights=True"):
        apart.transform(X)


def test_normalisation(wine):
    X, y = wine
    sizes = np.array([1e-8, 1.0, 1e8])
    stack = np.array([kernel(X, X) for kernel in GAUSSIANS])
    scaled = stack * sizes[:, None, None]
    plain = SimpleMKLClassifier("precomputed").fit(stack, y)
    normal = SimpleMKLClassifier("precomputed").fit(scaled, y)
    np.testing.assert_allclose(normal.weights_, plain.weights_, atol=1e-6)
    np.testing.assert_allclose(normal.normalization_, 1 / sizes)
    np.testing.assert_allclose(normal.transform(scaled), plain.transform(stack), rtol=1e-5)
    raw = SimpleMKLClassifier("precomputed", normalize=False).fit(scaled, y)
    np.testing.assert_array_equal(raw.normalization_, 1)
    assert raw.duality_gap_ <= 0.01
    np.testing.assert_allclose(raw.weights_, [0, 0, 1], atol=1e-6)  # the largest wins
    assert np.isfinite(raw.decision_function(scaled)).all()


def test_linear_kernel_is_scaled_by_training_samples(wine):
    X, y = wine
    model = SimpleMKLClassifier(["linear"]).fit(X, y)
    factor = 1 / (X**2).sum(axis=1).mean()
    np.testing.assert_allclose(model.normalization_, factor)
    np.testing.assert_allclose(model.transform(X[:4]), factor * X[:4] @ X.T, rtol=1e-10)


def test_prediction_evaluates_only_kernels_with_weight(wine):
    X, y = wine
    calls = []

    def counted(a, b, gamma):
        calls.append(gamma)
        return rbf_kernel(a, b, gamma=gamma)

    gammas = [1e-4, 0.2, 500.0]
    model = SimpleMKLClassifier([partial(counted, gamma=g) for g in gammas], tol=1e-3).fit(X, y)
    assert 0 < np.count_nonzero(model.weights_) < 3
    calls.clear()
    model.predict(X[:3])
    assert calls == [g for g, w in zip(gammas, model.weights_, strict=True) if w]


def test_prediction_independent_of_blocks(wine, monkeypatch):
    X, y = wine
    stack = np.array([kernel(X, X) for kernel in GAUSSIANS])
    models = [
        (SimpleMKLClassifier(GAUSSIANS).fit(X, y), X),
        (SimpleMKLClassifier("precomputed").fit(stack, y), stack),
        (SimpleMKLClassifier(RegionalKernels(1)).fit(X, y), X),
    ]
    whole = [(model.decision_function(rows), model.transform(rows)) for model, rows in models]
    monkeypatch.setattr("genmetric._chunks.CHUNK_BYTES", 3 * 8 * len(X) * 7)
    for (model, rows), (scores, K) in zip(models, whole, strict=True):
        np.testing.assert_allclose(model.decision_function(rows), scores, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.transform(rows), K, rtol=1e-12)


@pytest.mark.parametrize("shared", [True, False])
def test_warm_start_needs_fewer_iterations(wine, shared):
    X, y = wine
    warm = SimpleMKLClassifier(shared_weights=shared, warm_start=True, C=8.0).fit(X, y)
    cold = SimpleMKLClassifier(shared_weights=shared, C=16.0).fit(X, y)
    warm.set_params(C=16.0).fit(X, y)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.duality_gap_ <= 0.01
    assert warm.objective_ == pytest.approx(cold.objective_, rel=0.02)
    # Another number of kernels starts afresh.
    warm.set_params(kernels=GAUSSIANS).fit(X, y)
    fresh = SimpleMKLClassifier(GAUSSIANS, shared_weights=shared, C=16.0).fit(X, y)
    np.testing.assert_array_equal(warm.weights_, fresh.weights_)


def test_default_kernels_are_the_euclidean_baseline(wine):
    X, y = wine
    a = SimpleMKLClassifier().fit(X, y)
    b = SimpleMKLClassifier(RegionalKernels(n_regions=0)).fit(X, y)
    np.testing.assert_array_equal(a.weights_, b.weights_)
    assert a.weights_.shape == (15,)


def test_strings_frames_and_pickles():
    frame = load_iris(as_frame=True).frame
    X = frame.drop(columns="target")
    y = pd.Series(np.array(["setosa", "versicolor", "virginica"]))[frame["target"]].to_numpy()
    model = SimpleMKLClassifier(C=10).fit(X, y)
    assert model.score(X, y) > 0.95
    assert set(model.predict(X)) == set(model.classes_)
    assert model.n_features_in_ == 4
    list(model.feature_names_in_)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    by_code = SimpleMKLClassifier(C=10).fit(X.to_numpy(), frame["target"])
    np.testing.assert_array_equal(by_code.weights_, model.weights_)


def test_boolean_labels(cancer):
    X, y = cancer
    model = SimpleMKLClassifier(GAUSSIANS).fit(X, y.astype(bool))
    assert model.predict(X).dtype == bool


def test_pipeline_and_search(wine):
    X, y = wine
    pipeline = make_pipeline(MinMaxScaler(), SimpleMKLClassifier(RegionalKernels(random_state=0)))
    grid = {
        "simplemklclassifier__C": [1.0, 32.0],
        "simplemklclassifier__kernels__n_regions": [0, 1],
    }
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=1).fit(X, y)
    assert search.best_score_ > 0.95
    assert clone(search.best_estimator_).get_params()["simplemklclassifier__C"] in (1.0, 32.0)
    # As a transformer: the combined kernel before another machine.
    chain = make_pipeline(SimpleMKLClassifier(), SVC(kernel="precomputed", C=10))
    assert cross_val_score(chain, X, y, cv=3).mean() > 0.95


def test_kernels_of_a_metric_among_others(wine):
    X, y = wine
    metric = GenerativeMetric().fit(X[::2], y[::2])
    kernels = [metric_kernel(metric, scale=s) for s in (0.5, 2.0)] + ["linear"]
    model = SimpleMKLClassifier(kernels, C=10).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.95


def test_result_independent_of_n_jobs(wine):
    X, y = wine
    one, two = (
        SimpleMKLClassifier(RegionalKernels(2, random_state=0, n_jobs=n), n_jobs=n).fit(X, y)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.weights_, two.weights_)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_float32_samples(wine):
    X, y = wine
    single = X.astype(np.float32)
    model = SimpleMKLClassifier(RegionalKernels(1)).fit(single, y)
    assert model.transform(single).dtype == np.float32
    double = SimpleMKLClassifier(RegionalKernels(1)).fit(X, y)
    np.testing.assert_allclose(model.weights_, double.weights_, atol=1e-3)


def test_memory_mapped_stack(wine, tmp_path):
    X, y = wine
    stack = np.array([kernel(X, X) for kernel in GAUSSIANS])
    np.save(tmp_path / "stack.npy", stack)
    mapped = np.load(tmp_path / "stack.npy", mmap_mode="r")
    model = SimpleMKLClassifier("precomputed").fit(mapped, y)
    assert model.score(mapped, y) > 0.95


def test_memory_is_reported_before_allocation(wine, monkeypatch, caplog):
    X, y = wine
    SimpleMKLClassifier(verbose=1).fit(X, y)
    assert caplog.messages[0] == "Learning 15 kernels on 178 samples takes 5.39 MB"
    monkeypatch.setattr(memory, "available_memory", lambda: 5 * 10**6)
    with pytest.raises(
        MemoryError, match=r"Learning 15 kernels .* 5.39 MB, but only 5 MB are free"
    ):
        SimpleMKLClassifier().fit(X, y)
    with pytest.raises(MemoryError, match="Learning 1000 kernels on 178 samples"):
        SimpleMKLClassifier(["rbf"] * 1000).fit(X, y)


def test_warning_without_convergence(wine):
    X, y = wine
    with pytest.warns(ConvergenceWarning, match=r"gap of .* after 2 iterations.*Increase max_iter"):
        SimpleMKLClassifier(tol=1e-6, max_iter=1, C=10).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"C": 0}, ValueError, "C must be a number > 0"),
        ({"C": "big"}, ValueError, "C must be a number > 0"),
        ({"tol": -1}, ValueError, "tol must be a number > 0"),
        ({"max_iter": 0}, ValueError, "max_iter must be"),
        ({"max_iter": 1.5}, ValueError, "max_iter must be"),
        ({"strategy": "ova"}, ValueError, "strategy must be"),
        ({"kernels": "rbf"}, TypeError, "kernels must be a list"),
        ({"kernels": 5}, TypeError, "kernels must be a list"),
        ({"kernels": []}, ValueError, "kernels is empty"),
        ({"kernels": ["linear", None]}, ValueError, r"kernels\[1\] must be"),
        ({"kernels": RegionalKernels(-1)}, ValueError, "n_regions must be"),
        ({"kernels": [lambda a, b: a @ b.T * np.nan]}, ValueError, "kernel 0 has NaN"),
        ({"kernels": ["rbf", lambda a, b: a @ b[::-1].T]}, ValueError, "Kernel 1 is not symm"),
        ({"kernels": [lambda a, _: a]}, ValueError, "returned shape"),
    ],
)
def test_invalid_parameters(wine, parameters, error, text):
    with pytest.raises(error, match=text):
        SimpleMKLClassifier(**parameters).fit(*wine)


def test_invalid_stacks(wine):
    X, y = wine
    stack = np.array([kernel(X, X) for kernel in GAUSSIANS])
    for bad in (
        stack[0],
        stack[:, 1:],
        stack[:, :, 1:],
        np.where(stack == stack[1, 2, 3], np.nan, stack),
    ):
        with pytest.raises(ValueError, match=r"stack of Gram|kernel \d has NaN"):
            SimpleMKLClassifier("precomputed").fit(bad, y)
    model = SimpleMKLClassifier("precomputed").fit(stack, y)
    assert model.predict(stack[:, :5]).shape == (5,)
    for bad in (stack[:2], stack[:, :, :5], X):
        with pytest.raises(ValueError, match=r"shape \(3, any, 178\)"):
            model.predict(bad)


def test_invalid_samples_and_labels(wine):
    X, y = wine
    with pytest.raises(ValueError, match="at least 2 classes; got 1"):
        SimpleMKLClassifier().fit(X, np.zeros(len(X)))
    with pytest.raises(TypeError, match="masked"):
        SimpleMKLClassifier().fit(np.ma.masked_array(X), y)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        SimpleMKLClassifier().predict(X)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        SimpleMKLClassifier().transform(X)
    later = SimpleMKLClassifier([lambda a, b: np.where(len(a) == len(b), a @ b.T, np.nan)])
    with pytest.raises(ValueError, match=r"kernels\[0\] returned NaN"):
        later.fit(X, y).predict(X[:3])


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_samples_of_any_scale(wine, size):
    X, y = wine
    plain = SimpleMKLClassifier(RegionalKernels(1)).fit(X, y)
    scaled = SimpleMKLClassifier(RegionalKernels(1)).fit(X * size, y)
    np.testing.assert_allclose(scaled.weights_, plain.weights_, atol=1e-4)


def test_tiny_and_unusual_data():
    X = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [3.0, 5.0]])
    y = np.array(["a", "a", "b", "c", "c"])
    for strategy in ("ovo", "ovr"):
        model = SimpleMKLClassifier(C=100.0, strategy=strategy).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), y)


@pytest.mark.parametrize("strategy", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_predict_proba(strategy, n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(90) % n_classes
    X = rng.normal(size=(90, 3)) + 1.5 * np.eye(3)[y]
    model = SimpleMKLClassifier(["rbf", "linear"], strategy=strategy).fit(X, y)
    probability = model.predict_proba(X)
    assert probability.shape == (90, n_classes)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert ((probability > 0) & (probability < 1)).all()
    np.testing.assert_array_equal(probability.argmax(axis=1), model.predict(X))
    if n_classes == 2:
        expected = 1 / (1 + np.exp(-model.decision_function(X)))
        np.testing.assert_allclose(probability[:, 1], expected)


def test_pairwise_probabilities_are_averaged():
    from genmetric.kernels._svm import class_probabilities

    decisions = np.log([[3.0, 1.0, 1 / 3]])  # probabilities 3/4, 1/2 and 1/4 of the first class
    found = class_probabilities(decisions, [(0, 1), (0, 2), (1, 2)], 3)
    np.testing.assert_allclose(found, [[(3 / 4 + 1 / 2) / 3, 1 / 2 / 3, (1 / 2 + 3 / 4) / 3]])


def test_class_that_wins_most_pairs_is_the_most_probable():
    from genmetric.kernels._svm import class_probabilities

    # Class 0 wins both its pairs by little, class 1 wins one by much.
    decisions = np.array([[0.01, 0.01, 5.0]])
    found = class_probabilities(decisions, [(0, 1), (0, 2), (1, 2)], 3)
    assert found[0].argmax() == 0
    np.testing.assert_allclose(found.sum(), 1)
    pairwise = 1 / (1 + np.exp(-decisions[0]))
    averages = [pairwise[:2].sum() / 3, (1 - pairwise[0] + pairwise[2]) / 3]
    assert averages[1] > averages[0]
    np.testing.assert_allclose(found[0, :2], averages[::-1])

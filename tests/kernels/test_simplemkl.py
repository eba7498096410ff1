"""SimpleMKLClassifier against a quadratic program, libsvm and the duality gap."""

import pickle
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, minmax_scale
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from genmetric import GenerativeMetric, RegionalKernels, SimpleMKLClassifier, metric_kernel

GAUSSIANS = [partial(rbf_kernel, gamma=gamma) for gamma in (0.05, 0.5, 5.0)]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return minmax_scale(X, (-1, 1)), y


@pytest.fixture(scope="module")
def stack(wine):
    return np.array([kernel(wine[0], wine[0]) for kernel in GAUSSIANS])


def two_class_problems(y):
    """Samples and signs of each problem."""
    pairs = [(np.flatnonzero((y == a) | (y == b)), b) for a, b in combinations(np.unique(y), 2)]
    return [(rows, np.where(y[rows] == b, 1.0, -1.0)) for rows, b in pairs]


def least_objective(stack, y, C):
    """Solve the dual of multiple kernel learning: max sum(beta) - t with t >= norm of each kernel.

    Half the squared norm of kernel m is the sum over problems of beta' (yy' * K_m) beta / 2.
    """
    problems = two_class_problems(y)
    cuts = np.cumsum([len(rows) for rows, _ in problems])
    n = cuts[-1]
    Q = [[np.outer(s, s) * K[np.ix_(rows, rows)] for rows, s in problems] for K in stack]
    balance = np.zeros((len(problems), n + 1))
    for p, (rows, signs) in enumerate(problems):
        balance[p, cuts[p] - len(rows) : cuts[p]] = signs

    def norms(v):
        parts = np.split(v[:-1], cuts[:-1])
        return np.array([sum(b @ q @ b for b, q in zip(parts, row, strict=True)) / 2 for row in Q])

    def slopes(v):
        parts = np.split(v[:-1], cuts[:-1])
        return np.array([[*np.concatenate(list(map(np.matmul, row, parts))), 0.0] for row in Q])

    cost = np.append(-np.ones(n), 1.0)
    constraints = [
        {
            "type": "ineq",
            "fun": lambda v: v[-1] - norms(v),
            "jac": lambda v: np.eye(1, n + 1, n) - slopes(v),
        },
        {"type": "eq", "fun": lambda v: balance @ v, "jac": lambda _: balance},
    ]
    found = minimize(
        lambda v: (cost @ v, cost),
        np.append(np.full(n, C / 10), 10.0),
        jac=True,
        method="SLSQP",
        bounds=[(0, C)] * n + [(None, None)],
        constraints=constraints,
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return -found.fun


@pytest.mark.parametrize("C", [0.5, 5.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_objective_of_a_quadratic_program(n_classes, C):
    rng = np.random.default_rng(3)
    y = np.arange(24) % n_classes
    X = rng.normal(size=(24, 3)) + np.eye(3)[y]
    stack = np.array([kernel(X, X) for kernel in GAUSSIANS] + [np.outer(X[:, 0], X[:, 0])])
    model = SimpleMKLClassifier("precomputed", C=C, normalize=False, tol=1e-6).fit(stack, y)
    expected = least_objective(stack, y, C)
    assert model.objective_ == pytest.approx(expected, rel=1e-8)
    assert -1e-9 <= model.duality_gap_ <= 1e-6


def primal_objective(K, y, C):
    """Regularised hinge loss of support vector machines, summed over pairs of classes."""
    value = 0.0
    for rows, signs in two_class_problems(y):
        own = K[np.ix_(rows, rows)]
        svc = SVC(C=C, kernel="precomputed", tol=1e-6).fit(own, signs)
        f = own[:, svc.support_] @ svc.dual_coef_[0]
        hinge = np.maximum(0, 1 - signs * (f + svc.intercept_))
        value += f[svc.support_] @ svc.dual_coef_[0] / 2 + C * hinge.sum()
    return value


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 3), st.booleans())
@settings(max_examples=10)
def test_lower_bound_holds_for_all_weights(seed, n_kernels, n_classes, ties):
    # Kernels of low rank and equal samples: the multipliers are ambiguous, and the objective is
    # not differentiable.
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 30))
    y = np.arange(n) % n_classes
    B = rng.normal(size=(n_kernels, n, int(rng.integers(1, 5))))
    B += 0.5 * y[:, None] * rng.normal(size=(n_kernels, 1, 1))
    B = np.round(B) if ties else B
    stack, C = B @ B.transpose(0, 2, 1), 10 ** rng.uniform(-1, 2)
    model = SimpleMKLClassifier("precomputed", C=C).fit(stack, y)
    assert -1e-9 <= model.duality_gap_ <= 0.01
    assert model.weights_.min() >= 0
    assert model.weights_.sum() == pytest.approx(1)
    least = model.objective_ * (1 - model.duality_gap_)
    stack *= model.normalization_[:, None, None]
    for weights in [*np.eye(n_kernels), *rng.dirichlet(np.ones(n_kernels), size=3)]:
        value = primal_objective(np.tensordot(weights, stack, 1), y, C)
        assert value >= least * (1 - 1e-6)


@pytest.mark.parametrize("C", [2.0**-3, 2.0**11])
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
@pytest.mark.parametrize("kind", ["gaussian", "features"])
def test_gap_on_small_sets(C, load, kind):
    X, y = load(return_X_y=True)
    X = minmax_scale(X, (-1, 1))
    X, y = (X[::4], y[::4]) if load is load_breast_cancer else (X, y)
    if kind == "gaussian":
        kernels = np.array([rbf_kernel(X, gamma=gamma) for gamma in 2.0 ** np.arange(-6, 7)])
    else:  # of rank one: the objective has kinks
        centred = X - X.mean(axis=0)
        kernels = np.einsum("if,jf->fij", centred, centred)
    model = SimpleMKLClassifier("precomputed", C=C).fit(kernels, y)
    assert model.duality_gap_ <= 0.01


def test_two_classes_equal_svc_on_the_combined_kernel():
    X, y = load_breast_cancer(return_X_y=True)
    X = minmax_scale(X, (-1, 1))
    X, y, X_new = X[::6], y[::6], X[1::6]
    model = SimpleMKLClassifier(GAUSSIANS, C=5.0, tol=1e-4).fit(X, y)
    K = model.transform(X)
    expected = sum(w * k(X, X) for w, k in zip(model.weights_, GAUSSIANS, strict=True))
    np.testing.assert_allclose(K, expected, rtol=1e-12)
    svc = SVC(C=5.0, kernel="precomputed", tol=1e-6).fit(K, y)
    decision = svc.decision_function(model.transform(X_new))
    np.testing.assert_allclose(model.decision_function(X_new), decision, atol=2e-3)
    assert model.objective_ == pytest.approx(primal_objective(K, y, 5.0), rel=1e-4)
    assert model.dual_coef_.shape == (1, len(model.support_))
    assert model.predict(X_new).tolist() == (decision > 0).astype(int).tolist()


# The checks have classes of one sample, about which the metric warns.
@pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")
@parametrize_with_checks(
    [
        SimpleMKLClassifier(RegionalKernels(2, random_state=0)),
        SimpleMKLClassifier(["rbf", "linear"]),
        RegionalKernels(0),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_source_of_kernels_gives_the_same_result(wine, stack):
    X, y = wine
    half = np.ix_(range(3), range(0, 178, 2), range(0, 178, 2))
    new = np.ix_(range(3), range(1, 178, 2), range(0, 178, 2))
    by_list = SimpleMKLClassifier(GAUSSIANS, C=5.0).fit(X[::2], y[::2])
    by_stack = SimpleMKLClassifier("precomputed", C=5.0).fit(stack[half], y[::2])
    np.testing.assert_allclose(by_list.weights_, by_stack.weights_, rtol=1e-6, atol=1e-9)
    scores = by_stack.decision_function(stack[new])
    assert scores.shape == (89, 3)
    np.testing.assert_allclose(by_list.decision_function(X[1::2]), scores, atol=1e-6)
    np.testing.assert_array_equal(by_list.predict(X[1::2]), by_stack.predict(stack[new]))
    np.testing.assert_array_equal(scores.argmax(axis=1), by_stack.predict(stack[new]))
    assert by_list.score(X[1::2], y[1::2]) > 0.9


def test_attributes(wine):
    X, y = wine
    model = SimpleMKLClassifier(RegionalKernels(2, random_state=0), C=4.0).fit(X, y)
    assert model.weights_.shape == (30,)
    assert 0 <= model.duality_gap_ <= model.tol
    assert 1 <= model.n_iter_ <= model.max_iter
    np.testing.assert_array_equal(model.normalization_, 1)  # Gaussian kernels are normal already
    assert model.kernels_.metrics_.shape == (2, 13, 13)
    assert model.intercept_.shape == (3,)
    assert len(model.get_feature_names_out()) == len(X)
    # The support vectors and their multipliers give the decisions.
    K = model.transform(X)[:, model.support_]
    f = K @ model.dual_coef_.T + model.intercept_
    wins = [(f[:, [0, 1]] < 0).sum(axis=1), (f[:, 0] > 0) * 1 + (f[:, 2] < 0)]
    np.testing.assert_array_equal(np.round(model.decision_function(X))[:, :2], np.transpose(wins))


def test_normalisation(wine, stack):
    X, y = wine
    sizes = np.array([1e-8, 1.0, 1e8])
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
    linear = SimpleMKLClassifier(["linear"]).fit(X, y)
    factor = 1 / (X**2).sum(axis=1).mean()
    np.testing.assert_allclose(linear.normalization_, factor)
    np.testing.assert_allclose(linear.transform(X[:4]), factor * X[:4] @ X.T, rtol=1e-10)


def test_identical_kernels_and_a_kernel_of_zeros(wine, stack):
    _, y = wine
    plain = SimpleMKLClassifier("precomputed", tol=1e-4).fit(stack[:2], y)
    more = np.concatenate([stack[:2], stack[:2], np.zeros((1, 178, 178))])
    doubled = SimpleMKLClassifier("precomputed", tol=1e-4).fit(more, y)
    assert doubled.objective_ == pytest.approx(plain.objective_, rel=1e-4)
    assert doubled.weights_[4] == 0
    both = doubled.weights_[:2] + doubled.weights_[2:4]
    np.testing.assert_allclose(both, plain.weights_, atol=0.01)


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


@pytest.mark.parametrize("kernels", [GAUSSIANS, "precomputed", RegionalKernels(1)])
def test_prediction_in_blocks(wine, stack, kernels):
    X, y = wine
    rows = stack if kernels == "precomputed" else X
    model = SimpleMKLClassifier(kernels).fit(rows, y)
    many = np.concatenate([rows] * 50, axis=-2)  # 8900 samples: more than one block
    expected = np.tile(model.decision_function(rows), (50, 1))
    np.testing.assert_allclose(model.decision_function(many), expected, rtol=1e-9, atol=1e-12)


def test_warm_start_needs_fewer_iterations(wine):
    X, y = wine
    warm = SimpleMKLClassifier(warm_start=True, C=8.0).fit(X, y)
    cold = SimpleMKLClassifier(C=16.0).fit(X, y)
    warm.set_params(C=16.0).fit(X, y)
    assert warm.n_iter_ < cold.n_iter_
    assert warm.duality_gap_ <= 0.01
    assert warm.objective_ == pytest.approx(cold.objective_, rel=0.02)


def test_holdout_separates_the_metrics_from_the_weights(wine):
    X, y = wine
    regional = RegionalKernels(2, holdout=0.5, random_state=0)
    model = SimpleMKLClassifier(regional, C=10.0).fit(X, y)
    learned = model.kernels_.holdout_
    held = np.setdiff1d(np.arange(178), learned)
    # Half of each class, and by the same steps with two sets of samples.
    np.testing.assert_allclose(np.bincount(y[held]), np.bincount(y) / 2, atol=1)
    kernels = clone(regional).set_params(holdout=None).fit(X[held], y[held])
    np.testing.assert_array_equal(model.kernels_.metrics_, kernels.metrics_)
    by_hand = SimpleMKLClassifier("precomputed", C=10.0).fit(kernels.gram(X[learned]), y[learned])
    np.testing.assert_allclose(model.weights_, by_hand.weights_, rtol=1e-6, atol=1e-9)
    # The support vector machine is trained on all samples.
    combined = kernels.combined_gram(by_hand.weights_, X)
    np.testing.assert_allclose(model.transform(X), combined, rtol=1e-6, atol=1e-9)
    expected = SVC(C=10.0, kernel="precomputed").fit(combined, y).predict(combined)
    np.testing.assert_array_equal(model.predict(X), expected)
    assert model.score(X[held], y[held]) > 0.95
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_holdout_keeps_every_class(wine):
    X, y = wine
    few = np.append(np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:2])
    model = SimpleMKLClassifier(RegionalKernels(1, holdout=0.05, random_state=0))
    with pytest.warns(UserWarning, match="have a single sample"):
        model.fit(X[few], y[few])
    assert np.bincount(y[few][model.kernels_.holdout_]).tolist() == [3, 4, 1]
    assert model.transform(X).shape == (178, len(few))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_predict_proba(n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(90) % n_classes
    X = rng.normal(size=(90, 3)) + 1.5 * np.eye(3)[y]
    model = SimpleMKLClassifier(["rbf", "linear"]).fit(X, y)
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert ((probability > 0) & (probability < 1)).all()
    np.testing.assert_array_equal(probability.argmax(axis=1), model.predict(X))
    f = model.transform(X)[:, model.support_] @ model.dual_coef_.T + model.intercept_
    r = 1 / (1 + np.exp(-f))
    if n_classes == 2:
        expected = np.column_stack([1 - r, r])
    else:  # pairs (1, 0), (2, 0), (2, 1)
        s = 1 - r
        expected = np.column_stack([s[:, 0] + s[:, 1], r[:, 0] + s[:, 2], r[:, 1] + r[:, 2]]) / 3
    # Sorted, because the class that wins the most pairs takes the largest probability.
    np.testing.assert_allclose(np.sort(probability), np.sort(expected), rtol=1e-8)


def test_data_frames_names_and_pickle():
    frame = load_iris(as_frame=True).frame
    X = frame.drop(columns="target")
    y = pd.Series(["setosa", "versicolor", "virginica"])[frame["target"]].to_numpy()
    model = SimpleMKLClassifier(C=10).fit(X, y)
    assert model.score(X, y) > 0.95
    assert list(model.feature_names_in_) == list(X.columns)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    by_code = SimpleMKLClassifier(C=10).fit(X.to_numpy(), frame["target"])
    np.testing.assert_array_equal(by_code.weights_, model.weights_)
    truth = SimpleMKLClassifier(GAUSSIANS).fit(X, y == "setosa")
    assert truth.predict(X).dtype == bool


def test_pipeline_and_search(wine):
    X, y = wine
    pipeline = make_pipeline(MinMaxScaler(), SimpleMKLClassifier(RegionalKernels(random_state=0)))
    grid = {
        "simplemklclassifier__C": [1.0, 32.0],
        "simplemklclassifier__kernels__n_regions": [0, 1],
    }
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=1).fit(X, y)
    assert search.best_score_ > 0.95
    # As a transformer: the combined kernel before another machine.
    chain = make_pipeline(SimpleMKLClassifier(), SVC(kernel="precomputed", C=10))
    assert cross_val_score(chain, X, y, cv=3).mean() > 0.95
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
    assert one.objective_ == two.objective_
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_float32_and_memory_maps(wine, stack, tmp_path):
    X, y = wine
    single = X.astype(np.float32)
    model = SimpleMKLClassifier(RegionalKernels(1)).fit(single, y)
    assert model.transform(single).dtype == np.float32
    double = SimpleMKLClassifier(RegionalKernels(1)).fit(X, y)
    np.testing.assert_allclose(model.weights_, double.weights_, atol=1e-3)
    np.save(tmp_path / "stack.npy", stack)
    mapped = np.load(tmp_path / "stack.npy", mmap_mode="r")
    assert SimpleMKLClassifier("precomputed").fit(mapped, y).score(mapped, y) > 0.95


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_samples_of_any_scale(wine, size):
    X, y = wine
    plain = SimpleMKLClassifier(RegionalKernels(1)).fit(X, y)
    scaled = SimpleMKLClassifier(RegionalKernels(1)).fit(X * size, y)
    np.testing.assert_allclose(scaled.weights_, plain.weights_, atol=1e-4)


def test_tiny_set():
    X = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [3.0, 5.0]])
    y = np.array(["a", "a", "b", "c", "c"])
    model = SimpleMKLClassifier(C=100.0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)


def test_memory_is_checked_before_allocation(wine, monkeypatch, capsys):
    X, y = wine
    model = SimpleMKLClassifier(verbose=1).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == model.n_iter_
    assert lines[0].startswith("[simplemkl] 0: objective ")
    monkeypatch.setattr("genmetric._parallel.available_memory", lambda: 5 * 10**6)
    with pytest.raises(
        MemoryError,
        match=r"15 kernels on 178 samples .* 5.39 MB, but only 5 MB are free.*fewer kernels",
    ):
        SimpleMKLClassifier().fit(X, y)
    with pytest.raises(MemoryError, match="1000 kernels on 178 samples"):
        SimpleMKLClassifier(["rbf"] * 1000).fit(X, y)


def test_warning_without_convergence(wine):
    X, y = wine
    with pytest.warns(ConvergenceWarning, match=r"gap of .* after 2 iterations.*Increase max_iter"):
        SimpleMKLClassifier(tol=1e-6, max_iter=1, C=10).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="below the precision of libsvm"):
        SimpleMKLClassifier(GAUSSIANS, tol=1e-12, C=1e4).fit(X[::4], y[::4])


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"C": 0}, "C must be a number > 0"),
        ({"tol": -1}, "tol must be a number > 0"),
        ({"max_iter": 1.5}, "max_iter must be"),
        ({"kernels": "rbf"}, "kernels must be None, 'precomputed', a RegionalKernels or a list"),
        ({"kernels": 5}, "kernels must be"),
        ({"kernels": []}, "kernels is empty"),
        ({"kernels": ["linear", None]}, r"kernels\[1\] must be a callable, .* or 'sigmoid'"),
        ({"kernels": ["rbf", "rfb"]}, r"kernels\[1\] must be a callable, .* or 'sigmoid'"),
        ({"kernels": RegionalKernels(-1)}, "n_regions must be"),
        ({"kernels": [lambda a, b: a @ b.T * np.nan]}, r"kernels\[0\] returned NaN"),
        ({"kernels": ["rbf", lambda a, b: a @ b[::-1].T]}, "Kernel 1 is not symmetric"),
        ({"kernels": [lambda a, b: -a @ b.T]}, r"Kernel 0 is .* k\(x, x\) is negative"),
        ({"kernels": [lambda a, _: a]}, r"kernels\[0\] returned shape \(178, 13\)"),
    ],
)
def test_invalid_parameters(wine, parameters, text):
    with pytest.raises(ValueError, match=text):
        SimpleMKLClassifier(**parameters).fit(*wine)


def test_invalid_stacks(wine, stack):
    X, y = wine
    for bad in (stack[0], stack[:, 1:], stack[:, :, 1:], stack[:0]):
        with pytest.raises(ValueError, match=r"stack of Gram matrices of shape \(any, 178, 178\)"):
            SimpleMKLClassifier("precomputed").fit(bad, y)
    with pytest.raises(ValueError, match="contains NaN"):
        SimpleMKLClassifier("precomputed").fit(np.where(stack == stack[1, 2, 3], np.nan, stack), y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        SimpleMKLClassifier("precomputed").fit(stack.astype(complex), y)
    model = SimpleMKLClassifier("precomputed").fit(stack, y)
    assert model.predict(stack[:, :5]).shape == (5,)
    for bad in (stack[:2], stack[:, :, :5], stack[:, :0], X):
        with pytest.raises(ValueError, match=r"shape \(3, any, 178\)"):
            model.predict(bad)


def test_invalid_samples_and_labels(wine):
    X, y = wine
    with pytest.raises(ValueError, match="at least 2 classes; got 1"):
        SimpleMKLClassifier().fit(X, np.zeros(len(X)))
    with pytest.raises(TypeError, match="masked"):
        SimpleMKLClassifier().fit(np.ma.masked_array(X), y)
    for method in ("predict", "transform"):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            getattr(SimpleMKLClassifier(), method)(X)
    later = SimpleMKLClassifier([lambda a, b: np.where(len(a) == len(b), a @ b.T, np.nan)])
    with pytest.raises(ValueError, match=r"kernels\[0\] returned NaN"):
        later.fit(X, y).predict(X[:3])

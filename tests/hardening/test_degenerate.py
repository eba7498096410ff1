"""Rows and classes that leave a model little to go by: a finite answer, and the right one."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from genmetric import (
    LMNN,
    EnergyClassifier,
    GaussianModel,
    GenerativeMetric,
    GenerativeMetricCV,
    LocalMetricClassifier,
    MetricKMeans,
    RegionalKernels,
    SimpleMKLClassifier,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*lasses .* samples, too few for n_neighbors:UserWarning"),
    pytest.mark.filterwarnings("ignore:.* of n_clusters=.* clusters have samples"),
]

RNG = np.random.default_rng(0)
ODD = np.arange(60) % 2
BLOBS = RNG.normal(size=(60, 4)) + 2 * ODD[:, None]
THIRDS = np.arange(60) % 3
CLOUD = RNG.normal(size=(60, 4)) * [1, 2, 1, 0.5] + THIRDS[:, None]


def class_constant(value):
    return np.column_stack([CLOUD, np.where(THIRDS == 0, value, RNG.normal(size=60))])


ROWS = {
    "constant column": (np.column_stack([CLOUD, np.full(60, 3.0)]), THIRDS),
    "all rows alike": (np.full((60, 4), 7.0), ODD),
    "zeros": (np.zeros((60, 4)), THIRDS),
    "column constant in one class": (class_constant(0.0), THIRDS),
    "column constant in every class": (np.column_stack([CLOUD, THIRDS]), THIRDS),
    "one class without scatter": (np.where(THIRDS[:, None] == 0, 1.0, CLOUD), THIRDS),
    "duplicate rows": (np.repeat(CLOUD[:20], 3, axis=0), np.repeat(THIRDS[:20], 3)),
    "the same rows in two classes": (np.repeat(CLOUD[:30], 2, axis=0), ODD),
    "two places": (np.repeat(CLOUD[[0, 1]], 30, axis=0), np.repeat([0, 1], 30)),
    "duplicate columns": (np.hstack([CLOUD, CLOUD]), THIRDS),
    "rank one": (np.outer(RNG.normal(size=60), RNG.normal(size=4)), ODD),
    "rank one and apart": (np.outer(RNG.normal(size=60) + 9 * ODD, RNG.normal(size=4)), ODD),
    "fewer rows than features": (RNG.normal(size=(20, 50)), np.arange(20) % 2),
    "a class of one row": (CLOUD, np.where(np.arange(60) == 7, 9, ODD)),
    "a class of two rows": (CLOUD, np.where(np.arange(60) < 2, 9, ODD)),
    "apart": (BLOBS + 1e6 * ODD[:, None], ODD),
    "far apart": (BLOBS + 1e12 * ODD[:, None], ODD),
    "identical classes": (np.tile(CLOUD[:30], (2, 1)), np.repeat([0, 1], 30)),
    "one feature": (CLOUD[:, :1], THIRDS),
    "one feature of two values": ((CLOUD[:, :1] > 0) * 1.0, ODD),
    "unlike columns": (BLOBS * [1e-6, 1e-3, 1, 1e6], ODD),
    "an outlier": (np.vstack([BLOBS, np.full((1, 4), 1e8)]), np.append(ODD, 0)),
    "an outlier beyond all": (np.vstack([BLOBS, np.full((1, 4), 1e99)]), np.append(ODD, 0)),
}


def check_sound(fitted, answers, y):
    for name, value in answers.items():
        if np.asarray(value).dtype.kind == "f":
            assert np.isfinite(value).all(), name
    if "metric" in answers:
        metric = fitted.metric_
        np.testing.assert_array_equal(metric, metric.T)
        assert np.linalg.eigvalsh(metric)[0] > -1e-12 * np.abs(metric).max()
        assert np.trace(metric) > 0
    if "predict" in answers and hasattr(fitted, "classes_"):
        assert set(answers["predict"].tolist()) <= set(np.unique(y).tolist())


#: Rows of different classes are equal, or are so to float64: who wins there is the first of equals.
TIED = {
    "all rows alike",
    "zeros",
    "the same rows in two classes",
    "identical classes",
    "one feature of two values",
    "an outlier beyond all",
}


@pytest.mark.parametrize("name", ROWS)
def test_results_are_finite(subject, name):
    X, y = ROWS[name]
    fitted = subject.fit(X, y)
    check_sound(fitted, subject.answers(fitted, X), y)
    for method, query in subject.queries(fitted).items():
        if method == "bias" and name == "an outlier beyond all":
            continue  # refused, as the unit of the rows is 1e99
        found = query(X)
        for array in found if isinstance(found, tuple) else (found,):
            data = array.data if hasattr(array, "nnz") else array
            assert data.dtype.kind != "f" or np.isfinite(data).all(), method


@pytest.mark.parametrize("name", ROWS)
def test_order_of_samples_has_no_effect(orderly, name, same):
    X, y = ROWS[name]
    order = np.random.default_rng(1).permutation(len(X))
    first, other = orderly.fit(X, y), orderly.fit(X[order], y[order])
    if hasattr(other, "labels_"):
        other.labels_ = other.labels_[np.argsort(order)]
    answers, again = orderly.answers(first, X), orderly.answers(other, X)
    for kept in (answers, again):
        kept.pop("neighbors", None)
        if name in TIED:
            kept.pop("predict", None), kept.pop("decision", None)
    # Classes 1e6 apart leave eigenvalues of Phi at 1e-12 of the largest, to four digits.
    same(again, answers, 1e-3 if name == "apart" else 1e-5)


@pytest.mark.parametrize("value", [0.0, -5.0, 1e6])
def test_the_value_of_a_constant_column_does_not_matter(subject, value, same):
    zero, other = (np.column_stack([CLOUD, np.full(60, v)]) for v in (1.0, value))
    expected = subject.answers(subject.fit(zero, THIRDS), zero)
    same(subject.answers(subject.fit(other, THIRDS), other), expected, 1e-6)


@pytest.mark.parametrize("name", ["all rows alike", "zeros", "identical classes"])
def test_equal_classes_give_the_euclidean_metric(name):
    X, y = ROWS[name]
    makers = (
        GenerativeMetric,
        lambda: GenerativeMetric("kde"),
        lambda: GenerativeMetric("gmm", random_state=0),
        lambda: GenerativeMetric(solver="resolvent"),
    )
    for make in makers:
        metric = make().fit(X, y).metric_
        # Half of identical classes, held out, leave two that differ.
        if name == "identical classes" and make().combination == "gmm":
            assert np.isfinite(metric).all()
        else:
            np.testing.assert_allclose(metric, np.eye(X.shape[1]), atol=1e-12)


@pytest.mark.parametrize("name", ["apart", "far apart"])
def test_separated_classes_are_classified_correctly(learner, name):
    X, y = ROWS[name]
    fitted = learner.fit(X, y)
    if hasattr(fitted, "predict"):
        np.testing.assert_array_equal(fitted.predict(X), y)
    elif hasattr(fitted, "transform"):
        Z = fitted.transform(X - X.mean(axis=0))
        np.testing.assert_array_equal(KNeighborsClassifier(1).fit(Z, y).predict(Z), y)
    else:
        # No kernel of a regional metric sees two classes that far apart as near.
        K = fitted.gram(X)
        assert (
            K[:, y == 0][:, :, y == 1] < K[:, y == 0][:, :, y == 0].min(axis=2)[..., None]
        ).all()


def test_clusters_far_apart_are_found():
    X, y = ROWS["far apart"]
    labels = MetricKMeans(2, random_state=0).fit(X).labels_
    assert len(set(zip(labels.tolist(), y.tolist(), strict=True))) == 2


def test_repeated_samples_equal_weights():
    X, y = np.repeat(CLOUD, 3, axis=0), np.repeat(THIRDS, 3)
    for make in (
        GenerativeMetric,
        lambda: GenerativeMetric("kde"),
        lambda: GenerativeMetric(solver="resolvent"),
    ):
        weighted = make().fit(CLOUD, THIRDS, np.full(60, 3.0))
        np.testing.assert_allclose(make().fit(X, y).metric_, weighted.metric_, rtol=1e-6)
    model, weighted = GaussianModel().fit(X), GaussianModel().fit(CLOUD, None, np.full(60, 3.0))
    np.testing.assert_allclose(model.covariance_, weighted.covariance_, rtol=1e-9)


def test_five_hundred_classes():
    rng = np.random.default_rng(0)
    places = rng.normal(size=(500, 3)) * 100
    y = np.repeat(np.arange(500), 3)
    X = places[y] + 1e-3 * rng.normal(size=(1500, 3))
    queries, own = places + 1e-3 * rng.normal(size=(500, 3)), np.arange(500)
    for model in (
        LocalMetricClassifier(1),
        EnergyClassifier(),
        EnergyClassifier(energy="difference"),
        EnergyClassifier(GenerativeMetric(class_tol=1)),
    ):
        np.testing.assert_array_equal(model.fit(X, y).predict(queries), own)
    for metric in (GenerativeMetric(), GenerativeMetric(class_tol=1), LMNN(max_iter=5, tol=1.0)):
        Z = metric.fit(X, y).transform(X)
        assert np.isfinite(Z).all()
        assert (KNeighborsClassifier(1).fit(Z, y).predict(metric.transform(queries)) == own).all()
    assert MetricKMeans(500, n_init=1, max_iter=2, random_state=0).fit(X).labels_.max() == 499
    few = X[:60], y[:60]  # 190 pairs of classes
    kernels = RegionalKernels(1, scales=[4.0, 64.0])
    assert SimpleMKLClassifier(kernels, C=100).fit(*few).score(*few) == 1


def test_many_classes_finish_or_are_refused_with_the_reason():
    n_classes, rng = 20_000, np.random.default_rng(0)
    places = 3 * rng.normal(size=(n_classes, 5))
    y = np.repeat(np.arange(n_classes), 2)
    X = places[y] + rng.normal(size=(len(y), 5))
    metric = GenerativeMetric(max_samples=20, random_state=0).fit(X, y)
    assert np.isfinite(metric.metric_).all()
    assert metric.means_.shape == (n_classes, 5)
    pairs = n_classes * (n_classes - 1) // 2
    with pytest.raises(MemoryError, match=rf"{pairs} problems of two classes"):
        SimpleMKLClassifier().fit(X, y)


def test_lmnn_refuses_more_impostors_than_it_can_visit(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 4)), np.repeat(np.arange(1500), 2)
    monkeypatch.setattr("genmetric.learners.lmnn_loss.MAX_VISITED_PAIRS", 10_000)
    with pytest.raises(ValueError, match=r"more than 1e\+04 pairs of a sample .* GenerativeMetric"):
        LMNN(1).fit(X, y)
    # Classes that do not overlap have few impostors, and are learned.
    apart = 100 * rng.normal(size=(1500, 4))
    assert np.isfinite(LMNN(1, max_iter=2).fit(apart[y] + X, y).metric_).all()


def test_selection_among_many_classes_draws_whole_classes():
    n_classes, rng = 600, np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 2)
    X = (3 * rng.normal(size=(n_classes, 6)))[y] + rng.normal(size=(len(y), 6))
    metric = GenerativeMetricCV(max_references=120, max_queries=60, random_state=0).fit(X, y)
    # A random tenth of the samples would hold the other sample of a class once in ten times.
    assert metric.best_score_ > 0.3


def test_one_sample_against_a_hundred_thousand():
    rng = np.random.default_rng(0)
    n, rows = 100_000, rng.normal(size=(1000, 5)) * [1, 1, 2, 2, 0.5]
    X, y = np.vstack([np.repeat(rows, n // 1000, axis=0), [[9.0] * 5]]), np.repeat([0, 1], [n, 1])
    weight = np.append(np.full(1000, n / 1000), 1.0)
    few, own = np.vstack([rows, [[9.0] * 5]]), np.repeat([0, 1], [1000, 1])
    with pytest.warns(UserWarning, match=r"Classes \[1\] have a single sample"):
        large = GenerativeMetric().fit(X, y)
    small = GenerativeMetric().fit(few, own, weight)
    np.testing.assert_allclose(large.metric_, small.metric_, rtol=1e-6)
    # Equal priors, as the paper has them: the lone row is not drowned.
    np.testing.assert_allclose(large.means_[1], 9.0)
    model = LocalMetricClassifier(1).fit(X, y)
    np.testing.assert_array_equal(model.predict([[9.0] * 5, [0.0] * 5]), [1, 0])
    clusters = MetricKMeans(2, n_init=1, random_state=0).fit(few, sample_weight=weight)
    assert np.isfinite(clusters.metric_).all()


def test_one_sample_against_a_thousand(learner):
    # The Gram matrices of multiple kernel learning are the square of it.
    n = 200 if learner.name in ("mkl", "mkl of regions") else 1000
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(n, 3)), [[50.0] * 3]])
    y = np.array(["many"] * n + ["lone"])
    fitted = learner.fit(X, y)
    check_sound(fitted, learner.answers(fitted, X), y)
    # The automatic margin of the energies is the gap between the classes: a thousand rows invade
    # that of the lone one, and it loses by definition.
    if hasattr(fitted, "predict") and learner.name not in ("energy", "energy on a metric"):
        assert fitted.predict([[50.0] * 3])[0] == "lone"
        assert (fitted.predict(X[:50]) == "many").all()

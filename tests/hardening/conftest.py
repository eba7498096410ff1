"""The public estimators, and what is compared of their answers, for all tests of this folder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from genmetric import (
    LMNN,
    EmbeddingAdapter,
    EnergyClassifier,
    FaissNeighborsTransformer,
    GaussianMixtureModel,
    GaussianModel,
    GenerativeMetric,
    GenerativeMetricCV,
    LocalMetricClassifier,
    MetricKMeans,
    RegionalKernels,
    SimpleMKLClassifier,
)


def unit(array):
    """An array in units of its largest entry."""
    size = np.abs(array).max()
    return np.asarray(array / size) if size else np.asarray(array)


def of_metric(fitted, _):
    L = fitted.components_
    return {"metric": unit(fitted.metric_), "factor": unit(L.T @ L), "classes": fitted.classes_}


def of_embedding(fitted, _):
    L = fitted.components_
    return {"factor": unit(L.T @ L), "classes": fitted.classes_}


def of_classifier(fitted, X):
    answers = {"predict": fitted.predict(X)}
    if hasattr(fitted, "decision_function"):
        answers["decision"] = unit(fitted.decision_function(X))
    if hasattr(fitted, "kneighbors"):
        answers["neighbors"] = fitted.kneighbors(X)[1]
    if hasattr(fitted, "weights_"):
        answers["weights"] = fitted.weights_
    return answers


def of_kernels(fitted, X):
    return {"gram": fitted.gram(X), "metrics": fitted.metrics_}


def of_clusters(fitted, X):
    return {"labels": fitted.labels_, "predict": fitted.predict(X), "metric": fitted.metric_}


def of_model(fitted, X):
    log_density = fitted.log_density(X)
    return {
        "log-density": log_density - log_density.max(),
        "gradient": unit(fitted.gradient(X)),
        "curvature": unit(fitted.curvature(X)),
    }


def of_graph(fitted, X):
    graph = fitted.transform(X)
    return {"neighbors": graph.indices, "distances": unit(graph.data)}


@dataclass(frozen=True)
class Subject:
    """A public estimator under test.

    `answers` gives arrays that do not change when all features are multiplied by one number.
    """

    name: str
    make: Callable[[], Any]
    answers: Callable[[Any, Any], dict[str, Any]]
    supervised: bool = True
    #: Whether `fit` takes sample_weight.
    weighted: bool = False
    #: Whether the answer depends on when an iteration stops.
    stops: bool = False

    def fit(self, X, y):
        return self.make().fit(X, y)

    def queries(self, fitted) -> dict[str, Callable[[Any], Any]]:
        """The methods that take rows, by name."""
        names = (
            "transform",
            "predict",
            "predict_proba",
            "decision_function",
            "kneighbors",
            "local_metrics",
            "curvature",
            "bias",
            "log_density",
            "gradient",
            "gram",
        )
        return {name: getattr(fitted, name) for name in names if hasattr(fitted, name)}


SUBJECTS = [
    Subject("uniform", lambda: GenerativeMetric(shrinkage=None), of_metric, weighted=True),
    Subject("resolvent", lambda: GenerativeMetric(solver="resolvent"), of_metric, weighted=True),
    Subject("kde", lambda: GenerativeMetric("kde"), of_metric, weighted=True),
    Subject(
        "gmm",
        lambda: GenerativeMetric("gmm", random_state=0),
        of_metric,
        weighted=True,
    ),
    Subject(
        "mixture",
        lambda: GenerativeMetric(class_model=GaussianMixtureModel(2, random_state=0)),
        of_metric,
        weighted=True,
        stops=True,
    ),
    Subject(
        "cv",
        lambda: GenerativeMetricCV(
            shrinkages=["auto", 0.5],
            interpolations=[0, 1.0],
            n_components=None,  # the bias needs a metric of full rank
            n_neighbors=[1, 3],
            random_state=0,
        ),
        of_metric,
        weighted=True,
    ),
    Subject(
        "lmnn",
        lambda: LMNN(early_stopping=False, max_iter=1000),
        of_metric,
        weighted=True,
        stops=True,
    ),
    Subject("local", lambda: LocalMetricClassifier(1), of_classifier),
    Subject("energy", EnergyClassifier, of_classifier),
    Subject("energy on a metric", lambda: EnergyClassifier(GenerativeMetric()), of_classifier),
    Subject("difference", lambda: EnergyClassifier(energy="difference"), of_classifier),
    Subject("mkl", SimpleMKLClassifier, of_classifier, stops=True),
    Subject(
        "mkl of regions",
        lambda: SimpleMKLClassifier(RegionalKernels(2, scales=[0.5, 2.0], random_state=0)),
        of_classifier,
        stops=True,
    ),
    Subject("regions", lambda: RegionalKernels(2, scales=[0.5, 2.0], random_state=0), of_kernels),
    Subject(
        "clusters",
        lambda: MetricKMeans(2, n_init=2, random_state=0),
        of_clusters,
        supervised=False,
        weighted=True,
    ),
    Subject("gaussian", GaussianModel, of_model, supervised=False, weighted=True),
    Subject(
        "gaussians",
        lambda: GaussianMixtureModel(2, random_state=0),
        of_model,
        supervised=False,
        weighted=True,
        stops=True,
    ),
    Subject("faiss", lambda: FaissNeighborsTransformer(2), of_graph, supervised=False),
]


@pytest.fixture(scope="session")
def subjects():
    """Every public estimator, by name."""
    return {subject.name: subject for subject in SUBJECTS}


def parameters(subjects):
    return [pytest.param(subject, id=subject.name) for subject in subjects]


@pytest.fixture(params=parameters(SUBJECTS))
def subject(request):
    """Every public estimator."""
    if request.param.name == "faiss":
        pytest.importorskip("faiss")
    return request.param


@pytest.fixture(params=parameters(s for s in SUBJECTS if s.supervised))
def learner(request):
    """Every public estimator that learns from labels."""
    return request.param


#: Estimators that validate their input by the code of another one in the list.
SAME_VALIDATION = {
    "resolvent",
    "kde",
    "gmm",
    "mixture",
    "energy on a metric",
    "difference",
    "mkl of regions",
    "gaussians",
}
ENTRIES = [s for s in SUBJECTS if s.name not in SAME_VALIDATION]
ENTRIES.append(
    Subject(
        "embedding",
        lambda: EmbeddingAdapter(normalize=False, random_state=0),
        of_embedding,
        weighted=True,
    )
)


@pytest.fixture(params=parameters(ENTRIES))
def entry(request):
    """One public estimator per way of validating samples."""
    if request.param.name == "faiss":
        pytest.importorskip("faiss")
    return request.param


@pytest.fixture(params=parameters(s for s in ENTRIES if s.supervised))
def labelled_entry(request):
    """One public estimator per way of validating labels."""
    return request.param


@pytest.fixture(params=parameters(s for s in ENTRIES if s.weighted))
def weighted_entry(request):
    """One public estimator per way of validating sample weights."""
    return request.param


#: What depends on a draw or on the numbers of the rows.
BY_CHANCE = {"gmm", "cv", "regions", "faiss"}


@pytest.fixture(params=parameters(s for s in SUBJECTS if not (s.stops or s.name in BY_CHANCE)))
def orderly(request):
    """Every public estimator whose answer no order of the rows changes but by rounding."""
    return request.param


@pytest.fixture(params=parameters(s for s in SUBJECTS if s.weighted))
def weigher(request):
    """Every public estimator whose fit takes sample_weight."""
    return request.param


@pytest.fixture(scope="session")
def iris():
    """Fifty rows of three classes, with few digits each and no two distances alike."""
    X, y = load_iris(return_X_y=True)
    noise = np.random.default_rng(0).normal(size=(50, 4)) / 20
    return np.round(1024 * np.abs(X[::3] + noise)) / 1024, y[::3]


@pytest.fixture(scope="session")
def plain(iris):
    """The answers of an estimator on those rows, found once."""
    X, y = iris
    known = {}

    def answers(subject):
        if subject.name not in known:
            known[subject.name] = subject.answers(subject.fit(X, y), X)
        return known[subject.name]

    return answers


@pytest.fixture(scope="session")
def same():
    """Compare what `answers` gave, to a relative tolerance."""

    def compare(found, expected, rtol=1e-6):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            array = np.asarray(found[name])
            if np.asarray(value).dtype.kind == "f":
                assert np.isfinite(array).all(), name
                atol = rtol * np.abs(value).max()
                np.testing.assert_allclose(array, value, rtol=rtol, atol=atol, err_msg=name)
            else:
                np.testing.assert_array_equal(array, value, err_msg=name)

    return compare

"""skops with `genmetric.TRUSTED_TYPES`."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import genmetric
from genmetric import (
    LMNN,
    EnergyClassifier,
    GaussianMixtureModel,
    GaussianModel,
    GenerativeMetric,
    GenerativeMetricCV,
    LocalMetricClassifier,
    MetricKMeans,
    RegionalKernels,
    SimpleMKLClassifier,
)

skops = pytest.importorskip("skops.io")

X, Y = load_iris(return_X_y=True)

ESTIMATORS = [
    GenerativeMetric(),
    GenerativeMetric("kde"),
    GenerativeMetric("gmm", random_state=0),
    GenerativeMetric(class_model=GaussianMixtureModel(random_state=0)),
    GenerativeMetricCV(shrinkages=0.1, interpolations=1.0, n_neighbors=3),
    LocalMetricClassifier(),
    EnergyClassifier(GenerativeMetric()),
    LMNN(max_iter=3),
    MetricKMeans(3, random_state=0),
    RegionalKernels(2, scales=[1.0], random_state=0),
    SimpleMKLClassifier(RegionalKernels(1, scales=[1.0])),
    SimpleMKLClassifier(["linear", genmetric.metric_kernel(np.eye(4))]),
    GaussianModel(),
    make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier(algorithm="brute")),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_round_trip(estimator):
    estimator.fit(X, Y)
    again = skops.loads(skops.dumps(estimator), trusted=genmetric.TRUSTED_TYPES)
    assert repr(again) == repr(estimator)
    for name in ("transform", "predict", "gram", "log_density", "local_metrics"):
        if hasattr(estimator, name):
            one, two = (getattr(model, name)(X.copy()) for model in (estimator, again))
            np.testing.assert_array_equal(one, two)


def test_training_in_batches_continues():
    model = GenerativeMetric(random_state=0).partial_fit(X[::2], Y[::2])
    again = skops.loads(skops.dumps(model), trusted=genmetric.TRUSTED_TYPES)
    model.partial_fit(X[1::2], Y[1::2])
    again.partial_fit(X[1::2], Y[1::2])
    np.testing.assert_array_equal(again.metric_, model.metric_)


def test_trusted_types_are_needed_and_minimal():
    data = skops.dumps(GenerativeMetric().fit(X, Y))
    assert set(skops.get_untrusted_types(data=data)) <= set(genmetric.TRUSTED_TYPES)
    with pytest.raises(TypeError, match="GenerativeMetric"):
        skops.loads(data)
    assert all(name.startswith(("genmetric.", "numpy.dtype")) for name in genmetric.TRUSTED_TYPES)

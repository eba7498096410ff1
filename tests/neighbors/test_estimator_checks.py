"""scikit-learn's own checks over the classifiers of this layer, no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from genmetric import GenerativeMetric
from genmetric.neighbors import EnergyClassifier, LocalMetricClassifier

ESTIMATORS = [
    LocalMetricClassifier(),
    LocalMetricClassifier(n_neighbors=1, interpolation=1.0, shrinkage=0.1),
    EnergyClassifier(),
    EnergyClassifier(energy="difference"),
    EnergyClassifier(GenerativeMetric()),
]


# The checks make classes of one row; the warning that says so is ours.
@pytest.mark.filterwarnings("ignore:Classes .* have a single row:UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)

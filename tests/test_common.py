"""scikit-learn's own checks over every public estimator, no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from genmetric import (
    FactorModel,
    GaussianMixtureModel,
    GaussianModel,
    GenerativeMetric,
    GenerativeMetricCV,
)

ESTIMATORS = [
    GenerativeMetric(),
    GenerativeMetric(shrinkage=0.1, interpolation=0.7, n_components=1),
    GenerativeMetricCV(),
    GaussianModel(),
    GaussianMixtureModel(),
    GaussianMixtureModel("bic"),
    FactorModel(),
]


# The checks make classes of one row; the warning that says so is ours.
@pytest.mark.filterwarnings("ignore:Classes .* have a single row:UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)

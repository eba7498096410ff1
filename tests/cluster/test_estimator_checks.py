"""scikit-learn's own checks of clusterers, no expected failure."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from genmetric import MetricKMeans


# Two checks ask for eight clusters of four different rows; KMeans warns there in the same way.
@pytest.mark.filterwarnings("ignore:4 of n_clusters=8:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([MetricKMeans(), MetricKMeans(3, shrinkage="auto", interpolation=1.0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)

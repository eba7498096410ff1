"""scikit-learn's checks for every public estimator; expected failures are listed with reasons.

The list of estimators is generated from the public names, so that a new one cannot be forgotten.
Estimators that need an optional package are skipped without it.
"""

import inspect
from contextlib import suppress
from importlib import import_module

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import genmetric


def public_estimators():
    """Return one instance of every public estimator class, with its default parameters."""
    names = [getattr(genmetric, name) for name in genmetric.__all__]
    classes = [c for c in names if inspect.isclass(c) and issubclass(c, BaseEstimator)]
    with suppress(ImportError):
        classes.append(import_module("genmetric.tables").TableEncoder)
    # scikit-learn has no checks for pairs of samples, of shape (n_pairs, 2, n_features).
    return [c() for c in classes if hasattr(c, "fit") and c is not genmetric.PairClassifier]


#: Checks that an estimator does not pass, with the reason.
EXPECTED_FAILURES = {
    "EmbeddingAdapter": {
        "check_sample_weight_equivalence_on_dense_data": "Repeated samples are in different "
        "splits of the selection; the moments that the map is computed from are equivalent.",
    },
    "LMNN": {
        "check_sample_weight_equivalence_on_dense_data": "A repeated sample is a target neighbour "
        "of its copies; a weighted sample is not a target of itself.",
    },
    "MLKR": {
        "check_sample_weight_equivalence_on_dense_data": "The left-out parts contain samples, "
        "not weights, so repeated samples are left out in other parts than a weighted one.",
    },
}


# The checks use classes of one sample, more clusters than samples and few iterations; the warnings
# that report this are expected.
@pytest.mark.filterwarnings("ignore:Classes .* have :UserWarning")
@pytest.mark.filterwarnings("ignore:Only 4 of n_clusters=8:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:MLKR did not converge:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:LMNN did not converge:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    public_estimators(),
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
def test_scikit_learn_checks(estimator, check):
    if type(estimator).__name__ == "FaissNeighborsTransformer":
        pytest.importorskip("faiss")
    check(estimator)

"""The M^UNI row of the paper's table of small sets, under its protocol.

What the paper says: features to [-1, 1] on the whole set, 30 random splits into 60 % training,
20 % validation and 20 % test rows, k by validation error. What it leaves open was settled by
other evidence than this row:

* Sizes of the parts. Its printed errors are whole numbers of mistakes out of 30 test sets only if
  these have 37 (wine), 71 (ionosphere) and 170 (vehicle) rows: training and validation sets are
  rounded down, the test set is the rest. Stratified splits, rounded by class, do not fit.
* Candidates for k. Odd numbers: with even ones the Euclidean row of ionosphere, 15.87, comes out
  at 12.2. Up to 21, and ties to the smaller k.
* Whether the chosen k is used with the training rows alone, as the text reads, or with training
  and validation rows together, as is usual. The Euclidean rows fit both alike, so both are here.

With training rows alone wine is not reproduced: 3.1 ± 0.1 over 600 splits against 1.80 ± 0.40. No
other set of candidates, rule for ties, estimate of the covariance (n or n - 1) or priors changes
that; training and validation samples together give 2.3 ± 0.1. The test of wine is an expected
failure.
"""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import minmax_scale

from genmetric import GenerativeMetric, datasets

#: Mean and standard error of the test error in % (table error-small).
PAPER = {
    "iris": (3.33, 0.48),
    "wine": (1.80, 0.40),
    "vehicle": (17.47, 0.30),
    "ionosphere": (9.67, 0.48),
    "german": (26.12, 0.62),
}
CANDIDATES = range(1, 22, 2)

#: Under the documented protocol, what is more than two combined standard errors from the paper.
NOT_REPRODUCED = {
    ("wine", "training"): "3.1 % with training samples only, the paper has 1.80 ± 0.40 %",
}


def cases():
    """Return all sets and both readings of the protocol, with expected failures marked."""
    for name in PAPER:
        for rows in ("training", "training and validation"):
            reason = NOT_REPRODUCED.get((name, rows))
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
            yield pytest.param(name, rows, marks=marks)


def split(n, seed):
    order = np.random.RandomState(seed).permutation(n)
    train, validation = int(0.6 * n), int(0.2 * n)
    return np.split(order, [train, train + validation])


def errors_of(metric, X, y, train, test, candidates):
    """Test error for each k, from one search for neighbours."""
    Z, labels = metric.transform(X[train]), y[train]
    knn = KNeighborsClassifier(max(candidates)).fit(Z, labels)
    neighbours = labels[knn.kneighbors(metric.transform(X[test]), return_distance=False)]
    votes = np.cumsum(np.eye(y.max() + 1)[neighbours], axis=1)
    return [np.mean(votes[:, k - 1].argmax(axis=1) != y[test]) for k in candidates]


def protocol(name, rows, n_splits=30):
    """Test errors in %."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = minmax_scale(X, (-1, 1))
    found = []
    for seed in range(n_splits):
        train, validation, test = split(len(X), seed)
        metric = GenerativeMetric(shrinkage=None, normalization="determinant").fit(
            X[train], y[train]
        )
        on_validation = errors_of(metric, X, y, train, validation, CANDIDATES)
        k = CANDIDATES[int(np.argmin(on_validation))]
        if rows == "training and validation":
            train = np.r_[train, validation]
            metric = GenerativeMetric(shrinkage=None, normalization="determinant").fit(
                X[train], y[train]
            )
        found.append(100 * errors_of(metric, X, y, train, test, [k])[0])
    return np.array(found)


def test_the_vote_is_that_of_scikit_learn():
    X, y = datasets.load_iris(return_X_y=True)
    train, _, test = split(150, 0)
    metric = GenerativeMetric().fit(X[train], y[train])
    for k in (1, 3, 9):
        knn = KNeighborsClassifier(k).fit(metric.transform(X[train]), y[train])
        error = 1 - knn.score(metric.transform(X[test]), y[test])
        assert errors_of(metric, X, y, train, test, [k])[0] == pytest.approx(error)


def test_sizes_of_the_parts():
    sizes = {n: len(split(n, 0)[2]) for n in (150, 178, 351, 846, 1000)}
    assert sizes == {150: 30, 178: 37, 351: 71, 846: 170, 1000: 200}


@pytest.mark.filterwarnings("ignore:The curvatures of the class densities:UserWarning")
@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), cases())
def test_error_of_the_paper(name, rows, capsys):
    errors = protocol(name, rows)
    mean, stderr = errors.mean(), errors.std(ddof=1) / np.sqrt(len(errors))
    expected, expected_stderr = PAPER[name]
    distance = (mean - expected) / np.hypot(stderr, expected_stderr)
    with capsys.disabled():
        print(
            f"\n{name:>10} ({rows}): {mean:5.2f} ± {stderr:.2f}, "
            f"paper {expected} ± {expected_stderr}, {distance:+.2f} standard errors"
        )
    assert abs(distance) < 2

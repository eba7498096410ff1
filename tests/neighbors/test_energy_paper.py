"""The energy rows of the paper's tables under its protocol, with the published three-term form.

Small sets: features scaled to [-1, 1] on the whole set, 30 random splits into 60 % training, 20 %
validation and 20 % test samples, k and the margin by validation error, ties to the smaller k and
the smaller margin. Letters: 10 splits of 12000, 2000 and 6000 samples. The paper does not say
whether the selected parameters are used with the training samples only or with training and
validation samples together. On the small sets both agree with the paper. On Letters the documented
protocol gives 2.5 ± 0.1 per cent with this form, which is an expected failure; the one-sided form,
2.33 ± 0.08 in the results, is closer to the paper's 2.28.
"""

import numpy as np
import pytest
from sklearn.preprocessing import minmax_scale

from genmetric import GenerativeMetric, datasets
from genmetric.density import Scaling
from genmetric.neighbors import (
    ClassRows,
    EnergyClassifier,
    EnergyModel,
    least_energies,
    margin_unit,
    training_neighbors,
)

#: Mean and standard error of the test error in per cent (tables error-small and error-large).
PAPER = {
    "iris": (3.11, 0.57),
    "wine": (2.52, 0.52),
    "vehicle": (15.81, 0.52),
    "ionosphere": (10.80, 0.71),
    "german": (25.15, 0.51),
}
LETTERS = (2.28, 0.06)
NEIGHBORS = (1, 3, 5, 7, 9)
MARGIN_SCALES = (0.1, 0.3, 1.0, 3.0)


def errors_of(X, y, train, test, neighbors=NEIGHBORS, scales=MARGIN_SCALES):
    """Test errors for each k and each margin, from one metric and one search for targets."""
    metric = GenerativeMetric(shrinkage=None, normalization="determinant").fit(X[train], y[train])
    frame = Scaling.of(metric.transform(X[train]))
    z = frame.apply(metric.transform(X))
    rows = ClassRows.of(z[train], y[train], y.max() + 1)
    targets, nearest_other = training_neighbors(rows, max(neighbors))
    unit = margin_unit(targets, nearest_other)
    errors = np.empty((len(neighbors), len(scales)))
    for i, k in enumerate(neighbors):
        for j, scale in enumerate(scales):
            model = EnergyModel.of(rows, targets[:, :k], scale * unit, 0.5)
            errors[i, j] = np.mean(least_energies(model, z[test]) != y[test])
    return errors


def protocol(X, y, sizes, n_splits, rows, **candidates):
    """Test errors in per cent."""
    found = []
    for seed in range(n_splits):
        order = np.random.RandomState(seed).permutation(len(X))
        train, validation, test = np.split(order, np.cumsum(sizes))
        on_validation = errors_of(X, y, train, validation, **candidates)
        i, j = np.unravel_index(on_validation.argmin(), on_validation.shape)
        if rows == "training and validation":
            train = np.r_[train, validation]
        found.append(100 * errors_of(X, y, train, test, **candidates)[i, j])
    return np.array(found)


def distance(errors, paper):
    """Distance from the paper's mean in combined standard errors."""
    return abs(errors.mean() - paper[0]) / np.hypot(
        errors.std(ddof=1) / len(errors) ** 0.5, paper[1]
    )


def test_the_errors_are_those_of_the_classifier():
    X, y = datasets.load_iris(return_X_y=True)
    X = minmax_scale(X, (-1, 1))
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    errors = errors_of(X, y, train, test)
    for i, k in enumerate(NEIGHBORS):
        for j, scale in enumerate(MARGIN_SCALES):
            model = EnergyClassifier(
                GenerativeMetric(shrinkage=None, normalization="determinant"),
                n_neighbors=k,
                margin_scale=scale,
                energy="three-term",
            )
            score = model.fit(X[train], y[train]).score(X[test], y[test])
            assert errors[i, j] == pytest.approx(1 - score)


@pytest.mark.filterwarnings("ignore:The curvatures of the class densities:UserWarning")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rows", ["training", "training and validation"])
@pytest.mark.parametrize("name", PAPER)
def test_small_sets(name, rows):
    X, y = datasets.load_dataset(name, return_X_y=True)
    sizes = [int(0.6 * len(X)), int(0.2 * len(X))]
    errors = protocol(minmax_scale(X, (-1, 1)), y, sizes, 30, rows)
    print(f"{name}, {rows}: {errors.mean():.2f} ± {errors.std(ddof=1) / 30**0.5:.2f}")
    assert distance(errors, PAPER[name]) < 2


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xfail(
    reason="the three-term form has 2.5 % on Letters, the paper 2.28 ± 0.06 %", strict=True
)
def test_letters():
    X, y = datasets.load_letter(return_X_y=True)
    grid = {"neighbors": (1, 3, 5), "scales": (0.1, 0.3, 1.0)}
    errors = protocol(X, y, [12000, 2000], 10, "training", **grid)
    print(f"letters: {errors.mean():.2f} ± {errors.std(ddof=1) / 10**0.5:.2f}")
    assert distance(errors, LETTERS) < 2

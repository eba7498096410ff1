"""Bad input gets an error that says what to do; awkward input gets a finite metric."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.covariance import OAS, LedoitWolf
from sklearn.datasets import load_iris

from genmetric import GaussianMixtureModel, GaussianModel, GenerativeMetric

X, Y = load_iris(return_X_y=True)


def with_entry(value):
    Z = X.copy()
    Z[3, 2] = value
    return Z


class Lazy:
    """What a dask collection looks like from outside."""

    shape, ndim = (150, 4), 2

    def __dask_graph__(self):
        return {}


ROWS = {
    "NaN": (with_entry(np.nan), ValueError, "Input X contains NaN"),
    "infinity": (with_entry(np.inf), ValueError, "Input X contains infinity"),
    "missing in pandas": (
        pd.DataFrame(X, columns=list("abcd")).astype("Float64").mask(X > 7),
        ValueError,
        "Input X contains NaN",
    ),
    "missing in polars": (
        pl.DataFrame(with_entry(np.nan)).fill_nan(None),
        ValueError,
        "Input X contains NaN",
    ),
    "strings": (np.full((150, 4), "a"), ValueError, "could not convert string to float"),
    "a column of strings": (
        pd.DataFrame(X, columns=list("abcd")).assign(s="x"),
        ValueError,
        "could not convert string to float",
    ),
    "sparse": (sp.csr_matrix(X), TypeError, "Sparse data was passed for X.*toarray"),
    "masked": (np.ma.masked_array(X, X > 7), TypeError, "X is a masked array.*filled"),
    "dask": (Lazy(), TypeError, r"X is a dask collection.*X\.compute\(\)"),
    "lazy polars": (pl.DataFrame(X).lazy(), TypeError, r"X is a lazy frame. Pass X\.collect\(\)"),
    "complex": (X + 1j, ValueError, "Complex data not supported"),
    "no rows": (X[:0], ValueError, "0 sample"),
    "no columns": (X[:, :0], ValueError, "0 feature"),
    "one axis": (X[:, 0], ValueError, "Expected 2D array, got 1D array instead"),
    "three axes": (X[:, :, None], ValueError, "dim 3"),
    "None": (None, ValueError, "Expected 2D array, got scalar array instead"),
    "ragged": ([[1, 2], [1]], ValueError, "inhomogeneous"),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name):
    bad, error, message = ROWS[name]
    with pytest.raises(error, match=f"(?s){message}"):
        GenerativeMetric().fit(bad, Y[: len(bad)] if isinstance(bad, np.ndarray) else Y)
    if not isinstance(
        bad, pd.DataFrame | pl.DataFrame
    ):  # frames would first meet the check of feature names
        fitted = GenerativeMetric().fit(X, Y)
        for method in (fitted.transform, fitted.local_metrics):
            with pytest.raises(error, match=f"(?s){message}"):
                method(bad)


LABELS = {
    "None": (None, ValueError, "requires y to be passed"),
    "one class": (np.zeros(150), ValueError, r"at least 2 classes; got 1 class, 0\.0\. Check y"),
    "one name": (["a"] * 150, ValueError, "at least 2 classes; got 1 class, 'a'"),
    "too few": (Y[:100], ValueError, r"inconsistent numbers of samples: \[150, 100\]"),
    "two columns": (np.c_[Y, Y], ValueError, "y should be a 1d array"),
    "continuous": (X[:, 0] + 0.01, ValueError, "Unknown label type: continuous"),
    "NaN": (np.where(Y == 0, np.nan, Y), ValueError, "Input y contains NaN"),
    "missing names": (np.where(Y == 0, None, "a"), ValueError, "Unknown label type"),
    "masked": (np.ma.masked_array(Y, Y > 1), TypeError, "y is a masked array.*filled"),
    "dask": (Lazy(), TypeError, "y is a dask collection.*compute"),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels(name):
    bad, error, message = LABELS[name]
    with pytest.raises(error, match=f"(?s){message}"):
        GenerativeMetric().fit(X, bad)


WEIGHTS = {
    "negative": (-np.ones(150), "has negative entries.*frequencies"),
    "one negative": (np.where(np.arange(150) == 7, -2.0, 1.0), "has negative entries"),
    "NaN": (np.full(150, np.nan), "NaN or infinite"),
    "infinite": (np.full(150, np.inf), "NaN or infinite"),
    "zero": (np.zeros(150), "zero for all samples"),
    "too few": (np.ones(149), r"shape \(150,\); got shape \(149,\)"),
    "strings": (["a"] * 150, r"must be real numbers; got \['a'"),
    "complex": (1j * np.ones(150), "must be real numbers"),
    "missing": ([None] * 150, "NaN or infinite"),
    "too large": (np.full(150, 1e307), "sums leave the range.*Multiply the weights"),
    "too small": (np.full(150, 1e-300), "sums leave the range.*Multiply the weights"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name):
    bad, message = WEIGHTS[name]
    with pytest.raises(ValueError, match=f"sample_weight .*{message}"):
        GenerativeMetric().fit(X, Y, sample_weight=bad)
    with pytest.raises(ValueError, match=f"combination .*{message}"):
        GenerativeMetric(bad).fit(X, Y)
    with pytest.raises(ValueError, match=f"sample_weight .*{message}"):
        GaussianModel().fit(X, sample_weight=bad)


def test_weights_of_other_kinds():
    with pytest.raises(
        ValueError, match=r"sample_weight must have one number per sample.*\(150, 1\)"
    ):
        GenerativeMetric().fit(X, Y, np.ones((150, 1)))
    with pytest.raises(TypeError, match="sample_weight is a dask collection"):
        GenerativeMetric().fit(X, Y, Lazy())
    with pytest.raises(TypeError, match="sample_weight is a masked array"):
        GenerativeMetric().fit(X, Y, np.ma.masked_array(np.ones(150), X[:, 0] > 7))
    with pytest.raises(ValueError, match=r"2 classes; got 1 class.*sample_weight"):
        GenerativeMetric().fit(X, Y, Y == 0)
    with pytest.raises(ValueError, match="combination and sample_weight"):
        GenerativeMetric((Y == 0) * 1.0).fit(X, Y, Y != 0)


PARAMETERS = {
    "shrinkage": (
        ["none", -1, 2, np.nan, [0.1], True],
        r"must be None, 'auto' or a number in \[0, 1\]; got",
    ),
    "interpolation": (
        [-0.1, 1.1, "a", None, np.nan, True, [1]],
        r"must be a number in \[0, 1\]; got",
    ),
    "base": (["sphere", None, 1], "must be 'identity' or 'pooled'; got"),
    "normalization": (["unit", None, 1], "must be 'determinant' or 'trace'; got"),
    "class_tol": ([-1, 2, "a", None], r"must be a number in \[0, 1\]; got"),
    "n_components": ([0, -1, 1.5, "2", True, np.nan], "must be None or an integer >= 1; got"),
    "priors": (
        [[1, 1], [1, 1, -1], [0, 1, 1], [np.nan, 1, 1], 1, [[1, 1, 1]]],
        "must be 3 positive numbers, one per class in the order of classes_; got",
    ),
    "combination": (
        ["kdee", None, 3, True],
        "must be 'uniform', 'kde', 'gmm', a KernelDensityWeights",
    ),
    "max_samples": (
        [0, -1, 1.5, 0.0, "a", True, np.nan, [3]],
        r"must be None, 'auto', an integer >= 1 or a number in \(0, 1\]; got",
    ),
    "solver": (["x", None, 3], "must be 'auto', 'dense' or 'resolvent'; got"),
    "n_jobs": (["a", 1.5], "must be None, an integer >= 1"),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, (values, _) in PARAMETERS.items() for value in values],
    ids=lambda value: str(value)[:12].replace("\n", ""),
)
def test_parameters(name, value):
    with pytest.raises(ValueError, match=f"(?s){name}.*{PARAMETERS[name][1]}"):
        GenerativeMetric(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("priors", ["a", ["a", "b", "c"], {0: 1}])
def test_priors_that_are_not_numbers(priors):
    with pytest.raises(ValueError, match="priors must be real numbers; got"):
        GenerativeMetric(priors=priors).fit(X, Y)


def test_invalid_models():
    with pytest.raises(ValueError, match=r"covariance_estimator must be .*got 'oas'"):
        GenerativeMetric(class_model=GaussianModel(covariance_estimator="oas")).fit(X, Y)
    with pytest.raises(TypeError, match=r"class_model=3 has no method fit, log_density"):
        GenerativeMetric(class_model=3).fit(X, Y)
    model = GaussianModel(shrinkage=0.1, covariance_estimator=OAS())
    with pytest.raises(ValueError, match=r"shrinkage=0.1 and covariance_estimator=OAS\(\) both"):
        GenerativeMetric(class_model=model).fit(X, Y)
    with pytest.raises(ValueError, match='solver="resolvent" requires Gaussian class models'):
        GenerativeMetric(solver="resolvent", class_model=GaussianMixtureModel()).fit(X, Y)


@pytest.mark.parametrize("scale", [1e120, 1e-200])
def test_scales_whose_squares_overflow_are_refused(scale):
    with pytest.raises(ValueError, match=r"(spread of about|values up to) .* X by a constant"):
        GenerativeMetric().fit(scale * X, Y)


@pytest.mark.parametrize("size", [1e155, 1e200])
def test_samples_too_far_from_every_class(size):
    fitted = GenerativeMetric().fit(X, Y)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"not finite.*outliers"):
        fitted.local_metrics(np.full((1, 4), size))


RNG = np.random.default_rng(0)
ODD, BLOBS = np.arange(60) % 2, RNG.normal(size=(60, 5)) + 2 * (np.arange(60) % 2)[:, None]
LINE = np.outer(RNG.normal(size=60), RNG.normal(size=5))
AWKWARD = {
    "constant column": (np.column_stack([X, np.full(150, 3.0)]), Y),
    "column constant in one class": (np.column_stack([X, np.where(Y == 0, 0.0, X[:, 0])]), Y),
    "columns constant in every class": (np.column_stack([X, Y, Y == 1]), Y),
    "duplicate columns": (np.hstack([X, X]), Y),
    "collinear columns": (np.column_stack([X, X[:, 0] + X[:, 1], X @ [1, 2, 3, 4]]), Y),
    "duplicate rows": (np.repeat(X, 4, axis=0), np.repeat(Y, 4)),
    "one row many times": (np.tile(X[0], (20, 1)), np.arange(20) % 2),
    "two points": (np.repeat(X[[0, 100]], 10, axis=0), np.repeat([0, 1], 10)),
    "a class of one row": (X[:101], Y[:101]),
    "a class of two rows": (X[:102], Y[:102]),
    "classes of one row": (X[[0, 60, 120]], Y[[0, 60, 120]]),
    "classes of two rows": (X[[0, 1, 60, 61, 120, 121]], Y[[0, 1, 60, 61, 120, 121]]),
    "more features than rows": (RNG.normal(size=(20, 50)), np.arange(20) % 3),
    "more features than rows, two classes": (RNG.normal(size=(30, 40)), np.arange(30) % 2),
    "identical classes": (np.r_[X, X], np.repeat([0, 1], 150)),
    "identical classes in another order": (np.r_[X, X[::-1]], np.repeat([0, 1], 150)),
    "rows on a line": (LINE, ODD),
    "rows on a line, one feature off": (np.column_stack([LINE, BLOBS[:, 0]]), ODD),
    "features of unlike scales": (BLOBS * [1e-6, 1e-3, 1, 1e3, 1e6], ODD),
    "one feature": (BLOBS[:, :1], ODD),
    "zeros": (np.zeros((10, 3)), np.arange(10) % 2),
    "binary features": (np.where(BLOBS > 1, 1.0, 0.0), ODD),
    "an outlier": (np.r_[BLOBS, [[1e8] * 5]], np.r_[ODD, 0]),
    "many classes": (RNG.normal(size=(90, 3)), np.arange(90) % 30),
    "classes far apart": (X + 1e5 * Y[:, None], Y),
    "offset 1e10": (X + 1e10, Y),
    "scale 1e-60": (1e-60 * X, Y),
    "scale 1e60": (1e60 * X, Y),
}


@pytest.mark.filterwarnings("ignore:The curvatures of the class densities differ:UserWarning")
@pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")
@pytest.mark.parametrize("shrinkage", [None, "auto", 0.1])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_samples_have_a_finite_metric(name, shrinkage):
    rows, labels = AWKWARD[name]
    fitted = GenerativeMetric(shrinkage=shrinkage, normalization="determinant").fit(rows, labels)
    for array in (fitted.metric_, fitted.components_, fitted.means_, fitted.covariances_):
        assert np.isfinite(array).all()
    assert np.isfinite(fitted.transform(rows)).all()
    if not name.startswith("scale"):  # a density at 1e-60 is no number
        assert np.isfinite(fitted.bias(rows)).all()
    m = np.linalg.eigvalsh(fitted.metric_)
    assert m[0] > 0
    # An average of metrics of determinant one has determinant at least one (Minkowski).
    assert np.log(m).sum() > -1e-5
    local = np.linalg.eigvalsh(fitted.local_metrics(rows))
    # Eigenvalues at 1e-14 of the largest have one or two digits when they are recomputed.
    np.testing.assert_allclose(np.log(np.maximum(local, 1e-300)).sum(axis=1), 0, atol=5e-2)


@pytest.mark.parametrize(
    "name",
    ["identical classes", "identical classes in another order", "zeros", "one row many times"],
)
@pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")
def test_classes_that_do_not_differ_give_the_identity(name):
    rows, labels = AWKWARD[name]
    for shrinkage in (None, "auto"):
        metric = GenerativeMetric(shrinkage=shrinkage).fit(rows, labels).metric_
        np.testing.assert_allclose(metric, np.eye(rows.shape[1]), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("a class of one row", r"\[2\]"),
        ("classes of one row", r"\[0, 1, 2\]"),
        ("two points", r"\[0, 1\]"),
    ],
)
def test_classes_without_scatter_are_named(name, classes):
    with pytest.warns(UserWarning, match=f"Classes {classes} have a single sample or no variance"):
        GenerativeMetric().fit(*AWKWARD[name])


def test_ordinary_data_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GenerativeMetric(shrinkage=None).fit(*AWKWARD["classes of two rows"])
        GenerativeMetric().fit(X, Y)


@pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")
@pytest.mark.parametrize("estimator", [OAS(), LedoitWolf()])
@pytest.mark.parametrize(
    "name",
    ["constant column", "a class of one row", "two points", "more features than rows", "zeros"],
)
def test_awkward_samples_with_an_estimator(name, estimator):
    rows, labels = AWKWARD[name]
    model = GaussianModel(covariance_estimator=estimator)
    metric = GenerativeMetric(class_model=model).fit(rows, labels).metric_
    assert np.isfinite(metric).all()
    assert np.linalg.eigvalsh(metric)[0] > 0


@pytest.mark.filterwarnings("ignore:Classes .* have a single sample:UserWarning")
@pytest.mark.parametrize(
    "name",
    [
        "constant column",
        "a class of one row",
        "a class of two rows",
        "two points",
        "zeros",
        "scale 1e60",
    ],
)
def test_awkward_samples_with_a_mixture(name):
    rows, labels = AWKWARD[name]
    model = GaussianMixtureModel(2, random_state=0)
    metric = GenerativeMetric(class_model=model).fit(rows, labels).metric_
    assert np.isfinite(metric).all()
    assert np.linalg.eigvalsh(metric)[0] > 0


def test_matrices_that_do_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr("genmetric._parallel.available_memory", lambda: 2**34)
    wide = np.random.default_rng(0).normal(size=(6, 20_000))
    for base in ("identity", "pooled"):
        with pytest.raises(MemoryError, match=r"2 classes of 20000 features would.*by PCA"):
            GenerativeMetric(base=base).fit(wide, [0, 1] * 3)

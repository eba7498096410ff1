"""Every savable estimator: a round trip gives equal parameters, attributes and predictions."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.covariance import OAS
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.feature_selection import VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
    NeighborhoodComponentsAnalysis,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

import genmetric
from genmetric import (
    LMNN,
    MLKR,
    EmbeddingAdapter,
    EnergyClassifier,
    GaussianMixtureModel,
    GaussianMixtureWeights,
    GaussianModel,
    GenerativeMetric,
    GenerativeMetricCV,
    GenerativeRegressionMetric,
    GenerativeRegressionMetricCV,
    KernelDensityWeights,
    KernelRegressor,
    LocalMetricClassifier,
    MetricKMeans,
    RegionalKernels,
    SimpleMKLClassifier,
    metric_kernel,
)
from genmetric.experimental import FactorModel
from genmetric.files import read_header
from genmetric.files._registry import SAVABLE, class_named

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])

ESTIMATORS = {
    "uniform": GenerativeMetric(),
    "weights": GenerativeMetric(np.linspace(1, 2, 150)),
    "kde": GenerativeMetric("kde"),
    "kde with options": GenerativeMetric(KernelDensityWeights(bandwidth=0.5)),
    "gmm with options": GenerativeMetric(GaussianMixtureWeights(max_iter=2), random_state=0),
    "gmm": GenerativeMetric("gmm", random_state=0),
    "low rank": GenerativeMetric(n_components=2, priors=[0.5, 0.25, 0.25]),
    "mixtures": GenerativeMetric(class_model=GaussianMixtureModel(random_state=0)),
    "class model": GenerativeMetric(class_model=GaussianModel(shrinkage=0.1)),
    "factors": GenerativeMetric(class_model=FactorModel(1)),
    "estimator of covariances": GenerativeMetric(
        class_model=GaussianModel(covariance_estimator=OAS())
    ),
    "pooled base": GenerativeMetric(base="pooled"),
    "weights object": GenerativeMetric(KernelDensityWeights(max_iter=2)),
    "preprocessor": GenerativeMetric(preprocessor=X),
    "generator": GenerativeMetric(max_samples=50, random_state=np.random.RandomState(3)),
    "tuned": GenerativeMetricCV(shrinkages=[0.1, "auto"], interpolations=1.0, n_neighbors=[1, 3]),
    "local": LocalMetricClassifier(),
    "energy": EnergyClassifier(),
    "energy in a metric": EnergyClassifier(GenerativeMetric()),
    "energy difference": EnergyClassifier(LMNN(max_iter=3), energy="difference"),
    "energy in a frozen metric": EnergyClassifier(FrozenEstimator(GenerativeMetric().fit(X, Y))),
    "lmnn": LMNN(max_iter=3),
    "mlkr": MLKR(tol=1e-2),
    "adapter": EmbeddingAdapter(),
    "k-means": MetricKMeans(3, random_state=0),
    "regions": RegionalKernels(2, scales=[0.5, 2.0], random_state=0),
    "mkl": SimpleMKLClassifier(["linear", "rbf", metric_kernel(np.eye(4), scale=2.0)]),
    "regional mkl": SimpleMKLClassifier(RegionalKernels(2, scales=[1.0], random_state=0)),
    "gaussian": GaussianModel(),
    "factor": FactorModel(1),
    "gaussian mixture": GaussianMixtureModel(random_state=0),
    "pipeline": make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier()),
    "ball tree": KNeighborsClassifier(algorithm="ball_tree", weights="distance"),
    "brute force": KNeighborsClassifier(algorithm="brute"),
    "search": make_pipeline(GenerativeMetric(), NearestNeighbors()),
    "imputed": make_pipeline(
        SimpleImputer(add_indicator=True), MinMaxScaler(), PCA(2), LogisticRegression()
    ),
    "scalers": make_pipeline(
        RobustScaler(), MaxAbsScaler(), Normalizer(), NeighborhoodComponentsAnalysis(max_iter=3)
    ),
    "columns": make_pipeline(
        make_column_transformer(
            (OneHotEncoder(sparse_output=False), [0]),
            (OrdinalEncoder(), slice(1, 2)),
            remainder="passthrough",
        ),
        VarianceThreshold(),
        LinearDiscriminantAnalysis(),
    ),
    "quadratic": QuadraticDiscriminantAnalysis(),
    "naive Bayes": GaussianNB(),
    "kernel regression": KernelRegressor(GenerativeRegressionMetric()),
    "regression metric": GenerativeRegressionMetric(),
    "tuned regression metric": GenerativeRegressionMetricCV(cv=2),
    "nearest targets": make_pipeline(StandardScaler(), KNeighborsRegressor()),
    "ridge": Ridge(),
    "tuned ridge": RidgeCV([0.1, 1.0]),
}

METHODS = (
    "transform",
    "predict",
    "predict_proba",
    "decision_function",
    "gram",
    "local_metrics",
    "curvature",
    "log_density",
    "kneighbors",
)


#: Estimators with a numeric target.
REGRESSORS = (
    *("kernel regression", "mlkr", "regression metric", "tuned regression metric"),
    *("nearest targets", "ridge", "tuned ridge"),
)


def answers(estimator, rows):
    found = {}
    for name in METHODS:
        if hasattr(estimator, name):
            # A copy: the product of an array with itself takes another routine.
            values = getattr(estimator, name)(rows.copy())
            found[name] = values if isinstance(values, tuple) else (values,)
    return found


def shown(estimator):
    return re.sub(r" at 0x\w+", "", repr(estimator))


def assert_same(one, two, rows=X):
    assert shown(one) == shown(two)
    names = [set(getattr(each, "__dict__", ())) for each in (one, two)]
    if type(one).__module__.startswith("sklearn"):
        # Files hold no private state of scikit-learn.
        names = [{name for name in each if not name.startswith("_")} for each in names]
    assert names[0] == names[1]
    first, second = answers(one, rows), answers(two, rows)
    for name, values in first.items():
        for a, b in zip(values, second[name], strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), name
            # Objects are pointers, which differ.
            same = a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
            assert same, name


def through(estimator, path):
    genmetric.save(estimator, path)
    return genmetric.load(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gm"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:With 4 features:UserWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_fitted(name, path):
    estimator = ESTIMATORS[name]
    assert shown(through(estimator, path)) == shown(estimator)
    assert not read_header(path)["fitted"]
    estimator.fit(X, X[:, 0] if name in REGRESSORS else NAMES[Y])
    assert_same(estimator, through(estimator, path))
    header = read_header(path)
    assert header["fitted"]
    if hasattr(estimator, "classes_"):
        assert header["labels"] == NAMES.tolist()


def test_every_public_estimator_has_a_case():
    public = {
        cls
        for name in genmetric.__all__
        if isinstance(cls := getattr(genmetric, name), type)
        and issubclass(cls, BaseEstimator)
        and hasattr(cls, "fit")
    } - {getattr(genmetric, "FaissNeighborsTransformer", None)}
    # Register a new estimator in genmetric.files._registry, with the classes of its attributes.
    assert public <= {type(estimator) for estimator in ESTIMATORS.values()}


def test_registered_names_are_names_of_classes():
    assert all(class_named(name).__name__ == name.partition(".")[2] for name in SAVABLE)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([10, -3, 7])[Y],
        Y.astype(np.int8),
        Y == 1,
        NAMES[Y].astype(object),
        np.array(["é", "日本", "\U0001f600 x"])[Y],
        (Y + 0.0),
    ],
    ids=["int", "int8", "bool", "object", "unicode", "float"],
)
def test_labels_of_every_kind(labels, path):
    model = make_pipeline(GenerativeMetric(), KNeighborsClassifier()).fit(X, labels)
    again = through(model, path)
    assert_same(model, again)
    assert again.classes_.dtype == model.classes_.dtype
    assert len(read_header(path)["labels"]) == len(model.classes_)


def test_feature_names(path):
    frame = pd.DataFrame(X, columns=["a", "b <script>", "é", "d"])
    model = make_pipeline(StandardScaler(), GenerativeMetric()).set_output(transform="pandas")
    again = through(model.fit(frame, Y), path)
    assert read_header(path)["feature_names"] == list(frame.columns)
    assert read_header(path)["n_features"] == 4
    pd.testing.assert_frame_equal(again.transform(frame), model.transform(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("seed", [0, "generator"])
def test_training_in_batches_continues(path, seed):
    order = np.random.default_rng(0).permutation(150)
    seed = np.random.RandomState(5) if seed == "generator" else seed
    model = GenerativeMetric(max_samples=60, random_state=seed)
    for rows in np.array_split(order[:100], 3):
        model.partial_fit(X[rows], NAMES[Y[rows]])
    again = through(model, path)
    for rows in np.array_split(order[100:], 2):
        model.partial_fit(X[rows], NAMES[Y[rows]])
        again.partial_fit(X[rows], NAMES[Y[rows]])
    assert_same(model, again)


def test_training_in_batches_continues_after_one_class(path):
    model = GenerativeMetric(random_state=0).partial_fit(X[:50], Y[:50], classes=[0, 1, 2])
    again = through(model, path)
    assert_same(model.partial_fit(X[50:], Y[50:]), again.partial_fit(X[50:], Y[50:]))


def test_memory_layout_is_kept(path):
    # The last bits of a product depend on the memory order of its operands.
    model = GenerativeMetric().fit(X, Y)
    model.stack_ = np.arange(24.0).reshape(2, 3, 4).transpose(0, 2, 1)
    model.fortran_ = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    model.every_other_ = np.arange(10)[::2]
    model.shared_ = model.fortran_
    again = through(model, path)
    for name in ("stack_", "fortran_", "every_other_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.stack_.strides == model.stack_.strides
    assert again.fortran_.flags.f_contiguous
    assert again.shared_ is again.fortran_


def test_values_of_every_kind(path):
    values = [
        np.nan,
        np.inf,
        -np.inf,
        -0.0,
        5e-324,
        2**80,
        1 + 2j,
        (1, [2, (3,)], {"a": {1: None}}),
        slice(1, None, 2),
        np.float32(0.1),
        np.int8(-3),
        np.str_("é"),
        np.datetime64("2020-01-01"),
        np.dtype("f4"),
        np.float64,
        np.array(3.5),
        np.empty((0, 4)),
        np.array(["a", None, 1.5, ("b",)], dtype=object),
        np.array([(1, 2), (3, 4), None], dtype=object)[:2],
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.ma.MaskedArray([1.0, 2.0], mask=[True, False]),
        np.arange(3, dtype=">i4"),
        np.array(["a", "", "é", "\ud800", "b\0"], dtype=object),
        np.array([["a", "b"], ["c", "d"]], dtype=object),
    ]
    model = GenerativeMetric(preprocessor=values)
    again = through(model, path).preprocessor
    for a, b in zip(values, again, strict=True):
        assert type(a) is type(b)
        assert repr(a) == repr(b)
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)


def test_the_same_model_gives_the_same_bytes(tmp_path):
    model = GenerativeMetric().fit(X, Y)
    genmetric.save(model, tmp_path / "a")
    genmetric.save(genmetric.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_numpy_opens_it(path):
    model = GenerativeMetric().fit(X, Y)
    genmetric.save(model, path)
    with np.load(path, allow_pickle=False) as archive:
        arrays = [archive[name] for name in archive.files if name.startswith("arrays/")]
        assert any(np.array_equal(array, model.components_) for array in arrays)
        assert b'"genmetric.GenerativeMetric"' in archive["genmetric.json"]


def test_metadata(path):
    facts = {"trained on": "iris", "rows": 150, "errors": [0.1, None, True], "é": {"a": {}}}
    genmetric.save(GenerativeMetric(), path, metadata=facts)
    assert read_header(path)["metadata"] == facts


@pytest.mark.parametrize(
    "metadata", [{1: 2}, {"a": np.float64}, {"a": np.nan}, [1], {"a": [{2: 3}]}, {"a": b"x"}]
)
def test_invalid_metadata(metadata, path):
    with pytest.raises(TypeError, match="metadata"):
        genmetric.save(GenerativeMetric(), path, metadata=metadata)
    assert not path.exists()


class Mine(GenerativeMetric):
    """A user's subclass, whose code is not in the file."""


@pytest.mark.parametrize(
    ("estimator", "named"),
    [
        (SVC(), "SVC"),
        (Mine(), "Mine"),
        ("text", "str"),
        (GenerativeMetric, "GenerativeMetric"),
        (GenerativeMetric(preprocessor=lambda rows: rows), r"preprocessor is .*function"),
        (make_pipeline(GenerativeMetric(), SVC()), r"steps\[1\]\[1\] is .*SVC"),
        (EnergyClassifier(Mine()), r"EnergyClassifier\.metric is .*Mine"),
        (GenerativeMetric(class_model=SVC()), r"class_model is .*SVC"),
        (GenerativeMetric(random_state=np.random.RandomState(np.random.PCG64(1))), "PCG64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unsupported_values_are_refused_by_name(estimator, named, path):
    with pytest.raises(TypeError, match=named):
        genmetric.save(estimator, path)
    assert not path.exists()


def test_reference_cycles_are_refused(path):
    endless: list = []
    endless.append(endless)
    with pytest.raises(TypeError, match="reference cycle"):
        genmetric.save(GenerativeMetric(preprocessor=endless), path)


def test_metadata_and_command_are_separate(path):
    genmetric.save(GenerativeMetric(), path, metadata={"method": 1}, command={"method": 2})
    header = read_header(path)
    assert header["metadata"] == {"method": 1}
    assert header["command"] == {"method": 2}


def test_one_open_gives_model_and_header(path, monkeypatch):
    genmetric.save(GenerativeMetric(shrinkage=0.5), path, metadata={"a": 1})
    opened = []
    opener = type(path).open
    monkeypatch.setattr(
        type(path), "open", lambda self, *args: (opened.append(self), opener(self, *args))[1]
    )
    model, header = genmetric.load(path, return_header=True)
    assert opened == [path]
    assert model.shrinkage == 0.5
    assert header == read_header(path)


def test_saving_does_not_warn_or_change_the_model(path):
    model = make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier()).fit(X, Y)
    before = set(vars(model[-1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        through(model, path)
    assert set(vars(model[-1])) == before


def test_reading_a_header_does_not_import_scikit_learn(path):
    genmetric.save(GenerativeMetric(), path)
    code = (
        "import sys; from genmetric.files import read_header; "
        f"print(read_header({str(path)!r})['class'], 'sklearn' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["genmetric.GenerativeMetric", "False"], done.stderr


def test_parameters_can_be_read(path):
    model = make_pipeline(
        SimpleImputer(), EnergyClassifier(GenerativeMetric(np.arange(300.0), shrinkage=0.25))
    )
    genmetric.save(model, path)
    parameters = read_header(path)["parameters"]
    assert parameters["simpleimputer__missing_values"] == "nan"
    assert parameters["energyclassifier__metric__shrinkage"] == 0.25
    assert parameters["energyclassifier__metric"].startswith("GenerativeMetric(")
    assert len(parameters["energyclassifier__metric__combination"]) < 100

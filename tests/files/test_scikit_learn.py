"""scikit-learn's classes in model files: no private state, rebuilt through the public API."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import genmetric
from genmetric import GenerativeMetric
from genmetric.files._registry import SAVABLE
from genmetric.tables import make_preprocessor, plan_columns

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gm"


@pytest.fixture
def through(path):
    def save_and_load(estimator):
        genmetric.save(estimator, path)
        return genmetric.load(path)

    return save_and_load


@pytest.fixture
def people(rng):
    """A table of numbers and strings, with missing values."""
    n = 90
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 9, n),
            "town": rng.choice(["Aix", "Bonn", "Cork"], n),
            "income": rng.normal(3, 1, n),
            "owner": rng.choice(["yes", "no"], n),
            "rooms": rng.integers(1, 6, n),
        }
    )
    frame.loc[::7, "age"] = np.nan
    target = np.where(frame["income"] + (frame["town"] == "Bonn") > 3.2, "high", "low")
    return frame, target


def columns():
    numeric = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    return ColumnTransformer(
        [
            ("numeric", numeric, ["age", "income"]),
            ("town", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["town"]),
            ("owner", OrdinalEncoder(), ["owner"]),
        ],
        remainder="passthrough",
    )


def test_pipeline_on_a_data_frame(people, through):
    frame, target = people
    model = Pipeline(
        [
            ("columns", columns()),
            ("scale", StandardScaler()),
            ("metric", GenerativeMetric()),
            ("neighbors", KNeighborsClassifier(3)),
        ]
    ).fit(frame, target)
    loaded = through(model)
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(
        loaded[:-1].transform(frame.iloc[:, ::-1]), model[:-1].transform(frame)
    )
    assert list(loaded[0].get_feature_names_out()) == list(model[0].get_feature_names_out())
    assert list(loaded.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="columns are missing"):
        loaded.predict(frame.drop(columns="town"))


@pytest.mark.parametrize(
    "transformer",
    [
        columns(),
        columns().set_output(transform="pandas"),
        make_column_transformer(
            (OneHotEncoder(), make_column_selector(dtype_exclude="number")), remainder="drop"
        ),
        make_column_transformer((OneHotEncoder(), ["town", "owner"]), remainder=SimpleImputer()),
        make_column_transformer(
            (SimpleImputer(), slice("age", "age")), ("drop", ["town"]), ("passthrough", ["rooms"])
        ),
        make_column_transformer((SimpleImputer(), [True, False, True, False, False])),
        make_column_transformer((StandardScaler(), []), ("passthrough", ["rooms"])),
        ColumnTransformer([("age", SimpleImputer(), [0]), ("town", OneHotEncoder(), [1])]),
    ],
)
def test_column_transformers(transformer, people, through):
    frame, _ = people
    expected = transformer.fit_transform(frame)
    loaded = through(transformer)
    found = loaded.transform(frame)
    assert type(found) is type(expected)
    if sparse.issparse(found):
        found, expected = found.toarray(), expected.toarray()
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    assert list(loaded.get_feature_names_out()) == list(transformer.get_feature_names_out())
    assert set(vars(loaded)) == set(vars(transformer))


def test_column_transformer_without_names(through):
    model = make_column_transformer((StandardScaler(), [0, 1]), remainder="passthrough").fit(X)
    np.testing.assert_array_equal(through(model).transform(X), model.transform(X))


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": ["x", "y", None, "x"], "b": [3, 1, 2, 1]}),
        np.array([["b", "x"], ["a", "y"], ["c", "x"]]),
        np.array([["b", 1.5], ["a", np.nan], ["c", 2]], dtype=object),
        np.array([[1.0, np.nan], [0.5, 2.0], [1.0, 7.0]]),
        np.array([[3, 1], [2, 1], [9, 4]]),
    ],
    ids=["frame", "strings", "objects", "floats", "integers"],
)
def test_one_hot_encoder(table, drop, sparse_output, through):
    model = OneHotEncoder(drop=drop, sparse_output=sparse_output, handle_unknown="ignore")
    expected = model.fit(table).transform(table)
    loaded = through(model)
    found = loaded.transform(table)
    if sparse_output:
        found, expected = found.toarray(), expected.toarray()
    np.testing.assert_array_equal(found, expected)
    assert repr(loaded.categories_) == repr(model.categories_)
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.get_feature_names_out(), model.get_feature_names_out())


def test_ordinal_encoder(through):
    table = pd.DataFrame({"a": ["x", "y", None, "x"], "b": [3.5, 1, np.nan, 1]})
    model = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(table)
    other = pd.DataFrame({"a": ["z", "y", None], "b": [3.5, np.nan, 99]})
    np.testing.assert_array_equal(through(model).transform(other), model.transform(other))


@pytest.mark.parametrize(
    "encoder", [OneHotEncoder(min_frequency=2), OrdinalEncoder(max_categories=2)]
)
def test_grouped_categories_are_refused(encoder, path):
    encoder.fit([["a"], ["a"], ["b"], ["c"]])
    with pytest.raises(TypeError, match="groups infrequent categories"):
        genmetric.save(encoder, path)


@pytest.mark.filterwarnings("ignore:Skipping features without any observed values")
@pytest.mark.filterwarnings("ignore:Currently, when .keep_empty_feature=False.:FutureWarning")
@pytest.mark.parametrize(
    "imputer",
    [
        SimpleImputer(),
        SimpleImputer(add_indicator=True),
        SimpleImputer(strategy="median", keep_empty_features=True, add_indicator=True),
        SimpleImputer(strategy="most_frequent"),
        SimpleImputer(strategy="constant", fill_value=7),
        SimpleImputer(missing_values=5.1, add_indicator=True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_imputers(imputer, dtype, through):
    table = X.astype(dtype)
    if imputer.missing_values != 5.1:
        table[::5, 1] = np.nan
        table[:, 3] = np.nan
    imputer.fit(table)
    loaded = through(imputer)
    found, expected = loaded.transform(table), imputer.transform(table)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert set(vars(loaded)) == set(vars(imputer))


def test_imputer_of_strings(through):
    table = np.array([["a", None], ["b", "x"], ["a", "x"]], dtype=object)
    imputer = SimpleImputer(strategy="most_frequent", missing_values=None).fit(table)
    assert through(imputer).transform(table).tolist() == imputer.transform(table).tolist()


def test_missing_indicator(through):
    table = X.copy()
    table[::3, 2] = np.nan
    model = MissingIndicator().fit(table)
    np.testing.assert_array_equal(through(model).transform(table), model.transform(table))


@pytest.mark.parametrize("solver", ["svd", "lsqr", "eigen"])
@pytest.mark.parametrize("n_components", [None, 1])
def test_linear_discriminant_analysis(solver, n_components, through):
    model = LinearDiscriminantAnalysis(solver=solver, n_components=n_components).fit(X, Y)
    loaded = through(model)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    if solver != "lsqr":
        np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert {n for n in vars(loaded) if not n.startswith("_")} == {
        n for n in vars(model) if not n.startswith("_")
    }
    assert repr(loaded) == repr(model)


def test_many_categories(path, through):
    names = np.array([f"town {i:06d}" for i in range(100_001)], dtype=object)[:, None]
    model = OrdinalEncoder().fit(names[1:])
    np.testing.assert_array_equal(through(model).transform(names[5:9]), [[4], [5], [6], [7]])
    with pytest.raises(ValueError, match=r"has 100001 categories .* at most 100000"):
        genmetric.save(OrdinalEncoder().fit(names), path)


@pytest.mark.parametrize("n_classes", [3, 100])
def test_linear_discriminant_analysis_of_many_features(n_classes, through):
    # A file that was saved must not be refused for the memory that loading it takes.
    rng = np.random.default_rng(0)
    samples, labels = rng.normal(size=(3 * n_classes, 768)), np.repeat(np.arange(n_classes), 3)
    model = LinearDiscriminantAnalysis().fit(samples, labels)
    loaded = through(model)
    np.testing.assert_array_equal(loaded.transform(samples), model.transform(samples))
    np.testing.assert_array_equal(loaded.predict(samples), model.predict(samples))


@pytest.mark.parametrize("algorithm", ["auto", "brute", "kd_tree", "ball_tree"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_neighbors(algorithm, dtype, through):
    samples = X.astype(dtype)
    for estimator in (
        KNeighborsClassifier(algorithm=algorithm, weights="distance"),
        KNeighborsRegressor(algorithm=algorithm),
        NearestNeighbors(algorithm=algorithm, leaf_size=3),
    ):
        model = estimator.fit(samples, Y)
        loaded = through(model)
        for found, expected in zip(loaded.kneighbors(X), model.kneighbors(X), strict=True):
            assert found.tobytes() == expected.tobytes()
        if hasattr(model, "predict"):
            np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert set(vars(loaded)) == set(vars(model))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a", "c"])[Y],
        np.array(["b", "a", "c"], dtype=object)[Y],
        Y.astype(float),
        Y > 1,
        np.stack([np.array(["b", "a", "c"])[Y], np.array(["x", "y", "y"])[Y]], axis=1),
    ],
)
def test_labels_of_neighbors(labels, through):
    model = KNeighborsClassifier().fit(X, labels)
    loaded = through(model)
    found, expected = loaded.predict(X), model.predict(X)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    if labels.ndim == 1:
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_neighbors_of_integers_take_little_memory(through):
    # 8-bit images: a conversion of all samples would take more than loading may use.
    samples = np.random.default_rng(0).integers(0, 255, (3000, 1600), dtype=np.uint8)
    model = KNeighborsClassifier(1).fit(samples, np.arange(3000) % 7)
    np.testing.assert_array_equal(through(model).predict(samples[:9]), model.predict(samples[:9]))


def test_neighbors_with_two_outputs_and_with_names(through):
    both = np.stack([Y, Y % 2], axis=1)
    model = KNeighborsClassifier().fit(pd.DataFrame(X, columns=list("abcd")), both)
    loaded = through(model)
    frame = pd.DataFrame(X, columns=list("abcd"))
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "a", "c", "d"]])


def test_sparse_samples_are_refused(path):
    model = KNeighborsClassifier().fit(sparse.csr_array(X), Y)
    with pytest.raises(TypeError, match=r"KNeighborsClassifier\.samples is of type scipy"):
        genmetric.save(model, path)


def test_files_hold_no_private_state_of_scikit_learn(people, path):
    frame, target = people
    model = make_pipeline(
        columns(), StandardScaler(), GenerativeMetric(), LinearDiscriminantAnalysis()
    ).fit(frame, target)
    genmetric.save(make_pipeline(model, KNeighborsClassifier().fit(X, Y)), path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("genmetric.json"))
    seen = set()

    def visit(node):
        if isinstance(node, list):
            for item in node:
                visit(item)
        elif isinstance(node, dict):
            if str(node.get("class")).startswith("sklearn."):
                seen.add(node["class"])
                for part in ("parameters", "fitted"):
                    for name, _ in node["parts"].get(part, {"items": []})["items"]:
                        assert not name.startswith("_"), (node["class"], name)
            for item in node.values():
                visit(item)

    visit(header["state"])
    assert {"sklearn.ColumnTransformer", "sklearn.SimpleImputer", "sklearn.OneHotEncoder"} <= seen
    assert seen <= set(SAVABLE)


def test_pipeline_of_a_planned_table(people, through):
    frame, target = people
    frame = frame.assign(since=pd.date_range("2020-01-01", periods=len(frame)).astype(str))
    frame["price"] = [f"{1000 + i},5" for i in range(len(frame))]
    model = Pipeline(
        [
            ("columns", make_preprocessor(plan_columns(frame))),
            ("scale", StandardScaler()),
            ("metric", GenerativeMetric()),
            ("neighbors", KNeighborsClassifier(3)),
        ]
    ).fit(frame, target)
    loaded = through(model)
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(loaded[:3].transform(frame), model[:3].transform(frame))

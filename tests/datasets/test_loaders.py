"""The loaders: one shape of result for all sets, and the facts of the catalogue."""

from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from genmetric import datasets
from genmetric.datasets import CATALOGUE, list_datasets, load_dataset

ON_THIS_MACHINE = [name for name in list_datasets() if CATALOGUE[name].home != "OpenML"]

CLASS_COUNTS = {
    "iris": [50, 50, 50],
    "wine": [59, 71, 48],
    "breast_cancer": [212, 357],
    "vehicle": [218, 212, 217, 199],
    "ionosphere": [126, 225],
    "german": [700, 300],
    "german_ida": [700, 300],
    "segment": [330] * 7,
    "image": [990, 1320],
}


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch):
    monkeypatch.delenv("GENMETRIC_DATA", raising=False)


@pytest.mark.parametrize("name", ON_THIS_MACHINE)
def test_bunch(name):
    record = CATALOGUE[name]
    bunch = getattr(datasets, f"load_{name}")()
    assert isinstance(bunch, Bunch)
    assert bunch.name == name
    assert bunch.data.shape == (record.n_samples, record.n_features)
    assert bunch.data.dtype == np.float64
    assert bunch.data.flags.c_contiguous
    assert np.isfinite(bunch.data).all()
    if record.task == "regression":
        assert bunch.target.dtype == np.float64
        assert np.isfinite(bunch.target).all()
        assert record.target in bunch.DESCR
    else:
        assert bunch.target.dtype == np.intp
        assert np.array_equal(np.unique(bunch.target), np.arange(len(record.class_names)))
    assert isinstance(bunch.feature_names, list)
    assert len(set(bunch.feature_names)) == record.n_features
    assert bunch.target_names.tolist() == list(record.class_names)
    assert bunch.frame is None
    assert record.credit in bunch.DESCR
    assert record.licence in bunch.DESCR
    home = {"scikit-learn": "scikit-learn", "package": "package", "generated": "by genmetric"}
    assert bunch.source.endswith(home[record.home])


@pytest.mark.parametrize("name", ON_THIS_MACHINE)
def test_other_forms_hold_the_same_values(name):
    bunch = load_dataset(name)
    X, y = load_dataset(name, return_X_y=True)
    assert np.array_equal(X, bunch.data)
    assert np.array_equal(y, bunch.target)

    framed = load_dataset(name, as_frame=True)
    assert list(framed.data.columns) == bunch.feature_names
    assert framed.target.name == "target"
    assert np.array_equal(framed.data.to_numpy(), bunch.data)
    assert np.array_equal(framed.target.to_numpy(), bunch.target)
    assert framed.frame.shape == (bunch.data.shape[0], bunch.data.shape[1] + 1)

    X, y = load_dataset(name, return_X_y=True, as_frame=True)
    assert isinstance(X, pd.DataFrame)
    assert isinstance(y, pd.Series)


@pytest.mark.parametrize(("name", "counts"), CLASS_COUNTS.items())
def test_class_counts(name, counts):
    assert np.bincount(load_dataset(name).target).tolist() == counts


TARGETS = {
    # Range and number of distinct values of each numeric target.
    "airfoil": (103.380, 140.987, 1456),
    "concrete": (2.33, 82.60, 938),
    "auto_mpg": (9.0, 46.6, 127),
    "real_estate": (7.6, 117.5, 270),
    "slump": (17.19, 58.53, 83),
    "wine_quality": (3, 8, 6),
    "fish_toxicity": (0.053, 9.612, 827),
    "aquatic_toxicity": (0.122, 10.047, 515),
}


@pytest.mark.parametrize(("name", "facts"), TARGETS.items())
def test_numeric_targets(name, facts):
    y = load_dataset(name).target
    low, high, distinct = facts
    np.testing.assert_allclose([y.min(), y.max()], [low, high], atol=0.01)
    assert len(np.unique(y)) == distinct


def test_every_numeric_target_is_listed():
    assert set(TARGETS) == {r.name for r in CATALOGUE.values() if r.task == "regression"}


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_equals_scikit_learn(name):
    theirs = getattr(sklearn.datasets, f"load_{name}")()
    ours = load_dataset(name)
    assert np.array_equal(ours.data, theirs.data)
    assert np.array_equal(ours.target, theirs.target)
    assert ours.feature_names == list(theirs.feature_names)
    assert ours.target_names.tolist() == [str(label) for label in theirs.target_names]


def test_exactly_one_loader_per_dataset():
    loaders = {name for name in datasets.__all__ if name.startswith("load_")} - {"load_dataset"}
    assert loaders == {f"load_{name}" for name in CATALOGUE}


def test_sets_from_openml_come_last():
    homes = [CATALOGUE[name].home == "OpenML" for name in list_datasets()]
    assert homes == sorted(homes)


def test_known_quirks():
    ionosphere = load_dataset("ionosphere", as_frame=True).data
    assert (ionosphere["V2"] == 0).all()
    segment = load_dataset("segment", as_frame=True).data
    assert (segment["region_pixel_count"] == 9).all()
    german = load_dataset("german_ida").data
    np.testing.assert_allclose(german.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(german.std(axis=0, ddof=1), 1, rtol=1e-6)
    letter = load_dataset("letter").data
    assert np.array_equal(letter, letter.astype(int))
    assert (letter.min(), letter.max()) == (0, 15)


def test_image_is_derived_from_segment():
    image, segment = load_dataset("image"), load_dataset("segment")
    assert "region_pixel_count" not in image.feature_names
    np.testing.assert_allclose(image.data.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(image.data.std(axis=0, ddof=1), 1, rtol=1e-12)
    names = segment.target_names[segment.target]
    assert set(names[image.target == 1]) == {"brickface", "sky", "foliage", "path"}
    assert set(names[image.target == 0]) == {"cement", "window", "grass"}
    assert len(np.unique(image.data, axis=0)) == 2086


def test_results_are_independent():
    first = load_dataset("vehicle")
    first.data[:] = 0
    first.target[:] = 0
    second = load_dataset("vehicle")
    assert second.data.any()
    assert second.target.any()


def test_unknown_name():
    with pytest.raises(ValueError, match=r"name must be one of \['iris', 'wine'.*got 'irs'"):
        load_dataset("irs")


def test_attribution_names_every_embedded_file():
    folder = files("genmetric.datasets") / "data"
    attribution = (folder / "ATTRIBUTION.md").read_text(encoding="utf-8")
    bundled = [r for r in CATALOGUE.values() if r.home == "package" and r.derived_from is None]
    embedded = {record.filename for record in bundled}
    assert {path.name for path in folder.iterdir()} == {*embedded, "ATTRIBUTION.md"}
    for name in embedded:
        assert f"`{name}`" in attribution

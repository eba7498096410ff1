"""Where rows come from: the order of the sources, and what happens when one is bad or absent."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from scipy.spatial import KDTree
from sklearn.utils import Bunch

from genmetric.datasets import CATALOGUE, load_dataset, load_heart, load_mnist
from genmetric.datasets.sources import data_directory

REPOSITORY = Path(__file__).parents[2]
DATA = Path(os.environ.get("GENMETRIC_DATA") or REPOSITORY.parent / "shared" / "data")

with_data = pytest.mark.skipif(
    not (DATA / "heart.csv.gz").is_file(), reason="no directory with the paper's data"
)


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch):
    monkeypatch.delenv("GENMETRIC_DATA", raising=False)


@pytest.fixture
def offline(monkeypatch):
    def fetch_openml(**_):
        raise OSError("network is unreachable")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)


def write_csv(path, X, y, *, names=None, last="target"):
    names = names or [f"f{i}" for i in range(X.shape[1])]
    lines = [",".join([*names, last])]
    lines += [",".join(map(repr, row)) for row in np.c_[X, y].tolist()]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))


@pytest.fixture
def fake_heart():
    """Rows of the shape of `heart`, with both classes."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(270, 13)), [i % 2 for i in range(270)]


class TestDataDirectory:
    def test_none_by_default(self):
        assert data_directory() is None

    def test_argument_before_variable(self, monkeypatch, tmp_path):
        (tmp_path / "a").mkdir()
        monkeypatch.setenv("GENMETRIC_DATA", str(tmp_path))
        assert data_directory() == tmp_path
        assert data_directory(tmp_path / "a") == tmp_path / "a"

    def test_empty_variable_is_ignored(self, monkeypatch):
        monkeypatch.setenv("GENMETRIC_DATA", "")
        assert data_directory() is None

    def test_missing_directory_error_names_its_origin(self, monkeypatch, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"data_dir names .*not a directory"):
            load_dataset("iris", data_dir=tmp_path / "none")
        monkeypatch.setenv("GENMETRIC_DATA", str(tmp_path / "none"))
        with pytest.raises(FileNotFoundError, match="variable GENMETRIC_DATA names"):
            load_dataset("iris")


class TestOrderOfSources:
    @pytest.mark.parametrize("name", ["vehicle", "iris"])
    def test_data_directory_comes_first(self, name, tmp_path):
        here = load_dataset(name)
        write_csv(tmp_path / f"{name}.csv.gz", here.data + 1, here.target)
        there = load_dataset(name, data_dir=tmp_path)
        np.testing.assert_allclose(there.data, here.data + 1)
        assert there.feature_names[0] == "f0"
        assert there.source == str(tmp_path / f"{name}.csv.gz")

    @pytest.mark.parametrize("name", ["vehicle", "iris", "image"])
    def test_a_directory_without_the_file_changes_nothing(self, name, tmp_path):
        here, there = load_dataset(name), load_dataset(name, data_dir=tmp_path)
        assert np.array_equal(here.data, there.data)
        assert here.source == there.source

    def test_image_follows_segment(self, tmp_path):
        segment = load_dataset("segment")
        order = np.random.default_rng(0).permutation(len(segment.data))
        write_csv(tmp_path / "segment.csv.gz", segment.data[order], segment.target[order])
        here, there = load_dataset("image"), load_dataset("image", data_dir=tmp_path)
        np.testing.assert_allclose(there.data, here.data[order], atol=1e-12)
        assert there.source == f"segment from {tmp_path / 'segment.csv.gz'}"


@pytest.mark.usefixtures("offline")
class TestNotEmbedded:
    def test_from_the_data_directory(self, tmp_path, fake_heart, monkeypatch):
        X, y = fake_heart
        write_csv(tmp_path / "heart.csv.gz", X, y)
        bunch = load_heart(data_dir=tmp_path)
        assert np.array_equal(bunch.data, X)
        assert bunch.target.tolist() == y
        monkeypatch.setenv("GENMETRIC_DATA", str(tmp_path))
        assert np.array_equal(load_heart().data, X)

    @pytest.mark.parametrize("load", [load_heart, load_mnist])
    def test_error_names_both_ways_to_get_the_data(self, load, tmp_path):
        with pytest.raises(FileNotFoundError) as caught:
            load(data_dir=tmp_path)
        for part in ["data_dir", "GENMETRIC_DATA", "OpenML", "unreachable"]:
            assert part in str(caught.value)

    def test_no_download_if_disabled(self, monkeypatch):
        monkeypatch.setattr(
            sklearn.datasets, "fetch_openml", lambda **_: pytest.fail("asked OpenML")
        )
        with pytest.raises(FileNotFoundError, match="download_if_missing=False"):
            load_heart(download_if_missing=False)


class TestOpenML:
    @pytest.fixture
    def asked(self, monkeypatch, fake_heart):
        X, y = fake_heart
        labels = np.array(["absent", "present"], dtype=object)[y]
        calls = []

        def fetch_openml(**arguments):
            calls.append(arguments)
            return Bunch(data=np.asfortranarray(X), target=labels)

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
        return calls

    def test_labels_become_classes(self, asked, fake_heart):
        bunch = load_heart()
        assert np.array_equal(bunch.data, fake_heart[0])
        assert bunch.data.flags.c_contiguous
        assert bunch.target.tolist() == fake_heart[1]
        assert bunch.feature_names == list(CATALOGUE["heart"].feature_names)
        assert bunch.source == "OpenML heart-statlog, version 1"
        assert (asked[0]["name"], asked[0]["version"]) == ("heart-statlog", 1)

    def test_unknown_label_is_refused(self, monkeypatch, fake_heart):
        bunch = Bunch(data=fake_heart[0], target=np.array(["absent"] * 269 + ["perhaps"]))
        monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **_: bunch)
        with pytest.raises(FileNotFoundError, match="not downloaded: ValueError"):
            load_heart()


class TestBadFiles:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"a,b,target\n1,2,0\n",
            gzip.compress(b"a,b,class\n1,2,0\n"),
            gzip.compress(b"a,target\n1,0\n" * 100)[:-20],
            gzip.compress(b"a,target\nx,0\n"),
            gzip.compress(b"a,b,target\n1,0\n1,2,0\n"),
        ],
        ids=["empty", "not gzip", "no target", "cut short", "not numbers", "ragged"],
    )
    def test_not_a_table(self, content, tmp_path):
        path = tmp_path / "vehicle.csv.gz"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"vehicle\.csv\.gz cannot be read as csv\.gz"):
            load_dataset("vehicle", data_dir=tmp_path)

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", b"text"])
    def test_not_an_archive(self, content, tmp_path):
        (tmp_path / "mnist.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"mnist\.npz cannot be read as npz"):
            load_mnist(data_dir=tmp_path)

    def test_archive_without_the_arrays(self, tmp_path):
        np.savez(tmp_path / "mnist.npz", Z=np.zeros(3))
        with pytest.raises(ValueError, match="cannot be read as npz"):
            load_mnist(data_dir=tmp_path)

    def test_pickles_are_not_opened(self, tmp_path):
        np.savez(tmp_path / "mnist.npz", X=np.array([object()]), y=np.zeros(1))
        with pytest.raises(ValueError, match="cannot be read as npz"):
            load_mnist(data_dir=tmp_path)

    def test_another_shape(self, tmp_path, fake_heart):
        X, y = fake_heart
        write_csv(tmp_path / "heart.csv.gz", X[:-1], y[:-1])
        with pytest.raises(ValueError, match=r"270 samples of 13 features.* shape \(269, 13\)"):
            load_heart(data_dir=tmp_path)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_not_finite(self, value, tmp_path, fake_heart):
        X, y = fake_heart
        X[3, 4] = value
        write_csv(tmp_path / "heart.csv.gz", X, y)
        with pytest.raises(ValueError, match="NaN or infinite"):
            load_heart(data_dir=tmp_path)

    @pytest.mark.parametrize("label", [2, -1, 0.5, np.nan])
    def test_not_a_class(self, label, tmp_path, fake_heart):
        X, y = fake_heart
        write_csv(tmp_path / "heart.csv.gz", X, [label, *y[1:]])
        with pytest.raises(ValueError, match=r"classes must be the integers|NaN or infinite"):
            load_heart(data_dir=tmp_path)


@with_data
class TestPaperData:
    @pytest.mark.parametrize(
        "name", ["vehicle", "ionosphere", "german", "german_ida", "segment", "letter"]
    )
    def test_embedded_copy_is_the_same(self, name):
        here, there = load_dataset(name), load_dataset(name, data_dir=DATA)
        assert np.array_equal(here.data, there.data)
        assert np.array_equal(here.target, there.target)
        assert here.feature_names == there.feature_names

    def test_heart(self):
        heart = load_heart(data_dir=DATA)
        assert np.bincount(heart.target).tolist() == [150, 120]
        assert heart.feature_names == list(CATALOGUE["heart"].feature_names)

    def test_image_is_that_of_the_benchmark_up_to_order(self):
        image = load_dataset("image")
        ours = np.c_[image.data, image.target]
        theirs = np.loadtxt(DATA / "image.csv.gz", delimiter=",", skiprows=1)
        assert ours.shape == theirs.shape
        for rows, others in [(ours, theirs), (theirs, ours)]:
            distance, _ = KDTree(others).query(rows, p=np.inf)
            assert distance.max() < 1e-6

    def test_mnist(self):
        mnist = load_mnist(data_dir=DATA)
        assert mnist.data.shape == (70000, 784)
        assert mnist.data.dtype == np.float32
        assert (mnist.data.min(), mnist.data.max()) == (0, 255)
        assert np.bincount(mnist.target).tolist()[:3] == [6903, 7877, 6990]
        assert mnist.feature_names[29] == "pixel_1_1"

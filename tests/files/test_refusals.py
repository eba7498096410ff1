"""Files that are no model files, no longer, or made to harm: refused by name, never executed."""

import hashlib
import io
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import genmetric
from genmetric import GenerativeMetric
from genmetric.files import ModelFileError, archive, read_header

X, Y = load_iris(return_X_y=True)
QUERIES = X[::7] + 0.01


@pytest.fixture(scope="module")
def model():
    return make_pipeline(StandardScaler(), GenerativeMetric(), KNeighborsClassifier()).fit(X, Y)


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    """The bytes of a good file."""
    path = tmp_path_factory.mktemp("whole") / "model.gm"
    genmetric.save(model, path)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gm"


def refused(path, match, *, by=(genmetric.load, read_header)):
    """Refused by an error that names the file."""
    for read in by:
        with pytest.raises(ModelFileError, match=match) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, ValueError)


def built(path, members, *, header=None, comment=None, compression=zipfile.ZIP_STORED, **changes):
    """A file with the given members and a header that goes with them, but for what is changed."""
    listing = [
        {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members
    ]
    if header is None:
        header = {"format_version": 1, "state": None, "arrays": listing, **changes}
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with zipfile.ZipFile(path, "w", compression) as zipped:
        zipped.writestr(zipfile.ZipInfo(archive.HEADER_NAME), text)
        for name, data in members:
            zipped.writestr(name, data)
        digest = hashlib.sha256(text).hexdigest().encode()
        zipped.comment = archive._COMMENT + digest if comment is None else comment


def npy(array, **options):
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def as_object(name, state):
    return {"$": "object", "class": name, "state": state, "id": 0}


class Bomb:
    """A pickle that leaves a trace where it is loaded."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


def test_the_builder_of_these_tests_makes_good_files(path):
    built(
        path,
        [("arrays/0.npy", npy(np.arange(3.0)))],
        state=as_object("genmetric.GenerativeMetric", {"shrinkage": {"$": "array", "index": 0}}),
    )
    assert genmetric.load(path).shrinkage.tolist() == [0, 1, 2]


FOREIGN = {
    "empty": (b"", "empty"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(100), "PNG"),
    "text": (b"a,b,label\n1,2,x\n" * 10, "text"),
    "short text": (b"x", "text"),
    "pickle": (pickle.dumps({"a": np.arange(3)}), "pickle"),
    "npy": (npy(np.arange(5)), "single NumPy array"),
    "noise": (np.random.default_rng(0).bytes(500), "no model file"),
    "zeros": (bytes(500), "no model file"),
    "half a zip": (b"PK\x03\x04", "cut short"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files(kind, path):
    data, match = FOREIGN[kind]
    path.write_bytes(data)
    refused(path, match)


def test_foreign_archives(path):
    with path.open("wb") as file:
        np.savez(file, a=np.arange(3), genmetric=np.arange(2))
    refused(path, "plain .npz")
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("document.xml", "<a/>")
    refused(path, "zip archive")
    with zipfile.ZipFile(path, "w") as zipped:
        pass
    refused(path, "empty zip")


def test_directories_devices_and_missing_files(tmp_path):
    refused(tmp_path, "directory")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        genmetric.load(tmp_path / "nowhere")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        refused(tmp_path / "pipe", "no regular file")


def test_a_large_foreign_archive_is_not_even_listed(path):
    # A hundred thousand members take zipfile over a second.
    with zipfile.ZipFile(path, "w") as zipped:
        for i in range(2000):
            zipped.writestr(str(i), b"")
    data = path.read_bytes()
    path.write_bytes(data * 20)
    refused(path, "zip archive")


def test_too_many_members(path):
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr(archive.HEADER_NAME, b"{}")
        for i in range(archive.MAX_ARRAYS + 1):
            zipped.writestr(f"arrays/{i}.npy", b"")
        zipped.comment = archive._COMMENT + bytes(64)
    refused(path, "its directory lists")


def test_truncated_anywhere(whole, path):
    for n in [*range(60), *range(60, len(whole), 197), *range(len(whole) - 150, len(whole))]:
        path.write_bytes(whole[:n])
        with pytest.raises(ModelFileError, match=r"model\.gm"):
            genmetric.load(path)


def test_something_after_the_end(whole, path):
    path.write_bytes(whole + b"\n")
    refused(path, "end is missing")


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_flipped_bytes_are_seen_or_do_not_matter(data, whole, model, path):
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(whole) - 1))
        damaged[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(damaged)
    try:
        again = genmetric.load(path)
    except ModelFileError:
        pass
    else:
        assert again.predict_proba(QUERIES).tobytes() == model.predict_proba(QUERIES).tobytes()
        assert again[1].components_.tobytes() == model[1].components_.tobytes()
    try:
        header = read_header(path)
    except ModelFileError:
        pass
    else:
        path.write_bytes(whole)
        assert header == read_header(path)


def test_every_byte_of_header_and_arrays_counts(whole, path):
    with zipfile.ZipFile(io.BytesIO(whole)) as zipped:
        for member in zipped.infolist():
            start = member.header_offset + 30 + len(member.filename)
            for place in np.linspace(start, start + member.file_size - 1, 9).astype(int):
                damaged = bytearray(whole)
                damaged[place] ^= 1
                path.write_bytes(damaged)
                refused(path, "damaged", by=[genmetric.load])


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_shuffled_pieces(data, whole, path):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), min_size=2, max_size=4)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    mixed = b"".join(data.draw(st.permutations(pieces)))
    path.write_bytes(mixed)
    if mixed != whole:
        with pytest.raises(ModelFileError):
            genmetric.load(path)


def test_damage_that_checks_of_the_zip_would_pass(whole, path):
    # The sums of the zip itself are made right again; those of genmetric are not.
    with zipfile.ZipFile(io.BytesIO(whole)) as zipped:
        names = zipped.namelist()
        contents = {name: zipped.read(name) for name in names}
        comment = zipped.comment
    for name in names:
        changed = {**contents, name: contents[name][:-1] + b"~"}
        with zipfile.ZipFile(path, "w") as zipped:
            zipped.comment = comment
            for member in names:
                zipped.writestr(member, changed[member])
        refused(path, "checksum", by=[genmetric.load])


def test_the_future(path):
    built(path, [], format_version=2, genmetric_version="9.1")
    refused(path, r"version 2.*genmetric\s+9\.1.*[Uu]pdate")
    built(path, [], state=as_object("genmetric.NotYetKnown", {}))
    refused(path, r"NotYetKnown.*Update", by=[genmetric.load])


@pytest.mark.parametrize(
    "changes",
    [
        {"format_version": "1"},
        {"format_version": None},
        {"format_version": 0},
        {"arrays": None},
        {"arrays": [{}]},
        {"state": []},
        {"state": {"$": "object"}},
        {"state": as_object("os.system", {})},
        {"state": as_object("genmetric.GenerativeMetric", {"__class__": 1})},
        {"state": as_object("genmetric.GenerativeMetric", {"a b": 1})},
        {"state": as_object("genmetric.GenerativeMetric", {"tol": {"$": "_array"}})},
        {"state": as_object("genmetric.GenerativeMetric", {"tol": {"$": "array", "index": 7}})},
        {"state": as_object("genmetric.GenerativeMetric", {"tol": {"$": "array", "index": -1}})},
        {"state": as_object("genmetric.GenerativeMetric", {"tol": {"$": "same", "id": 7}})},
        {"state": as_object("genmetric.GenerativeMetric", {"tol": {"$": "dtype", "name": "O"}})},
        {"state": as_object("genmetric.GenerativeMetric", {"tol": {"$": "type", "name": "O"}})},
        {
            "state": as_object(
                "genmetric.GenerativeMetric",
                {"tol": {"$": "scalar", "dtype": "O", "bytes": "00" * 8}},
            )
        },
        {
            "state": as_object(
                "genmetric.GenerativeMetric",
                {"tol": {"$": "objects", "shape": [10**12], "items": []}},
            )
        },
        {"state": as_object("genmetric.Frame", {"center": 0})},
        {"state": as_object("genmetric.Frame", {"center": 0, "scale": 1, "more": 2})},
    ],
)
def test_headers_that_lie(changes, path):
    built(path, [], **changes)
    refused(path, ".", by=[genmetric.load])


@pytest.mark.parametrize("header", [b"[]", b"{", b"\xff", b"[" * 100_000, b"null", b"9" * 10_000])
def test_headers_that_are_none(header, path):
    built(path, [], header=header)
    refused(path, ".")


def test_pickled_arrays(path, tmp_path):
    trace = tmp_path / "trace"
    pickled = npy(np.array([Bomb(trace)], dtype=object), allow_pickle=True)
    state = as_object("genmetric.GenerativeMetric", {"tol": {"$": "array", "index": 0}})
    built(path, [("arrays/0.npy", pickled)], state=state)
    refused(path, "pickled", by=[genmetric.load])
    built(path, [("arrays/0.npy", pickle.dumps(Bomb(trace)))], state=state)
    refused(path, "no NumPy array", by=[genmetric.load])
    path.write_bytes(pickle.dumps(Bomb(trace)))
    refused(path, "pickle")
    assert not trace.exists()
    pickle.loads(path.read_bytes())
    assert trace.exists()


def test_zip_bombs(path):
    state = as_object("genmetric.GenerativeMetric", {"tol": {"$": "array", "index": 0}})
    zeros = [("arrays/0.npy", npy(np.zeros(10**6)))]
    built(path, zeros, state=state, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**4
    refused(path, "compressed")
    # A small member whose head claims a terabyte.
    data = npy(np.arange(5.0)).replace(b"(5,), }           ", b"(137438953472,), }")
    built(path, [("arrays/0.npy", data)], state=state)
    refused(path, "does not fit its size", by=[genmetric.load])
    # A directory that claims more than the file has.
    built(path, [("arrays/0.npy", npy(np.arange(5.0)))], state=state)
    lying = bytearray(path.read_bytes())
    entry = lying.rindex(b"PK\x01\x02")
    lying[entry + 20 : entry + 28] = struct.pack("<2L", 2**31, 2**31)
    path.write_bytes(lying)
    refused(path, "more bytes than the file has")
    # A header of a gigabyte.
    lying = bytearray(path.read_bytes())
    entry = lying.index(b"PK\x01\x02")
    lying[entry + 20 : entry + 28] = struct.pack("<2L", 2**30, 2**30)
    path.write_bytes(lying)
    refused(path, "its header has 1073741824 bytes")


@pytest.mark.parametrize("name", ["../evil.npy", "/etc/passwd", "arrays/../../x.npy", "a\\b.npy"])
def test_names_that_leave_the_archive(name, path, tmp_path):
    built(path, [(name, npy(np.arange(3.0)))])
    refused(path, "names that genmetric never gives")
    built(
        path,
        [(name, npy(np.arange(3.0)))],
        arrays=[{"name": "arrays/0.npy", "bytes": 152, "sha256": ""}],
    )
    refused(path, "not those its header lists")
    assert [item.name for item in tmp_path.iterdir()] == ["model.gm"]


def test_labels_that_point_outside_are_refused(path):
    # scikit-learn's compiled loops would write there.
    knn = KNeighborsClassifier(algorithm="brute").fit(X, Y)
    knn._y = knn._y + 10**6
    genmetric.save(knn, path)
    refused(path, "none of its classes", by=[genmetric.load])


def test_random_states_that_point_outside_are_refused(path):
    key = np.random.RandomState(0).get_state()[1]
    node = {"$": "random", "key": 0, "pos": 10**6, "gauss": [0, 0.0], "id": 1}
    built(
        path,
        [("arrays/0.npy", npy(key))],
        state=as_object("genmetric.GenerativeMetric", {"random_state": node}),
    )
    refused(path, "impossible position", by=[genmetric.load])


def test_the_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(ModelFileError("a.gm", "it is odd.")))
    assert str(error) == "a.gm: it is odd."

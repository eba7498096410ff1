"""Invalid, damaged and hostile files: refused by name, never executed."""

import hashlib
import io
import json
import os
import pickle
import struct
import tokenize
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import genmetric
from genmetric import GenerativeMetric
from genmetric.files import ModelFileError, read_header
from genmetric.files import _archive as archive

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


@contextmanager
def restricted_memory(n_bytes):
    """Limit the memory that can still be allocated, where the system can."""
    try:
        import resource
    except ImportError:
        yield
        return
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def built(path, members, *, header=None, comment=None, compression=zipfile.ZIP_STORED, **changes):
    """Write a file with the given members and a matching header, except for the changes."""
    listing = [
        {
            "name": name,
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            **facts(data),
        }
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


def facts(data):
    """Type and shape of an array in the form of a header."""
    try:
        file = io.BytesIO(data)
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except (ValueError, SyntaxError, tokenize.TokenError):
        return {"dtype": "<f8", "shape": [1]}
    return {"dtype": dtype.str, "shape": list(shape)}


def npy(array, **options):
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def as_object(name, parts, **others):
    return {"$": "object", "class": name, "parts": parts, "id": 0, **others}


def as_metric(**parameters):
    items = [[name, value] for name, value in parameters.items()]
    parts = {"parameters": {"$": "dict", "items": items}}
    return as_object("genmetric.GenerativeMetric", parts)


class Bomb:
    """An object whose pickle creates a directory when it is loaded."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


def test_the_builder_of_these_tests_writes_valid_files(path):
    built(
        path,
        [("arrays/0.npy", npy(np.arange(3.0)))],
        state=as_metric(preprocessor={"$": "array", "index": 0}),
    )
    assert genmetric.load(path).preprocessor.tolist() == [0, 1, 2]


FOREIGN = {
    "empty": (b"", "empty"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(100), "PNG"),
    "text": (b"a,b,label\n1,2,x\n" * 10, "text"),
    "short text": (b"x", "text"),
    "pickle": (pickle.dumps({"a": np.arange(3)}), "pickle"),
    "npy": (npy(np.arange(5)), "single NumPy array"),
    "noise": (np.random.default_rng(0).bytes(500), "unrecognised format"),
    "zeros": (bytes(500), "unrecognised format"),
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
    refused(path, "a zip archive")
    with zipfile.ZipFile(path, "w") as zipped:
        pass
    refused(path, "empty zip")


def test_directories_devices_and_missing_files(tmp_path):
    refused(tmp_path, "directory")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        genmetric.load(tmp_path / "nowhere")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        refused(tmp_path / "pipe", "not a regular file")


def test_large_foreign_archive_is_not_listed(path):
    # A hundred thousand members take zipfile over a second.
    with zipfile.ZipFile(path, "w") as zipped:
        for i in range(2000):
            zipped.writestr(str(i), b"")
    data = path.read_bytes()
    path.write_bytes(data * 20)
    refused(path, "a zip archive")


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


def test_trailing_bytes(whole, path):
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
        with pytest.raises(ModelFileError, match=r"Copy it again|Do not trust|Pass a file"):
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


def test_newer_format_versions(path):
    built(path, [], format_version=2, genmetric_version="9.1")
    refused(path, r"version 2.*genmetric\s+9\.1.*[Uu]pdate")
    built(path, [], state=as_object("genmetric.NotYetKnown", {}))
    refused(path, r"NotYetKnown.*Update", by=[genmetric.load])


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"format_version": "1"}, "no valid format version"),
        ({"format_version": None}, "no valid format version"),
        ({"format_version": 0}, "no valid format version"),
        ({"arrays": None}, "damaged"),
        ({"arrays": [{}]}, "damaged"),
        ({"state": []}, "damaged"),
        ({"state": {"$": "object"}}, "does not support"),
        ({"state": as_object("os.system", {})}, "os.system, which this genmetric does not support"),
        ({"state": as_object("genmetric.Scaling", {"center": 0})}, "Scaling has the fields"),
        (
            {"state": as_object("genmetric.Scaling", {"center": 0, "scale": 1, "more": 2})},
            "Scaling has the fields",
        ),
        (
            {"state": as_object("genmetric.Scaling", {"center": 0, "scale": 1})},
            "Scaling.center has the type int",
        ),
        ({"state": as_object("genmetric.GenerativeMetric", {})}, "parameters"),
        ({"state": as_object("genmetric.GenerativeMetric", {"a": 1})}, "has the parts"),
        ({"state": as_metric(nonsense=1)}, "unexpected keyword argument 'nonsense'"),
        ({"state": as_metric(n_jobs=10**9)}, "n_jobs is 1000000000"),
        ({"state": as_metric(priors={"$": "_array"})}, "unknown kind of value '_array'"),
        ({"state": as_metric(priors={"$": "array", "index": 7})}, "index out of range"),
        ({"state": as_metric(priors={"$": "array", "index": -1})}, "number of an array"),
        ({"state": as_metric(priors={"$": "array", "index": True})}, "number of an array"),
        ({"state": as_metric(priors={"$": "same", "id": 7})}, "damaged"),
        ({"state": as_metric(priors={"$": "dtype", "name": "O"})}, "objects could be pickled"),
        ({"state": as_metric(priors={"$": "type", "name": "O"})}, "objects could be pickled"),
        ({"state": as_metric(priors={"$": "dtype", "name": "|S0"})}, "size zero"),
        (
            {"state": as_metric(priors={"$": "scalar", "dtype": "O", "bytes": "00" * 8})},
            "objects could be pickled",
        ),
        (
            {"state": as_metric(priors={"$": "objects", "shape": [10**12], "items": []})},
            "does not match its shape",
        ),
        (
            {"state": as_metric(priors={"$": "objects", "shape": [0, 10**12], "items": []})},
            "more memory",
        ),
    ],
)
def test_invalid_headers(changes, match, path):
    built(path, [], **changes)
    refused(path, match, by=[genmetric.load])


@pytest.mark.parametrize(
    ("header", "match"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "damaged"),
        (b"\xff", "damaged"),
        (b"[" * 100_000, "damaged"),
        (b"null", "not a JSON object"),
        (b"9" * 10_000, "damaged"),
    ],
)
def test_headers_that_are_not_json_objects(header, match, path):
    built(path, [], header=header)
    refused(path, match)


def fitted(attribute, value):
    """The tree of a fitted metric with one attribute replaced."""
    items = [["n_features_in_", 1], [attribute, value]]
    state = as_metric()
    state["parts"]["fitted"] = {"$": "dict", "items": items}
    return state


@pytest.mark.parametrize(
    ("attribute", "value", "match"),
    [
        ("__class__", 1, "has no attribute '__class__'"),
        ("a b_", 1, "has no attribute 'a b_'"),
        ("transform", 1, "has no attribute 'transform'"),
        ("n_features_in_", -1, "not a number of features"),
        ("n_features_in_", 10**12, "more memory"),
        ("feature_names_in_", ["a"], "one string per feature"),
        ("components_", 3.0, "components_ has 0 dimensions instead of 2"),
        ("components_", "a", "components_ is not numeric"),
    ],
)
def test_invalid_fitted_attributes(attribute, value, match, path):
    built(path, [], state=fitted(attribute, value))
    refused(path, match, by=[genmetric.load])


def test_sizes_of_zero(path):
    # Zero bytes of type '|S0' can stand for any number of elements.
    data = npy(np.zeros(3, "S1")).replace(b"'|S1'", b"'|S0'")[:-3]
    for dtype, shape in (("|S0", [3]), ("|S0", [10**9]), ("<U0", [10**9])):
        listing = {
            "name": "arrays/0.npy",
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "dtype": dtype,
            "shape": shape,
        }
        state = as_metric(preprocessor={"$": "array", "index": 0})
        built(path, [("arrays/0.npy", data)], arrays=[listing], state=state)
        refused(path, "has size zero", by=[genmetric.load])


def test_empty_arrays_with_a_huge_axis(path):
    data = npy(np.empty((0, 10**12)))
    state = as_metric(preprocessor={"$": "array", "index": 0})
    built(path, [("arrays/0.npy", data)], state=state)
    refused(path, "more memory", by=[genmetric.load])


@pytest.mark.parametrize("head", [b"{'descr': '<f8', ", b"{'descr': (", b"\x00" * 30, b'"""'])
def test_damaged_array_headers(head, path):
    data = bytearray(npy(np.arange(3.0)))
    data[10 : 10 + len(head)] = head
    listing = {
        "name": "arrays/0.npy",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "dtype": "<f8",
        "shape": [3],
    }
    state = as_metric(preprocessor={"$": "array", "index": 0})
    built(path, [("arrays/0.npy", bytes(data))], arrays=[listing], state=state)
    if bytes(data) == npy(np.arange(3.0)):
        genmetric.load(path)
    else:
        refused(path, "does not start as an array", by=[genmetric.load])


def test_repeated_content_is_refused(path):
    # Forty nearest-neighbours estimators that share one array of a megabyte.
    samples = np.random.default_rng(0).normal(size=(2**15, 4))
    knn = as_object(
        "sklearn.NearestNeighbors",
        {
            "parameters": {"$": "dict", "items": []},
            "fitted": {"$": "dict", "items": [["samples", {"$": "array", "index": 0}]]},
        },
    )
    state = as_metric(preprocessor=[{**knn, "id": i} for i in range(40)])
    built(path, [("arrays/0.npy", npy(samples))], state=state)
    refused(path, "would take longer|more memory", by=[genmetric.load])


def test_repeated_references_are_refused_before_they_take_time(path):
    reference = {"$": "array", "index": 0}
    state = as_metric(preprocessor=[reference] * 20_000)
    built(path, [("arrays/0.npy", npy(np.zeros(2**17)))], state=state)
    refused(path, "would take longer", by=[genmetric.load])


def test_many_small_nodes_are_refused_before_they_are_parsed(path):
    text = b'{"format_version": 1, "state": [' + b"[]," * 3_000_000 + b'[]], "arrays": []}'
    built(path, [], header=text)
    refused(path, "more memory")


def test_pickled_arrays(path, tmp_path):
    trace = tmp_path / "trace"
    pickled = npy(np.array([Bomb(trace)], dtype=object), allow_pickle=True)
    state = as_metric(preprocessor={"$": "array", "index": 0})
    built(path, [("arrays/0.npy", pickled)], state=state)
    refused(path, "objects could be pickled", by=[genmetric.load])
    member = pickle.dumps(Bomb(trace)).ljust(136, b".")
    built(path, [("arrays/0.npy", member)], state=state)
    refused(path, "does not start as an array", by=[genmetric.load])
    path.write_bytes(pickle.dumps(Bomb(trace)))
    refused(path, "pickle")
    assert not trace.exists()
    pickle.loads(path.read_bytes())
    assert trace.exists()


def test_zip_bombs(path):
    state = as_metric(preprocessor={"$": "array", "index": 0})
    zeros = [("arrays/0.npy", npy(np.zeros(10**6)))]
    built(path, zeros, state=state, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**4
    refused(path, "compressed")
    # A small member whose head claims a terabyte.
    data = npy(np.arange(5.0)).replace(b"(5,), }           ", b"(137438953472,), }")
    built(path, [("arrays/0.npy", data)], state=state)
    refused(path, "does not match its size", by=[genmetric.load])
    # A directory that claims more than the file has.
    built(path, [("arrays/0.npy", npy(np.arange(5.0)))], state=state)
    lying = bytearray(path.read_bytes())
    entry = lying.rindex(b"PK\x01\x02")
    lying[entry + 20 : entry + 28] = struct.pack("<2L", 2**31, 2**31)
    path.write_bytes(lying)
    refused(path, "declare more bytes than the file has")
    # A header of a gigabyte.
    lying = bytearray(path.read_bytes())
    entry = lying.index(b"PK\x01\x02")
    lying[entry + 20 : entry + 28] = struct.pack("<2L", 2**30, 2**30)
    path.write_bytes(lying)
    refused(path, "its header has 1073741824 bytes")


@pytest.mark.parametrize("name", ["../evil.npy", "/etc/passwd", "arrays/../../x.npy", "a\\b.npy"])
def test_names_that_leave_the_archive(name, path, tmp_path):
    built(path, [(name, npy(np.arange(3.0)))])
    refused(path, "invalid names")
    built(
        path,
        [(name, npy(np.arange(3.0)))],
        arrays=[{"name": "arrays/0.npy", "bytes": 152, "sha256": ""}],
    )
    refused(path, "not those its header lists")
    assert [item.name for item in tmp_path.iterdir()] == ["model.gm"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (10**6, "not indices of classes"),
        (-1, "not indices of classes"),
        (0.5, "not indices of classes"),
    ],
)
def test_labels_outside_of_the_classes(change, match, path):
    # Compiled loops of scikit-learn index by labels without a check.
    knn = KNeighborsClassifier(algorithm="brute").fit(X, Y)
    knn._y = knn._y + change
    genmetric.save(knn, path)
    refused(path, match, by=[genmetric.load])


def rewritten(path, change):
    """Write a file again, with right checksums, after a change of its tree and its arrays."""
    with zipfile.ZipFile(path) as zipped:
        header = json.loads(zipped.read("genmetric.json"))
        arrays = [np.load(io.BytesIO(zipped.read(e["name"]))) for e in header.pop("arrays")]
    archive.write_archive(path, header, change(header["state"], arrays))


def test_long_labels_are_not_repeated_for_each_sample(path):
    # Each sample with its own copy of its label would take 8 GB.
    knn = KNeighborsClassifier(algorithm="brute").fit(np.tile(X, (700, 1)), np.tile(Y, 700))
    genmetric.save(knn, path)
    label = "a" * 20_000
    rewritten(
        path,
        lambda _, arrays: [
            np.array([label, "b", "c"]) if array.shape == (3,) else array for array in arrays
        ],
    )
    with restricted_memory(2**30):
        loaded = genmetric.load(path)
    assert loaded.classes_[0] == label
    assert loaded.predict(X[-1:]) == "c"


@pytest.mark.parametrize("dtype", ["u1", "f8"])
def test_search_trees_count_as_memory(dtype, path):
    # One sample per leaf: the tree is many times larger than the samples.
    samples = np.random.default_rng(0).normal(size=(2**20, 1)).astype(dtype)
    genmetric.save(NearestNeighbors(algorithm="kd_tree").fit(samples), path)

    def with_small_leaves(state, arrays):
        parameters = dict(state["parts"]["parameters"]["items"])
        parameters["leaf_size"] = 1
        state["parts"]["parameters"]["items"] = list(parameters.items())
        return [array.astype(dtype) for array in arrays]

    genmetric.load(path)
    rewritten(path, with_small_leaves)
    refused(path, "more memory", by=[genmetric.load])


def test_search_trees_that_could_not_be_loaded_are_not_saved(path):
    samples = np.random.default_rng(0).normal(size=(2**19, 1))
    knn = NearestNeighbors(algorithm="kd_tree", leaf_size=1).fit(samples)
    with pytest.raises(ValueError, match=r"leaf_size=1 takes 27 MB .* Fit it with leaf_size=30"):
        genmetric.save(knn, path)
    assert not path.exists()


def test_random_states_with_an_impossible_position(path):
    key = np.random.RandomState(0).get_state()[1]
    node = {"$": "random", "key": 0, "pos": 10**6, "gauss": [0, 0.0], "id": 1}
    built(path, [("arrays/0.npy", npy(key))], state=as_metric(random_state=node))
    refused(path, "impossible position", by=[genmetric.load])


def test_the_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(ModelFileError("a.gm", "it is odd.")))
    assert str(error) == "a.gm: it is odd."

"""The store loses nothing: torn lines, resumption, kill -9."""

import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmetric.reproduction._store import Key, Record, Store


def record(split=0, test=1.5, **extra):
    return Record(Key("iris", "uni", split, "abc"), test, 0.5, 0.25, {"k": 3}, extra)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "deep" / "scores.jsonl")


def test_missing_file_has_no_records(store):
    assert store.read() == {}


def test_store_round_trip(store):
    records = [record(0), record(1, refit=2.0), record(2)]
    store.append(records[:2])
    store.append(records[2:])
    assert list(store.read().values()) == records


def test_nothing_appended_writes_nothing(store):
    store.append([])
    assert not store.path.exists()


def test_last_score_of_a_key_is_used(store):
    store.append([record(0, test=1.0), record(0, test=2.0)])
    assert [r.test for r in store.read().values()] == [2.0]


@given(cut=st.integers(1, 200))
def test_incomplete_line_is_skipped(tmp_path_factory, cut):
    store = Store(tmp_path_factory.mktemp("torn") / "scores.jsonl")
    store.append([record(0), record(1, note="ångström")])
    whole = store.path.read_bytes()
    first = whole.index(b"\n") + 1
    keep = max(first, len(whole) - cut)
    store.path.write_bytes(whole[:keep])
    # A line without its end is whole all the same when only the end is missing.
    expected = {0, 1} if keep >= len(whole) - 1 else {0}
    assert {key.split for key in store.read()} == expected
    store.append([record(7)])
    assert {key.split for key in store.read()} == expected | {7}


def test_foreign_lines_are_skipped(store):
    store.append([record(0)])
    with store.path.open("a") as file:
        file.write('{"set": "iris"}\n[1, 2]\n\nnothing\n')
    store.append([record(1)])
    assert {key.split for key in store.read()} == {0, 1}


WRITER = """
import sys
from genmetric.reproduction._store import Key, Record, Store
store = Store(sys.argv[1])
for i in range(100_000):
    store.append([Record(Key("iris", "uni", i, "abc"), float(i), None, 0.1, {}, {"text": "x" * 200})])
    print(i, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_kill_keeps_all_reported_scores(tmp_path):
    path = tmp_path / "scores.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        told = [process.stdout.readline() for _ in range(20)]
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
    reported = {int(line) for line in told if line.endswith("\n")}
    splits = sorted(key.split for key in Store(path).read())
    assert len(reported) >= 20
    assert reported <= set(splits)
    assert splits == list(range(len(splits)))
    Store(path).append([record(10**6)])
    assert len(Store(path).read()) == len(splits) + 1

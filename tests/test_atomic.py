"""Atomic writes: files appear complete or not at all, whatever the disk does."""

import errno
import os
import stat
import subprocess
import sys
import time

import pytest

from genmetric import _atomic
from genmetric._atomic import replacing

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes, links and processes")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gm"


def write(path, content=b"new"):
    with replacing(path) as file:
        file.write(content)


def names(path):
    return [item.name for item in path.parent.iterdir()]


def fail(code):
    def raise_error(*_, **__):
        raise OSError(code, os.strerror(code))

    return raise_error


@pytest.mark.parametrize("step", ["fsync", "replace", "open"])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_failed_step_changes_nothing(step, before, path, monkeypatch):
    if before is not None:
        path.write_bytes(before)
    if step == "replace":
        monkeypatch.setattr("pathlib.Path.replace", fail(errno.ENOSPC))
    else:
        monkeypatch.setattr(os, step, fail(errno.EROFS if step == "open" else errno.ENOSPC))
    with pytest.raises(OSError, match=r"model\.gm"):
        write(path)
    monkeypatch.undo()
    assert names(path) == ([] if before is None else ["model.gm"])
    assert before is None or path.read_bytes() == before


@posix
def test_full_disk(path):
    code = f"""
import resource
from genmetric._atomic import replacing
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with replacing({str(path)!r}) as file:
        file.write(bytes(10**6))
except OSError as error:
    print(error.filename)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == str(path), done.stderr
    assert names(path) == []


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind root"
)
def test_read_only_directory(path):
    path.parent.chmod(0o555)
    try:
        with pytest.raises(PermissionError, match=r"model\.gm"):
            write(path)
    finally:
        path.parent.chmod(0o755)


def test_interrupt(path):
    path.write_bytes(b"old")

    def interrupted():
        with replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert names(path) == ["model.gm"]


def test_missing_directory_and_directory_as_target(tmp_path):
    with pytest.raises(FileNotFoundError, match="model"):
        write(tmp_path / "nowhere" / "model.gm")
    with pytest.raises(OSError, match="is not a regular file"):
        write(tmp_path)


@posix
def test_new_files_follow_the_umask(tmp_path):
    write(tmp_path / "new")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_permissions_of_the_target_are_set_from_the_start(mode, path):
    path.write_bytes(b"old")
    path.chmod(mode)
    with replacing(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
def test_permissions_are_never_wider(path, monkeypatch):
    path.write_bytes(b"old")
    path.chmod(0o600)
    created = []
    system_open = os.open
    monkeypatch.setattr(
        os,
        "open",
        lambda name, flags, mode=0o777: (created.append(mode), system_open(name, flags, mode))[1],
    )
    write(path)
    assert created[0] == 0o600


@posix
def test_links_are_followed(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write(link)
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


@pytest.mark.parametrize("name", ["é" * 120, "漢" * 80], ids=["latin", "cjk"])
def test_long_names(name, tmp_path):
    write(tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"new"


@posix
def test_temporary_file_of_a_killed_process_is_removed(path):
    code = f"""
import os, signal
from genmetric._atomic import replacing
with replacing({str(path)!r}) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], timeout=120, check=False)
    (left,) = names(path)
    assert left.endswith(".tmp")
    write(path)
    assert names(path) == ["model.gm"]


@posix
def test_only_stale_files_of_genmetric_are_removed(path):
    host, token = _atomic._host(), "0" * 16
    running = f".genmetric-{host}-{os.getpid()}-{token}.tmp"
    elsewhere = f".genmetric-{'f' * 8}-{2**22 + 1}-{token}.tmp"
    old = f".genmetric-{'e' * 8}-{os.getpid()}-{token}.tmp"
    foreign = ".genmetric-notes.tmp"
    for name in (running, elsewhere, old, foreign):
        (path.parent / name).write_bytes(b"")
    past = time.time() - 2 * _atomic.STALE_AFTER
    for name in (old, foreign):
        os.utime(path.parent / name, (past, past))
    write(path)
    assert sorted(names(path)) == sorted([running, elsewhere, foreign, "model.gm"])

"""A model file appears whole or not at all, whatever the disk does."""

import errno
import os
import stat
import subprocess
import sys

import pytest

import genmetric
from genmetric import GenerativeMetric
from genmetric.files.atomic import replacing


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.gm"


def names(path):
    return [item.name for item in path.parent.iterdir()]


def fail(code):
    def raiser(*_, **__):
        raise OSError(code, os.strerror(code))

    return raiser


@pytest.mark.parametrize("step", ["write", "fsync", "replace", "open"])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_nothing_changes_when_a_step_fails(step, before, path, monkeypatch):
    if before is not None:
        path.write_bytes(before)
    if step == "write":
        monkeypatch.setattr("zipfile.ZipFile.writestr", fail(errno.ENOSPC))
    elif step == "replace":
        monkeypatch.setattr("pathlib.Path.replace", fail(errno.ENOSPC))
    else:
        monkeypatch.setattr(os, step, fail(errno.EROFS if step == "open" else errno.ENOSPC))
    with pytest.raises(OSError, match=r"model\.gm"):
        genmetric.save(GenerativeMetric(), path)
    monkeypatch.undo()
    assert names(path) == ([] if before is None else ["model.gm"])
    assert before is None or path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
def test_a_disk_that_is_full_half_way(path):
    code = f"""
import resource, sys
import numpy as np
import genmetric
model = genmetric.GenerativeMetric(preprocessor=np.ones((1000, 100)))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    genmetric.save(model, {str(path)!r})
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
def test_a_directory_that_cannot_be_written(path):
    path.parent.chmod(0o555)
    try:
        with pytest.raises(PermissionError, match=r"model\.gm"):
            genmetric.save(GenerativeMetric(), path)
    finally:
        path.parent.chmod(0o755)


def test_an_interrupt_leaves_nothing(path):
    path.write_bytes(b"old")

    def interrupted():
        with replacing(path) as file:
            file.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert names(path) == ["model.gm"]


def test_an_error_in_the_model_leaves_the_old_file(path):
    genmetric.save(GenerativeMetric(), path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        genmetric.save(GenerativeMetric(preprocessor=print), path)
    assert path.read_bytes() == before


def test_places_that_do_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="model"):
        genmetric.save(GenerativeMetric(), tmp_path / "nowhere" / "model.gm")
    with pytest.raises(OSError, match="no regular file"):
        genmetric.save(GenerativeMetric(), tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="modes and links are POSIX")
def test_modes_and_links(tmp_path):
    real, link = tmp_path / "real.gm", tmp_path / "link.gm"
    genmetric.save(GenerativeMetric(), real)
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert stat.S_IMODE(real.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    real.chmod(0o640)
    link.symlink_to(real)
    genmetric.save(GenerativeMetric(tol=0.5), link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert genmetric.load(real).tol == 0.5


def test_a_long_name(tmp_path):
    path = tmp_path / ("é" * 120)
    genmetric.save(GenerativeMetric(), path)
    assert genmetric.load(str(path)).tol == GenerativeMetric().tol

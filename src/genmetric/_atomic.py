"""Atomic writes: a file appears complete or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

#: Temporary files older than this many seconds are removed even if their process looks alive:
#: process ids are reused.
STALE_AFTER = 86400.0

_NAME = re.compile(r"\.genmetric-([0-9a-f]{8})-([0-9]{1,10})-[0-9a-f]{16}\.tmp")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` if the block succeeds.

    The file is written under a temporary name in the same directory, flushed to disk and renamed.
    After an error (a full disk, a signal, an exception in the block) the temporary file is removed
    and an existing file keeps its content. Temporary files of processes that were killed are
    removed at the next call in the same directory.

    Parameters
    ----------
    path : str or path-like
        The file to write. If it is a symbolic link, the file it points to is replaced.

    Yields
    ------
    file
        Binary file opened for writing. It has the permissions of the existing file at `path`, if
        there is one, from the start.

    Raises
    ------
    OSError
        If the file cannot be written; the error names `path`.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".genmetric-{_host()}-{os.getpid()}-{secrets.token_hex(8)}.tmp")
    created = False
    try:
        mode = _mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            raise OSError(f"{os.fspath(path)} is not a regular file. Choose another name.")
        _remove_stale(target.parent)
        # tempfile always creates files with mode 0600; a new file follows the umask instead.
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0)
        fd = os.open(temporary, flags, 0o666 if mode is None else stat.S_IMODE(mode) & 0o700)
        created = True
        with os.fdopen(fd, "w+b") as file:
            if mode is not None:
                # The umask can only remove permissions; restore those of the target.
                temporary.chmod(stat.S_IMODE(mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        created = False
        _sync_directory(target.parent)
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        if created:
            with suppress(OSError):
                temporary.unlink()


def _mode(target: Path) -> int | None:
    """Return the mode of a file, or None if it does not exist."""
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def _host() -> str:
    """Return a short identifier of this computer; directories can be shared between computers."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _remove_stale(directory: Path) -> None:
    """Remove temporary files left behind by processes that were killed."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match is None:
                continue
            with suppress(OSError):
                age = time.time() - entry.stat(follow_symlinks=False).st_mtime
                ended = match[1] == _host() and not _is_running(int(match[2]))
                if ended or age > STALE_AFTER:
                    Path(entry.path).unlink()


def _is_running(pid: int) -> bool:
    """Return whether a process exists; always True on Windows, where the check is not safe."""
    if os.name == "nt":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _sync_directory(directory: Path) -> None:
    """Flush a rename to disk; some systems do not allow this for directories."""
    with suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` when the block ends well.

    It is written beside `path`, flushed to the disk and renamed. After an error (a full disk, a
    signal, an exception of the block) nothing is left behind and what was there stays as it was.

    Parameters
    ----------
    path : str or path-like
        The file to write; where it is a symbolic link, the file that it points to.

    Yields
    ------
    file
        Open for writing bytes.

    Raises
    ------
    OSError
        With the name of `path`.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    created = False
    try:
        if target.exists() and not target.is_file():
            raise OSError(f"{os.fspath(path)} is no regular file, and is left alone.")
        # Not tempfile: its files are closed to others whatever the umask says.
        fd = os.open(
            temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o666
        )
        created = True
        with os.fdopen(fd, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
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


def _sync_directory(directory: Path) -> None:
    """Make a rename last; not every system lets a directory be opened or flushed."""
    with suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

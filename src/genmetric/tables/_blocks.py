"""Bytes of a file in blocks of whole lines, decompressed, in bounded memory."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from genmetric._optional import import_optional
from genmetric.tables._errors import TableError

#: Bytes of text that become one batch.
BLOCK_BYTES = 4 << 20

#: A longer line is an error: most likely a quote is not closed.
MAX_LINE_BYTES = 64 << 20

#: First bytes of compressed files that pyarrow can read, and its name for them.
COMPRESSIONS = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}


def compression_of(first: bytes) -> str | None:
    """Return the name of the compression of a file that starts with these bytes."""
    return next((name for magic, name in COMPRESSIONS.items() if first.startswith(magic)), None)


@contextmanager
def open_bytes(path: Path, compression: str | None, label: str) -> Iterator[Any]:
    """Open a file for reading, decompressed; damaged files raise TableError."""
    pa = import_optional("pyarrow", "cli")
    try:
        with pa.input_stream(str(path), compression=compression) as stream:
            yield stream
    except (OSError, pa.ArrowException) as error:
        if compression is None:
            raise
        raise TableError(
            f"{label}: corrupted {compression} file. Re-create or re-download it."
        ) from error


def text_blocks(stream: Any, encoding: str) -> Generator[bytes, None, None]:
    r"""Yield the text of a file in blocks of bytes, converted to UTF-8.

    Parameters
    ----------
    stream : binary file
        The file.
    encoding : str
        Its encoding.

    Yields
    ------
    bytes
        UTF-8 text without byte order mark, with "\n" at the ends of lines.

    Raises
    ------
    UnicodeDecodeError
        If the bytes are not text in this encoding.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(encoding)(), translate=True)
    first = True
    while True:
        data = stream.read(BLOCK_BYTES)
        text = decoder.decode(data, final=not data)
        if first:
            text = text.removeprefix("\ufeff")
            first = False
        if text:
            yield text.encode("utf-8", "replace")
        if not data:
            return


def line_blocks(
    blocks: Iterator[bytes], label: str, *, delimiter: str | None = None, skip_lines: int = 0
) -> Generator[bytes, None, None]:
    """Cut text into blocks that end at the end of a row.

    Parameters
    ----------
    blocks : iterator of bytes
        The text in blocks of any length.
    label : str
        Name of the file, for errors.
    delimiter : str, default=None
        Character between cells, whose quotes may contain ends of lines; None if a row is always
        one line.
    skip_lines : int, default=0
        Number of lines to leave out at the beginning.

    Yields
    ------
    bytes
        Whole rows.
    """
    rest = b""
    for block in blocks:
        rest += block
        while skip_lines and b"\n" in rest:
            rest = rest.partition(b"\n")[2]
            skip_lines -= 1
        if skip_lines:
            continue
        end = _last_row_end(rest, delimiter)
        if end:
            yield rest[:end]
            rest = rest[end:]
        elif len(rest) > MAX_LINE_BYTES:
            raise TableError(
                f"{label}: a line is longer than {MAX_LINE_BYTES >> 20} MB. Is a quote not closed, "
                "or is the delimiter another one (--delimiter)?"
            )
    if rest.strip() and not skip_lines:
        if not rest.endswith(b"\n"):
            rest += b"\n"
        if _last_row_end(rest, delimiter) < len(rest):
            raise TableError(f"{label}: a quote near the end of the file is not closed.")
        yield rest


def _last_row_end(data: bytes, delimiter: str | None) -> int:
    """Return the position after the last line end that is not inside quotes; 0 if there is none."""
    end = data.rfind(b"\n") + 1
    if delimiter is None or b'"' not in data:
        return end
    start = 0
    opening = re.compile(b"(?:^|[\\n" + re.escape(delimiter.encode()) + b'])"')
    closing = re.compile(b'(?:[^"]|"")*"')
    # Positions of the last quoted cell: line ends after its closing quote are free again.
    while (found := opening.search(data, start)) is not None:
        close = closing.match(data, found.end())
        if close is None:
            return data.rfind(b"\n", 0, found.start() + 1) + 1
        start = close.end()
    return end

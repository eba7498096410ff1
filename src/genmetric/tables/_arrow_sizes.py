"""Decoded size of the record batches of an Arrow file, from its metadata.

pyarrow decompresses a record batch as a whole and does not tell its size before. The metadata of a
batch is a flatbuffer with the position of each buffer, and a compressed buffer starts with its
decoded size in 8 bytes.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from genmetric._optional import import_optional

#: Bytes before the first message of an Arrow file: "ARROW1" and two zeros.
MAGIC_BYTES = 8


def largest_batch_bytes(path: Path) -> int:
    """Return the decoded bytes of the largest record batch or dictionary of an Arrow file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    int
        Bytes, as the file states them; 0 if there is no batch.
    """
    pa = import_optional("pyarrow", "cli")
    largest = 0
    with pa.memory_map(str(path)) as source:
        source.seek(MAGIC_BYTES)
        for message in pa.ipc.MessageReader.open_stream(source):
            if message.type in ("record batch", "dictionary"):
                size = _decoded_bytes(bytes(message.metadata), message.body, message.type)
                largest = max(largest, size)
    return largest


def _decoded_bytes(metadata: bytes, body: Any, kind: str) -> int:
    """Return the sum of the decoded sizes of the buffers of one message."""
    table = struct.unpack_from("<I", metadata)[0]
    batch = _follow(metadata, _field(metadata, table, 2))
    if kind == "dictionary":
        batch = _follow(metadata, _field(metadata, batch, 1))
    buffers = _field(metadata, batch, 2)
    compressed = _field(metadata, batch, 3) > 0
    if not buffers:
        return 0
    start = _follow(metadata, buffers)
    n_buffers = struct.unpack_from("<I", metadata, start)[0]
    view = memoryview(body)
    total = 0
    for i in range(n_buffers):
        offset, length = struct.unpack_from("<qq", metadata, start + 4 + 16 * i)
        size = length
        if compressed and length >= 8:
            # -1 marks a buffer that compression would not have made smaller.
            stated = struct.unpack_from("<q", view, offset)[0]
            size = length if stated < 0 else stated
        total += size
    return total


def _field(data: bytes, table: int, number: int) -> int:
    """Return the position of a field of a flatbuffer table; 0 if the table does not have it."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    place = 4 + 2 * number
    if place >= size:
        return 0
    offset = struct.unpack_from("<H", data, vtable + place)[0]
    return table + offset if offset else 0


def _follow(data: bytes, place: int) -> int:
    """Return the position that the offset at a place of a flatbuffer refers to."""
    return place + int(struct.unpack_from("<I", data, place)[0])

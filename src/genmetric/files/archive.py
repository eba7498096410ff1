"""The container of a model file: a zip of arrays behind a JSON header, with checksums of both.

The layout is that of an ``.npz`` of :func:`numpy.savez`, so that NumPy opens it: first the member
``genmetric.json``, then ``arrays/0.npy``, ``arrays/1.npy`` and so on, none of them compressed. The
header lists size and SHA-256 of every array, and the comment at the end of the zip has the SHA-256
of the header. A reader believes nothing: what a file says of sizes is held against the size of the
file before any of it is read, and no byte is ever unpickled or executed.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from genmetric._typing import AnyArray
from genmetric.files.atomic import replacing

#: Grows when older versions of genmetric could not read a file rightly.
FORMAT_VERSION = 1

HEADER_NAME = "genmetric.json"
#: Most bytes of a header. Parsing as many takes half a second.
MAX_HEADER = 16 * 2**20
#: Most arrays in a file.
MAX_ARRAYS = 20_000
#: Kinds of arrays: truth values, numbers, strings, times. Never objects.
KINDS = "biufcSUMm"

_COMMENT = b"genmetric model; sha256 of genmetric.json: "
_COMMENT_SIZE = len(_COMMENT) + 64
_END = struct.Struct("<4s4H2LH")  # the end record of a zip
_LOCAL = struct.Struct("<4s5H3L2H")  # the record before a member

#: First bytes of files that people mix up with a model file.
_FOREIGN = {
    b"PK\x05\x06": "an empty zip archive",
    b"\x89PNG": "a PNG image",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x93NUMPY": "a single NumPy array",
    b"\x1f\x8b": "a gzip file",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF document",
    b"\x08": "perhaps an ONNX model",
}


class ModelFileError(ValueError):
    """A file that is no model file of genmetric, or no longer a whole one.

    Parameters
    ----------
    path : str or path-like
        The file.
    what : str
        What is wrong with it and what to do.
    """

    def __init__(self, path: Any, what: str) -> None:
        self.path, self.what = os.fspath(path), what
        super().__init__(f"{self.path}: {what}")

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.what)


DAMAGED = "Copy it again from where it came, or save the model anew."


def _npy_head(array: AnyArray) -> bytes:
    """The bytes before the numbers in a ``.npy`` file."""
    out = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(array.dtype)
    np.lib.format.write_array_header_1_0(
        out, {"descr": descr, "fortran_order": False, "shape": array.shape}
    )
    return out.getvalue()


def _body(array: AnyArray) -> Any:
    """The bytes of a C-contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data if array.nbytes else b""


def write_archive(path: Any, header: dict[str, Any], arrays: Sequence[AnyArray]) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    path : str or path-like
        Where to.
    header : dict
        What JSON can hold; the list of arrays is added to it.
    arrays : sequence of ndarray
        C-contiguous arrays of the kinds in :data:`KINDS`.
    """
    heads = [_npy_head(array) for array in arrays]
    listing: list[dict[str, Any]] = [
        {
            "name": f"arrays/{i}.npy",
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "bytes": len(head) + array.nbytes,
            "sha256": _digest(head, _body(array)),
        }
        for i, (head, array) in enumerate(zip(heads, arrays, strict=True))
    ]
    text = json.dumps({**header, "arrays": listing}, allow_nan=False, ensure_ascii=True).encode()
    if len(text) > MAX_HEADER or len(arrays) > MAX_ARRAYS:
        raise ValueError(
            f"The model has {len(arrays)} arrays and {len(text)} bytes of names, labels and "
            f"parameters; a model file holds {MAX_ARRAYS} and {MAX_HEADER}. Save it with skops."
        )
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as zipped:
        zipped.comment = _COMMENT + _digest(text).encode()
        zipped.writestr(_member(HEADER_NAME), text)
        for entry, head, array in zip(listing, heads, arrays, strict=True):
            large = entry["bytes"] >= 2**31 - 1
            with zipped.open(_member(entry["name"]), "w", force_zip64=large) as member:
                member.write(head)
                member.write(_body(array))


def _digest(*parts: Any) -> str:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part)
    return sha.hexdigest()


def _member(name: str) -> zipfile.ZipInfo:
    # A fixed date: the same model gives the same bytes.
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    return info


class ArchiveReader:
    """An open model file whose header has been read and checked.

    Attributes
    ----------
    header : dict
        The header as it was written.
    """

    def __init__(self, path: Any, file: BinaryIO) -> None:
        self._path = path
        self._file_size = os.fstat(file.fileno()).st_size
        _check_edges(path, file, self._file_size)
        self._zip = zipfile.ZipFile(file)
        self._members = self._zip.infolist()
        self.header = self._read_header()

    def refuse(self, what: str) -> NoReturn:
        """Raise the error that names the file."""
        raise ModelFileError(self._path, what)

    def _read_header(self) -> dict[str, Any]:
        names = [member.filename for member in self._members]
        if names[:1] != [HEADER_NAME]:
            self.refuse(f"its list of members is damaged. {DAMAGED}")
        for member in self._members:
            if (
                member.compress_type != zipfile.ZIP_STORED
                or member.flag_bits & 1
                or member.file_size != member.compress_size
            ):
                self.refuse(
                    f"the member {member.filename!r} is compressed or encrypted, which genmetric "
                    "never writes. Do not trust this file; save the model anew."
                )
        if self._members[0].file_size > MAX_HEADER:
            self.refuse(
                f"its header has {self._members[0].file_size} bytes, more than the {MAX_HEADER} "
                "that genmetric writes. Do not trust this file."
            )
        if sum(member.file_size for member in self._members) > self._file_size:
            self.refuse(
                "its members claim more bytes than the file has. Do not trust this file; save the "
                "model anew."
            )
        text = self._zip.read(self._members[0])
        if self._zip.comment != _COMMENT + _digest(text).encode():
            self.refuse(f"its header does not match its checksum: it is damaged. {DAMAGED}")
        header = json.loads(text)
        if not isinstance(header, dict):
            self.refuse("its header is no JSON object. Do not trust this file.")
        version = header.get("format_version")
        if not isinstance(version, int) or version < 1:
            self.refuse("its header has no format version. Do not trust this file.")
        if version > FORMAT_VERSION:
            self.refuse(
                f"it has format version {version}, written by genmetric "
                f"{header.get('genmetric_version', '(unknown)')!s:.40}; this genmetric reads up to "
                f"version {FORMAT_VERSION}. Update: pip install --upgrade genmetric."
            )
        listing = [entry["name"] for entry in header["arrays"]]
        if listing != [f"arrays/{i}.npy" for i in range(len(listing))]:
            self.refuse(
                "its header lists arrays by names that genmetric never gives. Do not trust this "
                "file."
            )
        if names[1:] != listing:
            self.refuse(f"its arrays are not those its header lists: it is damaged. {DAMAGED}")
        return header

    def array(self, index: int) -> AnyArray:
        """Read the array of a number, checked against size, type and checksum."""
        entry, member = self.header["arrays"][index], self._members[index + 1]
        if entry["bytes"] != member.file_size:
            self.refuse(f"{member.filename} has the wrong size: the file is damaged. {DAMAGED}")
        with self._zip.open(member) as source:
            # The first ten bytes hold the length of the rest of the head.
            start = source.read(10)
            if start[:8] != b"\x93NUMPY\x01\x00":
                self.refuse(f"{member.filename} is no NumPy array: the file is damaged. {DAMAGED}")
            head = start + source.read(int.from_bytes(start[8:], "little"))
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(head[8:]))
            if dtype.kind not in KINDS or dtype.fields or dtype.hasobject:
                self.refuse(
                    f"{member.filename} holds {dtype} where genmetric writes numbers and strings "
                    "alone; objects could be pickled code. Do not trust this file."
                )
            if fortran or len(head) + prod(shape) * dtype.itemsize != member.file_size:
                self.refuse(
                    f"{member.filename} claims the shape {shape}, which does not fit its size. Do "
                    "not trust this file."
                )
            flat = np.empty(prod(shape), dtype)
            sha = hashlib.sha256(head)
            if flat.nbytes:
                body = flat.view(np.uint8).data
                for place in range(0, len(body), 2**20):
                    piece = source.read(2**20)
                    body[place : place + len(piece)] = piece
                    sha.update(piece)
            source.read(1)  # at the end zipfile checks its own sum
        if sha.hexdigest() != entry["sha256"]:
            self.refuse(f"{member.filename} does not match its checksum: it is damaged. {DAMAGED}")
        return flat.reshape(shape)


def _check_edges(path: Any, file: BinaryIO, size: int) -> None:
    """Refuse what is no model file by its first and last bytes, before a zip of any size is read."""

    def refuse(what: str) -> NoReturn:
        raise ModelFileError(path, what)

    start = file.read(_LOCAL.size + len(HEADER_NAME))
    if not start:
        refuse(f"the file is empty. {DAMAGED}")
    name = start[_LOCAL.size :].decode("latin-1")
    if start[:4] != b"PK\x03\x04":
        kind = next((what for magic, what in _FOREIGN.items() if start.startswith(magic)), None)
        if kind is None:
            kind = "text" if _is_text(start) else "of an unknown kind"
        refuse(
            f"it is no model file of genmetric; it looks {_looks(kind)}. Give a file written by "
            "genmetric.save."
        )
    if name != HEADER_NAME:
        if HEADER_NAME.startswith(name):
            refuse(f"the file is cut short. {DAMAGED}")
        refuse(
            "it is a zip archive (perhaps a plain .npz, a skops file or a document), but no model "
            "file of genmetric. Give a file written by genmetric.save."
        )
    end_size = _END.size + _COMMENT_SIZE
    if size < len(start) + end_size:
        refuse(f"the file is cut short. {DAMAGED}")
    file.seek(size - end_size)
    magic, *_, n_members, directory_size, _, comment_size = _END.unpack(file.read(_END.size))
    if magic != b"PK\x05\x06" or comment_size != _COMMENT_SIZE:
        refuse(f"its end is missing: the file is cut short or still being copied. {DAMAGED}")
    # Each entry of the directory takes 46 bytes, a name, and perhaps 28 for a large member.
    if n_members > MAX_ARRAYS + 1 or directory_size > 128 * (n_members + 1):
        refuse(
            f"its directory lists {n_members} members in {directory_size} bytes, more than "
            "genmetric writes. Do not trust this file."
        )
    file.seek(0)


def _is_text(start: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\n\r" for byte in start)


def _looks(kind: str) -> str:
    return f"like {kind}" if kind != "of an unknown kind" else "like nothing known"


@contextmanager
def open_archive(path: Any) -> Iterator[ArchiveReader]:
    """Open a model file; whatever is wrong with it ends in one :class:`ModelFileError`.

    Parameters
    ----------
    path : str or path-like
        The file.

    Yields
    ------
    ArchiveReader
        With the header read.
    """
    mode = Path(path).stat().st_mode  # a missing file is a FileNotFoundError
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
        raise ModelFileError(path, f"it is {what}. Give a file written by genmetric.save.")
    with Path(path).open("rb") as file:
        try:
            yield ArchiveReader(path, file)
        except ModelFileError:
            raise
        except (
            zipfile.BadZipFile,
            struct.error,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            NotImplementedError,
            EOFError,
            RuntimeError,  # from zipfile for encrypted members; RecursionError is one too
            OverflowError,
            MemoryError,
            OSError,  # a place in the file that cannot be; a disk that fails is another matter
        ) as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            detail = str(error) or type(error).__name__
            raise ModelFileError(path, f"it is damaged ({detail:.200}). {DAMAGED}") from error

"""The container of a model file: a zip archive of arrays and a JSON header, both with checksums.

The layout is that of an ``.npz`` of :func:`numpy.savez`, so that NumPy can open it: the member
``genmetric.json`` comes first, then ``arrays/0.npy``, ``arrays/1.npy`` and so on, all uncompressed.
The header lists type, shape, size and SHA-256 of every array, and the comment at the end of the
archive contains the SHA-256 of the header. The reader is defensive: declared sizes are checked
against the file size before anything is read, the memory and work of decoding have a budget, and no
byte is unpickled or executed.
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

from genmetric._atomic import replacing
from genmetric._typing import AnyArray
from genmetric.files._probe import Budget

#: Version of the format; it grows if older versions of genmetric would read a file incorrectly.
FORMAT_VERSION = 1

HEADER_NAME = "genmetric.json"
#: Maximum size of a header in bytes.
MAX_HEADER = 16 * 2**20
#: Maximum number of arrays in a file.
MAX_ARRAYS = 20_000
#: Kinds of NumPy types in a file: booleans, numbers, strings, times. Objects are never allowed.
KINDS = "biufcSUMm"
#: Bytes of memory charged for each structural character of the JSON header.
BYTES_PER_NODE = 100

_COMMENT = b"genmetric model; sha256 of genmetric.json: "
_COMMENT_SIZE = len(_COMMENT) + 64
_END = struct.Struct("<4s4H2LH")  # end record of a zip archive
_LOCAL = struct.Struct("<4s5H3L2H")  # record before each member

#: First bytes of other kinds of files.
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
    """Error raised for a file that is not a valid model file.

    Parameters
    ----------
    path : str or path-like
        The file.
    what : str
        What is wrong with the file and what to do.
    """

    def __init__(self, path: Any, what: str) -> None:
        self.path, self.what = os.fspath(path), what
        super().__init__(f"{self.path}: {what}")

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.what)


DAMAGED = "Copy it again from its source, or save the model again."
UNTRUSTED = "Do not trust this file."
EXPECTED = "Pass a file written by `genmetric fit` or genmetric.save."


def plain_dtype(name: Any) -> np.dtype[Any]:
    """Return the NumPy type of a name in a file.

    Parameters
    ----------
    name : str
        As given by ``dtype.str``.

    Returns
    -------
    dtype
        A type of the kinds in :data:`KINDS`, with a positive item size.

    Raises
    ------
    ValueError
        If the name stands for another type. Types of size zero are invalid: an array of them has
        any number of elements in no bytes.
    """
    dtype = np.dtype(str(name)) if isinstance(name, str) and len(name) < 40 else None
    if dtype is None or dtype.kind not in KINDS or dtype.fields or dtype.hasobject:
        raise ValueError(
            f"the type {str(name)[:40]!r} is not a type of numbers, strings or times; objects could "
            "be pickled code"
        )
    if dtype.itemsize == 0:
        raise ValueError(f"the type {name!r} has size zero")
    return dtype


def _npy_head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the bytes before the data in a ``.npy`` file."""
    out = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    np.lib.format.write_array_header_1_0(
        out, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return out.getvalue()


def _body(array: AnyArray) -> Any:
    """Return the bytes of a C-contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8).data if array.nbytes else b""


def write_archive(path: Any, header: dict[str, Any], arrays: Sequence[AnyArray]) -> None:
    """Write a model file, complete or not at all.

    Parameters
    ----------
    path : str or path-like
        The file to write.
    header : dict
        Values that JSON can represent; the list of arrays is added to it.
    arrays : sequence of ndarray
        C-contiguous arrays of the kinds in :data:`KINDS`.
    """
    heads = [_npy_head(array.dtype, array.shape) for array in arrays]
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
            f"parameters; the limits of a model file are {MAX_ARRAYS} and {MAX_HEADER}. Save it with "
            "skops."
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
    # The date is fixed, so that the same model gives the same bytes.
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    return info


class ArchiveReader:
    """An open model file whose header has been read and checked.

    Attributes
    ----------
    header : dict
        The header as it was written.
    budget : Budget
        Memory and work that decoding may still use.
    """

    def __init__(self, path: Any, file: BinaryIO) -> None:
        self._path = path
        self._file_size = os.fstat(file.fileno()).st_size
        self.budget = Budget(self._file_size)
        _check_edges(path, file, self._file_size)
        self._zip = zipfile.ZipFile(file)
        self._members = self._zip.infolist()
        self.header = self._read_header()

    def refuse(self, what: str) -> NoReturn:
        """Raise an error that names the file."""
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
                    f"the member {member.filename!r} is compressed or encrypted, and members of "
                    f"model files never are. {UNTRUSTED}"
                )
        if self._members[0].file_size > MAX_HEADER:
            self.refuse(
                f"its header has {self._members[0].file_size} bytes, more than the limit of "
                f"{MAX_HEADER}. {UNTRUSTED}"
            )
        if sum(member.file_size for member in self._members) > self._file_size:
            self.refuse(f"its members declare more bytes than the file has. {UNTRUSTED}")
        text = self._zip.read(self._members[0])
        if self._zip.comment != _COMMENT + _digest(text).encode():
            self.refuse(f"its header does not match its checksum: it is damaged. {DAMAGED}")
        # A short text can describe many empty lists, each of which takes memory.
        n_nodes = sum(text.count(character) for character in (b",", b"[", b"{"))
        self.budget.use_memory(BYTES_PER_NODE * n_nodes)
        header = json.loads(text)
        if not isinstance(header, dict):
            self.refuse(f"its header is not a JSON object. {UNTRUSTED}")
        version = header.get("format_version")
        if not isinstance(version, int) or version < 1:
            self.refuse(f"its header has no valid format version. {UNTRUSTED}")
        if version > FORMAT_VERSION:
            self.refuse(
                f"it has format version {version}, written by genmetric "
                f"{header.get('genmetric_version', '(unknown)')!s:.40}; this genmetric reads up to "
                f"version {FORMAT_VERSION}. Update: pip install --upgrade genmetric."
            )
        listing = [entry["name"] for entry in header["arrays"]]
        if listing != [f"arrays/{i}.npy" for i in range(len(listing))]:
            self.refuse(f"its header lists arrays under invalid names. {UNTRUSTED}")
        if names[1:] != listing:
            self.refuse(f"its arrays are not those its header lists: it is damaged. {DAMAGED}")
        return header

    def array(self, index: int) -> AnyArray:
        """Read an array by its number; type, shape, size and checksum are checked."""
        if type(index) is not int or index < 0:
            raise ValueError("the number of an array is invalid")
        entry, member = self.header["arrays"][index], self._members[index + 1]
        dtype = plain_dtype(entry["dtype"])
        shape = tuple(entry["shape"])
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in shape):
            self.refuse(f"{member.filename} has the invalid shape {shape!s:.80}. {UNTRUSTED}")
        head = _npy_head(dtype, shape)
        n_bytes = prod(shape) * dtype.itemsize
        if len(shape) > 16 or not (entry["bytes"] == member.file_size == len(head) + n_bytes):
            self.refuse(
                f"{member.filename} declares the shape {shape!s:.80}, which does not match its "
                f"size: the file is damaged. {DAMAGED}"
            )
        # An empty array can have a huge axis, over which a loop would never end.
        self.budget.use_memory(prod(max(1, n) for n in shape) * dtype.itemsize)
        flat = np.zeros(prod(shape), dtype)
        sha = hashlib.sha256(head)
        with self._zip.open(member) as source:
            # The head follows from type and shape, so that it need not be parsed.
            if source.read(len(head)) != head:
                self.refuse(
                    f"{member.filename} does not start as an array of its type and shape: the file "
                    f"is damaged. {DAMAGED}"
                )
            place = 0
            if flat.nbytes:
                body = flat.view(np.uint8).data
                while piece := source.read(min(2**20, n_bytes - place)):
                    body[place : place + len(piece)] = piece
                    place += len(piece)
                    sha.update(piece)
            source.read(1)  # at the end zipfile checks its own checksum
        if place != n_bytes or flat.nbytes != n_bytes or sha.hexdigest() != entry["sha256"]:
            self.refuse(f"{member.filename} does not match its checksum: it is damaged. {DAMAGED}")
        return flat.reshape(shape)


def _check_edges(path: Any, file: BinaryIO, size: int) -> None:
    """Refuse other kinds of files by their first and last bytes, before a zip archive is listed."""

    def refuse(what: str) -> NoReturn:
        raise ModelFileError(path, what)

    start = file.read(_LOCAL.size + len(HEADER_NAME))
    if not start:
        refuse(f"the file is empty. {DAMAGED}")
    name = start[_LOCAL.size :].decode("latin-1")
    if start[:4] != b"PK\x03\x04":
        kind = next((what for magic, what in _FOREIGN.items() if start.startswith(magic)), None)
        if kind is None:
            kind = "text" if _is_text(start) else "unrecognised format"
        refuse(f"not a genmetric model file ({kind}). {EXPECTED}")
    if name != HEADER_NAME:
        if HEADER_NAME.startswith(name):
            refuse(f"the file is cut short. {DAMAGED}")
        refuse(
            "not a genmetric model file (a zip archive, for example a plain .npz, a skops file or a "
            f"document). {EXPECTED}"
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
            f"its directory lists {n_members} members in {directory_size} bytes, more than the "
            f"limit. {UNTRUSTED}"
        )
    file.seek(0)


def _is_text(start: bytes) -> bool:
    return all(byte >= 32 or byte in b"\t\n\r" for byte in start)


@contextmanager
def open_archive(path: Any) -> Iterator[ArchiveReader]:
    """Open a model file; every fault of the file raises one :class:`ModelFileError`.

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
        what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise ModelFileError(path, f"it is {what}. {EXPECTED}")
    with Path(path).open("rb") as file:
        try:
            yield ArchiveReader(path, file)
        except (ModelFileError, ImportError):
            raise
        except OSError as error:
            # A failing disk has an error number; an impossible position in the file is a fault
            # of the file.
            if error.errno not in (None, errno.EINVAL):
                raise
            raise _damaged(path, error) from error
        except Exception as error:
            # What a damaged or hostile file raises cannot be listed: zipfile, json, NumPy and
            # scikit-learn raise many types.
            raise _damaged(path, error) from error


def _damaged(path: Any, error: Exception) -> ModelFileError:
    detail = str(error) or type(error).__name__
    return ModelFileError(path, f"it is damaged ({detail:.200}). {DAMAGED}")

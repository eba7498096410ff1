"""Where rows come from: a data directory, this package, scikit-learn, OpenML, in that order."""

import gzip
import hashlib
import io
import os
import zipfile
import zlib
from dataclasses import dataclass, replace
from http.client import HTTPException
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import sklearn.datasets

from genmetric._typing import AnyArray
from genmetric.datasets.catalogue import DatasetRecord

#: Environment variable that names the data directory.
DATA_DIR_VARIABLE = "GENMETRIC_DATA"


@dataclass(frozen=True)
class Table:
    """Rows of one data set and where they were found.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    y : ndarray of shape (n_samples,)
        Classes 0, 1, ...
    feature_names : tuple of str
        Names of the columns of `X`.
    source : str
        Where the rows were read from, in words.
    """

    X: AnyArray
    y: AnyArray
    feature_names: tuple[str, ...]
    source: str


def data_directory(data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Directory to look in first: the argument, else the variable ``GENMETRIC_DATA``, else none."""
    given = data_dir if data_dir is not None else os.environ.get(DATA_DIR_VARIABLE) or None
    if given is None:
        return None
    directory = Path(given).expanduser()
    if not directory.is_dir():
        named_by = "data_dir" if data_dir is not None else f"the variable {DATA_DIR_VARIABLE}"
        raise FileNotFoundError(
            f"{named_by} names {str(directory)!r}, which is not a directory. "
            "Name an existing one, or none to use what comes with the package."
        )
    return directory


def read_table(
    record: DatasetRecord, directory: Path | None = None, *, download_if_missing: bool = True
) -> Table:
    """Read a data set from the first source that has it.

    Parameters
    ----------
    record : DatasetRecord
        What to read.
    directory : Path or None
        A file ``record.filename`` here comes before every other source.
    download_if_missing : bool, default=True
        Whether OpenML may be asked for a set that is nowhere on this machine.

    Returns
    -------
    Table
        The rows, of the shape and with the classes that `record` states.

    Raises
    ------
    FileNotFoundError
        No source has the set; the text names the ways to get it.
    ValueError
        A file was found and is not this data set.
    """
    if directory is not None and (directory / record.filename).is_file():
        path = directory / record.filename
        return _checked(_parse(path.read_bytes(), record, str(path)), record)
    if record.home == "package":
        return _checked(_read_embedded(record), record)
    if record.home == "scikit-learn":
        return _checked(_read_scikit_learn(record), record)
    return _checked(_read_openml(record, directory, download_if_missing), record)


def _read_embedded(record: DatasetRecord) -> Table:
    """Read the file that ships with the package, after checking its SHA-256."""
    content = files("genmetric.datasets").joinpath("data", record.filename).read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != record.sha256:
        raise ValueError(
            f"The file {record.filename} of the installed package is damaged: its SHA-256 is "
            f"{found}, not {record.sha256}. Reinstall genmetric."
        )
    return _parse(content, record, "the genmetric package")


def _parse(content: bytes, record: DatasetRecord, source: str) -> Table:
    """Rows of a file in the form that `record` states."""
    parse = _parse_npz if record.file_format == "npz" else _parse_csv
    try:
        X, y, feature_names = parse(content)
    # What gzip, zipfile and NumPy raise on a file that is cut short or is something else.
    except (ValueError, KeyError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{source} cannot be read as {record.file_format} ({error}). Replace or remove it."
        ) from error
    return Table(X, y, feature_names or record.feature_names, source)


def _parse_csv(content: bytes) -> tuple[AnyArray, AnyArray, tuple[str, ...]]:
    """Header row, features, and the class in the last column, `target`."""
    header, _, rows = gzip.decompress(content).decode().partition("\n")
    *feature_names, last = header.strip().split(",")
    if last != "target":
        raise ValueError(f"the last column must be 'target' and is {last!r}")
    values = np.loadtxt(io.StringIO(rows), delimiter=",", ndmin=2)
    # A copy, so that X is contiguous and does not hold the target column.
    return values[:, :-1].copy(), values[:, -1], tuple(feature_names)


def _parse_npz(content: bytes) -> tuple[AnyArray, AnyArray, tuple[str, ...]]:
    """Arrays `X`, `y` and, perhaps, `feature_names`; never a pickle."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        feature_names = arrays.get("feature_names", ())
        # float32 holds grey levels exactly and, unlike uint8, does not wrap around.
        return arrays["X"].astype(np.float32), arrays["y"], tuple(map(str, feature_names))


def _read_scikit_learn(record: DatasetRecord) -> Table:
    bunch = getattr(sklearn.datasets, f"load_{record.name}")()
    feature_names = tuple(map(str, bunch.feature_names))
    X = np.ascontiguousarray(bunch.data, dtype=np.float64)
    return Table(X, bunch.target, feature_names, "scikit-learn")


def _read_openml(record: DatasetRecord, directory: Path | None, download: bool) -> Table:
    assert record.openml is not None
    name, version = record.openml
    reason = "download_if_missing=False"
    if download:
        try:
            bunch = sklearn.datasets.fetch_openml(
                name=name,
                version=version,
                as_frame=False,
                # pandas reads MNIST in a fraction of the time, where it is installed.
                parser="pandas" if find_spec("pandas") else "liac-arff",
            )
        # No network is an OSError, OpenML's own refusals are ValueErrors.
        except (OSError, ValueError, HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            dtype = np.float32 if record.file_format == "npz" else np.float64
            X = np.ascontiguousarray(bunch.data, dtype=dtype)
            codes = {label: code for code, label in enumerate(record.class_names)}
            y = np.array([codes.get(str(label), -1) for label in bunch.target])
            return Table(X, y, record.feature_names, f"OpenML {name}, version {version}")
    looked_in = f" (looked in {directory})" if directory is not None else ""
    raise FileNotFoundError(
        f"The data set {record.name!r} does not ship with genmetric. Either put "
        f"{record.filename} in a directory and name it by data_dir=... or the variable "
        f"{DATA_DIR_VARIABLE}{looked_in}, or let it come from OpenML ({name}, version {version}) "
        f"with a network connection (not done: {reason})."
    )


def _checked(table: Table, record: DatasetRecord) -> Table:
    """Table with integer classes, once it is known to be the data set of the record."""
    found, expected = table.X.shape, (record.n_samples, record.n_features)
    if found != expected or table.y.shape != expected[:1]:
        raise ValueError(
            f"{table.source}: {record.name} has {expected[0]} rows of {expected[1]} features and "
            f"a class each; found X of shape {found} and y of shape {table.y.shape}. "
            "Replace or remove the file."
        )
    if not np.isfinite(table.X).all():
        raise ValueError(f"{table.source}: a feature is NaN or infinite. Replace the file.")
    with np.errstate(invalid="ignore"):
        y = table.y.astype(np.intp)
    if (y != table.y).any() or set(np.unique(y)) != set(range(len(record.class_names))):
        raise ValueError(
            f"{table.source}: the classes must be the integers 0..{len(record.class_names) - 1}, "
            "each at least once. Replace the file."
        )
    return replace(table, y=y)

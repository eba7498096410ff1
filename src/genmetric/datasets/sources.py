"""Sources of datasets: a data directory, this package, scikit-learn and OpenML, in this order."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tomllib
import zipfile
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import sklearn.datasets

from genmetric._typing import AnyArray
from genmetric.datasets.normal import NormalClasses

#: Samples, targets, feature names and a description of the source.
Samples: TypeAlias = tuple[AnyArray, AnyArray, tuple[str, ...], str]


@dataclass(frozen=True, kw_only=True)
class DatasetRecord:
    """Description of one dataset, from ``catalogue.toml``.

    Attributes
    ----------
    name, title : str
        Name for :func:`genmetric.datasets.load_dataset`, and the full name.
    n_samples, n_features : int
        Number of samples and of features; a file of another shape is refused.
    home : {"package", "scikit-learn", "generated", "OpenML"}
        Source if the data directory does not have it.
    credit, licence, note : str
        Reference to cite, the licence, and remarks.
    class_names : tuple of str
        Names of the classes 0, 1, ...; empty if the target is a number.
    target : str
        Meaning and unit of a numeric target; empty if the target is a class.
    feature_names : tuple of str
        Feature names, for datasets whose file or source has none.
    sha256, openml, file_format, derived_from
        Checksum of the file in the package; name and version at OpenML; format of the file; name of
        the dataset that this one is computed from.
    recipe, bayes_error
        Generator of a generated dataset, and the lowest possible error, if known.

    Examples
    --------
    >>> from genmetric.datasets import CATALOGUE
    >>> record = CATALOGUE["vehicle"]
    >>> record.n_samples, record.n_features, record.class_names
    (846, 18, ('bus', 'opel', 'saab', 'van'))
    """

    name: str
    title: str
    n_samples: int
    n_features: int
    home: str
    credit: str
    licence: str
    note: str = ""
    class_names: tuple[str, ...] = ()
    target: str = ""
    feature_names: tuple[str, ...] = ()
    sha256: str | None = None
    openml: tuple[str, int] | None = None
    file_format: str = "csv.gz"
    derived_from: str | None = None
    recipe: NormalClasses | None = None
    bayes_error: float | None = None

    @property
    def task(self) -> str:
        """Whether the target is a class or a number: "classification" or "regression"."""
        return "regression" if self.target else "classification"

    @property
    def filename(self) -> str:
        """Name of the file, in the package or in a data directory."""
        return f"{self.name}.{self.file_format}"

    @property
    def description(self) -> str:
        """Text for ``DESCR``: title, shape, target, note, credit and licence."""
        names = f"{len(self.class_names)} classes: {', '.join(self.class_names)}."
        target = f"target: {self.target}." if self.target else names
        lines = [self.title, "=" * len(self.title), ""]
        lines += [f"{self.n_samples} samples, {self.n_features} features; {target}"]
        lines += [self.note] if self.note else []
        lines += [] if self.bayes_error is None else [f"Bayes error {self.bayes_error:.4f}."]
        return "\n".join([*lines, "", f"Credit: {self.credit}", f"Licence: {self.licence}"])


def _read_catalogue() -> dict[str, DatasetRecord]:
    """Read the records of all datasets."""
    text = files("genmetric.datasets").joinpath("catalogue.toml").read_text("utf-8")
    records = {}
    for name, entry in tomllib.loads(text).items():
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()
        }
        if "recipe" in values:
            values["recipe"] = NormalClasses(**values["recipe"])
        records[name] = DatasetRecord(name=name, **values)
    return records


#: Record of each dataset, by name.
CATALOGUE = _read_catalogue()


def data_directory(data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the data directory: the argument, else the variable ``GENMETRIC_DATA``, else None."""
    given = data_dir if data_dir is not None else os.environ.get("GENMETRIC_DATA") or None
    if given is None:
        return None
    directory = Path(given).expanduser()
    if not directory.is_dir():
        named_by = "data_dir" if data_dir is not None else "the variable GENMETRIC_DATA"
        raise FileNotFoundError(
            f"{named_by} names {str(directory)!r}, which is not a directory. "
            "Pass an existing directory, or None to use the bundled datasets."
        )
    return directory


def find_source(record: DatasetRecord, directory: Path | None) -> str | None:
    """Return where a dataset is on this machine; None if it has to be downloaded."""
    if record.derived_from is not None:
        origin = find_source(CATALOGUE[record.derived_from], directory)
        return f"{record.derived_from} from {origin}"
    if record.recipe is not None:
        return "generated by genmetric"
    if directory is not None and (directory / record.filename).is_file():
        return str(directory / record.filename)
    return {"package": "the genmetric package", "scikit-learn": "scikit-learn"}.get(record.home)


def read_samples(record: DatasetRecord, directory: Path | None, *, download: bool) -> Samples:
    """Read a dataset from the first source that has it, and check its shape and classes."""
    source = find_source(record, directory)
    if record.derived_from is not None:
        origin = CATALOGUE[record.derived_from]
        X, y, names = _image_of(*read_samples(origin, directory, download=download)[:3])
    elif record.recipe is not None:
        X, y = record.recipe.draw()
        names = record.feature_names
    elif directory is not None and source == str(directory / record.filename):
        X, y, names = _parse(Path(source).read_bytes(), record, source)
    elif record.home == "package":
        content = files("genmetric.datasets").joinpath("data", record.filename).read_bytes()
        if hashlib.sha256(content).hexdigest() != record.sha256:
            raise ValueError(
                f"The file {record.filename} of the installed package is damaged: its SHA-256 is not "
                f"{record.sha256}. Reinstall genmetric."
            )
        X, y, names = _parse(content, record, str(source))
    elif record.home == "scikit-learn":
        bunch = getattr(sklearn.datasets, f"load_{record.name}")()
        X, y = np.ascontiguousarray(bunch.data, dtype=np.float64), bunch.target
        names = tuple(map(str, bunch.feature_names))
    else:
        X, y, names, source = _read_openml(record, directory, download)
    return X, _checked_targets(X, y, record, str(source)), names, str(source)


def _image_of(
    X: AnyArray, y: AnyArray, names: tuple[str, ...]
) -> tuple[AnyArray, AnyArray, tuple[str, ...]]:
    """Compute the two-class dataset of the benchmark collection from the classes of `segment`."""
    varies = np.ptp(X, axis=0) > 0
    x = np.ascontiguousarray(X[:, varies])
    positive = ("brickface", "sky", "foliage", "path")
    codes = [CATALOGUE["segment"].class_names.index(name) for name in positive]
    standardised = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    return standardised, np.isin(y, codes), tuple(np.array(names)[varies].tolist())


def _parse(
    content: bytes, record: DatasetRecord, source: str
) -> tuple[AnyArray, AnyArray, tuple[str, ...]]:
    """Parse a file: .csv.gz with a header and a last column `target`, or .npz."""
    try:
        if record.file_format == "npz":
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                # float32 holds grey levels exactly and, unlike uint8, does not wrap around.
                X, y = arrays["X"].astype(np.float32), arrays["y"]
            return X, y, _pixel_names(X.shape[1])
        header, *lines = gzip.decompress(content).decode("utf-8").splitlines()
        *names, last = header.split(",")
        if last != "target":
            raise ValueError(f"the last column is {last!r}, not 'target'")
        values = np.loadtxt(lines, delimiter=",", ndmin=2)
    # Raised by gzip, zipfile and NumPy on truncated files and other formats.
    except (ValueError, KeyError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{source} cannot be read as {record.file_format} ({error}). Replace or remove it."
        ) from error
    return np.ascontiguousarray(values[:, :-1]), values[:, -1], tuple(names)


def _pixel_names(n_pixels: int) -> tuple[str, ...]:
    """Return the names of the pixels of square images, row by row."""
    side = int(n_pixels**0.5)
    return tuple(f"pixel_{i // side}_{i % side}" for i in range(n_pixels))


def _read_openml(record: DatasetRecord, directory: Path | None, download: bool) -> Samples:
    """Download a dataset from OpenML, or say how to get it."""
    name, version = record.openml or (record.name, 1)
    reason = "download_if_missing=False"
    if download:
        # pandas, if installed, parses MNIST much faster.
        parser = "pandas" if find_spec("pandas") else "liac-arff"
        try:
            bunch = sklearn.datasets.fetch_openml(
                name=name, version=version, as_frame=False, parser=parser
            )
            dtype = np.float32 if record.file_format == "npz" else np.float64
            X = np.ascontiguousarray(bunch.data, dtype=dtype)
            codes = {label: code for code, label in enumerate(record.class_names)}
            y = np.array([codes.get(str(label), -1) for label in bunch.target])
            names = record.feature_names or _pixel_names(X.shape[1])
            return X, y, names, f"OpenML {name}, version {version}"
        # A missing network raises OSError, an error of OpenML ValueError.
        except (OSError, ValueError, HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
    looked_in = f" (looked in {directory})" if directory is not None else ""
    raise FileNotFoundError(
        f"The dataset {record.name!r} is not bundled with genmetric. Put {record.filename} in a "
        "directory and name it by data_dir=... (--data-dir at the command line) or the variable "
        f"GENMETRIC_DATA{looked_in}, or download it from OpenML ({name}, version {version}) with a "
        f"network connection (not downloaded: {reason})."
    )


def _checked_targets(X: AnyArray, y: AnyArray, record: DatasetRecord, source: str) -> AnyArray:
    """Return targets of the record's kind; raise if the samples are not those of the record."""
    expected = (record.n_samples, record.n_features)
    if expected != X.shape or y.shape != expected[:1]:
        raise ValueError(
            f"{source}: {record.name} has {expected[0]} samples of {expected[1]} features, with a "
            f"target each; got X of shape {X.shape} and y of shape {y.shape}. Replace or remove the "
            "file."
        )
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError(f"{source}: a feature or target is NaN or infinite. Replace the file.")
    if record.task == "regression":
        return y.astype(np.float64)
    codes = y.astype(np.intp)
    if (codes != y).any() or set(np.unique(codes)) != set(range(len(record.class_names))):
        raise ValueError(
            f"{source}: the classes must be the integers 0..{len(record.class_names) - 1}, each at "
            "least once. Replace the file."
        )
    return codes

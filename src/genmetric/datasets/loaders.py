"""Loaders of the datasets, all with the same parameters and results."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
from sklearn.utils import Bunch

from genmetric._text import did_you_mean, import_optional
from genmetric._typing import AnyArray
from genmetric.datasets.sources import (
    CATALOGUE,
    DatasetRecord,
    data_directory,
    find_source,
    read_samples,
)

PathLike = str | os.PathLike[str]


def list_datasets() -> list[str]:
    """List the names of the datasets, first those that need no data directory or network.

    Returns
    -------
    list of str
        The names.

    Examples
    --------
    >>> from genmetric.datasets import list_datasets
    >>> list_datasets()[:3]
    ['iris', 'wine', 'breast_cancer']
    """
    return sorted(CATALOGUE, key=lambda name: CATALOGUE[name].home == "OpenML")


def load_dataset(
    name: str,
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_dir: PathLike | None = None,
    download_if_missing: bool = True,
) -> Any:
    """Load a dataset by name; ``load_dataset("iris")`` equals ``load_iris()``.

    The first of these sources that has the dataset is used: the data directory, the package,
    scikit-learn, and OpenML through :func:`sklearn.datasets.fetch_openml`, which caches it in
    scikit-learn's data folder. A file in a data directory is ``<name>.csv.gz`` (a header, the
    features, and a last column `target` with the classes 0, 1, ... or numbers) or, for `mnist`,
    ``mnist.npz`` (arrays `X` and `y`).

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        Whether to return `data` as a pandas DataFrame and `target` as a Series.
    data_dir : path-like, default=None
        Directory to search first. ``None`` is the directory in the environment variable
        ``GENMETRIC_DATA``, if it is set.
    download_if_missing : bool, default=True
        Whether to download `heart` or `mnist` from OpenML if the data directory does not have them.
        With ``False`` a :class:`FileNotFoundError` is raised instead.

    Returns
    -------
    bunch : :class:`sklearn.utils.Bunch`
        With the entries

        - `data`: array or DataFrame of shape (n_samples, n_features), float64 (`mnist`: float32);
        - `target`: array or Series of shape (n_samples,), the classes 0, 1, ..., or numbers;
        - `feature_names`: list of str;
        - `target_names`: array of str of shape (n_classes,), empty if the target is a number;
        - `frame`: DataFrame of shape (n_samples, n_features + 1), `data` and `target`, with
          ``as_frame=True``, else None;
        - `name`: str;
        - `source`: str, the source of the samples;
        - `DESCR`: str, a description with the reference to cite and the licence.
    (data, target) : tuple
        If ``return_X_y=True``.

    Raises
    ------
    FileNotFoundError
        If no source has the dataset; the message says how to get it.
    ValueError
        If no dataset has this name, or its file is corrupted.

    Examples
    --------
    >>> from genmetric.datasets import load_dataset
    >>> vehicle = load_dataset("vehicle")
    >>> vehicle.data.shape, [str(name) for name in vehicle.target_names]
    ((846, 18), ['bus', 'opel', 'saab', 'van'])
    """
    record = _record(name)
    X, y, names, source = read_samples(
        CATALOGUE[record.derived_from or name],
        data_directory(data_dir),
        download=download_if_missing,
    )
    if name == "image":
        X, y, names = _image_of(X, y, names)
        source = f"segment from {source}"
    data: Any = X
    target: Any = y
    frame = None
    if as_frame:
        pd = import_optional("pandas", "cli")
        data, target = pd.DataFrame(X, columns=list(names)), pd.Series(y, name="target")
        frame = pd.concat([data, target], axis=1)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=list(names),
        target_names=np.array(record.class_names, dtype=str),
        name=name,
        source=source,
        DESCR=record.description,
    )


def _record(name: str) -> DatasetRecord:
    """Return the record of a dataset; raise for an unknown name."""
    if name not in CATALOGUE:
        raise ValueError(
            f"name must be one of {list_datasets()}; got {name!r}. {did_you_mean(name, CATALOGUE)}"
        )
    return CATALOGUE[name]


def find_dataset(name: str, *, data_dir: PathLike | None = None) -> str | None:
    """Find the source of a dataset on this machine, without reading it.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    data_dir : path-like, default=None
        As in :func:`load_dataset`.

    Returns
    -------
    str or None
        Description of the source; None if the dataset has to be downloaded from OpenML.

    Examples
    --------
    >>> from genmetric.datasets import find_dataset
    >>> find_dataset("iris")
    'scikit-learn'
    """
    record = _record(name)
    origin = find_source(CATALOGUE[record.derived_from or name], data_directory(data_dir))
    return f"{record.derived_from} from {origin}" if record.derived_from else origin


class Loader(Protocol):
    """A function that loads one dataset."""

    def __call__(
        self,
        *,
        return_X_y: bool = False,
        as_frame: bool = False,
        data_dir: PathLike | None = None,
        download_if_missing: bool = True,
    ) -> Any:
        """Load the dataset."""


def _loader(name: str, action: str, note: str = "") -> Loader:
    """Make the loader of one dataset: :func:`load_dataset` without its first argument."""

    def load(
        *,
        return_X_y: bool = False,
        as_frame: bool = False,
        data_dir: PathLike | None = None,
        download_if_missing: bool = True,
    ) -> Any:
        return load_dataset(
            name,
            return_X_y=return_X_y,
            as_frame=as_frame,
            data_dir=data_dir,
            download_if_missing=download_if_missing,
        )

    record = CATALOGUE[name]
    target = f"{len(record.class_names)} classes" if record.class_names else "a numeric target"
    load.__name__ = load.__qualname__ = f"load_{name}"
    load.__doc__ = (
        f"{action}: {record.n_samples} samples, {record.n_features} features, {target}. As "
        f":func:`load_dataset`.\n\n{note}"
    )
    return load


load_iris = _loader("iris", "Load Iris")
load_wine = _loader("wine", "Load Wine")
load_breast_cancer = _loader("breast_cancer", "Load breast cancer")
load_digits = _loader("digits", "Load 8 x 8 handwritten digits")
load_vehicle = _loader("vehicle", "Load vehicle silhouettes")
load_ionosphere = _loader("ionosphere", "Load radar returns")
load_german = _loader("german", "Load German credit risks")
load_german_ida = _loader("german_ida", "Load German credit risks, 20 attributes")
load_segment = _loader("segment", "Load image segments")
load_three_normal = _loader(
    "three_normal",
    "Generate three Gaussian classes, the paper's 3-Normal",
    "The samples are always the same, and data directories are not searched. The record in "
    "``CATALOGUE`` has the generator and the Bayes error.",
)
load_two_normal = _loader(
    "two_normal",
    "Generate two Gaussian classes",
    "See :func:`load_three_normal`.",
)
load_letter = _loader("letter", "Load printed letters")
load_image = _loader(
    "image",
    "Load two classes of image segments",
    "Computed from `segment`, from any of its sources: the constant column is left out, the "
    "others are standardised over all samples (``ddof=1``). Brickface, sky, foliage and path "
    "are class +1 (target 1), cement, window and grass class -1 (target 0). A file "
    "``image.csv.gz`` is not read, so that the order of the samples is always the same.\n\n"
    "224 samples repeat an earlier one. To keep each once: ``kept = np.sort(np.unique(X, "
    "axis=0, return_index=True)[1])``.",
)
load_heart = _loader(
    "heart",
    "Load Statlog heart disease",
    "Read from ``heart.csv.gz`` in the data directory, otherwise from OpenML.",
)
load_mnist = _loader(
    "mnist",
    "Load MNIST",
    "Read from ``mnist.npz`` in the data directory, otherwise from OpenML. The first 60000 "
    "samples are the training set.",
)
load_airfoil = _loader("airfoil", "Load the noise of airfoils")
load_concrete = _loader("concrete", "Load concrete strength")
load_auto_mpg = _loader("auto_mpg", "Load fuel consumption of cars")
load_real_estate = _loader("real_estate", "Load prices of real estate")
load_slump = _loader("slump", "Load concrete slump tests")
load_wine_quality = _loader("wine_quality", "Load grades of red wines")
load_fish_toxicity = _loader("fish_toxicity", "Load toxicity for fish")
load_aquatic_toxicity = _loader("aquatic_toxicity", "Load toxicity for water fleas")


def _image_of(
    X: AnyArray, y: AnyArray, names: tuple[str, ...]
) -> tuple[AnyArray, AnyArray, tuple[str, ...]]:
    """Compute the two-class dataset of the benchmark collection from the classes of `segment`."""
    varies = np.ptp(X, axis=0) > 0
    x = np.ascontiguousarray(X[:, varies])
    positive = ("brickface", "sky", "foliage", "path")
    codes = [CATALOGUE["segment"].class_names.index(name) for name in positive]
    standardised = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    return standardised, np.isin(y, codes).astype(np.intp), tuple(np.array(names)[varies].tolist())

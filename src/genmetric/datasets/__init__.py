"""Datasets of the paper and others, with loaders like scikit-learn's."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from genmetric._text import import_optional
from genmetric.datasets.images import deskew
from genmetric.datasets.normal import NormalClasses
from genmetric.datasets.sources import CATALOGUE, DatasetRecord, find_dataset, read_samples


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
    data_dir: str | os.PathLike[str] | None = None,
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
    X, y, names, source = read_samples(name, data_dir, download=download_if_missing)
    data: Any = X
    target: Any = y
    frame = None
    if as_frame:
        pd = import_optional("pandas", "cli")
        data, target = pd.DataFrame(X, columns=list(names)), pd.Series(y, name="target")
        frame = pd.concat([data, target], axis=1)
    if return_X_y:
        return data, target
    record = CATALOGUE[name]
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


def _loader(name: str) -> Callable[..., Any]:
    """Make the loader of one dataset: :func:`load_dataset` without its first argument."""

    def load(**options: Any) -> Any:
        return load_dataset(name, **options)

    record, signature = CATALOGUE[name], inspect.signature(load_dataset)
    target = f"{len(record.class_names)} classes" if record.class_names else "a numeric target"
    shape = f"{record.n_samples} samples, {record.n_features} features, {target}"
    load.__name__ = load.__qualname__ = f"load_{name}"
    load.__doc__ = (
        f"Load {record.title}: {shape}. As :func:`load_dataset`.\n\n{record.note}".rstrip()
    )
    options = list(signature.parameters.values())[1:]
    vars(load)["__signature__"] = signature.replace(parameters=options)
    return load


load_iris = _loader("iris")
load_wine = _loader("wine")
load_breast_cancer = _loader("breast_cancer")
load_digits = _loader("digits")
load_vehicle = _loader("vehicle")
load_ionosphere = _loader("ionosphere")
load_german = _loader("german")
load_german_ida = _loader("german_ida")
load_segment = _loader("segment")
load_three_normal = _loader("three_normal")
load_two_normal = _loader("two_normal")
load_letter = _loader("letter")
load_image = _loader("image")
load_heart = _loader("heart")
load_mnist = _loader("mnist")
load_airfoil = _loader("airfoil")
load_concrete = _loader("concrete")
load_auto_mpg = _loader("auto_mpg")
load_real_estate = _loader("real_estate")
load_slump = _loader("slump")
load_wine_quality = _loader("wine_quality")
load_fish_toxicity = _loader("fish_toxicity")
load_aquatic_toxicity = _loader("aquatic_toxicity")

__all__ = [
    "CATALOGUE",
    "DatasetRecord",
    "NormalClasses",
    "deskew",
    "find_dataset",
    "list_datasets",
    "load_dataset",
]
__all__ += [f"load_{name}" for name in CATALOGUE]

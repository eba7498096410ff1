"""One loader a data set, all with the same arguments and the same result."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from genmetric._optional import import_optional
from genmetric.datasets._catalogue import CATALOGUE, DatasetRecord
from genmetric.datasets._sources import Table, data_directory, find_table, read_table

PathLike = str | os.PathLike[str]

#: Classes of `segment` that are +1 in `image`.
_IMAGE_POSITIVE = ("brickface", "sky", "foliage", "path")


def list_datasets() -> list[str]:
    """Names that :func:`load_dataset` knows, those that need no data directory or network first.

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
    """Load a data set by name; ``load_dataset("iris")`` is ``load_iris()``.

    The rows come from the first of these that has them: the data directory, the package,
    scikit-learn, OpenML through :func:`sklearn.datasets.fetch_openml`, which keeps them in
    scikit-learn's data folder. A file of a data directory is ``<name>.csv.gz`` (a header row, the
    features, and last a column `target` with the classes 0, 1, ... or numbers) or, for `mnist`,
    ``mnist.npz`` (arrays `X` and `y`).

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the whole.
    as_frame : bool, default=False
        Return `data` as a pandas DataFrame and `target` as a Series.
    data_dir : path-like, default=None
        Directory to look in first. ``None`` is the directory that the environment variable
        ``GENMETRIC_DATA`` names, if it is set.
    download_if_missing : bool, default=True
        Whether OpenML may be asked for `heart` or `mnist` when no data directory has them.

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
        - `source`: str, where the rows were read from;
        - `DESCR`: str, a description, whom to credit, the licence.
    (data, target) : tuple
        If ``return_X_y=True``.

    Raises
    ------
    FileNotFoundError
        No source has the set; the text names the ways to get it.
    ValueError
        No set has that name, or its file is damaged.

    Examples
    --------
    >>> from genmetric.datasets import load_dataset
    >>> vehicle = load_dataset("vehicle")
    >>> vehicle.data.shape, [str(name) for name in vehicle.target_names]
    ((846, 18), ['bus', 'opel', 'saab', 'van'])
    """
    if name not in CATALOGUE:
        raise ValueError(f"No data set is called {name!r}; choose from {list_datasets()}.")
    record = CATALOGUE[name]
    table = read_table(
        CATALOGUE[record.derived_from or name],
        data_directory(data_dir),
        download_if_missing=download_if_missing,
    )
    if name == "image":
        table = _image_of(table)
    return _result(table, record, return_X_y, as_frame)


def find_dataset(name: str, *, data_dir: PathLike | None = None) -> str | None:
    """Where a data set is on this machine, in words, without reading it.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.
    data_dir : path-like, default=None
        As in :func:`load_dataset`.

    Returns
    -------
    str or None
        None where it would have to come from OpenML.

    Examples
    --------
    >>> from genmetric.datasets import find_dataset
    >>> find_dataset("iris")
    'scikit-learn'
    """
    if name not in CATALOGUE:
        raise ValueError(f"No data set is called {name!r}; choose from {list_datasets()}.")
    record = CATALOGUE[name]
    origin = find_table(CATALOGUE[record.derived_from or name], data_directory(data_dir))
    return f"{record.derived_from} from {origin}" if record.derived_from else origin


def load_iris(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load Iris: 150 rows, 4 features, 3 classes. As :func:`load_dataset`."""
    return load_dataset("iris", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_wine(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load Wine: 178 rows, 13 features, 3 classes. As :func:`load_dataset`."""
    return load_dataset("wine", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_breast_cancer(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load Breast Cancer Wisconsin: 569 rows, 30 features, 2 classes. As :func:`load_dataset`."""
    return load_dataset(
        "breast_cancer", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir
    )


def load_digits(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load 8 x 8 handwritten digits: 1797 rows, 64 features. As :func:`load_dataset`."""
    return load_dataset("digits", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_vehicle(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load vehicle silhouettes: 846 rows, 18 features, 4 classes. As :func:`load_dataset`."""
    return load_dataset("vehicle", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_ionosphere(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load radar returns: 351 rows, 34 features, 2 classes. As :func:`load_dataset`."""
    return load_dataset("ionosphere", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_german(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load German credit risks: 1000 rows, 24 features, 2 classes. As :func:`load_dataset`."""
    return load_dataset("german", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_segment(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load image segments: 2310 rows, 19 features, 7 classes. As :func:`load_dataset`."""
    return load_dataset("segment", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_three_normal(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Generate three Gaussian classes, the paper's 3-Normal. As :func:`load_dataset`.

    The rows are always the same, and no data directory is asked. The record of the set in
    ``CATALOGUE`` has its recipe and its Bayes error.
    """
    return load_dataset("three_normal", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_two_normal(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Generate two Gaussian classes, as :func:`load_three_normal` does. As :func:`load_dataset`."""
    return load_dataset("two_normal", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_letter(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load printed letters: 20000 rows, 16 features, 26 classes. As :func:`load_dataset`."""
    return load_dataset("letter", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_image(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load two classes of image segments: 2310 rows, 18 features. As :func:`load_dataset`.

    Derived from `segment`, whichever source that comes from: the constant column is left out,
    the others are standardised over all rows (``ddof=1``), brickface, sky, foliage and path are
    class +1 (target 1), cement, window and grass class -1 (target 0). A file ``image.csv.gz`` is
    not read, so that the order of the rows is the same everywhere.

    224 rows repeat an earlier one. To keep each once:
    ``kept = np.sort(np.unique(X, axis=0, return_index=True)[1])``.
    """
    return load_dataset("image", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_heart(
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_dir: PathLike | None = None,
    download_if_missing: bool = True,
) -> Any:
    """Load Statlog heart disease: 270 rows, 13 features, 2 classes. As :func:`load_dataset`.

    Read from ``heart.csv.gz`` in the data directory, else from OpenML.
    """
    return load_dataset(
        "heart",
        return_X_y=return_X_y,
        as_frame=as_frame,
        data_dir=data_dir,
        download_if_missing=download_if_missing,
    )


def load_mnist(
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_dir: PathLike | None = None,
    download_if_missing: bool = True,
) -> Any:
    """Load MNIST: 70000 rows, 784 features, 10 classes. As :func:`load_dataset`.

    Read from ``mnist.npz`` in the data directory, else from OpenML. The first 60000 rows are the
    training set.
    """
    return load_dataset(
        "mnist",
        return_X_y=return_X_y,
        as_frame=as_frame,
        data_dir=data_dir,
        download_if_missing=download_if_missing,
    )


def load_airfoil(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load the noise of airfoils: 1503 rows, 5 features, a number. As :func:`load_dataset`."""
    return load_dataset("airfoil", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_concrete(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load the strength of concrete: 1030 rows, 8 features, a number. As :func:`load_dataset`."""
    return load_dataset("concrete", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_auto_mpg(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load the fuel consumption of cars: 392 rows, 5 features, a number. As :func:`load_dataset`."""
    return load_dataset("auto_mpg", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_real_estate(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load prices of real estate: 414 rows, 6 features, a number. As :func:`load_dataset`."""
    return load_dataset("real_estate", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_slump(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load the strength of concrete in slump tests: 103 rows, 7 features, a number. As :func:`load_dataset`."""
    return load_dataset("slump", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_wine_quality(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load grades of red wines: 1599 rows, 11 features, a number. As :func:`load_dataset`."""
    return load_dataset("wine_quality", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir)


def load_fish_toxicity(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load the toxicity of chemicals for fish: 908 rows, 6 features, a number. As :func:`load_dataset`."""
    return load_dataset(
        "fish_toxicity", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir
    )


def load_aquatic_toxicity(
    *, return_X_y: bool = False, as_frame: bool = False, data_dir: PathLike | None = None
) -> Any:
    """Load the toxicity of chemicals for water fleas: 546 rows, 8 features, a number. As :func:`load_dataset`."""
    return load_dataset(
        "aquatic_toxicity", return_X_y=return_X_y, as_frame=as_frame, data_dir=data_dir
    )


def _image_of(segment: Table) -> Table:
    """Two-class problem of the benchmark collection, from the seven classes of `segment`."""
    varies = np.ptp(segment.X, axis=0) > 0
    X = np.ascontiguousarray(segment.X[:, varies])
    positive = [CATALOGUE["segment"].class_names.index(name) for name in _IMAGE_POSITIVE]
    return replace(
        segment,
        X=(X - X.mean(axis=0)) / X.std(axis=0, ddof=1),
        y=np.isin(segment.y, positive).astype(np.intp),
        feature_names=tuple(np.array(segment.feature_names)[varies].tolist()),
        source=f"segment from {segment.source}",
    )


def _result(table: Table, record: DatasetRecord, return_X_y: bool, as_frame: bool) -> Any:
    """Return a Bunch or a pair, of arrays or pandas objects, like scikit-learn's loaders."""
    data: Any = table.X
    target: Any = table.y
    frame = None
    feature_names = list(table.feature_names)
    if as_frame:
        pd = import_optional("pandas", "cli")
        data = pd.DataFrame(table.X, columns=feature_names)
        target = pd.Series(table.y, name="target")
        frame = pd.concat([data, target], axis=1)
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=feature_names,
        target_names=np.array(record.class_names, dtype=str),
        name=record.name,
        source=table.source,
        DESCR=record.description,
    )

"""Save an estimator in a file, load it, or look at what a file holds."""

from __future__ import annotations

import json
import math
import os
import reprlib
from importlib.metadata import version
from typing import Any

from genmetric.files.archive import FORMAT_VERSION, open_archive, write_archive
from genmetric.files.classes import HOMES, name_of

#: Keys of a header that people read; the rest is for `load`.
_PUBLIC = (
    "format_version",
    "class",
    "fitted",
    "parameters",
    "n_features",
    "feature_names",
    "labels",
    "metadata",
    "genmetric_version",
    "sklearn_version",
    "arrays",
)


def save(
    estimator: Any, path: str | os.PathLike[str], *, metadata: dict[str, Any] | None = None
) -> None:
    """Save an estimator in a model file, fitted or not.

    The file is a NumPy archive of arrays behind a JSON header, with checksums of both. It holds
    no code, and :func:`load` runs none. It is written under another name in the same directory and
    renamed when complete: after an error the old file, if any, is as it was.

    Parameters
    ----------
    estimator : estimator
        Of genmetric, or a scikit-learn pipeline (or scaler, PCA, SimpleImputer,
        KNeighborsClassifier, LogisticRegression, FrozenEstimator, ...) around such. A
        GenerativeMetric in the middle of a stream goes on with `partial_fit` after loading as if
        it had never been saved.
    path : str or path-like
        Where to; no suffix is added.
    metadata : dict, default=None
        Anything that JSON can hold, for :func:`read_header`.

    Raises
    ------
    TypeError
        Where the estimator holds what no model file can, such as a function or an estimator of
        another package; the text says which attribute it is.
    OSError
        Where the file cannot be written.

    See Also
    --------
    load : Load the estimator.
    read_header : What a model file holds, without its arrays.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import genmetric
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = genmetric.GenerativeMetric().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "iris.gm"
    ...     genmetric.save(model, path)
    ...     again = genmetric.load(path)
    >>> bool((again.transform(X) == model.transform(X)).all())
    True
    """
    from genmetric.files.state import ADVICE, Encoder

    cls = estimator if isinstance(estimator, type) else type(estimator)
    name = name_of(cls)
    if name is None or not hasattr(cls, "get_params"):
        raise TypeError(
            f"Cannot save {cls.__module__}.{cls.__qualname__} in a model file. {ADVICE}"
        )
    if isinstance(estimator, type):
        raise TypeError(f"Pass an estimator, such as {name}(), not its class.")
    encoder = Encoder()
    state = encoder.encode(estimator, cls.__name__)
    header = {
        "format_version": FORMAT_VERSION,
        "genmetric_version": version("genmetric"),
        "sklearn_version": version("scikit-learn"),
        **_summary(estimator, name),
        "metadata": _check_metadata(metadata),
        "state": state,
    }
    write_archive(path, header, encoder.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Load the estimator of a model file.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`save` wrote.

    Returns
    -------
    estimator
        It predicts and transforms bit for bit as the saved one did.

    Raises
    ------
    ModelFileError
        A ValueError that names the file and says what is wrong with it: damaged, cut short, of
        another kind, of a newer version, or made to harm.
    OSError
        Where the file is missing or cannot be read.

    See Also
    --------
    save : Save an estimator.
    read_header : What a model file holds, without its arrays.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import genmetric
    >>> from genmetric.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = genmetric.GenerativeMetric().fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     _ = genmetric.save(metric, Path(folder) / "iris.gm")
    ...     again = genmetric.load(Path(folder) / "iris.gm")
    >>> bool((again.transform(X) == metric.transform(X)).all())
    True
    """
    from genmetric.files.state import Decoder

    with open_archive(path) as archive:
        node = archive.header["state"]
        if node.get("$") != "object" or node.get("class") not in HOMES:
            archive.refuse(
                f"it holds a {str(node.get('class'))[:80]}, which this genmetric does not know; it "
                f"was written by genmetric {archive.header.get('genmetric_version')!s:.40}. "
                "Update: pip install --upgrade genmetric."
            )
        return Decoder(archive.array).decode(node)


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file holds, without its arrays and without importing scikit-learn.

    Parameters
    ----------
    path : str or path-like
        A file that :func:`save` wrote.

    Returns
    -------
    dict
        ``format_version``; ``class``, such as "genmetric.GenerativeMetric"; ``fitted``;
        ``parameters``, with texts in place of what JSON cannot hold; ``n_features``,
        ``feature_names`` and ``labels``, or None; ``metadata`` as given to :func:`save`, or an
        empty dict; ``genmetric_version`` and ``sklearn_version`` that wrote it; ``arrays``, a list
        of name, dtype, shape, bytes and checksum of each.

    Raises
    ------
    ModelFileError
        A ValueError that names the file and says what is wrong with it. The arrays are not
        read, so damage in them is not seen.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import genmetric
    >>> from genmetric.files import read_header
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "new.gm"
    ...     genmetric.save(genmetric.GenerativeMetric(shrinkage=0.1), path, metadata={"by": "me"})
    ...     header = read_header(path)
    >>> header["class"], header["parameters"]["shrinkage"], header["metadata"], header["fitted"]
    ('genmetric.GenerativeMetric', 0.1, {'by': 'me'}, False)
    """
    with open_archive(path) as archive:
        return {key: archive.header[key] for key in _PUBLIC}


def _summary(estimator: Any, name: str) -> dict[str, Any]:
    """What people look for in a header."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
        fitted = True
    except NotFittedError:
        fitted = False
    names, labels = (getattr(estimator, key, None) for key in ("feature_names_in_", "classes_"))
    return {
        "class": name,
        "fitted": fitted,
        "parameters": {key: _readable(value) for key, value in estimator.get_params().items()},
        "n_features": _readable(getattr(estimator, "n_features_in_", None)),
        "feature_names": None if names is None else [str(text) for text in names],
        "labels": None if labels is None else [_readable(label) for label in list(labels)],
    }


def _readable(value: Any) -> Any:
    """A value as JSON has it, or a short text."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, list | tuple) and len(value) <= 100:
        return [_readable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value) if hasattr(value, "get_params") else reprlib.repr(value)


def _check_metadata(metadata: Any) -> dict[str, Any]:
    if metadata is None:
        return {}
    problem: object
    try:
        same = json.loads(json.dumps(metadata, allow_nan=False, default=_no_json))
        problem = "has keys that are no strings" if _keys(same) != _keys(metadata) else None
    except (TypeError, ValueError, RecursionError) as error:
        problem = error
    if not isinstance(metadata, dict) or problem is not None:
        raise TypeError(
            "metadata must be a dict of strings, finite numbers, truth values, None, lists and "
            f"dicts of them with strings as keys; {problem or f'got {type(metadata).__name__}'}."
        )
    return metadata


def _no_json(value: Any) -> Any:
    raise TypeError(f"it holds {type(value).__module__}.{type(value).__qualname__}")


def _keys(value: Any) -> list[Any]:
    """All keys of nested dicts, in order."""
    if isinstance(value, dict):
        return [key for name, item in value.items() for key in (name, *_keys(item))]
    return [key for item in value for key in _keys(item)] if isinstance(value, list | tuple) else []

"""Save an estimator in a file, load it, or read the header of a file."""

from __future__ import annotations

import json
import math
import os
import reprlib
from importlib.metadata import version
from typing import Any, Literal, overload

from genmetric._warnings import suppress_warnings
from genmetric.files._archive import FORMAT_VERSION, UNTRUSTED, open_archive, write_archive
from genmetric.files._registry import SAVABLE, name_of

#: Keys of a header for users; the others are for `load`.
_PUBLIC = (
    "format_version",
    "class",
    "fitted",
    "parameters",
    "n_features",
    "feature_names",
    "labels",
    "metadata",
    "command",
    "genmetric_version",
    "sklearn_version",
    "arrays",
)


def save(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    metadata: dict[str, Any] | None = None,
    command: dict[str, Any] | None = None,
) -> None:
    """Save an estimator, fitted or not, in a model file.

    The file is a NumPy archive of arrays with a JSON header, and checksums of both. It contains no
    code, and :func:`load` runs none. It is written under a temporary name in the same directory and
    renamed when complete: after an error an existing file is unchanged.

    Parameters
    ----------
    estimator : estimator
        Estimator of genmetric, or a scikit-learn pipeline (or ColumnTransformer, scaler, encoder,
        PCA, SimpleImputer, KNeighborsClassifier, LogisticRegression, FrozenEstimator, ...) that
        contains them. A GenerativeMetric whose training by `partial_fit` is not complete can be
        loaded and trained further.
    path : str or path-like
        The file to write; no suffix is added.
    metadata : dict, default=None
        Values that JSON can represent. :func:`read_header` returns them.
    command : dict, default=None
        Values that the ``genmetric`` command stores about a model. They are kept apart from
        `metadata`, so that the names in it are free.

    Raises
    ------
    TypeError
        If the estimator contains something that a model file cannot hold, such as a function or an
        estimator of another package; the message names the attribute.
    OSError
        If the file cannot be written.

    See Also
    --------
    load : Load the estimator.
    read_header : Read what a model file contains, without its arrays.

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
    ...     loaded = genmetric.load(path)
    >>> bool((loaded.transform(X) == model.transform(X)).all())
    True
    """
    from genmetric.files._values import ADVICE, Encoder

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
        "metadata": _check_json(metadata, "metadata"),
        "command": _check_json(command, "command"),
        "state": state,
    }
    write_archive(path, header, encoder.arrays)


@overload
def load(path: str | os.PathLike[str], *, return_header: Literal[False] = ...) -> Any: ...


@overload
def load(
    path: str | os.PathLike[str], *, return_header: Literal[True]
) -> tuple[Any, dict[str, Any]]: ...


def load(path: str | os.PathLike[str], *, return_header: bool = False) -> Any:
    """Load the estimator of a model file.

    Parameters
    ----------
    path : str or path-like
        A file written by :func:`save`.
    return_header : bool, default=False
        If True, return the header too. Both come from one opening of the file, so that they
        belong together even if the file is replaced at the same time.

    Returns
    -------
    estimator : estimator
        It predicts and transforms as the saved one did, bit for bit. Estimators of scikit-learn
        are rebuilt by the installed version of scikit-learn.
    header : dict
        As returned by :func:`read_header`; only if `return_header` is True.

    Raises
    ------
    ModelFileError
        A ValueError that names the file and its fault: damaged, incomplete, of another kind, of a
        newer version, or inconsistent.
    OSError
        If the file is missing or cannot be read.

    See Also
    --------
    save : Save an estimator.
    read_header : Read what a model file contains, without its arrays.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import genmetric
    >>> from genmetric.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = genmetric.GenerativeMetric().fit(X, y)
    >>> with TemporaryDirectory() as folder:
    ...     genmetric.save(metric, Path(folder) / "iris.gm")
    ...     loaded, header = genmetric.load(Path(folder) / "iris.gm", return_header=True)
    >>> bool((loaded.transform(X) == metric.transform(X)).all()), header["n_features"]
    (True, 4)
    """
    from genmetric.files._values import Decoder

    with open_archive(path) as archive:
        node = archive.header["state"]
        if node.get("$") != "object" or node.get("class") not in SAVABLE:
            archive.refuse(
                f"it holds a {str(node.get('class'))[:80]}, which this genmetric does not support; "
                f"it was written by genmetric {archive.header.get('genmetric_version')!s:.40}. "
                "Update: pip install --upgrade genmetric."
            )
        # Fitting again must not repeat the warnings of the first fit.
        with suppress_warnings(Warning):
            estimator = Decoder(archive.array, archive.budget).decode(node)
        if not hasattr(estimator, "get_params"):
            archive.refuse(f"it does not hold an estimator. {UNTRUSTED}")
        return (estimator, _public(archive.header)) if return_header else estimator


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what a model file contains, without its arrays and without importing scikit-learn.

    Parameters
    ----------
    path : str or path-like
        A file written by :func:`save`.

    Returns
    -------
    dict
        ``format_version``; ``class``, such as "genmetric.GenerativeMetric"; ``fitted``;
        ``parameters``, with text in place of values that JSON cannot represent; ``n_features``,
        ``feature_names`` and ``labels``, or None; ``metadata`` and ``command`` as given to
        :func:`save`, or empty dicts; ``genmetric_version`` and ``sklearn_version`` of the program
        that wrote the file; ``arrays``, a list of name, dtype, shape, bytes and checksum of each.

    Raises
    ------
    ModelFileError
        A ValueError that names the file and its fault. The arrays are not read, so damage in them
        is not detected.

    See Also
    --------
    load : Load the estimator, with its header if needed.

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
        return _public(archive.header)


def _public(header: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a header that users read, after a check of its types."""
    public = {key: header[key] for key in _PUBLIC}
    for key, kind in {"metadata": dict, "command": dict, "parameters": dict, "class": str}.items():
        if not isinstance(public[key], kind):
            raise ValueError(f"the header has an invalid value of {key}")
    names = public["feature_names"]
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise ValueError("the header has invalid names of features")
    if not isinstance(public["labels"], list | None) or not isinstance(
        public["n_features"], int | None
    ):
        raise ValueError("the header has invalid labels or numbers of features")
    return public


def _summary(estimator: Any, name: str) -> dict[str, Any]:
    """Return the part of a header that describes the estimator."""
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
    """Return a value as JSON represents it, or a short text."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, list | tuple) and len(value) <= 100:
        return [_readable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value) if hasattr(value, "get_params") else reprlib.repr(value)


def _check_json(values: Any, name: str) -> dict[str, Any]:
    """Return `values`, or raise a TypeError if JSON does not represent them exactly."""
    if values is None:
        return {}
    problem: object
    try:
        same = json.loads(json.dumps(values, allow_nan=False, default=_not_json))
        problem = "it has keys that are not strings" if _keys(same) != _keys(values) else None
    except (TypeError, ValueError, RecursionError) as error:
        problem = error
    if not isinstance(values, dict) or problem is not None:
        raise TypeError(
            f"{name} must be a dict of strings, finite numbers, booleans, None, lists and dicts of "
            f"them with strings as keys; {problem or f'got {type(values).__name__}'}."
        )
    return values


def _not_json(value: Any) -> Any:
    raise TypeError(f"it contains {type(value).__module__}.{type(value).__qualname__}")


def _keys(value: Any) -> list[Any]:
    """Return all keys of nested dicts, in order."""
    if isinstance(value, dict):
        return [key for name, item in value.items() for key in (name, *_keys(item))]
    return [key for item in value for key in _keys(item)] if isinstance(value, list | tuple) else []

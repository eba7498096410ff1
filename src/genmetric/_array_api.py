"""Arrays of other libraries, such as torch tensors, under scikit-learn's array API dispatch.

Dispatch is scikit-learn's: ``sklearn.config_context(array_api_dispatch=True)`` with the environment
variable ``SCIPY_ARRAY_API=1``. Without it, arrays of other libraries are converted to NumPy.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from sklearn import get_config

from genmetric._optional import import_optional
from genmetric._typing import AnyArray, FloatArray, IntArray

#: A dataclass with arrays.
Record = TypeVar("Record", bound=Any)


def namespace(x: Any) -> Any:
    """Return the array namespace of an array: NumPy, or that of another library.

    Functions that compute in the namespace of their arguments call it; whether other libraries are
    used at all is decided before, by :func:`dispatch_namespace`.

    Parameters
    ----------
    x : array
        Array of any library. Other objects, such as lists, belong to NumPy.

    Returns
    -------
    module
        A namespace of the array API standard.
    """
    if isinstance(x, np.ndarray | np.generic):
        return np
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    if type(x).__module__.partition(".")[0] == "torch":
        # torch follows the standard only through this package.
        return import_optional("array_api_compat", "torch").array_namespace(x)
    return np


def dispatch_namespace(X: Any) -> Any:
    """Return the array namespace that computes on `X`, or None for NumPy.

    Parameters
    ----------
    X : object
        Data as passed by the user.

    Returns
    -------
    module or None
        A namespace of the array API standard; ``None`` if dispatch is off, or if `X` is a NumPy
        array or does not follow the standard (lists, data frames).
    """
    if not get_config()["array_api_dispatch"]:
        return None
    xp = namespace(X)
    return None if xp is np else xp


def host_array(X: Any) -> Any:
    """Return arrays that scikit-learn would dispatch on as NumPy arrays, other objects as they are.

    Parameters
    ----------
    X : object
        Data as passed by the user.

    Returns
    -------
    object
        A NumPy array, in the memory of the host, if `X` is an array of another library and dispatch
        is on.
    """
    return X if dispatch_namespace(X) is None else as_numpy(X)


def as_numpy(x: Any) -> AnyArray:
    """Return an array of any library and device as a NumPy array."""
    xp = namespace(x)
    if xp is np:
        return np.asarray(x)
    if hasattr(x, "detach"):  # a torch tensor
        x = x.detach().cpu()
    elif hasattr(xp, "__array_namespace_info__"):
        x = x.to_device(xp.__array_namespace_info__().default_device())
    return np.array(np.from_dlpack(x))


def like(xp: Any, values: Any, X: Any) -> Any:
    """Return an array in the namespace, dtype and device of `X`."""
    if namespace(values) is xp:
        return xp.astype(values, X.dtype)
    # By way of a copy: arrays that cannot be written to are not accepted by torch.
    return xp.asarray(np.array(as_numpy(values), dtype=float), dtype=X.dtype, device=X.device)


def computed_like(values: FloatArray, X: Any) -> Any:
    """Return a NumPy array for computations with `X`: in its namespace and device, in float64.

    Devices without float64 get float32. With NumPy it is the array itself.
    """
    xp = namespace(X)
    if xp is np:
        return values
    dtypes = xp.__array_namespace_info__().dtypes(device=X.device, kind="real floating")
    dtype = dtypes.get("float64", xp.float32)
    return xp.asarray(np.array(values, dtype=float), dtype=dtype, device=X.device)


def record_like(record: Record, X: Any) -> Record:
    """Return a dataclass whose NumPy arrays are those of :func:`computed_like`."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    return replace(record, **{name: computed_like(value, X) for name, value in arrays.items()})


def take_rows(X: Any, rows: IntArray | slice) -> Any:
    """Return samples of an array of any library, by NumPy indices."""
    xp = namespace(X)
    if xp is np:
        return X[rows]
    if isinstance(rows, slice):
        rows = np.arange(X.shape[0])[rows]
    return xp.take(X, xp.asarray(rows, device=X.device), axis=0)


def set_entries(x: Any, columns: Any, values: Any) -> Any:
    """Return a matrix with one entry of each row replaced; NumPy arrays are changed in place.

    Parameters
    ----------
    x : array of shape (n_rows, n_columns)
        Matrix.
    columns : array of int of shape (n_rows,)
        Column of each entry.
    values : array of shape (n_rows,) or float
        New values.

    Returns
    -------
    array of shape (n_rows, n_columns)
        The matrix.
    """
    xp = namespace(x)
    if xp is np:
        x[np.arange(len(x)), columns] = values
        return x
    chosen = xp.arange(x.shape[1], device=x.device) == columns[:, None]
    return xp.where(chosen, values if isinstance(values, float) else values[:, None], x)


def as_floats(mask: Any, x: Any) -> Any:
    """Return a boolean array as zeros and ones in the dtype of `x`."""
    xp = namespace(mask)
    return mask.astype(x.dtype) if xp is np else xp.astype(mask, x.dtype)


def squared_norms(X: Any) -> Any:
    """Return the squared norm of each row, shape (n_samples,)."""
    xp = namespace(X)
    # Without the array of squares, which NumPy would allocate.
    return np.einsum("ij,ij->i", X, X) if xp is np else xp.sum(X * X, axis=1)


def float_dtypes(xp: Any) -> list[Any]:
    """Return the floating dtypes that samples keep; other dtypes become the first one."""
    return [xp.float64, xp.float32]


def unit_length(xp: Any, X: Any, *, keep_zero: bool = False) -> Any:
    """Scale the rows of `X` to unit length; see :func:`genmetric._unit_vectors.unit_vectors`.

    Parameters
    ----------
    xp : module
        Namespace of `X`.
    X : array of shape (n_samples, n_features)
        Finite samples.
    keep_zero : bool, default=False
        Whether zero vectors stay zero; otherwise they raise a ValueError.

    Returns
    -------
    array of shape (n_samples, n_features)
        Unit vectors.
    """
    largest = xp.max(xp.abs(X), axis=1, keepdims=True)
    zero = largest == 0
    if not keep_zero and bool(xp.any(zero)):
        n_zero = int(xp.sum(xp.astype(zero, xp.int64)))
        vectors = "1 zero vector" if n_zero == 1 else f"{n_zero} zero vectors"
        raise ValueError(
            f"X has {vectors}. A zero vector has no direction. Drop such samples, or use "
            "normalize=False."
        )
    scaled = X / xp.where(zero, xp.ones_like(largest), largest)
    norm = xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))
    return scaled / xp.where(zero, xp.ones_like(norm), norm)

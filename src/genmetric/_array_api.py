"""Arrays of other libraries, such as torch tensors, under scikit-learn's array API dispatch.

Dispatch is scikit-learn's: ``sklearn.config_context(array_api_dispatch=True)`` with the environment
variable ``SCIPY_ARRAY_API=1``. Without it, arrays of other libraries are converted to NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config

from genmetric._optional import import_optional
from genmetric._typing import AnyArray


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
    if not get_config()["array_api_dispatch"] or isinstance(X, np.ndarray | np.generic):
        return None
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__()
    if type(X).__module__.partition(".")[0] == "torch":
        # torch follows the standard only through this package.
        return import_optional("array_api_compat", "torch").array_namespace(X)
    return None


def like(xp: Any, values: AnyArray, X: Any) -> Any:
    """Return a NumPy array in the namespace, dtype and device of `X`."""
    # By way of a copy: arrays that cannot be written to are not accepted by torch.
    return xp.asarray(np.array(values, dtype=float), dtype=X.dtype, device=X.device)


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
        raise ValueError(
            f"X has {n_zero} zero vectors, which have no direction. Drop them, or use "
            "normalize=False."
        )
    scaled = X / xp.where(zero, xp.ones_like(largest), largest)
    norm = xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True))
    return scaled / xp.where(zero, xp.ones_like(norm), norm)

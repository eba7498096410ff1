"""Restore an estimator after a fit that fails or is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def restore_on_error(method: Method) -> Method:
    """Decorate a method so that an exception restores all attributes of its object.

    A fit sets `n_features_in_` after the validation of X and `components_` at its end. An error or
    Ctrl-C between them would leave attributes of two different fits.

    Parameters
    ----------
    method : callable
        A method that sets attributes and does not modify existing values in place.

    Returns
    -------
    callable
        The decorated method.

    Examples
    --------
    >>> from genmetric._rollback import restore_on_error
    >>> class Counter:
    ...     rows = 0
    ...
    ...     @restore_on_error
    ...     def count(self, X):
    ...         self.rows = len(X)
    ...         self.total = sum(X)
    >>> counter = Counter()
    >>> counter.count(["a"])
    Traceback (most recent call last):
    TypeError: unsupported operand type(s) for +: 'int' and 'str'
    >>> counter.rows
    0
    """

    @wraps(method)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        state = vars(self)
        before = dict(state)
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            state.clear()
            state.update(before)
            raise

    return cast(Method, whole)

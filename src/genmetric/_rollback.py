"""A fit that fails, or that someone stops, leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def all_or_nothing(method: Method) -> Method:
    """Decorate a method so that it changes its object in full or not at all.

    A fit sets `n_features_in_` when it has looked at X and `components_` at its end. An error or
    Ctrl-C between them would leave a mixture of two fits, which nobody notices.

    Parameters
    ----------
    method : callable
        A method that sets attributes and does not change the values of those there are.

    Returns
    -------
    callable
        The method; where it raises anything, all attributes are what they were before.

    Examples
    --------
    >>> from genmetric._rollback import all_or_nothing
    >>> class Counter:
    ...     rows = 0
    ...
    ...     @all_or_nothing
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

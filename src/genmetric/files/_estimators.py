"""Parts that all estimators have in a file: parameters, fitted attributes, output container."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from genmetric.files._probe import check_jobs


def output_container(estimator: Any) -> str | None:
    """Return what ``set_output`` was called with, or None.

    scikit-learn has a public way to set it and none to read it.
    """
    config = getattr(estimator, "_sklearn_output_config", None) or {}
    output = config.get("transform")
    return None if output is None else str(output)


def parts_of_estimator(estimator: Any, fitted: dict[str, Any] | None) -> dict[str, Any]:
    """Return the parts of an estimator.

    Parameters
    ----------
    estimator : estimator
        The estimator.
    fitted : dict or None
        What `fit` has learned, by name; None or empty for an estimator that is not fitted.

    Returns
    -------
    dict
        Parts by name.
    """
    parts: dict[str, Any] = {"parameters": estimator.get_params(deep=False)}
    if fitted:
        parts["fitted"] = fitted
    output = output_container(estimator)
    if output is not None:
        parts["output"] = output
    return parts


def rebuilt_estimator(
    cls: type, parts: dict[str, Any], restore: Callable[[Any, dict[str, Any]], Any]
) -> Any:
    """Return an estimator from its parts.

    Parameters
    ----------
    cls : type
        Class of the estimator.
    parts : dict
        As returned by :func:`parts_of_estimator`.
    restore : callable
        Gives the estimator, which has its parameters, what `fit` had learned. It can return
        another estimator in its place.

    Returns
    -------
    estimator
        The estimator.
    """
    if not set(parts) <= {"parameters", "fitted", "output"}:
        raise ValueError(f"{cls.__name__} has the parts {sorted(parts)}")
    parameters = parts["parameters"]
    if not isinstance(parameters, dict) or not all(isinstance(name, str) for name in parameters):
        raise ValueError(f"the parameters of {cls.__name__} have no names")
    check_jobs(parameters)
    estimator = cls(**parameters)
    if "fitted" in parts:
        fitted = parts["fitted"]
        if not isinstance(fitted, dict) or not all(isinstance(name, str) for name in fitted):
            raise ValueError(f"the fitted attributes of {cls.__name__} have no names")
        replaced = restore(estimator, fitted)
        estimator = estimator if replaced is None else replaced
    if "output" in parts:
        if parts["output"] not in ("default", "pandas", "polars"):
            raise ValueError(f"{cls.__name__} has an invalid output container")
        estimator.set_output(transform=parts["output"])
    return estimator

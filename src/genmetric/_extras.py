"""Packages that only some functions need: imported there, with the way to get them in the error."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def need(module: str, extra: str) -> Any:
    """Import an optional package, or say how to install it.

    Parameters
    ----------
    module : str
        Name of the module, with dots where it is one inside a package.
    extra : str
        The extra of genmetric that brings it.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ImportError
        Where it is not installed; the text has the pip command.

    Examples
    --------
    >>> from genmetric._extras import need
    >>> need("no_such_package", "ann")
    Traceback (most recent call last):
    ImportError: This needs the package no_such_package, which is not installed: pip install
    "genmetric[ann]".
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A package that is there and lacks one of its own is another error, and keeps its text.
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        package = module.partition(".")[0]
        raise ImportError(
            f"This needs the package {package}, which is not installed: "
            f'pip install "genmetric[{extra}]".'
        ) from error

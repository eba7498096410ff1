"""Import of optional packages, with an error that says how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_optional(module: str, extra: str) -> Any:
    """Import an optional package; raise an error that says how to install it.

    Parameters
    ----------
    module : str
        Name of the module, with dots for a submodule.
    extra : str
        Extra of genmetric that contains the package. If the feature needs several extras, all of
        them, separated by commas, so that one command installs everything.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ImportError
        If the package is not installed.

    Examples
    --------
    >>> from genmetric._optional import import_optional
    >>> import_optional("no_such_package", "ann")
    Traceback (most recent call last):
    ImportError: This needs the package no_such_package, which is not installed. Run: pip install
    "genmetric[ann]" (in a copy of the repository: pip install ".[ann]").
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # An installed package that lacks one of its own dependencies raises its own error.
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        package = module.partition(".")[0]
        raise ImportError(
            f"This needs the package {package}, which is not installed. Run: pip install "
            f'"genmetric[{extra}]" (in a copy of the repository: pip install ".[{extra}]").'
        ) from error

"""Names that look like another name, for errors about unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def near_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return the names that look like `name`, whether in upper or lower case.

    Parameters
    ----------
    name : str
        A name that is not known.
    names : iterable of str
        The known names.
    most : int, default=3
        Maximum number of names.

    Returns
    -------
    list of str
        Some of `names`, the most similar first; empty if none is similar.

    Examples
    --------
    >>> from genmetric._nearest import near_names
    >>> near_names("Standardized", ["euclidean", "standardised"])
    ['standardised']
    """
    lower = {known.lower(): known for known in reversed(list(names))}
    return [lower[found] for found in difflib.get_close_matches(name.lower(), lower, most, 0.6)]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question with the names that look like `name`, or nothing if there are none.

    Parameters
    ----------
    name : str
        A name that is not known.
    names : iterable of str
        The known names.

    Returns
    -------
    str
        A sentence, or an empty text.

    Examples
    --------
    >>> from genmetric._nearest import did_you_mean
    >>> did_you_mean("Standardized", ["euclidean", "standardised"])
    "Did you mean 'standardised'?"
    """
    near = near_names(name, names)
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else ""

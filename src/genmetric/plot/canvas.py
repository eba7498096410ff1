"""Axes to draw on: the user's, or those of a new figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmetric._extras import need
from genmetric._typing import AnyArray

#: More points than this are drawn as an image: a page of vectors would be too large.
MAX_VECTOR_POINTS = 400


def one_axes(ax: Any, figsize: tuple[float, float]) -> Any:
    """The axes given, or those of a new figure of pyplot.

    Parameters
    ----------
    ax : matplotlib.axes.Axes or None
        Where to draw.
    figsize : tuple of float
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Where to draw.
    """
    plt = need("matplotlib.pyplot", "report")
    if ax is not None:
        return ax
    return plt.subplots(figsize=figsize, layout="constrained")[1]


def two_axes(ax: Any, figsize: tuple[float, float]) -> AnyArray:
    """Two axes side by side: the two given, the space of the one given, or a new figure.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, array-like of two of them, or None
        Where to draw. The space of a single one is divided, and its own frame is hidden.
    figsize : tuple of float
        Width and height in inches of a new figure.

    Returns
    -------
    ndarray of shape (2,)
        The axes.
    """
    plt = need("matplotlib.pyplot", "report")
    if ax is None:
        return np.asarray(plt.subplots(1, 2, figsize=figsize, layout="constrained")[1])
    given = np.asarray(ax, dtype=object).ravel()
    if len(given) == 2:
        return given
    if len(given) != 1:
        raise ValueError(f"ax must be one Axes, two of them, or None; got {len(given)}.")
    whole = given[0]
    if whole.get_subplotspec() is None:
        raise ValueError("ax must be part of a grid, as those of plt.subplots are; or pass two.")
    whole.set_axis_off()
    grid = whole.get_subplotspec().subgridspec(1, 2)
    return np.array([whole.figure.add_subplot(grid[0, i]) for i in range(2)], dtype=object)

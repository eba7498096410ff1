"""Axes to draw on, those of the user or of a new figure, and tooltips of artists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from genmetric._optional import import_optional
from genmetric._typing import AnyArray
from genmetric.plot._palette import label, labels, plain_name

#: Above this number points are drawn as an image, because vector graphics would be too large.
MAX_VECTOR_POINTS = 400

#: Prefix of the ids of artists that have a tooltip.
HOVER = "hover:"


def set_hover(artist: Any, text: str) -> None:
    """Give an artist a tooltip, which the report shows; other outputs ignore it.

    Parameters
    ----------
    artist : matplotlib.artist.Artist
        The artist.
    text : str
        Text of the tooltip.
    """
    artist.set_gid(HOVER + plain_name(text))


def one_axes(ax: Any, figsize: tuple[float, float]) -> Any:
    """Return the axes given, or those of a new figure of pyplot.

    Parameters
    ----------
    ax : matplotlib.axes.Axes or None
        Axes of the user.
    figsize : tuple of float
        Width and height in inches of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Axes to draw on.
    """
    plt = import_optional("matplotlib.pyplot", "report")
    if ax is not None:
        return ax
    return plt.subplots(figsize=figsize, layout="constrained")[1]


def two_axes(ax: Any, figsize: tuple[float, float]) -> AnyArray:
    """Return two axes: the two given, two in the space of the one given, or new ones.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, array-like of two of them, or None
        Axes of the user. The space of a single one is divided, and its frame is hidden.
    figsize : tuple of float
        Width and height in inches of a new figure.

    Returns
    -------
    ndarray of shape (2,)
        Axes to draw on.
    """
    plt = import_optional("matplotlib.pyplot", "report")
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


def label_rows(
    ax: Any, names: Sequence[str], *, compact: bool = False, bold: str | None = None
) -> None:
    """Name the rows of a chart at the left, or above each row if there is little space.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Axes whose rows are at 0, 1, ... from top to bottom.
    names : sequence of str
        Names of the rows.
    compact : bool, default=False
        Whether to write names above the rows.
    bold : str, default=None
        Name to emphasise.
    """
    n = len(names)
    weights = ["bold" if name == bold else "normal" for name in names]
    ax.tick_params(axis="y", length=0)
    if compact:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylim(n - 0.4, -0.75)
        for row, (name, weight) in enumerate(zip(names, weights, strict=True)):
            ax.annotate(
                label(name, width=42),
                (0, row),
                xycoords=("axes fraction", "data"),
                xytext=(0, 8),
                textcoords="offset points",
                fontsize=9,
                fontweight=weight,
                annotation_clip=False,
            )
        return
    ax.set_yticks(range(n), labels(names, width=34))
    ax.set_ylim(n - 0.4, -0.6)
    for tick, weight in zip(ax.get_yticklabels(), weights, strict=True):
        tick.set_fontweight(weight)


def place_legend(
    ax: Any, handles: Any, names: Sequence[str], *, compact: bool, **options: Any
) -> None:
    """Place a legend to the right of the axes, or below them if there is little space.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        The axes.
    handles : sequence of artists
        Entries of the legend.
    names : sequence of str
        Names of the entries.
    compact : bool
        Whether to place the legend below the axes.
    **options : dict
        Further options of ``Axes.legend``.
    """
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.03)}
    if compact:
        place = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.17)}
        place["ncols"] = 2 if max(map(len, names), default=0) <= 12 else 1
    ax.legend(handles, names, frameon=False, **place, **options)

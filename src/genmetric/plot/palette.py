"""Colours, markers and labels of the figures, and the axes to draw on."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from genmetric._text import import_optional
from genmetric._typing import ArrayLike, IntArray

#: Okabe and Ito's colours, which colour-blind readers can tell apart; without yellow, which is hard
#: to see on white.
COLORS = (
    "#0072b2",  # blue
    "#d55e00",  # vermilion
    "#009e73",  # green
    "#cc79a7",  # purple
    "#e69f00",  # orange
    "#56b4e9",  # sky blue
    "#000000",
)

#: Markers of classes. Their number has no factor in common with that of the colours.
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")

#: Colour of what is in the background: baselines, frames, grid lines.
QUIET = "#767676"

#: Above this number of classes names are written in the figure instead of a legend.
MAX_LEGEND = 10

#: Characters that would reverse the direction of the text around them.
DIRECTIONS = dict.fromkeys(
    [0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], ""
)


def class_style(position: int) -> tuple[str, str]:
    """Return the colour and marker of a class; the first 56 classes are distinct.

    Parameters
    ----------
    position : int
        Number of the class, from 0.

    Returns
    -------
    color, marker : str
        For matplotlib.

    Examples
    --------
    >>> from genmetric.plot.palette import class_style
    >>> class_style(1)
    ('#d55e00', '^')
    """
    return COLORS[position % len(COLORS)], MARKERS[position % len(MARKERS)]


def plain_name(name: Any, *, width: int | None = None) -> str:
    r"""Return a name on one line, without control and direction characters.

    Parameters
    ----------
    name : object
        Name of a feature or a class, of any type.
    width : int, default=None
        Maximum length. Longer names keep their start and end, where names tend to differ.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> from genmetric.plot.palette import plain_name
    >>> plain_name("mean\nradius")
    'mean radius'
    >>> plain_name("temperature_of_the_outer_wall_2", width=16)
    'temperatu…wall_2'
    """
    text = "".join(_plain(character) for character in str(name).translate(DIRECTIONS))
    text = " ".join(text.split()) or "(no name)"
    if width is None or len(text) <= width:
        return text
    tail = (width - 1) * 2 // 5
    return text[: width - 1 - tail] + "…" + text[len(text) - tail :]


def _plain(character: str) -> str:
    """Replace a character that cannot be drawn."""
    category = unicodedata.category(character)
    if category in ("Cs", "Co", "Cn"):
        return "\ufffd"
    return " " if category in ("Cc", "Zl", "Zp") else character


def label(name: Any, *, width: int = 24) -> str:
    """Write a name as matplotlib text: no mathematics, and no hidden legend entry.

    Parameters
    ----------
    name : object
        Name of a feature, a class or a method.
    width : int, default=24
        Maximum length.

    Returns
    -------
    str
        The text.
    """
    text = plain_name(name, width=width).replace("$", r"\$")
    return "\u200b" + text if text.startswith("_") else text


def labels(names: Iterable[Any], *, width: int = 24) -> list[str]:
    """Apply :func:`label` to each name."""
    return [label(name, width=width) for name in names]


def new_axes(ax: Any, figsize: tuple[float, float], panels: int = 1) -> Any:
    """Return the axes given, or those of a new figure of pyplot."""
    plt = import_optional("matplotlib.pyplot", "report")
    if ax is not None:
        return ax
    return plt.subplots(1, panels, figsize=figsize, layout="constrained")[1]


def name_rows(ax: Any, names: Sequence[str], bold: str | None = None) -> None:
    """Name the rows 0, 1, ... of a chart, from top to bottom, and emphasise one of them."""
    ax.set_yticks(range(len(names)), labels(names, width=34))
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    for tick, name in zip(ax.get_yticklabels(), names, strict=True):
        tick.set_fontweight("bold" if name == bold else "normal")


def side_legend(ax: Any, handles: Any, names: Sequence[str], **options: Any) -> None:
    """Place a legend to the right of the axes."""
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.03), "frameon": False}
    ax.legend(handles, names, **place, **options)


def draw_samples(n_samples: int, max_samples: int, random_state: Any) -> IntArray:
    """Return the positions of all samples, or of a random subset, in ascending order."""
    if n_samples <= max_samples:
        return np.arange(n_samples)
    rng = check_random_state(random_state)
    return np.sort(rng.choice(n_samples, max_samples, replace=False)).astype(np.intp)


def class_codes(y: ArrayLike, names: Sequence[Any] | None) -> tuple[IntArray, tuple[str, ...]]:
    """Return the class number of each sample, in sorted order of the labels, and class names."""
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    found = [str(value) for value in classes] if names is None else [str(name) for name in names]
    if len(found) != len(classes):
        raise ValueError(f"class_names has {len(found)} names for {len(classes)} classes.")
    return codes.astype(np.intp), tuple(found)

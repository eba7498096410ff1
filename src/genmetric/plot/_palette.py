"""Colours, markers and labels of the figures.

The relative luminance of every colour is between 0.15 and 0.29, a contrast of at least 3 to 1
against both white and black, so that figures do not need a second version for dark pages.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from genmetric._optional import import_optional

#: Colours of classes and lines, in order of use.
COLORS = (
    "#3b7dd8",  # blue
    "#d9730d",  # orange
    "#2e9e5b",  # green
    "#d6455d",  # red
    "#8e62d0",  # purple
    "#1a94a0",  # teal
    "#9a6a4a",  # brown
    "#d058a8",  # pink
    "#8f8a1f",  # olive
    "#7d8590",  # grey
)

#: Markers of classes; each marker is used with all colours.
MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")

#: Colour of the background: baselines, grid lines, other samples.
QUIET = COLORS[-1]

#: Direction controls, which would reorder the text around them.
_DIRECTIONS = {*"\u200e\u200f\u061c", *map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])}


def class_style(position: int) -> tuple[str, str]:
    """Return the colour and marker of a class; the first 80 classes are distinct."""
    n_colors = len(COLORS)
    return COLORS[position % n_colors], MARKERS[position // n_colors % len(MARKERS)]


def diverging_map() -> Any:
    """Make a colour map from blue to orange in which zero is transparent.

    Returns
    -------
    matplotlib.colors.LinearSegmentedColormap
        The map.
    """
    colors = import_optional("matplotlib.colors", "report")
    low, high = (colors.to_rgb(color) for color in COLORS[:2])
    stops = [(*low, 1.0), (*low, 0.0), (*high, 0.0), (*high, 1.0)]
    # Two stops at the middle: each side fades in its own colour.
    return colors.LinearSegmentedColormap.from_list(
        "genmetric", list(zip([0.0, 0.5, 0.5, 1.0], stops, strict=True)), N=256
    )


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
    >>> from genmetric.plot._palette import plain_name
    >>> plain_name("mean\nradius")
    'mean radius'
    >>> plain_name("temperature_of_the_outer_wall_2", width=16)
    'temperatu…wall_2'
    """
    text = "".join(_plain(character) for character in str(name))
    text = " ".join(text.split()) or "(no name)"
    if width is None or len(text) <= width:
        return text
    tail = (width - 1) * 2 // 5
    return text[: width - 1 - tail] + "…" + text[len(text) - tail :]


def without_directions(text: str) -> str:
    """Remove direction controls, which would reorder the text around them.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        The text without them.
    """
    return "".join(c for c in text if c not in _DIRECTIONS) if not text.isascii() else text


def _plain(character: str) -> str:
    if character in _DIRECTIONS:
        return ""
    category = unicodedata.category(character)
    if category in ("Cs", "Co", "Cn"):
        return "\ufffd"
    return " " if category in ("Cc", "Zl", "Zp") else character


def label(name: Any, *, width: int = 24) -> str:
    """Escape a name for matplotlib: no mathematics, and no hidden legend entry."""
    text = plain_name(name, width=width).replace("$", r"\$")
    return "\u200b" + text if text.startswith("_") else text


def labels(names: Iterable[Any], *, width: int = 24) -> list[str]:
    """Apply :func:`label` to each name."""
    return [label(name, width=width) for name in names]

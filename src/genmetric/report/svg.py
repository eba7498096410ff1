"""Figures as inline SVG that follows the page: its font, its ink, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree as ET

from genmetric._extras import need
from genmetric._quiet import quiet
from genmetric.plot.palette import COLORS

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"

#: Dots an inch of what is drawn as an image inside a figure.
RASTER_DPI = 130

#: Colours of matplotlib that belong to the paper and not to the data, in words of the page.
_PAPER = {"#000000": "var(--ink)", "#ffffff": "var(--paper)"}

_HEX = re.compile(r"#[0-9a-f]{6}\b")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT = re.compile(r"font: (?:([^;]*?) )?([\d.]+px) [^;]*")
_FAMILY = re.compile(r"font-family: [^;]*;?\s*")
#: What XML cannot hold, even escaped.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


@contextmanager
def page_style() -> Iterator[None]:
    """Draw for a page: matplotlib's defaults whatever the user's, our colours, quiet axes.

    Figures are best made inside it: ``with page_style(): figure = Figure(figsize=(7, 3))``.
    """
    matplotlib = need("matplotlib", "report")
    cycler = need("cycler", "report").cycler
    with matplotlib.rc_context():
        # rcdefaults would switch the backend, too.
        matplotlib.rcParams.update(
            {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith("backend")}
        )
        matplotlib.rcParams.update(
            {
                "axes.prop_cycle": cycler(color=COLORS),
                "axes.spines.right": False,
                "axes.spines.top": False,
                "axes.titlelocation": "left",
                "axes.titlesize": 11,
                "axes.titleweight": "bold",
                "figure.constrained_layout.use": True,
                "font.size": 10,
                "legend.frameon": False,
                "savefig.transparent": True,
                "svg.fonttype": "none",
                "svg.hashsalt": "genmetric",
            }
        )
        yield


@contextmanager
def picture(
    section: Any, size: tuple[float, float], *, caption: str, alt: str, columns: int = 1
) -> Iterator[Any]:
    """Axes of a new figure in the style of the page; what was drawn is added to a section.

    Parameters
    ----------
    section : genmetric.report.Section
        Where the figure goes when the block ends.
    size : tuple of float
        Width and height in inches.
    caption, alt : str
        As :meth:`genmetric.report.Section.figure` takes them.
    columns : int, default=1
        Axes side by side.

    Yields
    ------
    matplotlib.axes.Axes or ndarray of shape (columns,)
        Where to draw.
    """
    figures = need("matplotlib.figure", "report")
    with page_style(), quiet(UserWarning, "Glyph .* missing from"):
        figure = figures.Figure(figsize=size)
        yield figure.subplots(1, columns)
        section.figure(figure, caption=caption, alt=alt)


def inline_svg(figure: Any, *, prefix: str, alt: str) -> str:
    """Draw a figure as an SVG element to put into an HTML page.

    Black becomes the ink of the page and white its paper, letters stay letters in the page's own
    font, and nothing is left of what differs from run to run.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    prefix : str
        Put before every id, so that those of several figures on one page differ.
    alt : str
        What the figure shows, for those who do not see it.

    Returns
    -------
    str
        The ``<svg>`` element.
    """
    buffer = io.BytesIO()
    # Ticks are made when they are drawn, in the style of that moment.
    # The browser brings the letters that matplotlib's own font lacks.
    with page_style(), quiet(UserWarning, "Glyph .* missing from"):
        figure.savefig(buffer, format="svg", dpi=RASTER_DPI, metadata={"Date": None})
    return _for_page(buffer.getvalue().decode("utf-8"), prefix, alt)


def _for_page(source: str, prefix: str, alt: str) -> str:
    """The SVG that matplotlib wrote, fit to stand in a page."""
    root = ET.fromstring(_NOT_XML.sub("\ufffd", source))
    for parent in root.iter():
        for child in list(parent):
            # Style sheets in an inline SVG would hold for the whole page.
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        _restyle(element, prefix)
    width = float(re.sub(r"[a-z]+$", "", root.get("width", "0")))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    # Points are 4/3 pixels; the page shrinks the figure where it is narrower.
    root.set("style", f"max-width: {width * 4 / 3:.0f}px")
    root.set("role", "img")
    root.set("aria-label", _NOT_XML.sub("\ufffd", alt))
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    return ET.tostring(root, encoding="unicode")


def _restyle(element: ET.Element, prefix: str) -> None:
    attributes = element.attrib
    if "id" in attributes:
        attributes["id"] = f"{prefix}-{attributes['id']}"
    for name, value in list(attributes.items()):
        if name.endswith("href") and value.startswith("#"):
            attributes[name] = f"#{prefix}-{value[1:]}"
        elif value.startswith("url("):
            attributes[name] = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
        elif name in ("d", "x", "y", "transform"):
            # A hundredth of a point is less than any screen or printer shows.
            attributes[name] = _LONG_NUMBER.sub(_hundredths, " ".join(value.split()))
        elif name in ("style", "fill", "stroke"):
            # matplotlib leaves out what is black: the style sheet says that this means ink.
            inked = _HEX.sub(lambda m: _PAPER.get(m.group(), m.group()), value)
            inked = _FAMILY.sub("", _FONT.sub(_without_family, inked))
            attributes[name] = _REFERENCE.sub(rf"url(#{prefix}-\1)", inked)


def _hundredths(number: re.Match[str]) -> str:
    return f"{float(number.group()):.2f}".rstrip("0").rstrip(".")


def _without_family(font: re.Match[str]) -> str:
    """The short form of a font, as matplotlib before 3.10 wrote it, less the family."""
    words = (font[1] or "").split()
    weight = [f"font-weight: {word}" for word in words if word.isdigit() or word == "bold"]
    slant = [f"font-style: {word}" for word in words if word in ("italic", "oblique")]
    return "; ".join([*weight, *slant, f"font-size: {font[2]}"])

"""Figures as inline SVG in the font and the colours of the page, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree as ET

from genmetric._optional import import_optional
from genmetric._warnings import suppress_warnings
from genmetric.plot._canvas import HOVER
from genmetric.plot._palette import COLORS

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"

#: Resolution of images inside figures, in dots per inch.
RASTER_DPI = 110

#: Colours of text and background in matplotlib, as variables of the page.
_PAPER = {"#000000": "var(--ink)", "#ffffff": "var(--paper)"}

_HEX = re.compile(r"#[0-9a-f]{6}\b")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT = re.compile(r"font: (?:([^;]*?) )?([\d.]+px) [^;]*")
_FAMILY = re.compile(r"font-family: [^;]*;?\s*")
#: Characters that are invalid in XML, even escaped.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


@contextmanager
def page_style() -> Iterator[None]:
    """Set matplotlib's parameters for figures on a page, whatever the user's are.

    Yields
    ------
    None
        Figures are best created inside the block.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from genmetric.report import page_style
    >>> with page_style():
    ...     figure = Figure(figsize=(7, 3))
    >>> figure.get_constrained_layout()
    True
    """
    matplotlib = import_optional("matplotlib", "report")
    cycler = import_optional("cycler", "report").cycler
    with matplotlib.rc_context():
        # rcdefaults would switch the backend as well.
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


#: Width in inches of figures for narrow screens: text of 8 points is about 10 pixels there.
NARROW = 3.35


def add_picture(
    section: Any,
    draw: Callable[[Any, bool], None],
    *,
    size: tuple[float, float],
    narrow_height: float,
    caption: str,
    alt: str,
    panels: int = 1,
) -> None:
    """Draw a figure twice, for wide and for narrow screens, and add both to a section.

    Parameters
    ----------
    section : genmetric.report.Section
        Section that the figure is added to.
    draw : callable
        ``draw(axes, narrow)`` draws on the axes, or on an array of them if there are several
        panels. `narrow` is True for the figure of narrow screens.
    size : tuple of float
        Width and height of the wide figure in inches.
    narrow_height : float
        Height of the narrow figure in inches.
    caption, alt : str
        As in :meth:`genmetric.report.Section.figure`.
    panels : int, default=1
        Number of panels: side by side in the wide figure, below each other in the narrow one.
    """
    figures = import_optional("matplotlib.figure", "report")
    drawn = []
    # Letters that matplotlib's font lacks are drawn by the browser.
    with page_style(), suppress_warnings(UserWarning, "Glyph .* missing from"):
        for narrow in (False, True):
            figure = figures.Figure(figsize=(NARROW, narrow_height) if narrow else size)
            grid = (panels, 1) if narrow else (1, panels)
            draw(figure.subplots(*grid), narrow)
            drawn.append(figure)
        section.figure(drawn[0], narrow=drawn[1], caption=caption, alt=alt)


def add_display(
    section: Any,
    make: Callable[[Any], Any],
    *,
    size: tuple[float, float],
    narrow_height: float,
    caption: str = "",
    alt: str,
    panels: int = 1,
) -> Any:
    """Add a Display of :mod:`genmetric.plot` to a section, for wide and for narrow screens.

    Parameters
    ----------
    section : genmetric.report.Section
        Section that the figure is added to.
    make : callable
        ``make(ax)`` creates the display and draws it. The narrow figure is drawn by its
        ``plot(compact=True)``.
    size, narrow_height, caption, alt, panels
        As in :func:`add_picture`.

    Returns
    -------
    object
        The display.
    """
    made: list[Any] = []

    def draw(axes: Any, narrow: bool) -> None:
        if narrow:
            made[0].plot(compact=True, ax=axes)
        else:
            made.append(make(axes))

    add_picture(
        section,
        draw,
        size=size,
        narrow_height=narrow_height,
        caption=caption,
        alt=alt,
        panels=panels,
    )
    return made[0]


def inline_svg(figure: Any, *, prefix: str, alt: str) -> str:
    """Render a figure as an SVG element for an HTML page.

    Black becomes the text colour of the page and white its background. Text stays text in the font
    of the page. The result is the same in every run. Artists marked by
    :func:`genmetric.plot._canvas.set_hover` get their tooltip.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    prefix : str
        Prefix of every id, which keeps the ids of several figures on one page apart.
    alt : str
        Description for readers who cannot see the figure.

    Returns
    -------
    str
        The ``<svg>`` element.
    """
    buffer = io.BytesIO()
    # Ticks are created when the figure is drawn, in the style of that moment.
    with page_style(), suppress_warnings(UserWarning, "Glyph .* missing from"):
        figure.savefig(buffer, format="svg", dpi=RASTER_DPI, metadata={"Date": None})
    return _for_page(buffer.getvalue().decode("utf-8"), prefix, alt)


def _for_page(source: str, prefix: str, alt: str) -> str:
    """Convert the SVG of matplotlib to an element for a page."""
    root = ET.fromstring(_NOT_XML.sub("\ufffd", source))
    for parent in root.iter():
        for child in list(parent):
            # A style sheet in an inline SVG applies to the whole page.
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    _add_tooltips(root)
    _drop_unused(root)
    for element in root.iter():
        _restyle(element, prefix)
    width = float(re.sub(r"[a-z]+$", "", root.get("width", "0")))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    # A point is 4/3 pixels; the page shrinks the figure if it is narrower.
    root.set("style", f"max-width: {width * 4 / 3:.0f}px")
    root.set("role", "img")
    root.set("aria-label", _NOT_XML.sub("\ufffd", alt))
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    return ET.tostring(root, encoding="unicode")


def _add_tooltips(root: ET.Element) -> None:
    """Turn the ids of marked artists into tooltips."""
    for number, element in enumerate(root.iter()):
        text = element.get("id", "")
        if text.startswith(HOVER):
            element.set("id", f"hover{number}")
            title = ET.Element(f"{{{SVG}}}title")
            title.text = text[len(HOVER) :]
            element.insert(0, title)


def _drop_unused(root: ET.Element) -> None:
    """Remove ids without references and white space, a third of the SVG of matplotlib."""
    values = [value for element in root.iter() for value in element.attrib.values()]
    used = {value[1:] for value in values if value.startswith("#")}
    used |= {name for value in values for name in _REFERENCE.findall(value)}
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        if element.tag != f"{{{SVG}}}text" and element.text and not element.text.strip():
            element.text = None
        if element.tail and not element.tail.strip():
            element.tail = None


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
            # A hundredth of a point is below the resolution of screens and printers.
            attributes[name] = _LONG_NUMBER.sub(_hundredths, " ".join(value.split()))
        elif name in ("style", "fill", "stroke"):
            # matplotlib leaves out black, which the style sheet sets to the text colour.
            inked = _HEX.sub(lambda m: _PAPER.get(m.group(), m.group()), value)
            inked = _FAMILY.sub("", _FONT.sub(_without_family, inked))
            attributes[name] = _REFERENCE.sub(rf"url(#{prefix}-\1)", inked)


def _hundredths(number: re.Match[str]) -> str:
    return f"{float(number.group()):.2f}".rstrip("0").rstrip(".")


def _without_family(font: re.Match[str]) -> str:
    """Remove the family from the short form of a font that matplotlib before 3.10 wrote."""
    words = (font[1] or "").split()
    weight = [f"font-weight: {word}" for word in words if word.isdigit() or word == "bold"]
    slant = [f"font-style: {word}" for word in words if word in ("italic", "oblique")]
    return "; ".join([*weight, *slant, f"font-size: {font[2]}"])

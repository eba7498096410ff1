"""A page of text, tables and figures as one self-contained HTML file.

The content-security policy of the page forbids everything that is loaded from elsewhere, and every
script except the one in ``page.js``, which makes tables sortable; without it the page has the same
content. Colours follow the light or dark setting of the reader's system. All text is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._atomic import replacing
from genmetric._optional import import_optional
from genmetric.plot._palette import without_directions
from genmetric.report._svg import inline_svg

#: Meanings that a cell may be given; the style sheet has a colour for each.
MARKS = ("best", "good", "bad", "quiet")


@dataclass(frozen=True)
class Cell:
    """A cell of a table with a meaning, a tooltip or a shade.

    Attributes
    ----------
    value : object
        Value to show: a number, text, or None for an empty cell.
    mark : {"best", "good", "bad", "quiet"} or None
        Meaning, which sets the colour.
    title : str
        Tooltip.
    shade : float
        Strength of the background between 0, none, and 1.
    bars : sequence of (height, title)
        Bars of a small chart above the value: heights between 0 and 1, with tooltips.

    Examples
    --------
    >>> from genmetric.report import Cell
    >>> Cell(0.17, "best", title="5 folds").mark
    'best'
    """

    value: Any
    mark: str | None = None
    title: str = ""
    shade: float = 0.0
    bars: Sequence[tuple[float, str]] = ()

    def __post_init__(self) -> None:
        if self.mark is not None and self.mark not in MARKS:
            raise ValueError(f"mark must be None or one of {MARKS}; got {self.mark!r}.")


@dataclass
class Section:
    """A part of a page with a heading: paragraphs, tables and figures in the order of addition.

    Every method returns the section, so that calls can be chained.

    Parameters
    ----------
    title : str
        Heading.
    anchor : str
        Identifier in links, unique on the page.
    blocks : list of dict
        Content, filled by the methods.

    Examples
    --------
    >>> from genmetric.report import Page
    >>> section = Page("Errors").section("Comparison")
    >>> section.paragraph("Five folds.").paragraph("Seed 0.").title
    'Comparison'
    """

    title: str
    anchor: str
    blocks: list[dict[str, Any]] = field(default_factory=list)

    def paragraph(self, text: str, *, note: bool = False) -> Section:
        """Add a paragraph.

        Parameters
        ----------
        text : str
            Text of the paragraph.
        note : bool, default=False
            Whether it is set smaller and in grey.

        Returns
        -------
        Section
            This section.
        """
        self.blocks.append({"kind": "paragraph", "text": str(text), "note": note})
        return self

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        caption: str = "",
        formats: Mapping[str, str] | None = None,
        sortable: bool = True,
        collapsed: str = "",
    ) -> Section:
        """Add a table.

        Parameters
        ----------
        header : sequence of str
            Headings of the columns.
        rows : iterable of sequences
            Cells: numbers, text, None for an empty one, or :class:`Cell`.
        caption : str, default=""
            Description of the table.
        formats : mapping of str to str, default=None
            Format of the numbers of a column by its heading, such as ``{"error": ".1%"}``. By
            default integers are written in full and other numbers with four digits.
        sortable : bool, default=True
            Whether readers can sort the rows by a click on a heading.
        collapsed : str, default=""
            If not empty, the table is hidden until the reader opens it by a click on this text.

        Returns
        -------
        Section
            This section.
        """
        header = [str(head) for head in header]
        formats = dict(formats or {})
        unknown = sorted(set(formats) - set(header))
        if unknown:
            raise ValueError(f"formats has {unknown}, but the columns are {header}.")
        cells = []
        for number, row in enumerate(rows):
            if len(row) != len(header):
                raise ValueError(
                    f"Row {number} of the table has {len(row)} cells for {len(header)} columns."
                )
            cells.append(
                [_cell(value, formats.get(head)) for value, head in zip(row, header, strict=True)]
            )
            # A short name stays in one line; a long one must not push the numbers out.
            if len(cells[-1][0]["text"]) <= 32:
                cells[-1][0]["classes"] += " short"
        heads = [
            {"text": text, "number": any(row[column]["number"] for row in cells)}
            for column, text in enumerate(header)
        ]
        self.blocks.append(
            {
                "kind": "table",
                "header": heads,
                "rows": cells,
                "caption": str(caption),
                "sortable": sortable and len(cells) > 1,
                "collapsed": str(collapsed),
                # On narrow screens the cells of a row are shown below each other, with headings.
                "stacked": sortable and len(header) > 3,
            }
        )
        return self

    def terms(self, entries: Mapping[str, str]) -> Section:
        """Add a list of terms with their explanations.

        Parameters
        ----------
        entries : mapping of str to str
            Explanation of each term.

        Returns
        -------
        Section
            This section.
        """
        self.blocks.append({"kind": "terms", "entries": list(entries.items())})
        return self

    def figure(
        self, figure: Any, *, narrow: Any = None, caption: str = "", alt: str = ""
    ) -> Section:
        """Add a figure in its current state; it may be closed or changed afterwards.

        Black is drawn in the text colour of the page and white in its background colour, so that
        the figure is readable on light and dark pages. Other colours are kept.

        Parameters
        ----------
        figure : matplotlib.figure.Figure
            The figure, preferably created inside :func:`genmetric.report.page_style`.
        narrow : matplotlib.figure.Figure, default=None
            The figure for narrow screens, about 3.3 inches wide; `figure` is shown on wide ones
            only.
        caption : str, default=""
            Text below the figure.
        alt : str, default=""
            Description for readers who cannot see the figure; the caption by default.

        Returns
        -------
        Section
            This section.
        """
        markup = import_optional("markupsafe", "report").Markup
        alt = alt or caption or self.title
        prefix = f"{self.anchor}-{sum(block['kind'] == 'figure' for block in self.blocks)}"
        drawn = [("" if narrow is None else "wide", inline_svg(figure, prefix=prefix, alt=alt))]
        if narrow is not None:
            drawn.append(("narrow", inline_svg(narrow, prefix=f"{prefix}n", alt=alt)))
        self.blocks.append(
            {
                "kind": "figure",
                "svgs": [{"width": width, "svg": markup(svg)} for width, svg in drawn],
                "caption": str(caption),
            }
        )
        return self


@dataclass(frozen=True)
class Fact:
    """A number at the top of a page with its label.

    Attributes
    ----------
    label : str
        What the value is.
    value : str
        The value, set large.
    note : str
        A few words below it.

    Examples
    --------
    >>> from genmetric.report import Fact
    >>> Fact("error rate", "3.1%", "10 folds").value
    '3.1%'
    """

    label: str
    value: str
    note: str = ""


class Page:
    """A page that is written as one HTML file.

    Parameters
    ----------
    title : str
        Title of the page.
    lead : str or sequence of str, default=()
        Opening paragraphs, set larger: the result in a sentence or two.
    facts : sequence of Fact, default=()
        Numbers below the opening paragraphs.
    command : str, default=""
        A command to run next, shown below the facts.

    Attributes
    ----------
    sections : list of Section
        The sections in order.

    Examples
    --------
    >>> from genmetric.report import Cell, Page
    >>> page = Page("Errors", lead="The learned metric is better.")
    >>> section = page.section("Comparison").paragraph("Five folds.")
    >>> section = section.table(
    ...     ["method", "error"],
    ...     [["Euclidean", 0.31], ["learned", Cell(0.17, "best")]],
    ...     formats={"error": ".0%"},
    ... )
    >>> "17%" in page.render()
    True
    """

    def __init__(
        self,
        title: str,
        *,
        lead: str | Sequence[str] = (),
        facts: Sequence[Fact] = (),
        command: str = "",
    ) -> None:
        self.title = str(title)
        self.lead = [lead] if isinstance(lead, str) else [str(text) for text in lead]
        self.facts = list(facts)
        self.command = str(command)
        self.sections: list[Section] = []
        self.footers: list[str] = []

    def section(self, title: str) -> Section:
        """Add a section and return it.

        Parameters
        ----------
        title : str
            Heading.

        Returns
        -------
        Section
            The new section, which is empty.
        """
        section = Section(str(title), f"s{len(self.sections) + 1}")
        self.sections.append(section)
        return section

    def footer(self, text: str) -> Page:
        """Add a line at the foot of the page, such as versions, seeds or the command.

        Parameters
        ----------
        text : str
            Text of the line.

        Returns
        -------
        Page
            This page.
        """
        self.footers.append(str(text))
        return self

    def render(self) -> str:
        """Render the page as HTML.

        Returns
        -------
        str
            The whole document; equal for equal contents.
        """
        from importlib.metadata import version

        markup = import_optional("markupsafe", "report").Markup
        script = _resource("page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
        html: str = _template().render(
            title=self.title,
            lead=self.lead,
            facts=self.facts,
            command=self.command,
            sections=self.sections,
            footers=self.footers,
            css=markup(_resource("page.css")),
            script=markup(script),
            digest=digest,
            version=version("genmetric"),
        )
        return html

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, completely or not at all.

        Parameters
        ----------
        path : str or path-like
            The file; an existing one is replaced.

        Returns
        -------
        pathlib.Path
            The file written.
        """
        target = Path(path)
        # Characters without an encoding, such as unpaired surrogates, become question marks.
        content = self.render().encode("utf-8", "replace")
        with replacing(target) as file:
            file.write(content)
        return target


@cache
def _template() -> Any:
    jinja2 = import_optional("jinja2", "report")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Direction controls in a name would reorder the text around it.
        finalize=lambda value: without_directions(value) if type(value) is str else value,
    )
    return environment.from_string(_resource("page.html.j2"))


def _resource(name: str) -> str:
    return files("genmetric.report").joinpath(name).read_text("utf-8")


def _cell(value: Any, spec: str | None) -> dict[str, Any]:
    """Return the text of a cell, its value for sorting and its classes in the style sheet."""
    cell = value if isinstance(value, Cell) else Cell(value)
    content = cell.value
    number = isinstance(content, Real) and not isinstance(content, bool | np.bool_)
    if content is None:
        text = ""
    elif not number:
        text = str(content)
    elif not np.isfinite(float(content)):
        text = "–"
    elif spec is not None:
        text = format(content, spec)
    else:
        text = format(int(content), ",") if isinstance(content, Integral) else f"{content:.4g}"
    # A minus sign is as wide as a digit, a hyphen is not.
    text = text.replace("-", "\u2212") if number else text
    classes = " ".join([*(["number"] if number else []), *([cell.mark] if cell.mark else [])])
    return {
        "text": text,
        "number": number,
        "sort": f"{float(content):.12g}" if number and np.isfinite(float(content)) else "",
        "classes": classes,
        "title": cell.title,
        "shade": min(9, round(9 * cell.shade)),
        "bars": list(cell.bars),
    }

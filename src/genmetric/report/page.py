"""A page of text, tables and figures as one HTML file that needs nothing else.

No script, nothing loaded from elsewhere (the page forbids itself both), light or dark as the
reader's system is, fit to print. Whatever text comes in is escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from genmetric._extras import need
from genmetric.files.atomic import replacing
from genmetric.report.svg import inline_svg

#: Meanings that a cell may be given; the style sheet has a colour for each.
MARKS = ("best", "good", "bad", "quiet")


@dataclass(frozen=True)
class Cell:
    """A cell of a table with more to it than its value.

    Attributes
    ----------
    value : object
        What it shows: a number, text, or None for an empty cell.
    mark : {"best", "good", "bad", "quiet"} or None
        What it means.
    title : str
        Shown when the pointer rests on it.
    """

    value: Any
    mark: str | None = None
    title: str = ""

    def __post_init__(self) -> None:
        if self.mark is not None and self.mark not in MARKS:
            raise ValueError(f"mark must be None or one of {MARKS}; got {self.mark!r}.")


@dataclass
class Section:
    """A headed part of a page: paragraphs, tables and figures in the order they are added.

    Every method returns the section, so that calls can follow each other.
    """

    title: str
    anchor: str
    blocks: list[dict[str, Any]] = field(default_factory=list)

    def paragraph(self, text: str, *, note: bool = False) -> Section:
        """Add a paragraph.

        Parameters
        ----------
        text : str
            Its text.
        note : bool, default=False
            Whether it is an aside, set smaller and quieter.

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
    ) -> Section:
        """Add a table.

        Parameters
        ----------
        header : sequence of str
            Heads of the columns.
        rows : iterable of sequences
            Cells: numbers, text, None for an empty one, or :class:`Cell`.
        caption : str, default=""
            What the table shows.
        formats : mapping of str to str, default=None
            Format of the numbers below a head, such as ``{"error": ".1%"}``. Without one, whole
            numbers are written whole and others with four digits.

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
            # A short name stays in one line; a long one may not push the figures out.
            if len(cells[-1][0]["text"]) <= 32:
                cells[-1][0]["classes"] += " short"
        heads = [
            {"text": text, "number": any(row[column]["number"] for row in cells)}
            for column, text in enumerate(header)
        ]
        self.blocks.append(
            {"kind": "table", "header": heads, "rows": cells, "caption": str(caption)}
        )
        return self

    def figure(self, figure: Any, *, caption: str = "", alt: str = "") -> Section:
        """Add a figure as it is now; it may be closed or changed afterwards.

        Black is drawn in the page's ink and white in its paper, so that it reads on light and
        dark pages; other colours stay as they are.

        Parameters
        ----------
        figure : matplotlib.figure.Figure
            The figure, best made inside :func:`genmetric.report.page_style`.
        caption : str, default=""
            What to see in it.
        alt : str, default=""
            What it shows, for those who cannot see it; the caption by default.

        Returns
        -------
        Section
            This section.
        """
        markup = need("markupsafe", "report").Markup
        count = sum(block["kind"] == "figure" for block in self.blocks)
        prefix = f"{self.anchor}-{count}"
        svg = inline_svg(figure, prefix=prefix, alt=alt or caption or self.title)
        self.blocks.append({"kind": "figure", "svg": markup(svg), "caption": str(caption)})
        return self


class Page:
    """A page that is written as one HTML file.

    Parameters
    ----------
    title : str
        Its title.
    lead : str or sequence of str, default=()
        Opening paragraphs, set larger: what the page says in a sentence or two.

    Attributes
    ----------
    sections : list of Section
        The parts, in order.

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

    def __init__(self, title: str, *, lead: str | Sequence[str] = ()) -> None:
        self.title = str(title)
        self.lead = [lead] if isinstance(lead, str) else [str(text) for text in lead]
        self.sections: list[Section] = []
        self.footers: list[str] = []

    def section(self, title: str) -> Section:
        """Add a section and return it.

        Parameters
        ----------
        title : str
            Its heading.

        Returns
        -------
        Section
            The new section, to be filled.
        """
        section = Section(str(title), f"s{len(self.sections) + 1}")
        self.sections.append(section)
        return section

    def footer(self, text: str) -> Page:
        """Add a line at the foot of the page: versions, seeds, how to repeat it.

        Parameters
        ----------
        text : str
            The line.

        Returns
        -------
        Page
            This page.
        """
        self.footers.append(str(text))
        return self

    def render(self) -> str:
        """The page as HTML.

        Returns
        -------
        str
            The whole document; the same for the same contents.
        """
        from importlib.metadata import version

        markup = need("markupsafe", "report").Markup
        html: str = _template().render(
            title=self.title,
            lead=self.lead,
            sections=self.sections,
            footers=self.footers,
            css=markup(files("genmetric.report").joinpath("page.css").read_text("utf-8")),
            version=version("genmetric"),
        )
        return html

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, whole or not at all.

        Parameters
        ----------
        path : str or path-like
            The file; one that is there is replaced.

        Returns
        -------
        pathlib.Path
            The file written.
        """
        target = Path(path)
        # What no encoding has, such as half of a pair of surrogates, is shown as a question mark.
        content = self.render().encode("utf-8", "replace")
        with replacing(target) as file:
            file.write(content)
        return target


@cache
def _template() -> Any:
    jinja2 = need("jinja2", "report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files("genmetric.report").joinpath("page.html.j2").read_text("utf-8")
    return environment.from_string(source)


def _cell(value: Any, spec: str | None) -> dict[str, Any]:
    """Text of a cell, whether it is a number, and its classes in the style sheet."""
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
    # A minus sign is as wide as a digit; a hyphen is not.
    text = text.replace("-", "\u2212") if number else text
    classes = " ".join([*(["number"] if number else []), *([cell.mark] if cell.mark else [])])
    return {"text": text, "number": number, "classes": classes, "title": cell.title}

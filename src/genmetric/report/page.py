"""A page of text, tables and figures as one self-contained HTML file.

The content-security policy of the page forbids everything that is loaded from elsewhere, and every
script except the one in ``page.js``, which makes tables sortable; without it the page has the same
content. Colours follow the light or dark setting of the reader's system. All text is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from genmetric._text import import_optional
from genmetric.comparison.result import value_text
from genmetric.files import write_atomically
from genmetric.plot.palette import COLORS, DIRECTIONS, plain_name


class Cell(NamedTuple):
    """A cell of a table with a meaning.

    Parameters
    ----------
    value : object
        Value to show: a number, text, or None for an empty cell.
    mark : {"", "best", "good", "bad", "quiet"}, default=""
        Meaning, which sets the colour.
    shade : float, default=0.0
        Strength of the background between 0, none, and 1.
    text : str, default=""
        Text to show instead of a number, which the table is then sorted by.

    Examples
    --------
    >>> from genmetric.report import Cell
    >>> Cell(0.17, "best").mark
    'best'
    """

    value: Any
    mark: str = ""
    shade: float = 0.0
    text: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Parameters
    ----------
    columns : sequence of str
        Headings.
    rows : sequence of sequences
        Cells: numbers, text, None for an empty one, or :class:`Cell`.
    caption : str, default=""
        Text above the table.
    note : str, default=""
        Small text below the table.
    formats : mapping of str to str, default={}
        Format of the numbers of a column by its heading, such as ``{"error": ".1%"}``. By default
        integers are written in full and other numbers with four digits.
    folded : str, default=""
        If not empty, the table is hidden until the reader opens it by a click on this text.
    sortable : bool, default=True
        Whether readers can sort the rows by a click on a heading. On narrow screens the cells of a
        sortable row are below each other.

    Examples
    --------
    >>> from genmetric.report import Cell, Table
    >>> table = Table(["method", "error"], [["Euclidean", 0.31], ["learned", Cell(0.17, "best")]])
    >>> len(table.rows)
    2
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    note: str = ""
    formats: Mapping[str, str] = field(default_factory=dict)
    folded: str = ""
    sortable: bool = True


@dataclass(frozen=True)
class Picture:
    """A figure of a page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure, preferably created inside :func:`genmetric.report.page_style`. It is embedded as
        SVG and not closed.
    caption : str, default=""
        Text below the figure.
    alt : str, default=""
        Description for readers who cannot see the figure; the caption by default.

    Examples
    --------
    >>> from genmetric.report import Picture
    >>> Picture(None, "Errors").caption
    'Errors'
    """

    figure: Any
    caption: str = ""
    alt: str = ""


def write_page(
    path: str | os.PathLike[str],
    title: str,
    sections: Sequence[tuple[str, Sequence[str | Table | Picture]]],
    *,
    lead: str = "",
    facts: Sequence[tuple[str, str, str]] = (),
    command: str = "",
    warnings: Sequence[str] = (),
    footers: Sequence[str] = (),
) -> Path:
    """Write a page of text, tables and figures as one self-contained HTML file.

    All text is escaped. Equal arguments give the same file, byte for byte.

    Parameters
    ----------
    path : str or path-like
        The file to write, completely or not at all; an existing file is replaced.
    title : str
        Title of the page.
    sections : sequence of (heading, blocks)
        A block is a paragraph of plain text, a :class:`Table` or a :class:`Picture`.
    lead : str, default=""
        The result in a sentence or two, set larger at the top.
    facts : sequence of (label, value, note), default=()
        Numbers below the lead.
    command : str, default=""
        A command to run next, shown below the facts.
    warnings : sequence of str, default=()
        Sentences above the lead that say what makes the result doubtful.
    footers : sequence of str, default=()
        Lines at the foot of the page, such as versions, seeds or the command that was run.

    Returns
    -------
    pathlib.Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from genmetric.report import Cell, Table, write_page
    >>> table = Table(["method", "error"], [["Euclidean", 0.31], ["learned", Cell(0.17, "best")]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_page(Path(folder) / "page.html", "Errors", [("Comparison", [table])])
    ...     "0.17" in path.read_text()
    True
    """
    head = {"lead": lead, "facts": facts, "command": command, "footers": footers}
    return write_template(
        path, "page.html.j2", title=title, sections=sections, warnings=warnings, **head
    )


def write_template(path: str | os.PathLike[str], template: str, **data: Any) -> Path:
    """Write what a template makes of its data, completely or not at all."""
    script = _resource("page.js")
    # The page opens with its policy, which allows this script and no other.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {"css": _resource("page.css"), "script": script, "digest": digest, "headings": []}
    parts["version"] = version("genmetric")
    html: str = _environment().get_template(template).render(parts | data)
    with write_atomically(Path(path)) as file:
        # Unpaired surrogates have no encoding.
        file.write(html.encode("utf-8", "replace"))
    return Path(path)


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
    own = {
        "axes.prop_cycle": cycler(color=COLORS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "savefig.transparent": True,
        # The browser draws the text, in any alphabet.
        "svg.fonttype": "none",
        "svg.hashsalt": "genmetric",
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        # rcdefaults would switch the backend as well.
        default = matplotlib.rcParamsDefault.items()
        matplotlib.rcParams.update({k: v for k, v in default if not k.startswith("backend")})
        matplotlib.rcParams.update(own)
        yield


def _block(block: str | Table | Picture) -> dict[str, Any]:
    """Return what the template shows of a block."""
    if isinstance(block, Picture):
        alt = block.alt or block.caption
        return {"kind": "picture", "src": _svg(block.figure), "alt": alt, "caption": block.caption}
    if not isinstance(block, Table):
        return {"kind": "paragraph", "text": str(block)}
    columns = [str(column) for column in block.columns]
    unknown = sorted(set(block.formats) - set(columns))
    if unknown:
        raise ValueError(f"formats has {unknown}, but the columns are {columns}.")
    for number, row in enumerate(block.rows):
        if len(row) != len(columns):
            raise ValueError(f"Row {number} has {len(row)} cells for {len(columns)} columns.")
    formats = [block.formats.get(column) for column in columns]
    rows = [
        [_cell(value, spec) for value, spec in zip(row, formats, strict=True)] for row in block.rows
    ]
    numeric = [any("number" in row[i]["classes"] for row in rows) for i in range(len(columns))]
    return {
        "kind": "table",
        "table": block,
        "columns": list(zip(columns, numeric, strict=True)),
        "rows": rows,
        "sortable": block.sortable and len(rows) > 1,
        "stacked": block.sortable and len(columns) > 3,
    }


def _cell(value: Any, spec: str | None) -> dict[str, Any]:
    """Return the text of a cell, its value for sorting and its classes in the style sheet."""
    cell = value if isinstance(value, Cell) else Cell(value)
    content = cell.value
    if isinstance(content, bool) or not isinstance(content, Real):
        text = "" if content is None else str(content)
        return {"text": text, "sort": "", "classes": cell.mark, "shade": 0.0}
    number = float(content)
    text = cell.text or "–"
    if np.isfinite(number) and not cell.text:
        spec = spec or (",d" if isinstance(content, Integral) else ".4g")
        # A minus sign is as wide as a digit, a hyphen is not.
        text = format(content, spec).replace("-", "\u2212")
    classes = f"number {cell.mark}".strip()
    shade = f"{55 * cell.shade:.0f}" if cell.shade else ""
    return {"text": text, "sort": f"{number:.12g}", "classes": classes, "shade": shade}


def _svg(figure: Any) -> str:
    """Return a figure as SVG in a data: address, where it cannot run scripts or load files."""
    drawn = io.BytesIO()
    with page_style():
        figure.savefig(drawn, format="svg", metadata={"Date": None}, dpi=110)
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.getvalue()).decode()}"


@cache
def _environment() -> Any:
    """Return jinja2's environment; it escapes all but the style sheet and the script."""
    jinja2 = import_optional("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_resource),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Direction controls in a name would reorder the text around it.
        finalize=lambda value: value.translate(DIRECTIONS) if type(value) is str else value,
    )
    environment.filters |= {"block": _block, "text": text}
    environment.globals |= {"Table": Table, "Picture": Picture}
    return environment


def text(value: Any, _: Any = None) -> str:
    """Write a value: numbers with four digits and without an exponent if they are short."""
    if isinstance(value, float):  # also numpy's float64
        return value_text(value)
    return plain_name(value, width=40)


def _resource(name: str) -> str:
    """Read a file of this package."""
    return files("genmetric.report").joinpath(name).read_text("utf-8")

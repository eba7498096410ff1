"""One self-contained HTML file with the comparison of metrics on a table, and what was learned."""

from genmetric.report.page import Cell, Page, Section
from genmetric.report.report import write_report
from genmetric.report.svg import page_style

__all__ = ["Cell", "Page", "Section", "page_style", "write_report"]

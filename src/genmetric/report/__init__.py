"""Reports: one self-contained HTML file about a comparison, a summary for notebooks, and pages."""

from genmetric.report._page import Cell, Fact, Page, Section
from genmetric.report._report import write_report
from genmetric.report._summary import summary_html
from genmetric.report._svg import page_style

__all__ = ["Cell", "Fact", "Page", "Section", "page_style", "summary_html", "write_report"]

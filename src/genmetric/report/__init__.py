"""Reports: one self-contained HTML file about a comparison, or with any tables and figures.

They require matplotlib and jinja2 (extra ``report``).
"""

from genmetric.report.page import Cell, Picture, Table, page_style, write_page
from genmetric.report.report import write_report

__all__ = ["Cell", "Picture", "Table", "page_style", "write_page", "write_report"]

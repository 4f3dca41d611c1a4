"""Reports: one HTML file that explains a finished run; measured first, then drawn and written."""

from sparsemble.reports.facts import Facts, collect
from sparsemble.reports.page import page, write_report

__all__ = ["Facts", "collect", "page", "write_report"]

"""Reports: what the paper shows of any set of models, as tables and as a page."""

from tiebe.reports.page import report

__all__ = ["report"]

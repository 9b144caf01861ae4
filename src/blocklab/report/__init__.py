"""The report: one self-contained page, its CSV and JSON twins, a table for the terminal, charts as pictures."""

from __future__ import annotations

from blocklab.report.build import render
from blocklab.report.drill_table import drill_table
from blocklab.report.picture import export_png
from blocklab.report.terminal import terminal_table

__all__ = ["drill_table", "export_png", "render", "terminal_table"]

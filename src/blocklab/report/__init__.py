"""The report: one self-contained page, its CSV and JSON twins, and a table for the terminal."""

from __future__ import annotations

from blocklab.report.build import render
from blocklab.report.terminal import terminal_table

__all__ = ["render", "terminal_table"]

"""The report: one self-contained page, its CSV and JSON twins, a table for the terminal."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blocklab.report.build import both_views, laid_out, render
    from blocklab.report.drill_lines import drill_table
    from blocklab.report.files import as_json
    from blocklab.report.terminal import terminal_table

__all__ = ["as_json", "both_views", "drill_table", "laid_out", "render", "terminal_table"]

_MODULES = {
    "as_json": "files", "both_views": "build", "laid_out": "build", "render": "build",
    "drill_table": "drill_lines", "terminal_table": "terminal",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # The charts' library takes a second to import, which a command that draws nothing should not have to wait for.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

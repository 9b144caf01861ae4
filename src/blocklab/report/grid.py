"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich import box
from rich.console import JustifyMethod
from rich.table import Table

from blocklab.lang import term
from blocklab.model.terminal import Text


def grid(
    titles: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    left: Collection[str] = (),
    whole: Collection[str] = (),
    title: str = "",
    ours: bool = True,
) -> Table:
    """A table under a line; the columns with numbers stand to the right, those in ``left`` do not. Long texts are
    folded, but for the columns in ``whole``. ``ours``: titles are words of blocklab, not a study's names."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False, title=title or None, title_justify="left")
    for number, name in enumerate(titles):
        side: JustifyMethod = "left" if not number or name in left else "right"
        table.add_column(
            Text(term(name) if ours else name, justify=side), justify=side, overflow="fold", no_wrap=name in whole
        )
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table

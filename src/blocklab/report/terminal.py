"""The answer and the main figures for a terminal of 100 columns."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.compare import Item, items
from blocklab.stats.expect import Verdict
from blocklab.stats.findings import findings
from blocklab.stats.format import percent, plus_minus
from blocklab.store.folder import StudyFolder

_MARKS = {"ok": ("✓ ok", "green"), "failed": ("✗ failed", "red"), "unknown": ("? unknown", "yellow")}


def terminal_table(folder: StudyFolder) -> RenderableType:
    """The lead, the headline figures by stack, the expectations and the caveats. Raises ``StoreError``."""
    analysis = analyse(folder)
    found = findings(analysis)
    parts: list[RenderableType] = [Text(analysis.study.question, style="bold"), Text(found.lead), Text()]
    compared = items(analysis)
    if compared:
        parts.append(_figures(analysis, compared))
    if analysis.verdicts:
        parts.append(_verdicts(analysis.verdicts))
    for gap in analysis.gaps:
        parts.append(Text(f"{gap.stack}/{gap.workload} is {gap.status}: {gap.error}", style="yellow"))
        if gap.hint:
            parts.append(Padding(Text(f"hint: {gap.hint}"), (0, 0, 0, 2)))
    parts += [Text(caveat, style="dim") for caveat in found.caveats]
    return Group(*parts)


def _figures(analysis: Analysis, compared: tuple[Item, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    table.add_column("", overflow="fold")
    for stack in analysis.study.stacks:
        table.add_column(Text(stack), justify="right", overflow="fold")
    for item in compared:
        cells: list[Text] = [Text(item.label)]
        for stack in analysis.study.stacks:
            row, share = item.figures.get(stack), item.shares.get(stack)
            text = Text("–" if row is None else plus_minus(row.value, row.half, row.unit, row.metric))
            if share is not None:
                text.append(f"  {percent(share.value):>5}", style="bold")
            cells.append(text)
        table.add_row(*cells)
    return table


def _verdicts(verdicts: tuple[Verdict, ...]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for verdict in verdicts:
        mark, style = _MARKS[verdict.status]
        text = Text(f"{verdict.claim.says}: " if verdict.claim.says else "")
        text.append(verdict.sentence.removesuffix("."))
        text.append(f" (expected {verdict.expected})", style="dim")
        table.add_row(Text(mark, style=style), text)
    table.add_row("", "")
    return table

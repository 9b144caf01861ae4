"""The answer and the main figures for a terminal of 100 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from blocklab.charts.sweep import sweep_plan
from blocklab.report.drill_table import drill_parts
from blocklab.report.layers import NONE, LayerGroup, LayerRow, layer_groups
from blocklab.report.stops import stops_line
from blocklab.stats.analysis import Analysis, Gap, analyse
from blocklab.stats.compare import Family, Item, families, plain_items
from blocklab.stats.expect import Verdict
from blocklab.stats.figures import Row
from blocklab.stats.findings import findings
from blocklab.stats.floor import LIMITED
from blocklab.stats.format import number, percent, plus_minus, scale
from blocklab.stats.grid import label_of
from blocklab.stats.ratio import verdict as verdict_of
from blocklab.store.folder import StudyFolder

# So many columns of figures fit a terminal of 100 characters.
MOST_COLUMNS = 7
# Of more comparisons than this only those with the smallest shares.
MOST_ROWS = 40
FEWER_ROWS = 20
_MARK = {"differs": "", "no difference shown": " =", "too noisy to say": " ?"}
_KEY = "=: no difference shown; ?: too noisy, or too short for an interval, to say whether it differs."
_LIMITED = "†"
_LIMITED_KEY = f"{_LIMITED}: {LIMITED} (near its floor, or its CPU was busy): the layout may do better."
# More cells and phases than this are for the page.
MOST_LAYERS = 20
_MARKS = {"ok": ("✓ ok", "green"), "failed": ("✗ failed", "red"), "unknown": ("? unknown", "yellow")}


def terminal_table(folder: StudyFolder, analysis: Analysis | None = None) -> RenderableType:
    """The lead, the headline figures by stack, the expectations and the caveats. Raises ``StoreError``.

    ``analysis``: that of the folder, where it is at hand already.
    """
    analysis = analysis or analyse(folder)
    found = findings(analysis)
    parts: list[RenderableType] = [Text(analysis.study.question, style="bold"), Text(found.lead), Text()]
    for family in families(analysis):
        parts += _sweep(analysis, family)
    compared = plain_items(analysis)
    if len(compared) > MOST_ROWS:
        ranked = sorted(compared, key=lambda item: min((each.value for each in item.shares.values()), default=1.0))
        parts.append(Text(f"The {FEWER_ROWS} of {len(compared)} figures with the smallest shares:"))
        compared = tuple(ranked[:FEWER_ROWS])
    if compared:
        parts.append(_figures(analysis, compared))
    bases = analysis.grid.baselines
    shares = [row.relative for row in analysis.rows if row.load and row.relative and row.stack not in bases]
    if any(verdict_of(share) != "differs" for share in shares):
        parts.append(Text(_KEY, style="dim"))
    if analysis.limits:
        parts.append(Text(_LIMITED_KEY, style="dim"))
    parts += _layers(layer_groups(analysis, most=1))
    parts += drill_parts(analysis)
    if analysis.verdicts:
        parts.append(_verdicts(analysis.verdicts))
    parts += _gaps(analysis.gaps)
    if said := stops_line(analysis):
        parts.append(Text(said, style="dim"))
    parts += [Text(caveat, style="dim") for caveat in found.caveats]
    return Group(*parts)


def _gaps(gaps: Sequence[Gap]) -> Iterator[RenderableType]:
    """Each error once: what fails in one cell of a sweep mostly fails in many, with other times and numbers."""
    alike: dict[tuple[str, str], list[Gap]] = {}
    for gap in gaps:
        alike.setdefault((gap.status, re.sub(r"\d+", "", gap.error.replace(gap.stack, ""))), []).append(gap)
    for first, *others in alike.values():
        more = f" (and {len(others)} more cells alike)" if others else ""
        yield Text(f"{first.stack}/{first.workload} is {first.status}{more}: {first.error}", style="yellow")
        if first.hint:
            yield Padding(Text(f"hint: {first.hint}"), (0, 0, 0, 2))


def _figures(analysis: Analysis, compared: tuple[Item, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    table.add_column("", overflow="fold")
    stacks = [stack for stack in analysis.stacks if any(stack in item.figures for item in compared)]
    stacks = stacks if analysis.grid.factors else list(analysis.stacks)
    for stack in stacks:
        table.add_column(Text(stack), justify="right", overflow="fold")
    for item in compared:
        cells: list[Text] = [Text(item.label)]
        for stack in stacks:
            row, share = item.figures.get(stack), item.shares.get(stack)
            text = Text("–" if row is None else plus_minus(row.value, row.half, row.unit, row.metric))
            text.append(_LIMITED if analysis.limit(row) else "")
            if share is not None:
                text.append(f"  {percent(share.value, share.half):>5}{_MARK[verdict_of(share)]}", style="bold")
            cells.append(text)
        table.add_row(*cells)
    return table


def _sweep(analysis: Analysis, family: Family) -> Iterator[RenderableType]:
    """As the charts: a table for each panel, a row for each level along the axis, a column for each line."""
    made = sweep_plan(analysis, family)
    unit = scale(family.rows[0].unit, family.rows[0].metric)[1]
    tables: dict[str, dict[str, dict[str, Row]]] = {}
    for levels in dict.fromkeys(label_of("", _of(row, made.panels)) for row in family.rows):
        columns = tables.setdefault(levels, {})
        for row in family.rows:
            if label_of("", _of(row, made.panels)) == levels:
                name = label_of(row.stack_name, _of(row, made.lines))
                columns.setdefault(name, {})[row.levels.get(made.x.name, "")] = row
    for levels, columns in tables.items():
        yield Text(f"{family.label}{levels}, {unit} (share of {analysis.baseline})", style="bold")
        names = list(columns)
        for first in range(0, len(names), MOST_COLUMNS):
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
            table.add_column(Text(made.x.name))
            some = names[first : first + MOST_COLUMNS]
            for name in some:
                # A level stands in a line of its own: the names are long, and the figures short.
                table.add_column(Text(name.replace(" ", "\n")), justify="right", overflow="fold")
            for level in made.x.levels:
                table.add_row(Text(level), *(_short(analysis, columns[name], level) for name in some))
            yield table


def _of(row: Row, names: Sequence[str]) -> dict[str, str]:
    return {name: row.levels[name] for name in names if name in row.levels}


def _short(analysis: Analysis, column: Mapping[str, Row], level: str) -> Text:
    # The factor may make no difference to the column's stack.
    row = column.get(level, column.get(""))
    if row is None:
        return Text("–")
    factor, _ = scale(row.unit, row.metric)
    text = Text(number(row.value * factor) + (_LIMITED if analysis.limit(row) else ""))
    if row.relative is not None and row.relative.value != 1:
        text.append(f" {percent(row.relative.value):>5}{_MARK[verdict_of(row.relative)]}", style="bold")
    return text


def _layers(groups: Sequence[LayerGroup]) -> Iterator[RenderableType]:
    """What each layer made of a byte and of a transaction, where that is not too much for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for title in ("what each layer did", "stack", "written per byte above", "flushes a transaction"):
        table.add_column(title, overflow="fold")
    for group in groups:
        cells: dict[str, list[LayerRow]] = {}
        for row in group.rows:
            cells.setdefault(row.label, []).append(row)
        for stack, rows in cells.items():
            ratios, flushes = (
                ", ".join(f"{row.short} {told}" for row, told in each if told != NONE)
                for each in ([(r, r.per_byte) for r in rows], [(r, r.per_transaction) for r in rows])
            )
            if ratios or flushes:
                table.add_row(Text(group.title), Text(stack), Text(ratios), Text(flushes))
    if 0 < table.row_count <= MOST_LAYERS:
        yield table


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

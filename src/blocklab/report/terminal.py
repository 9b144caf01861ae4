"""The answer and the main values for a terminal of 100 columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from blocklab.charts.sweep import Sweep
from blocklab.lang import term
from blocklab.model.terminal import Text
from blocklab.predict.cells import analysed
from blocklab.report.carried import carried_table
from blocklab.report.drill_lines import drill_parts
from blocklab.report.grid import grid
from blocklab.report.layers import NONE, LayerGroup, LayerRow, layer_groups
from blocklab.report.machines import machine_parts
from blocklab.report.predictions import prediction_parts
from blocklab.report.stops import stops_line
from blocklab.report.sweep_table import LIMITED_MARK, MARKS, sweep_tables, table_sweeps
from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import Item, plain_items, verb
from blocklab.stats.expect import Verdict
from blocklab.stats.findings import findings
from blocklab.stats.floor import LIMITED
from blocklab.stats.format import percent, plus_minus
from blocklab.stats.ratio import verdict as verdict_of
from blocklab.stats.reading import Gap
from blocklab.stats.sentences import answer
from blocklab.store.folder import StudyFolder

# Of more comparisons than this only those that lose most.
MOST_ROWS, FEWER_ROWS = 40, 20
_LIMITED_KEY = f"{LIMITED_MARK}: {LIMITED} (near its floor, or its CPU was busy): the layout may do better."
# More cells and phases than this are for the page.
MOST_LAYERS = 20
_MARKS = {"ok": ("✓ ok", "green"), "failed": ("✗ failed", "red"), "unknown": ("? unknown", "yellow")}


def terminal_table(folder: StudyFolder, analysis: Analysis | None = None) -> RenderableType:
    """The lead, the headline values as the charts are laid out, the expectations and the caveats. Raises
    ``StoreError``.

    ``analysis``: that of the folder, where it is at hand already.
    """
    analysis = analysis or analysed(folder)
    found = answer(findings(analysis))
    clock = [Text(analysis.clock, style="yellow")] if analysis.clock else []
    parts: list[RenderableType] = [*clock, Text(analysis.study.question, style="bold"), Text(found.lead), Text()]
    if (carried := carried_table(analysis)) is not None:
        parts.append(carried)
    swept = table_sweeps(analysis)
    for sweep in swept:
        parts += sweep_tables(analysis, sweep)
    compared = _compared_otherwise(analysis, swept)
    if len(compared) > MOST_ROWS:
        word = term("smallest" if verb(compared) == "keeps" else "largest")
        parts.append(Text(f"The {FEWER_ROWS} of {len(compared)} values with the {word} shares; the page has all:"))
        compared = _worst(compared)
    if compared:
        parts.append(_values(analysis, compared))
    # Of the baseline's own there is no mark.
    shares = [dot.share for sweep in swept for dot in sweep.dots if dot.share and dot.share.value != 1]
    shares += [share for item in compared for share in item.shares.values()]
    if key := _key({verdict_of(share) for share in shares}):
        parts.append(Text(key, style="dim"))
    if analysis.limits:
        parts.append(Text(_LIMITED_KEY, style="dim"))
    parts += prediction_parts(analysis.fits)
    parts += machine_parts(analysis)
    parts += _layers(layer_groups(analysis, most=1))
    parts += drill_parts(analysis)
    if analysis.verdicts:
        parts.append(_verdicts(analysis.verdicts))
    parts += _gaps(analysis.gaps)
    if said := stops_line(analysis):
        parts.append(Text(said, style="dim"))
    parts += [Text(caveat, style="dim") for caveat in found.caveats]
    return Group(*parts)


def _key(said: Collection[str]) -> str:
    """What the marks behind the shares mean, of those that there are."""
    same = ["=: no difference shown"] if "no difference shown" in said else []
    words = {"too noisy to say": "too noisy to say whether it differs", "unlike machines": "unlike machines"}
    open_ = [text for verdict, text in words.items() if verdict in said]
    once = ["a share without ±: one build each, which decides nothing"] if "one build" in said else []
    keys = [*same, *([f"?: {', or '.join(open_)}"] if open_ else []), *once]
    return f"{'; '.join(keys)}." if keys else ""


def _worst(compared: Sequence[Item]) -> tuple[Item, ...]:
    """Where most of the throughput is lost, or a latency grows most."""
    sign, worst = (1, min) if verb(compared) == "keeps" else (-1, max)
    ranked = sorted(
        compared, key=lambda item: sign * worst((each.value for each in item.shares.values()), default=1.0)
    )
    return tuple(ranked[:FEWER_ROWS])


def _compared_otherwise(analysis: Analysis, swept: Sequence[Sweep]) -> tuple[Item, ...]:
    """The comparisons that no sweep has."""
    if not analysis.grid.factors and any(not sweep.jobs for sweep in swept):
        # With a layout that is asked for, what no factor changes is a sweep too.
        return ()
    jobs = {sweep.jobs for sweep in swept if sweep.jobs}
    return tuple(item for item in plain_items(analysis) if analysis.workloads[item.workload].name not in jobs)


def _gaps(gaps: Sequence[Gap]) -> Iterator[RenderableType]:
    """Each error once: what fails in one cell of a sweep mostly fails in many, with other times and numbers."""
    alike: dict[tuple[str, str], list[Gap]] = {}
    for gap in gaps:
        alike.setdefault((gap.status, re.sub(r"\d+", "", gap.error.replace(gap.stack, ""))), []).append(gap)
    for first, *others in alike.values():
        more = f" (and {len(others)} more alike)" if others else ""
        yield Text(f"{first.stack}/{first.workload} is {first.status}{more}: {first.error}", style="yellow")
        if first.hint:
            yield Padding(Text(f"hint: {first.hint}"), (0, 0, 0, 2))


def _values(analysis: Analysis, compared: tuple[Item, ...]) -> Table:
    stacks = [stack for stack in analysis.stacks if any(stack in item.rows for item in compared)]
    stacks = stacks if analysis.grid.factors else list(analysis.stacks)
    return grid(
        ["", *stacks],
        ([item.label, *(_value(analysis, item, each) for each in stacks)] for item in compared),
        ours=False,
    )


def _value(analysis: Analysis, item: Item, stack: str) -> Text:
    row, share = item.rows.get(stack), item.shares.get(stack)
    text = Text("–" if row is None else plus_minus(row.value, row.half, row.unit, row.metric))
    text.append(LIMITED_MARK if analysis.limit(row) else "")
    if share is not None:
        text.append(f"  {percent(share.value, share.half):>5}{MARKS[verdict_of(share)]}", style="bold")
    return text


def _layers(groups: Sequence[LayerGroup]) -> Iterator[RenderableType]:
    """What each layer made of a byte and of a transaction, where that is not too much for a terminal."""
    found = []
    for group in groups:
        cells: dict[str, list[LayerRow]] = {}
        for row in group.rows:
            cells.setdefault(row.label, []).append(row)
        for stack, rows in cells.items():
            ratios = ", ".join(f"{row.short} {row.per_byte}" for row in rows if row.per_byte != NONE)
            flushes = ", ".join(
                f"{row.short} {row.per_transaction}" for row in rows if row.per_transaction != NONE
            )
            if ratios or flushes:
                found.append((group.title, stack, ratios, flushes))
    titles = ("what each layer did", "stack", "written per byte above", "flushes a transaction")
    if 0 < len(found) <= MOST_LAYERS:
        yield grid(titles, found, left=titles)


def _verdicts(verdicts: tuple[Verdict, ...]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for verdict in verdicts:
        mark, style = _MARKS[verdict.status]
        mark = f"? {term(verdict.word)}" if verdict.status == "unknown" else mark
        text = Text(f"{verdict.claim.says}: " if verdict.claim.says else "")
        text.append(verdict.sentence.removesuffix("."))
        if verdict.found is None or verdict.status != "unknown" or verdict.builds == 1:
            text.append(f" (expected {verdict.expected})", style="dim")
        table.add_row(Text(mark, style=style), text)
    table.add_row("", "")
    return table

"""The answer, and all tables behind it, for a terminal of 80 to 100 columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.cells import cell_len
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
from blocklab.report.source import source_of
from blocklab.report.stops import stops_line
from blocklab.report.sweep_table import LIMITED_MARK, MARKS, sweep_tables, table_sweeps
from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import Item, plain_items, verb
from blocklab.stats.expect import Verdict
from blocklab.stats.findings import findings
from blocklab.stats.floor import LIMITED
from blocklab.stats.format import percent, plus_minus
from blocklab.stats.overview import Amount, Overview, State, overview
from blocklab.stats.ratio import verdict as verdict_of
from blocklab.stats.reading import Gap
from blocklab.stats.sentences import answer
from blocklab.stats.worth import expected_line, next_step, worth
from blocklab.store.folder import StudyFolder

# Of more comparisons than this only those that lose most.
MOST_ROWS, FEWER_ROWS = 40, 20
_LIMITED_KEY = f"{LIMITED_MARK}: {LIMITED} (near its floor, or its CPU was busy): the layout may do better."
# More cells and phases than this are for the page.
MOST_LAYERS = 20
# Of more expectations that fail only so many are named.
MOST_FAILED = 3
# Columns of characters of the narrowest terminal that the answer is made for, and those between two values.
WIDTH, _BETWEEN = 80, 3
# Of two lines each, so that all fits into 24.
MOST_LAYOUTS = 6
_STATES: Mapping[State, str] = {"": "", "ok": "green", "lost": "red", "unknown": "yellow"}
_MARKS = {"ok": ("✓ ok", "green"), "failed": ("✗ failed", "red"), "unknown": ("? unknown", "yellow")}


def terminal_table(
    folder: StudyFolder, analysis: Analysis | None = None, *, every: bool = False
) -> RenderableType:
    """The answer on one screen: the table of layouts, what it is worth, and what to do next. ``every``: before it
    the findings, each sweep, the layers, the drills and the expectations. Raises ``StoreError``.

    ``analysis``: that of the folder, where it is at hand already.
    """
    analysis = analysis or analysed(folder)
    return Group(*(_details(analysis) if every else ()), *_answer(folder, analysis, every=every))


def _answer(folder: StudyFolder, analysis: Analysis, *, every: bool) -> Iterator[RenderableType]:
    """What is printed last, so that it is what the screen shows."""
    yield Text(analysis.study.question, style="bold")
    found = narrowed(overview(analysis), WIDTH)
    if found.layouts:
        yield _overview(found)
    else:
        yield Text(answer(findings(analysis)).lead)
    yield from (Text(each.sentence, style="dim") for each in found.alike)
    if found.left_out and not every:
        yield Text(f"{found.left_out} --all prints them.", style="dim")
    if analysis.verdicts:
        yield from _expected(analysis.verdicts)
    yield from _gaps(analysis.gaps)
    yield from map(Text, worth(analysis))
    if analysis.clock:
        yield Text(analysis.clock, style="dim")
    if (step := next_step(analysis, source_of(folder))) is not None:
        yield Text(f"{step.why}: ").append(step.command, style="bold")


def narrowed(found: Overview, width: int) -> Overview:
    """Without as many columns as make it too wide for so many characters, and without layouts that make it too
    long."""
    left = found.shorter(MOST_LAYOUTS)
    while len(left.columns) > 1 and _width(left) > width:
        left = left.narrower()
    return left


def _width(found: Overview) -> int:
    names = max((max(cell_len(each.label), cell_len(each.about)) for each in found.layouts), default=0)
    values = 0
    for place, column in enumerate(found.columns):
        amounts = [each.amounts[place] for each in found.layouts]
        words = [column.title, column.says, *(word for each in amounts if each for word in (each.text, each.cost))]
        values += _BETWEEN + max(map(cell_len, words))
    return names + values


def _overview(found: Overview) -> Table:
    """A line for each layout's values, and one below it for what they cost."""
    titles = ["layout", *(f"{column.title}\n{column.says}".strip() for column in found.columns)]
    rows = []
    for layout in found.layouts:
        name = Text(layout.label)
        name.append(f"\n{layout.about}" if layout.about else "", style="dim")
        rows.append([name, *map(_amount, layout.amounts)])
    return grid(titles, rows, ours=False)


def _amount(amount: Amount | None) -> Text:
    if amount is None:
        return Text("–")
    text = Text(amount.text, style=_STATES[amount.state])
    return text.append(f"\n{amount.cost}", style="bold" if amount.share else "dim") if amount.cost else text


def _expected(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """How many expectations hold; each that fails."""
    failed = [each for each in verdicts if each.status == "failed"]
    for each in failed[:MOST_FAILED]:
        yield Text(f"✗ {each.claim.says or each.sentence}", style="red")
    yield Text(expected_line(verdicts))


def _details(analysis: Analysis) -> Iterator[RenderableType]:
    """All tables, and every sentence."""
    found = answer(findings(analysis))
    yield from (Text(found.lead), *map(Text, found.points), Text())
    if (carried := carried_table(analysis)) is not None:
        yield carried
    swept = table_sweeps(analysis)
    for sweep in swept:
        yield from sweep_tables(analysis, sweep)
    compared = _compared_otherwise(analysis, swept)
    if len(compared) > MOST_ROWS:
        word = term("smallest" if verb(compared) == "keeps" else "largest")
        yield Text(f"The {FEWER_ROWS} of {len(compared)} values with the {word} shares; the page has all:")
        compared = _worst(compared)
    if compared:
        yield _values(analysis, compared)
    # Of the baseline's own there is no mark.
    shares = [dot.share for sweep in swept for dot in sweep.dots if dot.share and dot.share.value != 1]
    shares += [share for item in compared for share in item.shares.values()]
    if key := _key({verdict_of(share) for share in shares}):
        yield Text(key, style="dim")
    if analysis.limits:
        yield Text(_LIMITED_KEY, style="dim")
    yield from prediction_parts(analysis.fits)
    yield from machine_parts(analysis)
    yield from _layers(layer_groups(analysis, most=1))
    yield from drill_parts(analysis)
    if analysis.verdicts:
        yield _verdicts(analysis.verdicts)
    if said := stops_line(analysis):
        yield Text(said, style="dim")
    yield from (Text(caveat, style="dim") for caveat in found.caveats)
    yield Text()


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

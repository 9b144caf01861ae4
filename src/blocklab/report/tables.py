"""The tables of the page, as plain values for the template; every text is escaped there."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from blocklab.charts.matrix import MANY_PHASES
from blocklab.model.metrics import WAYS
from blocklab.model.metrics import metric as metric_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import families
from blocklab.stats.format import NBSP, listed, number, percent, plus_minus, scale, seconds
from blocklab.stats.ratio import verdict
from blocklab.stats.values import Row
from blocklab.store.run import Run

# Metrics of workloads that the page shows, in this order; the CSV has all of them.
SHOWN = (
    "tpmc", "tps", "iops", "bandwidth", "latency.mean", "latency.p50", "latency.p95", "latency.p99",
    "commit.group", "lock.waits", "failed",
)  # fmt: skip
# The commands of more cells than this would be most of the page; steps.jsonl has them.
MOST_RUNS = 24


class Value(msgspec.Struct, frozen=True):
    """One table cell: the value, its interval, its ratio to the baseline's, or why there is none.

    ``limited`` says why the value is the lab's own rather than the layout's; empty when it is not.
    """

    text: str
    half: str = ""
    relative: str = ""
    absent: bool = False
    limited: str = ""


class Line(msgspec.Struct, frozen=True):
    """One metric over all stacks. ``label`` has the unit, ``source`` is who measured."""

    label: str
    source: str
    values: tuple[Value, ...]


class Group(msgspec.Struct, frozen=True):
    """The values of one workload, or one phase of it."""

    title: str
    lines: tuple[Line, ...]


def value_groups(analysis: Analysis) -> tuple[Group, ...]:
    """The table of values: TPS, IOPS, MB/s, latencies, await and CPU for each workload and phase."""
    groups = []
    # Transactions first, as everywhere on the page.
    transactions = {row.workload for row in analysis.rows if row.own and metric_of(row.metric).transactions}
    elsewhere = on_sheets(analysis)
    grouped = [label for label, side in analysis.workloads.items() if side.name not in elsewhere]
    for workload in sorted(grouped, key=lambda name: name not in transactions):
        for phase in analysis.phases(workload):
            mine = list(analysis.places[workload, phase])
            lines = [*_workload_lines(analysis, workload, mine), *_probe_lines(analysis, workload, mine)]
            if lines:
                groups.append(Group(f"{workload} / {phase}" if phase else workload, tuple(lines)))
    return tuple(groups)


def on_sheets(analysis: Analysis) -> tuple[str, ...]:
    """The workloads whose values are too many for a column a stack: those that a factor changes, and long ones."""
    swept = {family.workload for family in families(analysis)}
    return tuple(
        name
        for name in dict.fromkeys(side.name for side in analysis.workloads.values())
        if name in swept
        or any(
            len(analysis.phases(label)) > MANY_PHASES
            for label, side in analysis.workloads.items()
            if side.name == name
        )
    )


def workload_metrics(metrics: Iterable[str], kinds: Iterable[str] = SHOWN) -> Iterator[tuple[str, str]]:
    """The metrics of a workload that the page shows, in its order, and what they are called there.

    Of a type of transaction (``new_order.latency.p95``) the 95th percentile is shown.
    """
    order = ("", *WAYS)
    known = [metric_of(name) for name in dict.fromkeys(metrics)]
    # The types of transactions come last, in the order of the run.
    known.sort(key=lambda each: order.index(each.of) if each.of in order else len(order))
    for kind in kinds:
        for each in known:
            if each.family == kind and (each.of in order or kind == "latency.p95"):
                yield each.name, f"{each.of.replace('_', ' ')} {each.title}".strip()


def _workload_lines(analysis: Analysis, workload: str, mine: list[Row]) -> Iterator[Line]:
    for metric, word in workload_metrics(row.metric for row in mine if row.own):
        rows = {row.stack: row for row in mine if row.own and row.metric == metric}
        if metric == "failed" and not any(row.value for row in rows.values()):
            continue
        yield _line(analysis, workload, word, rows, next(iter(rows.values())).layer)


def _probe_lines(analysis: Analysis, workload: str, mine: list[Row]) -> Iterator[Line]:
    for way in WAYS:
        rows = {row.stack: row for row in mine if row.top and row.metric == f"{way}.await"}
        if rows:
            devices = dict.fromkeys(row.layer for row in rows.values())
            yield _line(analysis, workload, f"{way} await, top device, ms", rows, f"iostat: {', '.join(devices)}")
        for host, device in lower_devices(analysis, workload):
            rows = {
                row.stack: row
                for row in mine
                if (row.metric, row.host, row.layer, row.own) == (f"{way}.await", host, device, False)
            }
            if rows:
                yield _line(analysis, workload, f"{way} await, {device} on {host}, ms", rows, "iostat")
    cpu = [row for row in mine if row.metric == "cpu.busy"]
    for host in dict.fromkeys(row.host for row in cpu):
        rows = {row.stack: row for row in cpu if row.host == host}
        yield _line(analysis, workload, f"CPU busy on {host}, %", rows, "/proc/stat")


def lower_devices(analysis: Analysis, workload: str) -> list[tuple[str, str]]:
    """(host, device) of each block device below the highest one of a stack, of all stacks."""
    found: dict[tuple[str, str], None] = {}
    for (_, label), measured in analysis.measured.items():
        for host in measured.hosts if label == workload else ():
            found.update(dict.fromkeys((host, device) for device in measured.lower(host)))
    return list(found)


def _line(analysis: Analysis, workload: str, label: str, rows: dict[str, Row], source: str) -> Line:
    gaps = {gap.stack: gap.status for gap in analysis.unmeasured if gap.workload == workload}
    values = [value_of(analysis, rows.get(stack), gaps.get(stack)) for stack in analysis.stacks]
    return Line(label, source, tuple(values))


def value_of(analysis: Analysis, row: Row | None, gap: str | None) -> Value:
    """The cell of a table for a value, or for the lack of it."""
    if row is None:
        # A node that is not part of the stack has no value for a good reason.
        return Value(gap or "–", absent=True)
    # The label has the unit.
    label = scale(row.unit, row.metric)[1]
    text = plus_minus(row.value, row.half, row.unit, row.metric).removesuffix(label).rstrip()
    text, _, half = text.partition(f"{NBSP}±")
    relative = "" if row.stack in analysis.grid.baselines else relative_text(row)
    return Value(text, f"±{half}" if half else "", relative, limited=analysis.limit(row))


def relative_text(row: Row) -> str:
    """``48 % ± 2 %`` of the baseline's throughput, ``2.06×`` its latency, with what the interval leaves open;
    empty for shares of a CPU."""
    if row.relative is None or row.unit not in ("1/s", "1/min", "B/s", "s"):
        return ""
    said = verdict(row.relative)
    open_ = "" if said == "differs" else f" ({said})"
    if row.unit == "s":
        half = f"{NBSP}±{NBSP}{number(row.relative.half)}" if row.relative.half is not None else ""
        return f"{number(row.relative.value)}×{half}{open_}"
    return percent(row.relative.value, row.relative.half) + open_


class KnobRow(msgspec.Struct, frozen=True):
    """One knob of one stack; ``found`` lists the values of its cells where they differ."""

    host: str
    layer: str
    name: str
    wanted: str
    found: str
    ok: bool


class KnobTable(msgspec.Struct, frozen=True):
    """A stack's knobs: those that the study set, and the rest that was read back."""

    stack: str
    wanted: tuple[KnobRow, ...]
    rest: tuple[KnobRow, ...]


def knob_tables(analysis: Analysis) -> tuple[KnobTable, ...]:
    """For each stack that was run, good or not."""
    found = []
    for stack in analysis.stacks:
        values: dict[tuple[str, str, str, str | None], dict[str, list[str]]] = {}
        for (at, workload), run in analysis.runs.items():
            for knob in run.knobs if at == stack else ():
                key = (knob.host, knob.layer, knob.name, knob.wanted)
                values.setdefault(key, {}).setdefault(knob.value, []).append(workload)
        rows = [
            KnobRow(host, layer, name, wanted or "", _found(seen), wanted is None or set(seen) == {wanted})
            for (host, layer, name, wanted), seen in values.items()
        ]
        wants = {key[:3] for key in values if key[3] is not None}
        asked = tuple(row for row in rows if (row.host, row.layer, row.name) in wants)
        rest = tuple(row for row in rows if (row.host, row.layer, row.name) not in wants)
        if rows:
            found.append(KnobTable(stack, asked, rest))
    return tuple(found)


def _found(seen: dict[str, list[str]]) -> str:
    if len(seen) == 1:
        return next(iter(seen))
    return "; ".join(f"{value} ({', '.join(dict.fromkeys(workloads))})" for value, workloads in seen.items())


class CommandRow(msgspec.Struct, frozen=True):
    """One command; ``said`` only where it failed."""

    part: str
    host: str
    command: str
    code: int
    took: str
    said: str


class CommandTable(msgspec.Struct, frozen=True):
    """All commands of one cell."""

    label: str
    status: str
    took: str
    rows: tuple[CommandRow, ...]


def command_tables(analysis: Analysis) -> tuple[CommandTable, ...]:
    """For each cell that was run, in the order of the study; of many cells some, see ``told_runs``."""
    return tuple(
        CommandTable(run.cell.label, run.outcome.status, seconds(run.outcome.seconds), tuple(_commands(run)))
        for run in explained_runs(analysis)[0]
    )


def explained_runs(analysis: Analysis) -> tuple[list[Run], list[Run]]:
    """The runs whose commands are on the page, and the others: of too many those that failed come first, then the
    first one of each stack."""
    runs = list(analysis.runs.values())
    if len(runs) <= MOST_RUNS:
        return runs, []
    first = {run.cell.stack: run.cell.key for run in reversed(runs)}
    failed = [run.cell.key for run in runs if run.outcome.status != "ok"]
    told = list(dict.fromkeys([*failed, *first.values()]))[:MOST_RUNS]
    return [run for run in runs if run.cell.key in told], [run for run in runs if run.cell.key not in told]


def _commands(run: Run) -> Iterator[CommandRow]:
    for record in run.records:
        said = record.said if record.code else ""
        yield CommandRow(
            record.part, record.host, shlex.join(record.argv), record.code, seconds(record.seconds), said
        )


class Versions(msgspec.Struct, frozen=True):
    """The machine and its programs: what is the same in all cells, and what differs (name -> cell -> value).

    A value that is a float is a measurement, such as a clock's offset; all else is text, a count or a truth.
    """

    same: tuple[tuple[str, Any], ...]
    differs: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]


def versions(analysis: Analysis) -> Versions:
    """The environments of all cells that were run, put together."""
    cells = {_named(analysis, run): dict(_flat("", run.environment)) for run in analysis.every}
    same, differs = [], []
    for name in dict.fromkeys(name for entries in cells.values() for name in entries):
        values = tuple((cell, entries[name]) for cell, entries in cells.items() if name in entries)
        if len(values) == len(cells) and len({value for _, value in values}) == 1:
            same.append((name, values[0][1]))
        else:
            differs.append((name, values))
    return Versions(tuple(same), tuple(differs))


def _named(analysis: Analysis, run: Run) -> str:
    """A run's cell, with its repeat where there are several."""
    first = analysis.study.repeats > 1 and run.cell.repeat == 0
    return run.cell.label + (" (repeat 1)" if first else "")


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), item)
    elif isinstance(value, list):
        yield name, ", ".join(str(item) for item in value)
    else:
        yield name, value


def measured_when(analysis: Analysis) -> str:
    """From the first cell's start to the last one's, in UTC; empty when nothing ran."""
    starts = [run.outcome.started for run in analysis.every if run.outcome.started]
    if not starts:
        return ""
    first, last = (datetime.fromtimestamp(at, UTC) for at in (min(starts), max(starts)))
    text = f"{first:%Y-%m-%d %H:%M}"
    if last.date() != first.date():
        return f"{text} to {last:%Y-%m-%d %H:%M} UTC"
    return f"{text} to {last:%H:%M} UTC" if f"{last:%H:%M}" != f"{first:%H:%M}" else f"{text} UTC"


def warnings(analysis: Analysis) -> list[str]:
    """What a reader should know before quoting a value, beside the gaps."""
    failures: Counter[str] = Counter()
    # Of all repeats: in a table of their means one failure would be less than one.
    for row in [row for table in analysis.tables for row in table]:
        if row.own and row.metric == "failed":
            failures[f"{row.stack}/{row.workload}"] += round(row.value)
    found = [f"{cell}: {n:,} transaction{'s' if n > 1 else ''} failed" for cell, n in failures.items() if n]
    for run in analysis.every:
        # Tearing down may fail without spoiling the values, but it is not to be hidden.
        failed = [record for record in run.records if record.code and record.part == "undo"]
        found += [f"{run.cell.label}: on {r.host}, exit code {r.code} from {shlex.join(r.argv)}" for r in failed]
        found += [f"{run.cell.stack}: {text}" for file in run.files for text in file.warnings]
    for name, values in versions(analysis).differs:
        # The method tells the seeds.
        texts = {str(value) for _, value in values if name != "seed"}
        if len(texts) > 1 and not all(isinstance(value, float) for _, value in values):
            found.append(f"The cells did not all run in the same environment: {name} was {listed(sorted(texts))}")
    return list(dict.fromkeys(found))

"""The tables of the page, as plain values for the template; every text is escaped there."""

from __future__ import annotations

import shlex
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec

from blocklab.stats.analysis import Analysis
from blocklab.stats.compare import once
from blocklab.stats.differences import flat
from blocklab.stats.format import listed
from blocklab.store import imported
from blocklab.store.run import Run

# The commands of more cells than this would be most of the page; steps.jsonl has them.
MOST_RUNS = 24
# What every machine has of its own in an environment.
_OF_MACHINES = ("machine", "name", "host.", "hosts.", "volumes")


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


class Versions(msgspec.Struct, frozen=True):
    """The machine and its programs: what is the same in all cells, and what differs (name -> cell -> value, or
    name -> machine -> value where it is the same in all cells of each machine).

    A value that is a float is a measurement, such as a clock's offset; all else is text, a count or a truth.
    """

    same: tuple[tuple[str, Any], ...]
    differs: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]


@once
def versions(analysis: Analysis) -> Versions:
    """The environments of all cells that were run, put together."""
    cells = {_named(analysis, run): dict(flat("", run.environment)) for run in analysis.every}
    machines = {
        _named(analysis, run): analysis.machines[analysis.where[run.folder.name]] for run in analysis.every
    }
    same, differs = [], []
    for name in dict.fromkeys(name for entries in cells.values() for name in entries):
        values = tuple((cell, entries[name]) for cell, entries in cells.items() if name in entries)
        if len(values) == len(cells) and len({value for _, value in values}) == 1:
            same.append((name, values[0][1]))
            continue
        by_machine = tuple(dict.fromkeys((machines[cell], value) for cell, value in values))
        alike = len(values) == len(cells) and len(by_machine) == len(analysis.machines)
        differs.append((name, by_machine if alike else values))
    return Versions(tuple(same), tuple(differs))


def _named(analysis: Analysis, run: Run) -> str:
    """A run's cell, with its repeat where there are several."""
    first = analysis.study.repeats > 1 and run.cell.repeat == 0
    return run.cell.label + (" (repeat 1)" if first else "")


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
    for stack in dict.fromkeys(run.cell.stack for run in analysis.every):
        files = (file for run in analysis.every if run.cell.stack == stack for file in run.files)
        found += [f"{stack}: {text}" for text in imported.warnings(files)]
    for name, values in versions(analysis).differs:
        # The method tells the seeds, and the machines their own section.
        told = name == "seed" or (len(analysis.machines) > 1 and name.startswith(_OF_MACHINES))
        texts = set() if told else {str(value) for _, value in values}
        if len(texts) > 1 and not all(isinstance(value, float) for _, value in values):
            found.append(f"The cells did not all run in the same environment: {name} was {listed(sorted(texts))}")
    return list(dict.fromkeys(found))

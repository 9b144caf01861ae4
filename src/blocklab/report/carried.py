"""The table of open-loop phases: asked, reached, latency, and whether the layout carries it."""

from __future__ import annotations

import msgspec
from rich.table import Table

from blocklab.lang import term
from blocklab.model.terminal import Text
from blocklab.report.grid import grid
from blocklab.stats.analysis import Analysis
from blocklab.stats.carried import KINDS, Carried, Need, needs
from blocklab.stats.format import NBSP, number, percent, quantity

# Of more phases than this a terminal has only those that are not carried.
MOST_ROWS = 40
MARKS = {"carried": ("✓", "ok"), "not carried": ("✗", "failed"), "unknown": ("?", "unknown")}
_STYLES = {"carried": "green", "not carried": "red", "unknown": "yellow"}
NONE = "–"


class CarriedRow(msgspec.Struct, frozen=True):
    """One phase of one layout, as text. ``stack`` is a label for its colour. ``most``: in the first one only.
    ``kinds``: whose the latencies are, in order."""

    stack: str
    place: str
    level: str
    asked: str
    reached: str
    p99: str
    p999: str
    verdict: str
    why: str
    most: str = ""
    kinds: tuple[str, ...] = ()


def carried_rows(analysis: Analysis) -> tuple[CarriedRow, ...]:
    """Every open-loop phase; empty where no workload has a rate."""
    found = needs(analysis)
    several = len({need.workload for need in found}) > 1
    return tuple(
        _row(need, each, first=not number_, several=several)
        for need in found
        for number_, each in enumerate(need.phases)
    )


def _row(need: Need, each: Carried, *, first: bool, several: bool) -> CarriedRow:
    reached = NONE if each.reached is None else f"{number(each.reached)} ({percent(each.reached / each.asked)})"
    return CarriedRow(
        each.stack,
        f"{each.stack} / {each.workload}" if several else each.stack,
        f"{each.level}{NBSP}%",
        number(each.asked),
        reached,
        _latency(each, "p99"),
        _latency(each, "p999"),
        each.verdict,
        ". ".join(text for text in (each.why, each.note) if text),
        _most(need) if first else "",
        tuple(KINDS.get(kind.metric, kind.metric) for kind in each.kinds),
    )


def _latency(each: Carried, which: str) -> str:
    values = [NONE if (value := getattr(kind, which)) is None else quantity(value, "s") for kind in each.kinds]
    bound = "≥ " if each.at_least else ""
    return NONE if set(values) == {NONE} else " / ".join(bound + value for value in values)


def _most(need: Need) -> str:
    if need.most is None or need.headroom is None:
        return NONE
    lab = " (the lab's limit)" if need.limited else ""
    return f"{number(need.most)}/s, {number(need.headroom)} ×{lab}"


def carried_table(analysis: Analysis) -> Table | None:
    """The rows for a terminal; None without any."""
    rows = carried_rows(analysis)
    if len(rows) > MOST_ROWS:
        rows = tuple(row for row in rows if row.verdict != "carried")[:MOST_ROWS]
    if not rows:
        return None
    titles = ("layout", "level", "asked/s", "reached/s", "p99", "saturates at", "verdict")
    return grid(
        titles, map(_cells, rows), left=("verdict",), whole=("reached/s", "p99"), title="Does it carry the need?"
    )


def _cells(row: CarriedRow) -> tuple[str | Text, ...]:
    mark = f"{MARKS[row.verdict][0]}{NBSP}{term(row.verdict).replace(' ', NBSP)}"
    values = row.p99.split(" / ")
    # One kind of requests a line.
    several = len(values) == len(row.kinds) > 1
    lines = [f"{kind} {value}" for kind, value in zip(row.kinds, values, strict=True)] if several else values
    verdict = Text(mark, style=_STYLES[row.verdict])
    return row.place, row.level, row.asked, row.reached, "\n".join(lines), row.most, verdict

"""The lab's floor on the page: what was measured of the lab itself, and which values are no better than that."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from blocklab.stats.analysis import Analysis
from blocklab.stats.floor import caution, table
from blocklab.stats.format import listed, percent, quantity
from blocklab.store.floor import Floor

# Of more reasons than this the tables have the marks, and the CSV the rest.
MOST_LIMITED = 40
# So many values of one phase with one reason are counted.
MOST_METRICS = 4


class FloorTable(msgspec.Struct, frozen=True):
    """One machine's floor: what it holds for, and (what, value, spread)."""

    about: str
    rows: tuple[tuple[str, str, str], ...]
    caution: str


class LimitedRow(msgspec.Struct, frozen=True):
    """Values of one phase of one cell that are the lab's own for one reason. ``stack`` is a label for its colour;
    ``metrics`` names a few values, or says how many there are."""

    stack: str
    place: str
    metrics: str
    why: str


def floor_tables(analysis: Analysis) -> tuple[FloorTable, ...]:
    """The floors of all machines and images that the study's cells ran on."""
    return tuple(_floor(floor) for floor in analysis.floors.distinct)


def _floor(floor: Floor) -> FloorTable:
    machine = floor.machine
    when = datetime.fromtimestamp(floor.when, UTC)
    rounds = max(reading.rounds for reading in floor.values.values())
    about = (
        f"{machine.cpu}, {machine.cpus} CPUs, kernel {machine.kernel}, image {machine.image}; measured "
        f"{when:%Y-%m-%d %H:%M} UTC. "
    )
    if rounds > 1:
        about += f"Medians of {rounds} rounds; the spread is the largest less the smallest."
    else:
        about += "One round, which has no spread."
    return FloorTable(about, tuple(table(floor)), caution(floor))


def own_text(analysis: Analysis) -> str:
    """What measuring itself took of a CPU at most, in a sentence; empty where the runs do not tell."""
    highest = analysis.highest_own
    said = [
        f"{layer.removeprefix('probe ')} {quantity(each.sample.value, '%')} on {each.sample.host}"
        for layer, each in highest.items()
        if layer != "blocklab"
    ]
    parts = []
    if (own := highest.get("blocklab")) is not None:
        parts.append(f"blocklab's own process took at most {quantity(own.sample.value, '%')} of a core")
    if said:
        parts.append(f"the probes at most {listed(said)}")
    return f"While a workload ran, {'; '.join(parts)}." if parts else ""


def vague_text(analysis: Analysis) -> str:
    """Which emulated times this machine could set no better than their noise, in a sentence; empty for none."""
    vague = [f"{what} to {percent(part)}" for what, part in analysis.inputs.vague.items()]
    return (
        f"On this machine the medians of some times vary, and were set as well as that lets: {listed(vague)}."
        if vague
        else ""
    )


def limited_rows(analysis: Analysis) -> tuple[tuple[LimitedRow, ...], int]:
    """What is the lab's own, and how many more rows there would be."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for row in analysis.rows:
        if limit := analysis.own_limit(row):
            place = f"{row.stack}/{row.workload} {row.phase}".strip()
            reasons.setdefault((row.stack, place, limit.why), []).append(row.metric)
    rows = tuple(
        LimitedRow(stack, place, listed(metrics) if len(metrics) < MOST_METRICS else f"{len(metrics)} values", why)
        for (stack, place, why), metrics in list(reasons.items())[:MOST_LIMITED]
    )
    return rows, len(reasons) - len(rows)

"""The drills of a study as plain values for the page's template; every text is escaped there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from blocklab.charts.base import Chart, slug
from blocklab.charts.cost import COST, stack_colours
from blocklab.lang import term
from blocklab.model.drill import Drill
from blocklab.stats.analysis import Analysis
from blocklab.stats.drill_findings import drill_details
from blocklab.stats.drill_view import chosen
from blocklab.stats.drills import (
    Summary,
    again_text,
    before_text,
    losing_text,
    never_text,
    rate_again_text,
    rate_text,
    spread_text,
    summaries,
)
from blocklab.stats.format import NBSP, percent, quantity, small_percent
from blocklab.stats.longform import DRILLS, STATUS, WHERE, Entry
from blocklab.stats.sentences import sentence

NONE = "–"
# Of more than these drill.json has the rest.
MOST_IDS, MOST_EVENTS = 200, 100
WORDS = {"ok": ("✓", "ok"), "lost": ("✗", "lost"), "unknown": ("?", "unknown")}
COLUMNS = (
    "verdict", "drills", "acknowledged a second", "gone", "RPO, most", "RTO, median", "90 % of the rate, median",
    "in doubt", "binary log", "mirror",
)  # fmt: skip


class Field(msgspec.Struct, frozen=True):
    """A cell of the table: the value, and what stands small below it."""

    text: str
    small: str = ""


class CellRow(msgspec.Struct, frozen=True):
    """One cell's drills. ``names`` are the stack, its workload and levels."""

    colour: str
    names: tuple[str, ...]
    status: str
    fields: tuple[Field, ...]


class DrillDetail(msgspec.Struct, frozen=True):
    """One drill, with its chart, and its values by the names of their columns (``stats.longform``)."""

    title: str
    drill: Drill
    chart: Chart | None
    facts: tuple[tuple[str, str], ...]


class DrillSection(msgspec.Struct, frozen=True):
    """All that the page says of drills; ``left`` has the verdicts of those that are not told one by one."""

    points: tuple[str, ...]
    cost: Chart | None
    names: tuple[str, ...]
    rows: tuple[CellRow, ...]
    stages: tuple[str, ...]
    takeovers: tuple[CellRow, ...]
    details: tuple[DrillDetail, ...]
    left: tuple[str, ...]


def drill_section(analysis: Analysis, shown: Sequence[Chart]) -> DrillSection | None:
    """The section; None for a study without drills. ``shown`` are the charts of the page."""
    if not analysis.drills:
        return None
    charts = {chart.name: chart for chart in shown}
    found = summaries(analysis)
    picked = chosen(analysis)
    one_by_one = {id(each) for *_, each in picked}
    workloads = analysis.drilled_workloads > 1
    factors = [name for name in analysis.grid.factors if any(name in each.point.levels for each in found)]
    dyes = stack_colours(found)
    stages = tuple(dict.fromkeys(name for each in found for name, _ in each.stages))
    return DrillSection(
        tuple(sentence([each]) for each in drill_details(analysis)),
        charts.get(COST),
        (term("stack"), *([term("workload")] if workloads else []), *factors),
        tuple(
            _row(each, factors, fields(each), dyes[each.point.stack_name], workloads=workloads) for each in found
        ),
        stages,
        tuple(
            _row(each, factors, _stages(each, stages), dyes[each.point.stack_name], workloads=workloads)
            for each in found
            if each.stages
        ),
        tuple(
            DrillDetail(label, each.drill, charts.get(f"outage-{slug(name)}"), facts(each.drill))
            for name, label, each in picked
        ),
        tuple(each.drill.verdict.status for each in analysis.drills if id(each) not in one_by_one),
    )


def _row(
    each: Summary, factors: Sequence[str], told: Mapping[str, Field], colour: str, *, workloads: bool
) -> CellRow:
    point = each.point
    names = (
        point.stack_name,
        *([point.workload_name] if workloads else []),
        *(point.levels.get(name, NONE) for name in factors),
    )
    return CellRow(colour, names, status_of(each), tuple(told.values()))


def status_of(each: Summary) -> str:
    """The verdict over all drills of a cell: ``ok`` only where each one is."""
    mine = each.losses
    return "lost" if mine.lost or each.void_lost else "ok" if mine.ok and not mine.unknown else "unknown"


def _stages(each: Summary, names: Sequence[str]) -> dict[str, Field]:
    times = dict(each.stages)
    found = {name: Field(took(times[name]) if name in times else NONE) for name in names}
    return {**found, "sum": Field(took(each.stages_sum)), "RTO": _rto(each)}


def fields(each: Summary) -> dict[str, Field]:
    """The values of a cell by their columns."""
    mine = each.losses
    return dict(
        zip(
            COLUMNS,
            (
                _verdict(each),
                Field(str(mine.drills), f"{each.void} void" if each.void else ""),
                Field(rate_text(each.rate) or NONE, "" if each.base or each.relative is None else
                      percent(each.relative.value, each.relative.half)),
                Field(f"{mine.missing:,} of {mine.acknowledged:,}" if mine.acknowledged else NONE, _gone(each)),
                _rpo(each),
                _rto(each),
                _recovered(each),
                Field(f"{mine.in_doubt:,}", f"{mine.in_doubt_found:,} of them found" if mine.in_doubt else ""),
                Field(_counts(each.binlog), _apart(each)),
                Field(_counts(each.mirror)),
            ),
            strict=True,
        )
    )  # fmt: skip


def _rto(each: Summary) -> Field:
    if each.rto is None:
        return Field(NONE)
    never = never_text(each.never, each.rto.count) if each.never else ""
    return Field(again_text(each.rto.median), "; ".join(filter(None, [spread_text(each.rto), never])))


def _recovered(each: Summary) -> Field:
    if each.recovered is None:
        return Field(NONE)
    late = f"{each.slow} of {each.recovered.count} not while watched" if each.slow else ""
    text = rate_again_text(each.recovered.median)
    return Field(text, "; ".join(filter(None, [spread_text(each.recovered), late])))


def _rpo(each: Summary) -> Field:
    rpo = each.losses.rpo
    if rpo is None:
        return Field(NONE)
    # Of one that was the very last the time is 0, but not the number.
    if not each.losses.missing:
        return Field("0")
    text = f"{each.losses.worst:,} {'commit' if each.losses.worst == 1 else 'commits'}"
    newest = each.losses.newest
    ago = f"; the newest lost {before_text(newest.least)}" if newest is not None else ""
    return Field(text, f"{_zero(rpo.most)}; median {_zero(rpo.median)}{ago}")


def _verdict(each: Summary) -> Field:
    mine = each.losses
    known = mine.ok + mine.lost
    word = status_of(each)
    if not known:
        return Field(word)
    text = "" if mine.losing is None else losing_text(mine.losing)
    unknown = f"; {mine.unknown} unknown" if mine.unknown else ""
    return Field(word, text + unknown)


def _gone(each: Summary) -> str:
    mine = each.losses
    more = [f"{count} {word}" for count, word in ((mine.torn, "torn"), (mine.unexpected, "unexpected")) if count]
    return "; ".join([*([small_percent(mine.share)] if mine.share else []), *more])


def _zero(value: float) -> str:
    return f"0{NBSP}ms" if not value else quantity(value, "s")


def took(value: float) -> str:
    """Milliseconds, or seconds from one on."""
    return quantity(value, "s") if value < 1 else f"{value:.2f}{NBSP}s"


def _counts(found: Mapping[str, int]) -> str:
    """``in sync``, or with counts where the drills differ."""
    if len(found) < 2:
        return next(iter(found), NONE)
    return ", ".join(f"{count} {status}" for status, count in found.items())


def _apart(each: Summary) -> str:
    parts = [f"behind by up to {each.behind:,}"] if each.behind else []
    return "; ".join(parts + ([f"ahead by up to {each.ahead:,}"] if each.ahead else []))


def facts(drill: Drill) -> tuple[tuple[str, str], ...]:
    """What ``drills.csv`` has of a drill, as texts; without what there is nothing of."""
    entry = Entry("", "", "", {}, None, drill)
    found = {column.name: column.get(entry) for column in DRILLS if column not in (*WHERE, STATUS)}
    if drill.verdict.rto_seconds is None:
        found["rto"] = "no write accepted again" if drill.never else "not known"
    if found.pop("came_back") == "writes" and drill.rate:
        found["recovered"] = "not while watched"
    return tuple(
        (name.replace("_", " "), _text(value)) for name, value in found.items() if value not in (None, "", "ok")
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def clock(time: float) -> str:
    """UTC, with milliseconds."""
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S.%f")[:-3]


def after(time: float, fault: float | None) -> str:
    """``+0.204`` s from the fault; the clock where none struck."""
    return clock(time) if fault is None else f"{time - fault:+.3f}"

"""The drills of a study as plain values for the page's template; every text is escaped there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from blocklab.charts.base import Chart, slug
from blocklab.charts.cost import stack_colours
from blocklab.model.drill import Drill, Mirror
from blocklab.stats.analysis import Analysis
from blocklab.stats.drill_view import chosen, merged, span
from blocklab.stats.drills import Summary, rate_text, rto_text, share_text, summaries
from blocklab.stats.format import NBSP, listed, percent, quantity, small_percent
from blocklab.stats.sentences import drill_points

NONE = "–"
# Of more than these the page tells how many there are.
MOST_IDS = 200
MOST_EVENTS = 100
WORDS = {"ok": ("✓", "ok"), "lost": ("✗", "lost"), "unknown": ("?", "unknown")}
COLUMNS = (
    "verdict", "drills", "acknowledged a second", "gone", "RPO, most", "RTO, median", "in doubt", "binary log",
    "mirror",
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


class Loss(msgspec.Struct, frozen=True):
    """A transaction that is gone: its id, and when it was acknowledged."""

    id: str
    clock: str
    after: str


class DrillDetail(msgspec.Struct, frozen=True):
    """One drill. Rows are texts; ``left_ids`` and ``left_events`` are not listed."""

    title: str
    status: str
    says: str
    facts: tuple[str, ...]
    chart: Chart | None
    missing: tuple[Loss, ...]
    left_ids: int
    others: tuple[str, ...]
    events: tuple[tuple[str, str, str], ...]
    left_events: int
    stages: tuple[tuple[str, str, str], ...]
    bins: tuple[tuple[str, ...], ...]


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
        drill_points(analysis),
        charts.get("cost"),
        ("stack", *(["workload"] if workloads else []), *factors),
        tuple(
            _row(each, factors, fields(each), dyes[each.point.stack_name], workloads=workloads) for each in found
        ),
        stages,
        tuple(
            _row(each, factors, _stages(each, stages), dyes[each.point.stack_name], workloads=workloads)
            for each in found
            if each.stages
        ),
        tuple(_told(each.drill, label, charts.get(f"outage-{slug(name)}")) for name, label, each in picked),
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
    took = dict(each.stages)
    found = {name: Field(_ms(took[name]) if name in took else NONE) for name in names}
    return {**found, "sum": Field(_ms(each.stages_sum)), "RTO": _rto(each)}


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
                Field(f"{mine.in_doubt:,}", f"{mine.in_doubt_found:,} of them found" if mine.in_doubt else ""),
                Field(_counts(each.binlog), _apart(each)),
                Field(_counts(each.mirror)),
            ),
            strict=True,
        )
    )  # fmt: skip


def _rto(each: Summary) -> Field:
    if each.rto is None:
        return Field("never" if each.never else NONE)
    text, _, sure = rto_text(each.rto).partition(" (")
    never = [f"{each.never} never"] if each.never else []
    return Field(text, "; ".join([*([sure.removesuffix(")")] if sure else []), *never]))


def _rpo(each: Summary) -> Field:
    rpo = each.losses.rpo
    if rpo is None:
        return Field(NONE)
    # Of one that was the very last the time is 0, but not the number.
    if not each.losses.missing:
        return Field("0")
    text = f"{each.losses.worst:,} {'commit' if each.losses.worst == 1 else 'commits'}"
    return Field(text, f"{_zero(rpo.most)}; median {_zero(rpo.median)}")


def _verdict(each: Summary) -> Field:
    mine = each.losses
    known = mine.ok + mine.lost
    word = status_of(each)
    if not known:
        return Field(word)
    text = f"in {mine.lost} of {known} drills" if mine.lost else ""
    share = mine.losing
    if share is not None and known > 1:
        high = small_percent(share.high) if share.high < 0.001 else percent(share.high)
        text += f"{'; ' if text else ''}95{NBSP}%: {f'{percent(share.low)} to ' if share.low else 'up to '}{high}"
    unknown = f"; {mine.unknown} unknown" if mine.unknown else ""
    return Field(word, text + unknown)


def _gone(each: Summary) -> str:
    mine = each.losses
    more = [f"{count} {word}" for count, word in ((mine.torn, "torn"), (mine.unexpected, "unexpected")) if count]
    return "; ".join([text for text in (share_text(mine),) if text] + more)


def _zero(value: float) -> str:
    return f"0{NBSP}ms" if not value else quantity(value, "s")


def _ms(value: float) -> str:
    return quantity(value, "s") if value < 1 else f"{value:.2f}{NBSP}s"


def _counts(found: Mapping[str, int]) -> str:
    """``in sync``, or with counts where the drills differ."""
    if len(found) < 2:
        return next(iter(found), NONE)
    return ", ".join(f"{count} {status}" for status, count in found.items())


def _apart(each: Summary) -> str:
    parts = [f"behind by up to {each.behind:,}"] if each.behind else []
    return "; ".join(parts + ([f"ahead by up to {each.ahead:,}"] if each.ahead else []))


def _told(drill: Drill, title: str, chart: Chart | None) -> DrillDetail:
    verdict = drill.verdict
    fault = drill.struck
    losses = tuple(
        Loss(str(each.id), _clock(each.acknowledged), _after(each.acknowledged, fault))
        for each in verdict.missing[:MOST_IDS]
    )
    others = (*(f"torn: {text}" for text in verdict.torn), *(_ids("unexpected", verdict.unexpected)))
    events = sorted(drill.events, key=lambda each: each.time)
    stages = tuple(
        (stage.name, _after(stage.start, fault), _ms(stage.end - stage.start)) for stage in drill.stages
    )
    return DrillDetail(
        title, verdict.status, verdict.why, tuple(_facts(drill)), chart, losses,
        len(verdict.missing) - len(losses), others,
        tuple((_after(each.time, fault), each.what, each.said) for each in events[:MOST_EVENTS]),
        max(0, len(events) - MOST_EVENTS), stages, _bins(drill),
    )  # fmt: skip


def _ids(word: str, ids: Sequence[int]) -> list[str]:
    if not ids:
        return []
    more = f" and {len(ids) - MOST_IDS:,} more" if len(ids) > MOST_IDS else ""
    return [f"{word} rows: {', '.join(str(each) for each in ids[:MOST_IDS])}{more}"]


def _facts(drill: Drill) -> list[str]:
    verdict = drill.verdict
    took = f"{drill.survivor} took over" if drill.took_over else "no takeover"
    said = [
        f"{drill.fault} on {drill.active}, {took}; seed {drill.seed}",
        f"{verdict.attempted:,} attempted: {verdict.acknowledged:,} acknowledged, {verdict.refused:,} refused, "
        f"{verdict.in_doubt:,} in doubt, of which {verdict.in_doubt_found:,} were found",
    ]
    if verdict.rpo_seconds is not None and verdict.missing:
        said.append(f"RPO: {len(verdict.missing):,} commits, {_zero(verdict.rpo_seconds)} of them")
    if verdict.bound is not None:
        said.append(f"nothing missing: at most {small_percent(verdict.bound)} of commits (95 %, 3/N)")
    if verdict.rto_seconds is not None:
        parts = sum(stage.end - stage.start for stage in drill.stages)
        more = f"; the stages add up to {_ms(parts)}" if drill.stages else ""
        said.append(f"RTO: {_ms(verdict.rto_seconds)}{more}")
    elif drill.never:
        said.append("RTO: no write was accepted again")
    else:
        why = "no fault struck" if drill.struck is None else "the history does not tell"
        said.append(f"RTO: not known, since {why}")
    if verdict.binlog is not None:
        said.append(f"binary log: {verdict.binlog.status}{f', {why}' if (why := verdict.binlog.why) else ''}")
    if drill.mirror is not None:
        said.append(f"mirror: {_mirror(drill.mirror)}")
    return said


def _mirror(mirror: Mirror) -> str:
    said: list[str] = [mirror.status]
    if mirror.verified is not None:
        said.append(f"{mirror.verified:,} bytes differ by its own comparison")
    if mirror.copies:
        same = len(set(mirror.copies.values())) == 1
        hosts = listed(list(mirror.copies))
        said.append(f"the checksums of {hosts} {'are the same' if same else 'differ'}")
    if mirror.seconds:
        said.append(f"after {_ms(mirror.seconds)}")
    return ", ".join([*said, *([mirror.why] if mirror.why else [])])


def _bins(drill: Drill) -> tuple[tuple[str, ...], ...]:
    if drill.struck is None or not drill.bins:
        return ()
    view = span(drill)
    return tuple(
        (
            f"{view.at(row.time):+.1f}",
            *(f"{count:,}" for count in (row.scheduled, row.acknowledged, row.in_doubt, row.refused)),
            *(NONE if wait is None else f"{1e3 * wait:,.1f}" for wait in (row.p50, row.longest)),
        )
        for row in merged(drill, view)
    )


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S.%f")[:-3]


def _after(time: float, fault: float | None) -> str:
    """``+0.204`` s from the fault; the clock where none struck."""
    return _clock(time) if fault is None else f"{time - fault:+.3f}"

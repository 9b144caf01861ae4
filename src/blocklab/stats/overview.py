"""The answer as a table: each layout's own values under the workloads that matter, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from blocklab.lang import term
from blocklab.model.layer import RawVolumes
from blocklab.model.metrics import metric as metric_of
from blocklab.stats.analysis import Analysis
from blocklab.stats.carried import needs
from blocklab.stats.compare import Item, items
from blocklab.stats.drills import Summary, summaries
from blocklab.stats.findings import describe
from blocklab.stats.format import NBSP, is_throughput, listed, percent, plus_minus, quantity, seconds
from blocklab.stats.ratio import Verdict, verdict
from blocklab.stats.reading import ends
from blocklab.stats.summary import Estimate
from blocklab.stats.values import Row

# What a screen has room for; the section with all results has the rest.
MOST_COLUMNS, MOST_LAYOUTS = 5, 8
# Closer together than this (a part of the largest), the values of all layouts say nothing of what one costs.
ALIKE = 0.02
# A value of at least so much of a cap is the cap's.
_AT_CAP = 0.9

LOST, DOWN = "crashes with loss", "downtime (RTO)"

Bound: TypeAlias = Literal["", "at least", "at most", "unclear"]
"""How a cost is to be read where the lab limits a value: the baseline's, so that the layout costs at least so
much; the layout's own (at most); or both."""


State: TypeAlias = Literal["", "ok", "lost", "unknown"]


class Amount(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value of a layout. ``text`` and ``cost`` are for people. ``value`` and ``half`` (of its 95 % interval)
    are in ``unit``; ``share`` is the ratio to the baseline's, ``bound`` how the cost is limited and ``why``.
    ``state``: whether something was lost, or a need was carried. ``worse``: than the baseline's, as far as one
    build or all of them can tell."""

    text: str
    cost: str = ""
    value: float | None = None
    half: float | None = None
    unit: str = ""
    share: Estimate | None = None
    verdict: Verdict | None = None
    bound: Bound = ""
    why: str = ""
    state: State = ""
    worse: bool = False


class Column(msgspec.Struct, frozen=True):
    """What the values of a column are: of which workload (and phase), and in which words. ``beside``: they are
    another value of the column before, which goes first where there is no room."""

    title: str
    says: str = ""
    beside: bool = False


class Layout(msgspec.Struct, frozen=True):
    """One layout: ``about`` is what tells it from the others, ``amounts`` has a value for each column, or None."""

    label: str
    about: str
    baseline: bool
    amounts: tuple[Amount | None, ...]


class Alike(msgspec.Struct, frozen=True):
    """Workloads whose value is the same on every layout. ``text`` is it; ``cap``: the volume's own limit, where
    that explains it."""

    names: tuple[str, ...]
    text: str
    cap: str = ""

    @property
    def sentence(self) -> str:
        """In words."""
        if self.cap:
            return f"The same on every layout, at the volume's cap of {self.cap}: {listed(self.names)}."
        return f"The same on every layout ({self.text}): {listed(self.names)}."


class Overview(msgspec.Struct, frozen=True):
    """The table. ``alike`` has no place in it; ``more_columns`` and ``more_layouts`` count what there is no
    room for."""

    columns: tuple[Column, ...]
    layouts: tuple[Layout, ...]
    alike: tuple[Alike, ...] = ()
    more_columns: int = 0
    more_layouts: int = 0

    def narrower(self) -> Overview:
        """The same without one of its columns: one beside another, else the last but one."""
        several = range(len(self.columns))
        place = max((at for at in several if self.columns[at].beside), default=max(1, len(self.columns) - 2))
        columns = tuple(each for at, each in enumerate(self.columns) if at != place)
        layouts = tuple(
            msgspec.structs.replace(each, amounts=tuple(one for at, one in enumerate(each.amounts) if at != place))
            for each in self.layouts
        )
        return msgspec.structs.replace(self, columns=columns, layouts=layouts, more_columns=self.more_columns + 1)

    def shorter(self, most: int) -> Overview:
        """The same with so many layouts at most."""
        more = self.more_layouts + max(0, len(self.layouts) - most)
        return msgspec.structs.replace(self, layouts=self.layouts[:most], more_layouts=more)

    @property
    def left_out(self) -> str:
        """What there was no room for, in words; empty where all is there."""
        layouts = f"Layouts not shown: {self.more_layouts}." if self.more_layouts else ""
        columns = f"Columns not shown: {self.more_columns}." if self.more_columns else ""
        return " ".join(filter(None, (layouts, columns)))


class _Drawn(msgspec.Struct, frozen=True):
    """A column and its values by the label of the layout."""

    column: Column
    amounts: dict[str, Amount]


def overview(analysis: Analysis) -> Overview:
    """The table of a study: what was lost and how long it took first, then whether a need is carried, then the
    database's throughput, then all else."""
    compared = [item for item in items(analysis) if item.rows]
    same = alike(analysis)
    names = {name for each in same for name in each.names}
    kept = [item for item in compared if item.label not in names]
    every = [*_drills(analysis), *_needs(analysis), *_items(analysis, kept)]
    shown = _most(every, MOST_COLUMNS)
    stacks = [stack for stack in analysis.stacks if any(stack in each.amounts for each in shown)]
    first_and_last = ends({stack: analysis.stacks[stack] for stack in stacks}) if stacks else set()
    fitting = stacks if len(stacks) <= MOST_LAYOUTS else [stack for stack in stacks if stack in first_and_last]
    layouts = tuple(
        Layout(stack, _about(analysis, stack), stack in analysis.grid.baselines,
               tuple(each.amounts.get(stack) for each in shown))
        for stack in fitting[:MOST_LAYOUTS]
    )  # fmt: skip
    return Overview(
        tuple(each.column for each in shown), layouts, same, len(every) - len(shown), len(stacks) - len(layouts)
    )


def _most(every: Sequence[_Drawn], most: int) -> list[_Drawn]:
    """As many as there is room for: the first ones, and the last."""
    return list(every) if len(every) <= most else [*every[: most - 1], every[-1]]


def _about(analysis: Analysis, stack: str) -> str:
    side = analysis.stacks[stack]
    return describe(side.stack, side.study.links)


# -- values of workloads ------------------------------------------------------------------------------------------


def _items(analysis: Analysis, kept: Sequence[Item]) -> Iterator[_Drawn]:
    room = MOST_COLUMNS - len(kept)
    for item in kept:
        yield _drawn(analysis, item.label, item.rows)
        tails = _tails(analysis, item) if item.transactions and room > 0 else {}
        if tails:
            room -= 1
            yield _drawn(analysis, item.label, tails, beside=True)


def _tails(analysis: Analysis, item: Item) -> dict[str, Row]:
    """The 99th percentile of the same transactions, by layout, where the workload measured it on all of them."""
    rows = (analysis.find(stack, item.workload, "latency.p99", item.phase) for stack in item.rows)
    found = {row.stack: row for row in rows if row is not None and row.own}
    return found if len(found) == len(item.rows) else {}


def _drawn(analysis: Analysis, label: str, rows: Mapping[str, Row], *, beside: bool = False) -> _Drawn:
    metric = next(iter(rows.values())).metric
    amounts = {stack: _amount(analysis, row) for stack, row in rows.items()}
    words = metric_of(metric).words
    # A label names what is no rate.
    return _Drawn(Column(label, words if beside and words not in label else "", beside), amounts)


def _amount(analysis: Analysis, row: Row) -> Amount:
    share = row.relative if row.stack in analysis.others else None
    bound, why = _bound(analysis, row) if share is not None else ("", analysis.limit(row))
    text = plus_minus(row.value, row.half, row.unit, row.metric)
    if share is None:
        return Amount(text, "", row.value, row.half, row.unit, why=why)
    decided = verdict(share)
    worse = decided in ("differs", "one build") and (share.value < 1) == is_throughput(row.metric)
    spent = cost(share, bound, throughput=is_throughput(row.metric))
    return Amount(
        text, spent, row.value, row.half, row.unit, share, decided, bound, why, worse=worse
    )  # fmt: skip


def _bound(analysis: Analysis, row: Row) -> tuple[Bound, str]:
    """How the lab limits what a value costs. Where the baseline could do better, the layout costs more than it
    seems to; where the layout could, it costs less."""
    why = analysis.share_limit(row)
    if not why:
        return "", ""
    own = bool(analysis.limit(row))
    base = not own or why != analysis.limit(row)
    return ("unclear" if own and base else "at most" if own else "at least"), why


def cost(share: Estimate, bound: Bound = "", *, throughput: bool = True) -> str:
    """A ratio as what it costs or gains: ``53 % less``, ``≥ 53 % less``, ``112 % more``. ``throughput``: more is
    better. Where a cost is at least so much, what looks like a gain is at most so much."""
    change = share.value - 1
    head, unit, half = percent(abs(change), share.half).partition(f"{NBSP}%")
    text = f"{'0' if head == '0.0' else head}{half}{unit}"
    signs = {"": "", "at least": "≥ ", "at most": "≤ ", "unclear": "? "}
    if (change < 0) != throughput:
        signs |= {"at least": "≤ ", "at most": "≥ "}
    return signs[bound] + (f"{text} less" if change < 0 else f"{text} more")


def alike(analysis: Analysis) -> tuple[Alike, ...]:
    """What no layout changes: by its value, several workloads together. Never a database's throughput."""
    found: dict[tuple[str, str], list[str]] = {}
    for item in items(analysis):
        values = [row.value for row in item.rows.values()]
        if item.transactions or len(values) < 2 or max(values) - min(values) > ALIKE * max(values):
            continue
        row = next(iter(item.rows.values()))
        cap = _cap(analysis, item)
        text = quantity(sum(values) / len(values), row.unit, row.metric)
        found.setdefault((cap or text, cap), []).append(item.label)
    return tuple(Alike(tuple(names), text, cap) for (text, cap), names in found.items())


def _cap(analysis: Analysis, item: Item) -> str:
    """The volume's own limit that a value has reached on all layouts, in words; empty where it is another."""
    family = metric_of(item.metric).family
    name = {"iops": "iops", "bandwidth": "bandwidth"}.get(family, "")
    caps = set()
    for stack in item.rows:
        lowest = analysis.stacks[stack].stack.layers[0]
        if not name or not isinstance(lowest, RawVolumes):
            return ""
        caps.add(sum(float(getattr(profile, name) or 0) for profile in lowest.profiles()))
    limit = caps.pop() if len(caps) == 1 else 0.0
    row = next(iter(item.rows.values()))
    return quantity(limit, row.unit, row.metric) if limit and row.value >= _AT_CAP * limit else ""


# -- drills, and needs --------------------------------------------------------------------------------------------


def _drills(analysis: Analysis) -> Iterator[_Drawn]:
    """What the crashes of each layout lost, and how long writes were refused."""
    found: dict[str, list[Summary]] = {}
    for each in summaries(analysis):
        found.setdefault(each.point.workload, []).append(each)
    for workload, every in found.items():
        lost, down = ((workload, title) if len(found) > 1 else (title,) for title in (LOST, DOWN))
        yield _Drawn(Column(*lost), {each.point.stack: _lost(each) for each in every})
        yield _Drawn(Column(*down), {each.point.stack: _down(each) for each in every})


def _lost(each: Summary) -> Amount:
    losses = each.losses
    known = losses.ok + losses.lost
    if not known or losses.losing is None:
        return Amount(term("unknown"), state="unknown")
    low, high = percent(losses.losing.low), percent(losses.losing.high)
    sure = f"{low} to {high}" if losses.lost else f"≤ {high}"
    state: State = "lost" if losses.lost else "ok"
    return Amount(f"{losses.lost} of {known}", sure, losses.lost / known, unit="1", state=state)


def _down(each: Summary) -> Amount:
    if each.rto is None:
        return Amount("–", state="unknown")
    if math.isinf(each.rto.median):
        return Amount(term("never"), state="lost")
    return Amount(seconds(each.rto.median), value=each.rto.median, unit="s")


def _needs(analysis: Analysis) -> Iterator[_Drawn]:
    """Whether each layout carries the rate that was asked for."""
    found: dict[str, dict[str, Amount]] = {}
    states: dict[str, State] = {"carried": "ok", "not carried": "lost", "unknown": "unknown"}
    for need in needs(analysis):
        room = "" if need.headroom is None else f"{need.headroom:.1f}x"
        amount = Amount(term(need.base.verdict), room, need.headroom, state=states[need.base.verdict])
        found.setdefault(need.workload, {})[need.stack] = amount
    for workload, amounts in found.items():
        yield _Drawn(Column(workload, "need, and headroom"), amounts)

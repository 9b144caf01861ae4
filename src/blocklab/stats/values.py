"""Every value of a study as one flat table: what the workloads reported, and the probes' means by phase."""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from blocklab.model.metrics import STEADY
from blocklab.model.metrics import metric as metric_of
from blocklab.model.points import Points as Columns
from blocklab.model.sample import Phase, Sample
from blocklab.model.stop import MOST_ROUNDS
from blocklab.rules.settle import Settled, from_rounds, long_run
from blocklab.stats.grid import Grid, Point
from blocklab.stats.ratio import ratio
from blocklab.stats.summary import Estimate, weighted_mean
from blocklab.store.devices import moved_by
from blocklab.store.imported import SITE
from blocklab.store.run import Rate, Run

Points = Sequence[tuple[float, float]]
PROBE_INTERVAL = 1.0
MOST_LOWER = 8


class Row(msgspec.Struct, frozen=True):
    """One value. ``value`` is in ``unit``; ``half`` is the half width of its 95 % interval, over so many
    ``builds`` of the layout, on so many ``machines``; of one build it is that within the run.

    ``stack`` and ``workload`` are labels, which have the levels of a study's factors in them; ``stack_name`` and
    ``workload_name`` are the names in its file, and ``levels`` those levels by factor.

    ``layer`` is who measured. ``relative`` is the ratio to the baseline's value of the same kind, with its
    own half width; None for the baseline's zero or absent value. ``top`` marks the highest block device of the
    stack on its active node, whose name differs between stacks.
    """

    stack: str
    workload: str
    phase: str
    metric: str
    value: float
    unit: str
    layer: str
    host: str
    half: float | None = None
    builds: int = 1
    relative: Estimate | None = None
    top: bool = False
    own: bool = False
    stack_name: str = ""
    workload_name: str = ""
    levels: Mapping[str, str] = {}
    machines: int = 1

    @property
    def estimate(self) -> Estimate:
        """The value with its interval, without the rest."""
        return Estimate(self.value, self.half, self.builds, machines=self.machines)

    @property
    def kind(self) -> tuple[str, str, str, str, str]:
        """What two stacks' rows must share to be compared."""
        layer, host = ("", "") if self.own or self.top else (self.layer, self.host)
        return (self.workload, self.phase, self.metric, layer if not self.top else "(top device)", host)


class Steady(msgspec.Struct, frozen=True):
    """A rate without the warm-up, of which so many seconds were ``skipped``: 0 where it has none."""

    estimate: Estimate
    skipped: float


@dataclass(frozen=True)
class Measured:
    """A good run, its series sorted into lists, and the devices that matter."""

    run: Run
    active: str

    @cached_property
    def _named(self) -> Mapping[tuple[str, str, str, str], tuple[str, Points]]:
        """(host, layer, metric, phase) -> (unit, points by time by the host's own clock)."""
        if self.run.series_by_name is not None:
            return {key: (series.unit, series.points) for key, series in self.run.series_by_name.items()}
        found: dict[tuple[str, str, str, str], tuple[str, list[tuple[float, float]]]] = {}
        for sample in self.run.samples:
            if sample.time is not None:
                key = (sample.host, sample.layer, sample.metric, sample.phase)
                found.setdefault(key, (sample.unit, []))[1].append((sample.time, sample.value))
        return {key: (unit, sorted(points)) for key, (unit, points) in found.items()}

    @cached_property
    def series(self) -> Mapping[tuple[str, str, str, str], Points]:
        """(host, layer, metric, phase) -> (seconds since the epoch by the client's clock, value), by time."""
        return {key: self._by_client(key[0], points) for key, (_, points) in self._named.items()}

    @cached_property
    def client(self) -> str:
        """The host whose clock the phases are told by: the one that the workload ran on."""
        own = (sample.host for sample in self.run.values() if not of_layer(sample))
        return next(own, self.active)

    def _by_client(self, host: str, points: Points) -> Points:
        """A host's points by the clock of the client, as far as the clocks are known to differ."""
        shift = self.run.stack.shift(host, self.client)
        if not shift:
            return points
        if isinstance(points, Columns):
            return points.later(shift)
        return [(time + shift, value) for time, value in points]

    def probe(self, host: str, layer: str, metric: str) -> Points:
        """One probe's series; empty when there is none."""
        return self.series.get((host, layer, metric, ""), [])

    @cached_property
    def probed(self) -> Mapping[tuple[str, str, str], str]:
        """(host, layer, metric) of each probe's series -> its unit."""
        workloads = {(sample.layer, sample.metric) for sample in self.run.values() if not of_layer(sample)}
        return {
            (host, layer, metric): unit
            for (host, layer, metric, phase), (unit, _) in self._named.items()
            if not phase and (layer, metric) not in workloads
        }

    @cached_property
    def decided(self) -> Mapping[tuple[str, str], Rate]:
        """(phase, metric) -> what the stopping rule knew of that rate."""
        return {(each.phase, rate.metric): rate for each in self.run.stops for rate in each.rates}

    @cached_property
    def spreads(self) -> Mapping[tuple[str, str, str, str], tuple[float, ...]]:
        """(phase, metric, layer, host) -> the value's value in each round."""
        return {(each.phase, each.metric, each.layer, each.host): each.values for each in self.run.rounds}

    @property
    def by_snia(self) -> bool:
        """Whether it was measured until SNIA's steady state."""
        return bool(self.run.cell.spec.get("workload", {}).get("stop") == "snia")

    @property
    def imported(self) -> bool:
        """Whether its values are somebody else's, taken from logs."""
        return self.run.environment.get("site") == SITE

    @cached_property
    def steady(self) -> Mapping[tuple[str, str], Steady]:
        """(phase, metric) -> an imported rate's part without its warm-up, where its time series shows that. The
        rate itself stays what the tool says."""
        if not self.imported:
            return {}
        found = {}
        for sample in self.run.values():
            points = own_series(self, sample) if metric_of(sample.metric).kind == "rate" else []
            part = long_run([value for _, value in points], PROBE_INTERVAL, math.inf, 0.0)
            if part.settled and part.half and part.value:
                skipped = points[part.cut - 1][0] - points[0][0] + interval(points) if part.cut else 0.0
                estimate = Estimate(part.value, part.half) if part.cut else sure(self, sample)
                found[sample.phase, sample.metric] = Steady(estimate, skipped)
        return found

    @property
    def start(self) -> float | None:
        """When the workload began (seconds since the epoch), None when nothing tells."""
        return min((phase.start for phase in self.run.phases), default=None)

    @cached_property
    def device(self) -> str:
        """The highest block device of the stack on its active node, e.g. ``drbd0``; empty when unknown."""
        levels = self.run.stack.devices(self.active)
        moved = self._moved.get(self.active, {})
        return max(levels[-1], key=lambda name: moved.get(name, 0.0)) if levels else ""

    def levels(self, host: str) -> tuple[tuple[str, ...], ...]:
        """The devices of the stack on a host below its highest one that moved anything, by level, from the top
        down."""
        moved = self._moved.get(host, {})
        skipped = self.device if host == self.active else ""
        found = (
            tuple(name for name in sorted(level) if moved.get(name) and name != skipped)
            for level in reversed(self.run.stack.devices(host))
        )
        return tuple(level for level in found if level)

    def lower(self, host: str) -> tuple[str, ...]:
        """The same, one after the other."""
        return tuple(name for level in self.levels(host) for name in level)[:MOST_LOWER]

    def busiest(self, host: str) -> tuple[str, ...]:
        """The same, but of several side by side, such as a stripe's volumes, the one with the most traffic."""
        moved = self._moved.get(host, {})
        return tuple(max(level, key=lambda name: moved[name]) for level in self.levels(host))

    @cached_property
    def _moved(self) -> Mapping[str, Mapping[str, float]]:
        """The bytes that went through each block device of each host."""
        return moved_by(self.run)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes that probes watched, the active one first."""
        found = sorted({host for host, layer, _, _ in self.series if layer == "cpu"})
        return tuple(sorted(found, key=lambda host: (host != self.active, host)))


def of_layer(sample: Sample) -> bool:
    """Whether a value is the kernel's count at a layer (``judge.crosscheck``) rather than the workload's own."""
    return metric_of(sample.metric).counted


def rows(places: Grid, runs: Mapping[tuple[str, str], Measured]) -> tuple[Row, ...]:
    """Every value of the good runs, each with its ratio to the baseline's, in the order of the study."""
    points = {(point.stack, point.workload): point for point in places.points}
    plain = [
        (points[at], row)
        for stack in places.stacks
        for workload in places.workloads
        if (at := (stack, workload)) in runs
        for row in rows_of(points[at], runs[at])
    ]
    base = {(row.stack, row.kind): row for _, row in plain if row.stack in places.baselines}
    return tuple(_with_relative(row, base.get((places.base(point), row.kind))) for point, row in plain)


def _with_relative(row: Row, base: Row | None) -> Row:
    if base is None:
        return row
    if row is base:
        return msgspec.structs.replace(row, relative=Estimate(1.0) if base.value else None)
    return msgspec.structs.replace(row, relative=ratio(row.estimate, base.estimate))


def rows_of(point: Point, measured: Measured) -> Iterator[Row]:
    """Every value of one run, without ratios."""
    stack, workload = point.stack, point.workload
    where: dict[str, Any] = {
        "stack_name": point.stack_name, "workload_name": point.workload_name, "levels": point.levels,
    }  # fmt: skip
    for sample in measured.run.values():
        known = sure(measured, sample)
        top = (sample.layer, sample.host) == (measured.device, measured.active)
        yield Row(
            stack, workload, sample.phase, sample.metric, known.value, sample.unit, sample.layer, sample.host,
            half=known.half, own=not of_layer(sample), top=of_layer(sample) and top, **where,
        )  # fmt: skip
    yield from _steady_rows(point, measured, where)
    named = {sample.phase for sample in measured.run.values() if not of_layer(sample)}
    # One for each round of the phase.
    windows: dict[str, list[Phase]] = {}
    for phase in measured.run.phases:
        windows.setdefault(phase.name, []).append(phase)
    for phase_name, rounds in windows.items():
        # A workload without phases reports its values without a name; the probes' means go beside them.
        name = phase_name if phase_name in named else ""
        for host, layer, mean, value, unit in _probe_means(measured, rounds):
            top = layer == measured.device and host == measured.active
            yield Row(stack, workload, name, mean, value, unit, layer, host, top=top, **where)


def _steady_rows(point: Point, measured: Measured, where: Mapping[str, Any]) -> Iterator[Row]:
    for sample in measured.run.values():
        part = measured.steady.get((sample.phase, sample.metric))
        if part is not None:
            yield Row(
                point.stack, point.workload, sample.phase, f"{sample.metric}{STEADY}", part.estimate.value,
                sample.unit, sample.layer, sample.host, half=part.estimate.half, own=True, **where,
            )  # fmt: skip


def told_apart(tables: Sequence[Sequence[Row]]) -> list[tuple[Row, ...]]:
    """The tables without the steady parts of rates that no run has a warm-up of: they are the rates themselves."""

    def rate(row: Row) -> tuple[str, ...]:
        return row.workload, row.phase, row.metric.removesuffix(STEADY)

    warm: set[tuple[str, ...]] = set()
    for table in tables:
        whole = {
            (row.stack, *rate(row)): row.value for row in table if row.own and not row.metric.endswith(STEADY)
        }
        parts = [row for row in table if row.metric.endswith(STEADY)]
        warm |= {rate(row) for row in parts if row.value != whole.get((row.stack, *rate(row)))}
    return [
        tuple(row for row in table if not row.metric.endswith(STEADY) or rate(row) in warm) for table in tables
    ]


def sure(measured: Measured, sample: Sample) -> Estimate:
    """A workload's value with its interval: as the rule found it, else from its rounds, else from its time
    series."""
    rounds = measured.spreads.get((sample.phase, sample.metric, sample.layer, sample.host), ())
    # One round alone (a fixed time) tells nothing of its own spread; its time series may.
    alone = len(rounds) == 1
    if not alone and (found := measured.decided.get((sample.phase, sample.metric))):
        # Without what the rule took for warm-up.
        return Estimate(sample.value if found.value is None else found.value, found.half)
    known = metric_of(sample.metric)
    leader = known.share_of
    if not rounds and known.goes_with:
        leader = known.beside(known.goes_with)
    if not alone and (rate := measured.decided.get((sample.phase, leader))):
        return _like(sample, rate, measured.run.value(leader, sample.phase))
    if len(rounds) > 1:
        if known.kind in ("counter", "extreme"):
            return Estimate(sample.value)
        # Without a cold first round, as the rates are; but SNIA's window is whole.
        kept = from_rounds(rounds, math.inf if measured.by_snia else 0.02, 2, MOST_ROUNDS)
        # A percentile is that of all rounds' operations; how much it differs from round to round is its interval.
        centre = sample.value if kept.value is None or known.kind == "percentile" else kept.value
        return Estimate(centre, kept.half)
    if not known.averaged:
        # Its time series is another quantity: errors in each second, each second's own percentile.
        return Estimate(sample.value)
    judged = long_run([value for _, value in own_series(measured, sample)], PROBE_INTERVAL, math.inf, 0.0)
    return _of_series(sample, judged, whole=measured.imported)


def own_series(measured: Measured, sample: Sample) -> Points:
    """The time series of a workload's value."""
    return measured.series.get((sample.host, sample.layer, sample.metric, sample.phase), [])


def _of_series(sample: Sample, found: Settled, *, whole: bool) -> Estimate:
    """A value of a fixed time by its seconds, as a long run is judged; without an interval where these are too
    few, correlated, shifted or drifting. ``whole``: a total that some tool counted stays that, warm-up and all
    (``Measured.steady`` has the rest)."""
    if not found.settled or not found.half or not found.value:
        return Estimate(sample.value)
    if not found.cut:
        return Estimate(sample.value, abs(sample.value * found.half / found.value))
    # Of a latency the whole run's value stays, of which the rest without the warm-up says nothing.
    cut = metric_of(sample.metric).kind == "rate" and not whole
    return Estimate(found.value, found.half) if cut else Estimate(sample.value)


def _like(sample: Sample, rate: Rate, whole: Sample | None) -> Estimate:
    """New orders are a fixed share of all transactions, and bytes go with I/Os: such a value is as sure as the
    ``rate`` that decided, and without the same warm-up. ``whole``: that rate with it."""
    if not rate.value or whole is None or not whole.value:
        return Estimate(sample.value)
    value = sample.value * rate.value / whole.value
    return Estimate(value, rate.half and value * rate.half / rate.value)


def _probe_means(measured: Measured, rounds: Sequence[Phase]) -> Iterator[tuple[str, str, str, float, str]]:
    cpu: dict[str, dict[str, float]] = {}
    # A metric of no requests has no point: what one of a layer's series tells of the steps holds for all of them.
    steps: dict[tuple[str, str], float] = {}
    for host, layer, name in measured.probed:
        step = interval(measured.probe(host, layer, name))
        steps[host, layer] = min(step, steps.get((host, layer), step))
    for (host, layer, name), unit in measured.probed.items():
        series = measured.probe(host, layer, name)
        late = metric_of(name).late
        points = _joined([within(series, phase, late, steps[host, layer]) for phase in rounds])
        value = _mean(measured, host, layer, name, points)
        if value is None:
            continue
        yield host, layer, name, value, unit
        if layer == "cpu":
            cpu.setdefault(host, {})[name] = value
    for host, shares in cpu.items():
        if "cpu.idle" in shares:
            busy = 100 - shares["cpu.idle"] - shares.get("cpu.iowait", 0.0)
            yield host, "cpu", "cpu.busy", busy, "%"


def interval(points: Points) -> float:
    """How many seconds each of a probe's points stands for.

    Ours report each second, give or take a little; what somebody else recorded (``iostat 10``) tells by the
    shortest steps between its times, since a device at rest may have no report.
    """
    # Not above: commands that read no runs need not wait for it.
    import numpy as np

    times = points.times if isinstance(points, Columns) else np.array([time for time, _ in points])
    steps = np.sort(np.diff(times))
    step = float(steps[len(steps) // 10]) if len(steps) else PROBE_INTERVAL
    return step if step >= 1.5 * PROBE_INTERVAL else PROBE_INTERVAL


def within(points: Points, phase: Phase, late: float = 0.0, step: float = PROBE_INTERVAL) -> Points:
    """Of points by time those that surely lie in the phase as a whole: each stands for the ``step`` seconds before
    it.

    ``late``: by how many seconds a point may be later than its time says.
    """
    first = bisect.bisect_left(points, (phase.start + step, -math.inf))
    last = bisect.bisect_right(points, (phase.end - late, math.inf))
    return points[first:last]


def _mean(measured: Measured, host: str, layer: str, name: str, points: Points) -> float | None:
    if not points:
        return None
    known = metric_of(name)
    if known.weight:
        # A second with 3 requests must not count as much as one with 3,000.
        counts = dict(measured.probe(host, layer, known.beside(known.weight)))
        weights = [counts.get(time, 0.0) for time, _ in points]
        return weighted_mean(_values(points), weights)
    return statistics.fmean(_values(points))


def _joined(parts: Sequence[Points]) -> Points:
    """The points of several phases."""
    if len(parts) == 1:
        return parts[0]
    return [point for part in parts for point in part]


def _values(points: Points) -> list[float]:
    if isinstance(points, Columns):
        return list(points.values.tolist())
    return [value for _, value in points]


def find(table: Iterable[Row], stack: str, workload: str, metric: str, phase: str, host: str = "") -> Row | None:
    """The workload's own value, else that of the stack's top device, else the one that ``host`` has; or None.

    With ``host`` only what was measured there counts.
    """
    matching = [
        row
        for row in table
        if (row.stack, row.workload, row.metric, row.phase) == (stack, workload, metric, phase)
        and host in ("", row.host)
    ]
    own = [row for row in matching if row.own]
    top = [row for row in matching if row.top]
    named = [row for row in matching if host]
    return next(iter(own + top + named), None)

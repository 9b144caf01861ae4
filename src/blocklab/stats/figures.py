"""Every figure of a study as one flat table: what the loads reported, and the probes' means by phase."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from blocklab.model.sample import Phase
from blocklab.stats.ratio import ratio
from blocklab.stats.summary import Estimate, batch_means, weighted_mean
from blocklab.store.run import Run
from blocklab.study.types import Study

Points = list[tuple[float, float]]
PROBE_INTERVAL = 1.0
# iostat prints the time of a report without its fraction of a second. The probe starts it just after a whole
# second (node/aligned.py), and it drifts by a few ms a second: a point may be this much later than it says.
IOSTAT_SLACK = 0.2
_IOSTAT = ("await", "iops", "bandwidth", "queue", "util")


class Row(msgspec.Struct, frozen=True):
    """One figure. ``value`` is in ``unit``; ``half`` is the half width of its 95 % interval within the run.

    ``layer`` is who measured. ``relative`` is the ratio to the baseline's figure of the same kind, with its
    own half width; None for the baseline's zero or absent figure. ``top`` marks the highest block device of the
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
    relative: Estimate | None = None
    top: bool = False
    load: bool = False

    @property
    def estimate(self) -> Estimate:
        """The value with its interval, without the rest."""
        return Estimate(self.value, self.half)

    @property
    def kind(self) -> tuple[str, str, str, str, str]:
        """What two stacks' rows must share to be compared."""
        layer, host = ("", "") if self.load or self.top else (self.layer, self.host)
        return (self.workload, self.phase, self.metric, layer if not self.top else "(top device)", host)


@dataclass(frozen=True)
class Measured:
    """A good run, its series sorted into lists, and the devices that matter."""

    run: Run
    active: str

    @cached_property
    def series(self) -> Mapping[tuple[str, str, str, str], Points]:
        """(host, layer, metric, phase) -> (seconds since the epoch, value), by time."""
        found: dict[tuple[str, str, str, str], Points] = {}
        for sample in self.run.samples:
            if sample.time is not None:
                key = (sample.host, sample.layer, sample.metric, sample.phase)
                found.setdefault(key, []).append((sample.time, sample.value))
        for points in found.values():
            points.sort()
        return found

    def probe(self, host: str, layer: str, metric: str) -> Points:
        """One probe's series; empty when there is none."""
        return self.series.get((host, layer, metric, ""), [])

    @property
    def start(self) -> float | None:
        """When the load began (seconds since the epoch), None when nothing tells."""
        return min((phase.start for phase in self.run.phases), default=None)

    @cached_property
    def device(self) -> str:
        """The highest block device of the stack on its active node, e.g. ``drbd0``; empty when unknown."""
        for knob in self.run.knobs:
            # What the file system says that it is mounted on is the one sure word.
            if knob.name == "device" and knob.host == self.active and knob.value.startswith("/dev/"):
                return knob.value.removeprefix("/dev/")
        mirrored = any(layer.get("layer") == "drbd" for layer in self.run.cell.spec["stack"]["layers"])
        return self.busiest(self.active, mirror=mirrored)

    def busiest(self, host: str, *, mirror: bool = False) -> str:
        """The device with the most writes on a host, among the mirrors or among the others; empty without any."""
        written = {
            layer: sum(value for _, value in points)
            for (at, layer, metric, _), points in self.series.items()
            if at == host and metric == "write.bandwidth" and layer.startswith("drbd") == mirror and layer != "fio"
        }
        best = max(written, key=lambda layer: written[layer], default="")
        return best if written.get(best) else ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes that probes watched, the active one first."""
        found = sorted({host for host, layer, _, _ in self.series if layer == "cpu"})
        return tuple(sorted(found, key=lambda host: (host != self.active, host)))


def rows(study: Study, runs: Mapping[tuple[str, str], Measured], baseline: str) -> tuple[Row, ...]:
    """Every figure of the good runs, each with its ratio to the baseline's, in the order of the study."""
    plain = [
        row
        for stack in study.stacks
        for workload in study.workloads
        if (stack, workload) in runs
        for row in _rows_of(stack, workload, runs[stack, workload])
    ]
    base = {row.kind: row for row in plain if row.stack == baseline}
    return tuple(_with_relative(row, base.get(row.kind)) for row in plain)


def _with_relative(row: Row, base: Row | None) -> Row:
    if base is None:
        return row
    if row is base:
        return msgspec.structs.replace(row, relative=Estimate(1.0) if base.value else None)
    return msgspec.structs.replace(row, relative=ratio(row.estimate, base.estimate))


def _rows_of(stack: str, workload: str, measured: Measured) -> Iterator[Row]:
    for sample in measured.run.figures():
        own = measured.series.get((sample.host, sample.layer, sample.metric, sample.phase), [])
        yield Row(
            stack, workload, sample.phase, sample.metric, sample.value, sample.unit, sample.layer, sample.host,
            half=batch_means([value for _, value in own]), load=True,
        )  # fmt: skip
    phases = measured.run.phases
    named = {sample.phase for sample in measured.run.figures()}
    for phase in phases:
        # A load without phases reports its figures without a name; the probes' means go beside them.
        name = phase.name if phase.name in named else ""
        for host, layer, metric, value, unit in _probe_means(measured, phase):
            top = layer == measured.device and host == measured.active
            yield Row(stack, workload, name, metric, value, unit, layer, host, top=top)


def _probe_means(measured: Measured, phase: Phase) -> Iterator[tuple[str, str, str, float, str]]:
    units = {
        (sample.host, sample.layer, sample.metric): sample.unit
        for sample in measured.run.samples
        if sample.time is not None and not sample.phase
    }
    loads = {(sample.layer, sample.metric) for sample in measured.run.figures()}
    cpu: dict[str, dict[str, float]] = {}
    for (host, layer, metric), unit in units.items():
        if (layer, metric) in loads:
            continue
        points = within(measured.probe(host, layer, metric), phase, slack(layer, metric))
        value = _mean(measured, host, layer, metric, points)
        if value is None:
            continue
        yield host, layer, metric, value, unit
        if layer == "cpu":
            cpu.setdefault(host, {})[metric] = value
    for host, shares in cpu.items():
        if "cpu.idle" in shares:
            busy = 100 - shares["cpu.idle"] - shares.get("cpu.iowait", 0.0)
            yield host, "cpu", "cpu.busy", busy, "%"


def slack(layer: str, metric: str) -> float:
    """By how many seconds at most a probe's point may be later than its time says."""
    watched = not metric.startswith(("rx.", "tx.")) and layer != "cpu"
    return IOSTAT_SLACK if watched and metric.rpartition(".")[2] in _IOSTAT else 0.0


def within(points: Points, phase: Phase, late: float = 0.0) -> Points:
    """The points whose whole interval surely lies in the phase: a point stands for the second before it.

    ``late``: by how many seconds a point may be later than its time says.
    """
    return [point for point in points if phase.start + PROBE_INTERVAL <= point[0] <= phase.end - late]


def _mean(measured: Measured, host: str, layer: str, metric: str, points: Points) -> float | None:
    if not points:
        return None
    if metric.endswith(".await"):
        # A second with 3 requests must not count as much as one with 3,000.
        counts = dict(measured.probe(host, layer, metric.removesuffix("await") + "iops"))
        weights = [counts.get(time, 0.0) for time, _ in points]
        return weighted_mean([value for _, value in points], weights)
    return statistics.fmean(value for _, value in points)


def find(table: Iterable[Row], stack: str, workload: str, metric: str, phase: str, host: str = "") -> Row | None:
    """The load's own figure, else that of the stack's top device, else that of ``host``; None without one."""
    matching = [
        row
        for row in table
        if (row.stack, row.workload, row.metric, row.phase) == (stack, workload, metric, phase)
    ]
    own = [row for row in matching if row.load]
    top = [row for row in matching if row.top]
    named = [row for row in matching if host and row.host == host]
    return next(iter(own + top + named), None)

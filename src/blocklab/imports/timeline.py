"""A workload by what watched it alone: one run or its phases, and the device's values in each."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import msgspec
import numpy as np

from blocklab.errors import StudyError
from blocklab.formats.host import identity
from blocklab.formats.load.fio.options import runtime
from blocklab.imports import phases as points
from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Phase, Sample
from blocklab.model.watched import Watched, together
from blocklab.workloads.fio_jobs import Section, sections

LAYER = "iostat"
# A probe's point may be so much later than its whole second says (stats.values).
SLACK = 0.2
# What a time loses when the step is taken off it and put on again.
HAIR = 0.001
# A job takes as long as its runtime says, and a little for its start.
_LATE, _OFF = 3.0, 0.15
# A device that stands on others is the one that the workload saw.
_UPPER = ("drbd", "md", "dm-")
_MOVED = ("read.bandwidth", "write.bandwidth")
# iostat -x -s does not tell reads from writes at all.
_BOTH = "bandwidth"
WAYS = ("read", "write")
# A workload without phases of its own is one phase of this name, on every stack.
RUN = "run"
# An idle gap parts two runs of at least ``_BUSY`` s from ``_GAP`` s on where their rates differ, else from
# ``_LONG_GAP`` on: a database may stand still for seconds.
_GAP, _LONG_GAP, _BUSY = 10.0, 30.0, 30.0
# Below this part of all requests, those of one direction may be somebody else's.
_ODD = 0.02
# Of two devices the one with the bytes counts; one that stands on another moves about as many.
_LIKE = 0.5


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """The time line of a workload that left no log of its own: what the device did that it stood on. ``spans`` are
    the parts that its changes show, whatever they are."""

    stack: str
    host: str
    device: str
    series: Watched
    seconds: tuple[points.Second, ...]
    spans: tuple[points.Span, ...]
    step: float

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """First and last place of each busy stretch; there is one."""
        return list(points.stretches(self.seconds))

    def times(self, span: points.Span) -> tuple[float, float]:
        """From when to when, a hair wider, so that the analysis takes just these seconds as whole ones."""
        return self.seconds[span.first].time - self.step - HAIR, self.seconds[span.last].time + SLACK

    def length(self, span: points.Span) -> float:
        """In seconds."""
        return (span.last - span.first + 1) * self.step


class Phases(msgspec.Struct, frozen=True):
    """The phases by time, the device's values and time series in each, and what is to be said of them."""

    phases: tuple[Phase, ...]
    values: tuple[Sample, ...]
    series: tuple[Watched, ...]
    said: tuple[str, ...]


def job_file(path: str, text: str) -> list[Section]:
    """The jobs of a fio job file, in order. Raises ``StudyError``."""
    found, _ = sections(text)
    if not found:
        raise StudyError("", f"--jobs {path}: there is no [section] in it", hint="it is a fio job file")
    return found


def devices(watched: Sequence[Watched], host: str) -> list[str]:
    """The block devices of a host that were watched, whether they did anything or not."""
    return list(
        dict.fromkeys(
            each.layer
            for each in watched
            if each.host == host and any(metric_of(metric).of in ("read", "write") for metric in each.values)
        )
    )


def moved_by(watched: Sequence[Watched]) -> dict[tuple[str, str], float]:
    """The bytes of each device, by host and device, without those whose requests another one counts too."""
    mine = [
        each for each in watched if not each.phase and any(metric in each.values for metric in (*_MOVED, _BOTH))
    ]
    found: dict[tuple[str, str], float] = {}
    for host in dict.fromkeys(each.host for each in mine):
        here = [each for each in mine if each.host == host]
        twice = identity.doubles({each.layer: _moved(each) for each in here}).of
        for each in here:
            if each.layer not in twice:
                amount = sum(each.total(metric) for metric in (*_MOVED, _BOTH))
                found[host, each.layer] = found.get((host, each.layer), 0.0) + amount
    return found


def _moved(watched: Watched) -> identity.Moved:
    nothing = np.zeros(len(watched.times))
    requests, amount = (
        sum((np.nan_to_num(watched.values[metric]) for metric in metrics if metric in watched.values), nothing)
        for metrics in (("iops", "read.iops", "write.iops"), (*_MOVED, _BOTH))
    )
    return identity.Moved(watched.times, requests, amount)


def device_of(watched: Sequence[Watched], only: str = "") -> tuple[str, str]:
    """(host, device) that the workload saw: the one with most bytes, or the mirror or stripe that stands on it and
    moves at least half as many. ``only`` is the device where that is known. Both are empty where none was busy."""
    if only:
        watched = [each for each in watched if each.layer == only]
    moved = moved_by(watched)
    most = max(moved.values(), default=0.0)
    busy = {key: amount for key, amount in moved.items() if amount > 0 and amount >= _LIKE * most}

    def rank(key: tuple[str, str]) -> tuple[int, float]:
        kind = next((n for n, start in enumerate(_UPPER) if key[1].startswith(start)), len(_UPPER))
        return -kind, busy[key]

    return max(busy, key=rank, default=("", ""))


def series_of(watched: Sequence[Watched], host: str, device: str) -> Watched:
    """A device's time series."""
    mine = [each for each in watched if (each.host, each.layer) == (host, device) and not each.phase]
    return together(mine) if mine else Watched(device, host, np.empty(0), {}, {})


def line_of(stack: str, watched: Sequence[Watched], only: str = "") -> Line | None:
    """The time line of the device that the workload saw, or of the ``only`` one that counts; None where none was
    busy."""
    host, device = device_of(watched, only)
    series = series_of(watched, host, device)
    if not len(series.times) and not only and not _single(watched):
        host, device, series = _all_disks(watched)
    seconds = points.seconds(series)
    if not any(points.stretches(seconds)):
        return None
    return Line(
        stack=stack, host=host, device=device, series=series, seconds=tuple(seconds),
        spans=tuple(points.spans(seconds)), step=points.step([each.time for each in seconds]),
    )  # fmt: skip


def _single(watched: Sequence[Watched]) -> bool:
    """Whether single disks were watched."""
    return any(metric_of(metric).of in WAYS for each in watched for metric in each.values)


def _all_disks(watched: Sequence[Watched]) -> tuple[str, str, Watched]:
    """All disks of a host together, where no single one was watched (vmstat, sar -b): the host, what they are
    called, and their series under the names of a device's."""
    name = "all disks together"
    mine = [
        each for each in watched
        if any(metric_of(metric).of in ("disk.read", "disk.write") for metric in each.values)
    ]  # fmt: skip
    host = mine[0].host if mine else ""
    named = [
        msgspec.structs.replace(
            each, layer=name, phase="",
            values={metric.removeprefix("disk."): column for metric, column in each.values.items()},
            units={metric.removeprefix("disk."): unit for metric, unit in each.units.items()},
        )
        for each in mine
        if each.host == host
    ]  # fmt: skip
    return host, name, together(named) if named else series_of((), host, name)


def cpus_alone(stack: str, watched: Sequence[Watched]) -> Phases | None:
    """One run over all times of a host of which nothing but CPUs was watched, or whose disks were idle all of the
    time; None where single devices were, or no CPU."""
    times = sorted({time for each in watched if each.layer == "cpu" for time in each.times.tolist()})
    if _single(watched) or len(times) < 2:
        return None
    apart = points.step(times)
    said = f"{stack}: one run of {times[-1] - times[0] + apart:.0f} s, in which CPUs alone tell of a workload"
    return Phases((Phase(RUN, times[0] - apart - HAIR, times[-1] + SLACK),), (), (), (said,))


def phases_of(lines: Sequence[Line], jobs: Sequence[Section]) -> list[Phases]:
    """The phases of one workload on each of the stacks that ``lines`` are of.

    Changes alone are no phases: a database's rate changes at each checkpoint. With a job file they are, where they
    fit its jobs, and have these names. Without one a workload is one phase, ``RUN``; besides, it has parts where
    an idle gap or the same sequence on every stack shows that these were run one by one. Nothing tells whether the
    parts of two stacks are alike, so each stack's have names of their own and are not compared.
    """
    if jobs:
        return [_of_jobs(line, jobs) for line in lines]
    return [_made(line, _parts(line, lines)) for line in lines]


def _of_jobs(line: Line, jobs: Sequence[Section]) -> Phases:
    why = _unlike(line, jobs)
    if why:
        return _made(line, [], f"{line.stack}: {why}: it stays one run")
    named = [(job.name, span) for job, span in zip(jobs, line.spans, strict=True)]
    kept = sum(span.last - span.first + 1 for span in line.spans)
    told = _told(line, named)
    said = (
        f"{line.stack}: the job file's {len(jobs)} jobs found in the time line of {line.device} ({kept} of "
        f"{len(line.seconds)} intervals; what falls between them is left out): {told}"
    )
    return _filled(line, named, [said])


def _unlike(line: Line, jobs: Sequence[Section]) -> str:
    """Why the parts that changes show are not the jobs; empty where they are."""
    if len(jobs) != len(line.spans):
        return (
            f"the job file has {len(jobs)} jobs, but the time line of {line.device} shows {len(line.spans)} parts"
        )
    for number, (span, job) in enumerate(zip(line.spans, jobs, strict=True), 1):
        try:
            wanted = runtime(job.options)
        except ValueError:
            wanted = None
        length = line.length(span)
        # A job with a size may end before its runtime.
        sized = "size" in job.options and job.options.get("time_based", "0") == "0"
        short = wanted is not None and not sized and length < wanted * (1 - _OFF) - _LATE
        if wanted is not None and (short or length > wanted * (1 + _OFF) + _LATE):
            return f"part {number} took {length:.0f} s, but job {job.name} runs for {wanted:.0f} s"
    return ""


def _made(line: Line, parts: Sequence[points.Span], why: str = "") -> Phases:
    """One run, and its ``parts`` by names of the stack's own."""
    whole = points.trimmed(line.seconds, line.stretches[0][0], line.stretches[-1][1])
    named = [(RUN, whole), *((f"{line.stack}-{number}", part) for number, part in enumerate(parts, 1))]
    said = [why] if why else []
    kept = whole.last - whole.first + 1
    said.append(
        f"{line.stack}: one run of {line.length(whole):.0f} s in the time line of {line.device} ({kept} of "
        f"{len(line.seconds)} intervals)"
    )
    if parts:
        inside = sum(part.last - part.first + 1 for part in parts)
        said.append(
            f"{line.stack}: {len(parts)} parts of it, not compared with those of other stacks (--jobs FILE tells "
            f"what they are): {_told(line, named[1:])}; {kept - inside} intervals are between them"
        )
    return _filled(line, named, said)


def _told(line: Line, named: Sequence[tuple[str, points.Span]]) -> str:
    return ", ".join(f"{name} {line.length(span):.0f} s" for name, span in named)


def _filled(line: Line, named: Sequence[tuple[str, points.Span]], said: Sequence[str]) -> Phases:
    values: list[Sample] = []
    series = []
    for name, span in named:
        means, mine = _values(line.series.at(slice(span.first, span.last + 1)), name, line.host)
        values += means
        series.append(mine)
    phases = tuple(Phase(name, *line.times(span)) for name, span in named)
    return Phases(phases, tuple(values), tuple(series), tuple(said))


def _parts(line: Line, lines: Sequence[Line]) -> list[points.Span]:
    """What was run one by one: the same sequence on every stack, or what idle gaps part."""
    if len(lines) > 1 and _sequence(line) and all(_same(line, other) for other in lines):
        return list(line.spans)
    found = [line.stretches[0]]
    for first, last in line.stretches[1:]:
        if _gap(line, found[-1], (first, last)):
            found.append((first, last))
        else:
            found[-1] = (found[-1][0], last)
    return [points.trimmed(line.seconds, *each) for each in found] if len(found) > 1 else []


def _gap(line: Line, before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether an idle gap parts two runs: a long one, or a shorter one between two of other rates. What stalls
    goes on as before."""
    idle = (after[0] - before[1] - 1) * line.step
    busy = min(line.length(points.Span(*each)) for each in (before, after))
    if idle < _GAP or busy < _BUSY:
        return False
    return idle >= _LONG_GAP or not _level(line, points.Span(*before), points.Span(*after))


def _level(line: Line, one: points.Span, other: points.Span) -> bool:
    """Whether two parts have the same rates."""
    rates = [
        (statistics.median(each.iops for each in part), statistics.median(each.bandwidth for each in part))
        for part in (line.seconds[one.first : one.last + 1], line.seconds[other.first : other.last + 1])
    ]
    return all(abs(math.log(max(a, 1e-9) / max(b, 1e-9))) <= points.SHIFT for a, b in zip(*rates, strict=True))


def _sequence(line: Line) -> bool:
    """Whether the parts follow one another as jobs do: not every second one alike, as with checkpoints."""
    spans = line.spans
    return len(spans) > 1 and not (
        len(spans) > 2 and all(_level(line, one, other) for one, other in zip(spans, spans[2:], strict=False))
    )


def _same(line: Line, other: Line) -> bool:
    """Whether two stacks show parts of the same lengths."""
    return len(line.spans) == len(other.spans) and all(
        abs(line.length(one) - other.length(two)) <= _OFF * line.length(one) + _LATE
        for one, two in zip(line.spans, other.spans, strict=True)
    )


def _values(series: Watched, phase: str, host: str) -> tuple[list[Sample], Watched]:
    """The device's rates in a phase, as a workload's own: it is all that is known of the workload. Their means,
    and their series."""
    # sar -d and iostat without -x tell reads from writes in bytes only.
    known = "iops" if any(f"{way}.iops" in series.values for way in WAYS) else "bandwidth"
    rates = {way: np.nan_to_num(series.values.get(f"{way}.{known}", np.zeros(len(series.times)))) for way in WAYS}
    total = sum(float(each.mean()) for each in rates.values())
    metrics = (
        [] if known == "iops" else ["iops"] if any(each in series.values for each in _MOVED) else ["iops", _BOTH]
    )
    for way in WAYS:
        if not np.median(rates[way]) and rates[way].mean() < _ODD * total:
            # A few in some of its seconds are somebody else's.
            continue
        metrics += [f"{way}.iops", f"{way}.bandwidth"]
    kept = [metric for metric in metrics if metric in series.values and len(series.points(metric)[0])]
    means = [
        Sample(metric, float(np.nanmean(series.values[metric])), series.units[metric], LAYER, host, phase)
        for metric in kept
    ]
    values = {metric: series.values[metric] for metric in kept}
    units = {metric: series.units[metric] for metric in kept}
    return means, Watched(LAYER, host, series.times, values, units, phase)

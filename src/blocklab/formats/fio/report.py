"""What fio prints (JSON) and logs (a line each second), as samples."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean, median, median_low
from typing import Any

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.rates import each_second
from blocklab.model import outside
from blocklab.model.metrics import each_of
from blocklab.model.metrics import metric as metric_of
from blocklab.model.quantiles import Table
from blocklab.model.sample import Histogram, Parsed, Phase, Sample

DIRECTIONS = ("read", "write", "trim")
PERCENTILES = (50.0, 95.0, 99.0, 99.9)
_LATENCIES = tuple(
    f"latency.{name}" for name in ("mean", "stddev", "max", *(f"p{percent:g}" for percent in PERCENTILES))
)
# All that a job may report.
METRICS = (
    *each_of(("read", "write", "trim"), ("iops", "bandwidth", "bytes", "ios", *_LATENCIES)),
    *each_of(("sync",), ("ios", *_LATENCIES)), "cpu.user", "cpu.system",
)  # fmt: skip
# Log -> metric, divisor, unit. fio's bw log is in KiB/s, its lat log in ns.
SERIES = {"bw": ("bandwidth", 1 / 1024, "B/s"), "iops": ("iops", 1.0, "1/s"), "lat": ("latency.mean", 1e9, "s")}
LOGS = tuple(SERIES)
# What fio is told about reports and logs, at the end of each section, whatever stands before.
OURS: Mapping[str, str] = {
    # numjobs clones are one value; new_group keeps sections that run together apart
    "new_group": "1", "group_reporting": "1", "per_job_logs": "0", "log_avg_msec": "1000", "log_unix_epoch": "1",
    "lat_percentiles": "1", "clat_percentiles": "0", "slat_percentiles": "0",
    "percentile_list": ":".join(f"{percent:g}" for percent in PERCENTILES),
    # and the prefix of its name, which differs from section to section
    **{f"write_{kind}_log": "" for kind in LOGS},
}  # fmt: skip
# By what part of a step a row may be late, and how much more for each step.
_LATE, _DRIFT = 0.05, 0.002
_MOST_SILENT = 86_400
# Of a second. fio reports its last state when it ends, whenever that is.
_WHOLE = 0.9
# Seconds by which the stamps of a log differ from the clock.
_JITTER = 0.02


class _Latency(msgspec.Struct):
    """Nanoseconds."""

    mean: float
    stddev: float
    max: float
    samples: int = msgspec.field(name="N", default=0)
    percentile: dict[str, float] = {}
    # With --output-format=json+: the centre of each bin that is not empty, and how many.
    bins: dict[str, int] = {}


class Direction(msgspec.Struct):
    """What one job did in one direction. ``runtime`` is in ms, ``bw_bytes`` in B/s."""

    io_bytes: int
    bw_bytes: float
    iops: float
    runtime: float
    total_ios: int
    lat_ns: _Latency
    # Of completion alone; what fio gives percentiles of unless lat_percentiles asks for those of the whole.
    clat_ns: _Latency | None = None


class _Sync(msgspec.Struct):
    # Not total_ios, which stays 0 for fdatasync (fio 3.39).
    lat_ns: _Latency


class Job(msgspec.Struct):
    """One job as fio's JSON reports it; times are in the units that the field names carry."""

    jobname: str
    error: int
    read: Direction
    write: Direction
    trim: Direction
    usr_cpu: float
    sys_cpu: float
    sync: _Sync | None = None
    # Milliseconds since the epoch, after ramp_time; fio before 3.37 has none.
    job_start: int = 0
    groupid: int = 0
    # In per cent of the requests.
    iodepth_level: dict[str, float] = {}
    options: dict[str, str] = msgspec.field(name="job options", default={})


class Output(msgspec.Struct):
    """fio's whole JSON, as far as blocklab reads it."""

    jobs: list[Job]
    version: str = msgspec.field(name="fio version", default="fio")
    # When it was printed.
    timestamp_ms: int = 0
    options: dict[str, str] = msgspec.field(name="global options", default={})


def decode(raw: Mapping[str, bytes]) -> Output:
    """The last JSON in fio's output: warnings may stand before it, and what ``--status-interval`` printed."""
    return sound(reports(raw)[-1], raw)


def sound(output: Output, raw: Mapping[str, bytes]) -> Output:
    """The same; raises ``ParseError`` where a job ended with an error."""
    for job in output.jobs:
        if job.error:
            raise ParseError("fio", f"job {job.jobname} ended with error {job.error}", _said(raw))
    return output


def reports(raw: Mapping[str, bytes], brought: Callable[[Any], Any] = lambda document: document) -> list[Output]:
    """Every JSON in fio's output, one at least, each ``brought`` into the form that is read here. Raises
    ``ParseError``."""
    text = raw["stdout"].decode(errors="replace")
    try:
        found = [msgspec.convert(brought(each), Output, strict=False) for each in _documents(text)]
    except (ValueError, msgspec.ValidationError) as error:
        why, hint = _unknown_form(text) or (f"cannot be read: {error}", "")
        raise ParseError("fio", f"its JSON {why}", text, hint=hint) from error
    if not found:
        raise ParseError("fio", "no JSON in its output", _said(raw))
    return found


def _unknown_form(text: str) -> tuple[str, str] | None:
    """What makes fio's JSON another one, and the hint; None for what is only broken."""
    if re.search(r'"client_stats" ?:', text):
        return "is of fio --client (client_stats), and has no jobs", "run fio on the host itself"
    if re.search(r'"mixed" ?: ?\{', text):
        return "has all directions as one (mixed)", "run fio without unified_rw_reporting"
    return None


def _said(raw: Mapping[str, bytes]) -> str:
    return (raw.get("stderr", b"") or raw["stdout"]).decode(errors="replace")


# One begins a line, or stands behind the one before it, as where files were put together or in an array.
_START = re.compile(r"^(?:\[\s*)?(?=\{)", re.MULTILINE)
_NEXT = re.compile(r"[\s,\]\[]*(?=\{)")


def _documents(text: str) -> Iterator[Any]:
    """The JSON objects in a text. Raises ``ValueError`` for one that is cut."""
    at = 0
    while start := (_NEXT.match(text, at) if at else None) or _START.search(text, at):
        found, at = outside.next_json(text, start.end())
        yield found


def so_far(out: bytes) -> dict[str, list[float]]:
    """``read.iops`` and ``write.iops`` (1/s) in each second, from fio's reports of its state, of output that is
    being written.

    The reports count from the start; a last one that is cut is left out, and so is a part of a second at the end.
    Raises ``ParseError``.
    """
    documents = []
    try:
        for each in _documents(out.decode(errors="replace")):
            documents.append(each)
    except ValueError:
        # the report that is being written
        pass
    try:
        reports = [msgspec.convert(each, Output, strict=False).jobs for each in documents]
    except msgspec.ValidationError as error:
        raise ParseError("fio", f"its JSON cannot be read: {error}") from error
    rates: dict[str, list[float]] = {}
    for way in DIRECTIONS:
        points = [(getattr(job, way).runtime, getattr(job, way).total_ios) for (job, *_) in reports]
        steps = [
            ((end - start) / 1000, after - before) for (start, before), (end, after) in itertools.pairwise(points)
        ]
        while steps and steps[-1][0] < _WHOLE:
            steps.pop()
        if any(count for _, count in points):
            rates[f"{way}.iops"] = each_second(steps)
    return rates


def distribution(bins: Mapping[str, int]) -> Table:
    """The cumulative distribution of a JSON+ histogram: two points for each bin, its lower and its upper end."""
    total, below = sum(bins.values()), 0
    found = []
    for centre, count in sorted((int(centre), count) for centre, count in bins.items()):
        # A bin is 1/64 of the power of two that it lies in, and 1 ns below 128 ns (fio's plat_idx_to_val).
        half = max(0.5, 2.0 ** (centre.bit_length() - 8))
        for end, more in ((-half, 0), (half, count)):
            below += more
            found.append((below / total, max(1.0, centre + end) / 1e9))
    return found


def values(job: Job, host: str, *, own: bool = True) -> Iterator[Sample]:
    """The values of a whole phase.

    ``own``: from a run of ours, with percentiles of the whole latency. Else those of completion are taken where
    there are no others, and none where there are none at all.
    """

    def row(metric: str, value: float, unit: str) -> Sample:
        return Sample(metric, float(value), unit, "fio", host, job.jobname)

    def latency(way: str, found: _Latency, other: _Latency | None = None) -> Iterator[Sample]:
        for name, value in (("mean", found.mean), ("stddev", found.stddev), ("max", found.max)):
            yield row(f"{way}.latency.{name}", value / 1e9, "s")
        known = found.percentile or (other.percentile if other is not None and not own else {})
        for percent in PERCENTILES if known or own else ():
            # The key of 99.9 is "99.900000".
            value = known.get(f"{percent:.6f}", -1.0)
            if value < 0 and not own:
                continue
            if value < 0:
                raise ParseError("fio", f"job {job.jobname}: no percentile {percent:g} of {way} latency")
            yield row(f"{way}.latency.p{percent:g}", value / 1e9, "s")

    ways = [(name, way) for name in DIRECTIONS if (way := getattr(job, name)).total_ios]
    if not ways:
        raise ParseError("fio", f"job {job.jobname} did no I/O", hint="give it more time, or check its size")
    for name, way in ways:
        yield row(f"{name}.iops", way.iops, "1/s")
        yield row(f"{name}.bandwidth", way.bw_bytes, "B/s")
        yield row(f"{name}.bytes", way.io_bytes, "B")
        yield row(f"{name}.ios", way.total_ios, "1")
        yield from latency(name, way.lat_ns, way.clat_ns)
    if job.sync is not None and job.sync.lat_ns.samples:
        yield row("sync.ios", job.sync.lat_ns.samples, "1")
        yield from latency("sync", job.sync.lat_ns)
    yield row("cpu.user", job.usr_cpu, "%")
    yield row("cpu.system", job.sys_cpu, "%")


def completion(job: Job, host: str) -> Iterator[Sample]:
    """Of each direction that did I/O the latency of completion alone (clat), where fio was asked for it."""
    for name in DIRECTIONS:
        way: Direction = getattr(job, name)
        if not way.total_ios or way.clat_ns is None or not way.clat_ns.mean:
            continue
        found = way.clat_ns
        told = {"mean": found.mean, "stddev": found.stddev, "max": found.max}
        told |= {f"p{percent:g}": found.percentile.get(f"{percent:.6f}", -1.0) for percent in PERCENTILES}
        for of, value in told.items():
            if value >= 0:
                yield Sample(f"{name}.clat.latency.{of}", value / 1e9, "s", "fio", host, job.jobname)


def histograms(job: Job, host: str) -> Iterator[Histogram]:
    """Of each direction that did I/O, and of syncs, how many operations took how long; nothing where fio was not
    asked for its bins (``json+``)."""
    found = [(name, getattr(job, name).lat_ns) for name in DIRECTIONS]
    found += [("sync", job.sync.lat_ns)] if job.sync is not None else []
    for name, each in found:
        if each.bins:
            bins = tuple((int(latency) / 1e9, count) for latency, count in each.bins.items())
            yield Histogram(f"{name}.latency", job.jobname, host, bins)


def phase(job: Job) -> Phase | None:
    """When the job did its I/O; None where fio does not tell."""
    longest = max(job.read.runtime, job.write.runtime, job.trim.runtime)
    start = job.job_start / 1000
    return Phase(job.jobname, start, start + longest / 1000) if job.job_start else None


def without_start(parsed: Parsed) -> Parsed:
    """The same with IOPS and bandwidth of each phase from its first logged second on.

    A capped volume saves up while nobody asks for anything, e.g. a tenth of a second's worth of requests, and
    gives them at once: 2 % too much in 5 s. Latencies and counts stay those of the whole; so do rates where there
    is no log, or less than a second is left.
    """
    starts = {phase.name: phase.start for phase in parsed.phases}
    first: dict[tuple[str, str], Sample] = {}
    whole: dict[tuple[str, str], float] = {}
    for sample in parsed.samples:
        key = (sample.phase, sample.metric)
        if sample.time is None:
            whole[key] = sample.value
        elif key not in first or sample.time < (first[key].time or 0.0):
            first[key] = sample
    changed = []
    for sample in parsed.samples:
        known = metric_of(sample.metric)
        begun = first.get((sample.phase, sample.metric))
        if sample.time is None and known.amount and begun is not None and sample.value and sample.phase in starts:
            amount = whole[sample.phase, known.beside(known.amount)]
            cut = (begun.time or 0.0) - starts[sample.phase]
            left = amount / sample.value - cut
            if cut > 0 and left >= 1:
                rate = max(0.0, amount - begun.value * cut) / left
                sample = msgspec.structs.replace(sample, value=rate)
        changed.append(sample)
    return msgspec.structs.replace(parsed, samples=tuple(changed))


def series_samples(kind: str, log: bytes, host: str, name: str, during: Phase | None) -> Iterator[Sample]:
    """The samples of one log (``kind`` of ``LOGS``) of phase ``name``; raises ``ParseError``."""
    metric, divisor, unit = SERIES[kind]
    # Of a job that is over within two seconds each clone has one row: nothing goes back, but all are at one time.
    for direction, time, value in series([log], mean=kind == "lat", apart=_JITTER, step=1000):
        # fio writes its last rate up to a second after the job's end, as if the job had run until then.
        if kind == "lat" or during is None or time <= during.end + _JITTER:
            yield Sample(f"{direction}.{metric}", value / divisor, unit, "fio", host, name, time)


def series(
    logs: Sequence[bytes], *, mean: bool, apart: float = 0.0, step: int = 0
) -> list[tuple[str, float, float]]:
    """Direction, time (s since the epoch) and value of each second of the logs of one job.

    The clones of the job (``numjobs``) stand in one log, one after the other, or have a log each. Another clone
    begins where the time of a row is not later than the one before by more than ``apart`` s. The rows of a clone
    within one second (``log_avg_msec`` below 1000) are averaged; the clones are added up, or averaged (``mean``).
    Between a clone's first and its last row fio leaves out a second in which that clone has done nothing: it is 0
    in a sum. A clone that ended more than a second before is 0 as well, so a sum goes on to the last clone's end;
    any other second that lacks a clone is left out of a sum, since it has a part of that clone only. ``step`` is
    ``log_avg_msec``, in ms, where that is known; else it is told from the rows. Raises ``ParseError``.
    """
    rows: list[tuple[int, int, int, int]] = []
    clones: Counter[int] = Counter()
    steps: list[int] = []
    for log in logs:
        last: dict[int, int] = {}
        for way, stamp, value in _rows(log):
            if way not in last or stamp - last[way] <= apart * 1000:
                clones[way] += 1
            else:
                steps.append(stamp - last[way])
            last[way] = stamp
            rows.append((way, clones[way], stamp, value))
    if not rows:
        return []
    first = min(stamp for _, _, stamp, _ in rows)
    if not mean:
        rows = list(_unbroken(rows, step or median_low(steps or [1000])))
    # A row tells of the time before it; stamps are some ms off.
    step = step or (min(1000, 50 * round(median(steps) / 50)) if steps else 1000)
    seconds: dict[tuple[int, int], dict[int, list[int]]] = {}
    for way, clone, stamp, value in rows:
        second = int((stamp - first + step / 2) // 1000)
        seconds.setdefault((way, second), {}).setdefault(clone, []).append(value)
    ends: dict[tuple[int, int], int] = {}
    for (way, second), by in sorted(seconds.items()):
        ends |= {(way, clone): second for clone in by}
    found = []
    for (way, second), by in sorted(seconds.items()):
        missing = [end for (of, clone), end in ends.items() if of == way and clone not in by]
        if mean or all(end < second - 1 for end in missing):
            parts = [fmean(values) for values in by.values()]
            at = (first + 1000 - step) / 1000 + second
            found.append((DIRECTIONS[way], at, fmean(parts) if mean else sum(parts)))
    return found


def _unbroken(rows: Sequence[tuple[int, int, int, int]], step: float) -> Iterator[tuple[int, int, int, int]]:
    """Rates of direction and clone, one every ``step`` ms, with those that fio left out. Raises ``ParseError``.

    Where nothing was done it writes none, so that the next one comes whole steps later. One that is late by
    anything else is of an fio that was itself held up: its rate is of all the time since the one before.
    """
    last: dict[tuple[int, int], int] = {}
    filled = 0
    for way, clone, stamp, value in rows:
        away = (stamp - last.get((way, clone), stamp - step)) / step
        last[way, clone] = stamp
        lacking = round(away) - 1
        filled += max(0, lacking)
        if filled > _MOST_SILENT:
            problem = f"the times in its log jump by {away * step / 1000:,.0f} s: a damaged row, or two runs"
            raise ParseError("fio", problem, hint="cut it into a file for each run")
        # It wakes up some ms late each time.
        idle = abs(away - round(away)) <= _LATE + _DRIFT * away
        for back in range(lacking, 0, -1):
            yield way, clone, round(stamp - back * step), 0 if idle else value
        yield way, clone, stamp, value


def _rows(log: bytes) -> Iterator[tuple[int, int, int]]:
    """Direction, time (ms) and value. Raises ``ParseError``."""
    # 1795232906580, 4003, 1, 0, 0                          time (ms), value, direction, block size, offset
    for line in log.decode(errors="replace").splitlines():
        try:
            stamp, value, way = (int(part) for part in line.split(",")[:3])
        except ValueError as error:
            raise ParseError("fio", "a line of its log is not: time, value, direction, ...", line) from error
        if not 0 <= way < len(DIRECTIONS) or value < 0:
            raise ParseError("fio", "its log has an unknown direction or a negative value", line)
        yield way, stamp, value

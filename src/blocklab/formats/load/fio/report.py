"""What fio prints (JSON) and logs (a line each second), as samples."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.load.rates import each_second
from blocklab.model import outside
from blocklab.model.metrics import each_of
from blocklab.model.quantiles import Table
from blocklab.model.sample import Histogram, Phase, Sample

LAYER = "fio"
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
# Of a second. fio reports its last state when it ends, whenever that is.
_WHOLE = 0.9


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


def decode(out: str, err: str = "") -> Output:
    """The last JSON in fio's output: warnings may stand before it, and what ``--status-interval`` printed. Raises
    ``ParseError``, also where a job ended with an error."""
    output = reports(out, err)[-1]
    for job in output.jobs:
        if job.error:
            raise ParseError("fio", f"job {job.jobname} ended with error {job.error}", err or out)
    return output


def reports(out: str, err: str = "", brought: Callable[[Any], Any] = lambda document: document) -> list[Output]:
    """Every JSON in fio's output, one at least, each ``brought`` into the form that is read here. Raises
    ``ParseError``."""
    try:
        found = [msgspec.convert(brought(each), Output, strict=False) for each in _documents(out)]
    except (ValueError, msgspec.ValidationError) as error:
        why, hint = _unknown_form(out) or (f"cannot be read: {error}", "")
        raise ParseError("fio", f"its JSON {why}", out, hint=hint) from error
    if not found:
        raise ParseError("fio", "no JSON in its output", err or out)
    return found


def _unknown_form(text: str) -> tuple[str, str] | None:
    """What makes fio's JSON another one, and the hint; None for what is only broken."""
    if re.search(r'"client_stats" ?:', text):
        return "is of fio --client (client_stats), and has no jobs", "run fio on the host itself"
    if re.search(r'"mixed" ?: ?\{', text):
        return "has all directions as one (mixed)", "run fio without unified_rw_reporting"
    return None


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
        return Sample(metric, float(value), unit, LAYER, host, job.jobname)

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
                yield Sample(f"{name}.clat.latency.{of}", value / 1e9, "s", LAYER, host, job.jobname)


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

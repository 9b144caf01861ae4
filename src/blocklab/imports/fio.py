"""fio: its JSON and JSON+ (3.x), and its latency, bandwidth and IOPS logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path

import msgspec

from blocklab.errors import ParseError
from blocklab.imports.found import Found
from blocklab.imports.pgbench import latency_figures
from blocklab.imports.text import Bad, Refused, Text, head, whole
from blocklab.model.sample import Phase, Sample
from blocklab.workloads import fio_output, logs
from blocklab.workloads.fio_output import Job, Output
from blocklab.workloads.logs import Latency

TOOL = LAYER = "fio"
# {
#   "fio version" : "fio-3.39",
_JSON = re.compile(r'^\{\s*"fio version" ?:', re.MULTILINE)
# 123, 456789, 1, 4096, 0        more samples: workloads/logs/fio.py
_ROW = re.compile(r"\d+, \d+, [012](?:, (?:\d+|0x[0-9a-f]+)){1,4}")
# 123, 456789, 1, 4096           of an fio that wrote no priority: 2 and before (us), or an early 3 (ns);
# 123, 456789, 1, 4096, 16384    its log_offset. A priority here is 0, 1 or hexadecimal.
_NO_PRIORITY = re.compile(r"\d+, \d+, [012], \d+(?:, (?:[2-9]|\d\d+))?")
_EITHER = (
    "its rows have no priority, so its latencies are microseconds (fio 2) or nanoseconds (an early fio 3), and "
    "nothing tells which: put the JSON of that run beside it, if it is of fio 3"
)
# write-4k_lat.1.log     fio's own end of a log's name: the rows of all of them look alike
_NAME = re.compile(r"(?P<prefix>.*)_(?P<kind>clat|slat|lat|bw|iops)(?:\.(?P<number>\d+))?\.log")
KINDS = ("lat", "clat", "slat", "bw", "iops")
_VOTERS = 50
# Stamps since the epoch (log_unix_epoch) are above this, those since the job's start below; ms.
_EPOCH = 10**11
# fio itself takes no more.
_MOST_JOBS = 4096
# What is the same of several clones of a job by adding up.
_SUMS = (".iops", ".bandwidth", ".bytes", ".ios")


def fits_json(head: str) -> bool:
    """Whether this is fio's JSON; warnings may stand before it."""
    return _JSON.search(head) is not None


def fits_log(head: str) -> bool:
    """Whether these are rows of a log, of any kind."""
    lines = head.split("\n")[:_VOTERS]
    whole = lines[:-1] or lines
    return sum(_ROW.fullmatch(line) is not None for line in whole) > len(whole) / 2


def log_kind(name: str) -> str:
    """``lat``, ``bw``, ... by the end that fio itself gives a log's name; empty for another name."""
    match = _NAME.fullmatch(name)
    return match["kind"] if match else ""


def read_json(text: Text) -> Found:
    """Figures and phases of all jobs. Raises ``Refused``."""
    try:
        raw = {"stdout": (text.text + text.cut).encode()}
        reports = fio_output.reports(raw)
        _one_run(reports)
        output = fio_output.sound(reports[-1], raw)
        figures = [sample for job in output.jobs for sample in fio_output.figures(job, "", own=False)]
    except ParseError as error:
        raise Refused(error.message.split("\n")[0]) from error
    remarks = list(text.remarks)
    if len(reports) > 1:
        remarks.append(f"{len(reports)} reports of one run (--status-interval): the last one is taken")
    if any(_borrowed(job) for job in output.jobs):
        remarks.append("percentiles are of completion (clat): it has none of the whole latency (lat_percentiles)")
    clones = [name for name, count in Counter(job.jobname for job in output.jobs).items() if count > 1]
    if clones:
        remarks.append(f"clones added up, so without percentiles: {', '.join(clones)}")
        figures = list(_together(figures, set(clones)))
    phases = list(_phases(output))
    if phases and not any(job.job_start for job in output.jobs):
        remarks.append("when its jobs began is reckoned back from when it was printed")
    return Found(
        kind="fio-json", path=text.path, rows=len(output.jobs), tool=TOOL, samples=tuple(figures),
        phases=tuple(phases), start=min((each.start for each in phases), default=None),
        end=max((each.end for each in phases), default=None), jobs=tuple(_numbers(output)), remarks=tuple(remarks),
    )  # fmt: skip


def _one_run(reports: Sequence[Output]) -> None:
    """Raises ``Refused`` where a report surely is of another run than the one before it: within one run
    (``--status-interval``) they all count from its start."""
    for number, (before, after) in enumerate(pairwise(reports), 2):
        if why := _another(before, after):
            raise Refused(f"holds several runs (JSON {number} {why}); cut it into a file for each run")


def _another(before: Output, after: Output) -> str:
    """What tells that a report is of another run; empty where nothing does."""
    if before.options != after.options or _options(before) != _options(after):
        return "has other jobs or options than the one before it"
    for old, new in zip(before.jobs, after.jobs, strict=True):
        counts = [(getattr(old, way).total_ios, getattr(new, way).total_ios) for way in fio_output.DIRECTIONS]
        # A job forgets all that it did before its ramp was over.
        if any(name.startswith("ramp_") for name in {**after.options, **new.options}):
            continue
        if any(now < then for then, now in counts):
            return f"counts less of job {new.jobname} than the one before it"
        if any(then for then, _ in counts) and new.job_start > before.timestamp_ms > 0:
            return f"has a job {new.jobname} that began after the one before it was printed"
    return ""


def _options(output: Output) -> list[tuple[str, Mapping[str, str]]]:
    return [(job.jobname, job.options) for job in output.jobs]


def _numbers(output: Output) -> Iterator[str]:
    """The name to each number that fio gives: every clone has one, also where they are reported together."""
    entries = Counter(job.jobname for job in output.jobs)
    for job in output.jobs:
        together = entries[job.jobname] == 1
        yield from [job.jobname] * (numjobs({**output.options, **job.options}) if together else 1)


def numjobs(options: Mapping[str, str]) -> int:
    """How many clones of a job there are."""
    said = options.get("numjobs", "1")
    return min(int(said), _MOST_JOBS) if said.isdecimal() else 1


def _borrowed(job: Job) -> bool:
    ways = (job.read, job.write, job.trim)
    return any(way.total_ios and not way.lat_ns.percentile and way.clat_ns is not None for way in ways)


def _together(figures: Sequence[Sample], clones: set[str]) -> Iterator[Sample]:
    """The figures of each job once: rates add up, means count by their I/Os, the greatest is the greatest."""
    for phase, mine in groupby(figures, key=lambda sample: sample.phase):
        rows = [each for each in figures if each.phase == phase] if phase in clones else list(mine)
        if phase not in clones:
            yield from rows
            continue
        clones.discard(phase)
        by: dict[str, list[float]] = {}
        for each in rows:
            by.setdefault(each.metric, []).append(each.value)
        done = set()
        for each in rows:
            value = _joined(each.metric, by)
            if value is not None and each.metric not in done:
                done.add(each.metric)
                yield Sample(each.metric, value, each.unit, LAYER, "", phase)


def _joined(metric: str, by: dict[str, list[float]]) -> float | None:
    values = by[metric]
    if metric.endswith(_SUMS):
        return sum(values)
    if metric.endswith(".max"):
        return max(values)
    counts = by.get(f"{metric.partition('.')[0]}.ios", [])
    if metric.endswith(".mean") and len(counts) == len(values):
        return sum(value * count for value, count in zip(values, counts, strict=True)) / sum(counts)
    return None


def _phases(output: Output) -> Iterator[Phase]:
    """Each job's time. Of an fio that does not tell, the groups (stonewall) are set one before the other, the last
    one ending when fio printed."""
    told = [phase for job in output.jobs if (phase := fio_output.phase(job)) is not None]
    if told or not output.timestamp_ms:
        yield from {phase.name: phase for phase in told}.values()
        return
    found: list[Phase] = []
    end = output.timestamp_ms / 1000
    groups: dict[int, list[Job]] = {}
    for job in output.jobs:
        groups.setdefault(job.groupid, []).append(job)
    for _, jobs in sorted(groups.items(), reverse=True):
        longest = max(max(job.read.runtime, job.write.runtime, job.trim.runtime) for job in jobs) / 1000
        found += [Phase(name, end - longest, end) for name in dict.fromkeys(job.jobname for job in jobs)]
        end -= longest
    yield from reversed(found)


def read_log(path: Path, kind: str) -> Found:
    """The course of one log, and the latencies where it has each I/O. Raises ``Refused``."""
    match = _NAME.fullmatch(path.name)
    found = read_logs([path], kind, match["prefix"] if match else path.stem)
    return msgspec.structs.replace(found, order=int(match["number"] or 0) if match else 0)


def read_logs(paths: Sequence[Path], kind: str, phase: str) -> Found:
    """The same of the logs of several clones of one job, which becomes the phase. Raises ``Refused``."""
    heads = [[line for line in head(path).split("\n")[:_VOTERS] if _ROW.fullmatch(line)] for path in paths]
    first = [line for lines in heads for line in lines]
    # An averaged row (log_avg_msec) has no request size.
    each = any(line.split(", ")[3] != "0" for line in first)
    found = _single(paths, kind, phase) if each else _averaged(paths, kind, phase)
    times = [sample.time for sample in found.samples if sample.time is not None]
    either = kind in ("lat", "clat", "slat") and any(_NO_PRIORITY.fullmatch(line) for line in first)
    absolute = bool(first) and int(first[0].split(",")[0]) > _EPOCH
    return msgspec.structs.replace(
        found, phases=(Phase(phase, min(times) - 1, max(times)),) if times else (),
        start=min(times) - 1 if times and absolute else None, end=max(times) if times and absolute else None,
        either=_EITHER if either else "",
    )  # fmt: skip


def _averaged(paths: Sequence[Path], kind: str, phase: str) -> Found:
    """A row for each while (log_avg_msec)."""
    texts = [whole(path) for path in paths]
    rows = [[line for line in text.lines if _ROW.fullmatch(line)] for text in texts]
    bad: list[Bad] = []
    for text in texts:
        bad += [Bad(number, line) for number, line in enumerate(text.lines, 1) if not _ROW.fullmatch(line)]
        if text.cut:
            bad.append(Bad(len(text.lines) + 1, text.cut))
    if not any(rows):
        raise Refused("looks like a log of fio, but has no whole row")
    clones = ["\n".join(lines).encode() for lines in rows]
    return Found(
        kind=f"fio-{kind}", path=paths[0], rows=sum(map(len, rows)), tool=TOOL, bad=len(bad),
        first_bad=bad[0] if bad else None, samples=tuple(_course(clones, kind, phase)), remarks=texts[0].remarks,
    )  # fmt: skip


def _course(clones: Sequence[bytes], kind: str, phase: str) -> Iterator[Sample]:
    of = "lat" if kind in ("clat", "slat") else kind
    metric, divisor, unit = fio_output.SERIES[of]
    course = fio_output.series(clones, mean=of == "lat")
    for way, mine in groupby(sorted(course), key=lambda row: row[0]):
        points = [(time, value / divisor) for _, time, value in mine]
        name = f"{way}.{metric.replace('latency', kind) if kind in ('clat', 'slat') else metric}"
        yield Sample(name, sum(value for _, value in points) / len(points), unit, LAYER, "", phase)
        for time, value in points:
            yield Sample(name, value, unit, LAYER, "", phase, time)


def _single(paths: Sequence[Path], kind: str, phase: str) -> Found:
    """A row for each I/O: how many there are in a second, and how long they took."""
    path = paths[0]
    read = logs.fio_log(paths)
    if not read.latency:
        raise Refused("looks like a log of fio, but has no whole row")
    samples: list[Sample] = []
    for way, done in read.latency.items():
        samples += _rates(way, done, phase)
        if kind in ("lat", "clat", "slat"):
            prefix = f"{way}." if kind == "lat" else f"{way}.{kind}."
            samples += latency_figures(done, LAYER, prefix, phase)
            for each in done.series[1:-1]:
                samples.append(Sample(f"{prefix}latency.mean", each.mean, "s", LAYER, "", phase, each.time + 1.0))
    remarks = [remark.removeprefix(f"{path}: ").removeprefix(f"{path}:") for remark in read.remarks]
    if kind in ("bw", "iops"):
        remarks.append(f"a row for each I/O, not averaged: IOPS are counted, its {kind} values are not used")
    first = read.first_bad
    return Found(
        kind=f"fio-{kind}", path=path, rows=sum(each.count for each in read.latency.values()), tool=TOOL,
        bad=read.bad, first_bad=Bad(first.line, first.text) if first is not None else None,
        samples=tuple(samples), remarks=tuple(remarks),
    )  # fmt: skip


def _rates(way: str, done: Latency, phase: str) -> Iterator[Sample]:
    whole = done.series[1:-1]
    if whole:
        span = whole[-1].time + 1 - whole[0].time
        yield Sample(f"{way}.iops", sum(each.count for each in whole) / span, "1/s", LAYER, "", phase)
    yield Sample(f"{way}.ios", float(done.count), "1", LAYER, "", phase)
    for each in whole:
        yield Sample(f"{way}.iops", float(each.count), "1/s", LAYER, "", phase, each.time + 1.0)

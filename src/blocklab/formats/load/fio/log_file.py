"""fio's latency, bandwidth and IOPS logs."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.found import MOST_BAD, Found
from blocklab.formats.load.fio import averaged
from blocklab.formats.load.fio.report import LAYER
from blocklab.formats.load.fio.single import fio_log
from blocklab.formats.load.logs.summary import Latency, every_second, latency_values
from blocklab.formats.text import Bad, Refused, head, mostly, refusal, whole
from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Phase, Sample

# 123, 456789, 1, 4096, 0        more samples: formats/fio/single.py
_ROW = re.compile(r"\d{1,18}, \d{1,18}, [012](?:, (?:\d+|0x[0-9a-f]+)){1,4}")
# 123, 456789, 1, 4096           of an fio that wrote no priority: 2 and before (us), or an early 3 (ns);
# 123, 456789, 1, 4096, 16384    its log_offset. A priority here is 0, 1 or hexadecimal.
_NO_PRIORITY = re.compile(r"\d+, \d+, [012], \d+(?:, (?:[2-9]|\d\d+))?")
_EITHER = (
    "its rows have no priority, so its latencies are microseconds (fio 2) or nanoseconds (an early fio 3), and "
    "nothing tells which: put fio's JSON or text of that run beside it"
)
# write-4k_lat.1.log     fio's own end of a log's name: the rows of all of them look alike
_NAME = re.compile(r"(?P<prefix>.*)_(?P<kind>clat|slat|lat|bw|iops)(?:\.(?P<number>\d+))?\.log")
KINDS = ("lat", "clat", "slat", "bw", "iops")
# As the kinds of all files are called.
LOGS = tuple(f"fio-{kind}" for kind in KINDS)
_VOTERS = 50
# Stamps since the epoch (log_unix_epoch) are above this, those since the job's start below; ms.
_EPOCH = 10**11


def fits_log(head: str) -> bool:
    """Whether these are rows of a log, of any kind."""
    return mostly(_ROW, head)


def log_kind(name: str) -> str:
    """``lat``, ``bw``, ... by the end that fio itself gives a log's name; empty for another name."""
    match = _NAME.fullmatch(name)
    return match["kind"] if match else ""


def log_number(name: str) -> int:
    """The number that fio gives a log, from 1 on: each clone of a job has its own; 0 for a name without one."""
    match = _NAME.fullmatch(name)
    return int(match["number"] or 0) if match else 0


def read_log(path: Path, kind: str) -> Found:
    """The time series of one log, and the latencies where it has each I/O. Raises ``Refused``."""
    match = _NAME.fullmatch(path.name)
    found = read_logs([path], kind, match["prefix"] if match else path.stem)
    return msgspec.structs.replace(found, order=log_number(path.name))


def renamed(found: Found, job: str) -> Found:
    """The same log, under the name of a job."""
    return msgspec.structs.replace(
        found, phases=tuple(Phase(job, phase.start, phase.end) for phase in found.phases),
        samples=tuple(msgspec.structs.replace(sample, phase=job) for sample in found.samples),
    )  # fmt: skip


def in_microseconds(found: Found) -> Found:
    """The same log of an fio 2, whose latencies are microseconds: as nanoseconds they were read."""
    return msgspec.structs.replace(
        found, either="", remarks=(*found.remarks, "its latencies are microseconds, as those of fio 2 are"),
        samples=tuple(
            msgspec.structs.replace(sample, value=sample.value * 1000) if sample.unit == "s" else sample
            for sample in found.samples
        ),
    )  # fmt: skip


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
            bad.append(Bad(len(text.lines) + 1, text.cut, True))
    if not any(rows):
        raise Refused("looks like a log of fio, but has no complete row")
    try:
        samples = tuple(_series(rows, kind, phase))
    except ParseError as error:
        raise refusal(error) from error
    return Found(
        kind=f"fio-{kind}", path=paths[0], rows=sum(map(len, rows)), tool=LAYER, bad=len(bad),
        bad_rows=tuple(bad[:MOST_BAD]), samples=samples, remarks=texts[0].remarks,
    )  # fmt: skip


def _series(clones: Sequence[Sequence[str]], kind: str, phase: str) -> Iterator[Sample]:
    """The time series, and of a rate the mean; that of a latency only ``weighted`` tells."""
    of = "lat" if kind in ("clat", "slat") else kind
    metric, divisor, unit = averaged.SERIES[of]
    rows = averaged.series(clones, mean=of == "lat")
    for way, mine in groupby(sorted(rows), key=lambda row: row[0]):
        points = [(time, value / divisor) for _, time, value in mine]
        name = f"{way}.{metric.replace('latency', kind) if kind in ('clat', 'slat') else metric}"
        if of != "lat":
            yield Sample(name, sum(value for _, value in points) / len(points), unit, LAYER, "", phase)
        for time, value in points:
            yield Sample(name, value, unit, LAYER, "", phase, time)


def weighted(latency: Found, iops: Found) -> tuple[Sample, ...]:
    """The mean of each series of an averaged latency log, over all I/Os: a second with ten of them counts less
    than one with a thousand. Empty where the other log does not tell how many there were."""
    counts: dict[str, list[tuple[float, float]]] = {}
    for each in iops.samples:
        if each.time is not None:
            counts.setdefault(metric_of(each.metric).of, []).append((each.time, each.value))
    series_of: dict[str, list[Sample]] = {}
    for each in latency.samples:
        series_of.setdefault(each.metric, []).append(each)
    means = []
    for metric, series in series_of.items():
        beside = sorted(counts.get(metric_of(metric).of, []))
        if not beside:
            continue
        near = median([after[0] - before[0] for before, after in pairwise(beside)] or [1.0]) / 2
        pairs = [(each.value, _at(beside, each.time or 0.0, near)) for each in series]
        total = sum(count for _, count in pairs)
        if total:
            mean = sum(value * count for value, count in pairs) / total
            means.append(msgspec.structs.replace(series[0], value=mean, time=None))
    return tuple(means)


def _at(points: Sequence[tuple[float, float]], time: float, near: float) -> float:
    """The value of the point nearest to a time, 0 where none is ``near`` (s)."""
    place = bisect.bisect_left(points, (time, 0.0))
    off, value = min((abs(at - time), value) for at, value in points[max(0, place - 1) : place + 1])
    return value if off <= near else 0.0


def _single(paths: Sequence[Path], kind: str, phase: str) -> Found:
    """A row for each I/O: how many there are in a second, and how long they took."""
    path = paths[0]
    read = fio_log(paths)
    if not read.latency:
        raise Refused("looks like a log of fio, but has no complete row")
    samples: list[Sample] = []
    for way, done in read.latency.items():
        samples += _rates(way, done, phase)
        if kind in ("lat", "clat", "slat"):
            prefix = f"{way}." if kind == "lat" else f"{way}.{kind}."
            samples += latency_values(done, LAYER, prefix, phase)
            for each in done.series[1:-1]:
                samples.append(Sample(f"{prefix}latency.mean", each.mean, "s", LAYER, "", phase, each.time + 1.0))
    remarks = [remark.removeprefix(f"{path}: ") for remark in read.remarks]
    if kind in ("bw", "iops"):
        remarks.append(f"a row for each I/O, not averaged: IOPS are counted, its {kind} values are not used")
    first = read.first_bad
    return Found(
        kind=f"fio-{kind}", path=path, rows=sum(each.count for each in read.latency.values()), tool=LAYER,
        bad=read.bad, bad_rows=(Bad(first.line, first.text, first.cut),) if first is not None else (),
        samples=tuple(samples), remarks=tuple(remarks),
    )  # fmt: skip


def _rates(way: str, done: Latency, phase: str) -> Iterator[Sample]:
    try:
        whole = every_second(LAYER, done.series)[1:-1]
    except ParseError as error:
        raise refusal(error) from error
    if whole:
        span = whole[-1].time + 1 - whole[0].time
        yield Sample(f"{way}.iops", sum(each.count for each in whole) / span, "1/s", LAYER, "", phase)
    yield Sample(f"{way}.ios", float(done.count), "1", LAYER, "", phase)
    for each in whole:
        yield Sample(f"{way}.iops", float(each.count), "1/s", LAYER, "", phase, each.time + 1.0)

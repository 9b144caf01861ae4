"""A workload by what watched it alone: the phases in its device's time line, and the device's values in each."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from blocklab.errors import StudyError
from blocklab.imports import phases as points
from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Phase, Sample
from blocklab.workloads.fio_jobs import Section, runtime, sections

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


class Jobs(msgspec.Struct, frozen=True):
    """The phases by time, the device's values and time series in each, and what is to be said of them."""

    phases: tuple[Phase, ...] = ()
    values: tuple[Sample, ...] = ()
    said: tuple[str, ...] = ()


def job_file(path: str, text: str) -> list[Section]:
    """The jobs of a fio job file, in order. Raises ``StudyError``."""
    found, _ = sections(text)
    if not found:
        raise StudyError("", f"--jobs {path}: there is no [section] in it", hint="it is a fio job file")
    return found


def devices(samples: Sequence[Sample], host: str) -> list[str]:
    """The block devices of a host that were watched, whether they did anything or not."""
    return list(
        dict.fromkeys(
            each.layer for each in samples if each.host == host and metric_of(each.metric).of in ("read", "write")
        )
    )


def device_of(samples: Sequence[Sample], only: str = "") -> tuple[str, str]:
    """(host, device) that the workload saw: a mirror or a stripe before what it stands on, else the busiest.
    ``only`` is the device where that is known. Both are empty where none was busy."""
    moved: dict[tuple[str, str], float] = {}
    for sample in samples:
        if only not in ("", sample.layer):
            continue
        if sample.metric in _MOVED and sample.time is not None and not sample.phase:
            key = (sample.host, sample.layer)
            moved[key] = moved.get(key, 0.0) + sample.value
    busy = {key: amount for key, amount in moved.items() if amount > 0 and amount >= 0.02 * max(moved.values())}

    def rank(key: tuple[str, str]) -> tuple[int, float]:
        kind = next((n for n, start in enumerate(_UPPER) if key[1].startswith(start)), len(_UPPER))
        return -kind, busy[key]

    return max(busy, key=rank, default=("", ""))


def jobs_of(stack: str, samples: Sequence[Sample], jobs: Sequence[Section], only: str = "") -> Jobs:
    """The phases that the time line of the highest device shows, or of the ``only`` one that counts; nothing where
    none was busy."""
    host, device = device_of(samples, only)
    series: dict[str, dict[float, float]] = {}
    for sample in samples:
        if (sample.host, sample.layer) == (host, device) and sample.time is not None:
            series.setdefault(sample.metric, {})[sample.time] = sample.value
    line = points.seconds(series)
    spans = points.spans(line)
    if not spans:
        return Jobs(said=(f"{stack}: what was watched shows no workload of its own",) if samples else ())
    step = statistics.median(b.time - a.time for a, b in pairwise(line))
    # Bounds a hair wider, so that the analysis takes just these seconds as whole ones.
    times = [(line[span.first].time - step - HAIR, line[span.last].time + SLACK) for span in spans]
    names, said = _names(stack, [high - low - SLACK for low, high in times], jobs)
    found = tuple(Phase(name, *each) for name, each in zip(names, times, strict=True))
    values = [
        sample
        for phase, span in zip(found, spans, strict=True)
        for sample in _values(series, [each.time for each in line[span.first : span.last + 1]], phase.name, host)
    ]
    kept = sum(span.last - span.first + 1 for span in spans)
    told = [f"{phase.name} {phase.end - phase.start - SLACK:.0f} s" for phase in found]
    said.append(
        f"{stack}: {len(spans)} phases found in the time line of {device} by its changes ({kept} of {len(line)} "
        f"intervals): {', '.join(told)}"
    )
    return Jobs(found, tuple(values), tuple(said))


def _names(stack: str, lengths: Sequence[float], jobs: Sequence[Section]) -> tuple[list[str], list[str]]:
    """The jobs' names in order, where there are as many and each is as long as its job says; else numbers."""
    plain = [f"phase-{number}" for number in range(1, len(lengths) + 1)]
    if not jobs:
        return plain, []
    if len(jobs) != len(lengths):
        why = f"{stack}: the job file has {len(jobs)} jobs, but {len(lengths)} phases were found"
        return plain, [f"{why}: they stay without names"]
    for number, (length, job) in enumerate(zip(lengths, jobs, strict=True), 1):
        try:
            wanted = runtime(job.options)
        except ValueError:
            wanted = None
        # A job with a size may end before its runtime.
        sized = "size" in job.options and job.options.get("time_based", "0") == "0"
        short = wanted is not None and not sized and length < wanted * (1 - _OFF) - _LATE
        if wanted is not None and (short or length > wanted * (1 + _OFF) + _LATE):
            why = f"{stack}: phase {number} took {length:.0f} s, but job {job.name} runs for {wanted:.0f} s"
            return plain, [f"{why}: they stay without names"]
    return [job.name for job in jobs], []


def _values(
    series: Mapping[str, Mapping[float, float]], times: Sequence[float], phase: str, host: str
) -> Iterator[Sample]:
    """The device's rates in a phase, as a workload's own: it is all that is known of the workload."""
    for way in ("read", "write"):
        rates = series.get(f"{way}.iops", {})
        if not statistics.median(rates.get(time, 0.0) for time in times):
            # A few in some of its seconds are somebody else's.
            continue
        for metric, unit in ((f"{way}.iops", "1/s"), (f"{way}.bandwidth", "B/s")):
            points = [(time, series[metric][time]) for time in times if time in series.get(metric, {})]
            if not points:
                continue
            yield Sample(metric, statistics.fmean(value for _, value in points), unit, LAYER, host, phase)
            for time, value in points:
                yield Sample(metric, value, unit, LAYER, host, phase, time)

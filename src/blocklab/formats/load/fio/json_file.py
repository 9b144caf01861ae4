"""fio's JSON and JSON+, of 2.1 or newer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from blocklab.errors import ParseError
from blocklab.formats.found import Found
from blocklab.formats.load.fio import older, report
from blocklab.formats.load.fio.options import numjobs, shaping
from blocklab.formats.load.fio.report import LAYER, Job, Output
from blocklab.formats.text import Refused, Text, refusal
from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Phase, Sample

REPORTS = ("fio-json", "fio-text")
"""The kinds in which fio itself tells of its jobs."""

# {
#   "fio version" : "fio-3.39",
# [{"fio version" ...      reports of which somebody made an array
_JSON = re.compile(r'^(?:\[\s*)?\{\s*"fio version" ?:', re.MULTILINE)
# fio makes its rates of the same numbers.
_OFF = 0.1
# With these a job may stand still, or start again, between two reports.
_LATER = frozenset({"startdelay", "exec_prerun", "exec_postrun", "ramp_time", "wait_for", "ss"})


def fits(head: str) -> bool:
    """Whether this is fio's JSON; warnings may stand before it."""
    return _JSON.search(head) is not None


def read(text: Text) -> Found:
    """Values and phases of all jobs. Raises ``Refused``."""
    try:
        reports, lacks = _reports(text)
        output = reports[-1]
        values, broken = _values(output)
    except ParseError as error:
        raise refusal(error) from error
    if not values:
        raise Refused(f"fio: {'; '.join(broken.values()) or 'no job in its JSON'}")
    remarks = [*text.remarks, *(f"{why}: left out" for why in broken.values())]
    if lacks:
        remarks.append(f"of {output.version}: {'; '.join(lacks)}")
    if len(reports) > 1:
        remarks.append(f"{len(reports)} reports of one run (--status-interval): the last one is taken")
    good = [job for job in output.jobs if job.jobname not in broken]
    if any(_borrowed(job) for job in good):
        remarks.append("percentiles are of completion (clat): it has none of the whole latency (lat_percentiles)")
    remarks += [said for job in good for said in _contradictions(job)]
    clones = [name for name, count in Counter(job.jobname for job in good).items() if count > 1]
    if clones:
        remarks.append(f"clones added up, so without percentiles: {', '.join(clones)}")
        values = list(together(values, set(clones)))
    phases = [phase for phase in _phases(output) if phase.name not in broken]
    if phases and not any(job.job_start for job in output.jobs):
        remarks.append("when its jobs began is reckoned back from when it was printed")
    options = {job.jobname: own for job in good if (own := {**output.options, **job.options})}
    return Found(
        kind="fio-json", path=text.path, rows=len(good), tool=LAYER, samples=tuple(values),
        phases=tuple(phases), start=min((each.start for each in phases), default=None),
        end=max((each.end for each in phases), default=None), jobs=tuple(_numbers(output)),
        options=options, shapes={name: shaping(own) for name, own in options.items()}, remarks=tuple(remarks),
        partly=not options, major=2 if output.version.startswith("fio-2") else 3,
    )  # fmt: skip


def run_of(text: Text) -> list[Output]:
    """The reports of one run; several with ``--status-interval``. Raises ``ParseError``, ``Refused``."""
    return _reports(text)[0]


def _reports(text: Text) -> tuple[list[Output], tuple[str, ...]]:
    """The same, and which fields the fio of that age does not write."""
    lacks: dict[str, None] = {}

    def brought(document: Any) -> Any:
        found, more = older.brought_up(document)
        lacks.update(dict.fromkeys(more))
        return found

    reports = report.reports(text.text + text.cut, brought=brought)
    _one_run(reports)
    return reports, tuple(lacks)


def _values(output: Output) -> tuple[list[Sample], dict[str, str]]:
    """Those of the sound jobs, and by the name of each other job what is wrong with it: its clones are no job
    without it."""
    broken: dict[str, str] = {}
    found: list[Sample] = []
    for job in output.jobs:
        if job.error:
            broken[job.jobname] = f"job {job.jobname} ended with error {job.error}"
            continue
        try:
            found += report.values(job, "", own=False)
            found += report.completion(job, "")
        except ParseError as error:
            broken.setdefault(job.jobname, error.message.removeprefix("fio: "))
    return [sample for sample in found if sample.phase not in broken], broken


def _contradictions(job: Job) -> Iterator[str]:
    """Rates of a job that are not its I/Os and bytes over its time."""
    for name in report.DIRECTIONS:
        way = getattr(job, name)
        seconds = way.runtime / 1000
        for metric, rate, count in (("IOPS", way.iops, way.total_ios), ("bandwidth", way.bw_bytes, way.io_bytes)):
            if count and rate and seconds and abs(rate - count / seconds) > _OFF * max(rate, count / seconds):
                yield (
                    f"job {job.jobname} contradicts itself: its {metric} ({name}) is {rate:.6g}, which is taken, "
                    f"but what it counted in {seconds:.6g} s makes {count / seconds:.6g}"
                )


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
        counts = [(getattr(old, way).total_ios, getattr(new, way).total_ios) for way in report.DIRECTIONS]
        # A job forgets all that it did before its ramp was over.
        if any(name.startswith("ramp_") for name in {**after.options, **new.options}):
            continue
        if any(now < then for then, now in counts):
            return f"counts less of job {new.jobname} than the one before it"
        if any(then for then, _ in counts) and new.job_start > before.timestamp_ms > 0:
            return f"has a job {new.jobname} that began after the one before it was printed"
        if any(now > then for then, now in counts) and 0 < _ran(new) <= _ran(old):
            return f"did more of job {new.jobname} in no more time than the one before it"
    return _paused(before, after)


def _paused(before: Output, after: Output) -> str:
    """Reports of one run come while its jobs run: between two of them these run as long as the clock does."""
    passed = after.timestamp_ms - before.timestamp_ms
    if not before.timestamp_ms or any(_LATER & {*after.options, *job.options} for job in after.jobs):
        return ""
    groups: dict[int, float] = {}
    for old, new in zip(before.jobs, after.jobs, strict=True):
        groups[new.groupid] = max(groups.get(new.groupid, 0.0), _ran(new) - _ran(old))
    ran = sum(groups.values())
    if passed > ran * 1.1 + 2000:
        return (
            f"was printed {passed / 1000:.0f} s after the one before it, but its jobs ran for {ran / 1000:.0f} s"
        )
    return ""


def _ran(job: Job) -> float:
    """In ms."""
    return max(job.read.runtime, job.write.runtime, job.trim.runtime)


def _options(output: Output) -> list[tuple[str, Mapping[str, str]]]:
    return [(job.jobname, job.options) for job in output.jobs]


def _numbers(output: Output) -> Iterator[str]:
    """The name to each number that fio gives: every clone has one, also where they are reported together."""
    entries = Counter(job.jobname for job in output.jobs)
    for job in output.jobs:
        together = entries[job.jobname] == 1
        yield from [job.jobname] * (numjobs({**output.options, **job.options}) if together else 1)


def _borrowed(job: Job) -> bool:
    ways = (job.read, job.write, job.trim)
    return any(way.total_ios and not way.lat_ns.percentile and way.clat_ns is not None for way in ways)


def together(values: Sequence[Sample], clones: set[str]) -> Iterator[Sample]:
    """The values of ``clones`` of one job, by its name, once: rates add up, means count by their I/Os, of the
    greatest it is the greatest."""
    for phase, mine in groupby(values, key=lambda sample: sample.phase):
        rows = [each for each in values if each.phase == phase] if phase in clones else list(mine)
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
    values, known = by[metric], metric_of(metric)
    if known.countable:
        return sum(values)
    if known.kind == "extreme":
        return known.together(values)
    counts = by.get(known.beside("ios"), [])
    if known.kind == "mean" and len(counts) == len(values):
        return sum(value * count for value, count in zip(values, counts, strict=True)) / sum(counts)
    return None


def _phases(output: Output) -> Iterator[Phase]:
    """Each job's time. Of an fio that does not tell, the groups (stonewall) are set one before the other, the last
    one ending when fio printed."""
    told = [phase for job in output.jobs if (phase := report.phase(job)) is not None]
    if told or not output.timestamp_ms:
        yield from {phase.name: phase for phase in told}.values()
        return
    found: list[Phase] = []
    end = output.timestamp_ms / 1000
    groups: dict[int, list[Job]] = {}
    for job in output.jobs:
        groups.setdefault(job.groupid, []).append(job)
    for _, jobs in sorted(groups.items(), reverse=True):
        longest = max(map(_ran, jobs)) / 1000
        found += [Phase(name, end - longest, end) for name in dict.fromkeys(job.jobname for job in jobs)]
        end -= longest
    yield from reversed(found)

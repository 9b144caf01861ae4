"""The files of one stack put together: which workload each belongs to, and what stood under it meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from blocklab.errors import StudyError
from blocklab.formats.clock import DAY
from blocklab.formats.found import Found
from blocklab.formats.load.fio.json_file import REPORTS
from blocklab.formats.load.fio.options import shaping
from blocklab.imports.study import short, workload_name
from blocklab.imports.timeline import Line, cpus_alone, devices, line_of, phases_of
from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Latencies, Phase, Sample, Transaction
from blocklab.model.watched import Watched
from blocklab.workloads.fio_jobs import Section

# A stack, and which repeat, from 0.
Side: TypeAlias = tuple[str, int]
# Probes run a little longer than the workload that they watch.
AROUND = 30.0
# Two values of one thing by two files differ by less than this, unless they are of two runs; what is the mean of a
# time series lacks the parts of a second at its ends.
AGREE, AGREE_OF_SERIES = 0.02, 0.1


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: the values and series of a workload, of its own files and of what watched it."""

    name: str
    tool: str
    samples: tuple[Sample, ...]
    phases: tuple[Phase, ...]
    watched: tuple[Watched, ...] = ()
    transactions: tuple[Transaction, ...] = ()
    latencies: Latencies | None = None
    files: tuple[Path, ...] = ()
    said: tuple[str, ...] = ()
    shapes: Mapping[str, Mapping[str, str]] = {}
    """Of fio's jobs the options by which they are laid out."""
    line: Line | None = None
    """Of a workload that left no log of its own: the time line that its phases are found in."""


class Piece(msgspec.Struct, frozen=True):
    """A file with its times known, the folder below the stack's own that it stood in (a workload's name), and, of
    what watched a workload, the one that it was joined to, where its times do not tell."""

    found: Found
    folder: str
    joined: str = ""


def assemble(
    stack: str, pieces: Sequence[Piece], jobs: Sequence[Section], *, host: str, device: str = ""
) -> tuple[list[Assembled], list[str]]:
    """The workloads of a stack, and what else is to be said. ``host`` is the node that they ran on; ``device`` the
    one that they stood on, empty for the one that its time line tells. Those with a ``line`` have no phases yet,
    see ``phased``. Raises ``StudyError`` where two runs are mixed up."""
    groups: dict[tuple[str, str], list[Found]] = {}
    for piece in pieces:
        if piece.found.tool:
            groups.setdefault((piece.folder, piece.found.tool), []).append(piece.found)
    workloads = []
    for (folder, tool), files in groups.items():
        tools = [other for at, other in groups if at == folder]
        name = workload_name(folder, tool, alone=len(tools) == 1)
        workload = _load(stack, name, tool, files)
        told = {job.name: shaping(job.options) for job in jobs} if tool == "fio" else {}
        workloads.append(msgspec.structs.replace(workload, shapes={**told, **workload.shapes}))
    watchers = [piece for piece in pieces if not piece.found.tool]
    workloads = [_watched(workload, watchers) for workload in workloads]
    said: list[str] = []
    for folder in dict.fromkeys(piece.folder for piece in watchers):
        mine = [piece for piece in watchers if piece.folder == folder]
        made = _from_timeline(stack, folder, mine, workloads, jobs, host=host, device=device)
        workloads += made.workloads
        said += made.said
    _named_apart(stack, workloads)
    return workloads, said


def _named_apart(stack: str, workloads: Sequence[Assembled]) -> None:
    """Raises ``StudyError`` for two workloads of one name."""
    seen: dict[str, Assembled] = {}
    for workload in workloads:
        other = seen.setdefault(workload.name, workload)
        if other is not workload:
            raise StudyError(
                "",
                f"stack {stack}: {other.files[0]} and {workload.files[0]} are of two workloads, both called "
                f"{workload.name}",
                hint="put them into one folder if they are of one run, else rename the folder of one of them",
            )


def _load(stack: str, name: str, tool: str, files: Sequence[Found]) -> Assembled:
    said: list[str] = []
    _one_run(stack, name, files)
    ordered = sorted(files, key=lambda each: (_RANK.get(each.kind, 5), _natural(each.path.name)))
    ordered = _placed(ordered) if tool == "fio" else _beside(ordered)
    samples: dict[tuple[str, str, float | None], Sample] = {}
    first: dict[tuple[str, str], str] = {}
    for each in ordered:
        for sample in each.samples:
            key = (sample.phase, sample.metric, sample.time)
            if sample.time is not None and first.setdefault((sample.phase, sample.metric), each.kind) != each.kind:
                continue
            before = samples.setdefault(key, sample)
            # Lines of progress do not cover all of a run: where there is a summary they say nothing of it.
            said_twice = each.kind != "pgbench-progress"
            if sample.time is None and said_twice and _differ(sample, before):
                what = metric_of(sample.metric).label or sample.metric
                job = f" of {sample.phase}" if sample.phase else ""
                said.append(
                    f"{name}: {each.path.name} comes to {sample.value:.4g} {what}{job}, but another file says "
                    f"{before.value:.4g}: are they of one run?"
                )
    phases = {phase.name: phase for each in reversed(ordered) for phase in each.phases}
    return Assembled(
        name=name, tool=tool, samples=tuple(samples.values()),
        phases=tuple(sorted(phases.values(), key=lambda phase: phase.start)),
        transactions=next((each.transactions for each in ordered if each.transactions), ()),
        latencies=next((each.latencies for each in ordered if each.latencies is not None), None),
        files=tuple(each.path for each in ordered), said=tuple(said),
        shapes={name: shape for each in ordered for name, shape in each.shapes.items()},
    )  # fmt: skip


def _differ(sample: Sample, before: Sample) -> bool:
    """Whether a rate of one file is another one than that of a file beside it."""
    known = metric_of(sample.metric)
    near = AGREE if known.transactions else AGREE_OF_SERIES
    return known.kind == "rate" and abs(before.value - sample.value) > near * sample.value


def _natural(name: str) -> list[tuple[int, str]]:
    """``randread-2`` stands before ``randread-16``."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


# What a tool says itself comes before what is counted from its log.
_RANK: Mapping[str, int] = {
    "fio-json": 0, "fio-text": 1, "fio-lat": 2, "pgbench": 0, "hammerdb": 0, "pgbench-log": 1,
    "pgbench-aggregate": 2, "pgbench-progress": 3,
}  # fmt: skip
# Of these a folder has the files of one run, unless it has two of one kind.
_ONCE = (
    "pgbench", "pgbench-progress", "pgbench-log", "pgbench-aggregate", "go-tpc", "sysbench", "jdbcrunner",
    "hammerdb", "hammerdb-profile", "hammerdb-counter",
)  # fmt: skip


def _one_run(stack: str, name: str, files: Sequence[Found]) -> None:
    """Raises ``StudyError`` for files of one kind that cannot be of one run."""
    hint = "put the files of each run into a folder of its own below the stack's; its name becomes the workload's"
    for kind in _ONCE:
        several = [each for each in files if each.kind == kind]
        if len(several) < 2:
            continue
        names = ", ".join(each.path.name for each in several)
        raise StudyError("", f"stack {stack}: {len(several)} runs of {name} ({kind}): {names}", hint=hint)
    # Each job of a run may have a JSON of its own.
    seen: dict[tuple[str, str], Path] = {}
    for each in files:
        for job in dict.fromkeys(each.jobs):
            other = seen.setdefault((each.kind, job), each.path)
            if other != each.path:
                raise StudyError("", f"stack {stack}: {other} and {each.path} both have a job {job}", hint=hint)


def _placed(files: Sequence[Found]) -> list[Found]:
    """fio's logs, whose times may count from their job's start, at the time that the JSON beside them tells."""
    known = {phase.name: phase for each in files if each.kind in REPORTS for phase in each.phases}
    found = []
    for each in files:
        own = each.phases[0] if each.kind not in REPORTS and each.phases else None
        job = known.get(own.name) if own is not None and each.start is None else None
        if own is not None and job is not None:
            each = msgspec.structs.replace(
                each, phases=(Phase(own.name, own.start + job.start, own.end + job.start),),
                samples=tuple(_moved(sample, job.start) for sample in each.samples),
            )  # fmt: skip
        found.append(each)
    return found


def _beside(files: Sequence[Found]) -> list[Found]:
    """pgbench's summary, whose time series may count from the start, at the time at which the log beside it
    begins."""
    start = min((each.start for each in files if each.start is not None), default=None)
    if start is None:
        return list(files)
    return [
        msgspec.structs.replace(each, samples=tuple(_moved(sample, start) for sample in each.samples))
        if each.kind in ("pgbench", "pgbench-progress") and each.start is None
        else each
        for each in files
    ]


def _moved(sample: Sample, by: float) -> Sample:
    return sample if sample.time is None else msgspec.structs.replace(sample, time=sample.time + by)


def _watched(workload: Assembled, watchers: Sequence[Piece]) -> Assembled:
    """With what was watched while it ran."""
    if not workload.phases:
        return workload
    low, high = min(phase.start for phase in workload.phases), max(phase.end for phase in workload.phases)
    watched, files = list(workload.watched), list(workload.files)
    for piece in watchers:
        # Times that are made up tell nothing but what was joined by them.
        if piece.found.untimed or piece.joined not in ("" if low > DAY else workload.name, workload.name):
            continue
        if any(len(one.between(low, high).times) for one in piece.found.watched):
            around = [one.between(low - AROUND, high + AROUND) for one in piece.found.watched]
            watched += [one for one in around if len(one.times)]
            files.append(piece.found.path)
    return msgspec.structs.replace(workload, watched=tuple(watched), files=tuple(files))


def _overlaps(found: Found, low: float, high: float) -> bool:
    return not found.untimed and any(len(each.between(low, high).times) for each in found.watched)


def _outside(watched: Watched, taken: Sequence[tuple[float, float]]) -> Watched:
    """Without the times of workloads that are known, and a second around."""
    free = np.ones(len(watched.times), dtype=bool)
    for low, high in taken:
        free &= (watched.times < low - 1) | (watched.times > high + 1)
    return watched.at(free)


class _Made(msgspec.Struct, frozen=True):
    workloads: tuple[Assembled, ...]
    said: tuple[str, ...]


def _from_timeline(
    stack: str,
    folder: str,
    watchers: Sequence[Piece],
    workloads: Sequence[Assembled],
    jobs: Sequence[Section],
    *,
    host: str,
    device: str,
) -> _Made:
    """A workload that left nothing but what watched it, by what no other workload claims of the time line."""
    taken = [
        (min(p.start for p in workload.phases), max(p.end for p in workload.phases))
        for workload in workloads
        if workload.phases
    ]
    # What is busy beside a workload that is known is mostly its preparation; only a job file says otherwise.
    alone = [
        piece.found
        for piece in watchers
        if not piece.joined and (jobs or not any(_overlaps(piece.found, *times) for times in taken))
    ]
    free = [one if each.untimed else _outside(one, taken) for each in alone for one in each.watched]
    # What another node did meanwhile is this workload only where nothing watched its own.
    own = any(devices(piece.found.watched, host) for piece in watchers)
    mine = [each for each in free if each.host == host] if own else free
    line = line_of(stack, mine, device)
    cpus = cpus_alone(stack, mine) if line is None else None
    if line is None and cpus is None:
        left = any(len(each.times) for each in mine)
        return _Made((), (f"{stack}: what was watched shows no workload of its own",) if left else ())
    name = folder or ("fio" if jobs else "io")
    if any(workload.name == name for workload in workloads):
        name = short(f"{name}-watched")
    files = tuple(each.path for each in alone)
    if line is None:
        phases, told = (cpus.phases, cpus.said) if cpus is not None else ((), ())
        alone_cpus = Assembled(
            name=name, tool="", samples=(), watched=tuple(free), phases=phases, files=files, said=told
        )
        return _Made((alone_cpus,), ())
    first, last = line.stretches[0][0], line.stretches[-1][1]
    low, high = line.seconds[first].time - AROUND, line.seconds[last].time + AROUND
    workload = Assembled(
        name=name, tool="", samples=(), watched=tuple(each.between(low, high) for each in free),
        phases=(), files=files, line=line,
        shapes={job.name: shaping(job.options) for job in jobs},
    )  # fmt: skip
    return _Made((workload,), ())


def phased(workloads: Mapping[Side, Sequence[Assembled]], jobs: Sequence[Section]) -> dict[Side, list[Assembled]]:
    """The workloads of all stacks and repeats, those with a time line with their phases: what a sequence of them
    is shows only on several stacks."""
    found = {stack: list(each) for stack, each in workloads.items()}
    names = dict.fromkeys(each.name for every in workloads.values() for each in every if each.line is not None)
    for name in names:
        places = [
            (stack, at, each.line)
            for stack, every in workloads.items()
            for at, each in enumerate(every)
            if each.name == name and each.line is not None
        ]
        for (stack, at, _), made in zip(places, phases_of([line for *_, line in places], jobs), strict=True):
            each = found[stack][at]
            found[stack][at] = msgspec.structs.replace(
                each, samples=(*made.values, *each.samples), phases=made.phases, said=(*each.said, *made.said),
                watched=(*made.series, *each.watched),
            )  # fmt: skip
    return found


def hosts(workload: Assembled) -> Iterator[str]:
    """The hosts that its samples name; empty for those of files that name none."""
    samples, watched = workload.samples, workload.watched
    yield from dict.fromkeys([*(each.host for each in samples), *(each.host for each in watched)])

"""Which workload a file belongs to where times do not tell: a workload that only counts seconds from its start, or
what watched one without a time of its own.

The file about the logs says it (``began``, ``belongs_to``); else the folder, where it has one workload; else, of
one workload and what watched something for about as long, whoever is asked. Both then begin together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from fnmatch import fnmatchcase

import msgspec
import numpy as np

from blocklab.errors import StudyError
from blocklab.formats import clock
from blocklab.formats.found import Found
from blocklab.imports import phases
from blocklab.imports.collect import Given
from blocklab.imports.study import ImportedStack, workload_name
from blocklab.imports.timeline import device_of, series_of
from blocklab.model.sample import Phase, Sample
from blocklab.workloads.fio_jobs import Section

# Two are about as long as each other where they differ by no more than this part, or by these seconds.
ALIKE, ALIKE_SECONDS = 0.1, 5.0
# It asks whether a file belongs to a workload.
Agree = Callable[[str], bool]


class Load(msgspec.Struct, frozen=True):
    """The files of one workload; ``start`` and ``length`` in seconds, where they tell it."""

    name: str
    folder: str
    tool: str
    files: tuple[Given, ...]
    start: float | None = None
    length: float | None = None

    @property
    def timed(self) -> bool:
        """Whether it has times of a calendar."""
        return self.start is not None and self.start > clock.DAY


def settle(
    stack: str, given: Sequence[Given], about: ImportedStack, jobs: Sequence[Section], zone: tzinfo, agree: Agree
) -> None:
    """Put what has no times at the time of the workload that it belongs to, and the other way round. What belongs
    to none that is known is left out where there are workloads. Raises ``StudyError``."""
    for name, text in about.began.items():
        _begin(stack, loads(given), name, text, zone)
    for pattern, name in about.belongs_to.items():
        _named(stack, given, pattern, name)
    for each in _watchers(given):
        beside = loads(given)
        here = [load for load in beside if load.folder == each.folder and each.folder]
        only = here or (beside if not each.folder else [])
        if not _apart(each, only):
            continue
        if len(here) == 1:
            _together(here[0], each, "the only workload in its folder")
        elif len(only) == 1 and (said := _as_long(only[0], each)):
            question = f"{each.shown} of {stack} has {said}. Does it belong to it?"
            if agree(question):
                _together(only[0], each, "as it was said")
            else:
                each.left_out = f"{said}, and nothing else tells whether it belongs to it: --yes joins them"
        elif _untimed(each) and only and (not jobs or any(load.tool == "fio" for load in only)):
            # With a job file it may be fio's time line, unless fio itself left logs.
            each.left_out = _TIMELESS


_TIMELESS = (
    "it has no times that are known (iostat -t, vmstat -t, dstat -t), and nothing tells which workload it belongs "
    "to: put both into a folder of their own, or say it in --study (belongs_to)"
)


def loads(given: Sequence[Given]) -> list[Load]:
    """The workloads that left files."""
    groups: dict[tuple[str, str], list[Given]] = {}
    for each in given:
        if each.found is not None and not each.left_out and each.found.tool:
            groups.setdefault((each.folder, each.found.tool), []).append(each)
    tools = {folder: [tool for at, tool in groups if at == folder] for folder, _ in groups}
    found = []
    for (folder, tool), files in groups.items():
        start, end = _times([each.found for each in files if each.found is not None])
        name = workload_name(folder, tool, alone=len(tools[folder]) == 1)
        length = end - start if start is not None and end is not None else None
        found.append(Load(name, folder, tool, tuple(files), start, length))
    return found


def _times(files: Sequence[Found]) -> tuple[float | None, float | None]:
    known = [phase for each in files for phase in each.phases]
    if known:
        return min(phase.start for phase in known), max(phase.end for phase in known)
    # A summary alone tells how long it took by what was done, and how fast.
    whole = {each.metric: each.value for found in files for each in found.samples if each.time is None}
    if whole.get("tps") and "transactions" in whole:
        return 0.0, whole["transactions"] / whole["tps"]
    return None, None


def _watchers(given: Sequence[Given]) -> Iterator[Given]:
    for each in given:
        if each.found is None or each.left_out or each.found.tool:
            continue
        if each.found.watched:
            yield each


def _untimed(watcher: Given) -> bool:
    return watcher.found is not None and watcher.found.untimed


def _apart(watcher: Given, beside: Sequence[Load]) -> bool:
    """Whether times do not tell which of these it belongs to."""
    return _untimed(watcher) or (bool(beside) and not any(load.timed for load in beside))


def _begin(stack: str, known: Sequence[Load], name: str, text: str, zone: tzinfo) -> None:
    load, place = _load(stack, "began", known, name), f"stacks.{stack}.began.{name}"
    stamp = clock.stamp(text)
    if stamp is None or not (stamp.numbers or stamp.offset is not None):
        raise StudyError(place, f"{text!r} is no time", hint="write it like 2020-08-11 10:00:00")
    if load.timed:
        raise StudyError(place, "its logs have times of their own", hint="leave it out")
    times, _ = clock.resolve(clock.Clock((stamp,)), place, zone=zone, order="ymd", anchors=())
    _move(load, (times[0] or 0.0) - (load.start or 0.0), "began as the file about the logs says")


def _named(stack: str, given: Sequence[Given], pattern: str, name: str) -> None:
    files = [each for each in _watchers(given) if fnmatchcase(each.shown, pattern) or each.path.name == pattern]
    if not files:
        raise StudyError(
            f"stacks.{stack}.belongs_to", f"no file that watched something is called {pattern!r}",
            hint=f"there are {', '.join(each.shown for each in _watchers(given)) or 'none'}",
        )  # fmt: skip
    for each in files:
        _together(_load(stack, "belongs_to", loads(given), name), each, "as the file about the logs says")


def _load(stack: str, field: str, known: Sequence[Load], name: str) -> Load:
    for load in known:
        if load.name == name:
            return load
    names = ", ".join(load.name for load in known) or "none"
    raise StudyError(f"stacks.{stack}.{field}", f"no log is of a workload {name!r}", hint=f"there are {names}")


def _together(load: Load, watcher: Given, why: str) -> None:
    """Both begin at one time: what has no times is put where the other one is."""
    found = watcher.found
    assert found is not None
    if load.timed and not found.untimed:
        return
    if load.start is None or load.length is None:
        watcher.left_out = f"{load.name} does not tell how long it took, so its time is not known"
        return
    begin = _begins(found, load.length)
    first = watcher.shown
    if found.untimed:
        by = load.start - begin
        watcher.found = found.of_series(lambda series: series.moved(by), untimed=False)
        watcher.joined = load.name
        watcher.remarks += (f"taken to have begun together with {load.name}: {why}",)
    else:
        _move(load, begin - load.start, f"taken to have begun together with {first}: {why}")


def _move(load: Load, by: float, why: str) -> None:
    """The workload's files at another time; a summary without times gets its length."""
    for each in load.files:
        assert each.found is not None
        start = load.start or 0.0
        own = each.found.phases or (Phase(load.tool, start, start + (load.length or 0.0)),)
        each.found = msgspec.structs.replace(
            each.found, samples=_moved(each.found.samples, by),
            phases=tuple(Phase(phase.name, phase.start + by, phase.end + by) for phase in own),
            transactions=tuple(msgspec.structs.replace(one, end=one.end + by) for one in each.found.transactions),
        )  # fmt: skip
    load.files[0].remarks += (why,)


def _moved(samples: Sequence[Sample], by: float) -> tuple[Sample, ...]:
    return tuple(
        each if each.time is None else msgspec.structs.replace(each, time=each.time + by) for each in samples
    )


def _begins(found: Found, length: float) -> float:
    """When a workload of that length began in what was watched: where its device began to be busy, if it was so
    once, for about as long; else with the first report."""
    start, whole, stretches = _watched(found)
    busy = [at for at, long in stretches if _alike(long, length)]
    return busy[0] if len(stretches) == 1 and busy and not _alike(whole, length) else start


def _as_long(load: Load, watcher: Given) -> str:
    """What is alike in length; empty where nothing is."""
    assert watcher.found is not None
    if load.length is None:
        return ""
    _, whole, stretches = _watched(watcher.found)
    if _alike(whole, load.length):
        return f"no times in common with {load.name}, but is about as long ({whole:.0f} and {load.length:.0f} s)"
    if len(stretches) == 1 and _alike(stretches[0][1], load.length):
        busy = f"{stretches[0][1]:.0f} and {load.length:.0f} s"
        return f"no times in common with {load.name}, but is busy for about as long ({busy})"
    return ""


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= max(ALIKE * other, ALIKE_SECONDS)


def _watched(found: Found) -> tuple[float, float, list[tuple[float, float]]]:
    """When it began, how long it is, and the start and length of each busy stretch of its device, in seconds."""
    times = np.unique(np.concatenate([each.times for each in found.watched])).tolist()
    step = phases.step(times)
    line = phases.seconds(series_of(found.watched, *device_of(found.watched)))
    busy = [(line[first].time - step, line[last].time) for first, last in phases.stretches(line)]
    return times[0] - step, times[-1] - times[0] + step, [(low, high - low) for low, high in busy]

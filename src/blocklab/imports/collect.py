"""The files that a stack is given, each taken for what it says that it is; what is left out, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from blocklab.errors import StudyError
from blocklab.formats import clock
from blocklab.formats.clock import Clock
from blocklab.formats.found import Found
from blocklab.formats.gather import File
from blocklab.formats.load.fio import log_file
from blocklab.imports import kinds
from blocklab.imports.assemble import Piece
from blocklab.imports.study import name_of
from blocklab.model.sample import Phase, Sample
from blocklab.model.watched import Watched
from blocklab.store.imported import ImportedFile

Times: TypeAlias = list[float | None]
"""By the places of a clock, seconds since the epoch; None for a date that does not exist."""


class Given(File, kw_only=True):
    """One file of a stack: as it was found, and with its times known."""

    folder: str = ""
    """The workload that its folder is called after; empty for a file in the stack's own folder."""
    below: str = ""
    """That folder as it stands there."""
    repeat: int | None = None
    """Which repeat of its workload it is of, from 0; None where there is one, or it watched all of them."""
    joined: str = ""
    """Of what watched a workload: the one that it was joined to, where its times do not tell."""
    remarks: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Its name, with the folders below the stack's own."""
        return f"{self.below}/{self.path.name}" if self.below else self.path.name

    def told(self) -> ImportedFile:
        """As it is stored and shown."""
        if self.found is None or self.left_out:
            why = f"left out: {self.left_out}"
            return ImportedFile(str(self.path), "", sha256=self.sha256, remarks=(why,), shown=self.shown)
        found = self.found
        times = [sample.time for sample in found.samples if sample.time is not None]
        times += [time for phase in found.phases for time in (phase.start, phase.end)]
        times += [float(at) for each in found.watched if len(each.times) for at in each.times[[0, -1]]]
        bad = found.first_bad
        return ImportedFile(
            str(self.path), found.kind, found.rows, found.bad, bad.line if bad else 0,
            bad.text[:120] if bad else "", found.host,
            found.start if found.start is not None else min(times, default=None),
            found.end if found.end is not None else max(times, default=None), self.sha256,
            (*found.remarks, *self.remarks), cut=bad is not None and bad.cut, shown=self.shown,
        )  # fmt: skip


def files(stack: str, places: Sequence[str]) -> list[Given]:
    """The files of folders (with all below them), patterns and single files. Raises ``StudyError`` for none."""
    found: dict[Path, str] = {}
    for place in places:
        try:
            for path, below in _files(Path(place)):
                found.setdefault(path, below)
        except (OSError, ValueError) as error:
            problem = f"--stack {stack}={place}: {getattr(error, 'strerror', None) or error}"
            raise StudyError("", problem, hint="it is a folder, a file, or a pattern like 'logs/*.log'") from error
    if not found:
        raise StudyError("", f"--stack {stack}: there is no file in {', '.join(places)}")
    return [
        Given(path=path, folder=name_of(below.replace("/", "-")) if below else "", below=below)
        for path, below in found.items()
    ]


def _files(place: Path) -> Iterator[tuple[Path, str]]:
    """The files of one place, each with the folder below it that it stands in. Raises ``OSError`` and
    ``ValueError``."""
    if place.is_dir():
        # A link that leads to nothing is told of, not passed over.
        for each in sorted(each for each in place.rglob("*") if each.is_file() or _dangling(each)):
            parts = each.relative_to(place).parts[:-1]
            if not any(part.startswith(".") for part in (*parts, each.name)):
                yield each, "/".join(parts)
        return
    several = [place] if place.is_file() else _matching(place)
    if not several:
        raise ValueError("no such folder, and no file has that name")
    yield from ((each, "") for each in several)


def _dangling(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _matching(pattern: Path) -> list[Path]:
    """The files of a pattern such as ``logs/*_local.txt``. Raises ``ValueError``."""
    if any("**" in part and part != "**" for part in pattern.parts):
        # Python before 3.13 refuses it, later ones take it for a single *.
        raise ValueError("** stands for folders, and has to be alone between two slashes: logs/**/*.log")
    top = Path(pattern.anchor)
    return sorted(each for each in top.glob(str(pattern.relative_to(top))) if each.is_file() or _dangling(each))


def take(given: Sequence[Given], asked: Mapping[Path, str], first_report: str = "") -> None:
    """Each file read as what it is (``asked``: as what somebody said); ``first_report``: what that of iostat and
    vmstat covers. Raises ``StudyError`` for what is unclear."""
    kinds.READERS.gather(given, asked, first_report=first_report, same=_same)


def _same(given: Given) -> Hashable:
    if given.kind not in log_file.LOGS:
        return given.sha256
    # Two clones of a steady rate leave the same rows, and so do IOPS and KiB/s of blocks of 1 KiB.
    return given.sha256, given.folder, given.kind, log_file.log_number(given.path.name)


def date(given: Mapping[str, Sequence[Given]], *, zone: tzinfo, order: str) -> None:
    """Turns the times of all stacks' files into seconds since the epoch. Raises ``StudyError`` where they are
    unclear."""
    anchors = [
        ((stack, each.folder), each.found.start)
        for stack, every in given.items()
        for each in every
        if each.found is not None and each.found.start is not None and each.found.start > clock.DAY
    ]
    # Those whose dates are sure help the others, first of all those of their workload, then of their stack.
    for sure in (True, False):
        for stack, each in ((stack, each) for stack, every in given.items() for each in every):
            if each.found is None or each.left_out or _certain(each.found) is not sure:
                continue
            place = (stack, each.folder)
            beside = [at for of, at in anchors if of == place] or [at for of, at in anchors if of[0] == stack]
            beside = beside or [at for _, at in anchors]
            resolve = partial(clock.resolve, where=str(each.path), zone=zone, order=order, anchors=beside)
            each.found, first, remarks = dated(each.found, resolve)
            each.remarks += tuple(dict.fromkeys(remarks))
            if sure and first > clock.DAY:
                anchors.append((place, first))


def _certain(found: Found) -> bool | None:
    """Whether its dates leave no doubt; None of a file whose times are known."""
    clocks = _clocks(found)
    stamps = [stamp for written in clocks for stamp in written.stamps]
    return all(stamp.sure or stamp.offset is not None for stamp in stamps) if clocks else None


def _clocks(found: Found) -> list[Clock]:
    return [written for written in (found.clock, *(table.clock for table in found.tables)) if written is not None]


def dated(found: Found, resolve: Callable[[Clock], tuple[Times, list[str]]]) -> tuple[Found, float, list[str]]:
    """A file with its times known, the first of them, and what had to be assumed."""
    remarks: list[str] = []
    by_clock: dict[int, Times] = {}
    for written in _clocks(found):
        if id(written) not in by_clock:
            by_clock[id(written)], said = resolve(written)
            remarks += said
            if lost := by_clock[id(written)].count(None):
                remarks.append(f"{lost} of its times are of no day that exists: what stands there is left out")
    first = min((times[0] or 0.0 for times in by_clock.values() if times), default=0.0)
    if found.clock is not None:
        times = by_clock[id(found.clock)]
        phases = tuple(_phases(found.phases, times))
        start = min((phase.start for phase in phases), default=None) if found.start is None else found.start
        end = max((phase.end for phase in phases), default=None) if found.end is None else found.end
        found = msgspec.structs.replace(
            found, samples=tuple(_at(found.samples, times)), phases=phases, clock=None, start=start, end=end
        )
    tables = []
    for table in found.tables:
        if table.clock is not None:
            at = np.array([np.nan if time is None else time for time in by_clock[id(table.clock)]], dtype=float)
            watched = tuple(series.dated(at) for series in table.watched)
            table = msgspec.structs.replace(table, watched=watched, clock=None, seconds=(), before=())
        tables.append(table)
    return msgspec.structs.replace(found, tables=tuple(tables)), first, remarks


def _at(samples: Sequence[Sample], times: Times) -> Iterator[Sample]:
    for sample in samples:
        at = None if sample.time is None else times[int(sample.time)]
        if sample.time is None or at is not None:
            yield msgspec.structs.replace(sample, time=at)


def _phases(phases: Sequence[Phase], times: Times) -> Iterator[Phase]:
    for phase in phases:
        start, end = times[int(phase.start)], times[int(phase.end)]
        if start is not None and end is not None:
            yield Phase(phase.name, start, end)


def pieces(given: Sequence[Given], host: str) -> list[Piece]:
    """What is used, with the hosts' names as a study has them; ``host`` for files that name none."""
    found = []
    for each in given:
        if each.found is None or each.left_out:
            continue
        name = name_of(each.found.host) if each.found.host else host
        samples = tuple(msgspec.structs.replace(sample, host=name) for sample in each.found.samples)
        own = msgspec.structs.replace(each.found, host=name, samples=samples)
        own = own.of_series(partial(_on, host=name))
        found.append(Piece(own, each.folder, each.joined))
    return found


def _on(series: Watched, host: str) -> Watched:
    return msgspec.structs.replace(series, host=host)

"""Files that are one log: of the threads of one pgbench, of the clones of one fio job (``numjobs``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from blocklab.errors import StudyError
from blocklab.formats.found import Found
from blocklab.formats.load.fio import log_file
from blocklab.formats.load.fio.json_file import REPORTS
from blocklab.formats.load.fio.options import numjobs
from blocklab.formats.load.pgbench import aggregate, single
from blocklab.formats.text import Refused, whole
from blocklab.imports.collect import Given
from blocklab.workloads.fio_jobs import Section

_THREADS: dict[str, Callable[[Sequence[Path]], Found]] = {
    "pgbench-log": single.read,
    "pgbench-aggregate": lambda paths: aggregate.read([whole(path) for path in paths]),
}
_APART = "put the files of each run into a folder of its own below the stack's"
_LATENCIES = ("fio-lat", "fio-clat", "fio-slat")
_NO_MEAN = (
    "its rows are means over seconds, of how many I/Os each only the job's _iops.log or fio's JSON tells: without "
    "these there is a time series, but no mean"
)
_File = tuple[Given, Found]
_HINT = "fio numbers its logs over all jobs: its JSON beside them, or --jobs FILE, tells whose they are"


def join(given: Sequence[Given], jobs: Sequence[Section]) -> None:
    """Puts together what ``given`` has of one run; ``jobs`` are those of a fio job file.

    The first of the files gets the whole, the others stay for their damage. What nobody knows the unit of is left
    out. Raises ``StudyError`` for logs of two runs.
    """
    groups: dict[tuple[str, int | None], list[_File]] = {}
    for each in given:
        if each.found is not None:
            groups.setdefault((each.folder, each.repeat), []).append((each, each.found))
    for files in groups.values():
        mine = _known(files)
        for kind, read in _THREADS.items():
            _threads([(each, found) for each, found in mine if found.kind == kind], read)
        told = [found.jobs for _, found in mine if found.kind in REPORTS]
        known = [name for names in told for name in names] or list(_numbers(jobs))
        # Of several JSONs nobody knows which one a number is of.
        numbers = known if len(told) < 2 else []
        _clones([(each, found) for each, found in mine if found.kind in log_file.LOGS], set(known), numbers)
        _means([(each, each.found) for each, _ in mine if each.found is not None and each.found.samples])


def _known(files: Sequence[_File]) -> list[_File]:
    """Without the logs whose unit only a report of fio tells, where there is none; those of fio 2 in its unit."""
    majors = {found.major for _, found in files if found.kind in REPORTS}
    for each, found in files:
        if found.either and majors == {2}:
            each.found = log_file.in_microseconds(found)
        elif found.either and majors != {3}:
            each.found, each.left_out = None, found.either
    return [(each, each.found) for each, _ in files if each.found is not None]


def _threads(logs: Sequence[_File], read: Callable[[Sequence[Path]], Found]) -> None:
    """pgbench writes a log for each thread: those of one time are one log."""
    starts, ends = [found.start or 0.0 for _, found in logs], [found.end or 0.0 for _, found in logs]
    if len(logs) > 1 and max(starts) < min(ends):
        _disjoint(logs)
        _one(logs, _read(logs, read), "of other threads")


def _read(logs: Sequence[_File], read: Callable[[Sequence[Path]], Found]) -> Found:
    """Raises ``StudyError`` for what each of them is alone, but not all of them together."""
    paths = [each.path for each, _ in logs]
    try:
        return read(paths)
    except Refused as reason:
        names = ", ".join(str(path) for path in paths)
        raise StudyError("", f"{names} are not one log: {reason}", hint=_APART) from reason


def _disjoint(logs: Sequence[_File]) -> None:
    """Raises ``StudyError`` for two runs at one time: the threads of one run share no client."""
    seen: dict[int, Path] = {}
    for each, found in logs:
        for client in sorted(found.clients):
            other = seen.setdefault(client, each.path)
            if other != each.path:
                problem = f"are of two runs of pgbench at one time: both have a client {client}"
                raise StudyError(
                    "", f"{other} and {each.path} {problem}",
                    hint=_APART,
                )  # fmt: skip


def _one(logs: Sequence[_File], read: Found, what: str) -> None:
    """``read`` is what all of them are together: the first file has it."""
    (first, own), *others = logs
    first.found = msgspec.structs.replace(read, bad=own.bad, bad_rows=own.bad_rows)
    names = ", ".join(each.shown for each, _ in others)
    first.remarks += (f"one log with {names}, {what}: {read.rows:,} rows together",)
    for each, found in others:
        # It stays as a file of its own for its damage; its rows are in the first one's.
        each.found = msgspec.structs.replace(found, samples=(), transactions=(), latencies=None, tool="")


def _numbers(jobs: Sequence[Section]) -> Iterator[str]:
    """The name to each number that fio gives: every clone of a job has one."""
    for job in jobs:
        yield from [job.name] * numjobs(job.options)


def _clones(logs: Sequence[_File], known: set[str], numbers: Sequence[str]) -> None:
    """fio writes a log for each clone: those of one job and kind are one log, under the name of the job."""
    groups: dict[tuple[str, str, str], dict[int, _File]] = {}
    for each, found in logs:
        prefix, number = found.samples[0].phase, found.order
        job = prefix if prefix in known else numbers[number - 1] if 0 < number <= len(numbers) else ""
        group = groups.setdefault((found.kind, prefix, job), {})
        if number in group:
            raise StudyError(
                "", f"{group[number][0].path} and {each.path} are the same log of two runs of fio",
                hint=_APART,
            )  # fmt: skip
        group[number] = each, found
    for (_, prefix, job), group in groups.items():
        files = [group[number] for number in sorted(group)]
        if job:
            _job(files, job, f"of other clones of {job}")
            continue
        apart = list(_at_once(files))
        for some in apart:
            name = prefix if len(apart) == 1 else f"{prefix}-{some[0][1].order}"
            if name != prefix:
                some[0][0].remarks += (f"taken for a job {name}, by the time at which it ran: {_HINT}",)
            _job(some, name, f"taken for clones of one job ({_HINT})")


def _means(files: Sequence[_File]) -> None:
    """Averaged latency logs with their means, which only the number of I/Os in each second tells."""
    rates = {found.samples[0].phase: found for _, found in files if found.kind == "fio-iops"}
    told = {sample.phase for _, found in files if found.kind in REPORTS for sample in found.samples}
    for each, found in files:
        if found.kind not in _LATENCIES or any(sample.time is None for sample in found.samples):
            continue
        phase = found.samples[0].phase
        if phase in rates and (means := log_file.weighted(found, rates[phase])):
            each.found = msgspec.structs.replace(found, samples=(*means, *found.samples))
        elif found.kind != "fio-lat" or phase not in told:
            each.remarks += (_NO_MEAN,)


def _at_once(files: Sequence[_File]) -> Iterator[list[_File]]:
    """Logs of clones begin together, those of jobs that wait for one another (``stonewall``) do not."""
    middle = float("inf")
    some: list[_File] = []
    for each, found in sorted(files, key=lambda file: file[1].start or 0.0):
        if (found.start or 0.0) > middle:
            yield sorted(some, key=lambda file: file[1].order)
            some = []
        if not some:
            middle = ((found.start or 0.0) + (found.end or 0.0)) / 2
        some.append((each, found))
    yield sorted(some, key=lambda file: file[1].order)


def _job(files: Sequence[_File], name: str, what: str) -> None:
    """The logs of one job, under its name."""
    first, found = files[0]
    if len(files) > 1:
        kind = found.kind.removeprefix("fio-")
        _one(files, _read(files, lambda paths: log_file.read_logs(paths, kind, name)), what)
    elif found.samples[0].phase != name:
        first.found = log_file.renamed(found, name)

"""fio's reports of one workload that have a job's name in common, such as one JSON for each point as bench-fio
leaves them: points that the options of their jobs tell apart, and repeats where these are the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from blocklab.formats.found import Found
from blocklab.formats.load.fio import log_file
from blocklab.formats.load.fio.json_file import REPORTS
from blocklab.formats.load.fio.options import shaping
from blocklab.imports.collect import Given
from blocklab.imports.study import name_of
from blocklab.workloads import fio_shapes
from blocklab.workloads.fio_shapes import UNSET

# In the order in which they stand in a point's name, with what fio takes where a job does not say.
_AXES: Mapping[str, str] = {"rw": "read", "rwmixread": "", "bs": "4k", "iodepth": "1", "numjobs": "1"}
# What makes no other point of a job: its logs, its name, how long it was measured, where chance begins.
_NO_POINT = re.compile(
    r"write_\w+_log|log_\w+|per_job_logs|name|description|group_reporting|new_group|\w*percentile\w*|randseed|allrandrepeat"
    r"|runtime|timeout|ramp_time|time_based|startdelay|stonewall|status_interval|rwmixwrite|readwrite|blocksize"
)

_PARTLY = (
    "it does not tell all options (fsync, direct, size), so it is a point of its own beside others that look the "
    "same: put repeats into folders run1, run2, ..."
)

# 4k   128K   1m
_BLOCK = re.compile(r"\d+[kKmM]?")


class _Point(msgspec.Struct, frozen=True):
    """A job of one report. ``options`` are empty where the report has none."""

    stack: str
    given: Given
    found: Found
    job: str
    options: Mapping[str, str]

    @property
    def run(self) -> tuple[str, int | None, str]:
        return self.stack, self.given.repeat, self.job


def points(given: Mapping[str, Sequence[Given]]) -> tuple[bool, list[str]]:
    """Names the jobs of such reports by the options that tell them apart, alike in all stacks; what repeats a
    point is of another repeat. Returns whether there are such reports, and what there is to say of them."""
    laid, said = False, []
    for files in given.values():
        _by_block_size(files)
    places = dict.fromkeys((each.folder, kind) for every in given.values() for each in every for kind in REPORTS)
    for folder, kind in places:
        every = [
            _Point(stack, each, each.found, job, _axes(each.found.options.get(job, {})))
            for stack, files in given.items()
            for each in files
            if each.found is not None and each.folder == folder and each.found.kind == kind
            for job in dict.fromkeys(sample.phase for sample in each.found.samples)
        ]
        times = Counter(point.run for point in every)
        shared = {job for (*_, job), count in times.items() if count > 1}
        mine = [point for point in every if point.job in shared]
        if mine:
            laid = True
            said += _named(mine)
            _logs([point.given for point in mine], [each for files in given.values() for each in files])
    return laid, said


def _by_block_size(files: Sequence[Given]) -> None:
    """Folders of one folder that are called after the block size of all that is in them, as bench-fio makes them,
    are no workloads: the size is one more option of the points."""
    places: dict[str, list[Given]] = {}
    for each in files:
        if each.repeat is None and _BLOCK.fullmatch(each.below.rpartition("/")[2]):
            places.setdefault(each.below, []).append(each)
    siblings = Counter(below.rpartition("/")[0] for below in places)
    for below, mine in places.items():
        above, _, size = below.rpartition("/")
        told = [options for each in mine if each.found is not None for options in each.found.options.values()]
        if siblings[above] > 1 and told and all(options.get("bs", "").lower() == size.lower() for options in told):
            for each in mine:
                each.folder = name_of(above.replace("/", "-")) if above else ""


def _axes(options: Mapping[str, str]) -> dict[str, str]:
    """A job's options under one name each, those of the axes complete; empty where none are known."""
    if not options:
        return {}
    # "randrw:8" does eight requests for each place.
    kind = options.get("rw", options.get("readwrite", _AXES["rw"])).partition(":")[0]
    found = {**_AXES, **options, "rw": kind, "bs": options.get("bs", options.get("blocksize", _AXES["bs"]))}
    mixed = fio_shapes.shape(options)[fio_shapes.READS].removesuffix("%")
    found["rwmixread"] = mixed if kind in ("rw", "readwrite", "randrw") else ""
    return {name: value for name, value in found.items() if not _NO_POINT.fullmatch(name)}


def _named(mine: Sequence[_Point]) -> list[str]:
    # Only mixed jobs have a share of reads.
    apart = [name for name in _AXES if len({point.options.get(name) for point in mine} - {None, ""}) > 1]
    groups: dict[tuple[object, ...], list[_Point]] = {}
    for point in mine:
        groups.setdefault((point.run, *(point.options.get(name) for name in _AXES)), []).append(point)
    # What else differs counts only where the axes leave two points alike.
    others = sorted({name for group in groups.values() for name in _differ(group)})
    jobs = {point.job for point in mine}
    names = {id(point): _name(point, apart, others) for point in mine}
    files = _unlike_files(mine, names)
    names = {
        id(point): names[id(point)] + (f"-{file}" if (file := files.get(id(point))) else "") for point in mine
    }
    alike = len({(names[id(point)], point.job) for point in mine}) > len(set(names.values()))
    if alike and len(jobs) > 1:
        names = {id(point): f"{point.job}-{names[id(point)]}" for point in mine}
    for each in {id(point.given): point.given for point in mine}.values():
        renamed = {point.job: (names[id(point)], point) for point in mine if point.given is each}
        _rename(each, {job: name for job, (name, _) in renamed.items()},
                {name: _shape(point, others, files) for name, point in renamed.values()})  # fmt: skip
        if any(id(point) in files for _, point in renamed.values()):
            each.remarks += (_PARTLY,)
    return list(_repeated(mine, names))


def _unlike_files(mine: Sequence[_Point], names: Mapping[int, str]) -> dict[int, str]:
    """By the id of each point that nothing but its file tells from another one, what that file is called. Such
    runs may differ in all that their reports do not tell (fsync, direct, size), so they repeat nothing."""
    for called in (_stem, _whole_name):
        files = {id(point): called(point) for point in mine}
        count = Counter((point.run, names[id(point)]) for point in mine)
        twice = {name for (_, name), number in count.items() if number > 1}
        partly = {names[id(point)] for point in mine if point.found.partly and point.options}
        of = {key: file for key, file in files.items() if names[key] in twice & partly}
        if len({(point.run, of.get(id(point))) for point in mine if id(point) in of}) == len(of):
            break
    return of


def _stem(point: _Point) -> str:
    return point.given.path.stem


def _whole_name(point: _Point) -> str:
    return point.given.shown.replace("/", "-")


def _differ(group: Sequence[_Point]) -> Iterator[str]:
    for name in dict.fromkeys(name for point in group for name in point.options if name not in _AXES):
        if len({point.options.get(name) for point in group}) > 1:
            yield name


def _name(point: _Point, apart: Sequence[str], others: Sequence[str]) -> str:
    """``randread-iodepth-16-numjobs-4``; of a report without options the file's own name."""
    if not point.options:
        return f"{point.job}-{point.given.path.stem}"
    if not apart and not others:
        return point.job
    parts = [point.options["rw"], *([point.options["bs"]] if "bs" in apart else [])]
    for name in (*(name for name in apart if name not in ("rw", "bs")), *others):
        if value := point.options.get(name, ""):
            parts.append(f"{name}-{value.rpartition('/')[2]}")
    return "-".join(parts)


def _shape(point: _Point, others: Sequence[str], files: Mapping[int, str]) -> dict[str, str]:
    if not point.options:
        return {}
    more = {name: point.options.get(name, UNSET) for name in others}
    if id(point) in files:
        more["file"] = files[id(point)]
    return {**shaping(point.found.options[point.job]), **more}


def _rename(given: Given, names: Mapping[str, str], shapes: Mapping[str, Mapping[str, str]]) -> None:
    """The same report with other names of its jobs, laid out by ``shapes`` (by those names)."""
    found = given.found
    assert found is not None

    def new(job: str) -> str:
        return names.get(job, job)

    replace = msgspec.structs.replace
    given.found = replace(
        found,
        samples=tuple(replace(sample, phase=new(sample.phase)) for sample in found.samples),
        phases=tuple(replace(phase, name=new(phase.name)) for phase in found.phases),
        jobs=tuple(map(new, found.jobs)),
        options={new(job): options for job, options in found.options.items()},
        shapes={new(job): shapes.get(new(job), shape) for job, shape in found.shapes.items()},
    )  # fmt: skip


def _repeated(mine: Sequence[_Point], names: Mapping[int, str]) -> Iterator[str]:
    """Which reports repeat a point; they become later repeats in the order of their times."""
    seen: Counter[tuple[object, ...]] = Counter()
    first: dict[tuple[object, ...], Given] = {}
    numbers: dict[int, int] = {}
    ordered = sorted(mine, key=lambda point: (point.found.start or 0.0, point.given.path.name))
    for point in ordered:
        if point.given.repeat is not None:
            continue
        place = (point.stack, names[id(point)])
        numbers[id(point.given)] = max(numbers.get(id(point.given), 0), seen[place])
        seen[place] += 1
        first.setdefault(place, point.given)
    count: Counter[str] = Counter()
    for point in ordered:
        number = numbers.pop(id(point.given), 0)
        if number:
            other = first[point.stack, names[id(point)]].path.name
            point.given.repeat = number
            point.given.remarks += (_repeat(number + 1, other),)
            count[point.stack] += 1
    for stack, some in count.items():
        yield f"{stack}: {some} of its files are taken for repeats: another file has a point with the same options"


def _repeat(number: int, other: str) -> str:
    same = "its options are the same, running times, names, logs and seeds aside"
    return f"repeat {number} of the point of {other}: {same}"


def _logs(reports: Sequence[Given], every: Sequence[Given]) -> None:
    """fio's logs whose prefix one report's job gave them: they are of that job, and of its repeat."""
    of: dict[tuple[object, ...], tuple[Given, str]] = {}
    # A repeat with the same prefix has overwritten what the one before it wrote.
    for report in sorted({id(each): each for each in reports}.values(), key=lambda each: each.repeat or 0):
        for job, options in report.found.options.items() if report.found is not None else ():
            prefixes = {options[name].rpartition("/")[2] for name in options if name.endswith("_log")}
            of |= {(report.path.parent, prefix): (report, job) for prefix in prefixes}
    for each in every:
        if each.found is None or each.found.kind not in log_file.LOGS or not each.found.samples:
            continue
        told = of.get((each.path.parent, each.found.samples[0].phase))
        # Of a report of several jobs with one prefix the log's number tells.
        if told is not None and told[0].found is not None and len(told[0].found.options) == 1:
            each.repeat, each.found = told[0].repeat, log_file.renamed(each.found, told[1])

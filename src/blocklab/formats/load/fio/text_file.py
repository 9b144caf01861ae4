"""fio's text output, of 2.x and 3.x: what it prints without ``--output-format``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from blocklab.formats import clock
from blocklab.formats.clock import Clock
from blocklab.formats.found import Found, found_in
from blocklab.formats.load.fio import json_file, text_blocks
from blocklab.formats.load.fio.options import shaping, sizes_text
from blocklab.formats.load.fio.report import DIRECTIONS, LAYER, PERCENTILES
from blocklab.formats.load.fio.text_blocks import Block, Report, Setup, Way
from blocklab.formats.text import Refused, Text, one_run
from blocklab.model.sample import Phase, Sample

_MIXED = ("rw", "readwrite", "randrw")
# Two readings of one value differ by less than this: fio prints three or four digits.
_ROUNDED = 0.01

# fio: pid=4879, err=84/file:io_u.c:2141, func=io_u_queued_complete, error=Invalid or incomplete multibyte ...
# fio: engine foo not loadable
# verify: bad magic header 0, wanted acca at file /dev/sdb offset 0, length 4096
_MESSAGE = ("fio: ", "verify: ")
_MOST = 0.5
_FAILED = re.compile(
    r"fio: pid=\d{1,10}, err=(?P<number>\d{1,5})/file:[^,]{1,80}, func=[^,]{1,80}, "
    r"error=(?P<why>.{1,80}?)(?: \d+)?$"
)
_MOST_SAID = 200


def fits(head: str) -> bool:
    """Whether this is fio's text. With ``--output-format=json,normal`` the JSON beside it has more."""
    if json_file.fits(head):
        return False
    return text_blocks.begins(head) or _messages(head)


def read(text: Text) -> Found:
    """Values and phases of all jobs. Raises ``Refused``."""
    one_run(text.lines, text_blocks.VERSION)
    if _messages(text.text + text.cut):
        raise Refused(_without_report([*text.lines, text.cut]))
    report = text_blocks.parsed(text.lines)
    remarks = []
    if report.repeated:
        remarks.append("several reports of one run (--status-interval): the last one is taken")
    broken = _broken_jobs(report)
    remarks += [f"{why}: left out" for why in broken.values()]
    blocks = [block for block in report.blocks if block.job not in broken]
    if not blocks:
        raise Refused(f"fio: {'; '.join(broken.values()) or 'no complete job in its text'}")
    values = [sample for block in blocks for sample in _values(block, report.setups)]
    clones = [name for name, count in Counter(block.job for block in blocks).items() if count > 1]
    if clones:
        remarks.append(f"clones added up, so without percentiles: {', '.join(clones)}")
        values = list(json_file.together(values, set(clones)))
    if any(_borrowed(way) for block in blocks for way in block.ways.values()):
        remarks.append("percentiles are of completion (clat): it has none of the whole latency (lat_percentiles)")
    remarks.append("latencies have the digits that its text has: percentiles are whole units, rounded up")
    options = {block.job: own for block in blocks if (own := _options(block, report.setups, blocks))}
    if any(own["rw"] in _MIXED for own in options.values()):
        remarks.append("the share of reads is that of the I/Os: it does not print rwmixread")
    times, phases = _phases(report.blocks, set(broken))
    return found_in(
        text, "fio-text", bad=report.bad, remarks=remarks, rows=len(blocks), tool=LAYER, samples=tuple(values),
        phases=phases, clock=times, jobs=tuple(_numbers(report.blocks)), options=options, partly=True,
        major=report.major,
        shapes={job: shaping(own) for job, own in options.items()},
    )  # fmt: skip


def _messages(head: str) -> bool:
    """Whether these are messages of fio, and no report."""
    lines = [line for line in head.split("\n") if line.strip()]
    told = sum(line.startswith(_MESSAGE) for line in lines)
    begun = bool(lines) and lines[0].startswith(_MESSAGE)
    return begun and told > _MOST * len(lines) and not text_blocks.begins(head)


def _without_report(lines: Sequence[str]) -> str:
    """What is to be said of messages of fio alone."""
    errors = dict.fromkeys(match.group("number", "why") for line in lines if (match := _FAILED.match(line)))
    if errors:
        numbers = ", ".join(dict.fromkeys(number for number, _ in errors))
        whys = ", ".join(dict.fromkeys(why for _, why in errors))
        return f"fio ended with errors ({numbers}), no report in it: {whys}"
    said = next(line for line in lines if line.startswith(_MESSAGE))
    return f"fio printed messages, no report in it: {said[:_MOST_SAID]}"


def _broken_jobs(report: Report) -> dict[str, str]:
    """By the name of each job that cannot be used what is wrong with it: its clones are no job without it."""
    broken = {block.job: why for block in report.blocks if (why := _broken(block))}
    known = {setup.job for setup in report.setups}
    there = sum(block.clones for block in report.blocks if not known or block.job in known)
    for block in report.blocks:
        if known and block.job not in known:
            broken.setdefault(block.job, f"job {block.job} is none of those that were set up")
        # Where each clone is told by itself, one of them is a part of its job.
        if block.clones == 1 and report.started > there:
            broken.setdefault(block.job, f"job {block.job}: not all of the jobs that were started are there")
    return broken


def _broken(block: Block) -> str:
    """Why a job cannot be used; empty for a sound one."""
    if block.error:
        return f"job {block.job} ended with error {block.error}"
    if not block.issued:
        return f"job {block.job} lacks its last lines"
    if not any(way in block.ways for way in DIRECTIONS):
        return f"job {block.job} did no I/O, or its lines of it are damaged"
    for number, name in enumerate(DIRECTIONS):
        if (way := block.ways.get(name)) is not None and _exact(block, number, way) is None:
            return f"job {block.job}: IOPS and the number of I/Os ({name}) do not agree"
    return ""


def _exact(block: Block, number: int, way: Way) -> float | None:
    """IOPS by how many I/Os there were; None where that is not what is printed."""
    return _agreeing(block.issued[number] / (way.runtime / 1000), way.iops) if way.runtime else None


def _values(block: Block, setups: Sequence[Setup]) -> Iterator[Sample]:
    """In the order in which fio's JSON has them."""

    def row(metric: str, value: float, unit: str) -> Sample:
        return Sample(metric, value, unit, LAYER, "", block.job)

    for number, name in enumerate(DIRECTIONS):
        if (way := block.ways.get(name)) is None:
            continue
        count, seconds, size = float(block.issued[number]), way.runtime / 1000, _size(block, setups, number)
        moved = _agreeing(count * size, way.moved) if size else None
        yield row(f"{name}.iops", count / seconds, "1/s")
        yield row(f"{name}.bandwidth", way.bandwidth if moved is None else moved / seconds, "B/s")
        yield row(f"{name}.bytes", way.moved if moved is None else moved, "B")
        yield row(f"{name}.ios", count, "1")
        yield from _latency(row, f"{name}.latency", way, "lat", "clat")
        yield from _latency(row, f"{name}.clat.latency", way, "clat", "")
    if (sync := block.ways.get("sync")) is not None:
        if len(block.issued) > len(DIRECTIONS) and block.issued[3]:
            yield row("sync.ios", float(block.issued[3]), "1")
        yield from _latency(row, "sync.latency", sync, "sync", "")
    for name, percent in block.cpu.items():
        yield row(f"cpu.{name}", percent, "%")


def _agreeing(exact: float, printed: float) -> float | None:
    """The value that other lines make exact; None where they say something else, and so are not of one whole."""
    return exact if abs(exact - printed) <= max(_ROUNDED * printed, 1.0) else None


def _latency(row: text_blocks.LatencyRow, metric: str, way: Way, of: str, other: str) -> Iterator[Sample]:
    if (found := way.latency.get(of)) is None:
        return
    for name, value in zip(("mean", "stddev", "max"), found, strict=True):
        yield row(f"{metric}.{name}", value, "s")
    known = way.percentiles.get(of, way.percentiles.get(other, {}))
    for percent in PERCENTILES:
        if percent in known:
            yield row(f"{metric}.p{percent:g}", known[percent], "s")


def _borrowed(way: Way) -> bool:
    return "lat" in way.latency and "lat" not in way.percentiles and "clat" in way.percentiles


def _setup(block: Block, setups: Sequence[Setup]) -> Setup | None:
    """How its job was set up; None where its group has several jobs, and so may be all of them together."""
    mine = [setup for setup in setups if setup.group == block.group]
    return mine[0] if len(mine) == 1 and mine[0].job == block.job else None


def _size(block: Block, setups: Sequence[Setup], number: int) -> int:
    """The size of each I/O of a direction in bytes; 0 where there are several, or it is not known."""
    setup = _setup(block, setups)
    low, high = setup.sizes[number] if setup is not None and number < len(setup.sizes) else (0, 1)
    return low if low == high else 0


def _options(block: Block, setups: Sequence[Setup], blocks: Sequence[Block]) -> dict[str, str]:
    """The options of a job that its text tells; none where its setup is not there."""
    setup = _setup(block, setups)
    if setup is None:
        return {}
    clones = sum(each.clones for each in blocks if each.job == block.job)
    found = {
        "rw": setup.rw, "bs": sizes_text(setup.sizes), "ioengine": setup.engine,
        "iodepth": setup.depth, "numjobs": str(clones),
    }  # fmt: skip
    if setup.rw in _MIXED and (done := sum(block.issued[:2])):
        found["rwmixread"] = str(round(100 * block.issued[0] / done))
    return found


def _numbers(blocks: Sequence[Block]) -> Iterator[str]:
    """The name to each number that fio gives its logs."""
    for block in blocks:
        yield from [block.job] * block.clones


def _phases(blocks: Sequence[Block], broken: set[str]) -> tuple[Clock | None, tuple[Phase, ...]]:
    """Each job's time, as places in the clock. Text tells when it was printed: as in a JSON without the start of
    its jobs, the groups (stonewall) are set one before the other."""
    printed = clock.stamp(blocks[-1].printed) if blocks[-1].printed else None
    if printed is None:
        return None, ()
    stamps: list[clock.Stamp] = []
    phases: list[Phase] = []
    end = printed.seconds
    for group in sorted({block.group for block in blocks}, reverse=True):
        mine = [block for block in blocks if block.group == group]
        longest = max((way.runtime for block in mine for way in block.ways.values()), default=0) / 1000
        for job in dict.fromkeys(block.job for block in mine if block.job not in broken):
            phases.append(Phase(job, len(stamps), len(stamps) + 1))
            stamps += [msgspec.structs.replace(printed, seconds=at) for at in (end - longest, end)]
        end -= longest
    return Clock(tuple(stamps)), tuple(reversed(phases))

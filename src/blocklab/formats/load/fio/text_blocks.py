"""The lines of fio's text, put together into the block of each job. A line that is not whole is left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from blocklab.formats.text import Bad
from blocklab.model.sample import Sample

LatencyRow: TypeAlias = Callable[[str, float, str], Sample]
# fio-3.39   fio-3.14-6-g97134   fio-2.2.10
VERSION = re.compile(r"fio-(?P<major>\d+)\.\d\S*")
# randread: (g=0): rw=randread, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=libaio, iodepth=4
# test: (g=0): rw=randrw, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=64
_SETUP = re.compile(
    r"(?P<job>\S.*?): \(g=(?P<group>\d+)\): rw=(?P<rw>[a-z]+), bs=(?P<bs>[^=]+), ioengine=(?P<engine>[\w:./-]+), "
    r"iodepth=(?P<depth>\d+)"
)
# Starting 4 processes   Starting 2 threads   Starting 1 thread and 2 processes
_STARTING = re.compile(r"Starting (\d+) (?:process|thread)(?:e?s)?(?: and (\d+) (?:process|thread)(?:e?s)?)?")
# mixed: (groupid=0, jobs=2): err= 0: pid=11630: Mon Nov 23 20:04:52 2026
# a: (groupid=0, jobs=1): err= 5 (file:io_u.c:1846, func=io_u error, error=Input/output error): pid=7: Mon ...
_JOB = re.compile(
    r"(?P<job>\S.*?): \(groupid=(?P<group>\d+), jobs=(?P<clones>\d+)\): err=\s*(?P<error>\d+)(?: \(.*\))?: "
    r"pid=(?P<pid>\d+)(?:: (?P<printed>[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}))?"
)
_BEGINS = re.compile(rf"^{_JOB.pattern}\r?$", re.MULTILINE)
_SIZE = r"\d+(?:\.\d+)?[KMGTP]?i?B"
#   read: IOPS=32.3k, BW=126MiB/s (132MB/s)(252MiB/2001msec)
#   write: IOPS=13.8k, BW=54.0MiB/s (56.6MB/s)(108MiB/2001msec); 0 zone resets
_WAY = re.compile(
    rf"  (?P<way>read|write|trim) ?: IOPS=(?P<iops>\d+(?:\.\d+)?[kM]?), BW=(?P<bw>{_SIZE})/s "
    rf"\({_SIZE.replace('KMGTP', 'kMGTP')}/s\)\((?P<io>{_SIZE})/(?P<runtime>\d+)msec\)(?:; \d+ zone resets)?"
)
#   read : io=3071.7MB, bw=55552KB/s, iops=13887, runt= 56621msec
_OLD_WAY = re.compile(
    rf"  (?P<way>read|write|trim) ?: io=(?P<io>{_SIZE}), bw=(?P<bw>{_SIZE})/s, "
    r"iops=(?P<iops>\d+(?:\.\d+)?[kKM]?), runt= *(?P<runtime>\d+)msec"
)
_NUMBER = r" *(\d+(?:\.\d+)?[kKMG]?) ?"
#     slat (usec): min=2, max=9457, avg=81.91, stdev=167.15
#      lat (nsec): min=641, max=12579k, avg=44091.82, stdev=85587.91
#     sync (usec): min=73, max=3297, avg=274.98, stdev=133.72
_LATENCY = re.compile(
    rf" +(?P<of>slat|clat|lat|sync) \((?P<unit>[num]?sec)\): min={_NUMBER}, max={_NUMBER}, avg={_NUMBER}, "
    rf"stdev={_NUMBER}"
)
#     clat percentiles (nsec):
_TITLE = re.compile(r" +(?P<of>slat|clat|lat|sync) percentiles \((?P<unit>[num]sec)\):")
#      | 99.00th=[181248], 99.50th=[203776], 99.90th=[257024], 99.95th=[296960],
_ROW = re.compile(r" +\|(?: +\d+\.\d+th=\[ *\d+\],?)+")
_PERCENTILE = re.compile(r"(\d{1,3}\.\d{1,9})th=\[ *(\d+)\]")
#   cpu          : usr=0.78%, sys=24.25%, ctx=43078, majf=0, minf=31
_CPU = re.compile(r"  cpu +: usr=(?P<user>\d+\.\d+)%, sys=(?P<system>\d+\.\d+)%, ctx=\d+, majf=\d+, minf=\d+")
#      issued rwts: total=64540,27642,0,0 short=3455,0,0,0 dropped=0,0,0,0
#      issued    : total=r=786347/w=262229/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0
_ISSUED = re.compile(
    r" +issued (?:rwts?: |   : )total=(?P<total>\d+,\d+,\d+(?:,\d+)?|r=\d+/w=\d+/d=\d+),? short=[\w=/,]+"
    r"(?:,? drop(?:ped)?=[\w=/,]+)?"
)
#   lat (usec)   : 2=30.52%, 4=22.57%      bw (  KiB/s): min=124144, ...      IO depths    : 1=103.7%, ...
_OTHER = re.compile(
    r" *(?:$|lat \([num]sec\) *: |bw \(|iops +: |IO depths|submit +: |complete +: |latency +: "
    r"|Description|errors +:|fsync/fdatasync/sync_file_range:|(?:slat|clat|lat) percentiles)"
)
# Run status group 0 (all jobs):      Disk stats (read/write):
_ENDS = re.compile(r"Run status group \d|Disk stats ")
_UNITS = {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3, "sec": 1.0}
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
# In which order the lines of a direction come.
_ORDER = {"slat": 1, "clat": 2, "lat": 3, "sync": 3}
_TITLES, _AFTER = 4, 8


class Setup(msgspec.Struct, frozen=True):
    """A job as fio names it before it begins: ``sizes`` are the least and the greatest of its reads, writes and,
    where they are told, trims, in bytes."""

    job: str
    group: int
    rw: str
    sizes: tuple[tuple[int, int], ...]
    engine: str
    depth: str


class Way(msgspec.Struct):
    """What a job did in one direction: 1/s, B/s, B, ms. ``latency`` has mean, standard deviation and maximum of
    ``lat``, ``clat``, ..., ``percentiles`` each by its percentage; both in seconds."""

    iops: float = 0.0
    bandwidth: float = 0.0
    moved: float = 0.0
    runtime: float = 0.0
    latency: dict[str, tuple[float, float, float]] = {}
    percentiles: dict[str, dict[float, float]] = {}


class Block(msgspec.Struct):
    """One job, or all clones of one (``group_reporting``). ``issued``: how many I/Os of each direction and, as the
    fourth, syncs; ``printed`` is when, as it stands there."""

    job: str
    group: int
    clones: int
    error: int
    pid: str
    printed: str
    ways: dict[str, Way] = {}
    issued: tuple[int, ...] = ()
    cpu: dict[str, float] = {}


class Report(msgspec.Struct, frozen=True):
    """All blocks, of several reports of one run (``repeated``) those of the last one; how many jobs were
    ``started``, each clone counted, 0 where that is not known; the lines that are not whole."""

    blocks: tuple[Block, ...]
    setups: tuple[Setup, ...]
    major: int
    started: int
    repeated: bool
    bad: tuple[Bad, ...]


def begins(head: str) -> bool:
    """Whether the block of a job begins in this text."""
    return _BEGINS.search(head) is not None


def parsed(lines: Sequence[str]) -> Report:
    """What the lines say."""
    setups = [_setup(match) for line in lines if (match := _SETUP.fullmatch(line))]
    version = next((match for line in lines if (match := VERSION.fullmatch(line))), None)
    starting = next((match for line in lines if (match := _STARTING.fullmatch(line))), None)
    started = sum(int(each or 0) for each in starting.groups()) if starting else 0
    old = any(_OLD_WAY.fullmatch(line) for line in lines)
    blocks: dict[tuple[str, int, str], Block] = {}
    bad: list[Bad] = []
    repeated, reader = False, None
    for number, line in enumerate(lines, 1):
        if match := _JOB.fullmatch(line):
            block = Block(
                match["job"], int(match["group"]), int(match["clones"]), int(match["error"]), match["pid"],
                match["printed"] or "",
            )  # fmt: skip
            key = (block.job, block.group, block.pid)
            repeated = repeated or key in blocks
            blocks[key], reader = block, _Reader(block)
        elif _ENDS.match(line):
            reader = None
        elif reader is not None and not reader.take(line):
            bad.append(Bad(number, line))
    major = int(version["major"]) if version else 2 if old else 3
    return Report(tuple(blocks.values()), tuple(setups), major, started, repeated, tuple(bad))


class _Reader:
    """Fills the block of one job, line by line. What stands where it cannot be is of another direction, whose own
    line is lost, and counts for nothing."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._way: Way | None = None
        self._at = 0
        self._title: tuple[dict[float, float], float] | None = None

    def take(self, line: str) -> bool:
        """Whether the line is one of fio's, in its place."""
        if match := _WAY.fullmatch(line) or _OLD_WAY.fullmatch(line):
            return self._direction(match)
        if match := _LATENCY.fullmatch(line):
            return self._latency(match)
        if match := _TITLE.fullmatch(line):
            return self._titled(match)
        if match := _ROW.fullmatch(line):
            return self._row(line)
        if match := _CPU.fullmatch(line):
            self._way = None
            self._block.cpu = self._block.cpu or {name: float(match[name]) for name in ("user", "system")}
            return True
        if match := _ISSUED.fullmatch(line):
            self._block.issued = self._block.issued or tuple(map(int, re.findall(r"\d+", match["total"])))
            return True
        if re.match(r" +(?:bw \(|iops  )", line):
            self._at = _AFTER
        elif line.startswith("  fsync/"):
            self._way, self._at = self._block.ways.setdefault("sync", Way()), 0
        elif re.match(r" +(?:lat \(|IO depths)", line):
            self._way = None
        return _OTHER.match(line) is not None

    def _direction(self, match: re.Match[str]) -> bool:
        self._title, self._way = None, None
        # After the number of I/Os begins another job, whose own line is lost.
        if match["way"] in self._block.ways or self._block.issued:
            return False
        self._way, self._at = Way(), 0
        self._way.iops = _short(match["iops"])
        self._way.bandwidth, self._way.moved = _bytes(match["bw"]), _bytes(match["io"])
        self._way.runtime = float(match["runtime"])
        self._block.ways[match["way"]] = self._way
        return True

    def _latency(self, match: re.Match[str]) -> bool:
        self._title = None
        if not self._next(_ORDER[match["of"]]) or self._way is None:
            return False
        unit = _UNITS[match["unit"]]
        low, high, mean, deviation = (_short(each) * unit for each in match.groups()[2:])
        # Of numbers that lost a digit some are out of order.
        if not low <= mean <= high:
            return False
        self._way.latency[match["of"]] = (mean, deviation, high)
        return True

    def _titled(self, match: re.Match[str]) -> bool:
        self._title = None
        if not self._next(_TITLES + _ORDER[match["of"]] - 1) or self._way is None:
            return False
        found = self._way.percentiles.setdefault(match["of"], {})
        self._title = found, _UNITS[match["unit"]]
        return True

    def _row(self, line: str) -> bool:
        if self._title is None:
            return False
        found, unit = self._title
        new = {float(percent): int(value) * unit for percent, value in _PERCENTILE.findall(line)}
        if found and (min(new) <= max(found) or min(new.values()) < max(found.values())):
            self._title = None
            return False
        found.update(new)
        return True

    def _next(self, place: int) -> bool:
        """Whether a line may stand here; where not, the direction is over."""
        if self._way is None or place <= self._at:
            self._way = None
            return False
        self._at = place
        return True


def _setup(match: re.Match[str]) -> Setup:
    ends = (map(_bytes, each.split("-")) for each in re.findall(r"[\d.]+[KMGiB]*-[\d.]+[KMGiB]*", match["bs"]))
    sizes = tuple((round(low), round(high)) for low, high in ends)
    return Setup(match["job"], int(match["group"]), match["rw"], sizes, match["engine"], match["depth"])


def _bytes(text: str) -> float:
    """``48.1MiB``, ``55552KB`` of an fio 2, ``4K`` of its block sizes: powers of 1024 all of them."""
    match = re.fullmatch(r"(\d[\d.]*)([KMGTP]?)i?B?", text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no size")
    return float(match[1]) * 1024.0 ** _POWERS[match[2]]


def _short(text: str) -> float:
    """``12.3k``: powers of 1000."""
    letter = text[-1] if text[-1] in "kKMG" else ""
    return float(text.removesuffix(letter)) * 1000.0 ** _POWERS[letter]

"""dd: one sequential write, past the page cache or into it. https://man7.org/linux/man-pages/man1/dd.1.html"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.load.dd import copied
from blocklab.model.plan import Fact, Kind, Port, Step
from blocklab.model.sample import Parsed, Phase, Sample
from blocklab.model.units import Size
from blocklab.model.workload import Command
from blocklab.workloads.base import WorkloadBase, no_target_yet, target, version

LAYER = "dd"
# Devices take direct writes in whole sectors.
_SECTOR = 512
# Bytes and writes a second on the slowest stack worth a study.
_SLOWEST = 2**20
_RATE = 20
_SPARE = 60.0

# Dirty:               104 kB
_DIRTY = re.compile(r"^(?:Dirty|Writeback): +(\d+) kB$", re.MULTILINE)


class Dd(WorkloadBase, frozen=True, tag="dd"):
    """One writer, one write after the other, by GNU [dd](https://man7.org/linux/man-pages/man1/dd.1.html).

    It writes a new file in a folder, or a device from its start.

    Example::

        direct: {workload: dd, size: 256MiB, bs: 4KiB, mode: direct}
        into-memory: {workload: dd, size: 256MiB, bs: 4KiB, mode: none, conv: fsync}

    It writes zeros, which a layer that compresses or finds duplicates would not store.

    Values: ``write.bandwidth`` (B/s) and ``write.iops`` (1/s, writes of ``bs``) as dd sees them, ``write.bytes``
    (B), ``seconds`` (s), and ``dirty`` (B): what was in the node's memory afterwards and not on the device. What
    reached the device, and when, is in the probe disks.
    """

    mode: Literal["direct", "dsync", "sync", "none"]
    """dd's ``oflag``: ``direct`` (past the page cache, but volatile caches below may hold it), ``dsync`` (each
    write returns when it is on the disk), ``sync`` (so are the file's own notes), ``none`` (into memory: the
    value that fools people; ``dirty`` says how much of it was still there at the end). Of a device Linux writes
    all back when dd closes it, within dd's time; of a file nothing."""
    bs: Size = msgspec.field(default_factory=lambda: Size("4KiB"))
    """Bytes of each write; whole sectors of 512 bytes with ``direct``."""
    count: int | None = None
    """So many writes. Exactly one of ``count`` and ``size``."""
    size: Size | None = None
    """Bytes in all, a multiple of ``bs``."""
    conv: Literal["fsync", "fdatasync"] | None = None
    """``fsync`` or ``fdatasync`` once at the end, within the time that dd takes. None without it."""

    takes: ClassVar[tuple[Kind, ...]] = ("dir", "block")
    metrics: ClassVar[tuple[str, ...]] = ("write.bandwidth", "write.iops", "write.bytes", "seconds", "dirty")
    refused: ClassVar[tuple[str, ...]] = ("from",)

    def problems(self) -> list[tuple[str, str]]:
        """No end or two, sizes that are no whole number of writes, writes that are no whole sectors."""
        return list(self._problems())

    def _problems(self) -> Iterator[tuple[str, str]]:
        if (self.count is None) == (self.size is None):
            yield "count", "give exactly one of count (writes) and size (bytes)"
        if self.bs < 1:
            yield "bs", "must be above 0; write it like 4KiB"
        elif self.mode == "direct" and self.bs % _SECTOR:
            yield "bs", f"{self.bs}: direct writes are whole sectors of {_SECTOR} bytes"
        elif self.size is not None and (self.size < 1 or self.size % self.bs):
            yield "size", f"{self.size} is not a whole number of writes of {self.bs}"
        if self.count is not None and self.count < 1:
            yield "count", "must be at least 1"

    @property
    def room(self) -> int:
        """All that it writes."""
        return self.writes * int(self.bs)

    @property
    def writes(self) -> int:
        """How many writes there are."""
        return self.count if self.count is not None else (self.size or 0) // self.bs

    def queue_depths(self) -> dict[str, int | None]:
        """One, where it goes past the page cache."""
        return {"": 1 if self.mode == "direct" else None}

    def prepare(self, port: Port) -> tuple[Step, ...]:
        return tuple(no_target_yet(port, "dd"))

    def command(self, port: Port) -> Command:
        """dd itself; around it what was dirty in memory, and the clock."""
        argv = ["env", "LC_ALL=C", "dd", "if=/dev/zero", f"of={target(port, 'dd')}", f"bs={int(self.bs)}"]
        argv.append(f"count={self.writes}")
        if self.mode != "none":
            argv.append(f"oflag={self.mode}")
        # notrunc: not even an attempt to cut a device
        argv.append(f"conv={'notrunc,' + self.conv if self.conv else 'notrunc'}")
        longest = _SPARE + self.writes * self.bs / _SLOWEST
        if self.mode != "none":
            longest += self.writes / _RATE
        around = {"meminfo": ("cat", "/proc/meminfo"), "clock": ("date", "+%s.%N")}
        return Command(port.host, tuple(argv), longest, around=around)

    def facts(self, port: Port) -> tuple[Fact, ...]:
        # dd (coreutils) 9.7
        return (version(port.host, "dd", ("dd", "--version"), lambda text: text.split("\n")[0].split()[-1]),)

    def parse(self, raw: Mapping[str, bytes], host: str) -> Parsed:
        """``write.bandwidth`` (B/s) and ``write.iops`` (1/s, writes of ``bs``) as dd sees them, ``write.bytes``
        (B), ``seconds`` (s), and ``dirty`` (B): what was in the node's memory afterwards and not on the device.

        Raises ``ParseError``.
        """
        said = raw.get("stderr", b"").decode(errors="replace")
        found = copied(said)
        if found is None:
            raise ParseError("dd", "no line '... bytes ... copied' in its output", said)
        done, seconds = found
        if done != self.writes * self.bs or seconds <= 0:
            raise ParseError("dd", f"copied {done} bytes, but {self.writes * self.bs} were asked for", said)
        start = _clock(raw, "before")
        rows = [
            ("write.bandwidth", done / seconds, "B/s"),
            ("write.iops", self.writes / seconds, "1/s"),
            ("write.bytes", float(done), "B"),
            ("seconds", seconds, "s"),
            ("dirty", _dirty(raw.get("meminfo.after", b"")), "B"),
        ]
        samples = tuple(Sample(metric, value, unit, LAYER, host) for metric, value, unit in rows)
        return Parsed(samples, (Phase(LAYER, start, _clock(raw, "after")),))


def _clock(raw: Mapping[str, bytes], when: str) -> float:
    """What the node's clock said just ``before`` or ``after`` the workload (s since the epoch). ``ParseError``."""
    text = raw.get(f"clock.{when}", b"").decode(errors="replace").strip()
    try:
        return float(text)
    except ValueError as error:
        raise ParseError("date", f"no time from {when} the workload", text) from error


def _dirty(meminfo: bytes) -> float:
    """Bytes that wait for their write-back, or are in it. Raises ``ParseError``."""
    found = _DIRTY.findall(meminfo.decode(errors="replace"))
    if len(found) != 2:
        raise ParseError("dd", "/proc/meminfo has no Dirty and Writeback", meminfo.decode(errors="replace"))
    return float(sum(map(int, found)) * 1024)

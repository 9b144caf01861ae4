"""The block devices, by sysstat's iostat. https://man7.org/linux/man-pages/man1/iostat.1.html"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from blocklab.errors import ParseError
from blocklab.model.node import program
from blocklab.model.plan import Argv
from blocklab.model.sample import Sample

_START = re.compile(r'"statistics"\s*:\s*\[')
_GAP = re.compile(r"[\s,]*")


class _Disk(msgspec.Struct):
    """Rates in 1/s and kB (of 1024 bytes) per second, waits in ms, ``util`` in %."""

    disk_device: str
    reads: float = msgspec.field(name="r/s")
    writes: float = msgspec.field(name="w/s")
    read_kib: float = msgspec.field(name="rkB/s")
    write_kib: float = msgspec.field(name="wkB/s")
    read_await: float = msgspec.field(name="r_await")
    write_await: float = msgspec.field(name="w_await")
    queue: float = msgspec.field(name="aqu-sz")
    util: float
    # Since Linux 5.5 and sysstat 12.3.
    flushes: float | None = msgspec.field(name="f/s", default=None)
    flush_await: float | None = msgspec.field(name="f_await", default=None)


class _Report(msgspec.Struct):
    timestamp: str
    disk: list[_Disk]


# Its times are whole seconds: it has to start just after one.
ALIGNED = program("aligned")


class Iostat:
    """Block devices, by sysstat's [iostat](https://man7.org/linux/man-pages/man1/iostat.1.html).

    The layer is the device's name. Its times are whole seconds, so it is started just after one (``aligned.py`` in
    the node).

    | metric | unit | meaning |
    | --- | --- | --- |
    | ``read.iops``, ``write.iops``, ``flush.iops`` | 1/s | Requests. |
    | ``read.bandwidth``, ``write.bandwidth`` | B/s | |
    | ``read.await``, ``write.await``, ``flush.await`` | s | Mean time of a request, queue included. |
    | ``queue`` | 1 | Mean number of requests under way. |
    | ``util`` | % | Share of the time in which any was under way. |

    The waits have no point for a second without a request.
    """

    name: ClassVar[str] = "iostat"

    def argv(self, seconds: int) -> Argv:
        # -y: not the report since boot. Without LC_ALL=C some locales put a comma into the JSON's numbers.
        return (
            "env", "S_TIME_FORMAT=ISO", "LC_ALL=C", *ALIGNED,
            "iostat", "-x", "-t", "-y", "-o", "JSON", str(seconds),
        )  # fmt: skip

    def parse(self, text: bytes, host: str) -> tuple[Sample, ...]:
        """The series. SIGINT makes iostat close its JSON; of one that was killed the whole reports count.

        Raises ``ParseError``, also where no report has a device (iostat without /sys lists none).
        """
        reports = list(_reports(text.decode(errors="replace")))
        if reports and not any(report.disk for report in reports):
            raise ParseError("iostat", "not one device in its reports", hint="is /sys mounted on the node?")
        samples = []
        for report in reports:
            try:
                time = datetime.fromisoformat(report.timestamp)
            except ValueError as error:
                raise ParseError("iostat", f"the time {report.timestamp!r} is not an ISO time") from error
            if time.tzinfo is None:
                raise ParseError("iostat", f"the time {report.timestamp!r} has no offset from UTC")
            for disk in report.disk:
                for metric, value, unit in _values(disk):
                    samples.append(Sample(metric, value, unit, disk.disk_device, host, time=time.timestamp()))
        return tuple(samples)


def _values(disk: _Disk) -> Iterator[tuple[str, float, str]]:
    yield "read.iops", disk.reads, "1/s"
    yield "write.iops", disk.writes, "1/s"
    yield "read.bandwidth", disk.read_kib * 1024, "B/s"
    yield "write.bandwidth", disk.write_kib * 1024, "B/s"
    yield "queue", disk.queue, "1"
    yield "util", disk.util, "%"
    if disk.flushes is not None:
        yield "flush.iops", disk.flushes, "1/s"
    # iostat prints a wait of 0.00 where nothing waited; that is no measurement.
    if disk.reads:
        yield "read.await", disk.read_await / 1000, "s"
    if disk.writes:
        yield "write.await", disk.write_await / 1000, "s"
    if disk.flushes and disk.flush_await is not None:
        yield "flush.await", disk.flush_await / 1000, "s"


def _reports(text: str) -> Iterator[_Report]:
    """The whole reports. Raises ``ParseError``."""
    for found in whole_reports(text):
        try:
            yield msgspec.convert(found, _Report)
        except msgspec.ValidationError as error:
            raise ParseError("iostat", f"a report cannot be read: {error}", str(found)) from error


def whole_reports(text: str) -> Iterator[Any]:
    """The whole reports as plain data; a cut one at the end is dropped. Raises ``ParseError``."""
    start = _START.search(text)
    if start is None:
        raise ParseError("iostat", "no JSON with statistics in its output", text)
    decoder, at = json.JSONDecoder(), start.end()
    while True:
        at = _GAP.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text) or text[at] == "]":
            return
        try:
            found, at = decoder.raw_decode(text, at)
        except ValueError as error:
            # What was cut has nothing after it, in particular no other report.
            if text.count('"timestamp"', at) <= 1 and _is_cut(text, at):
                return
            raise ParseError("iostat", f"a report cannot be read: {error}", text[at:]) from error
        yield found


def _is_cut(text: str, at: int) -> bool:
    """Whether the report at ``at`` ends before its braces are closed."""
    piece = re.sub(r'"[^"\n]*"', '""', text[at:])
    return piece.startswith("{") and piece.count("{") > piece.count("}")

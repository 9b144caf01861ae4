"""SHOW ENGINE INNODB STATUS: the counters of each dump, and its averages of the last seconds.

MySQL 5.5 to 9, MariaDB 10.x to 11.x; as ``mysql -E -e 'SHOW ENGINE INNODB STATUS'`` prints it, as a table, in
batch mode (line ends written as ``\\n``), in the file ``innodb_status.PID`` and in an error log; one dump or many.

The text tells neither the server's uptime nor anything of the binary log, and no bytes: those are pages read and
written, and the redo log's (its sequence number). Requests: ``mysql_model`` says what Linux counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from blocklab.formats.clock import Clock, Stamp, resolve, stamp
from blocklab.formats.text import Bad, Refused, Text
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.readers.mysql_model import LOG_BLOCK, PAGE
from blocklab.sizing.series import Device, Interval, Rates, Snapshot, Statistics

SOURCE = "InnoDB status"
COLLECTED = "more redo log writes than syncs: the page cache collects them, so one is counted for each sync"
OUTSIDE = "its file writes leave out the redo log's: one more is counted for each sync"
_MOST_BAD = 8

# 2023-11-20 10:00:00 0x7f97a9c91700 INNODB MONITOR OUTPUT   (MySQL 5.7 on, MariaDB 10.1 on)
# 2014-10-17 10:33:50 7f47bcd64700 INNODB MONITOR OUTPUT      (MySQL 5.6)
# 131120 10:00:00 INNODB MONITOR OUTPUT                       (MySQL 5.5, MariaDB 5.5)
# 2026-11-23 03:09:53 1644873408 INNODB MONITOR OUTPUT       (MySQL 9)
_HEADER = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d|\d{6})[ T]{1,2}(?P<time>\d{1,2}:\d\d:\d\d)(?:\.\d+)?(?: (?:0x)?[0-9a-f]{1,20})?"
    r" INNODB MONITOR OUTPUT"
)
_MARK = "INNODB MONITOR OUTPUT"
_END = "END OF INNODB MONITOR OUTPUT"
# Per second averages calculated from the last 10 seconds
_WINDOW = re.compile(r"Per second averages calculated from the last (\d{1,9}) seconds?")
# 833 OS file reads, 605 OS file writes, 208 OS fsyncs
_CALLS = re.compile(
    r"(?P<reads>\d{1,20}) OS file reads, (?P<writes>\d{1,20}) OS file writes, (?P<fsyncs>\d{1,20}) OS fsyncs"
)
# 0.00 reads/s, 0 avg bytes/read, 202.80 writes/s, 48.33 fsyncs/s
_RATES = re.compile(
    r"(?P<reads>\d{1,20}\.?\d{0,12}) reads/s, (?P<size>\d{1,20}) avg bytes/read, "
    r"(?P<writes>\d{1,20}\.?\d{0,12}) writes/s, (?P<fsyncs>\d{1,20}\.?\d{0,12}) fsyncs/s"
)
# Log sequence number          19643450   (before MySQL 5.1: two halves, 0 19643450)
_LSN = re.compile(r"Log sequence number +(?:(?P<high>\d{1,10}) )?(?P<low>\d{1,20})")
# 129 log i/o's done, 0.00 log i/o's/second   (not in MariaDB since 10.8)
_LOG_CALLS = re.compile(r"(?P<calls>\d{1,20}) log i/o's done, (?P<rate>\d{1,20}\.?\d{0,9}) log i/o's/second")
# Pages read 810, created 163, written 404
_PAGES = re.compile(r"Pages read (?P<read>\d{1,20}), created \d{1,20}, written (?P<written>\d{1,20})")
# The pools one by one follow after the sum of them: only the first line of a kind counts.
_FIELDS: Mapping[str, re.Pattern[str]] = {
    "window": _WINDOW, "calls": _CALLS, "rates": _RATES, "lsn": _LSN, "log": _LOG_CALLS, "pages": _PAGES,
}  # fmt: skip
# The sections that these stand in; a statement's text in TRANSACTIONS may hold anything.
_TITLES = frozenset(
    {
        "BACKGROUND THREAD", "SEMAPHORES", "LATEST FOREIGN KEY ERROR", "LATEST DETECTED DEADLOCK", "TRANSACTIONS",
        "FILE I/O", "INSERT BUFFER AND ADAPTIVE HASH INDEX", "LOG", "BUFFER POOL AND MEMORY",
        "INDIVIDUAL BUFFER POOL INFO", "ROW OPERATIONS",
    }
)  # fmt: skip
_WHERE = {"window": "", "calls": "FILE I/O", "rates": "FILE I/O", "lsn": "LOG", "log": "LOG"}
_WHERE["pages"] = "BUFFER POOL AND MEMORY"
# InnoDB's counters are of 64 bits; a server of 32 bits starts them again at 4,294,967,296, which looks like a
# restart. Longer numbers than these are damaged.
_MOST_DIGITS = 20


class _Dump(msgspec.Struct):
    """One dump as it is read: ``line`` where its header stands, ``found`` the first line of each kind."""

    line: int
    stamp: Stamp | None
    found: dict[str, re.Match[str]]
    product: str = ""
    ended: bool = False


def fits(start: str) -> bool:
    """Whether a file begins with, or has near its beginning, a dump; not where SHOW GLOBAL STATUS is in it too,
    which says more."""
    return _MARK in start and _HEADER.search(start) is not None and "Innodb_data_written" not in start


def read(text: Text, reading: Reading) -> Statistics:
    """Each dump as a snapshot. Raises ``Refused`` where there is none that can be used."""
    dumps = list(_dumps(text))
    if not dumps:
        raise Refused("no line like '2023-11-20 10:00:00 0x7f.. INNODB MONITOR OUTPUT' in it")
    bad = [Bad(each.line, why) for each in dumps if (why := _lacks(each))]
    usable = [each for each in dumps if not _lacks(each)]
    if not usable:
        raise Refused(f"line {bad[0].line}: {bad[0].text}; take it again: mysql -E -e 'SHOW ENGINE INNODB STATUS'")
    times, said = _times(usable, text.path, reading)
    snapshots = tuple(_snapshot(each, at, text.path) for each, at in zip(usable, times, strict=True))
    return Statistics(
        snapshots=snapshots, bad=tuple(bad[:_MOST_BAD]), lost=len(bad), remarks=(*text.remarks, *said, *_assumed())
    )


def _assumed() -> tuple[str, ...]:
    return (
        f"InnoDB status counts no bytes: taken are pages of {PAGE / 1024:.0f} KiB, each written twice "
        "(doublewrite buffer), and the redo log's sequence number",
        "InnoDB status has nothing of the binary log: where there is one, SHOW GLOBAL STATUS says more",
    )


def _lines(text: Text) -> Iterator[tuple[int, str]]:
    r"""Lines with their numbers; one in which line ends are written as \n (batch mode) becomes several. The last
    line is of no use where it was cut, but one long line of batch mode has its numbers before that."""
    lines = (*text.lines, text.cut) if "\\n" in text.cut else text.lines
    for number, line in enumerate(lines, 1):
        if "\\n" in line:
            parts = line.split("\\n")
            cut = number > len(text.lines)
            yield from ((number, part) for part in (parts[:-1] if cut else parts))
        else:
            yield number, line


def _dumps(text: Text) -> Iterator[_Dump]:
    dump: _Dump | None = None
    section = ""
    for number, raw in _lines(text):
        line = raw.strip().removesuffix("|").rstrip()
        if _MARK in line and not line.endswith(_END) and (match := _HEADER.search(line)):
            if dump is not None:
                yield dump
            dump, section = _Dump(number, _stamp(match), {}), ""
        elif dump is None or dump.ended:
            continue
        elif line in _TITLES:
            section = line
        elif line.endswith(_END):
            dump.ended = True
        else:
            _take(dump, section, line)
    if dump is not None:
        yield dump


def _take(dump: _Dump, section: str, line: str) -> None:
    for name, pattern in _FIELDS.items():
        match = pattern.match(line) if name not in dump.found and section == _WHERE[name] else None
        if match is not None and all(len(part) <= _MOST_DIGITS for part in match.groups() if part):
            dump.found[name] = match
    # MariaDB thread id 418, OS thread handle ...; Percent of dirty pages(LRU & free pages): 3.860
    if line.startswith(("MariaDB thread id ", "Percent of dirty pages(")):
        dump.product = "mariadb"
    # I/O thread 0 state: waiting for ...: MariaDB has none since 10.5, and before that the line above
    elif not dump.product and line.startswith("I/O thread 0 state"):
        dump.product = "mysql"


def _stamp(match: re.Match[str]) -> Stamp | None:
    date, time = match["date"], match["time"]
    if "-" not in date:
        # 131120: since 2000, MySQL is not older
        date = f"20{date[:2]}-{date[2:4]}-{date[4:]}"
    return stamp(f"{date} {time}")


def _lacks(dump: _Dump) -> str:
    """Why a dump cannot be used; empty where it can."""
    if dump.stamp is None:
        return "an InnoDB status whose time is none"
    if "calls" not in dump.found:
        return "an InnoDB status without 'OS file reads, ... OS file writes' (cut, or damaged): left out"
    return ""


def _times(dumps: Sequence[_Dump], path: Path, reading: Reading) -> tuple[list[float | None], list[str]]:
    stamps = tuple(each.stamp for each in dumps if each.stamp is not None)
    return resolve(Clock(stamps), str(path), zone=reading.zone, order=reading.order, anchors=())


def _snapshot(dump: _Dump, time: float | None, path: Path) -> Snapshot:
    counters = _counters(dump)
    window, remarks = _window(dump, time, counters)
    return Snapshot(
        system="", source=SOURCE, file=path, counters=counters, time=time, product=dump.product, window=window,
        line=dump.line, model=_device, window_remarks=remarks,
    )  # fmt: skip


def _counters(dump: _Dump) -> dict[str, float]:
    """The dump's own, since the server's start; ``log`` are writes of the redo log, ``sequence`` its bytes."""
    counters = {name: float(value) for name, value in dump.found["calls"].groupdict().items()}
    pages, lsn, log = (dump.found.get(name) for name in ("pages", "lsn", "log"))
    if pages is not None:
        counters |= {"pages_read": float(pages["read"]), "pages_written": float(pages["written"])}
    if lsn is not None:
        counters["sequence"] = float(int(lsn["high"] or 0) * 2**32 + int(lsn["low"]))
    if log is not None:
        counters["log"] = float(log["calls"])
    return counters


def _device(moved: Mapping[str, float]) -> Device:
    """What the device got while the counters moved by so much."""
    log, pages, fsyncs = moved.get("log"), moved.get("pages_written"), moved["fsyncs"]
    redo, remarks = _redo(moved)
    counters = {"reads": moved["reads"], "writes": max(0.0, moved["writes"] + redo), "flushes": fsyncs}
    if "pages_read" in moved:
        counters["read_bytes"] = moved["pages_read"] * PAGE
    if pages is not None and "sequence" in moved:
        counters["write_bytes"] = 2 * pages * PAGE + moved["sequence"] + LOG_BLOCK * (log or fsyncs)
    return Device(counters=counters, remarks=remarks)


def _redo(moved: Mapping[str, float]) -> tuple[float, tuple[str, ...]]:
    """What to add to the file writes for the redo log's, and what to say of it.

    They leave the redo log out in MariaDB 11.8. There each sync of the log is a write of it, so the writes beside
    the pages' are fewer than the syncs by far; where they are counted, they are about as many or more.
    """
    log, pages, fsyncs = moved.get("log"), moved.get("pages_written"), moved["fsyncs"]
    if log is not None:
        # Through the page cache, its writes are collected until the next sync.
        collected = min(0.0, fsyncs - log)
        return collected, (COLLECTED,) if collected else ()
    if pages is not None and moved["writes"] - pages < fsyncs / 2:
        return fsyncs, (OUTSIDE,) if fsyncs else ()
    return 0.0, ()


def _window(
    dump: _Dump, time: float | None, counters: Mapping[str, float]
) -> tuple[Interval | None, tuple[str, ...]]:
    """The averages of the last seconds, and what is to be said of them. What was written is not reported there:
    the log's bytes are in no line."""
    window, rates, log = (dump.found.get(name) for name in ("window", "rates", "log"))
    if time is None or window is None or rates is None or not (seconds := float(window[1])):
        return None, ()
    reads, writes, fsyncs = (float(rates[name]) for name in ("reads", "writes", "fsyncs"))
    moved = {"writes": writes, "fsyncs": fsyncs}
    if log is not None:
        moved["log"] = float(log["rate"])
    elif "pages_written" in counters:
        # The window has no pages: by their part of all writes since the server's start.
        moved["pages_written"] = writes * counters["pages_written"] / max(counters["writes"], 1.0)
    redo, remarks = _redo(moved)
    rated = Rates(reads=reads, writes=max(0.0, writes + redo), read_bytes=reads * float(rates["size"]))
    return Interval(start=time - seconds, seconds=seconds, line=dump.line, flushes=fsyncs, rates=rated), remarks


KINDS: Mapping[str, Kind] = {
    "innodb-status": Kind("SHOW ENGINE INNODB STATUS of MySQL or MariaDB", fits, read),
}

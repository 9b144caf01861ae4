"""SHOW ENGINE INNODB STATUS: the counters of each dump, and its averages of the last seconds.

MySQL 5.5 to 9, MariaDB 10.x to 11.x; as ``mysql -E -e 'SHOW ENGINE INNODB STATUS'`` prints it, as a table, in
batch mode (line ends written as ``\\n``), in the file ``innodb_status.PID`` and in an error log; one dump or many.

The text tells neither the server's uptime nor anything of the binary log, and no bytes but those of the redo log
(its sequence number).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from blocklab.formats.clock import Clock, Stamp, stamp
from blocklab.formats.found import MOST_BAD, Dump, Found
from blocklab.formats.text import Bad, Refused, Text

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


def read(text: Text) -> Found:
    """The counters of each dump: file I/O since the server's start (``log`` are writes of the redo log,
    ``sequence`` its bytes), and the averages of the last seconds. Raises ``Refused`` where none can be used."""
    dumps = list(_dumps(text))
    if not dumps:
        raise Refused("no line like '2023-11-20 10:00:00 0x7f.. INNODB MONITOR OUTPUT' in it")
    bad = [Bad(each.line, why) for each in dumps if (why := _lacks(each))]
    usable = [each for each in dumps if not _lacks(each)]
    if not usable:
        raise Refused(f"line {bad[0].line}: {bad[0].text}; take it again: mysql -E -e 'SHOW ENGINE INNODB STATUS'")
    return Found(
        kind="innodb-status", path=text.path, rows=len(usable), bad=len(bad), bad_rows=tuple(bad[:MOST_BAD]),
        clock=Clock(tuple(each.stamp for each in usable if each.stamp is not None)),
        dumps=tuple(_counted(each, place) for place, each in enumerate(usable)), remarks=text.remarks,
    )  # fmt: skip


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


def _counted(dump: _Dump, place: int) -> Dump:
    counters = {name: float(value) for name, value in dump.found["calls"].groupdict().items()}
    pages, lsn, log = (dump.found.get(name) for name in ("pages", "lsn", "log"))
    if pages is not None:
        counters |= {"pages_read": float(pages["read"]), "pages_written": float(pages["written"])}
    if lsn is not None:
        counters["sequence"] = float(int(lsn["high"] or 0) * 2**32 + int(lsn["low"]))
    if log is not None:
        counters["log"] = float(log["calls"])
    units = {name: "B" if name == "sequence" else "1" for name in counters}
    window, rates = _window(dump)
    return Dump(
        counters=counters,
        units=units,
        time=place,
        product=dump.product,
        line=dump.line,
        window=window,
        rates=rates,
    )


def _window(dump: _Dump) -> tuple[float, dict[str, float]]:
    """The seconds of its own averages, and these (1/s; ``size`` is bytes a read)."""
    window, rates, log = (dump.found.get(name) for name in ("window", "rates", "log"))
    if window is None or rates is None or not (seconds := float(window[1])):
        return 0.0, {}
    found = {name: float(value) for name, value in rates.groupdict().items()}
    return seconds, found | ({"log": float(log["rate"])} if log is not None else {})

"""SHOW GLOBAL STATUS of MySQL and MariaDB: each dump becomes a snapshot of the device's I/O (``mysql_model``).

As batch output (tabs), as a table, as ``\\G``, by ``mysqladmin extended-status`` (``-i``, and ``-r``: the
differences are added up again), from ``performance_schema.global_status``; one dump or many in a file. SHOW GLOBAL
VARIABLES in the same file tell the settings and the host. A line that is nothing but a time (``date``) is the time
of a dump.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from blocklab.formats.clock import Clock, Stamp, resolve, stamp
from blocklab.formats.text import Bad, Refused, Text
from blocklab.sizing.readers import mysql_model
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Snapshot, Statistics, Trust

SOURCE = "MySQL status"
_MOST_BAD = 8

# Innodb_data_reads	123                (batch; the header is "Variable_name	Value")
# Innodb_data_reads   123               (columns made by hand)
_PLAIN = re.compile(r"(?P<name>[A-Za-z]\w*)(?:\t| {1,200})(?P<value>[^\t ]*)\s*")
# | Innodb_data_reads                  | 123      |
_BOXED = re.compile(r"\| *(?P<name>[A-Za-z]\w*) *\|(?P<value>[^|]*)\|")
# Variable_name: Innodb_data_reads
#         Value: 123
_NAME = re.compile(r"\s*Variable_name: (?P<name>[A-Za-z]\w*)\s*", re.IGNORECASE)
_VALUE = re.compile(r"\s*(?:Variable_)?Value: (?P<value>\S*)\s*", re.IGNORECASE)
# A line of one of these is in each dump, in the first 64 KiB of it.
_SURE = r"(?:innodb_data_(?:reads|writes|written)|aborted_clients|binlog_cache_use|com_commit)"
_KNOWN = re.compile(
    rf"^(?: *Variable_name: {_SURE}|(?:\| *)?{_SURE}(?:\t| {{1,200}})(?:\| *)?[\d,.']{{1,30}} *\|?)\r?$",
    re.IGNORECASE | re.MULTILINE,
)
# 123   1,234,567   1'234'567   1.234.567   ("1.234" may be a decimal number, and is none of these counters)
_WHOLE = re.compile(r"\d{1,20}|\d{1,3}(?:,\d{3}){1,6}|\d{1,3}(?:'\d{3}){1,6}|\d{1,3}(?:\.\d{3}){2,6}")
_MARKS = str.maketrans("", "", ",.'")
# Status names that are used; a value that is no whole number is named for these only.
_USED = frozenset(
    {
        *mysql_model.NEEDED, "uptime", "uptime_since_flush_status", "innodb_page_size", "innodb_pages_written",
        "innodb_data_fsyncs", "innodb_dblwr_pages_written", "innodb_dblwr_writes", "innodb_log_writes",
        "innodb_os_log_written", "innodb_os_log_fsyncs", "binlog_cache_use", "binlog_stmt_cache_use",
        "binlog_commits", "binlog_group_commits", "binlog_bytes_written", "com_commit", "com_rollback",
    }
)  # fmt: skip
_COUNTERS = _USED - {"uptime", "uptime_since_flush_status", "innodb_page_size"}
# FLUSH STATUS sets these to 0; InnoDB's and the binary log's bytes and groups go on.
_FLUSHED = ("com_commit", "com_rollback", "binlog_stmt_cache_use")


class _Dump(msgspec.Struct):
    """One dump as it is read; names in lower case. ``bad``: values that are no whole numbers, with their lines."""

    line: int
    values: dict[str, float]
    stamp: Stamp | None = None
    bad: dict[str, int] = {}
    last: str = ""


class _Row(msgspec.Struct, frozen=True):
    line: int
    name: str
    value: str


class _All(msgspec.Struct):
    """All of a file: its dumps, the variables, and the times, each with the number of dumps that begin before."""

    dumps: list[_Dump]
    variables: dict[str, str]
    times: list[tuple[int, Stamp]]
    bad: list[Bad]


def fits(start: str) -> bool:
    """Whether there are lines of SHOW GLOBAL STATUS in it."""
    return _KNOWN.search(start) is not None


def read(text: Text, reading: Reading) -> Statistics:
    """Each dump as a snapshot. Raises ``Refused`` where there is none that can be used."""
    found = _gathered(text)
    if not found.dumps:
        raise Refused("no counter of SHOW GLOBAL STATUS in it")
    said = list(text.remarks)
    dumps = _stamped(_added_up(found.dumps, said), found.times)
    if why := _elsewhere(dumps):
        raise Refused(why)
    usable = [each for each in dumps if not (why := _lacks(each)) or _left_out(each, why, found.bad)]
    if not usable:
        raise Refused(
            f"line {found.bad[-1].line}: {found.bad[-1].text}; take all of it: mysql -e 'SHOW GLOBAL STATUS'"
        )
    times = _times(usable, text, reading, said)
    setting = mysql_model.settings(found.variables)
    snapshots = tuple(_snapshot(each, at, setting, text, said) for each, at in zip(usable, times, strict=True))
    return Statistics(
        snapshots=snapshots,
        bad=tuple(found.bad[:_MOST_BAD]),
        lost=len(found.bad),
        remarks=tuple(dict.fromkeys(said)),
    )


def _elsewhere(dumps: Sequence[_Dump]) -> str:
    """Why the server's counters say nothing of any storage; empty where they do. They stay 0 where the storage is
    another machine's, and where the tables are another engine's: that is no rate of 0."""
    last = dumps[-1].values
    # Aurora_total_op_memory, AuroraDb_commits
    if any(name.startswith(("aurora_", "auroradb_")) for name in last):
        return (
            "it is of Aurora MySQL, whose storage is another machine's: InnoDB's counters do not count it; give "
            "CloudWatch's VolumeReadIOPs and VolumeWriteIOPs of the cluster"
        )
    done = last.get("com_commit", 0.0) + last.get("com_insert", 0.0) + last.get("com_update", 0.0)
    if done and "innodb_data_writes" in last and not last["innodb_data_writes"]:
        return (
            f"{done:,.0f} commits and writes, yet InnoDB wrote nothing: another engine or another machine does "
            "this server's I/O, which these counters do not have; give the device's (iostat, /proc/diskstats)"
        )
    return ""


def _left_out(dump: _Dump, why: str, bad: list[Bad]) -> bool:
    bad.append(Bad(dump.line, why))
    return False


def _rows(text: Text) -> Iterator[_Row | tuple[int, Stamp]]:
    """The rows in any of the forms, and the lines that are times. A last line without its end is left out: its
    value may be cut."""
    name = ""
    for number, line in enumerate(text.lines, 1):
        if match := _NAME.fullmatch(line):
            name = match["name"]
        elif name and (match := _VALUE.fullmatch(line)):
            yield _Row(number, name, match["value"])
            name = ""
        elif match := _BOXED.match(line) or _PLAIN.fullmatch(line):
            yield _Row(number, match["name"], match["value"].strip())
        elif line and len(line) < 64 and (at := stamp(line)) is not None:
            yield number, at


def _gathered(text: Text) -> _All:
    found = _All([], {}, [], [])
    for row in _rows(text):
        if not isinstance(row, _Row):
            found.times.append((len(found.dumps), row[1]))
        elif row.name.lower() == "variable_name":
            continue
        elif _is_variable(row.name):
            found.variables.setdefault(row.name.lower(), row.value)
        elif row.name[0].isupper():
            _take(row, found)
    return found


def _is_variable(name: str) -> bool:
    """Variables are in lower case; status counters begin with a capital, or are all capitals in MariaDB's
    INFORMATION_SCHEMA, where variables are too."""
    low = name.lower()
    return low in mysql_model.VARIABLES and (name[0].islower() or (name.isupper() and low != "innodb_page_size"))


def _take(row: _Row, found: _All) -> None:
    name = row.name.lower()
    if name not in _USED and not _WHOLE.fullmatch(row.value):
        return
    dump = found.dumps[-1] if found.dumps else None
    if dump is not None and name == dump.last:
        found.bad.append(Bad(row.line, f"{row.name} a second time: left out"))
        return
    if dump is None or name in dump.values or name in dump.bad:
        dump = _Dump(row.line, {}, bad={})
        found.dumps.append(dump)
    dump.last = name
    if _WHOLE.fullmatch(row.value):
        dump.values[name] = float(row.value.translate(_MARKS))
    else:
        dump.bad[name] = row.line
        found.bad.append(Bad(row.line, f"{row.name} is {row.value[:40]!r}, no whole number: left out"))


def _lacks(dump: _Dump) -> str:
    """Why a dump cannot be used; empty where it can."""
    missing = [name for name in mysql_model.NEEDED if name not in dump.values]
    if not missing:
        return ""
    spelled = ", ".join(name.capitalize() for name in missing)
    return f"a status without {spelled} (cut, damaged, or not all of it was asked for): left out"


def _added_up(dumps: Sequence[_Dump], said: list[str]) -> list[_Dump]:
    """The dumps of ``mysqladmin -r`` as counters again: the first is whole, each later one says what came to it.
    It shows by values that never change, which become 0."""
    kept: list[_Dump] = []
    for dump in dumps:
        size = dump.values.get("innodb_page_size")
        if size == 0 and kept:
            before = kept[-1].values
            dump = msgspec.structs.replace(
                dump, values={name: value + before.get(name, 0.0) for name, value in dump.values.items()}
            )
            said.append("it holds differences (mysqladmin -r): added up again")
        elif size == 0:
            said.append(f"line {dump.line}: a dump of differences (mysqladmin -r) without the first one: left out")
            continue
        kept.append(dump)
    if not kept:
        raise Refused("all of it are differences (mysqladmin -r) without a first dump; leave out -r")
    return kept


def _stamped(dumps: Sequence[_Dump], times: Sequence[tuple[int, Stamp]]) -> list[_Dump]:
    """Each dump with the time beside it: the last one before it, or where all follow their dumps the one after.
    A time that stands within a dump belongs to the next one."""
    behind = bool(times) and all(number >= 1 for number, _ in times) and len(times) == len(dumps)
    found: dict[int, Stamp] = {}
    for number, at in times:
        found[number - 1 if behind else number] = at
    first = len(dumps)
    return [
        msgspec.structs.replace(dump, stamp=found.get(index) if index < first else None)
        for index, dump in enumerate(dumps)
    ]


def _times(dumps: Sequence[_Dump], text: Text, reading: Reading, said: list[str]) -> list[float | None]:
    stamps = [each.stamp for each in dumps if each.stamp is not None]
    if len(stamps) < len(dumps):
        if stamps:
            said.append("not all dumps have a line with their time: the server's uptime is taken for all")
        return [None] * len(dumps)
    times, remarks = resolve(
        Clock(tuple(stamps)), str(text.path), zone=reading.zone, order=reading.order, anchors=()
    )
    said += remarks
    return times


def _snapshot(
    dump: _Dump, time: float | None, setting: mysql_model.Settings, text: Text, said: list[str]
) -> Snapshot:
    uptime, since = dump.values.get("uptime"), dump.values.get("uptime_since_flush_status")
    values, since_start = dict(dump.values), None
    if uptime is not None and since is not None and since < uptime:
        # InnoDB's counters go on, so the dump stays good; those that began later cannot be averaged with them.
        said.append("FLUSH STATUS was called since the server's start: its transactions are left out")
        since_start = uptime - since
        values = {name: value for name, value in values.items() if name not in _FLUSHED}
        if values.get("binlog_cache_use"):
            # In place of the commits, so that each sync of MySQL's redo log is taken for one of the binary log.
            values["binlog_cache_use"] = values.get("innodb_os_log_fsyncs", values["binlog_cache_use"])
    page = values.get("innodb_page_size") or mysql_model.PAGE
    counters = {name: value for name, value in values.items() if name in _COUNTERS}
    if setting.buffered:
        said.append("innodb_flush_method is not O_DIRECT: reads may have come from the page cache")
    since_epoch = None
    if since_start is not None and uptime is not None:
        since_epoch = since_start + (time - uptime if time is not None else 0.0)
    return Snapshot(
        system=setting.system, source=SOURCE, file=text.path, counters=counters, time=time, uptime=uptime or None,
        trust=Trust.CACHED if setting.buffered else Trust.SERVER, host=setting.host, counting_since=since_epoch,
        product=setting.product or mysql_model.product(dump.values), line=dump.line,
        model=partial(mysql_model.device, setting, page),
    )  # fmt: skip


KINDS: Mapping[str, Kind] = {
    "mysql-status": Kind("SHOW GLOBAL STATUS of MySQL or MariaDB", fits, read),
}

"""SHOW GLOBAL STATUS of MySQL and MariaDB: the counters of each dump, and the variables that tell settings.

As batch output (tabs), as a table, as ``\\G``, by ``mysqladmin extended-status`` (``-i``, and ``-r``: the
differences are added up again), from ``performance_schema.global_status``; one dump or many in a file. SHOW GLOBAL
VARIABLES in the same file tell the settings and the host. A line that is nothing but a time (``date``) is the time
of a dump.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from blocklab.formats.clock import Clock, Stamp, stamp
from blocklab.formats.found import MOST_BAD, Dump, Found
from blocklab.formats.text import Bad, Refused, Text

# MySQL and MariaDB write these in their variables; all that is used of those.
VARIABLES = frozenset(
    {
        "sync_binlog", "innodb_flush_log_at_trx_commit", "innodb_flush_method", "innodb_page_size", "hostname",
        "port", "innodb_log_write_ahead_size", "innodb_log_file_buffering", "version", "version_comment",
    }
)  # fmt: skip
# Without them it is no whole dump.
NEEDED = ("innodb_data_reads", "innodb_data_writes", "innodb_data_read", "innodb_data_written")

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
USED = frozenset(
    {
        *NEEDED, "uptime", "uptime_since_flush_status", "innodb_page_size", "innodb_pages_written",
        "innodb_data_fsyncs", "innodb_dblwr_pages_written", "innodb_dblwr_writes", "innodb_log_writes",
        "innodb_os_log_written", "innodb_os_log_fsyncs", "binlog_cache_use", "binlog_stmt_cache_use",
        "binlog_commits", "binlog_group_commits", "binlog_bytes_written", "com_commit", "com_rollback",
    }
)  # fmt: skip
_BYTES = (
    "innodb_data_read", "innodb_data_written", "innodb_page_size", "innodb_os_log_written", "binlog_bytes_written",
)  # fmt: skip


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


def read(text: Text) -> Found:
    """The counters of each dump; one that ``lacks`` some is a bad row, but there. Raises ``Refused``."""
    every = _gathered(text)
    if not every.dumps:
        raise Refused("no counter of SHOW GLOBAL STATUS in it")
    said: list[str] = []
    dumps = _stamped(_added_up(every.dumps, said), every.times)
    stamps = [each.stamp for each in dumps if each.stamp is not None]
    places = itertools.count()
    found = tuple(_counted(each, next(places) if each.stamp is not None else None) for each in dumps)
    bad = [*every.bad, *(Bad(each.line, why) for each in found if (why := lacks(each)))]
    return Found(
        kind="mysql-status", path=text.path, rows=len(found), bad=len(bad), bad_rows=tuple(bad[:MOST_BAD]),
        clock=Clock(tuple(stamps)) if stamps else None, dumps=found, settings=every.variables,
        remarks=(*text.remarks, *said),
    )  # fmt: skip


def _counted(dump: _Dump, place: int | None) -> Dump:
    units = {name: _unit(name) for name in USED.intersection(dump.values)}
    return Dump(counters=dump.values, units=units, line=dump.line, uptime=dump.values.get("uptime"), time=place)


def counters(text: str) -> dict[str, float]:
    """The counters of one dump, by their names as the server writes them; what is no whole number is left out."""
    rows = (row for row in _rows(text.splitlines()) if isinstance(row, _Row))
    return {row.name: float(row.value.translate(_MARKS)) for row in rows if _WHOLE.fullmatch(row.value)}


def _rows(lines: Iterable[str]) -> Iterator[_Row | tuple[int, Stamp]]:
    """The rows in any of the forms, and the lines that are times. A last line without its end is left out: its
    value may be cut."""
    name = ""
    for number, line in enumerate(lines, 1):
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
    for row in _rows(text.lines):
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
    return low in VARIABLES and (name[0].islower() or (name.isupper() and low != "innodb_page_size"))


def _take(row: _Row, found: _All) -> None:
    name = row.name.lower()
    if name not in USED and not _WHOLE.fullmatch(row.value):
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


def _unit(counter: str) -> str:
    return "B" if counter in _BYTES else "s" if counter.startswith("uptime") else "1"


def lacks(dump: Dump) -> str:
    """Why a dump cannot be used; empty where it can."""
    missing = [name for name in NEEDED if name not in dump.counters]
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

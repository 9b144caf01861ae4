"""Oracle's own statistics: AWR reports (HTML and text; one instance, RAC, PDB) and Statspack reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from blocklab.formats.clock import Clock, Stamp
from blocklab.formats.database.oracle import html as html_report
from blocklab.formats.database.oracle import text as text_report
from blocklab.formats.database.oracle.sections import UNITS, cell_of, sections
from blocklab.formats.database.oracle.tables import Numbers, Report, ReportRow, Table, cells, moment
from blocklab.formats.found import MOST_BAD, Found, Period
from blocklab.formats.text import Bad, Refused, Text

# <TITLE>AWR Report for DB: DBS   WORKLOAD REPOSITORY report for   STATSPACK report for   ASH Report For ORCL/orcl
_MARK = re.compile(
    r"(?P<awr>WORKLOAD REPOSITORY (?:PDB )?REPORT\b|AWR (?:RAC |PDB )?Report for DB)"
    r"|(?P<diff>WORKLOAD REPOSITORY COMPARE PERIOD|AWR Compare Period)"
    r"|(?P<sql>WORKLOAD REPOSITORY SQL Report|AWR SQL Report|STATSPACK SQL report)"
    r"|(?P<ash>ASH (?:RAC )?Report For\b|<title>ASH Report)"
    r"|(?P<addm>ADDM Report for (?:Task|Analysis)|DETAILED ADDM REPORT FOR TASK)"
    r"|(?P<statspack>STATSPACK (?:Statistics )?report for)",
    re.I,
)
_MARKUP = re.compile(r"<(?:html|head|body|table|h1)\b", re.I)
_OTHERS = {
    "diff": "an AWR compare periods report (awrddrpt): it holds two periods side by side; make an ordinary report "
    "(awrrpt.sql) of each",
    "sql": "a report of one SQL statement, without the database's I/O; make an ordinary report (awrrpt.sql)",
    "ash": "an ASH report: it holds samples of sessions, no I/O rates; make an AWR report (awrrpt.sql)",
    "addm": "an ADDM report: it holds advice, no I/O rates; make an AWR report (awrrpt.sql)",
}
# ORA-20200: The instance was shutdown between snapshots 21 and 68
_RESTART = re.compile(r"instance was shutdown between|ORA-20200", re.I)
_HEAD = 64 * 1024
# The head's times are in seconds, those of a RAC report in minutes.
SLACK = 90.0
AGAIN = "make the report again"
Split = Callable[[Text], Iterator[Report]]


def _what(head: str) -> str:
    """Which report a text begins as: a group of ``_MARK``; empty for none."""
    match = _MARK.search(head)
    return (match.lastgroup or "") if match else ""


def fits_html(head: str) -> bool:
    """Whether this is an AWR report in HTML, or another report that is refused."""
    return bool(_MARKUP.search(head)) and bool(_what(head)) and _what(head) != "statspack"


def fits_text(head: str) -> bool:
    """Whether this is an AWR report as text, or another report that is refused."""
    return not _MARKUP.search(head) and bool(_what(head)) and _what(head) != "statspack"


def fits_statspack(head: str) -> bool:
    """Whether this is a Statspack report."""
    return not _MARKUP.search(head) and _what(head) == "statspack"


def read_html(text: Text) -> Found:
    """Each AWR report in HTML as a period. Raises ``Refused`` where none can be read."""
    return _read(text, "awr-html", html_report.reports)


def read_text(text: Text) -> Found:
    """The same of AWR reports as text."""
    return _read(text, "awr-text", text_report.reports)


def read_statspack(text: Text) -> Found:
    """The same of Statspack reports."""
    return _read(text, "statspack", text_report.reports)


def _read(text: Text, kind: str, split: Split) -> Found:
    if why := _OTHERS.get(_what((text.text + text.cut)[:_HEAD])):
        raise Refused(why)
    stamps: list[Stamp] = []
    bad: list[Bad] = []
    periods = tuple(_period(report, stamps, bad) for report in split(text))
    reason = "" if periods and all(_tells(each) for each in periods) else _no_report(text)
    if all(each.wrong for each in periods):
        raise Refused(reason or (periods[0].wrong if periods else "it holds no report"))
    return Found(
        kind=kind, path=text.path, rows=len(periods), bad=len(bad), bad_rows=tuple(bad[:MOST_BAD]),
        clock=Clock(tuple(stamps)), periods=periods, reason=reason,
    )  # fmt: skip


def _tells(period: Period) -> bool:
    return bool(period.sections and (period.sections["statistics"] or period.sections["io profile"]))


def _no_report(text: Text) -> str:
    """Oracle's own error in the place of a report."""
    for number, line in enumerate((*text.lines, text.cut), 1):
        if _RESTART.search(line):
            return (
                f"line {number}: Oracle made no report: {line.strip()[:80]!r}; take two snapshots between which "
                "the instance was not restarted"
            )
    return ""


def _period(report: Report, stamps: list[Stamp], bad: list[Bad]) -> Period:
    try:
        numbers = Numbers(cells(report.tables, report.head))
        period = _head(report, numbers, stamps)
        found = sections(report, numbers, period.seconds)
    except Refused as error:
        return Period(line=report.line, wrong=str(error))
    bad += numbers.bad
    return msgspec.structs.replace(period, sections=found)


def _head(report: Report, numbers: Numbers, stamps: list[Stamp]) -> Period:
    """Of whom and of when it is, its times as places among the ``stamps``. Raises ``Refused``."""
    said: list[str] = []
    tables, instances = report.tables, _instances(report.tables)
    begin, end, minutes, line = _times(report, instances, numbers)
    seconds = _seconds(begin, end, minutes, line, said)
    if begin is None and end is not None:
        begin = end - timedelta(seconds=seconds)
    _not_restarted(tables, begin)
    db = cell_of(tables, "db name", "database") or _global_name(tables) or report.names.get("db", "")
    instance = cell_of(tables, "instance") or report.names.get("instance", "")
    rac = cell_of(tables, "rac", "cluster").upper() == "YES"
    if instances is not None:
        said += _of_all(tables, instances, numbers)
    elif rac:
        said.append(
            f"it is of the instance {instance} alone: give the reports of the others too, or the global one"
        )
    if container := _container(report):
        said.append(
            f"it is of the container {container} alone: redo and the database writer's writes are not in it"
        )
    names = {
        "database": db or instance or "oracle", "container": container,
        "host": cell_of(tables, "host name", "host") or _named_host(tables),
        "instance": instance if rac and instances is None else "",
    }  # fmt: skip
    return Period(
        line=report.line, names=names, start=_place(begin, stamps), end=_place(end, stamps), seconds=seconds,
        head=line, units=UNITS, complete=report.complete, remarks=tuple(said),
    )  # fmt: skip


def _place(when: datetime | None, stamps: list[Stamp]) -> int | None:
    if when is None:
        return None
    midnight = when.replace(hour=0, minute=0, second=0, microsecond=0)
    numbers = (when.year, when.month, when.day)
    stamps.append(Stamp(numbers, (when - midnight).total_seconds(), sure=True))
    return len(stamps) - 1


def _named_host(tables: Sequence[Table]) -> str:
    """Statspack: ``Host`` stands over a column of its own, ``Name`` over that with the name."""
    for table in tables:
        if table.header[:2] == ("host", "name") and table.rows:
            return table.rows[0].cell(1)
    return ""


def _global_name(tables: Sequence[Table]) -> str:
    for table in tables:
        if table.header[:2] == ("id", "name") and table.rows:
            return table.rows[0].cell(1)
    return ""


def _container(report: Report) -> str:
    if "pdb" not in report.title.lower():
        return ""
    return cell_of(report.tables, "container name") or "PDB"


def _instances(tables: Sequence[Table]) -> Table | None:
    """A global report's table of its instances."""
    for table in tables:
        if "i#" in table.header and table.column("begin snap time") is not None and table.rows:
            return table
    return None


def _of_all(tables: Sequence[Table], instances: Table, numbers: Numbers) -> Iterator[str]:
    """What has to be said of instances that were not there all the time, or not at all."""
    at = instances.column("elapsed time(min)", "elapsed time (min)")
    lengths = {numbers.read(row.cell(at)) for row in instances.rows} - {None}
    if len(lengths) > 1:
        yield "its instances were up for different times: their rates are means of the longest"
    for table in tables:
        if table.header[:2] == ("id", "name") and table.rows and table.header.count("in report") >= 1:
            shown, total = (
                table.rows[0].cell(table.header.index("in report")),
                table.rows[0].cell(table.column("total")),
            )
            if shown != total:
                yield f"it holds {shown} of {total} instances"


def _times(
    report: Report, instances: Table | None, numbers: Numbers
) -> tuple[datetime | None, datetime | None, float | None, int]:
    """Begin, end, elapsed minutes, and the line in which they begin."""
    if instances is not None:
        row = instances.rows[0]
        begin = _moments(instances, "begin snap time")
        end = _moments(instances, "end snap time")
        at = instances.column("elapsed time(min)", "elapsed time (min)")
        lengths = [value for each in instances.rows if (value := numbers.cell(each, at, "Elapsed")) is not None]
        return min(begin, default=None), max(end, default=None), max(lengths, default=None), row.line
    rows = {row.label: row for row in reversed(report.head)}
    found = {label: moment(row, row.cell(1)) for label, row in rows.items() if label != "elapsed"}
    minutes = _elapsed(rows.get("elapsed"), numbers)
    line = min((row.line for row in rows.values()), default=report.line)
    return found.get("begin snap"), found.get("end snap"), minutes, line


def _moments(table: Table, name: str) -> list[datetime]:
    at = table.column(name)
    return [when for row in table.rows if (when := moment(row, row.cell(at))) is not None]


# 4,319.92 (mins)     10.32 (mins) Av Act Sess:       0.0
_MINUTES = re.compile(r"([^(]{1,40})\(min")


def _elapsed(row: ReportRow | None, numbers: Numbers) -> float | None:
    match = _MINUTES.match(row.cell(1)) if row else None
    if row is None or match is None:
        return None
    return numbers.cell(ReportRow(row.line, ("Elapsed", match[1].strip())), 1)


def _seconds(
    begin: datetime | None, end: datetime | None, minutes: float | None, line: int, said: list[str]
) -> float:
    """The length of the interval; ``Elapsed`` is the truth. Raises ``Refused`` where nothing tells it."""
    if minutes == 0 or (begin is not None and begin == end):
        raise Refused(f"line {line}: its two snapshots are of one moment; take two that are apart")
    between = (end - begin).total_seconds() if begin is not None and end is not None else None
    if between is not None and between < 0:
        raise Refused(f"line {line}: its end ({end}) is before its begin ({begin}); {AGAIN}")
    if minutes is None:
        if between is None:
            raise Refused(f"line {line}: it does not tell its interval (Begin Snap, End Snap, Elapsed); {AGAIN}")
        said.append("its Elapsed is missing: the time between its snapshots is taken")
        return between
    if begin is None and end is None:
        said.append("the times of its snapshots are missing: only its length is known")
    return 60.0 * minutes


def _not_restarted(tables: Sequence[Table], begin: datetime | None) -> None:
    if begin is None:
        return
    for table in tables:
        at = table.column("startup time", "startup")
        for row in table.rows if at is not None else ():
            try:
                started = moment(row, row.cell(at))
            except Refused:
                # A damaged time of the start is no reason to lose the report.
                continue
            if started is not None and (started - begin).total_seconds() > SLACK:
                raise Refused(
                    f"line {row.line}: the instance was started {started}, after the first snapshot ({begin}): "
                    "its counters began again; take two snapshots after it"
                )

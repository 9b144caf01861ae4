"""Oracle's own statistics: AWR reports (HTML and text; one instance, RAC, PDB) and Statspack reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo

import msgspec

from blocklab.formats.database.oracle import html as html_report
from blocklab.formats.database.oracle import text as text_report
from blocklab.formats.database.oracle.tables import Numbers, Report, Row, Table, cells, epoch, moment
from blocklab.formats.text import Bad, Refused, Text
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.readers.oracle_io import Measured, measured
from blocklab.sizing.series import Interval, Rates, Series, Statistics, Trust

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
_SLACK = 90.0
_SLACK_SHARE = 0.01
_CLOCK_CHANGE = 3600.0
_AGAIN = "make the report again"
Split = Callable[[Text], Iterator[Report]]


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """Of whom and of when a report is. ``begin`` is None where it tells no time."""

    system: str
    host: str
    instance: str
    begin: datetime | None
    seconds: float
    line: int
    remarks: tuple[str, ...]


def _what(head: str) -> str:
    """Which report a text begins as: a group of ``_MARK``; empty for none."""
    match = _MARK.search(head)
    return (match.lastgroup or "") if match else ""


def _fits_html(head: str) -> bool:
    return bool(_MARKUP.search(head)) and bool(_what(head)) and _what(head) != "statspack"


def _fits_text(head: str) -> bool:
    return not _MARKUP.search(head) and bool(_what(head)) and _what(head) != "statspack"


def _fits_statspack(head: str) -> bool:
    return not _MARKUP.search(head) and _what(head) == "statspack"


def _reader(split: Split, source: str) -> Callable[[Text, Reading], Statistics]:
    def read(text: Text, reading: Reading) -> Statistics:
        return _read(text, reading, split, source)

    return read


def _read(text: Text, reading: Reading, split: Split, source: str) -> Statistics:
    """The series of each report in a file. Raises ``Refused`` where none can be used."""
    if why := _OTHERS.get(_what((text.text + text.cut)[:_HEAD])):
        raise Refused(why)
    series: list[Series] = []
    remarks: list[str] = []
    bad: list[Bad] = []
    refused: list[Refused] = []
    for report in split(text):
        try:
            found, lost = _series(text, report, reading.zone, source)
        except Refused as error:
            refused.append(error)
            remarks.append(f"the report in line {report.line} is left out: {error}")
            continue
        bad += lost
        if any(_same(found, each) for each in series):
            remarks.append(f"the report in line {report.line} is there twice: it is counted once")
        else:
            series.append(found)
    if not series:
        raise _no_report(text) or (refused[0] if refused else Refused("it holds no report"))
    return Statistics(series=tuple(series), bad=tuple(bad[:20]), lost=len(bad), remarks=tuple(remarks))


def _no_report(text: Text) -> Refused | None:
    """Oracle's own error in the place of a report."""
    for number, line in enumerate((*text.lines, text.cut), 1):
        if _RESTART.search(line):
            return Refused(
                f"line {number}: Oracle made no report: {line.strip()[:80]!r}; take two snapshots between which "
                "the instance was not restarted"
            )
    return None


def _same(one: Series, two: Series) -> bool:
    names = (one.system, one.instance) == (two.system, two.instance)
    (first,), (second,) = one.intervals, two.intervals
    return names and (first.start, first.seconds) == (second.start, second.seconds)


def _series(text: Text, report: Report, zone: tzinfo, source: str) -> tuple[Series, list[Bad]]:
    numbers = Numbers(cells(report.tables, report.head))
    head = _head(report, numbers, zone)
    block = report.names.get("block size", "") or _value(report.tables, "block size")
    found = measured(report.tables, numbers, head.seconds, block)
    if found.rates == Rates():
        raise Refused(
            f"line {report.line}: it holds neither an IO Profile nor Instance Activity with physical reads; "
            + (_AGAIN if report.complete else f"the report is cut off: {_AGAIN}")
        )
    remarks = [*head.remarks, *found.remarks]
    if not report.complete:
        remarks.append("the report is cut off: what its rest would tell is missing")
    series = Series(
        system=head.system, source=source, trust=Trust.SERVER, files=(text.path,), host=head.host,
        instance=head.instance, product="oracle", untimed=head.begin is None, remarks=tuple(remarks),
        intervals=(_interval(head, found, zone),),
    )  # fmt: skip
    return series, numbers.bad


def _interval(head: _Head, found: Measured, zone: tzinfo) -> Interval:
    return Interval(
        start=epoch(head.begin, zone) if head.begin is not None else 0.0, seconds=head.seconds, rates=found.rates,
        flushes=found.flushes, read_latency=found.read_latency, write_latency=found.write_latency,
        transactions=found.transactions, parts=found.parts, line=head.line,
    )  # fmt: skip


def _head(report: Report, numbers: Numbers, zone: tzinfo) -> _Head:
    said: list[str] = []
    instances = _instances(report.tables)
    begin, end, minutes, line = _times(report, instances, numbers)
    seconds = _seconds(begin, end, minutes, line, zone, said)
    if begin is None and end is not None:
        begin = end - timedelta(seconds=seconds)
    _not_restarted(report.tables, begin)
    db = _value(report.tables, "db name", "database") or _global_name(report.tables) or report.names.get("db", "")
    instance = _value(report.tables, "instance") or report.names.get("instance", "")
    rac = _value(report.tables, "rac", "cluster").upper() == "YES"
    if instances is not None:
        said += _of_all(report.tables, instances, numbers)
    elif rac:
        said.append(
            f"it is of the instance {instance} alone: give the reports of the others too, or the global one"
        )
    system, container = db or instance or "oracle", _container(report)
    if container:
        system = f"{system}/{container}"
        said.append(
            f"it is of the container {container} alone: redo and the database writer's writes are not in it"
        )
    return _Head(
        system=system, host=_value(report.tables, "host name", "host") or _named_host(report.tables),
        instance=instance if rac and instances is None else "", begin=begin, seconds=seconds, line=line,
        remarks=tuple(said),
    )  # fmt: skip


def _value(tables: Sequence[Table], *names: str) -> str:
    """The first row's cell of the first table with such a column; that of several instances is left out."""
    for table in tables:
        at = table.column(*names)
        if at is not None and table.rows and "i#" not in table.header and "begin value" not in table.header:
            return table.rows[0].cell(at)
    return ""


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
    return _value(report.tables, "container name") or "PDB"


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


def _elapsed(row: Row | None, numbers: Numbers) -> float | None:
    match = _MINUTES.match(row.cell(1)) if row else None
    if row is None or match is None:
        return None
    return numbers.cell(Row(row.line, ("Elapsed", match[1].strip())), 1)


def _seconds(
    begin: datetime | None, end: datetime | None, minutes: float | None, line: int, zone: tzinfo, said: list[str]
) -> float:
    """The length of the interval; ``Elapsed`` is the truth. Raises ``Refused`` where nothing tells it."""
    if minutes == 0 or (begin is not None and begin == end):
        raise Refused(f"line {line}: its two snapshots are of one moment; take two that are apart")
    between = (end - begin).total_seconds() if begin is not None and end is not None else None
    if between is not None and between < 0:
        raise Refused(f"line {line}: its end ({end}) is before its begin ({begin}); {_AGAIN}")
    if minutes is None:
        if between is None:
            raise Refused(f"line {line}: it does not tell its interval (Begin Snap, End Snap, Elapsed); {_AGAIN}")
        said.append("its Elapsed is missing: the time between its snapshots is taken")
        return between
    seconds = 60.0 * minutes
    if begin is None and end is None:
        said.append("the times of its snapshots are missing: only its length is known")
    if between is None or begin is None or end is None:
        return seconds
    slack = max(_SLACK, _SLACK_SHARE * seconds)
    if min(abs(between - seconds), abs(epoch(end, zone) - epoch(begin, zone) - seconds)) <= slack:
        return seconds
    if abs(abs(between - seconds) - _CLOCK_CHANGE) <= _SLACK:
        said.append("its times are an hour apart from its Elapsed (a change of the clock): Elapsed is taken")
        return seconds
    raise Refused(
        f"line {line}: Elapsed says {minutes:,.2f} min, but its snapshots are {between / 60:,.2f} min apart; "
        f"{_AGAIN}"
    )


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
            if started is not None and (started - begin).total_seconds() > _SLACK:
                raise Refused(
                    f"line {row.line}: the instance was started {started}, after the first snapshot ({begin}): "
                    "its counters began again; take two snapshots after it"
                )


KINDS: Mapping[str, Kind] = {
    "awr-html": Kind("Oracle AWR report (HTML)", _fits_html, _reader(html_report.reports, "Oracle AWR")),
    "awr-text": Kind("Oracle AWR report (text)", _fits_text, _reader(text_report.reports, "Oracle AWR")),
    "statspack": Kind("Oracle Statspack report", _fits_statspack, _reader(text_report.reports, "Statspack")),
}

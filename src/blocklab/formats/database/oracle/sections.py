"""What the rows of one Oracle report say: statistics, the I/O profile, I/O by function and by file type, waits.

The statistics are described in Oracle's Database Reference, "Statistics Descriptions". Oracle's MB is 2**20 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from blocklab.formats.database.oracle.tables import Numbers, Report, ReportRow, Table

MIB = 2.0**20
WAYS = ("reads", "writes", "read_bytes", "write_bytes")
TOTALS = dict(
    zip(
        WAYS,
        (
            "physical read total io requests", "physical write total io requests", "physical read total bytes",
            "physical write total bytes",
        ),
        strict=True,
    )
)  # fmt: skip
# Without control files, redo logs, backup.
OWN = dict(
    zip(
        WAYS,
        ("physical read io requests", "physical write io requests", "physical read bytes", "physical write bytes"),
        strict=True,
    )
)
BLOCKS = {"read_bytes": "physical reads", "write_bytes": "physical writes"}
_OTHERS = ("redo writes", "user commits", "user rollbacks")
STATISTICS = frozenset((*TOTALS.values(), *OWN.values(), *BLOCKS.values(), *_OTHERS))
# A report may be of a database that reads by one of these nearly always: each counts by its waits.
READ_WAITS = (
    "db file sequential read", "db file scattered read", "db file parallel read", "direct path read",
    "direct path read temp", "cell single block physical read", "cell multiblock physical read",
)  # fmt: skip
# Not "db file parallel write", whose waits are of batches of requests.
WRITE_WAITS = ("log file parallel write", "direct path write", "direct path write temp")
# Two values of one thing in a report differ by rounding only.
NEAR = 0.02
# A rate is printed with one decimal or two, an elapsed time in hundredths of a minute.
ROUNDED = 0.06
_MINUTES = 0.6
# Names of events are cut to the width of their column.
_LEAST_NAME = 20
# Below this a sum of whole seconds is too rounded.
_LEAST_WAITED = 10.0
# Total Wait Time (s)   Total(s)   Time (s)   Total Wait Time (sec)
_TIME = re.compile(r"(?:total|time).{0,20}\(s(?:ec)?\)")
_COUNT = re.compile(r"\d{1,4}k")
Values: TypeAlias = dict[str, float]
UNITS = {
    **dict(zip(WAYS, ("1/s", "1/s", "B/s", "B/s"), strict=True)), "rate": "1/s", "waits": "1", "mean": "s",
    "size": "B",
}  # fmt: skip
"""By the columns of ``sections``."""


def sections(report: Report, numbers: Numbers, seconds: float) -> dict[str, dict[str, Values]]:
    """The numbers of a report, by section, row and column; what it does not tell is not there.

    ``statistics``: the ``rate`` of each of ``STATISTICS``; ``io profile``, ``functions``, ``filetypes``: the
    columns of ``WAYS``; ``waits``: how many there were of each event, and their ``mean``; ``transactions`` and
    ``block``, where nothing better is told. ``seconds``: the report's interval.
    """
    tables = report.tables
    statistics = _activity(tables, numbers, seconds)
    profile = _profile(tables, numbers)
    waits: dict[str, Values] = {}
    for name, count, mean in _waits(tables, numbers, (*READ_WAITS, *WRITE_WAITS)):
        waits.setdefault(name, {"waits": count, "mean": mean})
    found = {
        "statistics": {name: {"rate": rate} for name, rate in statistics.items()},
        "io profile": {"total": profile} if profile else {},
        "waits": waits,
        "functions": _by_name(tables, numbers, ("function name", "function")),
        "filetypes": _by_name(tables, numbers, ("filetype name", "file type")),
    }
    known = "user commits" in statistics and "user rollbacks" in statistics
    rate = None if known else _transactions(tables, numbers)
    size = _block(report.names.get("block size", "") or cell_of(tables, "block size"), numbers)
    found["load profile"] = {"transactions": {"rate": rate}} if rate is not None else {}
    found["block"] = {"block": {"size": size}} if size else {}
    return found


def cell_of(tables: Sequence[Table], *names: str) -> str:
    """The first row's cell of the first table with such a column; that of several instances is left out."""
    for table in tables:
        at = table.column(*names)
        if at is not None and table.rows and "i#" not in table.header and "begin value" not in table.header:
            return table.rows[0].cell(at)
    return ""


def _told(*values: float | None) -> Values:
    """By the names of ``WAYS``, as far as they are told."""
    return {way: value for way, value in zip(WAYS, values, strict=True) if value is not None}


def _block(text: str, numbers: Numbers) -> float | None:
    """Bytes of a data block: 8K, 8192."""
    size = numbers.read(text[:-1]) if _COUNT.fullmatch(text.lower()) else numbers.read(text) if text else None
    return size * (1024.0 if text[-1:] in ("K", "k") else 1.0) if size is not None else None


def _transactions(tables: Sequence[Table], numbers: Numbers) -> float | None:
    for table in tables:
        at, row = table.column("per second"), table.row("transactions")
        if at is not None and row is not None:
            return numbers.cell(row, at)
    return None


def _activity(tables: Sequence[Table], numbers: Numbers, seconds: float) -> dict[str, float]:
    """The statistics of ``STATISTICS`` per second, by name in lower case."""
    found: dict[str, float] = {}
    torn: set[str] = set()
    for row, total, second in _statistics(tables):
        rate = _rate(row, numbers, (total, second), seconds)
        if rate is None:
            continue
        before = found.setdefault(row.label, rate)
        if abs(before - rate) > NEAR * max(before, rate) + ROUNDED:
            numbers.left_out(row.line, f"{row.label!r} stands here twice, with another value")
            torn.add(row.label)
    return {name: rate for name, rate in found.items() if name not in torn}


def _statistics(tables: Sequence[Table]) -> Iterator[tuple[ReportRow, int, int]]:
    for table in tables:
        total, second = table.column("total"), table.column("per second")
        if total is None or second is None or table.column("statistic") != 0:
            continue
        for row in table.rows:
            if row.label in STATISTICS:
                yield row, total, second


def _rate(row: ReportRow, numbers: Numbers, at: tuple[int, int], seconds: float) -> float | None:
    """Of a statistic, per second; the report's own rate has to agree, so that no cut or damaged number counts."""
    total, second = (numbers.cell(row, each) for each in at)
    if total is None:
        # Too wide for its column the total is no damage; otherwise the whole row is in doubt.
        return second if set(row.cell(at[0]).strip()) <= {"#"} else None
    rate = total / seconds
    if second is not None and abs(rate - second) > (NEAR + _MINUTES / seconds) * max(rate, second) + ROUNDED:
        numbers.left_out(
            row.line,
            f"{row.label!r}: {total:,.0f} in {seconds:,.0f} s is not {second:,.2f} a second, as the report says",
        )
        return None
    return rate


def _profile(tables: Sequence[Table], numbers: Numbers) -> Values:
    """The I/O of everything together, of the first table that tells some of it."""
    for table in tables:
        if len(table.header) < 4 or not table.header[1].startswith("read+write"):
            continue
        reads, writes = _split(table.row("total requests"), numbers)
        read_mb, write_mb = _split(table.row("total (mb)"), numbers)
        if found := _told(reads, writes, _mib(read_mb), _mib(write_mb)):
            return found
    return {}


def _split(row: ReportRow | None, numbers: Numbers) -> tuple[float | None, float | None]:
    """Reads and writes of a row whose first column has their sum."""
    if row is None:
        return None, None
    both, read, write = (numbers.cell(row, at) for at in (1, 2, 3))
    if both is not None and read is not None and write is not None:
        if abs(both - read - write) > NEAR * both + 2 * ROUNDED:
            numbers.left_out(row.line, f"{row.label!r}: {read:,.1f} and {write:,.1f} do not make {both:,.1f}")
            return None, None
    elif both is not None:
        # An empty cell is a null in Oracle's sum of both.
        read, write = _rest(both, read, write), _rest(both, write, read)
    return read, write


def _rest(both: float, value: float | None, other: float | None) -> float | None:
    if value is None and other is not None and abs(both - other) <= 2 * ROUNDED:
        return 0.0
    return value


def _mib(value: float | None) -> float | None:
    return value * MIB if value is not None else None


def _by_name(tables: Sequence[Table], numbers: Numbers, names: tuple[str, ...]) -> dict[str, Values]:
    """The rows of a table of I/O statistics, of all instances together."""
    for table in tables:
        name = table.column(*names)
        if name is None:
            continue
        if table.column("reads/s") is not None:
            found = dict(_global(table, name, numbers))
        elif name == 0 and all("sec" in table.header[at] for at in (2, 3, 5, 6) if at < len(table.header)):
            found = dict(_single(table, numbers))
        else:
            continue
        if found:
            return found
    return {}


def _single(table: Table, numbers: Numbers) -> Iterator[tuple[str, Values]]:
    if len(table.header) < 7:
        return
    for row in table.rows:
        reads, writes = (numbers.scaled(row, at, 1000) for at in (2, 5))
        read_bytes, write_bytes = (numbers.scaled(row, at, 1024) for at in (3, 6))
        yield row.label, _told(reads, writes, read_bytes, write_bytes)


def _global(table: Table, name: int, numbers: Numbers) -> Iterator[tuple[str, Values]]:
    """Rows of all instances have ``*`` for their number."""
    columns = [table.column(each) for each in ("reads/s", "writes/s", "read mb/s", "write mb/s")]
    for row in table.rows:
        if row.cell(0) == "*" or name == 0:
            reads, writes, read_mb, write_mb = (numbers.cell(row, at) for at in columns)
            told = _told(reads, writes, _mib(read_mb), _mib(write_mb))
            yield row.cell(name).strip().rstrip(":").lower(), told


def _waits(tables: Sequence[Table], numbers: Numbers, events: Sequence[str]) -> Iterator[tuple[str, float, float]]:
    """Event, waits, seconds of one wait."""
    for table in tables:
        event, waits = table.column("event"), table.column("waits", "total waits")
        average = next(
            (at for at, name in enumerate(table.header) if name.startswith(("avg wait", "avg time"))), None
        )
        if event is None or waits is None:
            continue
        for row in table.rows:
            name = _event(row, event, events)
            if not name or (table.header[0] == "i#" and row.cell(0) != "*"):
                continue
            count, value = numbers.read(row.cell(waits)), _wait(table, row, numbers, (waits, average))
            if count and value is not None:
                yield name, count, value


def _event(row: ReportRow, at: int, events: Sequence[str]) -> str:
    """The event of a row: by its whole name, or by one that was cut to the width of the column."""
    name = row.cell(at).strip().lower()
    if name in events:
        return name
    return next((each for each in events if len(name) >= _LEAST_NAME and each.startswith(name)), "")


def _wait(table: Table, row: ReportRow, numbers: Numbers, at: tuple[int, int | None]) -> float | None:
    """Seconds of one wait; None where the columns are too rounded."""
    text = row.cell(at[1])
    if (value := numbers.time(text)) is not None:
        return value or None
    count = numbers.read(row.cell(at[0]))
    column = next((each for each, name in enumerate(table.header) if _TIME.search(name)), None)
    waited = numbers.read(row.cell(column))
    if count and waited is not None and waited >= _LEAST_WAITED:
        return waited / count
    average = numbers.read(text)
    if average is not None and average >= 1 and at[1] is not None and "(ms)" in table.header[at[1]]:
        return average / 1000
    return None

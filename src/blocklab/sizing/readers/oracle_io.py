"""What the tables of one Oracle report tell about I/O: rates, their parts, latencies, commits.

The statistics are described in Oracle's Database Reference, "Statistics Descriptions". Oracle's MB is 2**20 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from blocklab.formats.database.oracle.tables import Numbers, Row, Table
from blocklab.sizing.series import Rates, implausible

MIB = 2.0**20
_WAYS = ("reads", "writes", "read_bytes", "write_bytes")
_TOTALS = dict(
    zip(
        _WAYS,
        (
            "physical read total io requests", "physical write total io requests", "physical read total bytes",
            "physical write total bytes",
        ),
        strict=True,
    )
)  # fmt: skip
# Without control files, redo logs, backup.
_OWN = dict(
    zip(
        _WAYS,
        ("physical read io requests", "physical write io requests", "physical read bytes", "physical write bytes"),
        strict=True,
    )
)
_BLOCKS = {"read_bytes": "physical reads", "write_bytes": "physical writes"}
_OTHERS = ("redo writes", "user commits", "user rollbacks")
STATISTICS = frozenset((*_TOTALS.values(), *_OWN.values(), *_BLOCKS.values(), *_OTHERS))
# Two values of one thing in a report differ by rounding only.
_NEAR = 0.02
# A rate is printed with one decimal or two, an elapsed time in hundredths of a minute.
_ROUNDED = 0.06
_MINUTES = 0.6
# Below this a rate is too rounded to be judged.
_JUDGED_REQUESTS, _JUDGED_BYTES = 0.5, 0.5 * MIB
# A report may be of a database that reads by one of these nearly always: each counts by its waits.
_READ_WAITS = (
    "db file sequential read", "db file scattered read", "db file parallel read", "direct path read",
    "direct path read temp", "cell single block physical read", "cell multiblock physical read",
)  # fmt: skip
# Not "db file parallel write", whose waits are of batches of requests.
_WRITE_WAITS = ("log file parallel write", "direct path write", "direct path write temp")
# Names of events are cut to the width of their column.
_LEAST_NAME = 20
# Below this a sum of whole seconds is too rounded.
_LEAST_WAITED = 10.0
# Total Wait Time (s)   Total(s)   Time (s)   Total Wait Time (sec)
_TIME = re.compile(r"(?:total|time).{0,20}\(s(?:ec)?\)")
_COUNT = re.compile(r"\d{1,4}k")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """``remarks`` say where each comes from, and what is left out for which reason."""

    rates: Rates
    parts: Mapping[str, Rates]
    flushes: float | None
    transactions: float | None
    read_latency: float | None
    write_latency: float | None
    remarks: tuple[str, ...]


def measured(tables: Sequence[Table], numbers: Numbers, seconds: float, block: str) -> Measured:
    """All that one report tells. ``seconds``: its interval. ``block``: a data block's size (``8K``)."""
    said: list[str] = []
    counted = _activity(tables, numbers, seconds)
    rates = _rates(tables, numbers, counted, block, said)
    read_latency = _latency(tables, numbers, _READ_WAITS, "read", said)
    write_latency = _latency(tables, numbers, _WRITE_WAITS, "write", said)
    flushes = counted.get("redo writes")
    if flushes is not None:
        said.append(
            "Oracle counts no flushes: its redo writes are taken for them (each is synchronous); there may be more"
        )
    return Measured(
        rates=rates, parts=dict(_parts(tables, numbers, rates, said)), flushes=flushes,
        transactions=_transactions(tables, numbers, counted), read_latency=read_latency,
        write_latency=write_latency, remarks=tuple(said),
    )  # fmt: skip


def _activity(tables: Sequence[Table], numbers: Numbers, seconds: float) -> dict[str, float]:
    """The statistics of ``STATISTICS`` per second, by name in lower case."""
    found: dict[str, float] = {}
    torn: set[str] = set()
    for row, total, second in _statistics(tables):
        rate = _rate(row, numbers, (total, second), seconds)
        if rate is None:
            continue
        before = found.setdefault(row.label, rate)
        if abs(before - rate) > _NEAR * max(before, rate) + _ROUNDED:
            numbers.left_out(row.line, f"{row.label!r} stands here twice, with another value")
            torn.add(row.label)
    return {name: rate for name, rate in found.items() if name not in torn}


def _statistics(tables: Sequence[Table]) -> Iterator[tuple[Row, int, int]]:
    for table in tables:
        total, second = table.column("total"), table.column("per second")
        if total is None or second is None or table.column("statistic") != 0:
            continue
        for row in table.rows:
            if row.label in STATISTICS:
                yield row, total, second


def _rate(row: Row, numbers: Numbers, at: tuple[int, int], seconds: float) -> float | None:
    """Of a statistic, per second; the report's own rate has to agree, so that no cut or damaged number counts."""
    total, second = (numbers.cell(row, each) for each in at)
    if total is None:
        # Too wide for its column the total is no damage; otherwise the whole row is in doubt.
        return second if set(row.cell(at[0]).strip()) <= {"#"} else None
    rate = total / seconds
    if second is not None and abs(rate - second) > (_NEAR + _MINUTES / seconds) * max(rate, second) + _ROUNDED:
        numbers.left_out(
            row.line,
            f"{row.label!r}: {total:,.0f} in {seconds:,.0f} s is not {second:,.2f} a second, as the report says",
        )
        return None
    return rate


def _rates(
    tables: Sequence[Table], numbers: Numbers, counted: Mapping[str, float], block: str, said: list[str]
) -> Rates:
    totals = Rates(**{way: counted[name] for way, name in _TOTALS.items() if name in counted})
    profile = _profile(tables, numbers)
    if profile is not None and (why := implausible(_judged(profile))):
        said.append(f"its IO Profile is not used: {why}")
        profile = None
    if profile is not None:
        return _exact(profile, totals, said)
    if why := implausible(_judged(totals)):
        said.append(f"its requests are left out: {why}")
        totals = Rates(read_bytes=totals.read_bytes, write_bytes=totals.write_bytes)
    if totals != Rates():
        said.append("it has no usable IO Profile: the totals of Instance Activity are used")
        return totals
    return _blocks(counted, numbers, block, said)


def _profile(tables: Sequence[Table], numbers: Numbers) -> Rates | None:
    for table in tables:
        if len(table.header) < 4 or not table.header[1].startswith("read+write"):
            continue
        reads, writes = _split(table.row("total requests"), numbers)
        read_mb, write_mb = _split(table.row("total (mb)"), numbers)
        rates = Rates(reads=reads, writes=writes, read_bytes=_mib(read_mb), write_bytes=_mib(write_mb))
        if rates != Rates():
            return rates
    return None


def _split(row: Row | None, numbers: Numbers) -> tuple[float | None, float | None]:
    """Reads and writes of a row whose first column has their sum."""
    if row is None:
        return None, None
    both, read, write = (numbers.cell(row, at) for at in (1, 2, 3))
    if both is not None and read is not None and write is not None:
        if abs(both - read - write) > _NEAR * both + 2 * _ROUNDED:
            numbers.left_out(row.line, f"{row.label!r}: {read:,.1f} and {write:,.1f} do not make {both:,.1f}")
            return None, None
    elif both is not None:
        # An empty cell is a null in Oracle's sum of both.
        read, write = _rest(both, read, write), _rest(both, write, read)
    return read, write


def _rest(both: float, value: float | None, other: float | None) -> float | None:
    if value is None and other is not None and abs(both - other) <= 2 * _ROUNDED:
        return 0.0
    return value


def _mib(value: float | None) -> float | None:
    return value * MIB if value is not None else None


def _exact(profile: Rates, totals: Rates, said: list[str]) -> Rates:
    """The profile, without its rounding where the totals of Instance Activity agree."""
    values: dict[str, float | None] = {}
    differ = False
    for way in _WAYS:
        rounded, exact = getattr(profile, way), getattr(totals, way)
        unit = _ROUNDED * (MIB if way.endswith("bytes") else 1.0)
        if rounded is None or exact is None:
            values[way] = rounded if exact is None else exact
            continue
        near = abs(rounded - exact) <= 0.01 * rounded + unit
        values[way] = exact if near else rounded
        differ |= not near
    if differ:
        said.append("its Instance Activity has other totals than its IO Profile: the IO Profile is used")
    return Rates(**values)


def _judged(rates: Rates) -> Rates:
    """What is large enough for bytes to be divided by requests."""
    known: dict[str, float] = {}
    for count, size in (("reads", "read_bytes"), ("writes", "write_bytes")):
        requests, data = getattr(rates, count), getattr(rates, size)
        # Hardly any data for many requests is nonsense, not rounding.
        enough = requests is not None and data is not None and requests > _JUDGED_REQUESTS
        if enough and (data > _JUDGED_BYTES or requests * 512 > _JUDGED_BYTES):
            known |= {count: requests, size: data}
    return Rates(**known)


def _blocks(counted: Mapping[str, float], numbers: Numbers, block: str, said: list[str]) -> Rates:
    """What Statspack of 9i and early 10g has: blocks of data files."""
    own = {way: counted[name] for way, name in _OWN.items() if name in counted}
    size = numbers.read(block[:-1]) if _COUNT.fullmatch(block.lower()) else numbers.read(block) if block else None
    scale = 1024.0 if block[-1:] in ("K", "k") else 1.0
    from_blocks = [way for way, name in _BLOCKS.items() if name in counted and way not in own]
    if size:
        own |= {way: counted[_BLOCKS[way]] * size * scale for way in from_blocks}
    if own:
        said.append("it counts the I/O of data files only: redo, control files and backup are not in it")
    if from_blocks and not {"reads", "writes"} <= own.keys():
        said.append(
            "its physical reads and writes are blocks, not requests: how many requests they took is unknown"
            + ("" if size else ", and so is the size of a block")
        )
    return Rates(**own)


def _parts(
    tables: Sequence[Table], numbers: Numbers, total: Rates, said: list[str]
) -> Iterator[tuple[str, Rates]]:
    functions = _by_name(tables, numbers, ("function name", "function"))
    files = _by_name(tables, numbers, ("filetype name", "file type"))
    by_function = "IOStat by Function is not used (backup and smart scan cannot be left out)"
    for name, rows, row, what in (
        ("backup", functions, "rman", by_function),
        ("smart scan", functions, "smart scan", by_function),
        ("temp", files, "temp file", "IOStat by Filetype is not used (temp cannot be left out)"),
    ):
        whole = rows.get("total", Rates())
        part = rows.get(row, Rates())
        why = implausible(_judged(whole)) or implausible(_judged(part)) or _larger(part, total)
        if why and (remark := f"its {what}: {why}") not in said:
            said.append(remark)
        if not why and any(getattr(part, way) for way in _WAYS):
            yield name, part


def _larger(part: Rates, total: Rates) -> str:
    for way in _WAYS:
        value, most = getattr(part, way), getattr(total, way)
        unit = _ROUNDED * (MIB if way.endswith("bytes") else 1.0)
        if value is not None and most is not None and value > (1 + _NEAR) * most + unit:
            return f"{value:,.0f} {way.replace('_', ' ')} a second in a part of {most:,.0f}"
    return ""


def _by_name(tables: Sequence[Table], numbers: Numbers, names: tuple[str, ...]) -> dict[str, Rates]:
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


def _single(table: Table, numbers: Numbers) -> Iterator[tuple[str, Rates]]:
    if len(table.header) < 7:
        return
    for row in table.rows:
        reads, writes = (numbers.scaled(row, at, 1000) for at in (2, 5))
        read_bytes, write_bytes = (numbers.scaled(row, at, 1024) for at in (3, 6))
        yield row.label, Rates(reads=reads, writes=writes, read_bytes=read_bytes, write_bytes=write_bytes)


def _global(table: Table, name: int, numbers: Numbers) -> Iterator[tuple[str, Rates]]:
    """Rows of all instances have ``*`` for their number."""
    columns = [table.column(each) for each in ("reads/s", "writes/s", "read mb/s", "write mb/s")]
    for row in table.rows:
        if row.cell(0) == "*" or name == 0:
            reads, writes, read_mb, write_mb = (numbers.cell(row, at) for at in columns)
            rates = Rates(reads=reads, writes=writes, read_bytes=_mib(read_mb), write_bytes=_mib(write_mb))
            yield row.cell(name).strip().rstrip(":").lower(), rates


def _transactions(tables: Sequence[Table], numbers: Numbers, counted: Mapping[str, float]) -> float | None:
    if "user commits" in counted and "user rollbacks" in counted:
        return counted["user commits"] + counted["user rollbacks"]
    for table in tables:
        at, row = table.column("per second"), table.row("transactions")
        if at is not None and row is not None:
            return numbers.cell(row, at)
    return None


def _latency(
    tables: Sequence[Table], numbers: Numbers, events: Sequence[str], way: str, said: list[str]
) -> float | None:
    """Seconds: the mean of all waits for these events, each event by the first table that has it."""
    waits: dict[str, tuple[float, float]] = {}
    for name, count, each in _waits(tables, numbers, events):
        waits.setdefault(name, (count, each))
    total = sum(count for count, _ in waits.values())
    if not total:
        return None
    most = max(waits, key=lambda name: waits[name][0])
    share = waits[most][0] / total
    if len(waits) == 1:
        said.append(f"its {way} latency is the mean wait for {most!r}")
    else:
        said.append(
            f"its {way} latency is the mean of {total:,.0f} waits for {len(waits)} events, {100 * share:.0f} % of "
            f"them {most!r}"
        )
    return sum(count * each for count, each in waits.values()) / total


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


def _event(row: Row, at: int, events: Sequence[str]) -> str:
    """The event of a row: by its whole name, or by one that was cut to the width of the column."""
    name = row.cell(at).strip().lower()
    if name in events:
        return name
    return next((each for each in events if len(name) >= _LEAST_NAME and each.startswith(name)), "")


def _wait(table: Table, row: Row, numbers: Numbers, at: tuple[int, int | None]) -> float | None:
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

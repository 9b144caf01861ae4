"""What PostgreSQL's views count becomes requests, bytes and flushes; ``postgres`` says why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from blocklab.formats.database.postgres import CHECKPOINTER, DATABASE, IO, WAL, WRITER, View

BLOCK = 8192.0
# What the kernel makes of runs of blocks: measured 43 to 108 KiB read; 256 KiB is checkpoint_flush_after, and the
# most that EBS counts as one request.
RUN_READ, RUN_WRITE = 64 * 1024.0, 256 * 1024.0
_RUNS = ("bulkread", "bulkwrite", "vacuum", "init")
_OVERALL = "SELECT now(), * FROM "


class Counted(msgspec.Struct, frozen=True):
    """``counters`` by the names of ``series.COUNTERS``, from those ``views``. ``data``: whether the writes have
    relation data."""

    counters: Mapping[str, float]
    views: tuple[str, ...]
    remarks: tuple[str, ...]
    data: bool


class _Io(msgspec.Struct, frozen=True):
    """Requests, bytes, seconds; None where they are not told."""

    requests: float | None = None
    size: float | None = None
    seconds: float | None = None


def counted(views: Mapping[str, View]) -> Counted:
    """The counters of one moment."""
    said: list[str] = []
    io, wal, database = views.get(IO), views.get(WAL), views.get(DATABASE)
    used = [view for view in (IO, WAL, DATABASE) if view in views]
    if io is None:
        used += [view for view in (WRITER, CHECKPOINTER) if view in views]
    in_io = io is not None and any(_object(label) == "wal" for label in io.labels)
    reads = _reads(io) if io is not None else _old_reads(database)
    data = _written(io) if io is not None else _old_writes(views, said)
    log = _log(wal, in_io=in_io, said=said)
    flushes = _flushes(io, wal, views.get(WRITER))
    counters = {
        "reads": reads.requests, "read_bytes": reads.size, "read_seconds": reads.seconds,
        **_together(data, log, in_io=in_io), "flushes": flushes,
        "transactions": _transactions(database, said),
    }  # fmt: skip
    _missing(views, reads, data, log, in_io=in_io, said=said)
    told = {name: value for name, value in counters.items() if value is not None}
    return Counted(told, tuple(used), tuple(said), data is not None)


def _object(label: tuple[str, ...]) -> str:
    return label[1] if len(label) > 1 else ""


def _sum(part: View | None, *names: str) -> float | None:
    """Over all rows; None where none of the columns has a value."""
    values = [row[name] for row in part.rows for name in names if row.get(name) is not None] if part else []
    return float(sum(value for value in values if value is not None)) if values else None


def _plus(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return float(sum(known)) if known else None


def _timed(milliseconds: float | None) -> float | None:
    """Seconds; None where the timing is off, which shows as 0."""
    return milliseconds / 1e3 if milliseconds else None


def _way(io: View, count: str, size: str, run: float, runs: Callable[[tuple[str, ...]], bool]) -> _Io:
    """Requests and bytes of one column. Where the rows tell no size (columns left out), bytes are unknown."""
    requests, total, known = 0.0, 0.0, True
    if not any(row.get(count) is not None or row.get(size) is not None for row in io.rows):
        return _Io()
    counted = any(row.get(count) is not None for row in io.rows)
    for row, label in zip(io.rows, io.labels, strict=True):
        number, op = row.get(count) or 0.0, row.get("op_bytes")
        found = row.get(size) if size in row else number * op if op is not None else None
        if found is None and number:
            known = False
        # Of 18's requests none is to be split; one of a WAL segment's first fill is 16 MiB.
        joined = found is not None and runs(label) and (op is not None or count != "reads")
        requests += (found or 0.0) / run if joined else number
        total += found or 0.0
    return _Io(requests if counted else None, total if known else None)


def _in_runs(label: tuple[str, ...]) -> bool:
    return label[-1:] in [(each,) for each in _RUNS]


def _reads(io: View) -> _Io:
    found = _way(io, "reads", "read_bytes", RUN_READ, _in_runs)
    return msgspec.structs.replace(found, seconds=_timed(_sum(io, "read_time")))


def _written(io: View) -> _Io | None:
    """Writes and extends; with 18 those of the WAL too."""
    writes = _way(io, "writes", "write_bytes", RUN_WRITE, _in_runs)
    extends = _way(io, "extends", "extend_bytes", RUN_WRITE, lambda label: True)
    if writes.requests is None and extends.requests is None and writes.size is None:
        return None
    sizes = (writes.size, extends.size)
    one = [each for each in (writes, extends) if each.requests is not None]
    return _Io(
        _plus(each.requests for each in one),
        None if any(each.size is None for each in one) else _plus(sizes),
        _timed(_sum(io, "write_time", "extend_time", "fsync_time")) if _timed(_sum(io, "write_time")) else None,
    )


def _old_reads(database: View | None) -> _Io:
    blocks = _sum(database, "blks_read")
    if blocks is None:
        return _Io()
    return _Io(blocks, blocks * BLOCK, _timed(_sum(database, "blk_read_time")))


def _old_writes(views: Mapping[str, View], said: list[str]) -> _Io | None:
    writer, checkpointer = views.get(WRITER), views.get(CHECKPOINTER)
    names = ("buffers_checkpoint", "buffers_clean", "buffers_backend")
    blocks = _plus((_sum(writer, *names), _sum(checkpointer, "buffers_written")))
    if blocks is None:
        return None
    here = {name for part in (writer, checkpointer) if part for row in part.rows for name in row}
    if not {"buffers_checkpoint", "buffers_written"} & here:
        said.append(f"what checkpoints wrote is missing: {_OVERALL}{CHECKPOINTER} (17 and newer)")
    if "buffers_backend" not in here:
        said.append(f"what backends wrote themselves is missing, so writes are understated: {_OVERALL}{IO}")
    if "buffers_clean" not in here:
        said.append(f"what the background writer wrote is missing: {_OVERALL}{WRITER}")
    return _Io(blocks, blocks * BLOCK)


def _log(wal: View | None, *, in_io: bool, said: list[str]) -> _Io | None:
    """The WAL by ``pg_stat_wal``; with 18's ``pg_stat_io`` only what is to be taken off its count of requests."""
    written, size = _sum(wal, "wal_write"), _sum(wal, "wal_bytes")
    full = _sum(wal, "wal_buffers_full") or 0.0
    if wal is None:
        return None
    if in_io:
        return _Io(full * BLOCK / RUN_WRITE - full, 0.0)
    if written is None:
        if size is not None:
            said.append(
                "wal_write is missing (18 has it in the rows of pg_stat_io with object wal), so the bytes of the "
                f"WAL are the least, and its requests are unknown: {_OVERALL}{IO}"
            )
        return _Io(None, size)
    full = min(full, written)
    requests = written - full + full * BLOCK / RUN_WRITE
    seconds = _timed(_sum(wal, "wal_write_time", "wal_sync_time"))
    return _Io(requests, None if size is None else size + BLOCK * (written - full), seconds)


def _together(data: _Io | None, log: _Io | None, *, in_io: bool) -> dict[str, float | None]:
    """Relation data and WAL. One that is there without telling a value leaves the sum unknown; one that is not
    there is said to be missing."""
    both = [each for each in (data, log) if each is not None]
    if not both or (in_io and data is None):
        return {}

    def total(name: str) -> float | None:
        values = [getattr(each, name) for each in both]
        return None if None in values else float(max(0.0, sum(values)))

    seconds = data.seconds if in_io and data is not None else None if len(both) < 2 else total("seconds")
    return {"writes": total("requests"), "write_bytes": total("size"), "write_seconds": seconds}


def _flushes(io: View | None, wal: View | None, writer: View | None) -> float | None:
    """``wal_sync`` and the fsyncs of files. It is 0 where ``wal_sync_method`` makes each write a flush."""
    syncs, writes = _sum(wal, "wal_sync"), _sum(wal, "wal_write")
    if syncs == 0 and writes:
        syncs = writes
    files = _sum(io, "fsyncs") if io is not None else _sum(writer, "buffers_backend_fsync")
    wal_reported = syncs is not None or (io is not None and any(_object(label) == "wal" for label in io.labels))
    return _plus((syncs, files)) if wal_reported else None


def _transactions(database: View | None, said: list[str]) -> float | None:
    if database is None:
        return None
    if len(database.rows) == 1 and database.labels[0] != ("",):
        said.append(
            f"pg_stat_database of {database.labels[0][0]} only: the transactions and reads of other databases are "
            "missing"
        )
    if _sum(database, "temp_bytes"):
        said.append(
            "temporary files (temp_bytes of pg_stat_database) are not counted: most of them never leave memory"
        )
    commits = _sum(database, "xact_commit")
    return None if commits is None else _plus((commits, _sum(database, "xact_rollback")))


def _missing(
    views: Mapping[str, View], reads: _Io, data: _Io | None, log: _Io | None, *, in_io: bool, said: list[str]
) -> None:
    if IO in views and not any(label[-1] for label in views[IO].labels):
        said.append(f"its rows have no context, so runs of blocks are counted one by one: {_OVERALL}{IO}")
    if reads.requests is None:
        said.append(f"reads are missing: {_OVERALL}{IO} (to 15: {DATABASE})")
    elif reads.size is None:
        said.append(f"the bytes of reads are unknown, op_bytes or read_bytes is missing: {_OVERALL}{IO}")
    if data is None:
        said.append(f"writes of data are missing: {_OVERALL}{IO} (to 15: {WRITER})")
    elif data.size is None:
        said.append(f"the bytes of writes are unknown, op_bytes or write_bytes is missing: {_OVERALL}{IO}")
    if log is None and not in_io and data is not None:
        said.append(
            f"WRITES ARE UNDERSTATED: without pg_stat_wal those of the WAL are missing: {_OVERALL}{WAL} (14+)"
        )
    if DATABASE not in views:
        said.append(f"transactions are missing: {_OVERALL}{DATABASE}")

"""What a MySQL or MariaDB server's counters say of the block device below: InnoDB's pages, its doublewrite buffer
and redo log, the binary log, and what a file system adds to each sync.

InnoDB counts its own calls, and which ones differs by version: the redo log is in ``Innodb_data_writes`` and
``Innodb_data_written`` of MySQL and of older MariaDB, not of MariaDB 11.8; the doublewrite buffer's bytes are in
MariaDB's ``Innodb_data_written``, not in MySQL's since 8.0.20. No table of versions is needed: the counters of the
parts tell which sum the total is (``_holds``). The binary log is in none of them.

Each sync of a file (fsync, fdatasync) is one request more to the kernel's block layer: a write of the file
system's journal where the file has grown (the binary log does at each sync), else a cache flush, which Linux
counts as a write of 0 bytes. A volume without a volatile write cache gets no such flushes.

Beside /proc/diskstats (TPC-C in 14 cells: MariaDB 11.8 and MySQL 9.7, xfs, O_DIRECT, sync_binlog 0 and 1, 1 and 16
threads) reads were 0.99 to 1.00 of the kernel's, writes 0.91 to 1.00, bytes written 0.91 to 1.09. Its cache
flushes are more than the syncs: on a device without FUA a write of the journal makes two of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from blocklab.sizing.series import Device

PAGE = 16384.0
# Of the page cache, and of a file system's journal: the least that is written of a file that is not O_DIRECT.
BLOCK = 4096.0
# Bytes of a redo log block: what an O_DIRECT write of it is rounded to, where the server does not tell.
LOG_BLOCK = 512.0
# A batch of the doublewrite buffer is one call of up to 2 MiB; a device gets it in requests of at most this size
# (EBS counts an I/O for each 256 KiB; the kernel's own limit, max_sectors_kb, is between 128 and 1280 KiB).
LARGEST = 256.0 * 1024
# Any other of InnoDB's flush methods goes through the page cache: fsync, the default of MySQL before 8.4 and of
# MariaDB before 10.6.
_DIRECT = ("o_direct", "o_direct_no_fsync", "all_o_direct")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What SHOW GLOBAL VARIABLES tells, None where nothing does. ``buffered``: InnoDB's files go through the page
    cache. ``log_buffered``: the redo log does. ``log_block``: bytes to which its O_DIRECT writes are rounded.
    ``system``: the host, with the port where that is not 3306."""

    sync_binlog: int | None = None
    flush_log: int | None = None
    buffered: bool | None = None
    log_buffered: bool | None = None
    log_block: float | None = None
    host: str = ""
    system: str = ""
    product: str = ""


def settings(variables: Mapping[str, str]) -> Settings:
    """The settings among the variables (names in lower case); a value that is no number is taken as unknown."""
    method = variables.get("innodb_flush_method", "").lower()
    block = _whole(variables.get("innodb_log_write_ahead_size"))
    buffering = variables.get("innodb_log_file_buffering", "").upper()
    host, port = variables.get("hostname", ""), variables.get("port", "")
    told = f"{variables.get('version', '')} {variables.get('version_comment', '')}".lower().strip()
    mariadb = "mariadb" in told
    return Settings(
        sync_binlog=_whole(variables.get("sync_binlog")),
        flush_log=_whole(variables.get("innodb_flush_log_at_trx_commit")),
        buffered=method not in _DIRECT if method else None,
        log_buffered={"ON": True, "OFF": False}.get(buffering),
        # In MySQL it is another thing: the size of the page cache's blocks.
        log_block=float(block) if block and mariadb else None,
        host=host,
        system=f"{host}:{port}" if host and port not in ("", "3306") else host,
        product="mariadb" if mariadb else "mysql" if told else "",
    )  # fmt: skip


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


def product(status: Mapping[str, float]) -> str:
    """``mariadb`` or ``mysql``, by counters that only one of them has; names in lower case."""
    if any(name.startswith(("aria_", "feature_", "binlog_group_commit")) for name in status):
        return "mariadb"
    # All of a status, or counters of MySQL 8 and later.
    own = ("aborted_clients", "innodb_redo_log_", "caching_sha2_", "mysqlx_")
    return "mysql" if any(name.startswith(own) for name in status) else ""


def _holds(total: float, base: float, part: float) -> bool:
    """Whether a total has a part in it, beside the base that it surely has: what is left of it is nearer to the
    part than to nothing."""
    return total - base >= part / 2


class _Redo(msgspec.Struct, frozen=True):
    """The redo log: ``calls`` are its writes as InnoDB counts them, ``requests`` those that reach a device."""

    calls: float
    requests: float
    bytes: float
    rounding: float


def _redo(status: Mapping[str, float], setting: Settings) -> _Redo:
    """Through the page cache (MySQL, MariaDB before 10.8; both count the log's own syncs) writes are collected
    until the next sync, and each sync writes whole pages; with O_DIRECT each write is a request of log blocks."""
    calls, written = status.get("innodb_log_writes", 0.0), status.get("innodb_os_log_written", 0.0)
    syncs = status.get("innodb_os_log_fsyncs")
    buffered = setting.log_buffered if setting.log_buffered is not None else syncs is not None
    requests = min(calls, syncs) if buffered and syncs is not None else calls
    return _Redo(calls, requests, written, requests * (BLOCK if buffered else setting.log_block or LOG_BLOCK))


def _binlog(status: Mapping[str, float], setting: Settings, said: list[str]) -> tuple[float, float, float]:
    """Syncs, requests of data and their bytes of the binary log; the journal's are not in it."""
    commits = status.get("binlog_cache_use", 0.0) + status.get("binlog_stmt_cache_use", 0.0)
    groups, written = status.get("binlog_group_commits"), status.get("binlog_bytes_written")
    if not (groups or written or commits):
        return 0.0, 0.0, 0.0
    if setting.sync_binlog is None:
        said.append(
            "sync_binlog is not in it: taken as 1 (each commit of the binary log is synced); put SHOW GLOBAL "
            "VARIABLES into the same file"
        )
    each = 1 if setting.sync_binlog is None else setting.sync_binlog
    if written is None:
        said.append("MySQL does not count the binary log's bytes: one block of 4 KiB is taken for each sync of it")
    if groups is None:
        groups = _groups(status, setting, commits, said)
    if each == 0:
        # The kernel writes it back every few seconds, in large requests.
        return 0.0, (written or 0.0) / LARGEST, written or 0.0
    syncs = groups / each
    # A group begins within a block that is already written, so that it touches one more than it has bytes for.
    return syncs, syncs, (written or 0.0) + syncs * BLOCK


def _groups(status: Mapping[str, float], setting: Settings, commits: float, said: list[str]) -> float:
    """MySQL does not count groups of commits: each group syncs the redo log once, before it writes the binary log
    (sync_binlog = innodb_flush_log_at_trx_commit = 1), and there are no more groups than commits."""
    syncs = status.get("innodb_os_log_fsyncs")
    if syncs is None or setting.flush_log in (0, 2):
        said.append("the size of group commits is not known: one sync of the binary log is taken for each commit")
        return commits
    if setting.flush_log is None:
        said.append("innodb_flush_log_at_trx_commit is not in it: taken as 1")
    return min(commits, syncs)


def device(setting: Settings, page: float, status: Mapping[str, float]) -> Device:
    """The device's requests, bytes and syncs while the server's counters moved by so much, and what had to be
    assumed.

    ``status``: of SHOW GLOBAL STATUS, names in lower case; it has all of ``NEEDED``. ``page``: InnoDB's page size
    (B). ``writes`` are as Linux counts them: page writes, doublewrite batches in requests of ``LARGEST``,
    the redo log, the binary log, and the file system's journal for each sync of the binary log, which grows. Empty
    flushes are no writes: a cloud volume, which has no volatile cache, never gets them. ``flushes`` are the syncs.

    ``transactions``: ``Com_rollback`` and the greater of ``Com_commit`` and the commits in the binary log: those
    of autocommit are only there. ``Handler_commit`` counts each statement's, so it is not taken.
    """
    said: list[str] = []
    pages, redo = status.get("innodb_pages_written", 0.0), _redo(status, setting)
    twice, batches = status.get("innodb_dblwr_pages_written", 0.0), status.get("innodb_dblwr_writes", 0.0)
    syncs, log_requests, log_bytes = _binlog(status, setting, said)
    fsyncs = status.get("innodb_data_fsyncs", 0.0)

    writes, written = status["innodb_data_writes"], status["innodb_data_written"]
    if _holds(writes, pages + batches, redo.calls):
        writes -= redo.calls
    writes = max(writes, 0.0) + redo.requests + max(0.0, twice * page / LARGEST - batches)
    written = _all_bytes(written, pages * page, twice * page, redo.bytes) + redo.rounding
    found = {
        "reads": status["innodb_data_reads"], "read_bytes": status["innodb_data_read"],
        "writes": writes + log_requests + syncs, "write_bytes": written + log_bytes + syncs * BLOCK,
        "flushes": fsyncs + syncs,
    }  # fmt: skip
    if "innodb_data_fsyncs" not in status:
        said.append("Innodb_data_fsyncs is not in it: neither the syncs nor their requests are counted")
        del found["flushes"]
    if "com_commit" in status:
        logged = status.get("binlog_commits", status.get("binlog_cache_use", 0.0))
        found["transactions"] = max(status["com_commit"], logged) + status.get("com_rollback", 0.0)
    return Device(counters=found, remarks=tuple(said))


def _all_bytes(total: float, pages: float, twice: float, redo: float) -> float:
    """Pages, doublewrite buffer and redo log together, whichever of the last two the total has: of the four sums
    the nearest."""
    sums = {(a, b): pages + a * twice + b * redo for a in (0, 1) for b in (0, 1)}
    has = min(sums, key=lambda each: abs(sums[each] - total))
    return total + (1 - has[0]) * twice + (1 - has[1]) * redo

"""SHOW GLOBAL STATUS: each dump becomes a snapshot of the device's I/O (``mysql_model``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from blocklab.formats.clock import Clock
from blocklab.formats.database.mysql_status import USED, lacks
from blocklab.formats.found import Dump, Found
from blocklab.formats.text import Refused
from blocklab.sizing.models import mysql_model
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Snapshot, Statistics, Trust

SOURCE = "MySQL status"
_COUNTERS = USED - {"uptime", "uptime_since_flush_status", "innodb_page_size"}
# FLUSH STATUS sets these to 0; InnoDB's and the binary log's bytes and groups go on.
_FLUSHED = ("com_commit", "com_rollback", "binlog_stmt_cache_use")


def statistics(found: Found, reading: Reading) -> Statistics:
    """Each dump as a snapshot. Raises ``Refused`` where there is none that can be used."""
    if why := _elsewhere(found.dumps):
        raise Refused(why)
    usable = [each for each in found.dumps if not lacks(each)]
    if not usable:
        line, text = found.dumps[-1].line, lacks(found.dumps[-1])
        raise Refused(f"line {line}: {text}; take all of it: mysql -e 'SHOW GLOBAL STATUS'")
    said: list[str] = []
    times = _times(usable, found, reading, said)
    setting = mysql_model.settings(found.settings)
    snapshots = tuple(
        _snapshot(each, at, setting, found.path, said) for each, at in zip(usable, times, strict=True)
    )
    return Statistics(snapshots=snapshots, remarks=tuple(dict.fromkeys(said)))


def _elsewhere(dumps: Sequence[Dump]) -> str:
    """Why the server's counters say nothing of any storage; empty where they do. They stay 0 where the storage is
    another machine's, and where the tables are another engine's: that is no rate of 0."""
    last = dumps[-1].counters
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


def _times(dumps: Sequence[Dump], found: Found, reading: Reading, said: list[str]) -> list[float | None]:
    stamps = [found.clock.stamps[each.time] for each in dumps if found.clock is not None and each.time is not None]
    if len(stamps) < len(dumps):
        if stamps:
            said.append("not all dumps have a line with their time: the server's uptime is taken for all")
        return [None] * len(dumps)
    times, remarks = reading.times(Clock(tuple(stamps)), found.path)
    said += remarks
    return times


def _snapshot(
    dump: Dump, time: float | None, setting: mysql_model.Settings, path: Path, said: list[str]
) -> Snapshot:
    uptime, since = dump.counters.get("uptime"), dump.counters.get("uptime_since_flush_status")
    values, since_start = dict(dump.counters), None
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
        system=setting.system, source=SOURCE, file=path, counters=counters, time=time, uptime=uptime or None,
        trust=Trust.CACHED if setting.buffered else Trust.SERVER, host=setting.host, counting_since=since_epoch,
        product=setting.product or mysql_model.product(dump.counters), line=dump.line,
        model=partial(mysql_model.device, setting, page),
    )  # fmt: skip

"""The kinds of files that are known, by name."""

from __future__ import annotations

from collections.abc import Mapping

from blocklab.formats.database import innodb, mysql_status, postgres
from blocklab.formats.database.cloudwatch import csv_file as csv_points
from blocklab.formats.database.cloudwatch import json_file as json_points
from blocklab.formats.database.oracle import reports
from blocklab.formats.found import Found
from blocklab.formats.host import diskstats, dstat, iostat, iostat_json, sadf, sar, vmstat
from blocklab.formats.kind import Kind
from blocklab.formats.load import hammerdb, jdbcrunner
from blocklab.formats.load.fio import json_file, log_file, text_file
from blocklab.formats.load.go_tpc import text as go_tpc
from blocklab.formats.load.pgbench import aggregate, single, summary
from blocklab.formats.load.sysbench import oltp
from blocklab.formats.text import Text


def _log(kind: str) -> Kind:
    def read(text: Text) -> Found:
        return log_file.read_log(text.path, kind)

    def named(name: str) -> bool:
        return log_file.log_kind(name) == kind

    return Kind(f"fio's {kind} log", log_file.fits_log, read, "blocks", named)


LOADING: Mapping[str, Kind] = {
    "fio-json": Kind("fio's JSON or JSON+", json_file.fits, json_file.read),
    "fio-text": Kind("fio's text output", text_file.fits, text_file.read),
    **{f"fio-{kind}": _log(kind) for kind in log_file.KINDS},
    "pgbench": Kind("pgbench's summary", summary.fits, summary.read),
    "pgbench-progress": Kind("pgbench -P without a summary", summary.fits_progress, summary.read_progress),
    "pgbench-log": Kind("pgbench -l", single.fits, lambda text: single.read([text.path]), "blocks"),
    "pgbench-aggregate": Kind("pgbench --aggregate-interval", aggregate.fits, lambda text: aggregate.read([text])),
    "go-tpc": Kind("go-tpc's output", go_tpc.fits, go_tpc.read),
    "sysbench": Kind("sysbench's output", oltp.fits, oltp.read),
    "hammerdb": Kind("HammerDB's output, log or job", hammerdb.fits, hammerdb.read),
    "hammerdb-profile": Kind("HammerDB's time profile", hammerdb.fits_profile, hammerdb.profile),
    "hammerdb-counter": Kind("HammerDB's transaction counter", hammerdb.fits_counter, hammerdb.counter),
    "jdbcrunner": Kind("JdbcRunner's log", jdbcrunner.fits, jdbcrunner.read),
}
"""What loaded something, and prints what it did."""
WATCHING: Mapping[str, Kind] = {
    "iostat": Kind("iostat", iostat.fits, iostat.read, "lines"),
    "iostat-json": Kind("iostat -o JSON", iostat_json.fits, iostat_json.read, "lines"),
    "sar": Kind("sar -d, -b, -u", sar.fits, sar.read, "lines"),
    "sadf-json": Kind("sadf -j FILE -- -d -b", sadf.fits_json, sadf.read_json, "lines"),
    "sadf-csv": Kind("sadf -d FILE -- -d", sadf.fits_csv, sadf.read_csv, "lines"),
    "vmstat": Kind("vmstat", vmstat.fits, vmstat.read, "lines"),
    "dstat": Kind("dstat's table", dstat.fits, dstat.read),
    "dstat-csv": Kind("dstat's CSV", dstat.fits_csv, dstat.read_csv),
}
"""What watched a host while something ran."""
COUNTING: Mapping[str, Kind] = {
    "awr-html": Kind("Oracle AWR report (HTML)", reports.fits_html, reports.read_html),
    "awr-text": Kind("Oracle AWR report (text)", reports.fits_text, reports.read_text),
    "statspack": Kind("Oracle Statspack report", reports.fits_statspack, reports.read_statspack),
    "innodb-status": Kind("SHOW ENGINE INNODB STATUS of MySQL or MariaDB", innodb.fits, innodb.read),
    "mysql-status": Kind("SHOW GLOBAL STATUS of MySQL or MariaDB", mysql_status.fits, mysql_status.read),
    "postgres-stats": Kind(
        "PostgreSQL's pg_stat_io, pg_stat_wal, pg_stat_bgwriter, pg_stat_database as psql prints them",
        postgres.fits,
        postgres.read,
    ),
    "cloudwatch-json": Kind(
        "aws cloudwatch get-metric-data or get-metric-statistics", json_points.fits, json_points.read
    ),
    "cloudwatch-csv": Kind("CloudWatch CSV", csv_points.fits, csv_points.read),
    "diskstats": Kind("/proc/diskstats, several dumps", diskstats.fits, diskstats.read, "lines"),
}
"""What a server or a host has counted."""
KINDS: Mapping[str, Kind] = {**LOADING, **WATCHING, **COUNTING}

"""The kinds of files that become runs: what a workload's tool printed, and what watched one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from blocklab.formats.found import Found
from blocklab.formats.gather import Readers
from blocklab.formats.kind import Kind
from blocklab.formats.kinds import WATCHING
from blocklab.formats.looks import LOOKS
from blocklab.formats.text import Refused
from blocklab.imports import fio, fio_json, fio_text, gotpc, hammerdb, jdbcrunner, pgbench, sysbench


def _log(kind: str) -> Kind:
    return Kind(
        f"fio's {kind} log",
        fio.fits_log,
        lambda text: fio.read_log(text.path, kind),
        "blocks",
        named=lambda name: fio.log_kind(name) == kind,
    )


KINDS: Mapping[str, Kind] = {
    "fio-json": Kind("fio's JSON or JSON+", fio_json.fits, fio_json.read),
    "fio-text": Kind("fio's text output", fio_text.fits, fio_text.read),
    **{f"fio-{kind}": _log(kind) for kind in fio.KINDS},
    **WATCHING,
    "pgbench": Kind("pgbench's summary", pgbench.fits_summary, pgbench.summary),
    "pgbench-progress": Kind("pgbench -P without a summary", pgbench.fits_progress, pgbench.progress),
    "pgbench-log": Kind("pgbench -l", pgbench.fits_log, lambda text: pgbench.log([text.path]), "blocks"),
    "pgbench-aggregate": Kind(
        "pgbench --aggregate-interval", pgbench.fits_aggregate, lambda text: pgbench.aggregate([text])
    ),
    "go-tpc": Kind("go-tpc's output", gotpc.fits, gotpc.read),
    "sysbench": Kind("sysbench's output", sysbench.fits, sysbench.read),
    "hammerdb": Kind("HammerDB's output, log or job", hammerdb.fits, hammerdb.read),
    "hammerdb-profile": Kind("HammerDB's time profile", hammerdb.fits_profile, hammerdb.profile),
    "hammerdb-counter": Kind("HammerDB's transaction counter", hammerdb.fits_counter, hammerdb.counter),
    "jdbcrunner": Kind("JdbcRunner's log", jdbcrunner.fits, jdbcrunner.read),
}
READERS = Readers(KINDS, LOOKS)
kind_of = READERS.kind_of


def read(path: Path, kind: str, first_report: str = "") -> Found:
    """The file as what it was taken for; ``first_report``: what that of iostat and vmstat covers. Raises
    ``Refused``."""
    found = READERS.read(path, kind, first_report)
    of_one_host(found)
    return found


def of_one_host(found: Found) -> None:
    """Raises ``Refused`` for several outputs in one file, and for one of several hosts."""
    if len(blocks := {table.output for table in found.tables}) > 1:
        raise Refused(f"holds {len(blocks)} outputs of sar; cut it at the lines 'Linux ...' into a file for each")
    if len(hosts := sorted({table.host for table in found.tables})) > 1:
        raise Refused(f"it is of several hosts: {', '.join(hosts)}; make a file of each")

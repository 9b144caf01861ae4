"""The kinds of files that are known, and which of them a file is: by what it says, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from blocklab.errors import StudyError
from blocklab.imports import (
    dstat,
    fio,
    fio_json,
    fio_text,
    gotpc,
    hammerdb,
    iostat,
    jdbcrunner,
    looks,
    pgbench,
    sadf,
    sar,
    sysbench,
    vmstat,
)
from blocklab.imports.found import Found
from blocklab.imports.text import Refused, Text, head, whole, with_numbers


class Kind(msgspec.Struct, frozen=True):
    """``fits`` gets the start of a file, ``read`` all of it."""

    says: str
    fits: Callable[[str], bool]
    read: Callable[[Text], Found]


def _never(start: str) -> bool:
    return False


def _log(kind: str) -> Kind:
    return Kind(f"fio's {kind} log", _never, lambda text: fio.read_log(text.path, kind))


KINDS: Mapping[str, Kind] = {
    "fio-json": Kind("fio's JSON or JSON+", fio_json.fits, fio_json.read),
    "fio-text": Kind("fio's text output", fio_text.fits, fio_text.read),
    **{f"fio-{kind}": _log(kind) for kind in fio.KINDS},
    "iostat": Kind("iostat, with and without -x, -d and -c", iostat.fits, iostat.read),
    "iostat-json": Kind("iostat -o JSON", iostat.fits_json, iostat.read_json),
    "sar": Kind("sar -d, -b, -u", sar.fits, sar.read),
    "sadf-json": Kind("sadf -j", sadf.fits_json, sadf.read_json),
    "sadf-csv": Kind("sadf -d", sadf.fits_csv, sadf.read_csv),
    "vmstat": Kind("vmstat", vmstat.fits, vmstat.read),
    "dstat": Kind("dstat's table", dstat.fits, dstat.read),
    "dstat-csv": Kind("dstat's CSV", dstat.fits_csv, dstat.read_csv),
    "pgbench": Kind("pgbench's summary", pgbench.fits_summary, pgbench.summary),
    "pgbench-progress": Kind("pgbench -P without a summary", pgbench.fits_progress, pgbench.progress),
    "pgbench-log": Kind("pgbench -l", pgbench.fits_log, lambda text: pgbench.log([text.path])),
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
# They are read in blocks: all of their text at once would take as much memory.
_IN_BLOCKS = ("pgbench-log", *fio.LOGS)


def kind_of(path: Path) -> str:
    """What a file is, by its content; of fio's logs, whose rows look alike, by the end that fio gives their names.

    Raises ``Refused`` for what is not known, ``StudyError`` with the hint where it may be several.
    """
    start = head(path)
    found = [name for name, kind in KINDS.items() if kind.fits(start)]
    if fio.fits_log(start):
        known = fio.log_kind(path.name)
        found += [f"fio-{known}"] if known else fio.LOGS
    if not found:
        raise Refused(looks.like(start) or "not recognised")
    if len(found) > 1:
        raise StudyError("", f"{path}: it may be {', '.join(found)}", hint=f"say which: --as {found[0]}={path}")
    return found[0]


def read(path: Path, kind: str) -> Found:
    """The file as what it was taken for. Raises ``Refused``."""
    head(path)
    with with_numbers():
        return KINDS[kind].read(Text(path, ()) if kind in _IN_BLOCKS else whole(path))

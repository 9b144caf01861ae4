"""The kinds of files that are known, and which of them a file is: by what it says, never by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from blocklab.errors import StudyError
from blocklab.formats import looks
from blocklab.formats.found import Found
from blocklab.formats.kind import Kind
from blocklab.formats.kinds import KINDS as HOST
from blocklab.formats.lines import completed, prefix_of, prefixes, stripped, without
from blocklab.formats.prefix import seen
from blocklab.formats.prefix_times import anchored
from blocklab.formats.streaming import streamed
from blocklab.formats.text import Refused, Text, head, whole, with_numbers
from blocklab.imports import (
    fio,
    fio_json,
    fio_text,
    gotpc,
    hammerdb,
    jdbcrunner,
    pgbench,
    sysbench,
)
from blocklab.imports.agree import contradictions


def _never(start: str) -> bool:
    return False


def _log(kind: str) -> Kind:
    return Kind(f"fio's {kind} log", _never, lambda text: fio.read_log(text.path, kind))


KINDS: Mapping[str, Kind] = {
    "fio-json": Kind("fio's JSON or JSON+", fio_json.fits, fio_json.read),
    "fio-text": Kind("fio's text output", fio_text.fits, fio_text.read),
    **{f"fio-{kind}": _log(kind) for kind in fio.KINDS},
    **{name: kind for name, kind in HOST.items() if name != "diskstats"},
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
    found = _fitting(start)
    if fio.fits_log(start):
        known = fio.log_kind(path.name)
        found += [f"fio-{known}"] if known else fio.LOGS
    if not found and (prefix := prefix_of(start, _fits_stripped)) is not None:
        found = _fitting(without(start, prefix))
    if not found:
        raise Refused(_unknown(start))
    if len(found) > 1:
        raise StudyError("", f"{path}: it may be {', '.join(found)}", hint=f"say which: --as {found[0]}={path}")
    return found[0]


def _fitting(start: str) -> list[str]:
    return [
        name
        for name, kind in KINDS.items()
        if (seen(start, kind.fits)[0] if kind.reads == "lines" else kind.fits(start))
    ]


def _fits_stripped(start: str) -> bool:
    return any(name not in _IN_BLOCKS for name in _fitting(start))


def _unknown(start: str) -> str:
    """What it looks like, without what a collector may have put before each line, too."""
    if said := looks.like(start):
        return said
    for prefix in prefixes(start):
        if said := looks.like(without(start, prefix)):
            return f"{said} (each of its lines begins with {prefix.shown})"
    return "not recognised"


def read(path: Path, kind: str, first_report: str = "") -> Found:
    """The file as what it was taken for; ``first_report``: what that of iostat and vmstat covers. Raises
    ``Refused``."""
    start, known = head(path), KINDS[kind]
    with with_numbers():
        return _read(path, start, kind, known, first_report)


def _read(path: Path, start: str, kind: str, known: Kind, first_report: str) -> Found:
    if kind in _IN_BLOCKS:
        return known.read(Text(path, ()))
    if known.reads == "lines":
        return _of_one_host(known.read(streamed(path, start, known.fits, first_report)))
    text = whole(path)
    if not known.fits(start) and (prefix := prefix_of(start, known.fits)) is not None:
        text = stripped(text, prefix)
    text = completed(text)
    found = known.read(text)
    found = msgspec.structs.replace(found, remarks=(*found.remarks, *contradictions(found, text)))
    return anchored(found, text) if text.times else found


def _of_one_host(found: Found) -> Found:
    """Raises ``Refused`` for several outputs in one file, and for one of several hosts."""
    if len(blocks := {table.output for table in found.tables}) > 1:
        raise Refused(f"holds {len(blocks)} outputs of sar; cut it at the lines 'Linux ...' into a file for each")
    if len(hosts := sorted({table.host for table in found.tables})) > 1:
        raise Refused(f"it is of several hosts: {', '.join(hosts)}; make a file of each")
    return found

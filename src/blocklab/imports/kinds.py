"""The kinds of files that are known, and which of them a file is: by what it says, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from blocklab.errors import StudyError
from blocklab.formats import looks
from blocklab.formats.found import Found, in_columns
from blocklab.formats.lines import completed, prefix_of, prefixes, stripped, without
from blocklab.formats.load import hammerdb, jdbcrunner
from blocklab.formats.load.agree import contradictions
from blocklab.formats.load.fio import json_file, log_file, text_file
from blocklab.formats.load.go_tpc import text as go_tpc
from blocklab.formats.load.pgbench import aggregate, single, summary
from blocklab.formats.load.sysbench import oltp
from blocklab.formats.prefix import seen
from blocklab.formats.prefix_times import anchored
from blocklab.formats.streaming import streamed
from blocklab.formats.text import Refused, Text, head, whole, with_numbers
from blocklab.imports import (
    dstat,
    iostat,
    iostat_json,
    sadf,
    sar,
    vmstat,
)


class Kind(msgspec.Struct, frozen=True):
    """``fits`` gets the start of a file, ``read`` all of it. ``lines``: it reads line by line, so that a file need
    not fit in memory, and may have a prefix before each line."""

    says: str
    fits: Callable[[str], bool]
    read: Callable[[Text], Found]
    lines: bool = False


def _never(start: str) -> bool:
    return False


def _log(kind: str) -> Kind:
    return Kind(f"fio's {kind} log", _never, lambda text: log_file.read_log(text.path, kind))


KINDS: Mapping[str, Kind] = {
    "fio-json": Kind("fio's JSON or JSON+", json_file.fits, json_file.read),
    "fio-text": Kind("fio's text output", text_file.fits, text_file.read),
    **{f"fio-{kind}": _log(kind) for kind in log_file.KINDS},
    "iostat": Kind("iostat, with and without -x, -d and -c", iostat.fits, iostat.read, lines=True),
    "iostat-json": Kind("iostat -o JSON", iostat_json.fits, iostat_json.read, lines=True),
    "sar": Kind("sar -d, -b, -u", sar.fits, sar.read, lines=True),
    "sadf-json": Kind("sadf -j", sadf.fits_json, sadf.read_json, lines=True),
    "sadf-csv": Kind("sadf -d", sadf.fits_csv, sadf.read_csv, lines=True),
    "vmstat": Kind("vmstat", vmstat.fits, vmstat.read, lines=True),
    "dstat": Kind("dstat's table", dstat.fits, dstat.read),
    "dstat-csv": Kind("dstat's CSV", dstat.fits_csv, dstat.read_csv),
    "pgbench": Kind("pgbench's summary", summary.fits, summary.read),
    "pgbench-progress": Kind("pgbench -P without a summary", summary.fits_progress, summary.read_progress),
    "pgbench-log": Kind("pgbench -l", single.fits, lambda text: single.read([text.path])),
    "pgbench-aggregate": Kind("pgbench --aggregate-interval", aggregate.fits, lambda text: aggregate.read([text])),
    "go-tpc": Kind("go-tpc's output", go_tpc.fits, go_tpc.read),
    "sysbench": Kind("sysbench's output", oltp.fits, oltp.read),
    "hammerdb": Kind("HammerDB's output, log or job", hammerdb.fits, hammerdb.read),
    "hammerdb-profile": Kind("HammerDB's time profile", hammerdb.fits_profile, hammerdb.profile),
    "hammerdb-counter": Kind("HammerDB's transaction counter", hammerdb.fits_counter, hammerdb.counter),
    "jdbcrunner": Kind("JdbcRunner's log", jdbcrunner.fits, jdbcrunner.read),
}
# They are read in blocks: all of their text at once would take as much memory.
_IN_BLOCKS = ("pgbench-log", *log_file.LOGS)


def kind_of(path: Path) -> str:
    """What a file is, by its content; of fio's logs, whose rows look alike, by the end that fio gives their names.

    Raises ``Refused`` for what is not known, ``StudyError`` with the hint where it may be several.
    """
    start = head(path)
    found = _fitting(start)
    if log_file.fits_log(start):
        known = log_file.log_kind(path.name)
        found += [f"fio-{known}"] if known else log_file.LOGS
    if not found and (prefix := prefix_of(start, _fits_stripped)) is not None:
        found = _fitting(without(start, prefix))
    if not found:
        raise Refused(_unknown(start))
    if len(found) > 1:
        raise StudyError("", f"{path}: it may be {', '.join(found)}", hint=f"say which: --as {found[0]}={path}")
    return found[0]


def _fitting(start: str) -> list[str]:
    return [
        name for name, kind in KINDS.items() if (seen(start, kind.fits)[0] if kind.lines else kind.fits(start))
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
        return in_columns(known.read(Text(path, ())))
    if known.lines:
        text = streamed(path, start, known.fits, first_report)
        found = known.read(text)
        first = found.first_bad
        if first is not None and text.cut.strip() and first.line == len(text.lines) + 1:
            # It may have nothing wrong but that it has no end.
            found = msgspec.structs.replace(found, first_bad=msgspec.structs.replace(first, cut=True))
        return found
    text = whole(path)
    if not known.fits(start) and (prefix := prefix_of(start, known.fits)) is not None:
        text = stripped(text, prefix)
    text = completed(text)
    found = known.read(text)
    found = msgspec.structs.replace(found, remarks=(*found.remarks, *contradictions(found, text)))
    return in_columns(anchored(found, text) if text.times else found)

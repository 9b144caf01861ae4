"""The kinds of files that are known, and which of them a file is: by what it says, never by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from blocklab.errors import StudyError
from blocklab.formats import kinds, looks
from blocklab.formats.found import Found
from blocklab.formats.kind import Kind
from blocklab.formats.lines import completed, prefix_of, prefixes, stripped, without
from blocklab.formats.load.agree import contradictions
from blocklab.formats.load.fio import log_file
from blocklab.formats.prefix import seen
from blocklab.formats.prefix_times import anchored
from blocklab.formats.streaming import streamed
from blocklab.formats.text import Refused, Text, head, whole, with_numbers

# What a server or a system counts, which is no measurement of a run.
_COUNTED = ("awr-html", "awr-text", "statspack", "innodb-status", "mysql-status", "postgres-stats", "diskstats")
KINDS: Mapping[str, Kind] = {name: kind for name, kind in kinds.KINDS.items() if name not in _COUNTED}


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
        name
        for name, kind in KINDS.items()
        if (seen(start, kind.fits)[0] if kind.reads == "lines" else kind.fits(start))
    ]


def _fits_stripped(start: str) -> bool:
    return any(KINDS[name].reads != "blocks" for name in _fitting(start))


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
    if known.reads == "blocks":
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

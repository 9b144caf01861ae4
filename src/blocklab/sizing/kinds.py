"""The statistics that are known, and which of them a file is: by its content, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from blocklab.errors import StudyError
from blocklab.formats import kinds as formats
from blocklab.formats import looks
from blocklab.formats.found import Found
from blocklab.formats.kind import Kind as FileKind
from blocklab.formats.lines import completed, prefix_of, stripped, without
from blocklab.formats.prefix import seen
from blocklab.formats.streaming import streamed
from blocklab.formats.text import Refused, head, whole, with_numbers
from blocklab.sizing.readers import cloudwatch_files, host, innodb, mysql_status, oracle, postgres
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Statistics

# Each module of readers has its kinds by name.
OTHERS: Mapping[str, Kind] = {
    **cloudwatch_files.KINDS,
}
MODELS: Mapping[str, Callable[[Found, Reading], Statistics]] = {
    "awr-html": oracle.statistics,
    "awr-text": oracle.statistics,
    "statspack": oracle.statistics,
    "iostat": host.iostat,
    "iostat-json": host.iostat,
    "sar": host.sar,
    "sadf-json": host.sar_files,
    "sadf-csv": host.sar_files,
    "diskstats": host.diskstats,
    "innodb-status": innodb.statistics,
    "mysql-status": mysql_status.statistics,
    "postgres-stats": postgres.statistics,
}
"""By kind, what makes the statistics of systems of a file's table."""
KINDS: Mapping[str, Kind | FileKind] = {**OTHERS, **{name: formats.KINDS[name] for name in MODELS}}


def kind_of(path: Path) -> str:
    """What a file is. Raises ``Refused`` for what is not known, ``StudyError`` where it may be several."""
    start = head(path)
    found = _fitting(start)
    if not found and (prefix := prefix_of(start, lambda start: bool(_fitting(start)))) is not None:
        found = _fitting(without(start, prefix))
    if not found:
        raise Refused(looks.like(start, size=True) or "not recognised")
    if len(found) > 1:
        raise StudyError("", f"{path}: it may be {', '.join(found)}", hint=f"say which: --as {found[0]}={path}")
    return found[0]


def _fitting(start: str) -> list[str]:
    streamed = {name for name in MODELS if formats.KINDS[name].reads == "lines"}
    return [
        name
        for name, kind in KINDS.items()
        if (seen(start, kind.fits)[0] if name in streamed else kind.fits(start))
    ]


def read(path: Path, kind: str, reading: Reading) -> tuple[Found, Statistics]:
    """The file as what it was taken for. Raises ``Refused``."""
    start = head(path)
    with with_numbers():
        known = KINDS[kind]
        if isinstance(known, FileKind) and known.reads == "lines":
            found = known.read(streamed(path, start, known.fits, reading.first_report))
            return found, MODELS[kind](found, reading)
        text = whole(path)
        if not known.fits(start) and (prefix := prefix_of(start, known.fits)) is not None:
            text = stripped(text, prefix)
        if isinstance(known, FileKind):
            found = known.read(completed(text))
            return found, MODELS[kind](found, reading)
        got = known.read(completed(text), reading)
        return Found(kind=kind, path=path, rows=0, bad=got.lost, bad_rows=got.bad), got

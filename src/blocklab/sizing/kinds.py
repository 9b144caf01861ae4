"""The kinds of files that tell what I/O a system does, and what makes its statistics of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from blocklab.formats import kinds
from blocklab.formats.found import Found
from blocklab.formats.gather import Readers
from blocklab.formats.kind import Kind as FileKind
from blocklab.formats.looks import LOOKS, SIZE
from blocklab.formats.text import Text
from blocklab.sizing.readers import cloudwatch_files, host, innodb, mysql_status, oracle, postgres
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Statistics

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
"""By kind, what makes the statistics of systems of a file's table. Raises ``Refused`` and ``StudyError``."""
# Until CloudWatch's files are tables of formats, too.
OTHERS: Mapping[str, Kind] = {**cloudwatch_files.KINDS}
_TEXTS: dict[Path, Text] = {}


def _older(kind: Kind) -> FileKind:
    def read(text: Text) -> Found:
        _TEXTS[text.path] = text
        return Found(kind="", path=text.path, rows=0)

    return FileKind(kind.label, kind.fits, read)


def statistics(kind: str, found: Found, reading: Reading) -> Statistics:
    """What a file's table comes to. Raises ``Refused`` and ``StudyError``."""
    if kind in OTHERS:
        return OTHERS[kind].read(_TEXTS.pop(found.path), reading)
    return MODELS[kind](found, reading)


READERS = Readers(
    {**{name: _older(kind) for name, kind in OTHERS.items()}, **{name: kinds.KINDS[name] for name in MODELS}},
    [look for look in LOOKS if look.do != SIZE],
)

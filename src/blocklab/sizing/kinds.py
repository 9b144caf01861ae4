"""The statistics that are known, and which of them a file is: by its content, never by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from blocklab.errors import StudyError
from blocklab.formats import looks
from blocklab.formats.lines import completed, prefix_of, stripped, without
from blocklab.formats.prefix import seen
from blocklab.formats.streaming import streamed
from blocklab.formats.text import Refused, head, whole, with_numbers
from blocklab.sizing.readers import (
    cloudwatch_files,
    diskstats,
    innodb,
    iostat,
    mysql_status,
    oracle,
    postgres,
    sadf,
    sar,
)
from blocklab.sizing.readers.base import Kind, Reading
from blocklab.sizing.series import Found

# Each module of readers has its kinds by name.
KINDS: Mapping[str, Kind] = {
    **oracle.KINDS,
    **iostat.KINDS,
    **sar.KINDS,
    **sadf.KINDS,
    **diskstats.KINDS,
    **cloudwatch_files.KINDS,
    **innodb.KINDS,
    **mysql_status.KINDS,
    **postgres.KINDS,
}


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
    return [
        name for name, kind in KINDS.items() if (seen(start, kind.fits)[0] if kind.lines else kind.fits(start))
    ]


def read(path: Path, kind: str, reading: Reading) -> Found:
    """The file as what it was taken for. Raises ``Refused``."""
    start, known = head(path), KINDS[kind]
    with with_numbers():
        if known.lines:
            return known.read(streamed(path, start, known.fits, reading.first_report), reading)
        text = whole(path)
        if not known.fits(start) and (prefix := prefix_of(start, known.fits)) is not None:
            text = stripped(text, prefix)
        return known.read(completed(text), reading)

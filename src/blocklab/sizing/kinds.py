"""The statistics that are known, and which of them a file is: by its content, never by its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from blocklab.errors import StudyError
from blocklab.imports.text import Refused, head, whole, with_numbers
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
    found = [name for name, kind in KINDS.items() if kind.fits(start)]
    if not found:
        known = "; ".join(kind.label for kind in KINDS.values())
        raise Refused(f"not recognised; known are {known}")
    if len(found) > 1:
        raise StudyError("", f"{path}: it may be {', '.join(found)}", hint=f"say which: --as {found[0]}={path}")
    return found[0]


def read(path: Path, kind: str, reading: Reading) -> Found:
    """The file as what it was taken for. Raises ``Refused``."""
    head(path)
    with with_numbers():
        return KINDS[kind].read(whole(path), reading)

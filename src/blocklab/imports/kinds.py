"""The kinds of files that become runs: what a workload's tool printed, and what watched one."""

from __future__ import annotations

from pathlib import Path

from blocklab.formats.found import Found
from blocklab.formats.gather import Readers
from blocklab.formats.kinds import LOADING, WATCHING
from blocklab.formats.looks import LOOKS
from blocklab.formats.text import Refused

READERS = Readers({**LOADING, **WATCHING}, LOOKS)
KINDS = READERS.kinds
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

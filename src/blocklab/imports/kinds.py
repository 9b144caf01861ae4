"""The kinds of files that become runs: what a workload's tool printed, and what watched one."""

from __future__ import annotations

from blocklab.formats.found import Found
from blocklab.formats.gather import Readers
from blocklab.formats.kinds import LOADING, WATCHING
from blocklab.formats.looks import LOOKS
from blocklab.formats.text import Refused


def _of_one_host(found: Found) -> None:
    """Raises ``Refused`` for several outputs in one file, and for one of several hosts."""
    if len(blocks := {table.output for table in found.tables}) > 1:
        raise Refused(f"holds {len(blocks)} outputs of sar; cut it at the lines 'Linux ...' into a file for each")
    if len(hosts := sorted({table.host for table in found.tables})) > 1:
        raise Refused(f"it is of several hosts: {', '.join(hosts)}; make a file of each")


READERS = Readers({**LOADING, **WATCHING}, LOOKS, _of_one_host)
KINDS = READERS.kinds

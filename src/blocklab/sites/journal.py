"""Undos that are kept where the hosts are (``blocklab_node.journal``), and how they are run later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from blocklab.errors import HostError, NodeLost
from blocklab.model.host import Host, must
from blocklab.model.plan import Argv

# umount writes back what waits in memory.
UNDO_SECONDS = 200.0


class Due(msgspec.Struct, frozen=True, array_like=True):
    """An undo that is due. ``same_boot``: its host has not been booted since."""

    number: int
    argv: Argv
    same_boot: bool


def replay(host: Host, due: Iterable[Due], done: Callable[[Sequence[int]], None]) -> str:
    """Run undos, the last one first; in words what could not be undone. That stays, with all that was to follow: a
    mirror that is up must not lose its configuration. What a reboot has undone already counts as done. Raises
    ``NodeLost``."""
    for each in due:
        try:
            must(host, each.argv, timeout=UNDO_SECONDS)
        except NodeLost:
            raise
        except HostError as error:
            if each.same_boot:
                return error.message
        done([each.number])
    return ""

"""How a survivor notices that the active node is gone: pings, and what the stack's layers see of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import msgspec

from blocklab.errors import ParseError, Unreadable
from blocklab.faults.takeover import Takeover
from blocklab.model import outside
from blocklab.model.drill import Event
from blocklab.model.fault import Scene
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv
from blocklab.model.spans import Sign


class _Line(TypedDict):
    time: float
    what: str
    said: str


def argv(address: str, takeover: Takeover, signs: Sequence[Sign] = ()) -> Argv:
    """The command that watches the node at ``address`` until it gets SIGTERM. Without ``signs`` pings alone
    decide."""
    told = msgspec.json.encode(signs).decode()
    return program("monitor", address, f"{float(takeover.interval):g}", str(takeover.misses), told)


def link(scene: Scene, host: str, of: str) -> str:
    """The name of the link over which ``host`` pings the node ``of``: the first between them; empty without."""
    return next((name for name, ends in scene.ground.ends.items() if {host, of} <= ends.keys()), "")


def address(scene: Scene, host: str, of: str) -> str:
    """Where ``host`` reaches the node ``of``: at the other end of ``link``; empty without one."""
    name = link(scene, host, of)
    return scene.ground.ends[name][of].address if name else ""


def events(text: bytes) -> tuple[Event, ...]:
    """What the monitor has noticed, in order; a last line cut in the middle is dropped. Raises ``ParseError``.

    ``what`` is ``started``; ``answered`` (the first answer, and each first one after a miss); ``missed``, a ping
    or a poll; ``connection``, a state of one that is followed; ``dead``, with the reason, once for each silence;
    ``blind``: a sign that tells nothing. Times are the survivor's.
    """
    found = []
    for line in text.split(b"\n")[:-1]:
        # {"time": 1795309384.1187, "what": "missed", "said": "ping 42: no answer in 200 ms, 1 in a row"}
        try:
            told = outside.typed_json(line, _Line, "")
        except Unreadable as error:
            raise ParseError("monitor", f"not a line of its: {error}", line.decode(errors="replace")) from error
        found.append(Event(told["time"], told["what"], told["said"]))
    return tuple(found)

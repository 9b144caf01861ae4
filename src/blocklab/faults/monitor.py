"""How the survivor notices that the active node is gone: pings, and the mirror's own news of its connection."""

from __future__ import annotations

from typing import TypedDict

from blocklab.errors import ParseError, Unreadable
from blocklab.faults.takeover import Takeover
from blocklab.model import outside
from blocklab.model.drill import Event
from blocklab.model.fault import Scene
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv


class _Line(TypedDict):
    time: float
    what: str
    said: str


def argv(address: str, takeover: Takeover, resource: str = "") -> Argv:
    """The command that watches the node at ``address`` until it gets SIGTERM.

    ``resource``: the DRBD resource that joins both nodes; empty where none does, so that pings alone decide.
    """
    options = (f"{float(takeover.interval):g}", str(takeover.misses), resource)
    return program("monitor", address, *options)


def link(scene: Scene) -> str:
    """The name of the link over which the other node pings the active one: the first between them; empty
    without."""
    return next(
        (name for name, each in scene.ground.ends.items() if {scene.active, scene.peer} <= each.keys()), ""
    )


def address(scene: Scene) -> str:
    """Where the other node reaches the active one: at the active end of ``link``; empty without one."""
    name = link(scene)
    return scene.ground.ends[name][scene.active].address if name else ""


def events(text: bytes) -> tuple[Event, ...]:
    """What the monitor has noticed, in order; a last line cut in the middle is dropped. Raises ``ParseError``.

    ``what`` is ``started``; ``answered`` (the first answer, and each first one after a miss); ``missed``, a ping;
    ``connection``, a state of the mirror's; ``dead``, with the reason, once for each silence; ``blind``: there are
    no news of the mirror. Times are the survivor's.
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

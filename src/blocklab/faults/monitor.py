"""How the survivor notices that the active node is gone: pings, and the mirror's own news of its connection."""

from __future__ import annotations

from typing import TypedDict

import msgspec

from blocklab.errors import ParseError
from blocklab.faults.takeover import Takeover
from blocklab.model.drill import Event
from blocklab.model.plan import Argv
from blocklab.model.protocols import Scene

PATH = "/run/blocklab/monitor.py"
# Runs on the survivor, so it is text here. One process, which sleeps between pings.
SCRIPT = '''\
"""Pings a node and follows a mirror's connection; prints a line of JSON for each thing that it notices.

Arguments: address, interval (s), misses, and the mirror's resource where there is one.
"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time

ADDRESS, INTERVAL, MISSES, RESOURCE = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
# exists connection name:one peer-node-id:0 conn-name:peer connection:Connected role:Primary
STATE = re.compile(rb"^(?:exists|create|change) connection .*\\bconnection:(\\w+)")
# What DRBD calls a connection that is none; its events have DRBD 9's names, so Connecting for WFConnection.
LOST = {
    "StandAlone", "Disconnecting", "Unconnected", "Timeout", "BrokenPipe", "NetworkFailure", "ProtocolError",
    "TearDown", "Connecting", "WFConnection", "WFReportParams",
}


def say(what, said=""):
    print(json.dumps({"time": round(time.time(), 4), "what": what, "said": said}), flush=True)


class Pings:
    """ICMP echoes, numbered from 1."""

    def __init__(self):
        self.line = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self.line.setblocking(False)
        self.line.connect((ADDRESS, 0))
        self.mark = os.getpid() & 0xFFFF
        self.number = 0

    def send(self):
        self.number = self.number % 0xFFFF + 1
        total = 0x0800 + self.mark + self.number
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        # No route, no memory: then there is no answer either.
        with contextlib.suppress(OSError):
            self.line.send(struct.pack("!BBHHH", 8, 0, ~total & 0xFFFF, self.mark, self.number))

    def answers(self):
        """The numbers of the pings whose answers have come since."""
        found = []
        with contextlib.suppress(OSError):
            while True:
                data = self.line.recv(2048)
                body = data[4 * (data[0] & 15) :]
                kind, _, _, mark, number = struct.unpack("!BBHHH", body[:8])
                if kind == 0 and mark == self.mark:
                    found.append(number)
        return found


class Mirror:
    """DRBD's own news."""

    def __init__(self):
        self.state, self.was_connected, self.rest = "", False, b""
        argv = ["drbdsetup", "events2", RESOURCE]
        self.child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.line = self.child.stdout
        self.open = True

    def read(self):
        """Take in what came; without a stream the pings have to do."""
        data = os.read(self.line.fileno(), 65536)
        if not data:
            self.open = False
            say("blind", f"drbdsetup events2 {RESOURCE} ended with {self.child.wait()}; pings alone decide")
        *lines, self.rest = (self.rest + data).split(b"\\n")
        for line in lines:
            # the end of what there is at the start
            if line == b"exists -" and not self.state:
                say("blind", f"DRBD has no connection of {RESOURCE}; pings alone decide")
            if (match := STATE.match(line)) and match[1].decode() != self.state:
                state = match[1].decode()
                say("connection", f"{self.state} -> {state}" if self.state else state)
                self.state = state
                self.was_connected |= state not in LOST

    @property
    def lost(self):
        return self.was_connected and self.state in LOST


class Watch:
    def __init__(self):
        self.pings = Pings()
        self.mirror = Mirror() if RESOURCE else None
        # Pings in a row without an answer; whether there has been one at all; whether the last one is answered.
        self.row, self.heard, self.answered, self.dead = 0, False, True, False

    def listen(self):
        """Any answer, late or not, says that the node lives."""
        for number in self.pings.answers():
            if self.row or not self.heard:
                say("answered", f"ping {number}, after {self.row} without an answer")
            self.row, self.heard, self.dead = 0, True, False
            self.answered |= number == self.pings.number

    def judge(self):
        lost = self.mirror is not None and self.mirror.lost
        # Before the first answer it is only on its way, as far as one can tell.
        if self.dead or not ((self.heard and self.row >= MISSES) or (lost and self.row)):
            return
        self.dead = True
        why = f"{self.row} ping{'s' if self.row > 1 else ''} in a row without an answer"
        say("dead", f"connection {self.mirror.state} and {why}" if lost else why)

    def tick(self, late):
        self.listen()
        # Where this node stood still itself, the other one cannot be blamed: its answer gets until the next tick.
        if not self.answered and late < INTERVAL:
            self.row += 1
            if not self.dead:
                why = f"no answer in {1000 * INTERVAL:g} ms, {self.row} in a row"
                say("missed", f"ping {self.pings.number}: {why}")
        self.judge()
        self.pings.send()
        self.answered = False

    def run(self):
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= due:
                self.tick(now - due)
                due = due + INTERVAL if due + INTERVAL > now else now + INTERVAL
            lines = [self.pings.line, *([self.mirror.line] if self.mirror and self.mirror.open else [])]
            ready, _, _ = select.select(lines, [], [], max(0.0, due - time.monotonic()))
            if self.pings.line in ready:
                self.listen()
            if len(ready) > (self.pings.line in ready):
                self.mirror.read()
                self.judge()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    # A busy survivor must not find itself slow and the other one dead.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    watch = None
    try:
        watch = Watch()
        say("started", f"pings {ADDRESS} every {1000 * INTERVAL:g} ms; dead after {MISSES} misses")
        watch.run()
    finally:
        if watch and watch.mirror:
            watch.mirror.child.kill()
            watch.mirror.child.wait()


main()
'''


class _Line(TypedDict):
    time: float
    what: str
    said: str


def argv(address: str, takeover: Takeover, resource: str = "", script: str = PATH) -> Argv:
    """The command that watches the node at ``address`` until it gets SIGTERM; ``SCRIPT`` stands under ``script``.

    ``resource``: the DRBD resource that joins both nodes; empty where none does, so that pings alone decide.
    """
    options = (f"{float(takeover.interval):g}", str(takeover.misses), resource)
    return ("python3", "-I", "-S", script, address, *options)


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
            told = msgspec.json.decode(line, type=_Line)
        except msgspec.MsgspecError as error:
            raise ParseError("monitor", f"not a line of its: {error}", line.decode(errors="replace")) from error
        found.append(Event(told["time"], told["what"], told["said"]))
    return tuple(found)

"""Pings a node and follows a mirror's connection; prints a line of JSON for each thing that it notices.

Arguments: address, interval (s), misses, and the mirror's resource where there is one.
"""

from __future__ import annotations

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
from collections.abc import Sequence
from typing import Any

# exists connection name:one peer-node-id:0 conn-name:peer connection:Connected role:Primary
STATE = re.compile(rb"^(?:exists|create|change) connection .*\bconnection:(\w+)")
# What DRBD calls a connection that is none; its events have DRBD 9's names, so Connecting for WFConnection.
LOST = {
    "StandAlone",
    "Disconnecting",
    "Unconnected",
    "Timeout",
    "BrokenPipe",
    "NetworkFailure",
    "ProtocolError",
    "TearDown",
    "Connecting",
    "WFConnection",
    "WFReportParams",
}


def say(what: str, said: str = "") -> None:
    """One line of what was noticed."""
    print(json.dumps({"time": round(time.time(), 4), "what": what, "said": said}), flush=True)


class Pings:
    """ICMP echoes, numbered from 1."""

    def __init__(self, address: str) -> None:
        self.line = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        self.line.setblocking(False)
        self.line.connect((address, 0))
        self.mark = os.getpid() & 0xFFFF
        self.number = 0

    def send(self) -> None:
        """The next one."""
        self.number = self.number % 0xFFFF + 1
        total = 0x0800 + self.mark + self.number
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        # No route, no memory: then there is no answer either.
        with contextlib.suppress(OSError):
            self.line.send(struct.pack("!BBHHH", 8, 0, ~total & 0xFFFF, self.mark, self.number))

    def answers(self) -> list[int]:
        """The numbers of the pings whose answers have come since."""
        found: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                data = self.line.recv(2048)
                body = data[4 * (data[0] & 15) :]
                kind, _, _, mark, number = struct.unpack("!BBHHH", body[:8])
                if kind == 0 and mark == self.mark:
                    found.append(number)
        return found


class DrbdEvents:
    """DRBD's own news."""

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.state, self.was_connected, self.rest = "", False, b""
        argv = ["drbdsetup", "events2", resource]
        self.child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self.child.stdout is not None
        self.line = self.child.stdout
        self.open = True

    def read(self) -> None:
        """Take in what came; without a stream the pings have to do."""
        data = os.read(self.line.fileno(), 65536)
        if not data:
            self.open = False
            say("blind", f"drbdsetup events2 {self.resource} ended with {self.child.wait()}; pings alone decide")
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            # the end of what there is at the start
            if line == b"exists -" and not self.state:
                say("blind", f"DRBD has no connection of {self.resource}; pings alone decide")
            if (match := STATE.match(line)) and match[1].decode() != self.state:
                state = match[1].decode()
                say("connection", f"{self.state} -> {state}" if self.state else state)
                self.state = state
                self.was_connected |= state not in LOST

    @property
    def lost(self) -> bool:
        """Whether the connection is gone."""
        return self.was_connected and self.state in LOST


class Watch:
    """Both of them, and what they say together."""

    def __init__(self, address: str, interval: float, misses: int, resource: str) -> None:
        self.interval, self.misses = interval, misses
        self.pings = Pings(address)
        self.mirror = DrbdEvents(resource) if resource else None
        # Pings in a row without an answer; whether there has been one at all; whether the last one is answered.
        self.row, self.heard, self.answered, self.dead = 0, False, True, False

    def listen(self) -> None:
        """Any answer, late or not, says that the node lives."""
        for number in self.pings.answers():
            if self.row or not self.heard:
                say("answered", f"ping {number}, after {self.row} without an answer")
            self.row, self.heard, self.dead = 0, True, False
            self.answered |= number == self.pings.number

    def judge(self) -> None:
        """Say once that the node is dead."""
        lost = self.mirror is not None and self.mirror.lost
        # Before the first answer it is only on its way, as far as one can tell.
        if self.dead or not ((self.heard and self.row >= self.misses) or (lost and self.row)):
            return
        self.dead = True
        why = f"{self.row} ping{'s' if self.row > 1 else ''} in a row without an answer"
        say("dead", f"connection {self.mirror.state} and {why}" if lost and self.mirror else why)

    def tick(self, late: float) -> None:
        """Judge the last ping and send the next."""
        self.listen()
        # Where this node stood still itself, the other one cannot be blamed: its answer gets until the next tick.
        if not self.answered and late < self.interval:
            self.row += 1
            if not self.dead:
                why = f"no answer in {1000 * self.interval:g} ms, {self.row} in a row"
                say("missed", f"ping {self.pings.number}: {why}")
        self.judge()
        self.pings.send()
        self.answered = False

    def run(self) -> None:
        """Until a signal ends it."""
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= due:
                self.tick(now - due)
                due = due + self.interval if due + self.interval > now else now + self.interval
            lines: list[Any] = [self.pings.line]
            if self.mirror is not None and self.mirror.open:
                lines.append(self.mirror.line)
            ready, _, _ = select.select(lines, [], [], max(0.0, due - time.monotonic()))
            if self.pings.line in ready:
                self.listen()
            if self.mirror is not None and self.mirror.line in ready:
                self.mirror.read()
                self.judge()


def main(argv: Sequence[str]) -> int:
    """Watch until SIGTERM or SIGINT."""
    address, interval, misses, resource = argv[1], float(argv[2]), int(argv[3]), argv[4]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    # A busy survivor must not find itself slow and the other one dead.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    watch = None
    try:
        watch = Watch(address, interval, misses, resource)
        say("started", f"pings {address} every {1000 * interval:g} ms; dead after {misses} misses")
        watch.run()
    finally:
        if watch and watch.mirror:
            watch.mirror.child.kill()
            watch.mirror.child.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""Pings a node, and runs commands that see more of it; prints a line of JSON for each thing that it notices.

Arguments: address, interval (s), misses, and a JSON list of these commands: ``blocklab.model.spans`` says what
their answers mean. A command that is followed::

    {"sign": "follow", "what": "one", "argv": [...], "state": REGEX, "lost": [...], "listed": REGEX}

and one that is run for each ping::

    {"sign": "poll", "what": "server on a1", "argv": [...], "seconds": 1.0, "alive": REGEX}
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


class Follow:
    """The states of a connection to the node, as a command tells them that goes on."""

    def __init__(self, sign: dict[str, Any]) -> None:
        self.what, self.argv, self.lost_in = sign["what"], sign["argv"], set(sign["lost"])
        self.pattern = re.compile(sign["state"].encode())
        self.listed = re.compile(sign["listed"].encode()) if sign["listed"] else None
        self.state, self.was_connected, self.rest = "", False, b""
        self.child = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self.child.stdout is not None
        self.line = self.child.stdout
        self.open = True

    def read(self) -> None:
        """Take in what came; without a stream the pings have to do."""
        data = os.read(self.line.fileno(), 65536)
        if not data:
            self.open = False
            say("blind", f"{' '.join(self.argv)} ended with {self.child.wait()}; pings alone decide")
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            # the end of what there is at the start
            if self.listed and self.listed.match(line) and not self.state:
                say("blind", f"there is no connection of {self.what}; pings alone decide")
            if (match := self.pattern.match(line)) and match[1].decode() != self.state:
                state = match[1].decode()
                say("connection", f"{self.state} -> {state}" if self.state else state)
                self.state = state
                self.was_connected |= state not in self.lost_in

    @property
    def lost(self) -> bool:
        """Whether the connection is gone."""
        return self.was_connected and self.state in self.lost_in

    def end(self) -> None:
        """Leave nothing behind."""
        self.child.kill()
        self.child.wait()


class Poll:
    """What a command says each time that it is run: whether something on the node lives."""

    def __init__(self, sign: dict[str, Any], misses: int) -> None:
        self.what, self.argv, self.seconds, self.misses = sign["what"], sign["argv"], sign["seconds"], misses
        self.alive = re.compile(sign["alive"].encode())
        self.child: subprocess.Popen[bytes] | None = None
        self.begun = 0.0
        # How often in a row it has failed; whether it ever did not.
        self.row, self.heard = 0, False

    def tick(self, patient: bool) -> None:
        """Take in its answer, if it is there or overdue, and run it again. ``patient``: nothing is overdue yet."""
        if self.child is not None:
            code = self.child.poll()
            if code is None and (patient or time.monotonic() - self.begun < self.seconds):
                return
            self.take(code, self.output(self.child))
        self.child = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.begun = time.monotonic()

    def output(self, child: subprocess.Popen[bytes]) -> bytes:
        """What it has printed, at most what fits into a pipe; it is ended."""
        child.kill()
        child.wait()
        assert child.stdout is not None
        with child.stdout:
            os.set_blocking(child.stdout.fileno(), False)
            return child.stdout.read() or b""

    def take(self, code: int | None, text: bytes) -> None:
        """One answer; without a code it did not come in time."""
        if code == 0 and self.alive.search(text):
            if self.row or not self.heard:
                say("answered", f"{self.what}, after {self.row} without an answer")
            self.row, self.heard = 0, True
            return
        self.row += 1
        late = f"no answer in {self.seconds:g} s"
        why = late if code is None else f"exit code {code}" if code else "not the answer of one that lives"
        if self.heard and self.row <= self.misses:
            say("missed", f"{self.what}: {why}, {self.row} in a row")
        elif not self.heard and self.row == self.misses:
            say("blind", f"{self.what}: {why}, {self.row} in a row and never another one; pings alone decide")

    @property
    def dead(self) -> bool:
        """Whether it has failed so often that what it asks about is gone."""
        return self.heard and self.row >= self.misses

    def end(self) -> None:
        """Leave nothing behind."""
        if self.child is not None:
            self.output(self.child)


class Watch:
    """All of them, and what they say together."""

    def __init__(self, address: str, interval: float, misses: int, signs: Sequence[dict[str, Any]]) -> None:
        self.interval, self.misses = interval, misses
        self.pings = Pings(address)
        self.follows = [Follow(sign) for sign in signs if sign["sign"] == "follow"]
        self.polls = [Poll(sign, misses) for sign in signs if sign["sign"] == "poll"]
        # Pings in a row without an answer; whether there has been one at all; whether the last one is answered.
        self.row, self.heard, self.answered, self.dead = 0, False, True, False

    def listen(self) -> None:
        """Any answer, late or not, says that the node lives; not that what is polled there does."""
        for number in self.pings.answers():
            if self.row or not self.heard:
                say("answered", f"ping {number}, after {self.row} without an answer")
            self.row, self.heard = 0, True
            self.dead = self.dead and any(poll.dead for poll in self.polls)
            self.answered |= number == self.pings.number

    def judge(self) -> None:
        """Say once that the node is dead, or what is polled there."""
        lost = next((follow for follow in self.follows if follow.lost), None)
        gone = next((poll for poll in self.polls if poll.dead), None)
        # Before the first answer it is only on its way, as far as one can tell.
        silent = (self.heard and self.row >= self.misses) or (lost is not None and self.row > 0)
        if not silent and gone is None:
            self.dead = self.dead and self.row > 0
            return
        if self.dead:
            return
        self.dead = True
        why = f"{self.row} ping{'s' if self.row > 1 else ''} in a row without an answer"
        if not silent and gone is not None:
            say("dead", f"{gone.what}: {gone.row} in a row without an answer, though its node answers")
        else:
            say("dead", f"connection {lost.state} and {why}" if lost else why)

    def tick(self, late: float) -> None:
        """Judge the last ping and send the next."""
        self.listen()
        # Where this node stood still itself, the other one cannot be blamed: its answer gets until the next tick.
        if not self.answered and late < self.interval:
            self.row += 1
            if not self.dead:
                why = f"no answer in {1000 * self.interval:g} ms, {self.row} in a row"
                say("missed", f"ping {self.pings.number}: {why}")
        for poll in self.polls:
            poll.tick(patient=late >= self.interval)
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
            lines: list[Any] = [self.pings.line, *(follow.line for follow in self.follows if follow.open)]
            ready, _, _ = select.select(lines, [], [], max(0.0, due - time.monotonic()))
            if self.pings.line in ready:
                self.listen()
            for follow in self.follows:
                if follow.line in ready:
                    follow.read()
                    self.judge()

    def end(self) -> None:
        """Leave no command behind."""
        for follow in self.follows:
            follow.end()
        for poll in self.polls:
            poll.end()


def main(argv: Sequence[str]) -> int:
    """Watch until SIGTERM or SIGINT."""
    address, interval, misses, signs = argv[1], float(argv[2]), int(argv[3]), json.loads(argv[4])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    # A busy survivor must not find itself slow and the other one dead.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    watch = None
    try:
        watch = Watch(address, interval, misses, signs)
        say("started", f"pings {address} every {1000 * interval:g} ms; dead after {misses} misses")
        watch.run()
    finally:
        if watch:
            watch.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

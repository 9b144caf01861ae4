"""Notices what becomes of a lab's nodes and volumes while nobody looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from blocklab.errors import NodeLost
from blocklab.sites.uml.node import PANIC, Node
from blocklab.sites.uml.processes import Process, group_use


class Watch:
    """Notices lost, hung and panicked nodes, and volumes whose daemon has ended; one thread for the lab.

    ``daemons``: each with the nodes that have the volume. ``short`` says what the lab lacks, with the hint.
    """

    TICK = 0.25
    # The agent's heart beats every 0.5 s. A beat that is this late is counted at each tick, and the node is given
    # up at the fourth: 1.75 s after its last sign of life. Ticks, not seconds by the clock: a machine that was
    # asleep as a whole must not lose its nodes. Nor does a tick count in which the node wanted its CPU and had
    # less than this share of it: others kept it busy.
    LATE = 0.75
    TICKS = 4
    STARVED = 0.1

    def __init__(
        self,
        nodes: Mapping[str, Node],
        daemons: Sequence[tuple[Process, Sequence[str]]] = (),
        short: Callable[[], str] = lambda: "",
    ) -> None:
        self._nodes = nodes
        self._daemons = daemons
        self._short = short
        self._silent = dict.fromkeys(nodes, 0)
        self._used: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        before = ""
        while not self._stop.wait(self.TICK):
            now = self._short()
            for node in list(self._nodes.values()):
                # A node that has ended gave back the room that it lacked.
                hint = now or before
                if why := self._cut_off(node):
                    node.channel.fail(NodeLost(node.name, why, hint=hint))
                elif why := self._wrong(node):
                    node.channel.fail(NodeLost(node.name, why, node.console(), hint=hint))
            before = now

    def _cut_off(self, node: Node) -> str:
        """Which of its volumes' daemons has ended, so that the I/O there stands still; empty where all run."""
        for process, names in self._daemons:
            if node.name in names and (code := process.poll()) is not None:
                said = process.last_words()
                return f"{process.name} ended with exit code {code}" + (
                    f"; its last lines:\n{said}" if said else ""
                )
        return ""

    def _wrong(self, node: Node) -> str:
        if node.doomed.is_set():
            return ""
        # One that boots has no heart yet; ``wait_ready`` looks after it.
        if node.frozen.is_set() or not node.channel.ready.is_set():
            self._silent[node.name] = 0
            return ""
        code = node.process.poll()
        if code is not None:
            console = node.console()
            return "its kernel panicked" if PANIC in console else f"its kernel ended with exit code {code}"
        age = time.monotonic() - node.channel.last_beat
        if age <= self.LATE:
            self._silent[node.name] = 0
            self._used.pop(node.name, None)
        elif not self._starved(node):
            self._silent[node.name] = self._silent.get(node.name, 0) + 1
        if self._silent[node.name] >= self.TICKS:
            return f"hung: no heartbeat for {age:.1f} s"
        return ""

    def _starved(self, node: Node) -> bool:
        """Whether it wanted a CPU and got next to none since the tick before; not known at the first one."""
        wants, used = group_use(node.process.pid)
        before = self._used.get(node.name)
        self._used[node.name] = used
        return wants and before is not None and abs(used - before) < self.STARVED * self.TICK

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join(2.0)

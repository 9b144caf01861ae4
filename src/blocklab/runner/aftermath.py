"""After the outage: the ledger read back, the old node taken in again, and all sides compared."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from blocklab.errors import BlocklabError, HostError, KnobError, ParseError
from blocklab.model.drill import Ledger, MirrorState
from blocklab.model.host import must
from blocklab.model.plan import Argv, Power
from blocklab.model.spans import Query
from blocklab.model.workload import Drilled
from blocklab.runner.workshop import Standing
from blocklab.study import takeover as recipes
from blocklab.study.drill_phases import RESYNC, Compare, read_back, restart, sides
from blocklab.study.grid import topology
from blocklab.study.phases import Do, Mark, Undo
from blocklab.study.types import Study

READ_SECONDS = 120.0
# All of a volume is read, past its cap where it has one.
COPY_SECONDS = 600.0


class Aftermath:
    """What is left to do on a stack after its drill, as ``study.drill_phases`` has it.

    ``dead``: the nodes that were crashed and not booted since.
    """

    def __init__(self, stand: Standing, study: Study, stack: str, raw: Path) -> None:
        self._stand = stand
        self._engine = stand.engine
        self._study = study
        self._stack = stack
        self._raw = raw
        self._shape = topology(study, [stack])
        self.dead: set[str] = set()
        self.restarted = False
        """Whether all nodes of the stack were booted again, so that none is left to be taken in."""
        self.binlog_unread = ""
        """Why the binary log could not be read, where there is one."""

    def moved(self, survivor: str) -> None:
        """That survivor is the active node from now on."""
        self._study = recipes.failed_over(self._study, self._stack, survivor)

    # -- the ledger ------------------------------------------------------------------------------------------

    def ledger(self, workload: Drilled) -> tuple[Ledger | None, str]:
        """What the database has, and why it could not be read where it could not."""
        try:
            return self._read(workload), ""
        except BlocklabError as error:
            return None, error.message

    def _read(self, workload: Drilled) -> Ledger:
        active = self._study.stacks[self._stack].on
        phase = read_back(self._study, self._stack, workload, self._stand.ground)
        raw = self._printed(phase.host, phase.commands)
        ledger = workload.checker.found(raw)
        self.binlog_unread = ""
        try:
            raw |= self._printed(active, workload.checker.logs(raw), may_fail=True)
            return msgspec.structs.replace(ledger, binlog=workload.checker.logged(raw))
        except (HostError, ParseError) as error:
            # The rows are known all the same.
            self.binlog_unread = error.message
            return ledger

    def _printed(self, host: str, commands: Mapping[str, Argv], *, may_fail: bool = False) -> dict[str, bytes]:
        """What each command prints, kept as a raw file; with ``may_fail`` its errors too."""
        folder, found = self._raw / "found", {}
        folder.mkdir(parents=True, exist_ok=True)
        for name, argv in commands.items():
            if may_fail:
                result = self._engine.hosts[host].run(argv, timeout=READ_SECONDS)
                found[name], found[f"{name}.stderr"] = result.out, result.err
            else:
                found[name] = must(self._engine.hosts[host], argv, timeout=READ_SECONDS).encode()
        for name, text in found.items():
            (folder / name).write_bytes(text)
        return found

    # -- nodes -----------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Build the stack over its data on nodes that boot again: what is done where nothing could take over.

        Raises what building raises.
        """
        self.restarted = True
        for phase in restart(self._study, self._stack, self._shape, self._stand.ground, self.dead):
            self._go(phase)

    def _go(self, phase: Do | Mark | Undo) -> None:
        """Carry it out, and note which nodes are dead."""
        for step in phase.steps if isinstance(phase, Do) else ():
            if isinstance(step, Power) and step.what == "crash":
                self.dead.add(step.host)
        self._engine.go(phase)
        for step in phase.steps if isinstance(phase, Do) else ():
            if isinstance(step, Power) and step.what == "boot":
                self.dead.discard(step.host)

    # -- the sides -------------------------------------------------------------------------------------------

    def mirror(self, out: Sequence[str]) -> MirrorState | None:
        """Take the nodes in again that are ``out`` and compare all sides; None for a stack of one copy. What
        stands above its layer of several nodes is taken down first."""
        started = self._engine.timer.now()
        study, stack, ground = self._study, self._stack, self._stand.ground
        comparison, mirror = recipes.comparison(study, stack, 0, ground), None
        try:
            lone = not out and not self.restarted and self._printed_by(comparison.lone if comparison else None)
            for phase in sides(
                study,
                stack,
                self._shape,
                ground,
                out=out,
                alive=set(out) - self.dead,
                restarted=self.restarted,
                lone=lone,
            ):
                if isinstance(phase, Compare):
                    mirror = self._compared(phase)
                elif isinstance(phase, Do) and phase.of == RESYNC:
                    if mirror := self._resync(phase):
                        break
                else:
                    assert isinstance(phase, Do | Undo)
                    self._go(phase)
        except KnobError:
            # The fault was not the one that was asked for.
            raise
        except (BlocklabError, ValueError) as error:
            if comparison is None:
                raise
            mirror = MirrorState("unknown", why=error.message if isinstance(error, BlocklabError) else str(error))
        return mirror and msgspec.structs.replace(mirror, seconds=self._engine.timer.now() - started)

    def _resync(self, phase: Do) -> MirrorState | None:
        """Take the other sides in: None, or a split brain with what was said of it. Raises what carrying out
        raises."""
        try:
            self._go(phase)
        except BlocklabError as error:
            # Where nobody can tell, the reason is the first one.
            with contextlib.suppress(BlocklabError):
                if self._printed_by(recipes.split_brain(self._study, self._stack, 0, self._stand.ground)):
                    return MirrorState("split brain", why=error.message)
            raise
        return None

    def _compared(self, phase: Compare) -> MirrorState:
        comparison = phase.comparison
        if self._printed_by(phase.split):
            return MirrorState("split brain")
        self._engine.carry_out(comparison.settle, "compare")
        copies = {
            name: must(self._engine.hosts[name], argv, timeout=COPY_SECONDS).strip()
            for name, argv in comparison.copies.items()
        }
        if len(set(copies.values())) == 1:
            return MirrorState("in sync", copies=copies)
        if comparison.differ is None:
            return MirrorState("differs", copies=copies, why="the checksums differ")
        # The layer's own comparison takes several times as long, and says by how much.
        self._engine.carry_out(comparison.verify, "compare")
        host, argv = comparison.differ
        differ = int(must(self._engine.hosts[host], argv))
        return MirrorState(
            "differs", differ, copies, why=f"the checksums differ; by the mirror itself {differ:,} bytes"
        )

    def _printed_by(self, query: Query | None) -> bool:
        """Whether a command prints anything; it fails where it cannot tell."""
        return query is not None and bool(must(self._engine.hosts[query[0]], query[1]).strip())

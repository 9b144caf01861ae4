"""After the outage: the ledger read back, the old node taken in again, and both sides compared."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from blocklab.errors import BlocklabError, HostError, ParseError
from blocklab.model.drill import Ledger, Mirror, Twins
from blocklab.model.ground import Ground
from blocklab.model.host import must
from blocklab.model.plan import Argv, Power, Step
from blocklab.runner.workshop import Standing
from blocklab.study import takeover as recipes
from blocklab.study.drills import scene
from blocklab.study.grid import hosts_of, plan_stack, port_for, topology
from blocklab.study.types import Study
from blocklab.workloads import Ledger as LedgerLoad
from blocklab.workloads import ledger_found

READ_SECONDS = 120.0
# All of a volume is read, past its cap where it has one.
COPY_SECONDS = 600.0


class Aftermath:
    """What is left to do on a stack after its drill. ``dead``: the nodes that were crashed and not booted since.

    ``above``: the mark of the engine's undos above which only what stands on the mirror is.
    """

    def __init__(self, stand: Standing, study: Study, stack: str, raw: Path) -> None:
        self._stand = stand
        self._engine = stand.engine
        self._study = study
        self._stack = stack
        self._raw = raw
        # As the nodes were started: whoever is active later, their wires are the same.
        self._shape = topology(study, [stack])
        self.dead: set[str] = set()
        self.above = stand.above(stack)
        self._resync: tuple[Step, ...] = ()
        self.restarted = False
        """Whether all nodes of the stack were booted anew, so that none is left to be taken in."""
        self.binlog_unread = ""
        """Why the binary log could not be read, where there is one."""

    def moved(self) -> None:
        """The survivor is the active node from now on."""
        self._study = recipes.moved(self._study, self._stack)

    # -- the ledger ------------------------------------------------------------------------------------------

    def ledger(self, workload: LedgerLoad) -> tuple[Ledger | None, str]:
        """What the database has, and why it could not be read where it could not."""
        try:
            return self._read(workload), ""
        except (BlocklabError, TimeoutError) as error:
            return None, error.message if isinstance(error, BlocklabError) else "did not answer in time"

    def _read(self, workload: LedgerLoad) -> Ledger:
        ground, active = self._stand.ground, self._study.stacks[self._stack].on
        port = port_for(workload, plan_stack(self._study, self._stack, 0, ground).ports, ground)
        raw = self._printed(port.host, ledger_found.reads(port))
        ledger = ledger_found.found(raw)
        self.binlog_unread = ""
        try:
            raw |= self._printed(active, ledger_found.logs(raw), may_fail=True)
            return msgspec.structs.replace(ledger, binlog=ledger_found.binlog(raw))
        except (HostError, ParseError, TimeoutError) as error:
            # The rows are known all the same.
            said = error.message if isinstance(error, BlocklabError) else "it could not be read in time"
            self.binlog_unread = said
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
        """Build the stack over its data on nodes that boot anew: what is done where nothing could take over.

        Raises what building raises.
        """
        self.restarted = True
        for host in hosts_of(self._study.stacks[self._stack]):
            if host not in self.dead:
                self._crash(host)
        for host in sorted(self.dead):
            self._boot(host)
        for stage in recipes.restart(self._study, self._stack, 0, self._stand.ground):
            if stage.name == "resync":
                # Later: what stands above the mirror is undone before, and this must not be undone with it.
                self._resync = stage.steps
                continue
            self._engine.carry_out(stage.steps, "restart")
            if stage.name == "promotion":
                self.above = self._engine.mark()
            elif stage.name == "mount":
                self._engine.carry_out(self._in_data(), "restart")

    def _in_data(self) -> list[Step]:
        """What mends faults that lie in the data, which no restart ends: it has to be done before the database
        starts."""
        here = scene(self._study, self._stack, 0, self._stand.ground)
        return [step for each in self._study.faults.values() for step in each.mend_data(here, here.active)]

    def _crash(self, host: str) -> None:
        self._engine.carry_out([Power(host, "crash")], "restart")
        self.dead.add(host)

    def _boot(self, host: str) -> None:
        self._engine.carry_out([Power(host, "boot")], "rejoin")
        self._engine.carry_out(recipes.ground_steps(self._shape, self._stand.ground, host), "rejoin")
        self.dead.discard(host)

    # -- the mirror ------------------------------------------------------------------------------------------

    def mirror(self, old: str) -> Mirror | None:
        """Take ``old`` in again and compare both sides; None for a stack with one side only. What stands above the
        mirror is taken down first."""
        started, ground = time.monotonic(), self._stand.ground
        args = (self._study, self._stack, 0, ground)
        twins = recipes.twins(*args)
        self._engine.undo(self.above)
        try:
            if old:
                if old not in self.dead:
                    # It was neither fenced nor lost: what it still holds must let go of its volume.
                    self._crash(old)
                self._boot(old)
                self._resync = (*recipes.revive(*args, old), *recipes.rejoin(*args))
            elif not self._resync and self._lone(twins):
                self._resync = recipes.rejoin(*args)
            if why := self._rejoin(args):
                return Mirror("split brain", seconds=time.monotonic() - started, why=why)
            if twins is None:
                return None
            if self._resync and self._parted(args):
                return Mirror("split brain", seconds=time.monotonic() - started)
            self._engine.carry_out(twins.verify, "compare")
            host, argv = twins.differ
            differ = int(must(self._engine.hosts[host], argv))
            copies = {
                name: must(self._engine.hosts[name], argv, timeout=COPY_SECONDS).strip()
                for name, argv in twins.copies.items()
            }
        except (BlocklabError, ValueError, TimeoutError) as error:
            why = error.message if isinstance(error, BlocklabError) else str(error) or "did not answer in time"
            if twins is None:
                raise
            return Mirror("unknown", seconds=time.monotonic() - started, why=why)
        same = differ == 0 and len(set(copies.values())) == 1
        why = "" if same else _apart(differ, copies.values())
        return Mirror("in sync" if same else "differs", differ, copies, time.monotonic() - started, why)

    def _rejoin(self, args: tuple[Study, str, int, Ground]) -> str:
        """Take the other side in: empty, or what was said where both sides had been written to apart. Raises what
        carrying out raises."""
        try:
            self._engine.carry_out(self._resync, "rejoin")
        except BlocklabError as error:
            # Where nobody can tell, the reason is the first one.
            with contextlib.suppress(BlocklabError, TimeoutError):
                if self._parted(args):
                    return error.message
            raise
        return ""

    def _lone(self, twins: Twins | None) -> bool:
        if twins is None or twins.lone is None:
            return False
        host, argv = twins.lone
        return bool(must(self._engine.hosts[host], argv).strip())

    def _parted(self, args: tuple[Study, str, int, Ground]) -> bool:
        question = recipes.parted(*args)
        if question is None:
            return False
        host, argv = question
        return bool(must(self._engine.hosts[host], argv).strip())


def _apart(differ: int, sums: Iterable[str]) -> str:
    found = [f"{differ:,} bytes differ"] if differ else []
    if len(set(sums)) > 1:
        found.append("the checksums differ")
    return " and ".join(found)

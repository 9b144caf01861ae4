"""Where layouts are built one after the other: nodes that stay booted, and copies of volumes with data on them.

A layout whose load needs much data (``Workload.data``) is built from scratch once; the data are loaded, the stack
is taken down and the volumes are copied. From then on each cell gets its volumes from the copy and the stack is
built over them (``plan.again``), which takes seconds. A copy serves every layout that would have made the same:
its name is a hash of the commands that decide what is on the volumes, so mirrors that differ in RTT share one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from blocklab.errors import BlocklabError, NodeLost, SetupError
from blocklab.model.ground import Ground
from blocklab.model.host import Lab, Site
from blocklab.model.plan import Fact, Port, Step, again, before_data
from blocklab.runner.cross import Shape
from blocklab.runner.engine import Engine
from blocklab.stats.crosscheck import storeys
from blocklab.store.run import Record
from blocklab.study.copies import copied
from blocklab.study.grid import Layout, hardware, plan_layers, plan_stack, topology, wires
from blocklab.study.links import plan_links, plan_wires
from blocklab.study.types import Study
from blocklab.workloads import AnyWorkload

Say = Callable[[str], None]


class Standing:
    """Stacks on a lab: the engine that builds them, and each stack's facts and ports once they stand.

    ``fresh``: the nodes have just booted, so that their interfaces have to be brought up as well.
    """

    def __init__(self, lab: Lab, study: Study, stacks: Sequence[str], ground: Ground, *, fresh: bool) -> None:
        self.lab = lab
        self.ground = ground
        self.engine = Engine(lab.hosts, lab.boot)
        self.facts: dict[str, tuple[Fact, ...]] = {}
        self.ports: dict[str, tuple[Port, ...]] = {}
        self._study = study
        self._above: dict[str, int] = {}
        shape = topology(study, stacks)
        wires = plan_wires(shape, ground)
        self._wires = wires.steps if fresh else ()
        self._links = plan_links(shape, ground)
        self._always = wires.facts + self._links.facts
        self.plans = {name: plan_stack(study, name, number, ground) for number, name in enumerate(stacks)}
        self.shapes = {name: _shape(study, name, number, ground) for number, name in enumerate(stacks)}

    @property
    def wires(self) -> int:
        """How many of the first commands bring up the nodes' interfaces."""
        return len(self._wires)

    def build(self, *, over_data: bool = False, for_data: bool = False) -> None:
        """Links, then the stacks; ``over_data``: on volumes that have been built on before; ``for_data``: to load
        data that are going to be copied.

        Raises what ``Engine.carry_out`` raises; what was built then still has to be undone.
        """
        self.engine.carry_out([*self._wires, *self._links.steps], "build")
        for number, (name, plan) in enumerate(self.plans.items()):
            layers = self._study.stacks[name].layers
            for layer, storey in zip(layers, plan_layers(self._study, name, number, self.ground), strict=True):
                steps = tuple(step for each in storey.values() for step in each.steps)
                steps = before_data(steps) if for_data else steps
                self.engine.carry_out(again(steps) if over_data else steps, "build")
                if layer.gives == "block":
                    self._above[name] = self.engine.mark()
            self.facts[name] = self._always + plan.facts
            self.ports[name] = plan.ports

    def above(self, name: str) -> int:
        """The mark of the engine's undos above which is only what stands on a stack's highest block device."""
        return self._above[name]


def _shape(study: Study, name: str, number: int, ground: Ground) -> Shape:
    """Where the stack's block devices are on each host."""
    given: dict[str, list[tuple[Port, ...]]] = {}
    for storey in plan_layers(study, name, number, ground):
        for host, plan in storey.items():
            given.setdefault(host, []).append(plan.ports)
    found = {host: storeys(ports) for host, ports in given.items()}
    folders = tuple(port for storey in given.values() for ports in storey for port in ports if port.kind == "dir")
    return Shape(study.stacks[name].on, found, wires(study, name, ground), folders)


class Workshop:
    """Booted nodes, kept for as long as layouts need the same ones."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lab: Lab | None = None
        self._hardware = ""
        self.wired = False
        """Whether the nodes' interfaces were brought up since they booted, and so something was built on them."""
        self.made: dict[str, list[Record]] = {}
        """The commands that made what a copy holds, by the copy's name."""
        self.wires: list[Record] = []
        """The commands that brought up the nodes' interfaces."""
        self.unmade: dict[str, list[BlocklabError]] = {}
        """What went wrong each time that a copy's data were to be loaded and copied, by the copy's name."""

    def of_data(self, error: BlocklabError) -> bool:
        """Whether that went wrong with one load's data, the stack itself having been built."""
        return any(error in each for each in self.unmade.values())

    @contextlib.contextmanager
    def layout(self, layout: Layout, say: Say) -> Iterator[Turn]:
        """Nodes for a layout, which is built when a load asks for it and taken down at the end of the block."""
        shape = topology(layout.study, [layout.stack])
        ground = self._site.ground(shape)
        if self._lab is None or self._hardware != hardware(shape):
            self.close()
            say("starting nodes")
            self._lab = self._site.start(shape)
            self._hardware = hardware(shape)
            self.wired = False
        assert self._lab is not None
        turn = Turn(self, self._lab, layout, ground, say)
        try:
            yield turn
        finally:
            turn.clear()

    def shortage(self) -> str:
        """What the nodes lack that are kept, with the cure; empty where nothing is known to be lacking."""
        return self._lab.shortage() if self._lab is not None else ""

    def close(self) -> None:
        """End the nodes; copies of volumes go with them."""
        lab, self._lab = self._lab, None
        self.made.clear()
        if lab is not None:
            lab.close()


class Turn:
    """One layout on the workshop's nodes."""

    def __init__(self, workshop: Workshop, lab: Lab, layout: Layout, ground: Ground, say: Say) -> None:
        self._workshop = workshop
        self._lab = lab
        self._layout = layout
        self._ground = ground
        self._say = say
        self.reused = workshop.wired
        """Whether other layouts stood on these nodes before."""
        self._stand: Standing | None = None
        # Whether what stands has no load's data on it: such a load undoes what it made, so the next may follow.
        self._plain = False
        self.warnings: list[str] = []

    def ready(self, workload: AnyWorkload) -> Standing:
        """The stack as that load wants to find it: over its data if it has some, its volumes' bursts not yet used.

        Raises what building raises, and ``SetupError`` when data cannot be copied.
        """
        stand = self._stood(workload)
        # By the cell before, by loading the data, by building: a cell must not depend on what came before it.
        self._lab.refill()
        return stand

    def _stood(self, workload: AnyWorkload) -> Standing:
        """What ``ready`` gives."""
        wanted, steps = self._data(workload)
        if self._stand is not None and self._plain and not wanted:
            return self._stand
        started = time.monotonic()
        self.make_way()
        if not wanted:
            stand = self._build("building")
            self._plain = True
        else:
            if not self._lab.saved(wanted):
                self._make(wanted, steps)
            self._say("restoring the data")
            self._lab.restore(wanted)
            stand = self._build("", over_data=True)
            stand.engine.records[:0] = self._workshop.made[wanted]
        self._say(f"stands after {time.monotonic() - started:.1f} s")
        return stand

    def given_up(self, workload: AnyWorkload) -> BlocklabError | None:
        """Why that load's data cannot be had; None where it is worth a try. Loading may take minutes, so it is not
        tried again, in no layout; but a node may be lost by chance, once."""
        errors = self._workshop.unmade.get(self._data(workload)[0], [])
        return errors[-1] if len(errors) > 1 or any(not isinstance(each, NodeLost) for each in errors) else None

    def clear(self) -> None:
        """Take down what stands. What could not be undone stays in ``warnings``."""
        if self._stand is not None:
            self._stand.engine.undo()
            self.drop()

    def drop(self) -> None:
        """Forget what stands, for nodes that are of no more use. What went wrong so far stays in ``warnings``."""
        if self._stand is not None:
            self.warnings += self._stand.engine.warnings
            self._stand = None
            self._plain = False

    def make_way(self) -> None:
        """Take down what stands, wholly, so that the next load finds it built anew: volumes that something still
        uses can be neither copied nor restored.

        Raises ``SetupError``.
        """
        # What it warned of while it stood is no trouble of its end.
        before = len(self.warnings) + (len(self._stand.engine.warnings) if self._stand is not None else 0)
        self.clear()
        if len(self.warnings) > before:
            raise SetupError(f"the volumes cannot be copied or restored, being still in use: {self.warnings[-1]}")

    def _build(self, said: str, *, over_data: bool = False, for_data: bool = False) -> Standing:
        if said:
            self._say(said)
        fresh = not self._workshop.wired
        if not over_data and not fresh:
            self._lab.restore("")
        stand = Standing(self._lab, self._layout.study, [self._layout.stack], self._ground, fresh=fresh)
        self._stand = stand
        stand.build(over_data=over_data, for_data=for_data)
        # Every cell's record says how its nodes came to be, also when another layout's build did it.
        if fresh:
            self._workshop.wires = stand.engine.records[: stand.wires]
        else:
            stand.engine.records[:0] = self._workshop.wires
        self._workshop.wired = True
        return stand

    def _data(self, workload: AnyWorkload) -> tuple[str, tuple[Step, ...]]:
        """The name of the copy that a load works on, and the steps that load it; empty for a load without."""
        return copied(self._layout.study, self._layout.stack, self._ground, workload)

    def _make(self, name: str, steps: Sequence[Step]) -> None:
        """Build from scratch, load, take down, copy."""
        stand = self._build("building", for_data=True)
        self._say("loading the data")
        started = time.monotonic()
        try:
            stand.engine.carry_out(steps, "data")
            self._say(f"loaded in {time.monotonic() - started:.1f} s")
            records = list(stand.engine.records)
            self.make_way()
            self._lab.save(name)
        except BlocklabError as error:
            self._workshop.unmade.setdefault(name, []).append(error)
            raise
        self._workshop.made[name] = records

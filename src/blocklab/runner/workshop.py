"""Where layouts are built one after the other: nodes that stay booted, and copies of volumes with data on them.

A layout whose workload needs much data (``WithData``) is built from scratch once; the data are loaded, the stack
is taken down and the volumes are copied. From then on each cell gets its volumes from the copy and the stack is
built over them (``plan.again``), which takes seconds. A copy serves every layout that would have made the same:
its name is a hash of the commands that decide what is on the volumes, so mirrors that differ in RTT share one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from blocklab.errors import BlocklabError, NodeLost, SetupError
from blocklab.model.ground import Ground, Topology
from blocklab.model.plan import Fact, Port
from blocklab.model.site import (
    EmulatedLinks,
    EmulatedVolumes,
    GivenGround,
    Lab,
    OwnTime,
    Refill,
    Site,
    Snapshots,
    offered,
)
from blocklab.model.stack_map import Level, StackMap, Tuned, device_of
from blocklab.model.workload import Workload
from blocklab.runner.engine import Engine
from blocklab.runner.tune import corrected, given, tuned_link, tuned_volume
from blocklab.store.run import Record
from blocklab.study.copies import copied
from blocklab.study.grid import Layout, hardware, plan_stack, planned, topology, wires
from blocklab.study.links import shaped
from blocklab.study.phases import (
    Begin,
    Build,
    Do,
    Fill,
    Nodes,
    Phase,
    Renew,
    TuneLink,
    TuneVolume,
    Undo,
    Volumes,
    build,
    facts_of,
    ready,
)
from blocklab.study.types import Study

Say = Callable[[str], None]


class Standing:
    """Stacks on a lab: the engine that builds them, and each stack's facts and ports once they stand.

    ``fresh``: the nodes have just booted, so that their interfaces have to be brought up as well.
    """

    def __init__(self, lab: Lab, study: Study, stacks: Sequence[str], ground: Ground, *, fresh: bool) -> None:
        self.lab = lab
        # What was tuned for another layout does not hold for this one.
        self.ground = msgspec.structs.replace(ground, delays={})
        # What may have to be tuned again while the stacks stand.
        self._tuned: list[TuneLink | TuneVolume] = []
        self.engine = Engine(lab)
        self.facts: dict[str, tuple[Fact, ...]] = {}
        self.ports: dict[str, tuple[Port, ...]] = {}
        self._study = study
        self._stacks = tuple(stacks)
        self._fresh = fresh
        self.shapes = {name: stack_map(study, name, number, ground) for number, name in enumerate(stacks)}

    def build(self, *, over_data: bool = False, for_data: bool = False) -> None:
        """Links, then the stacks, as ``phases.build`` has it.

        Raises what ``Engine.carry_out`` raises; what was built then still has to be undone.
        """
        self.carry_out(
            build(
                self._study,
                self._stacks,
                self.ground,
                wired=not self._fresh,
                over_data=over_data,
                for_data=for_data,
            )
        )

    def carry_out(self, plan: Build) -> None:
        """The same, given its phases."""
        found: dict[str, Tuned] = {}
        for phase in plan.phases:
            if isinstance(phase, TuneVolume | TuneLink):
                found |= self._tune(phase)
            else:
                self.engine.go(phase)
        self._in_force(found)
        for number, name in enumerate(self._stacks):
            self.ports[name] = plan_stack(self._study, name, number, self.ground).ports

    def _tune(self, phase: TuneVolume | TuneLink) -> dict[str, Tuned]:
        if isinstance(phase, TuneLink):
            if shaped(phase.name, self.ground) and self.lab.offers & {EmulatedLinks, GivenGround}:
                self._tuned.append(phase)
                return tuned_link(self.engine, self.ground, phase)
        elif EmulatedVolumes in self.lab.offers:
            self._tuned.append(phase)
            return tuned_volume(self.engine, offered(self.lab, EmulatedVolumes), phase)
        return given(self.engine, phase) if GivenGround in self.lab.offers else {}

    def _in_force(self, tuned: Mapping[str, Tuned]) -> None:
        links = {phase.name: phase.pings.timed for phase in self._tuned if isinstance(phase, TuneLink)}
        delays = {name: tuned[timed].added for name, timed in links.items() if timed in tuned}
        self.ground = msgspec.structs.replace(self.ground, delays=delays)
        self.shapes = {name: msgspec.structs.replace(shape, tuned=tuned) for name, shape in self.shapes.items()}
        self.facts = facts_of(self._study, self._stacks, self.ground)

    def correct(self, stack: str) -> tuple[Fact, ...] | None:
        """Tune again what the latest probe found off: one busy moment does not stay for all cells of a layout.
        The stack's facts then; None where nothing changed."""
        tuned = next(iter(self.shapes.values())).tuned
        lab = offered(self.lab, EmulatedVolumes) if EmulatedVolumes in self.lab.offers else None
        changed = corrected(self.engine, self.ground, lab, self._tuned, tuned)
        if changed:
            self._in_force({**tuned, **changed})
        return self.facts[stack] if changed else None


def stack_map(study: Study, name: str, number: int, ground: Ground) -> StackMap:
    """Where the stack's devices are on each host."""
    levels = [
        Level(at, here.layer.tag, host, tuple(device_of(port) for port in ports if port.kind == "block"), ports)
        for at, level in enumerate(planned(study, name, number, ground))
        for host, here in level.items()
        for ports in (here.plan.ports,)
    ]
    return StackMap(study.stacks[name].on, tuple(levels), wires(study, name, ground), mapped=ground.mapped)


class Workshop:
    """Booted nodes, kept for as long as layouts need the same ones."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._lab: Lab | None = None
        self._hardware = ""
        self.nodes = self._none()
        """What is on them."""
        self.made: dict[str, list[Record]] = {}
        """The commands that made what a copy holds, by the copy's name."""
        self.wires: list[Record] = []
        """The commands that brought up the nodes' interfaces."""
        self.unmade: dict[str, list[BlocklabError]] = {}
        """What went wrong each time that a copy's data were to be loaded and copied, by the copy's name."""

    def _none(self) -> Nodes:
        offers = self.site.offers
        return Nodes(snapshots=Snapshots in offers, own_time=OwnTime in offers)

    def of_data(self, error: BlocklabError) -> bool:
        """Whether that went wrong with one workload's data, the stack itself having been built."""
        return any(error in each for each in self.unmade.values())

    @contextlib.contextmanager
    def layout(self, layout: Layout, say: Say) -> Iterator[Turn]:
        """Nodes for a layout, which is built when a workload asks for it and taken down at the end of the
        repeat."""
        shape = topology(layout.study, [layout.stack])
        ground = self.site.ground(shape)
        turn = Turn(self, self.lab(shape, say, ground), layout, ground, say)
        try:
            yield turn
        finally:
            turn.clear()

    def lab(self, shape: Topology, say: Say, ground: Ground, *, fresh: bool = False) -> Lab:
        """Nodes for a topology: those that are there if they are alike, unless ``fresh``."""
        alike = hardware(shape, ground)
        if self._lab is None or self._hardware != alike or fresh:
            self.close()
            say("starting nodes")
            self._lab = self.site.start(shape)
            self._hardware = alike
        return self._lab

    def shortage(self) -> str:
        """What the nodes lack that are kept, with the hint; empty where nothing is known to be lacking."""
        return self._lab.shortage() if self._lab is not None else ""

    def close(self) -> None:
        """End the nodes; copies of volumes go with them."""
        lab, self._lab = self._lab, None
        self.nodes = self._none()
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
        self.reused = workshop.nodes.wired
        """Whether other layouts stood on these nodes before."""
        self._stand: Standing | None = None
        # The copy that was restored, until the stack is built over it.
        self._over = ""
        self.warnings: list[str] = []

    def ready(self, workload: Workload, seed: str = "") -> Standing:
        """The stack as that workload wants to find it: over its data if it has some, its volumes' bursts not yet
        used. ``seed``: what all that happens follows from, on nodes with a time of their own.

        Raises what building raises, and ``SetupError`` when data cannot be copied.
        """
        here, shop = self._layout, self._workshop
        started = time.monotonic()
        phases, after = ready(here.study, here.stack, workload, self._ground, shop.nodes, seed)
        if phases and isinstance(phases[0], Begin):
            self.drop()
        elif phases:
            self.make_way()
        for phase in phases:
            self._go(phase)
        assert self._stand is not None
        if phases:
            shop.nodes = replace(shop.nodes, plain=after.plain)
            self._say(f"ready in {time.monotonic() - started:.1f} s")
        # By the cell before, by loading the data, by building: a cell must not depend on what came before it.
        if Refill in self._lab.offers:
            offered(self._lab, Refill).refill()
        return self._stand

    def _go(self, phase: Phase) -> None:
        if isinstance(phase, Volumes):
            self._volumes(phase)
        elif isinstance(phase, Build):
            self._build(phase)
        elif isinstance(phase, Fill):
            self._fill(phase)
        elif isinstance(phase, Undo):
            self.make_way()
        elif isinstance(phase, Renew):
            shape = topology(self._layout.study, [self._layout.stack])
            self._lab = self._workshop.lab(shape, self._say, self._ground, fresh=True)
        elif isinstance(phase, Begin):
            self._say("booting the nodes")
            offered(self._lab, OwnTime).begin(phase.seed)
            self._workshop.nodes = replace(self._workshop.nodes, wired=False)
        elif isinstance(phase, Do):
            assert self._stand is not None
            self._stand.engine.go(phase)
        else:
            raise TypeError(f"no phase of making a stack ready: {phase}")

    def _volumes(self, phase: Volumes) -> None:
        if phase.what == "save":
            offered(self._lab, Snapshots).save(phase.name)
            shop = self._workshop
            shop.nodes = replace(shop.nodes, saved=shop.nodes.saved | {phase.name})
            return
        if phase.what == "restore":
            self._say("restoring the data")
            self._over = phase.name
        offered(self._lab, Snapshots).restore(phase.name)

    def _build(self, phase: Build) -> None:
        self._say("building")
        shop, here = self._workshop, self._layout
        fresh = not shop.nodes.wired
        self._stand = stand = Standing(self._lab, here.study, [here.stack], self._ground, fresh=fresh)
        stand.carry_out(phase)
        # Every cell's record says how its nodes came to be, also when another layout's build did it.
        if fresh:
            first = phase.phases[0]
            assert isinstance(first, Do)
            shop.wires = stand.engine.records[: len(first.steps)]
        else:
            stand.engine.records[:0] = shop.wires
        if self._over:
            stand.engine.records[:0] = shop.made[self._over]
            self._over = ""
        shop.nodes = replace(shop.nodes, wired=True)

    def _fill(self, phase: Fill) -> None:
        """Build from scratch, load, take down, copy."""
        self._build(phase.build)
        assert self._stand is not None
        self._say("loading the data")
        started, engine = time.monotonic(), self._stand.engine
        try:
            engine.go(phase.data)
            self._say(f"loaded in {time.monotonic() - started:.1f} s")
            records = list(engine.records)
            for each in phase.rest:
                self._go(each)
        except BlocklabError as error:
            self._workshop.unmade.setdefault(phase.name, []).append(error)
            raise
        self._workshop.made[phase.name] = records

    def given_up(self, workload: Workload) -> BlocklabError | None:
        """Why that workload's data cannot be had; None where it is worth a try. Loading may take minutes, so it is
        not tried again, in no layout; but a node may be lost by chance, once."""
        name, _ = copied(self._layout.study, self._layout.stack, self._ground, workload)
        errors = self._workshop.unmade.get(name, [])
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
            self._workshop.nodes = replace(self._workshop.nodes, plain=False)

    def make_way(self) -> None:
        """Take down what stands, wholly, so that the next workload finds it built again: volumes that something
        still uses can be neither copied nor restored.

        Raises ``SetupError``.
        """
        # What it warned of while it stood is no trouble of its end.
        before = len(self.warnings) + (len(self._stand.engine.warnings) if self._stand is not None else 0)
        self.clear()
        if len(self.warnings) > before:
            raise SetupError(f"the volumes cannot be copied or restored, being still in use: {self.warnings[-1]}")

"""A cell's life as data: its phases in order, from building the stack to the undo. All pure.

``blocklab.runner`` carries them out and ``blocklab plan`` prints them; nothing else says what happens when.
What happens in a drill beside these is in ``study.drill_phases``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

from blocklab.layers.performance import quantiles
from blocklab.model.ground import Ground, LinkSpec, Topology, VolumeSpec
from blocklab.model.latency import WAYS, requests
from blocklab.model.layer import Database
from blocklab.model.plan import Argv, Fact, Port, Run, Step, again, before_data
from blocklab.model.quantiles import at
from blocklab.model.stop import Rule
from blocklab.model.workload import Armed, Asking, Command, Lasting, Live, Ruled, Workload
from blocklab.probes import sampler
from blocklab.study.copies import copied
from blocklab.study.grid import plan_layers, plan_stack, topology
from blocklab.study.links import plan_access, plan_links, plan_wires
from blocklab.study.takeover import kind_of
from blocklab.study.types import Study

PROBE_SECONDS = 1
# A page cache of 300 MB takes 150 s to go to a volume of 500 I/Os of 4 KiB a second.
SYNC_SECONDS = 600.0
# Marks in the pile of undos: below a cell, and below what stands on a stack's layer of several nodes, or on what
# is of its kind above that; on one node, on its highest block device.
CELL = "cell"
ABOVE = "above"


@dataclass(frozen=True)
class Do:
    """Steps in order. ``part`` is what their records are called; ``of`` is what they belong to (a layer, a fault,
    a stage of a takeover); ``when`` says when, where it is not simply after the phase before.

    ``kept``: the result stays for the next cell that asks for the same steps; their undo runs before others.
    """

    part: str
    steps: tuple[Step, ...]
    of: str = ""
    when: str = ""
    kept: bool = False


@dataclass(frozen=True)
class Mark:
    """A place in the pile of undos, for ``Undo``."""

    name: str


@dataclass(frozen=True)
class Undo:
    """Undo all steps since a mark in reverse order; all of them, without one."""

    to: str = ""


@dataclass(frozen=True)
class Ask:
    """Read knobs back. ``after``: after the workload, and compare what must have stayed the same meanwhile."""

    facts: tuple[Fact, ...]
    after: bool = False


@dataclass(frozen=True)
class Watch:
    """Start the probes on every host."""

    hosts: tuple[str, ...]

    @property
    def commands(self) -> tuple[tuple[str, Argv], ...]:
        """Each host with the command that prints what all probes read."""
        return tuple((host, sampler(PROBE_SECONDS)) for host in self.hosts)


@dataclass(frozen=True)
class Unwatch:
    """End the probes."""


@dataclass(frozen=True)
class Start:
    """One start of a workload's command: the steps that it needs each time, and the command."""

    arm: Do
    command: Command


@dataclass(frozen=True)
class Measure:
    """Run the workload, once or as its rule says."""

    workload: Workload
    port: Port

    @property
    def starts(self) -> Mapping[str, Start]:
        """The first start of each of the workload's phases, by the phase's name."""
        workload = self.workload
        rule = rule_of(workload)
        if rule is None or not isinstance(workload, Ruled):
            return {"": start(workload, self.port, None)}
        return {phase: start(trial, self.port, rule) for phase, trial in workload.trials(rule.seconds).items()}


@dataclass(frozen=True)
class Volumes:
    """What is done with all raw volumes at once: ``empty``, or ``save`` and ``restore`` a copy by its name."""

    what: Literal["empty", "save", "restore"]
    name: str = ""


@dataclass(frozen=True)
class Renew:
    """End the nodes and start new ones, whose volumes are empty: where there are no copies of volumes."""


@dataclass(frozen=True)
class Begin:
    """Boot the nodes anew, with empty volumes: in a time of their own, where all that happens follows from
    ``seed`` and from what is done."""

    seed: str


@dataclass(frozen=True)
class TuneLink:
    """Set netem's delay of a link so that its round trip is what the study asks for, whatever the link takes by
    itself on this machine: see ``runner.tune``."""

    name: str
    link: LinkSpec
    pings: Fact


@dataclass(frozen=True)
class TuneVolume:
    """The same of a raw volume's latencies, while nothing stands on it: a constant, or the median of a table of
    quantiles. ``asked`` and ``facts`` by direction."""

    spec: VolumeSpec
    asked: Mapping[str, float]
    facts: Mapping[str, Fact]


Tune: TypeAlias = TuneLink | TuneVolume


@dataclass(frozen=True)
class Build:
    """Links, then the levels of the stacks, by an engine of its own; then the links' round trips are tuned."""

    phases: tuple[Do | Mark | Tune, ...]


@dataclass(frozen=True)
class Fill:
    """Make the copy of the volumes that has a workload's data on it."""

    name: str
    build: Build
    data: Do
    rest: tuple[Undo, Volumes]


Phase: TypeAlias = (
    Do | Mark | Undo | Tune | Ask | Watch | Unwatch | Measure | Volumes | Renew | Begin | Build | Fill
)


@dataclass(frozen=True)
class Nodes:
    """What is on booted nodes: whether their interfaces are up, whether the stack stands without any workload's
    data, and the copies of the volumes that there are; ``snapshots``: whether there can be any. ``own_time``:
    theirs is not the machine's, and each cell begins it anew."""

    wired: bool = False
    plain: bool = False
    saved: frozenset[str] = frozenset()
    snapshots: bool = True
    own_time: bool = False


def build(
    study: Study,
    stacks: Sequence[str],
    ground: Ground,
    *,
    wired: bool = False,
    over_data: bool = False,
    for_data: bool = False,
) -> Build:
    """Build stacks. ``wired``: the nodes' interfaces are up; ``over_data``: on volumes that were built on before;
    ``for_data``: to load data that will be copied."""
    shape = topology(study, stacks)
    phases: list[Do | Mark | Tune] = [] if wired else [Do("build", plan_wires(shape, ground).steps, "wires")]
    phases.append(Do("build", plan_links(shape, ground).steps, "links"))
    databases = any(isinstance(layer, Database) for name in stacks for layer in study.stacks[name].layers)
    if databases and (steps := plan_access(shape, ground).steps):
        phases.append(Do("build", steps, "access"))
    for number, name in enumerate(stacks):
        levels, kind = plan_layers(study, name, number, ground), kind_of(study.stacks[name])
        for layer, level in zip(study.stacks[name].layers, levels, strict=True):
            steps = tuple(step for each in level.values() for step in each.steps)
            steps = before_data(steps) if for_data else steps
            phases.append(Do("build", again(steps) if over_data else steps, f"{name} {layer.tag}"))
            if layer is study.stacks[name].layers[0] and not for_data:
                phases += tunable(shape, name, ground)
            if layer.gives == kind:
                phases.append(Mark(f"{ABOVE} {name}"))
    # Last, for what a round trip takes depends on what else runs. Loading data needs no true one.
    if not for_data:
        pings = {fact.timed: fact for fact in plan_links(shape, ground).facts if fact.timed}
        phases += [TuneLink(name, link, pings[f"link {name}"]) for name, link in shape.links.items() if link.rtt]
    return Build(tuple(phases))


def tunable(shape: Topology, stack: str, ground: Ground) -> Iterator[TuneVolume]:
    """The volumes of a stack that have a latency; one that is shared as its first node sees it."""
    for spec in shape.volumes:
        tables = {way: quantiles(named) for way in WAYS if (named := getattr(spec.profile, f"{way}_quantiles"))}
        asked = {way: float(getattr(spec.profile, f"{way}_latency") or 0) for way in WAYS}
        asked |= {way: at(table, 0.5) for way, table in tables.items()}
        asked = {way: latency for way, latency in asked.items() if latency}
        if spec.stack == stack and asked:
            host = spec.nodes[0]
            device = ground.devices[stack][host][spec.index]
            facts = {way: requests(host, device, way, latency) for way, latency in asked.items()}
            for way in tables:
                # By another name: what is measured around a workload are draws, whose median says little.
                facts[way] = replace(facts[way], timed=f"the median of {facts[way].timed}")
            yield TuneVolume(spec, asked, facts)


def facts_of(study: Study, stacks: Sequence[str], ground: Ground) -> dict[str, tuple[Fact, ...]]:
    """Each stack's questions to the system once it stands, with those of nodes and links."""
    shape = topology(study, stacks)
    always = plan_wires(shape, ground).facts + plan_links(shape, ground).facts
    return {name: always + plan_stack(study, name, at, ground).facts for at, name in enumerate(stacks)}


def ready(
    study: Study, stack: str, workload: Workload, ground: Ground, nodes: Nodes, seed: str = ""
) -> tuple[tuple[Phase, ...], Nodes]:
    """What makes the stack stand as the workload wants to find it, and what is on the nodes then.

    Nothing where it stands already. A workload with data of its own gets the volumes from a copy that holds them,
    and a copy that is not there is made first; without copies the data are loaded each time. On nodes with a time
    of their own that begins anew, once for the data and once for the cell, whose ``seed`` is given: so what a cell
    finds does not depend on what was measured before.
    """
    name, data = copied(study, stack, ground, workload)
    if nodes.own_time:
        there = partial(build, study, [stack], ground)
        steps = Do("data", data)
        fill = Fill(name, there(for_data=True), steps, (Undo(), Volumes("save", name)))
        loading = (Begin(name), fill) if name and name not in nodes.saved else ()
        standing = (Volumes("restore", name), there(over_data=True)) if name else (there(),)
        return (*loading, Begin(seed), *standing), replace(nodes, wired=True, saved=nodes.saved | {name})
    if nodes.plain and not name:
        return (), nodes
    phases: list[Phase] = []
    wired, saved = nodes.wired, nodes.saved
    if wired and (not name or not nodes.snapshots or name not in saved):
        # It is built from scratch, on empty volumes.
        phases.append(Volumes("empty") if nodes.snapshots else Renew())
        wired = wired and nodes.snapshots
    there = partial(build, study, [stack], ground)
    if not name:
        phases.append(there(wired=wired))
    elif not nodes.snapshots:
        phases += [there(wired=wired), Do("data", data)]
    else:
        if name not in saved:
            steps = Do("data", data)
            phases.append(Fill(name, there(wired=wired, for_data=True), steps, (Undo(), Volumes("save", name))))
        phases += [Volumes("restore", name), there(wired=True, over_data=True)]
        saved |= {name}
    return tuple(phases), Nodes(True, not name, saved, nodes.snapshots)


def measurement(
    workload: Workload, port: Port, facts: Sequence[Fact], hosts: Sequence[str], folders: Sequence[Port]
) -> tuple[Phase, ...]:
    """Measure a workload on a stack that stands. ``facts`` are the stack's; ``hosts`` are watched."""
    return (
        kept(workload, port),
        Mark(CELL),
        # First, for their start takes a moment; what they see before the workload is left out later.
        Watch(tuple(hosts)),
        prepared(workload, port, hosts, folders),
        Ask((*facts, *asked(workload, port))),
        Measure(workload, port),
        Unwatch(),
        # A mirror that broke meanwhile leaves results of another layout: ask again.
        Ask(tuple(fact for fact in facts if fact.wanted or fact.timed), after=True),
        Undo(CELL),
    )


def prepared(workload: Workload, port: Port, hosts: Iterable[str], folders: Iterable[Port]) -> Do:
    """Prepare, and write back what building and preparing left dirty: seconds later it would hit the workload.

    A sync leaves a file system's metadata in its log, and XFS writes them to their places half a minute later: for
    a new database 0.8 MiB. Freezing ``folders`` for a moment does it now.
    """
    steps: list[Step] = [*workload.prepare(port)]
    steps += [Run(host, ("sync",), timeout=SYNC_SECONDS) for host in hosts]
    for folder in folders:
        steps += [Run(folder.host, ("fsfreeze", f"--{what}", folder.where)) for what in ("freeze", "unfreeze")]
    return Do("prepare", tuple(steps))


def start(trial: Workload, port: Port, rule: Rule | None) -> Start:
    """One start of a trial's command; one that is followed while it runs prints its values meanwhile."""
    command = trial.command(port)
    if rule is not None and rule.kind == "long" and isinstance(trial, Live):
        command = trial.watched(command)
    return Start(Do("prepare", trial.arm(port) if isinstance(trial, Armed) else ()), command)


def rule_of(workload: Workload) -> Rule | None:
    """When it was measured long enough; None where it ends by itself."""
    return workload.rule() if isinstance(workload, Ruled) else None


def kept(workload: Workload, port: Port) -> Do:
    """What is prepared for this workload and the next ones that ask for the same."""
    return Do("data", workload.lasting(port) if isinstance(workload, Lasting) else (), kept=True)


def asked(workload: Workload, port: Port) -> tuple[Fact, ...]:
    """The workload's own questions to the system."""
    return workload.facts(port) if isinstance(workload, Asking) else ()

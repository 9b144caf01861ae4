"""The phases of a drill: what its client does while faults strike, the takeover, and what is done afterwards.

All pure. What happens depends on what breaks: ``runner.drill`` asks for the phases that follow from what did, and
``whole`` gives those that follow when everything goes as the study says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from blocklab.faults import monitor
from blocklab.faults.base import SETTLED_SECONDS
from blocklab.model.drill import Replicas
from blocklab.model.dsn import Dsn
from blocklab.model.fault import Fault, InData, Mended, Scene
from blocklab.model.ground import Ground, Topology
from blocklab.model.layer import DrbdResource
from blocklab.model.plan import Argv, Fact, Port, Power, Run, Step, Wait
from blocklab.model.stack_map import folders_of
from blocklab.model.workload import Command, Drilled
from blocklab.study import takeover as recipes
from blocklab.study.drills import scene
from blocklab.study.grid import hosts_of, plan_stack, port_for, topology
from blocklab.study.phases import ABOVE, Ask, Do, Mark, Phase, Undo, asked, kept, prepared
from blocklab.study.types import Study
from blocklab.workloads import ledger_found

# A fault that leaves the node alive may show late: DRBD takes a silent peer for gone after 6 s, a database has
# room in the files that it made before.
NOTICE_SECONDS = 8.0
# What the monitor needs to start and hear its first answer, on a busy machine and a slow link.
HEARD_SECONDS = 30.0
FENCING, RESYNC = "fencing", "resync"


@dataclass(frozen=True)
class Strike:
    """A fault on a stack: the steps that break it, and those that mend it. ``mend_there``: those that mend what
    lies in the data, once these are in use on the survivor."""

    name: str
    fault: Fault
    strike: Do
    mend: Do
    mend_there: tuple[Step, ...]


@dataclass(frozen=True)
class Monitor:
    """What watches the active node from the survivor."""

    host: str
    argv: Argv


@dataclass(frozen=True)
class Write:
    """The client writes while faults strike when they are due; when the monitor declares the active node dead,
    the takeover is carried out. ``servers``: host -> address (with port) of a database that is active there."""

    command: Command
    servers: Mapping[str, str]
    strikes: tuple[Strike, ...]
    monitor: Monitor | None
    takeover: tuple[Do | Mark, ...]


@dataclass(frozen=True)
class ReadBack:
    """Read what the database has: the name of each raw file, and the command that prints it on ``host``."""

    host: str
    commands: Mapping[str, Argv]


@dataclass(frozen=True)
class Compare:
    """Compare both sides of the mirror. ``split``: the host and the command that prints something where both sides
    have what the other one lacks; None where they were never apart."""

    replicas: Replicas
    split: tuple[str, Argv] | None


DrillPhase: TypeAlias = Phase | Write | ReadBack | Compare


def writing(
    study: Study, stack: str, workload: Drilled, ground: Ground, facts: Sequence[Fact], *, brief: bool = False
) -> tuple[DrillPhase, ...]:
    """Prepare, and write until the drill is over. ``facts`` are the stack's. ``brief``: only what must be in force
    is asked; what a ping takes is known from the layout's first drill."""
    hosts = hosts_of(study.stacks[stack])
    ports = plan_stack(study, stack, 0, ground).ports
    port = port_for(workload, ports, ground)
    nodes = tuple(topology(study, [stack]).nodes)
    return (
        kept(workload, port),
        prepared(workload, port, nodes, folders_of(ports)),
        # What has to stay the same under a measured workload may well change in a drill.
        Ask(
            tuple(
                each for each in (*facts, *asked(workload, port)) if not each.steady and (each.wanted or not brief)
            )
        ),
        _write(study, stack, workload, ground, port, hosts[0]),
    )


def _write(study: Study, stack: str, workload: Drilled, ground: Ground, port: Port, active: str) -> Write:
    servers = {active: _address(port)}
    watch: Monitor | None = None
    takeover: tuple[Do | Mark, ...] = ()
    if recipes.survivor_of(study.stacks[stack]):
        recipe = recipes.takeover(study, stack, 0, ground)
        servers[recipe.survivor] = _address(port_for(workload, recipe.plan.ports, ground))
        watch = _monitor(study, stack, ground, recipe.survivor)
        takeover = _takeover(study, stack, recipe, active)
    command = workload.writer(port, tuple(servers.values()), _longest(study, workload, takeover))
    return Write(command, servers, strikes_of(study.faults, scene(study, stack, 0, ground)), watch, takeover)


def _monitor(study: Study, stack: str, ground: Ground, survivor: str) -> Monitor:
    here = scene(study, stack, 0, ground)
    layers = study.stacks[stack].layers
    resource = next((layer.resource(stack) for layer in layers if isinstance(layer, DrbdResource)), "")
    argv = monitor.argv(monitor.address(here), study.takeover, resource)
    return Monitor(survivor, argv)


def _takeover(study: Study, stack: str, recipe: recipes.Recipe, active: str) -> tuple[Do | Mark, ...]:
    stages = _marked("takeover", stack, recipe.stages)
    if study.takeover.fence:
        return (Do("takeover", (Power(active, "crash"),), FENCING), *stages)
    return stages


def _marked(part: str, stack: str, stages: Iterable[recipes.Stage]) -> tuple[Do | Mark, ...]:
    """Stages as phases, with the mark below what stands on the highest block device."""
    phases: list[Do | Mark] = []
    for stage in stages:
        phases.append(Do(part, stage.steps, stage.name))
        if stage.name == "promotion":
            phases.append(Mark(f"{ABOVE} {stack}"))
    return tuple(phases)


def strikes_of(faults: Mapping[str, Fault], here: Scene) -> tuple[Strike, ...]:
    """Each fault as it strikes there."""
    found = []
    for name, fault in faults.items():
        at = (
            f"at {fault.at} of the workload"
            if not fault.when
            else f"{fault.at or '0s'} after the rate has settled"
        )
        mended = f"after {fault.lasts}" if fault.lasts is not None else "at the end of the drill"
        strike = Do("fault", tuple(fault.strike(here)), name, at)
        mend = Do("fault", fault.heal(here) if isinstance(fault, Mended) else (), f"{name} mended", mended)
        there = fault.mend_data(here, here.peer) if isinstance(fault, InData) else ()
        found.append(Strike(name, fault, strike, mend, there))
    return tuple(found)


def _longest(study: Study, workload: Drilled, takeover: Iterable[Do | Mark]) -> float:
    """The most seconds that the client may have to write: whatever the faults do, it ends by itself."""
    faults = study.faults.values()
    # One that finds a node frozen waits for another one's end.
    struck = max(each.moments()[1] for each in faults) + sum(float(each.lasts or 0) for each in faults)
    taking = sum(_at_most(step) for stage in takeover if isinstance(stage, Do) for step in stage.steps)
    # After the takeover, and once more where a later fault hits the survivor.
    wait, after = 2 * float(study.takeover.wait), float(workload.after)
    return HEARD_SECONDS + SETTLED_SECONDS + struck + taking + wait + after + NOTICE_SECONDS + 60


def _at_most(step: Step) -> float:
    if isinstance(step, Run):
        return step.timeout
    return step.seconds if isinstance(step, Wait) else 0.0


def _address(port: Port) -> str:
    dsn = Dsn.of(port.where)
    return f"{dsn.address}:{dsn.port}"


# -- afterwards ------------------------------------------------------------------------------------------------


def read_back(study: Study, stack: str, workload: Drilled, ground: Ground) -> ReadBack:
    """Read the ledger. ``study`` is the failed-over one after a takeover."""
    port = port_for(workload, plan_stack(study, stack, 0, ground).ports, ground)
    return ReadBack(port.host, ledger_found.reads(port))


def restart(
    study: Study, stack: str, shape: Topology, ground: Ground, dead: Iterable[str]
) -> tuple[Do | Mark, ...]:
    """Build the stack over its data on nodes that boot again, where nothing could take over. The mirror's other
    side is left out; ``resync`` takes it in. ``shape`` is what was started."""
    hosts, gone = hosts_of(study.stacks[stack]), set(dead)
    here = scene(study, stack, 0, ground)
    # What mends faults that lie in the data, which no restart ends, before the database starts.
    faults = [each for each in study.faults.values() if isinstance(each, InData)]
    mend = tuple(step for each in faults for step in each.mend_data(here, here.active))
    stages = [
        recipes.Stage(each.name, (*each.steps, *(mend if each.name == "mount" else ())))
        for each in recipes.restart(study, stack, 0, ground)
        if each.name != RESYNC
    ]
    return (
        *(_power(host, "crash") for host in hosts if host not in gone),
        *(_boot(shape, ground, host) for host in sorted(gone | set(hosts))),
        *_marked("restart", stack, stages),
    )


def resync(study: Study, stack: str, ground: Ground, back: Iterable[str] = ()) -> Do:
    """Take the mirror's other side in; ``back`` are its nodes that were booted again."""
    steps = [step for host in back for step in recipes.revive(study, stack, 0, ground, host)]
    return Do("rejoin", (*steps, *recipes.rejoin(study, stack, 0, ground)), RESYNC)


def sides(
    study: Study,
    stack: str,
    shape: Topology,
    ground: Ground,
    *,
    old: str = "",
    alive: bool = False,
    restarted: bool = False,
    lone: bool = False,
) -> tuple[DrillPhase, ...]:
    """Take down what stands above the mirror, take the other side in and compare both.

    ``old``: the node that is out, if one is; ``alive``: it was neither fenced nor lost, so what it still holds
    must let go of its volume first. ``restarted``: all nodes were booted again. ``lone``: the mirror goes on alone
    although both nodes live. ``shape`` is what was started: whoever is active later, the wires are the same.
    """
    phases: list[DrillPhase] = [Undo(f"{ABOVE} {stack}")]
    if old:
        phases += [_power(old, "crash")] * alive
        phases += [_boot(shape, ground, old), resync(study, stack, ground, [old])]
    elif restarted:
        phases.append(resync(study, stack, ground, hosts_of(study.stacks[stack])[1:]))
    elif lone:
        phases.append(resync(study, stack, ground))
    if (replicas := recipes.replicas(study, stack, 0, ground)) is not None:
        apart = any(isinstance(each, Do) and each.of == RESYNC and each.steps for each in phases)
        phases.append(Compare(replicas, recipes.split_brain(study, stack, 0, ground) if apart else None))
    return tuple(phases)


def _power(host: str, what: Literal["crash", "boot"]) -> Do:
    return Do("restart", (Power(host, what),), host)


def _boot(shape: Topology, ground: Ground, host: str) -> Do:
    return Do("restart", (Power(host, "boot"), *recipes.ground_steps(shape, ground, host)), host)


def whole(
    study: Study, stack: str, workload: Drilled, ground: Ground, facts: Sequence[Fact]
) -> tuple[DrillPhase, ...]:
    """A drill in which every fault strikes and the survivor, if there is one, takes over."""
    phases = list(writing(study, stack, workload, ground, facts))
    write = phases[-1]
    assert isinstance(write, Write)
    active, *others = hosts_of(study.stacks[stack])
    shape = topology(study, [stack])
    steps = [*(step for each in write.strikes for step in each.strike.steps),
             *(step for stage in write.takeover if isinstance(stage, Do) for step in stage.steps)]  # fmt: skip
    dead = {step.host for step in steps if isinstance(step, Power) and step.what == "crash"}
    if write.takeover:
        after = recipes.failed_over(study, stack)
        phases.append(read_back(after, stack, workload, ground))
        return (*phases, *sides(after, stack, shape, ground, old=active, alive=active not in dead))
    restarted = active in dead
    phases += restart(study, stack, shape, ground, dead) if restarted else ()
    phases.append(read_back(study, stack, workload, ground))
    peer = next((host for host in others if host in dead), "")
    return (*phases, *sides(study, stack, shape, ground, old="" if restarted else peer, restarted=restarted))

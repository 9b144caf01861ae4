"""The phases of a drill: what its client does while faults strike, the takeover, and what is done afterwards.

All pure. What happens depends on what breaks: ``runner.drill`` asks for the phases that follow from what did, and
``whole`` gives those that follow when everything goes as the study says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import msgspec

from blocklab.faults import monitor
from blocklab.faults.base import SETTLED_SECONDS
from blocklab.model.dsn import Dsn
from blocklab.model.fault import Fault, InData, Mended, Scene
from blocklab.model.ground import Ground, Topology
from blocklab.model.plan import Argv, Fact, Port, Power, Run, Step, Wait
from blocklab.model.spans import Comparison, Query, Stage
from blocklab.model.stack_map import folders_of
from blocklab.model.workload import Command, Drilled
from blocklab.study import takeover as recipes
from blocklab.study.drills import scene
from blocklab.study.grid import hosts_of, plan_stack, port_for, topology
from blocklab.study.phases import ABOVE, Ask, Do, Mark, Phase, Undo, asked, kept, prepared
from blocklab.study.types import Study

# A fault that leaves the node alive may show late: DRBD takes a silent peer for gone after 6 s, a database has
# room in the files that it made before.
NOTICE_SECONDS = 8.0
# What the monitor needs to start and hear its first answer, on a busy machine and a slow link.
HEARD_SECONDS = 30.0
FENCING, RESYNC = "fencing", recipes.RESYNC


@dataclass(frozen=True)
class Strike:
    """A fault on a stack: the steps that break it, and those that mend it. ``mend_there``: those that mend what
    lies in the data, once these are in use on a survivor, by its name."""

    name: str
    fault: Fault
    strike: Do
    mend: Do
    mend_there: Mapping[str, tuple[Step, ...]]


@dataclass(frozen=True)
class Monitor:
    """What watches the node ``of`` from a survivor."""

    host: str
    of: str
    argv: Argv


@dataclass(frozen=True)
class Succession:
    """How ``heir`` takes over once its monitors, of the active node and of each survivor that comes before it,
    declare all of these dead."""

    heir: str
    monitors: tuple[Monitor, ...]
    takeover: tuple[Do | Mark, ...]

    def without(self, out: Collection[str]) -> Succession:
        """The same where these nodes are dead or stand still: nothing is done to them but that their power is
        cut."""
        phases: list[Do | Mark] = []
        for phase in self.takeover:
            if isinstance(phase, Do) and phase.of != FENCING:
                left = (step for step in phase.steps if step.host == self.heir or step.host not in out)
                phase = replace(phase, steps=tuple(left))
            phases.append(phase)
        return replace(self, takeover=tuple(phases))


@dataclass(frozen=True)
class Write:
    """The client writes while faults strike when they are due; when an heir's monitors declare dead who is active
    and who comes before it, it takes over. ``servers``: host -> address (with port) of a database that is active
    there. ``successions``: one for each survivor, the first choice first."""

    command: Command
    servers: Mapping[str, str]
    strikes: tuple[Strike, ...]
    successions: tuple[Succession, ...]

    @property
    def planned(self) -> Succession | None:
        """The one that is carried out where every fault strikes: of the first survivor that is left."""
        struck = self.struck
        left = [each for each in self.successions if each.heir not in struck]
        return next((each.without(struck) for each in left or self.successions), None)

    @property
    def struck(self) -> set[str]:
        """The nodes that its faults crash."""
        return _crashed(step for each in self.strikes for step in each.strike.steps)


@dataclass(frozen=True)
class ReadBack:
    """Read what the database has: the name of each raw file, and the command that prints it on ``host``."""

    host: str
    commands: Mapping[str, Argv]


@dataclass(frozen=True)
class Compare:
    """Compare all sides of what keeps copies. ``split``: the host and the command that prints something where two
    sides have what the other one lacks; None where they were never apart."""

    comparison: Comparison
    split: Query | None


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
    here = scene(study, stack, 0, ground)
    servers = {active: _address(port)}
    successions: list[Succession] = []
    for heir in recipes.survivors_of(study.stacks[stack]):
        recipe = recipes.takeover(study, stack, 0, ground, heir)
        servers[heir] = _address(port_for(workload, recipe.plan.ports, ground))
        before = (active, *(each.heir for each in successions))
        watches = tuple(_monitor(study, stack, here, heir, of) for of in before)
        successions.append(Succession(heir, watches, _takeover(study, stack, recipe, before)))
    command = workload.writer(port, tuple(servers.values()), _longest(study, workload, successions))
    return Write(command, servers, strikes_of(study.faults, here), tuple(successions))


def _monitor(study: Study, stack: str, here: Scene, heir: str, of: str) -> Monitor:
    seen = recipes.signs(study, stack, 0, here.ground, heir, of)
    return Monitor(heir, of, monitor.argv(monitor.address(here, heir, of), study.takeover, seen))


def _takeover(study: Study, stack: str, recipe: recipes.Recipe, before: Sequence[str]) -> tuple[Do | Mark, ...]:
    stages = _marked("takeover", study, stack, recipe.stages)
    if study.takeover.fence:
        return (Do("takeover", tuple(Power(host, "crash") for host in before), FENCING), *stages)
    return stages


def _marked(part: str, study: Study, stack: str, stages: Iterable[Stage]) -> tuple[Do | Mark, ...]:
    """Stages as phases, with the mark below what stands on the highest layer of several nodes, or of its kind."""
    phases: list[Do | Mark] = []
    kind = recipes.kind_of(study.stacks[stack])
    for stage in stages:
        phases.append(Do(part, stage.steps, stage.name))
        if kind in stage.gives:
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
        there = {peer: fault.mend_data(here, peer) for peer in here.peers} if isinstance(fault, InData) else {}
        found.append(Strike(name, fault, strike, mend, there))
    return tuple(found)


def _longest(study: Study, workload: Drilled, successions: Sequence[Succession]) -> float:
    """The most seconds that the client may have to write: whatever the faults do, it ends by itself."""
    faults = study.faults.values()
    # One that finds a node frozen waits for another one's end.
    struck = max(each.moments()[1] for each in faults) + sum(float(each.lasts or 0) for each in faults)
    stages = (stage for each in successions for stage in each.takeover)
    taking = sum(_at_most(step) for stage in stages if isinstance(stage, Do) for step in stage.steps)
    # After each takeover, and once more where a later fault hits the last survivor.
    wait, after = max(2, 1 + len(successions)) * float(study.takeover.wait), float(workload.after)
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
    """Read what the database has. ``study`` is the failed-over one after a takeover."""
    port = port_for(workload, plan_stack(study, stack, 0, ground).ports, ground)
    return ReadBack(port.host, workload.checker.reads(port))


def restart(
    study: Study, stack: str, shape: Topology, ground: Ground, dead: Iterable[str]
) -> tuple[Do | Mark, ...]:
    """Build the stack over its data on nodes that boot again, where nothing could take over. The other sides are
    left out; ``resync`` takes them in. ``shape`` is what was started."""
    hosts, gone = hosts_of(study.stacks[stack]), set(dead)
    here = scene(study, stack, 0, ground)
    # What mends faults that lie in the data, which no restart ends, before the database starts.
    faults = [each for each in study.faults.values() if isinstance(each, InData)]
    mend = tuple(step for each in faults for step in each.mend_data(here, here.active))
    stages = [
        msgspec.structs.replace(each, steps=(*each.steps, *(mend if "dir" in each.gives else ())))
        for each in recipes.restart(study, stack, 0, ground)
        if each.name != RESYNC
    ]
    return (
        *(_power(host, "crash") for host in hosts if host not in gone),
        *(_boot(shape, ground, host) for host in sorted(gone | set(hosts))),
        *_marked("restart", study, stack, stages),
    )


def resync(
    study: Study, stack: str, ground: Ground, back: Sequence[str] | None = None, *, booted: bool = True
) -> Do:
    """Take other sides in, all of them without names; ``booted``: their nodes were booted again."""
    back = recipes.others_of(study.stacks[stack]) if back is None else back
    steps = [step for host in back if booted for step in recipes.revive(study, stack, 0, ground, host)]
    return Do("rejoin", (*steps, *recipes.rejoin(study, stack, 0, ground, back)), RESYNC)


def sides(
    study: Study,
    stack: str,
    shape: Topology,
    ground: Ground,
    *,
    out: Sequence[str] = (),
    alive: Collection[str] = (),
    restarted: bool = False,
    lone: bool = False,
) -> tuple[DrillPhase, ...]:
    """Take down what stands above the layer of several nodes, take the other sides in and compare all.

    ``out``: the nodes that are out; those of ``alive`` were neither fenced nor lost, so what they still hold must
    let go of its volume first. ``restarted``: all nodes were booted again. ``lone``: the active one goes on alone
    although all nodes live. ``shape`` is what was started: whoever is active later, the wires are the same.
    """
    phases: list[DrillPhase] = [Undo(f"{ABOVE} {stack}")]
    for host in out:
        phases += [_power(host, "crash")] * (host in alive)
        phases.append(_boot(shape, ground, host))
    if out:
        phases.append(resync(study, stack, ground, out))
    elif restarted or lone:
        phases.append(resync(study, stack, ground, booted=restarted))
    if (comparison := recipes.comparison(study, stack, 0, ground)) is not None:
        apart = any(isinstance(each, Do) and each.of == RESYNC and each.steps for each in phases)
        phases.append(Compare(comparison, recipes.split_brain(study, stack, 0, ground) if apart else None))
    return tuple(phases)


def _power(host: str, what: Literal["crash", "boot"]) -> Do:
    return Do("restart", (Power(host, what),), host)


def _boot(shape: Topology, ground: Ground, host: str) -> Do:
    return Do("restart", (Power(host, "boot"), *recipes.ground_steps(shape, ground, host)), host)


def whole(
    study: Study, stack: str, workload: Drilled, ground: Ground, facts: Sequence[Fact]
) -> tuple[DrillPhase, ...]:
    """A drill in which every fault strikes and the first survivor that is left, if there is one, takes over."""
    phases = list(writing(study, stack, workload, ground, facts))
    write = phases[-1]
    assert isinstance(write, Write)
    active, *others = hosts_of(study.stacks[stack])
    shape = topology(study, [stack])
    dead = write.struck
    if (succession := write.planned) is not None:
        dead |= _crashed(step for stage in succession.takeover if isinstance(stage, Do) for step in stage.steps)
        after = recipes.failed_over(study, stack, succession.heir)
        phases.append(read_back(after, stack, workload, ground))
        out = out_of((active, *others), succession.heir, dead, before=succession.monitors)
        return (*phases, *sides(after, stack, shape, ground, out=out, alive=set(out) - dead))
    restarted = active in dead
    phases += restart(study, stack, shape, ground, dead) if restarted else ()
    phases.append(read_back(study, stack, workload, ground))
    out = () if restarted else tuple(host for host in others if host in dead)
    return (*phases, *sides(study, stack, shape, ground, out=out, restarted=restarted))


def _crashed(steps: Iterable[Step]) -> set[str]:
    return {step.host for step in steps if isinstance(step, Power) and step.what == "crash"}


def out_of(
    hosts: Iterable[str], active: str, dead: Collection[str], before: Iterable[Monitor] = ()
) -> tuple[str, ...]:
    """The nodes of a stack that have to be taken in again: those that are dead, and those that the active one has
    taken over from, or come before it in their order, as its monitors tell."""
    passed = {each.of for each in before}
    return tuple(host for host in hosts if host != active and (host in dead or host in passed))

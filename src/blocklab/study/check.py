"""Whether a study can be built: all that the types alone cannot say. Pure."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence

from blocklab.errors import StudyError
from blocklab.model import sysctls
from blocklab.model.ground import LinkSpec, NodeSpec, Topology
from blocklab.model.imported import Imported
from blocklab.model.knobs import listed, nearest
from blocklab.model.layer import Choosy, Layer
from blocklab.model.workload import Workload
from blocklab.study import drills, sweep
from blocklab.study.claims import expectations, phase_problems
from blocklab.study.clients import client_problems
from blocklab.study.grid import sides_of
from blocklab.study.kinds import SERVERS, WORDS, servers, workloads
from blocklab.study.measures import shown_problems
from blocklab.study.seen import Seen
from blocklab.study.types import Stack, Study
from blocklab.study.views import view_problems

Problem = tuple[str, str]
# Each link is a network 10.77.N.0/24.
MOST_LINKS = 254
MOST_LANES = 8
# Seconds that a system call or a page fault may take in virtual time.
MOST_CPU = 1e-3
# "net.ipv4.tcp_rmem", "vm.dirty_ratio"
# What faults call the two nodes of a stack.
_ROLES = ("active", "peer")


def check(study: Study, *, imported: bool = False, quick: bool = False) -> None:
    """Raises ``StudyError`` for the problems, in the order of the file.

    ``imported``: its values come from logs, so nothing of it has to be built. ``quick``: it is the short form, in
    which claims about what was left out stay undecided.
    """
    if not imported:
        buildable(study)
    found = _every(study, quick=quick)
    if found:
        raise StudyError.of([StudyError(path, problem) for path, problem in found])


def _every(study: Study, *, quick: bool) -> list[Problem]:
    found = list(dict.fromkeys(_until_lost(_built(study), [])))
    if not found:
        # Each level would have the same problems. Of several levels of a factor one stands for all.
        of_factors = dict(reversed(list(sweep.factor_problems(study, problems))))
        found += list(reversed(of_factors.items()))
    found += _until_lost(_shown(study), found)
    claims = [] if quick else [
        (f"expect[{index}].{field}", problem)
        for index, claim in enumerate(study.expect)
        for field, problem in _until_lost(phase_problems(study, claim), found)
    ]  # fmt: skip
    return [*found, *claims]


def _until_lost(more: Iterable[Problem], found: Sequence[Problem]) -> list[Problem]:
    """The problems up to where one leaves nothing to look at: a link without its nodes has no ends."""
    mine: list[Problem] = []
    try:
        mine.extend(more)
    except (LookupError, ValueError, AttributeError, StudyError):
        if not mine and not found:
            raise
    return mine


def buildable(study: Study) -> None:
    """Raises ``StudyError`` for a study of imported values, of which nothing can be built or run."""
    paths = [
        f"stacks.{name}.layers[{index}]"
        for name, stack in study.stacks.items()
        for index, layer in enumerate(stack.layers)
        if isinstance(layer, Imported)
    ]
    paths += [f"workloads.{name}" for name, workload in study.workloads.items() if isinstance(workload, Imported)]
    for path in paths:
        hint = "`blocklab import` reads its logs, `blocklab report` shows it"
        raise StudyError(path, "is imported: it was measured elsewhere, and cannot be built or run", hint=hint)


def runnable(study: Study) -> None:
    """Raises ``StudyError`` for what must not reach a host, in a study that was stored: whatever it expects."""
    buildable(study)
    for path, problem in (*_built(study), *sweep.factor_problems(study, _built)):
        raise StudyError(path, problem)


def problems(study: Study, seen: Seen | None = None) -> Iterator[Problem]:
    """Every problem as (path in the file, what is wrong and the hint); of what was ``seen`` none by itself."""
    yield from _built(study, seen)
    yield from sweep.factor_problems(study, problems)
    yield from _shown(study)


def _built(study: Study, seen: Seen | None = None) -> Iterator[Problem]:
    """What keeps layouts and workloads from being built as the file has them."""
    seen = seen or Seen()
    yield from _names(study)
    yield from _links(study)
    for name, stack in study.stacks.items():
        if seen.first(f"stacks.{name}", stack, *study.nodes.values(), *study.links.values()):
            yield from _stack(study, name, stack)
    yield from _workloads(study, seen)
    yield from drills.problems(study)


def _shown(study: Study) -> Iterator[Problem]:
    """What is wrong with what the report shows."""
    yield from ((f"report.{field}", problem) for field, problem in view_problems(study, study.report))
    yield from shown_problems(study)
    yield from expectations(study)


def _names(study: Study) -> Iterator[Problem]:
    for field in ("nodes", "stacks", "workloads"):
        if not getattr(study, field):
            yield field, "is empty; a study needs at least one"
    for name, node in study.nodes.items():
        if name in _ROLES and study.faults:
            yield f"nodes.{name}", "is a reserved name; use another one"
        yield from _node(f"nodes.{name}", node)
    if study.repeats < 1:
        yield "repeats", "must be at least 1"
    if study.baseline and study.baseline not in study.stacks:
        yield "baseline", f"there is no stack {study.baseline!r}; {_there_are(study.baseline, study.stacks)}"


def _node(path: str, node: NodeSpec) -> Iterator[Problem]:
    if node.memory < 128 * 2**20:
        yield f"{path}.memory", "a node does not boot with less than 128MiB"
    for parameter, value in node.sysctl.items():
        if why := sysctls.ALLOWED.problem(parameter, str(value).strip()):
            yield f"{path}.sysctl[{parameter}]", why
    for field, cost in node.cpu_costs.items():
        if cost > MOST_CPU:
            yield f"{path}.cpu.{field}", "over 1 ms; no CPU takes that long"


def _links(study: Study) -> Iterator[Problem]:
    if len(study.links) > MOST_LINKS:
        yield "links", f"{len(study.links)} links; at most {MOST_LINKS} can be addressed"
    for name, link in study.links.items():
        path = f"links.{name}"
        for index, node in enumerate(link.between):
            if node not in study.nodes:
                yield f"{path}.between[{index}]", f"there is no node {node!r}; {_there_are(node, study.nodes)}"
        if link.between[0] == link.between[1]:
            yield f"{path}.between", "a link joins two different nodes"
        yield from _line(path, link)


def _line(path: str, link: LinkSpec) -> Iterator[Problem]:
    """What netem and the interfaces can do."""
    if link.rtt > 5:
        yield f"{path}.rtt", "over 5 s; the mirror would declare the peer dead"
    if link.jitter > link.rtt:
        yield f"{path}.jitter", "must not be more than the rtt: no packet arrives before it is sent"
    if not 576 <= link.mtu <= 65521:
        yield f"{path}.mtu", "must be from 576 to 65521 bytes"
    if link.rate is not None and link.rate < 1000:
        yield f"{path}.rate", "must be at least 1kbit/s"
    if not 1 <= link.lanes <= MOST_LANES:
        yield f"{path}.lanes", f"must be from 1 to {MOST_LANES}"
    if link.lanes == 1 and link.bond != "balance-rr":
        yield f"{path}.bond", "needs lanes: 2 or more"


def _stack(study: Study, name: str, stack: Stack) -> Iterator[Problem]:
    path = f"stacks.{name}"
    if stack.on not in study.nodes:
        yield f"{path}.on", f"there is no node {stack.on!r}; {_there_are(stack.on, study.nodes)}"
        return
    if not stack.layers:
        yield f"{path}.layers", "is empty; start with a volume"
        return
    lab = Topology(study.nodes, study.links, ())
    ports = 0
    for index, layer in enumerate(stack.layers):
        at = f"{path}.layers[{index}]"
        yield from _fits(at, layer, stack.layers[:index])
        for field, problem in layer.problems(stack.on, lab):
            yield f"{at}.{field}" if field else at, problem
        try:
            ports = layer.width(ports)
        except ValueError as error:
            yield at, f"{layer.tag} {error}"
            return
    if ports > 1:
        yield f"{path}.layers", f"end with {ports} devices, but a workload takes one; join them with a stripe"
    mirrors = [index for index, layer in enumerate(stack.layers) if len(sides_of(layer, stack.on)) > 1]
    if len(mirrors) > 1:
        yield f"{path}.layers[{mirrors[1]}]", "a mirror over a mirror cannot be built; keep one of them"


def _fits(at: str, layer: Layer, below: Sequence[Layer]) -> Iterator[Problem]:
    if not below:
        if layer.takes is not None:
            yield at, f"{layer.tag} needs {WORDS[layer.takes]} below it; start with a volume"
        return
    if layer.takes is None:
        yield at, f"{layer.tag} can only be the lowest layer"
        return
    if isinstance(layer, Choosy):
        yield from ((f"{at}.{field}" if field else at, why) for field, why in layer.misplaced(below))
    if layer.takes != (gives := below[-1].gives):
        hint = {
            ("dir", "block"): "; put xfs or ext4 between them",
            ("block", "dir"): f"; move {layer.tag} below {below[-1].tag}",
        }.get((layer.takes, gives), "")
        needs, given = WORDS[layer.takes], WORDS[gives]
        yield at, f"{layer.tag} needs {needs}, but {below[-1].tag} below it gives {given}{hint}"


def _workloads(study: Study, seen: Seen) -> Iterator[Problem]:
    for name, workload in study.workloads.items():
        path = f"workloads.{name}"
        for field, problem in workload.problems() if seen.first(path, workload) else ():
            yield f"{path}.{field}" if field else path, problem
        yield from client_problems(study, name)
        for stack_name, stack in study.stacks.items():
            offered = {layer.gives for layer in stack.layers}
            if not offered & set(workload.takes):
                wants = " or ".join(WORDS[kind] for kind in workload.takes)
                yield path, f"needs {wants}, which stack {stack_name} does not offer{_fitting(workload, offered)}"


def _fitting(workload: Workload, offered: Collection[str]) -> str:
    """What to do about a workload on another server than it is for, or on none."""
    layers = [name for name, gives in servers().items() if gives in workload.takes]
    others = [name for name, takes in workloads().items() if takes & SERVERS & frozenset(offered)]
    hints = [f"give the stack a layer {listed(layers)}"] if layers else []
    hints += [f"use {listed(others)} there"] if others else []
    return f"; {', or '.join(hints)}" if hints else ""


def combined_problems(study: Study) -> Iterator[Problem]:
    """What keeps a cell from being built and measured at its levels, of those that are not excluded."""
    yield from sweep.combined_problems(study, functools.partial(problems, seen=Seen()))


def _there_are(name: str, names: Iterable[str]) -> str:
    known = list(names)
    return f"there are {', '.join(known)}{nearest(name, known)}"

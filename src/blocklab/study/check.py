"""Whether a study can be built: all that the types alone cannot say. Pure; raises the first problem found."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from blocklab.errors import StudyError
from blocklab.layers import AnyLayer, Cap, Fragile, ImportedLayer, Shared, Volume
from blocklab.model import sysctls
from blocklab.model.ground import LinkSpec
from blocklab.model.protocols import Map
from blocklab.study import drills
from blocklab.study.factors import (
    assignments,
    combinations,
    excluded,
    level_text,
    level_texts,
    parts_of,
    variant,
)
from blocklab.study.grid import between, layer_tag, topology
from blocklab.study.takeover import survivor_of
from blocklab.study.types import Expectation, Stack, Study, View
from blocklab.study.views import view_problems
from blocklab.workloads import AnyWorkload, ImportedLoad

Problem = tuple[str, str]
# A study at levels of its factors is checked without what is about all of them.
_BARE: dict[str, Any] = {"factors": {}, "exclude": (), "expect": (), "report": View()}
# Each link is a network 10.77.N.0/24.
MOST_LINKS = 254
MOST_LANES = 8
# A matrix of fio has hundreds of phases.
MOST_TOLD = 8
# "net.ipv4.tcp_rmem", "vm.dirty_ratio"
_SYSCTL = re.compile(r"^[a-z0-9_]+(\.[A-Za-z0-9_-]+)+$")


def check(study: Study, *, imported: bool = False, quick: bool = False) -> None:
    """Raises ``StudyError`` for the first problem, in the order of the file.

    ``imported``: its figures come from logs, so nothing of it has to be built. ``quick``: it is the short form, in
    which claims about what was left out stay undecided.
    """
    if not imported:
        buildable(study)
    for path, problem in problems(study):
        raise StudyError(path, problem)
    for index, claim in enumerate(() if quick else study.expect):
        for field, problem in _phase(study, claim):
            raise StudyError(f"expect[{index}].{field}", problem)


def buildable(study: Study) -> None:
    """Raises ``StudyError`` for a study of imported figures, of which nothing can be built or run."""
    paths = [
        f"stacks.{name}.layers[{index}]"
        for name, stack in study.stacks.items()
        for index, layer in enumerate(stack.layers)
        if isinstance(layer, ImportedLayer)
    ]
    paths += [f"workloads.{name}" for name, load in study.workloads.items() if isinstance(load, ImportedLoad)]
    for path in paths:
        hint = "`blocklab import` reads its logs, `blocklab report` shows it"
        raise StudyError(path, "is imported: it was measured elsewhere, and cannot be built or run", hint=hint)


def problems(study: Study) -> Iterator[Problem]:
    """Every problem as (path in the file, what is wrong and the cure)."""
    yield from _names(study)
    yield from _links(study)
    for name, stack in study.stacks.items():
        yield from _stack(study, name, stack)
    yield from _workloads(study)
    yield from drills.problems(study)
    yield from _factors(study)
    yield from ((f"report.{field}", problem) for field, problem in view_problems(study, study.report))
    yield from _expectations(study)


def _names(study: Study) -> Iterator[Problem]:
    for field in ("nodes", "stacks", "workloads"):
        if not getattr(study, field):
            yield field, "is empty; a study needs at least one"
    for name, node in study.nodes.items():
        if node.memory < 128 * 2**20:
            yield f"nodes.{name}.memory", "a node does not boot with less than 128MiB"
        for parameter in node.sysctl:
            if not _SYSCTL.match(parameter):
                yield (
                    f"nodes.{name}.sysctl[{parameter}]",
                    "is not a kernel parameter; write it like net.ipv4.tcp_rmem",
                )
            elif why := sysctls.problem(parameter):
                yield f"nodes.{name}.sysctl[{parameter}]", why
    if study.repeats < 1:
        yield "repeats", "must be at least 1"
    if study.baseline and study.baseline not in study.stacks:
        yield "baseline", f"there is no stack {study.baseline!r}; there are {_list(study.stacks)}"


def _links(study: Study) -> Iterator[Problem]:
    if len(study.links) > MOST_LINKS:
        yield "links", f"{len(study.links)} links; at most {MOST_LINKS} can be addressed"
    for name, link in study.links.items():
        path = f"links.{name}"
        for index, node in enumerate(link.between):
            if node not in study.nodes:
                yield f"{path}.between[{index}]", f"there is no node {node!r}; there are {_list(study.nodes)}"
        if link.between[0] == link.between[1]:
            yield f"{path}.between", "a link joins two different nodes"
        yield from _line(path, link)


def _line(path: str, link: LinkSpec) -> Iterator[Problem]:
    """What netem and the interfaces can do."""
    if link.rtt > 5:
        yield f"{path}.rtt", "over 5 s; the mirror would take the peer for dead"
    if link.jitter > link.rtt:
        yield f"{path}.jitter", "must not be more than the rtt: no packet arrives before it is sent"
    if not 576 <= link.mtu <= 65521:
        yield f"{path}.mtu", "must be from 576 to 65521 bytes"
    if link.rate is not None and link.rate < 1000:
        yield f"{path}.rate", "must be at least 1kbit/s"
    if not 1 <= link.lanes <= MOST_LANES:
        yield f"{path}.lanes", f"must be from 1 to {MOST_LANES}"
    if link.lanes == 1 and link.bond != "balance-rr":
        yield f"{path}.bond", "means nothing for one lane; give lanes: 2 or more"


def _stack(study: Study, name: str, stack: Stack) -> Iterator[Problem]:
    path = f"stacks.{name}"
    if stack.on not in study.nodes:
        yield f"{path}.on", f"there is no node {stack.on!r}; there are {_list(study.nodes)}"
        return
    if not stack.layers:
        yield f"{path}.layers", "is empty; start with a volume"
        return
    layers = study_map(study)
    below: AnyLayer | None = None
    ports = 0
    for index, layer in enumerate(stack.layers):
        at = f"{path}.layers[{index}]"
        yield from _fits(at, below, layer)
        for field, problem in layer.problems(stack.on, layers):
            yield f"{at}.{field}" if field else at, problem
        try:
            ports = layer.width(ports)
        except ValueError as error:
            yield at, f"{layer_tag(layer)} {error}"
            return
        below = layer
    versions = {layer.by: index for index, layer in enumerate(stack.layers) if isinstance(layer, Cap)}
    if len(versions) > 1:
        at = f"{path}.layers[{max(versions.values())}].by"
        yield (
            at,
            "a node's kernel has one version of cgroups for block devices at a time; take the same for all caps",
        )
    mirrors = [index for index, layer in enumerate(stack.layers) if len(layer.spans(stack.on)) > 1]
    if len(mirrors) > 1:
        yield f"{path}.layers[{mirrors[1]}]", "a mirror over a mirror cannot be built; keep one of them"


def _fits(at: str, below: AnyLayer | None, layer: AnyLayer) -> Iterator[Problem]:
    tag = layer_tag(layer)
    if below is None:
        if layer.takes is not None:
            yield at, f"{tag} needs a {layer.takes} below it; start with a volume"
        return
    lower = layer_tag(below)
    if layer.takes is None:
        yield at, f"{tag} can only be the lowest layer"
    elif isinstance(layer, Shared) and not isinstance(below, Volume):
        yield at, f"shared is a volume that two nodes have; put it directly on the volume, not on {lower}"
    elif isinstance(layer, Fragile) and not isinstance(below, Volume | Shared):
        yield (
            at,
            f"fragile makes a volume fail; put it directly on the volume or on shared, not on {lower}",
        )
    elif layer.takes != below.gives:
        cure = "; put xfs or ext4 between them" if (layer.takes, below.gives) == ("dir", "block") else ""
        yield at, f"{tag} needs a {layer.takes}, but {lower} below it gives a {below.gives}{cure}"


def study_map(study: Study) -> Map:
    """What layers may look up in their checks."""
    return Map(study.nodes, study.links)


def _workloads(study: Study) -> Iterator[Problem]:
    for name, workload in study.workloads.items():
        path = f"workloads.{name}"
        for field, problem in workload.problems():
            yield f"{path}.{field}" if field else path, problem
        yield from _client(study, path, workload)
        for stack_name, stack in study.stacks.items():
            offered = {layer.gives for layer in stack.layers}
            if not offered & set(workload.takes):
                wants = " or ".join(workload.takes)
                yield path, f"needs a {wants}, which stack {stack_name} does not offer"


def _overfull(path: str, workload: AnyWorkload, name: str, stack: Stack) -> Iterator[Problem]:
    """What a load asks for and a stack surely has not: it would show when the layout stands and is loaded."""
    # At most: mirrors and file systems take their part.
    room = sum(profile.size for profile in stack.layers[0].profiles()) if stack.layers else 0
    if 0 < room < workload.room:
        needs, has = (f"{size / 2**20:,.6g} MiB" for size in (workload.room, room))
        yield path, f"needs {needs}, but the volumes of stack {name} have {has}; make it smaller, or them larger"
    seats = min((layer.seats for layer in stack.layers if layer.seats is not None), default=None)
    if seats is not None and workload.sessions > seats:
        yield (
            path,
            f"has {workload.sessions} connections at once, but the database of stack {name} takes {seats}; raise "
            "its max_connections",
        )


def _client(study: Study, path: str, workload: AnyWorkload) -> Iterator[Problem]:
    client = workload.client
    if not client:
        return
    if client not in study.nodes:
        yield f"{path}.from", f"there is no node {client!r}; there are {_list(study.nodes)}"
        return
    if not set(workload.takes) & {"postgresql", "mysql"}:
        yield f"{path}.from", "only a load on a database can run on another node; leave it out"
        return
    for name, stack in study.stacks.items():
        joined = any(set(link.between) == {client, stack.on} for link in study.links.values())
        if client != stack.on and not joined:
            yield f"{path}.from", f"no link joins {client} to {stack.on}, where stack {name} is active; add one"
        heir = survivor_of(stack) if workload.drilled else ""
        if heir and heir != client and not between(study, client, heir):
            said = (
                f"the {workload.__struct_config__.tag}'s node {client} needs a link to {heir}, which may take over"
            )
            yield f"{path}.from", f"{said}; add one"


def combined_problems(study: Study) -> Iterator[Problem]:
    """What keeps a cell from being built and measured at its levels, of those that are not excluded: what only a
    combination breaks, and what its stack has no room for."""
    for levels in combinations(study):
        kept = {
            name: [each for each in study.workloads if not excluded(study, levels, name, each)]
            for name in study.stacks
        }
        kept = {name: loads for name, loads in kept.items() if loads}
        if not kept:
            continue
        at = variant(study, levels)
        said = ", ".join(f"{name}={level}" for name, level in levels.items())
        for name, loads in kept.items():
            for load in loads:
                for path, problem in _overfull(f"workloads.{load}", at.workloads[load], name, at.stacks[name]):
                    yield path, f"with {said}: {problem}" if said else problem
                    return
        # Each level alone has been looked at.
        if len(study.factors) < 2:
            continue
        links = topology(at, list(kept)).links
        bare = msgspec.structs.replace(
            at, stacks={name: at.stacks[name] for name in kept}, baseline="", links=links, **_BARE
        )
        for path, problem in problems(bare):
            yield f"factors.{next(reversed(levels))}", f"with {said}: {path}: {problem}"
            return


def _factors(study: Study) -> Iterator[Problem]:
    """Each level alone has to make a study that can be built."""
    for name, factor in study.factors.items():
        if name in ("stack", "workload"):
            yield f"factors.{name}", "is what the study already calls its stacks or loads; take another name"
            continue
        try:
            levels = list(assignments(factor))
        except StudyError as error:
            yield f"factors.{name}.{error.path}", error.problem
            continue
        paths = {path for fields in assignments(factor).values() for path in fields}
        if any({"jobfile", "jobtext"} & set(parts_of(path)[-1:]) for path in paths):
            yield f"factors.{name}", "a job file is read once, before the factors; make a load of each file"
            continue
        for level in levels:
            yield from _level(study, name, level)
    for index, entry in enumerate(study.exclude):
        yield from _exclusion(study, f"exclude[{index}]", entry)


def _level(study: Study, name: str, level: str) -> Iterator[Problem]:
    try:
        changed = variant(study, {name: level})
    except StudyError as error:
        yield error.path, error.problem
        return
    # Without its factors, or each level would check all the others again.
    bare = msgspec.structs.replace(changed, **_BARE)
    for path, problem in problems(bare):
        yield f"factors.{name}", f"with the level {level}: {path}: {problem}"
        return


def _exclusion(study: Study, path: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    known = {name: list(assignments(factor)) for name, factor in study.factors.items()}
    known |= {"stack": list(study.stacks), "workload": list(study.workloads)}
    if not entry:
        yield path, "is empty, so it would exclude everything; name a factor and a level"
    for name, wanted in entry.items():
        if name not in known:
            yield f"{path}.{name}", f"there is no factor {name!r}; there are {_list(known)}"
            continue
        for level in level_texts(wanted):
            if level not in known[name]:
                yield f"{path}.{name}", f"there is no level {level!r}; there are {_list(known[name])}"


def _expectations(study: Study) -> Iterator[Problem]:
    for index, claim in enumerate(study.expect):
        yield from ((f"expect[{index}].{field}", problem) for field, problem in _claim(study, claim))


def _claim(study: Study, claim: Expectation) -> Iterator[Problem]:
    for fields, kind, known in (
        (("stack", "relative_to"), "stack", study.stacks),
        (("workload", "against"), "workload", study.workloads),
    ):
        for field in fields:
            name = getattr(claim, field)
            if name and name not in known:
                yield field, f"there is no {kind} {name!r}; there are {_list(known)}"
    if claim.host and claim.host not in study.nodes:
        yield "host", f"there is no node {claim.host!r}; there are {_list(study.nodes)}"
    for field in ("at", "relative_at", "against_at"):
        yield from _levels(study, field, getattr(claim, field))
    for field in ("relative_at", "against", "against_at"):
        if getattr(claim, field) and not claim.relative_to:
            yield field, "compares with another figure, so it needs relative_to as well"
    yield from _bounds(claim)


def _phase(study: Study, claim: Expectation) -> Iterator[Problem]:
    """A phase that the load does not have at its levels, or one of several that is not named."""
    try:
        at = variant(study, {name: level_text(level) for name, level in claim.at.items()})
    except StudyError:
        # A level that is none is refused by itself.
        return
    load = at.workloads.get(claim.workload)
    phases = load.phases if load is not None else None
    if phases is None or claim.phase in phases:
        return
    if phases == ("",):
        yield "phase", f"{claim.workload} has no phases; leave it out"
    elif claim.phase:
        yield "phase", f"{claim.workload} has no phase {claim.phase!r}; there are {_some(phases)}"
    else:
        yield "phase", f"is missing: each figure of {claim.workload} is of one of {_some(phases)}"


def _bounds(claim: Expectation) -> Iterator[Problem]:
    try:
        low, high = claim.bounds
    except ValueError as error:
        yield "between", str(error)
        return
    if claim.relative_to and any(isinstance(bound, str) for bound in claim.between):
        yield "between", "a ratio is a plain number, like [0.4, 0.65]"
    if not (math.isfinite(low) and math.isfinite(high)):
        yield "between", "both bounds must be finite; for an open one write a number that is never reached"
    elif low > high:
        yield "between", "the lower bound comes first"


def _levels(study: Study, field: str, levels: Mapping[str, Any]) -> Iterator[Problem]:
    for name, level in levels.items():
        if name not in study.factors:
            yield f"{field}.{name}", f"there is no factor {name!r}; there are {_list(study.factors) or 'none'}"
        elif level_text(level) not in assignments(study.factors[name]):
            known = _list(assignments(study.factors[name]))
            yield f"{field}.{name}", f"there is no level {level_text(level)!r}; there are {known}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else ""
    return _list(names[:MOST_TOLD]) + more

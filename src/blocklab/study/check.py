"""Whether a study can be built: all that the types alone cannot say. Pure; raises the first problem found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blocklab.errors import StudyError
from blocklab.layers import AnyLayer
from blocklab.model.protocols import Map
from blocklab.study.grid import layer_tag
from blocklab.study.types import Stack, Study

Problem = tuple[str, str]
# Each link is a network 10.77.N.0/24.
MOST_LINKS = 254


def check(study: Study) -> None:
    """Raises ``StudyError`` for the first problem, in the order of the file."""
    for path, problem in problems(study):
        raise StudyError(path, problem)


def problems(study: Study) -> Iterator[Problem]:
    """Every problem as (path in the file, what is wrong and the cure)."""
    yield from _names(study)
    yield from _links(study)
    for name, stack in study.stacks.items():
        yield from _stack(study, name, stack)
    yield from _workloads(study)
    yield from _expectations(study)


def _names(study: Study) -> Iterator[Problem]:
    for field in ("nodes", "stacks", "workloads"):
        if not getattr(study, field):
            yield field, "is empty; a study needs at least one"
    for name, node in study.nodes.items():
        if node.memory < 128 * 2**20:
            yield f"nodes.{name}.memory", "a node does not boot with less than 128MiB"
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
        if link.rtt > 5:
            yield f"{path}.rtt", "over 5 s; the mirror would take the peer for dead"
        if link.jitter > link.rtt:
            yield f"{path}.jitter", "must not be more than the rtt: no packet arrives before it is sent"
        if not 576 <= link.mtu <= 65521:
            yield f"{path}.mtu", "must be from 576 to 65521 bytes"
        if link.rate is not None and link.rate < 1000:
            yield f"{path}.rate", "must be at least 1kbit/s"


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
    for index, layer in enumerate(stack.layers):
        at = f"{path}.layers[{index}]"
        yield from _fits(at, below, layer)
        for field, problem in layer.problems(stack.on, layers):
            yield f"{at}.{field}" if field else at, problem
        below = layer
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
        for stack_name, stack in study.stacks.items():
            offered = {layer.gives for layer in stack.layers}
            if not offered & set(workload.takes):
                wants = " or ".join(workload.takes)
                yield path, f"needs a {wants}, which stack {stack_name} does not offer"


def _expectations(study: Study) -> Iterator[Problem]:
    for index, claim in enumerate(study.expect):
        path = f"expect[{index}]"
        for field in ("stack", "relative_to"):
            stack = getattr(claim, field)
            if stack and stack not in study.stacks:
                yield f"{path}.{field}", f"there is no stack {stack!r}; there are {_list(study.stacks)}"
        for field in ("workload", "against"):
            workload = getattr(claim, field)
            if workload and workload not in study.workloads:
                yield f"{path}.{field}", f"there is no workload {workload!r}; there are {_list(study.workloads)}"
        if claim.against and not claim.relative_to:
            yield f"{path}.against", "compares shares, so it needs relative_to as well"
        try:
            low, high = claim.bounds
        except ValueError as error:
            yield f"{path}.between", str(error)
            continue
        if low > high:
            yield f"{path}.between", "the lower bound comes first"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)

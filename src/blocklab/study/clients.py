"""Whether a workload's client can reach what it works on: its node, its links, and in time. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from blocklab.model.workload import Drilled, Way
from blocklab.study.factors import is_left_out
from blocklab.study.grid import between, is_drill, reached
from blocklab.study.takeover import survivors_of
from blocklab.study.types import Study

Problem = tuple[str, str]


def client_problems(study: Study, name: str) -> Iterator[Problem]:
    """What keeps the workload ``name`` from running on the node that it is to run ``from``."""
    workload, path = study.workloads[name], f"workloads.{name}"
    client = workload.client
    if not client:
        return
    if client not in study.nodes:
        yield f"{path}.from", f"there is no node {client!r}; there are {', '.join(study.nodes)}"
        return
    if not set(workload.takes) & {"postgresql", "mysql"}:
        yield f"{path}.from", "only a workload on a database can run on another node; leave it out"
        return
    for stack_name, stack in study.stacks.items():
        if client != stack.on and not between(study, client, stack.on):
            said = f"no link joins {client} to {stack.on}, where stack {stack_name} is active"
            yield f"{path}.from", f"{said}; add one"
        if is_left_out(study, stack_name, name):
            continue
        for heir in survivors_of(stack) if is_drill(study, name) else ():
            if heir != client and not between(study, client, heir):
                tag = workload.__struct_config__.tag
                said = f"the {tag}'s node {client} needs a link to {heir}, which may take over"
                yield f"{path}.from", f"{said}; add one"
        if isinstance(workload, Drilled):
            hosts = dict.fromkeys((stack.on, *reached(study, name, stack_name)))
            links = {host: link for host in hosts if (link := between(study, client, host))}
            ways = [Way(host, link, study.links[link]) for host, link in links.items()]
            yield from ((f"{path}.{field}", problem) for field, problem in workload.late(stack_name, ways))

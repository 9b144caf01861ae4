"""Whether a load's client can reach what it works on: its node, its links, and in time. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from blocklab.study.factors import is_left_out
from blocklab.study.grid import between, is_drill, reached
from blocklab.study.takeover import survivor_of
from blocklab.study.types import Study
from blocklab.workloads import Ledger

Problem = tuple[str, str]
# netem's jitter is normally distributed: an answer is hardly ever earlier than that.
_SPREADS = 4


def client_problems(study: Study, name: str) -> Iterator[Problem]:
    """What keeps the load ``name`` from running on the node that it is to run ``from``."""
    workload, path = study.workloads[name], f"workloads.{name}"
    client = workload.client
    if not client:
        return
    if client not in study.nodes:
        yield f"{path}.from", f"there is no node {client!r}; there are {', '.join(study.nodes)}"
        return
    if not set(workload.takes) & {"postgresql", "mysql"}:
        yield f"{path}.from", "only a load on a database can run on another node; leave it out"
        return
    for stack_name, stack in study.stacks.items():
        if client != stack.on and not between(study, client, stack.on):
            said = f"no link joins {client} to {stack.on}, where stack {stack_name} is active"
            yield f"{path}.from", f"{said}; add one"
        if is_left_out(study, stack_name, name):
            continue
        heir = survivor_of(stack) if is_drill(study, name) else ""
        if heir and heir != client and not between(study, client, heir):
            said = (
                f"the {workload.__struct_config__.tag}'s node {client} needs a link to {heir}, which may take over"
            )
            yield f"{path}.from", f"{said}; add one"
        if isinstance(workload, Ledger):
            yield from (
                (f"{path}.{field}", problem) for field, problem in _in_time(study, name, stack_name, workload)
            )


def _in_time(study: Study, name: str, stack: str, workload: Ledger) -> Iterator[Problem]:
    """A rate that the client's connections cannot have over its link, and answers that all come too late: a
    transaction takes two round trips."""
    link = between(study, workload.client, study.stacks[stack].on)
    rtt = float(study.links[link].rtt) if link else 0.0
    if workload.rate != "max" and rtt and workload.rate > (most := workload.connections / (2 * rtt)):
        yield (
            "rate",
            f"{workload.rate} a second cannot be had of stack {stack}: the link {link} has an rtt of "
            f"{study.links[link].rtt}, and with two round trips each {workload.connections} connections make "
            f"{most:,.6g} at most; give more connections or a lower rate",
        )
    for host in reached(study, name, stack):
        link = between(study, workload.client, host)
        line = study.links[link] if link else None
        if line is not None and workload.patience <= 2 * (line.rtt - _SPREADS * line.jitter):
            yield (
                "patience",
                f"{workload.patience} are over before an answer can be there: a transaction takes two round "
                f"trips, and the link {link} to {host} has an rtt of {line.rtt}; give more than {2 * line.rtt:g}s",
            )
            return

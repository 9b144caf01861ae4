"""Which data a workload works on: what two cells share one copy of."""

from __future__ import annotations

import hashlib

import msgspec

from blocklab.model.ground import Ground
from blocklab.model.plan import Step, made_once
from blocklab.model.workload import WithData, Workload
from blocklab.study.grid import plan_stack, port_for, topology
from blocklab.study.types import Study


def copied(study: Study, stack: str, ground: Ground, workload: Workload) -> tuple[str, tuple[Step, ...]]:
    """The name of the copy that a workload works on, and the steps that load it; empty for a workload without.

    The name is a hash of the commands that decide what is on the volumes.
    """
    if not isinstance(workload, WithData):
        return "", ()
    steps = workload.data(port_for(workload, plan_stack(study, stack, 0, ground).ports, ground))
    # A stack's name is in its paths, not in its data: two that make the same data share a copy.
    nameless = msgspec.structs.replace(study, stacks={"": study.stacks[stack]})
    ground = msgspec.structs.replace(ground, devices={"": ground.devices[stack]})
    plan = plan_stack(nameless, "", 0, ground)
    sizes = [int(volume.profile.size) for volume in topology(study, [stack]).volumes]
    data = workload.data(port_for(workload, plan.ports, ground))
    what = msgspec.json.encode([made_once(plan.steps), data, sizes])
    return hashlib.sha256(what).hexdigest()[:12], steps

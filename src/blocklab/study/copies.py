"""Which data a workload works on: what two cells share one copy of."""

from __future__ import annotations

import functools
import hashlib

import msgspec

from blocklab.model.ground import Ground
from blocklab.model.plan import Step, made_once
from blocklab.model.workload import WithData, Workload
from blocklab.study.drills import nominal
from blocklab.study.grid import plan_stack, port_for, topology
from blocklab.study.seen import Same
from blocklab.study.types import Study


class Copies:
    """The data that workloads have on a stack, which is planned once for all of them."""

    def __init__(self, study: Study, stack: str, ground: Ground) -> None:
        # A stack's name is in its paths, not in its data: two that make the same data share a copy.
        nameless = msgspec.structs.replace(study, stacks={"": study.stacks[stack]})
        self._ground = msgspec.structs.replace(ground, devices={"": ground.devices[stack]})
        self._plan = plan_stack(nameless, "", 0, self._ground)
        self._made = made_once(self._plan.steps)
        self._sizes = [int(volume.profile.size) for volume in topology(study, [stack]).volumes]
        self._names: dict[Same[Workload], str] = {}

    def name(self, workload: Workload) -> str:
        """The copy's name, a hash of the commands that decide what is on the volumes; empty for a workload without
        data."""
        if not isinstance(workload, WithData):
            return ""
        same = Same[Workload](workload)
        if same not in self._names:
            data = workload.data(port_for(workload, self._plan.ports, self._ground))
            what = msgspec.json.encode([self._made, data, self._sizes])
            self._names[same] = hashlib.sha256(what).hexdigest()[:12]
        return self._names[same]


def copied(study: Study, stack: str, ground: Ground, workload: Workload) -> tuple[str, tuple[Step, ...]]:
    """The name of the copy that a workload works on, and the steps that load it; empty for a workload without."""
    if not isinstance(workload, WithData):
        return "", ()
    steps = workload.data(port_for(workload, plan_stack(study, stack, 0, ground).ports, ground))
    return Copies(study, stack, ground).name(workload), steps


def copy_of(study: Study, stack: str, workload: Workload) -> str:
    """The name of the copy before there is any ground: for telling which cells share one."""
    return _nominal(Same(study), stack).name(workload)


# Each repeat of a grid has the same layouts.
@functools.lru_cache(maxsize=1024)
def _nominal(study: Same[Study], stack: str) -> Copies:
    return Copies(study.thing, stack, nominal(topology(study.thing, [stack])))

"""Probes: what is recorded on every node during a workload. One program on the node, the sampler, prints their
files."""

from __future__ import annotations

from blocklab.model.node_programs import program
from blocklab.model.plan import Argv
from blocklab.model.probe import Probe
from blocklab.probes.cpu import Cpu
from blocklab.probes.disks import Disks
from blocklab.probes.drbd import DrbdCounters
from blocklab.probes.net import Net

PROBES: tuple[Probe, ...] = (Disks(), Cpu(), Net(), DrbdCounters())
SAMPLER = "sampler"


def sampler(seconds: int) -> Argv:
    """The command that prints every probe's file every ``seconds`` until it gets SIGINT."""
    return program(SAMPLER, str(seconds), *(probe.path for probe in PROBES))


__all__ = ["PROBES", "SAMPLER", "Cpu", "Disks", "DrbdCounters", "Net", "sampler"]

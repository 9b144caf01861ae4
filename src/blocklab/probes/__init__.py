"""Probes: watchers that run on every node during a workload, and the parsers of what they print."""

from __future__ import annotations

from blocklab.model.protocols import Probe
from blocklab.probes.cpu import Cpu
from blocklab.probes.drbd import DrbdCounters
from blocklab.probes.iostat import Iostat
from blocklab.probes.net import Net

PROBES: tuple[Probe, ...] = (Iostat(), Cpu(), Net(), DrbdCounters())

__all__ = ["PROBES", "Cpu", "DrbdCounters", "Iostat", "Net"]

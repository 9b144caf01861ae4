"""Faults: what breaks in a drill, and how the survivor notices. One fault = one name in ``AnyFault``."""

from __future__ import annotations

from typing import TypeAlias

from blocklab.faults.link import LinkCut, LinkLoss, LinkSlow
from blocklab.faults.node import Crash, Freeze, PowerCut
from blocklab.faults.takeover import Takeover
from blocklab.faults.volume import VolumeError, VolumeFull, VolumeStall

AnyFault: TypeAlias = (
    Crash | PowerCut | Freeze | LinkCut | LinkLoss | LinkSlow | VolumeError | VolumeStall | VolumeFull
)

__all__ = [
    "AnyFault",
    "Crash",
    "Freeze",
    "LinkCut",
    "LinkLoss",
    "LinkSlow",
    "PowerCut",
    "Takeover",
    "VolumeError",
    "VolumeFull",
    "VolumeStall",
]

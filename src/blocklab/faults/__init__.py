"""Faults: what breaks in a drill, and how the survivor notices."""

from __future__ import annotations

from typing import TypeAlias

from blocklab.faults.node import Crash, Freeze, PowerCut
from blocklab.faults.takeover import Takeover

AnyFault: TypeAlias = Crash | PowerCut | Freeze

__all__ = ["AnyFault", "Crash", "Freeze", "PowerCut", "Takeover"]

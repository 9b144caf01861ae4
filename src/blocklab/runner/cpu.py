"""What this machine's CPU takes, as a cost for nodes in virtual time."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec

from blocklab.model.ground import CpuCost
from blocklab.model.units import Duration
from blocklab.sites import cpu
from blocklab.sites.machine import cpu_model
from blocklab.store.floor import Reading, reading

ROUNDS = 5


class Measured(msgspec.Struct, frozen=True):
    """What was measured, and ``cost``, which stands for it in a study."""

    syscall: Reading
    fault: Reading
    cost: CpuCost


def measured() -> Measured:
    """Measure it: about ten seconds of CPU time. ``OSError`` where the machine does not let it."""
    rounds = [(cpu.syscall(), cpu.fault()) for _ in range(ROUNDS)]
    syscall, fault = (reading(values, "s") for values in zip(*rounds, strict=True))
    model = cpu_model(Path("/proc/cpuinfo").read_text(errors="replace"))
    source = f"{model}, {datetime.date.today()}"
    return Measured(syscall, fault, CpuCost(_two_digits(syscall.value), _two_digits(fault.value), source))


def _two_digits(seconds: float) -> Duration:
    """No less than a nanosecond."""
    return Duration(f"{max(1e-3, 1e6 * seconds):.2g}us")

"""How busy this machine has been: CPU time used and stolen, and how long programs waited for a CPU."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# cpu  1953146 15180 668118 2987112 20086 0 5947 9514 0 0
#      user nice system idle iowait irq softirq steal guest guest_nice,
# https://man7.org/linux/man-pages/man5/proc_stat.5.html
_IDLE, _IOWAIT, _STEAL, _COUNTED = 3, 4, 7, 8


def spent(proc: Path = Path("/proc")) -> dict[str, float]:
    """Seconds so far: ``time`` by the clock; ``all`` CPUs' time, of which ``busy`` and ``steal``; ``pressure``,
    while at least one program waited for a CPU (PSI), where the kernel counts it. Raises ``OSError``."""
    ticks = [int(field) for field in (proc / "stat").read_text().split("\n", 1)[0].split()[1 : 1 + _COUNTED]]
    idle = ticks[_IDLE] + ticks[_IOWAIT]
    found = {
        "time": time.monotonic(), "all": sum(ticks) / _TICKS, "busy": (sum(ticks) - idle) / _TICKS,
        "steal": ticks[_STEAL] / _TICKS,
    }  # fmt: skip
    with contextlib.suppress(OSError):
        # some avg10=26.74 avg60=59.53 avg300=55.09 total=5185820637
        some = (proc / "pressure" / "cpu").read_text().split("\n", 1)[0]
        found["pressure"] = int(some.rpartition("=")[2]) / 1e6
    return found

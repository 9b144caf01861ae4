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


# 4242 (linux.uml) S 4200 4242 4242 0 -1 4194560 81 0 0 0 12 30 4 5 20 0 1 0 ...
# pid (comm) state ppid ... utime stime cutime cstime (fields 14 to 17; comm may hold anything),
# https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
_PARENT, _OWN = 1, slice(11, 15)


def spent(proc: Path = Path("/proc"), root: int | None = None) -> dict[str, float]:
    """Seconds so far: ``time`` by the clock; ``all`` CPUs' time, of which ``busy``, ``steal``, and what programs
    took that do not descend from the process ``root``, blocklab's own (``foreign``); ``pressure``, while at least
    one program waited for a CPU (PSI), where the kernel counts it. Raises ``OSError``."""
    ticks = [int(field) for field in (proc / "stat").read_text().split("\n", 1)[0].split()[1 : 1 + _COUNTED]]
    idle = ticks[_IDLE] + ticks[_IOWAIT]
    found = {
        "time": time.monotonic(), "all": sum(ticks) / _TICKS, "busy": (sum(ticks) - idle) / _TICKS,
        "steal": ticks[_STEAL] / _TICKS,
    }  # fmt: skip
    found["foreign"] = found["busy"] - found["steal"] - _descendants(proc, root or os.getpid()) / _TICKS
    with contextlib.suppress(OSError):
        # some avg10=26.74 avg60=59.53 avg300=55.09 total=5185820637
        some = (proc / "pressure" / "cpu").read_text().split("\n", 1)[0]
        found["pressure"] = int(some.rpartition("=")[2]) / 1e6
    return found


def _descendants(proc: Path, root: int) -> int:
    """Ticks of CPU that a process and all that it started have taken, ended ones that were waited for among
    them."""
    parents, took = {}, {}
    for file in proc.glob("[0-9]*/stat"):
        # Some end meanwhile.
        with contextlib.suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            pid = int(file.parent.name)
            parents[pid], took[pid] = int(fields[_PARENT]), sum(map(int, fields[_OWN]))

    def ours(pid: int) -> bool:
        while pid not in (root, 0):
            pid = parents.get(pid, 0)
        return pid == root

    return sum(ticks for pid, ticks in took.items() if ours(pid))

"""How much memory new programs may take on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

# What the kernel gives back when somebody needs it.
_CACHE = ("active_file", "inactive_file", "slab_reclaimable")


def available(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of memory that new programs may take, by /proc/meminfo and the limits of this process's cgroups.

    Raises ``OSError`` where there is no such file, ``ValueError`` where it does not say.
    """
    for line in (proc / "meminfo").read_text().splitlines():
        # MemAvailable:   22819636 kB
        if line.startswith("MemAvailable:"):
            return min([int(line.split()[1]) * 1024, *_left(proc, cgroups)])
    raise ValueError(f"{proc}/meminfo does not say how much memory is available")


def _left(proc: Path, cgroups: Path) -> Iterator[int]:
    """What each cgroup (version 2) above this process has left of its limit; cache counts as free."""
    with contextlib.suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            # 0::/user.slice/user-1000.slice
            if line.startswith("0::/"):
                own = cgroups / line.removeprefix("0::/")
                for folder in (own, *own.parents):
                    with contextlib.suppress(OSError, ValueError):
                        # "max" where there is no limit
                        most = int((folder / "memory.max").read_text())
                        used = int((folder / "memory.current").read_text())
                        rows = dict(row.split() for row in (folder / "memory.stat").read_text().splitlines())
                        yield max(0, most - used + sum(int(rows.get(name, 0)) for name in _CACHE))

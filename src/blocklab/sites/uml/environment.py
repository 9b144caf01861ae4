"""The fingerprint of the machine and of the image that a run was measured on."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blocklab import __version__
from blocklab.errors import SetupError
from blocklab.sites.uml.image import Image


def cpu_model(cpuinfo: str) -> str:
    """The first ``model name`` of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        # model name	: Intel(R) Xeon(R) Processor @ 2.50GHz
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_available(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of memory that new programs may take, by /proc/meminfo and the limits of this process's cgroups."""
    for line in (proc / "meminfo").read_text().splitlines():
        # MemAvailable:   22819636 kB
        if line.startswith("MemAvailable:"):
            return min([int(line.split()[1]) * 1024, *_left(proc, cgroups)])
    raise SetupError("/proc/meminfo does not say how much memory is available")


def _left(proc: Path, cgroups: Path) -> Iterator[int]:
    """What each cgroup (version 2) above this process has left of its limit; page cache that can go counts as
    free."""
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
                        rows = (row.split() for row in (folder / "memory.stat").read_text().splitlines())
                        idle = int(dict(rows).get("inactive_file", 0))
                        yield max(0, most - used + idle)


def environment(image: Image) -> dict[str, Any]:
    """blocklab, host kernel, CPU model and count, image key, shim, and every package's version in the image."""
    return {
        "blocklab": __version__,
        "site": "uml",
        "host": {
            "kernel": platform.release(),
            "cpu": cpu_model(Path("/proc/cpuinfo").read_text(errors="replace")),
            "cpus": len(os.sched_getaffinity(0)),
        },
        "image": image.key,
        "shim": image.shim is not None,
        "packages": image.packages,
    }

"""The fingerprint of the machine and of the image that a run was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from blocklab import __version__
from blocklab.sites.uml.image import Image


def cpu_model(cpuinfo: str) -> str:
    """The first ``model name`` of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        # model name	: Intel(R) Xeon(R) Processor @ 2.50GHz
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


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

"""The fingerprint of the machine and of the image that a run was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from blocklab import __version__
from blocklab.sites.machine import cpu_model, this_machine
from blocklab.sites.uml.image import Image
from blocklab.sites.uml.pinning import pinning


def environment(image: Image) -> dict[str, Any]:
    """blocklab, host kernel, CPU model and count, image key, shim, every package's version in the image, and
    the SHA-256 of kernel modules of the user's own."""
    return {
        "blocklab": __version__,
        "site": "uml",
        **this_machine(),
        "host": {
            "kernel": platform.release(),
            "cpu": cpu_model(Path("/proc/cpuinfo").read_text(errors="replace")),
            "cpus": len(os.sched_getaffinity(0)),
            "pinning": pinning().choice,
        },
        "image": image.key,
        "shim": image.shim is not None,
        "packages": image.packages,
        **({"modules": image.modules} if image.modules else {}),
    }

"""The fingerprint of the machine and of the image that a run was measured on."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blocklab import __version__
from blocklab.sites.uml.image import Image
from blocklab.sites.uml.pinning import pinning


def cpu_model(cpuinfo: str) -> str:
    """The first ``model name`` of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        # model name	: Intel(R) Xeon(R) Processor @ 2.50GHz
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def machine(files: Sequence[Path] = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))) -> str:
    """12 hex digits that stand for this machine: a hash of its machine-id, which is not to be shown itself
    (machine-id(5)). Empty where it has none, as many containers: their names are others after each start."""
    for file in files:
        with contextlib.suppress(OSError):
            if text := file.read_text().strip():
                return hashlib.sha256(f"blocklab {text}".encode()).hexdigest()[:12]
    return ""


def environment(image: Image) -> dict[str, Any]:
    """blocklab, host kernel, CPU model and count, image key, shim, every package's version in the image, and
    the SHA-256 of kernel modules of the user's own."""
    return {
        "blocklab": __version__,
        "site": "uml",
        "machine": machine(),
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

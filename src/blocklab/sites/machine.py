"""Which machine this is: an identity that no other machine has, and a name for people.

=====================  ===========================================================================================
``BLOCKLAB_MACHINE``   is both, where it is set: workers that share a computer, or nodes of a cluster by their name
machine-id             stands for the machine; a hash of it, since it is not to be shown itself (machine-id(5))
boot id                stands for it until the kernel starts again, in a container: the machine-id there is its
                       image's, which all machines that run the image share; or there is none
=====================  ===========================================================================================
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path

GIVEN = "BLOCKLAB_MACHINE"
_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
_BOOT = "proc/sys/kernel/random/boot_id"
# Docker's and Podman's marks.
_CONTAINER = (".dockerenv", "run/.containerenv")


def this_machine(variables: Mapping[str, str] = os.environ, root: Path = Path("/")) -> dict[str, str]:
    """``machine`` (12 hex digits, empty where nothing tells) and ``name`` of an environment."""
    if given := given_name(variables):
        return given
    contained = any((root / mark).exists() for mark in _CONTAINER) or "KUBERNETES_SERVICE_HOST" in variables
    files = [] if contained else [root / file for file in _IDS]
    for file in (*files, root / _BOOT):
        with contextlib.suppress(OSError):
            if text := file.read_text().strip():
                return {"machine": hashed(text), "name": platform.node()}
    return {"machine": "", "name": platform.node()}


def cpu_model(cpuinfo: str) -> str:
    """The first ``model name`` of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        # model name	: Intel(R) Xeon(R) Processor @ 2.50GHz
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def hides_itself(cpuinfo: str) -> bool:
    """Whether the CPU can keep from programs which one it is (CPUID faulting), by /proc/cpuinfo."""
    # flags		: fpu vme de pse tsc msr pae ... invpcid_single cpuid_fault fsgsbase tsc_adjust
    flags = next((line for line in cpuinfo.splitlines() if line.startswith("flags")), "")
    return "cpuid_fault" in flags.split()


def given_name(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The same by ``BLOCKLAB_MACHINE``; nothing where it is not set."""
    given = variables.get(GIVEN, "").strip()
    return {"machine": hashed(f"{GIVEN} {given}"), "name": given} if given else {}


def hashed(text: str) -> str:
    """12 hex digits that stand for a text."""
    return hashlib.sha256(f"blocklab {text}".encode()).hexdigest()[:12]

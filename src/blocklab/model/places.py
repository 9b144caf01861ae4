"""Where blocklab and its workloads keep files on a host: below two folders that only root can write to. Its agent
makes both (``blocklab_node.agent``)."""

from __future__ import annotations

# Small things, which users of services may read. No programs: many hosts mount /run noexec.
RUN = "/run/blocklab"
STATE = "/var/lib/blocklab"
# In every PATH on a host.
PROGRAMS = f"{STATE}/bin"


def run(name: str) -> str:
    """A file or folder that is small and gone after a boot."""
    return f"{RUN}/{name}"


def work(name: str) -> str:
    """A file or folder of a workload, as large as it likes."""
    return f"{STATE}/work/{name}"


def log(name: str) -> str:
    """A server's log."""
    return f"{STATE}/log/{name}.log"

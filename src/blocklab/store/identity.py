"""Which site and machine a run was measured on: runs of two of them must never pass for each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Identity(msgspec.Struct, frozen=True):
    """``machine`` identifies the machine, or all machines of the site; empty where a run does not tell (those of
    older versions, and imported ones)."""

    site: str
    machine: str
    cpu: str
    cpus: int

    def may_be(self, other: Identity) -> bool:
        """Whether it can be the same: all that both tell agrees."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return all(mine == its or not (mine and its) for mine, its in pairs)

    def __str__(self) -> str:
        machine = f", machine {self.machine}" if self.machine else ""
        return f"{self.site or 'unknown site'}, {self.cpus or '?'} x {self.cpu or 'unknown CPU'}{machine}"


def identity(environment: Mapping[str, Any]) -> Identity:
    """That of a site's or a run's environment."""
    host = environment.get("host", {})
    return Identity(
        str(environment.get("site", "")), str(environment.get("machine", "")), str(host.get("cpu", "")),
        int(host.get("cpus", 0)),
    )  # fmt: skip

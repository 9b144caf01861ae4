"""Which kernel parameters a node has."""

from __future__ import annotations

import re

from blocklab.model import known

# "net.ipv4.conf.vec0.rp_filter": there is one for each interface, and a node's links have theirs.
_OF_INTERFACES = re.compile(r"^(net\.ipv[46]\.(?:conf|neigh))\.[^.]+\.")


def generic(name: str) -> str:
    """A parameter of one interface by the name that all have: ``net.ipv4.conf.*.rp_filter``."""
    return _OF_INTERFACES.sub(r"\1.*.", name)


def problem(name: str) -> str | None:
    """Why a node's kernel would refuse to set this parameter; None where it has it."""
    names = known.table("sysctl")[""]
    if generic(name) in names:
        return None
    return f"a node's kernel has no such parameter{known.nearest(generic(name), names)}"

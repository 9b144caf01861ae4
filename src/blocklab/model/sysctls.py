"""Which kernel parameters a node has."""

from __future__ import annotations

import re

from blocklab.model.knobs import Knob, Question, Table, Tell, nearest

# "net.ipv4.conf.vec0.rp_filter": there is one for each interface, and a node's links have theirs.
_OF_INTERFACES = re.compile(r"^(net\.ipv[46]\.(?:conf|neigh))\.[^.]+\.")


def generic(name: str) -> str:
    """A parameter of one interface by the name that all have: ``net.ipv4.conf.*.rp_filter``."""
    return _OF_INTERFACES.sub(r"\1.*.", name)


def ask(tell: Tell, where: str) -> Table:
    """The kernel's parameters, those of interfaces once."""
    # net.ipv4.tcp_rmem
    names = tell("sysctl", "-a", "-N").split()
    if "vm.dirty_ratio" not in names:
        raise ValueError(f"sysctl listed no parameters: {' '.join(names)[:200]}")
    return {"": dict.fromkeys(sorted(map(generic, names)), Knob())}


QUESTION = Question("sysctl", ask)


def unknown(name: str, table: Table) -> str | None:
    """Why a node's kernel would refuse to set this parameter; None where it has it."""
    if generic(name) in table[""]:
        return None
    return f"a node's kernel has no such parameter{nearest(generic(name), table[''])}"

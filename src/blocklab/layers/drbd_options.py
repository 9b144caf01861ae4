"""Which options DRBD 8.4 takes in which section, and with which values."""

from __future__ import annotations

import re

from blocklab.model import known

# "250k", "102400k", "100s" (sectors), "2M", "8000", as drbdsetup prints them.
SIZE = re.compile(r"^(?P<number>-?\d+)(?P<unit>[kKmMgGs]?)$")
UNITS = {"": 1, "s": 512, "k": 2**10, "m": 2**20, "g": 2**30}
# drbd.conf has a resource's name, which drbdadm makes a number of.
_BY_NAME = frozenset({"resync-after"})
# The activity log that create-md makes has 8 blocks of 4 KiB, one of them in use, of 919 extents each.
EXTENTS = 7 * 919


def problem(section: str, name: str, value: str) -> str | None:
    """Why DRBD would refuse this option of a resource's ``net`` or ``disk`` section, take another value, or want a
    handler; None where it takes it as it is."""
    if (section, name) == ("net", "protocol"):
        return "give the protocol as the layer's own field"
    sections = known.table("drbd")
    knob = sections[section].get(name)
    if knob is None:
        return _elsewhere(section, name)
    if name in _BY_NAME:
        return None
    if knob.kind == "truth" and value not in ("yes", "no"):
        return f"{value!r} is neither true nor false"
    if knob.kind == "word" and value not in knob.words:
        return known.not_among(value, knob.words)
    if knob.kind == "word" and _handled(name, value):
        return f"{value!r} calls a handler of drbd.conf, and a node has none; leave it out"
    return _number(name, knob, value) if knob.kind == "integer" else None


def _handled(name: str, value: str) -> bool:
    """Whether DRBD would call a handler, without whose success ``fencing`` lets no side be promoted alone."""
    # call-local-io-error, call-pri-lost, call-pri-lost-after-sb
    return value.startswith("call-") or (name == "fencing" and value != "dont-care")


def _elsewhere(section: str, name: str) -> str:
    sections = known.table("drbd")
    for other, knobs in sections.items():
        if name in knobs:
            cure = "write it there" if other in ("net", "disk") else "a study does not set those"
            return f"is an option of DRBD's {other} section; {cure}"
    return f"DRBD 8.4 has no such {section} option{known.nearest(name, sections[section])}"


def _number(name: str, knob: known.Knob, value: str) -> str | None:
    match = SIZE.match(value)
    if match is None:
        return f"{value!r} is not a number; write it like 8000 or 2M"
    size = int(match["number"]) * UNITS[match["unit"].lower() or knob.unit]
    if name == "al-extents" and size > EXTENTS:
        return f"{value} is more than the activity log has room for: at most {EXTENTS}, as the kernel would take"
    # Bounds are in the option's own unit, sectors or KiB for some.
    return known.outside(knob, size / UNITS[knob.unit], value, knob.unit)

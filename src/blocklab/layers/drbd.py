"""A synchronous or asynchronous mirror of a block device on a peer: the kernel's DRBD 8.4."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

from blocklab.layers.base import Base
from blocklab.model.plan import Fact, Kind, Plan, Port, Put, Run, Step, Wait
from blocklab.model.protocols import Map, Place

Value: TypeAlias = str | int | bool
FIRST_PORT = 7000
# DRBD's own names are lower-case words with dashes; anything else could end the option and start another.
_OPTION = re.compile(r"^[a-z][a-z0-9-]*$")
_VALUE = re.compile(r"^[A-Za-z0-9_.:/%-]+$")
# "250k", "102400k", "100s" (sectors), "2M", "8000", as drbdsetup prints them.
_SIZE = re.compile(r"^(?P<number>\d+)(?P<unit>[kKmMgGs]?)$")
_UNITS = {"": 1, "s": 512, "k": 2**10, "m": 2**20, "g": 2**30}
# A full copy that takes longer than this is taken for stuck.
SYNC_SECONDS = 3600.0


class Drbd(Base, frozen=True, tag="drbd"):
    """A mirror on the node ``peer`` over ``link``.

    ``protocol``: C acknowledges a write when both disks have it, B when the peer's memory has it, A when it is
    in the local send buffer. ``net`` and ``disk`` take DRBD's options by their own names (drbd.conf(5)).
    Without ``initial_sync`` both sides start as equal (``new-current-uuid --clear-bitmap``): the volumes are
    fresh and zero on both sides. With it the whole device is copied first.
    """

    peer: str
    link: str
    protocol: Literal["A", "B", "C"] = "C"
    net: dict[str, Value] = {}
    disk: dict[str, Value] = {}
    initial_sync: bool = False

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"

    def problems(self, host: str, map: Map) -> list[tuple[str, str]]:
        """A peer that is not another known node, a link that does not join the two, options DRBD cannot read."""
        found = []
        if self.peer == host:
            found.append(("peer", f"{self.peer!r} is the node that the stack is active on; name another node"))
        elif self.peer not in map.nodes:
            found.append(("peer", f"there is no node {self.peer!r}; there are {', '.join(map.nodes)}"))
        if self.link not in map.links:
            known = ", ".join(map.links) or "none"
            found.append(("link", f"there is no link {self.link!r}; there are {known}"))
        elif set(map.links[self.link].between) != {host, self.peer}:
            ends = " and ".join(map.links[self.link].between)
            found.append(("link", f"{self.link} joins {ends}, not {host} and {self.peer}"))
        for section, options in (("net", self.net), ("disk", self.disk)):
            found += _bad_options(section, options)
        if "protocol" in self.net:
            found.append(("net.protocol", "give the protocol as the layer's own field"))
        return found

    def spans(self, host: str) -> tuple[str, ...]:
        """The host and its peer."""
        return (host, self.peer)

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Both sides up and connected, ``place.host`` primary, both disks up to date."""
        here, name = place.host, place.stack
        sides = {port.host: port.where for port in below}
        config = self.config(place, sides)
        steps: list[Step] = []
        for host in sides:
            steps += [
                # There are no handlers; asking drbdadm for them at each change only takes the node's time.
                Run(host, ("modprobe", "drbd", "usermode_helper=disabled")),
                Put(host, f"/etc/drbd.d/{name}.res", config),
                Run(host, ("drbdadm", "create-md", "--force", name), once=True),
            ]
        # The active side's "up" comes last, so that its undo comes first: nodes are taken down in turn.
        for host in reversed(sides):
            steps.append(Run(host, ("drbdadm", "up", name), undo=("drbdadm", "down", name)))
        steps.append(Wait(here, ("drbdadm", "cstate", name), until="Connected"))
        seconds = 10.0
        if self.initial_sync:
            promote: tuple[str, ...] = ("drbdadm", "primary", "--force", name)
            seconds = SYNC_SECONDS
        else:
            steps.append(Run(here, ("drbdadm", "--", "--clear-bitmap", "new-current-uuid", name), once=True))
            promote = ("drbdadm", "primary", name)
        steps.append(Run(here, promote, undo=("drbdadm", "secondary", name)))
        steps.append(Wait(here, ("drbdadm", "dstate", name), until="UpToDate/UpToDate", seconds=seconds))
        return Plan(
            steps=tuple(steps),
            facts=(
                *(self._options(name, host) for host in sides),
                _state(here, name, "cstate", "Connected"),
                _state(here, name, "dstate", "UpToDate/UpToDate"),
            ),
            ports=(Port(here, "block", f"/dev/drbd{place.number}"),),
        )

    def config(self, place: Place, sides: Mapping[str, str]) -> str:
        """The resource file, the same on both sides."""
        lines = [f"resource {place.stack} {{", "  net {", f"    protocol {self.protocol};"]
        lines += [f"    {name} {_text(value)};" for name, value in self.net.items()]
        lines += ["  }", "  disk {"]
        lines += [f"    {name} {_text(value)};" for name, value in self.disk.items()]
        lines += ["  }"]
        for host, device in sides.items():
            address = place.ground.ends[self.link][host].address
            lines += [
                f"  on {host} {{",
                f"    device /dev/drbd{place.number} minor {place.number};",
                f"    disk {device};",
                f"    address {address}:{FIRST_PORT + place.number};",
                "    meta-disk internal;",
                "  }",
            ]
        return "\n".join([*lines, "}", ""])

    def _options(self, name: str, host: str) -> Fact:
        wanted: dict[str, str] = {"net.protocol": self.protocol}
        wanted |= {f"net.{option}": canonical(_text(value)) for option, value in self.net.items()}
        wanted |= {f"disk.{option}": canonical(_text(value)) for option, value in self.disk.items()}
        return Fact(host, "drbd", ("drbdsetup", "show", name, "--show-defaults"), parse_show, wanted)


def _state(host: str, name: str, what: str, wanted: str) -> Fact:
    # Asked before and after each load: a mirror that broke meanwhile was not measured.
    return Fact(host, "drbd", ("drbdadm", what, name), lambda text: {what: text.strip()}, {what: wanted})


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _bad_options(section: str, options: Mapping[str, Value]) -> list[tuple[str, str]]:
    found = []
    for name, value in options.items():
        if not _OPTION.match(name):
            found.append((f"{section}.{name}", "is not a DRBD option's name; see drbd.conf(5)"))
        elif not _VALUE.match(_text(value)):
            found.append((f"{section}.{name}", f"{_text(value)!r} is not a value that drbd.conf can hold"))
    return found


def parse_show(text: str) -> dict[str, str]:
    """``drbdsetup show`` as ``section.option`` -> value; sections of the hosts (_this_host) are left out."""
    found: dict[str, str] = {}
    sections: list[str] = []
    for raw in text.splitlines():
        line = raw.split("#")[0].strip()
        if line.endswith("{"):
            sections.append(line.removesuffix("{").strip())
        elif line == "}":
            sections.pop()
        elif line.endswith(";") and sections and sections[-1] in ("net", "disk", "options"):
            option, _, value = line.removesuffix(";").partition(" ")
            found[f"{sections[-1]}.{option}"] = canonical(value.strip().strip('"'))
    return found


def canonical(value: str) -> str:
    """``2M`` and ``2048k`` are the same to DRBD, which shows either: sizes as a plain number of bytes."""
    match = _SIZE.match(value)
    return str(int(match["number"]) * _UNITS[match["unit"].lower()]) if match else value

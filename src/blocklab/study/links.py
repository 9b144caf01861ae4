"""Links: addresses, MTU and netem; and the files that give access to servers. Not a layer, since several stacks
may share one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from blocklab.model import access, node_programs, outside
from blocklab.model.ground import End, Ground, LinkSpec, Topology
from blocklab.model.netem import netem
from blocklab.model.plan import Argv, Equip, Fact, Plan, Run, Step
from blocklab.model.stack_map import fields

_MOST_PINGS, _LEAST_PINGS = 200, 20
_PING_SECONDS = 0.3
# A block of 4 KiB, and what an ordinary ping carries.
_MIRROR_BYTES, _SMALL_BYTES = 4096, 56
# 4104 bytes from 10.77.1.2: icmp_seq=1 ttl=64 time=0.604 ms
_ANSWER = re.compile(r"^\d+ bytes from .* time=(\d+(?:\.\d+)?) ms$", re.MULTILINE)


def plan_wires(shape: Topology, ground: Ground) -> Plan:
    """What nodes get once after they booted, for as long as they run: programs, kernel parameters, interfaces,
    bonds, addresses. None of it is undone with a stack: a vec interface that went down does not come up again.
    Hosts that go on afterwards get their own kernel parameters back by their site. Interfaces that are given are
    left alone, whatever their MTU."""
    steps: list[Step] = []
    facts: list[Fact] = []
    for host, spec in shape.nodes.items():
        steps.append(Equip(host))
        for name, value in spec.sysctl.items():
            steps.append(Run(host, node_programs.program("verbs", "sysctl", name, str(value))))
            facts.append(
                Fact(host, "sysctl", ("sysctl", "-n", name), partial(_sysctl, name), _sysctl(name, str(value)))
            )
    for name, link in shape.links.items():
        for host in link.between:
            end = ground.ends[name][host]
            show = ("ip", "-j", "link", "show", "dev", end.nic)
            if end.given:
                facts.append(Fact(host, f"link {name}", show, _mtu))
                continue
            if link.lanes > 1:
                steps += _bond(host, end, link)
                wanted = {"lanes": str(link.lanes), "bond": link.bond}
                facts.append(Fact(host, f"link {name}", ("cat", f"/proc/net/bonding/{end.nic}"), _bonding, wanted))
            steps += [
                Run(host, ("ip", "link", "set", end.nic, "mtu", str(link.mtu), "up")),
                Run(host, ("ip", "addr", "add", f"{end.address}/24", "dev", end.nic)),
            ]
            facts.append(Fact(host, f"link {name}", show, _mtu, {"mtu": str(link.mtu)}))
    return Plan(tuple(steps), tuple(facts))


def plan_access(shape: Topology, ground: Ground) -> Plan:
    """The files by which workloads reach databases that ask for a password, on each host: its own and others'.
    They go with the stack."""
    steps = (step for host in shape.nodes for step in access.files(host)) if ground.guarded else ()
    return Plan(tuple(steps))


def plan_links(shape: Topology, ground: Ground) -> Plan:
    """What may change while nodes run: delay on the first end of each lane only, rate on both ends."""
    steps: list[Step] = []
    facts: list[Fact] = []
    for name, link in shape.links.items():
        for side, host in enumerate(link.between):
            if not shaped(name, ground):
                break
            delay, wanted = netem(link, first=side == 0, delay=ground.delays.get(name))
            for lane in ground.ends[name][host].lanes if delay else ():
                steps.append(
                    Run(
                        host,
                        ("tc", "qdisc", "add", "dev", lane, "root", "netem", *delay),
                        undo=("tc", "qdisc", "del", "dev", lane, "root"),
                    )
                )
                at = f"link {name}" if link.lanes == 1 else f"link {name} {lane}"
                facts.append(Fact(host, at, ("tc", "-j", "qdisc", "show", "dev", lane), _netem, wanted))
    for name, link in shape.links.items():
        # Recorded, not demanded: what the link takes is a value of the run, and the report shows it.
        argv, count = _ping(name, link, ground)
        facts.append(Fact(link.between[0], f"link {name}", argv, partial(_rtt, count), timed=f"link {name}"))
    return Plan(tuple(steps), tuple(facts))


def shaped(name: str, ground: Ground) -> bool:
    """Whether netem makes a link's delay and rate."""
    return all(end.shaped for end in ground.ends[name].values())


def delayed(name: str, link: LinkSpec, ground: Ground, delay: float) -> tuple[Run, ...]:
    """Steps that set netem's delay (s) of a link that has one; undone with the link."""
    host = link.between[0]
    argv, _ = netem(link, first=True, delay=delay)
    return tuple(
        Run(host, ("tc", "qdisc", "change", "dev", lane, "root", "netem", *argv))
        for lane in ground.ends[name][host].lanes
    )


def _ping(name: str, link: LinkSpec, ground: Ground) -> tuple[Argv, int]:
    """One ping after the other over a link, and how many: each is sent when the one before was answered (``-A``),
    as a mirror's writes at queue depth 1. Fewer over a slow link, for some 0.3 s in all.

    Each has the size of a mirror's write. Over a link with a rate it is small, for what a rate makes of a write is
    not the link's round trip.
    """
    count = max(_LEAST_PINGS, min(_MOST_PINGS, round(_PING_SECONDS / max(link.rtt, 1e-6))))
    size = _MIRROR_BYTES if link.rate is None else _SMALL_BYTES
    there = ground.ends[name][link.between[1]].address
    return ("ping", "-A", "-c", str(count), "-s", str(size), "-n", "-W", "7", there), count


def _bond(host: str, end: End, link: LinkSpec) -> Iterator[Run]:
    """The lanes as one interface; they are still down, as a lane has to be when it joins."""
    # By itself the module makes a bond0 of its own as soon as it is loaded.
    yield Run(host, ("modprobe", "bonding", "max_bonds=0"))
    # The MTU comes first: a lane takes the bond's when it joins, and a vec refuses any but the one it booted with.
    bond = ("ip", "link", "add", end.nic, "mtu", str(link.mtu), "type", "bond", "mode", link.bond)
    # By addresses and ports: by addresses alone all streams between two nodes would take the same lane.
    spread = ("xmit_hash_policy", "layer3+4") if link.bond == "balance-xor" else ()
    yield Run(host, (*bond, "miimon", "100", *spread))
    for lane in end.lanes:
        yield Run(host, ("ip", "link", "set", lane, "master", end.nic))


def _bonding(text: str) -> dict[str, str]:
    # Bonding Mode: load balancing (round-robin)
    # Slave Interface: vec0
    modes = {"round-robin": "balance-rr", "active-backup": "active-backup", "xor": "balance-xor"}
    found = {"lanes": str(text.count("Slave Interface: "))}
    for line in text.splitlines():
        if line.startswith("Bonding Mode: "):
            said = line.partition("(")[2].rstrip(")")
            found["bond"] = modes.get(said, said)
    return found


def _sysctl(name: str, text: str) -> dict[str, str]:
    # "4096\t131072\t6291456": the kernel puts tabs between the three of tcp_rmem
    return {name: " ".join(text.split())}


def _mtu(text: str) -> dict[str, str]:
    return {"mtu": str(outside.as_json(text, "ip")[0]["mtu"])}


def _netem(text: str) -> dict[str, str]:
    # [{"kind":"netem","handle":"8001:","root":true,"options":{"limit":100000,
    #   "delay":{"delay":0.0027,"jitter":0,"correlation":0},"rate":{"rate":12500000,...},"ecn":false,"gap":0}}]
    # Seconds, and bytes per second.
    found = {}
    for qdisc in outside.as_json(text, "tc"):
        if qdisc["kind"] != "netem":
            continue
        options = qdisc["options"]
        found["limit"] = str(options["limit"])
        # tc leaves out a delay of nothing, which is all that netem may add where the link itself takes the time.
        delay = options.get("delay", {"delay": 0, "jitter": 0})
        found["delay"] = f"{round(delay['delay'] * 1e6)}us"
        found["jitter"] = f"{round(delay['jitter'] * 1e6)}us"
        if "rate" in options:
            found["rate"] = f"{round(options['rate']['rate'] * 8)}bit/s"
    return found


def _rtt(sent: int, text: str) -> dict[str, str]:
    """The round trips in seconds, by the fields of ``Took``; nothing where no answer came."""
    return fields([float(match[1]) / 1e3 for match in _ANSWER.finditer(text)], sent)

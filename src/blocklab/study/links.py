"""Links: addresses, MTU and netem. Not a layer, since several stacks may share one."""

from __future__ import annotations

import json
from functools import partial

from blocklab.model.ground import End, Ground, LinkSpec, Topology
from blocklab.model.plan import Argv, Fact, Plan, Run, Step

# What a link of the lab takes by itself (two context switches and a netem timer); ``bench/floor.py`` measures it.
# An rtt of 0.5 ms in the study means that a ping takes 0.5 ms, so netem gets the rest.
BASE_RTT = 0.00015
# netem's queue in packets. The default of 1000 drops at 20 ms and full speed, which TCP takes for congestion.
NETEM_LIMIT = 100_000


def plan_links(shape: Topology, ground: Ground) -> Plan:
    """Bring every link up on both ends; delay on the first end only, rate on both."""
    steps: list[Step] = []
    facts: list[Fact] = []
    for name, link in shape.links.items():
        for side, host in enumerate(link.between):
            end = ground.ends[name][host]
            steps += [
                Run(host, ("ip", "link", "set", end.nic, "mtu", str(link.mtu), "up")),
                Run(host, ("ip", "addr", "add", f"{end.address}/24", "dev", end.nic)),
            ]
            facts.append(
                Fact(
                    host,
                    f"link {name}",
                    ("ip", "-j", "link", "show", "dev", end.nic),
                    _mtu,
                    {"mtu": str(link.mtu)},
                )
            )
            delay, wanted = netem(link, first=side == 0)
            if delay:
                steps.append(Run(host, ("tc", "qdisc", "add", "dev", end.nic, "root", "netem", *delay)))
                facts.append(
                    Fact(host, f"link {name}", ("tc", "-j", "qdisc", "show", "dev", end.nic), _netem, wanted)
                )
    for name, link in shape.links.items():
        facts.append(_ping(name, link, ground.ends[name]))
    return Plan(tuple(steps), tuple(facts))


def netem(link: LinkSpec, *, first: bool) -> tuple[Argv, dict[str, str]]:
    """netem's arguments at one end, and the values to find in force. Empty when nothing is asked of it."""
    argv: list[str] = []
    wanted: dict[str, str] = {}
    if first and link.rtt:
        delay = round(max(0.0, link.rtt - BASE_RTT) * 1e6)
        argv += ["delay", f"{delay}us"]
        wanted["delay"] = f"{delay}us"
        if link.jitter:
            jitter = round(link.jitter * 1e6)
            argv += [f"{jitter}us", "distribution", "normal"]
            wanted["jitter"] = f"{jitter}us"
    if link.rate is not None:
        argv += ["rate", f"{round(link.rate)}bit"]
        wanted["rate"] = f"{round(link.rate)}bit/s"
    if not argv:
        return (), {}
    wanted["limit"] = str(NETEM_LIMIT)
    return ("limit", str(NETEM_LIMIT), *argv), wanted


def _mtu(text: str) -> dict[str, str]:
    return {"mtu": str(json.loads(text)[0]["mtu"])}


def _netem(text: str) -> dict[str, str]:
    # [{"kind":"netem","handle":"8001:","root":true,"options":{"limit":100000,
    #   "delay":{"delay":0.0027,"jitter":0,"correlation":0},"rate":{"rate":12500000,...},"ecn":false,"gap":0}}]
    # Seconds, and bytes per second.
    found = {}
    for qdisc in json.loads(text):
        if qdisc["kind"] != "netem":
            continue
        options = qdisc["options"]
        found["limit"] = str(options["limit"])
        if "delay" in options:
            found["delay"] = f"{round(options['delay']['delay'] * 1e6)}us"
            found["jitter"] = f"{round(options['delay']['jitter'] * 1e6)}us"
        if "rate" in options:
            found["rate"] = f"{round(options['rate']['rate'] * 8)}bit/s"
    return found


def _ping(name: str, link: LinkSpec, ends: dict[str, End] | object) -> Fact:
    here, there = link.between
    address = ends[there].address  # type: ignore[index]
    # Recorded, not demanded: what the link takes is a figure of the run, and the report shows it.
    return Fact(
        here, f"link {name}", ("ping", "-q", "-c", "20", "-i", "0.02", "-W", "7", address), partial(_rtt, address)
    )


def _rtt(address: str, text: str) -> dict[str, str]:
    # rtt min/avg/max/mdev = 0.543/0.601/0.733/0.043 ms
    for line in text.splitlines():
        if line.startswith("rtt min/avg/max/mdev = "):
            low, mean, high, spread = line.split(" = ")[1].removesuffix(" ms").split("/")
            return {
                "ping min": f"{low}ms",
                "ping mean": f"{mean}ms",
                "ping max": f"{high}ms",
                "ping mdev": f"{spread}ms",
            }
    return {"ping": f"no answer from {address}"}

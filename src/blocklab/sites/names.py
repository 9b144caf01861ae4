"""The names of links and volumes: a pure function of what is asked for."""

from __future__ import annotations

from blocklab.model.ground import End, Ground, Topology


def ground(topology: Topology, *, virtio: bool = False) -> Ground:
    """Interfaces in the order of the links, devices in the order of the volumes, on each node. ``virtio``: all of
    them, and the root, are virtio devices."""
    ends: dict[str, dict[str, End]] = {}
    nics = dict.fromkeys(topology.nodes, 0)
    bonds = dict.fromkeys(topology.nodes, 0)
    card = "eth" if virtio else "vec"
    for number, (name, link) in enumerate(topology.links.items(), 1):
        ends[name] = {}
        for side, node in enumerate(link.between, 1):
            lanes = tuple(f"{card}{nics[node] + lane}" for lane in range(link.lanes))
            nics[node] += link.lanes
            nic = lanes[0]
            if link.lanes > 1:
                nic = f"bond{bonds[node]}"
                bonds[node] += 1
            ends[name][node] = End(nic, f"10.77.{number}.{side}", lanes)
    devices: dict[str, dict[str, tuple[str, ...]]] = {}
    plain = dict.fromkeys(topology.nodes, ord("b"))
    served = dict.fromkeys(topology.nodes, ord("b") if virtio else ord("a"))
    for volume in topology.volumes:
        kind, letters = ("ubd", plain) if volume.profile.plain and not virtio else ("vd", served)
        for node in volume.nodes:
            mine = devices.setdefault(volume.stack, {})
            mine[node] = (*mine.get(node, ()), f"/dev/{kind}{chr(letters[node])}")
            letters[node] += 1
    return Ground(ends, devices)

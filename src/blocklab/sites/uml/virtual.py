"""The UML site in virtual time: the same nodes on a kernel whose clock does not follow this machine's. One program
gives out the time and is volumes, wires and consoles at once (``volume/lab.rs``). Of all processes one runs at a
time, so all share a CPU, and what they measure does not depend on how fast that is."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path
from typing import Any

from blocklab.errors import ImageError, NodeLost, SetupError
from blocklab.layers.performance import LATENCIES
from blocklab.model.clock import Timer
from blocklab.model.ground import Ground, Profile, Topology
from blocklab.model.site import (
    EmulatedLinks,
    EmulatedVolumes,
    KnownOptions,
    OwnTime,
    Pauses,
    Power,
    Refill,
    Room,
    Snapshots,
)
from blocklab.sites.machine import hides_itself
from blocklab.sites.names import ground
from blocklab.sites.uml import image as images
from blocklab.sites.uml import recipe, tools
from blocklab.sites.uml.environment import environment
from blocklab.sites.uml.node import Node, common_argv, mac_of
from blocklab.sites.uml.processes import Process, scratch
from blocklab.sites.uml.simulator import EPOCH, PATIENCE, WIRE, Simulator
from blocklab.sites.uml.site import BOOT_SECONDS, UmlLab, UmlSite, cpu_of
from blocklab.sites.uml.volumes import Volume, behaviour, make_file, wait_for_socket
from blocklab.store.run import HIDDEN

# What a request takes of a volume that has no latency of its own, in seconds: without, any number of them would
# take no time at all.
LEAST = 20e-6
ADDON = recipe.VIRTUAL.name
# A volume, a network card, a console (virtio 1.2, 5).
_BLOCK, _NET, _CONSOLE = 2, 1, 3
# The image's file is the first of all volumes.
_ROOT = 0
_NANO = 1_000_000_000
# What a node's kernel prints for each 10 ms that it let pass (kernel/cpu.patch).
# <3>time-travel: mariadbd (412) spins; the clock goes on without it
SPUN = re.compile(r"time-travel: (.+) \(\d+\) spins;")
HAS = frozenset({Power, Pauses, Snapshots, Refill, OwnTime})


class VirtualLab(UmlLab):
    """Started nodes in virtual time. Its links and volumes are exact, so none is tuned."""

    offers = HAS

    def __init__(
        self, image: images.Image, topology: Topology, base: Path, volumes: Path | None, seed: int
    ) -> None:
        self._seed = self._drawn = seed
        self._saved: dict[str, list[str]] = {}
        self._of_data: list[str] = []
        self._simulator: Simulator | None = None
        super().__init__(image, topology, base, volumes)

    @property
    def timer(self) -> Timer:
        """The nodes' time."""
        return self._time

    @property
    def _time(self) -> Simulator:
        assert self._simulator is not None
        return self._simulator

    def _start(self, topology: Topology) -> None:
        self._topology = topology
        for spec in topology.volumes:
            volume = Volume(spec, self._place, self.folder)
            make_file(volume.file, int(spec.profile.size))
            self._volumes.append(volume)
        self._begin(self._seed)

    def begin(self, seed: str) -> None:
        """Boot all nodes anew, in another lab as it were, but with the copies of this one's volumes."""
        self._end()
        self.restore("")
        self._begin(zlib.crc32(f"{self._seed} {seed}".encode()))

    def save(self, name: str) -> None:
        """As in real time; with what may have come out otherwise until then."""
        super().save(name)
        self._saved[name] = self._own_doubts()

    def restore(self, name: str) -> None:
        """As in real time."""
        super().restore(name)
        self._of_data = self._saved.get(name, [])

    def doubts(self) -> list[str]:
        """Of nodes whose clock had to go on without a process that never asked the kernel for anything, since they
        were booted or while the data were made that they have."""
        return [*(f"while the data were loaded, {each}" for each in self._of_data), *self._own_doubts()]

    def _own_doubts(self) -> list[str]:
        spun = {name: SPUN.findall(node.console()) for name, node in self._nodes.items()}
        return [
            f"{name}: {', '.join(sorted(set(who)))} computed for 10 s or more of this machine's CPU time "
            f"without a system call: the clock went on without it for {10 * len(who)} ms; another run may "
            "come out otherwise"
            for name, who in spun.items()
            if who
        ]

    def _begin(self, seed: int) -> None:
        control = self.folder / "control"
        process = self._process(
            "virtual time", [str(self._image.volume_server), json.dumps({"lab": self._config()})],
            self.folder / "lab.log", folder=self.folder,
        )  # fmt: skip
        wait_for_socket(control, process)
        self._drawn = seed
        self._simulator = simulator = Simulator(process, control)
        simulator.lost = self._lost
        for name in self._topology.nodes:
            self._boot(name)
        # All are there before time passes for any.
        for name in self._topology.nodes:
            simulator.expect(name, self._nodes[name].process)
        for name in self._topology.nodes:
            self._ready(name)

    def _end(self) -> None:
        """End all nodes and their time; what stands on them is gone."""
        for process in reversed(self._processes):
            process.kill()
        for process in self._processes:
            process.wait_gone()
            self._folder.forget(process)
        self._processes.clear()
        self._time.close()
        sockets = [port["socket"] for name in self._topology.nodes for _, port in self._ports(name)]
        # What the next nodes print is to be told from what these did.
        consoles = [f"{name}.console" for name in self._topology.nodes]
        for file in ("control", "time", *sockets, *consoles):
            (self.folder / file).unlink()

    def _process(self, name: str, argv: Any, log: Path, **options: Any) -> Process:
        # One of them runs at a time: to wake another CPU would only take longer.
        options["cpus"] = [cpu_of(0)]
        return super()._process(name, argv, log, **options)

    def _config(self) -> dict[str, Any]:
        """Of ``volume/lab_control.rs``. Sockets have relative paths: they stand on the nodes' command lines, which
        their kernels make random numbers of."""
        profiles = [_behaviour(each.profile, f"{each.spec.nodes[0]}-{each.spec.index}") for each in self._volumes]
        return {
            "control": "control",
            "time": "time",
            "epoch": EPOCH * _NANO,
            "wire": WIRE,
            "patience": PATIENCE * _NANO,
            "volumes": [
                {"file": str(self._image.rootfs), "profile": {}, "read_only": True},
                *(
                    {"file": str(volume.file), "profile": profile}
                    for volume, profile in zip(self._volumes, profiles, strict=True)
                ),
            ],
            "nodes": [
                {"name": name, "ports": [port for _, port in self._ports(name)]} for name in self._topology.nodes
            ],
        }

    def _ports(self, name: str) -> list[tuple[int, dict[str, Any]]]:
        """Of a node: each device's virtio number and what the program is to make of its socket, in an order that
        gives them the names of ``names.ground``."""
        ports: list[tuple[int, dict[str, Any]]] = [
            (_BLOCK, {"socket": f"{name}.root", "volume": _ROOT, "read_only": True}),
            (_CONSOLE, {"socket": f"{name}.line"}),
        ]
        for number, volume in enumerate(self._volumes, _ROOT + 1):
            if name in volume.spec.nodes:
                ports.append((_BLOCK, {"socket": f"{name}.disk{number}", "volume": number}))
        card = 0
        for wire, link in enumerate(self._topology.links.values()):
            for lane in range(link.lanes):
                if name in link.between:
                    (peer,) = set(link.between) - {name}
                    port = {"socket": f"{name}.wire{wire}.{lane}", "peer": f"{peer}.wire{wire}.{lane}"}
                    ports.append((_NET, {**port, "mac": mac_of(name, card), "mtu": link.mtu}))
                    card += 1
        return ports

    def _boot(self, name: str) -> None:
        number = list(self._topology.nodes).index(name)
        virtual = self._image.kernel.with_name(tools.VIRTUAL_KERNEL)
        argv = [
            *common_argv(virtual, name, self._topology.nodes[name].memory, "uml/"),
            f"time-travel=ext:{number}:time",
            f"random_seed={zlib.crc32(f'{self._drawn} {name}'.encode())}",
            *(f"cpu_{what}={round(cost * _NANO)}" for what, cost in self._topology.nodes[name].cpu_costs.items()),
            *(f"virtio_uml.device={port['socket']}:{kind}" for kind, port in self._ports(name)),
            "root=/dev/vda", "line=/dev/hvc0", "ssl=null",
        ]  # fmt: skip
        process = self._process(
            f"node {name}", argv, self.folder / f"{name}.console", folder=self.folder,
            environment={"LD_PRELOAD": str(self._image.shim), "TMPDIR": str(self.folder)},
        )  # fmt: skip
        self._nodes[name] = Node(name, process, self._time.line(name))

    def _ready(self, name: str) -> None:
        node = self._nodes[name]
        self._time.expect(name, node.process)
        if not node.channel.wait(node.channel.ready, BOOT_SECONDS):
            raise NodeLost(name, "it did not boot in time", node.console())
        if node.channel.lost:
            node.run(("true",))

    def _lost(self, name: str, why: str) -> None:
        node = self._nodes[name]
        said = "its kernel ended"
        if why == "hung":
            said = f"hung: it ran for {PATIENCE} s of real time without asking for virtual time"
            node.crash()
            self._time.bury(name)
        node.channel.fail(NodeLost(name, said, node.console()))

    def crash(self, host: str) -> None:
        """End a node's process, at this moment of its time."""
        super().crash(host)
        self._time.bury(host)

    def freeze(self, host: str) -> None:
        """Give a node no turns."""
        self._time.freeze(host, frozen=True)

    def thaw(self, host: str) -> None:
        """Let a node go on."""
        self._time.freeze(host, frozen=False)

    def order(self, stack: str, node: str, op: str, index: int = 0, **fields: Any) -> dict[str, Any]:
        """As in real time (``UmlLab.order``), for volumes without a profile too. Raises ``SetupError``."""
        found = self._find(stack, node, index)
        if found is None:
            raise SetupError(f"{node} has no volume {index} of {stack}")
        return self._time.order(self._volumes.index(found) + _ROOT + 1, op, **fields)

    def refill(self) -> None:
        """As in real time. Raises ``SetupError``."""
        for number in range(len(self._volumes)):
            self._time.order(number + _ROOT + 1, "reset")

    def close(self) -> None:
        """End every process, then remove the files. Safe to call twice."""
        super().close()
        if self._simulator is not None:
            self._simulator.close()


def _behaviour(profile: Profile, place: str) -> dict[str, Any]:
    """As ``volumes.behaviour`` has it, with a latency at least."""
    found = behaviour(profile, place)
    for name in LATENCIES:
        if not found.get(name):
            found[name] = LEAST
    return found


class VirtualSite(UmlSite):
    """Nodes on this machine, in virtual time. ``seed`` is for all that is drawn: the same, the same figures."""

    name = "virtual"
    offers = HAS | {EmulatedLinks, EmulatedVolumes, Room, KnownOptions}

    def __init__(self, volumes: Path | None = None, addons: tuple[str, ...] = (), seed: int = 0) -> None:
        super().__init__(volumes, images.require((ADDON, *addons)))
        self._seed = seed

    def ground(self, topology: Topology) -> Ground:
        """The names that ``start`` will give."""
        return ground(topology, virtio=True)

    def start(self, topology: Topology) -> VirtualLab:
        """Boot the nodes. Raises ``SetupError``, ``ImageError``, ``NodeLost``, ``StudyError``."""
        self.room(topology, 1)
        image = images.require((ADDON, *topology.addons))
        if image.shim is None:
            raise ImageError("the image has no shim, and virtual time needs it", hint="install a C compiler (cc)")
        return VirtualLab(image, topology, scratch(), self._volumes, self._seed)

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        """That of real time, with no machine: none has a part in the figures, but for a CPU that programs can see.
        Raises ``ImageError``."""
        known = environment(images.require((ADDON, *addons)))
        host = known.pop("host")
        del known["shim"]
        hidden = hides_itself(Path("/proc/cpuinfo").read_text(errors="replace"))
        return {
            **known,
            "site": self.name,
            "machine": "",
            "name": self.name,
            "clock": self.name,
            "host": {"cpu": HIDDEN if hidden else host["cpu"], "cpus": 1},
            "computed": {name: host[name] for name in ("kernel", "cpu")},
        }

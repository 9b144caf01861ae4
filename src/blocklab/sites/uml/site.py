"""The UML site: nodes as ordinary processes, links as socketpairs, volumes as sparse files in memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from blocklab.errors import SetupError
from blocklab.layers.performance import CAPS
from blocklab.model.ground import Ground, Topology, VolumeSpec
from blocklab.model.host import Host, must
from blocklab.model.knobs import Tables
from blocklab.model.plan import Argv
from blocklab.model.quantiles import at, shifted
from blocklab.model.site import (
    Doctor,
    EmulatedLinks,
    EmulatedVolumes,
    KnownOptions,
    OneMachine,
    Pauses,
    Power,
    Refill,
    Requirement,
    Room,
    Setup,
    Snapshots,
    Standing,
)
from blocklab.sites import standing_lab
from blocklab.sites.names import ground
from blocklab.sites.uml import doctor, packages
from blocklab.sites.uml import image as images
from blocklab.sites.uml.environment import environment
from blocklab.sites.uml.line import SerialLine
from blocklab.sites.uml.node import Node, kernel_argv
from blocklab.sites.uml.pinning import cpus_of, pinning
from blocklab.sites.uml.pressure import spent
from blocklab.sites.uml.processes import Folder, Process, check_path, scratch
from blocklab.sites.uml.room import check_room, shortage
from blocklab.sites.uml.volumes import Volume, behaviour, copy_sparse, empty, make_file
from blocklab.sites.uml.watch import Watch

BOOT_SECONDS = 30.0
# What an Ethernet frame has beside its payload, and more.
FRAME = 64
# One socketpair buffer holds about 100 full frames; the default would drop under load.
LINK_BUFFER = 1 << 20


OFFERS = frozenset(
    {
        Power,
        Pauses,
        Snapshots,
        Refill,
        EmulatedLinks,
        EmulatedVolumes,
        OneMachine,
        Room,
        Standing,
        Doctor,
        Setup,
        KnownOptions,
    }
)


class UmlLab:
    """Started nodes. ``close`` ends everything; a janitor does it when blocklab is killed."""

    offers = OFFERS

    def __init__(self, image: images.Image, topology: Topology, base: Path, volumes: Path | None) -> None:
        self._image = image
        self._nodes: dict[str, Node] = {}
        self._processes: list[Process] = []
        self._volumes: list[Volume] = []
        self._watch: Watch | None = None
        self._cables = contextlib.ExitStack()
        # Of each node: its ends of the links, with the largest MTU of each.
        self._ends: dict[str, list[tuple[socket.socket, int]]] = {}
        self._open = True
        # Where nodes and volumes find no more room when it is full.
        self._places = [base, volumes] if volumes else [base]
        self._folder = Folder(base)
        self.folder = self._folder.path
        self._disk: Folder | None = None
        try:
            self._disk = Folder(volumes) if volumes else None
            self._place = self._disk.path if self._disk else self.folder
            self._start(topology)
        except BaseException:
            self.close()
            raise

    # -- start -------------------------------------------------------------------------------------------

    def _start(self, topology: Topology) -> None:
        place = self._place
        for spec in topology.volumes:
            volume = Volume(spec, place, self.folder)
            make_file(volume.file, int(spec.profile.size))
            self._volumes.append(volume)
            volume.serve(self._image, self._process)
        self._topology = topology
        self._ends = self._links(topology)
        for name in topology.nodes:
            self._boot(name)
        # Before the first order to a node: whoever waits for its answer is told what became of it.
        servers = [(each.server, each.spec.nodes) for each in self._volumes if each.server is not None]
        self._watch = Watch(self._nodes, servers, self.shortage)
        for name in topology.nodes:
            self._ready(name)

    def _links(self, topology: Topology) -> dict[str, list[tuple[socket.socket, int]]]:
        """A socketpair for each lane of each link.

        Our copies stay open: a crashed node's end would be closed otherwise, and the driver of a node that sends
        to a closed one spins for ever. A power cut at the far end leaves a cable that takes packets, too.
        """
        nics: dict[str, list[tuple[socket.socket, int]]] = {name: [] for name in topology.nodes}
        for link in topology.links.values():
            pairs = (socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(link.lanes))
            for node, end in (each for pair in pairs for each in zip(link.between, pair, strict=True)):
                self._cables.enter_context(end)
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LINK_BUFFER)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, LINK_BUFFER)
                nics[node].append((end, link.mtu))
        return nics

    def _process(self, name: str, argv: Sequence[str], log: Path, **options: Any) -> Process:
        """Start a process that ends with the lab. Raises ``SetupError``."""
        if pinning().choice == "one":
            options.setdefault("cpus", [cpu_of(0)])
        try:
            process = Process(name, argv, log, lab=self._folder.path, **options)
            self._processes.append(process)
            self._folder.note(process)
        except OSError as error:
            raise SetupError(f"{name} cannot be started: {error}", hint=self.shortage()) from error
        return process

    def _boot(self, name: str) -> None:
        topology = self._topology
        number = list(topology.nodes).index(name)
        nics = [(end.fileno(), mtu) for end, mtu in self._ends[name]]
        mine = [volume for volume in self._volumes if name in volume.spec.nodes]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            argv = kernel_argv(
                self._image.kernel, node=name, memory=topology.nodes[name].memory, rootfs=self._image.rootfs,
                folder=self.folder,
                disks=[(volume.file, volume.shared) for volume in mine if volume.profile.plain],
                sockets=[volume.sockets[name] for volume in mine if not volume.profile.plain],
                nics=nics, line=theirs.fileno(),
            )  # fmt: skip
            preload = {"LD_PRELOAD": str(self._image.shim)} if self._image.shim else {}
            process = self._process(
                f"node {name}", argv, self.folder / f"{name}.console", cpus=[cpu_of(number)],
                keep=[*(fd for fd, _ in nics), theirs.fileno()],
                environment={**preload, "TMPDIR": str(self.folder)},
            )  # fmt: skip
        self._nodes[name] = Node(name, process, SerialLine(name, ours))

    def _ready(self, name: str) -> None:
        self._nodes[name].wait_ready(time.monotonic() + BOOT_SECONDS)
        self._nodes[name].set_clock()
        if any(not volume.profile.plain for volume in self._volumes if name in volume.spec.nodes):
            must(self._nodes[name], ("modprobe", "virtio_blk"))

    # -- Lab -----------------------------------------------------------------------------------------------

    @property
    def hosts(self) -> Mapping[str, Host]:
        """The nodes by name."""
        return self._nodes

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name, with what only this site offers (terminals, clocks)."""
        return self._nodes

    def _find(self, stack: str, node: str, index: int) -> Volume | None:
        for volume in self._volumes:
            if volume.spec.stack == stack and node in volume.spec.nodes and volume.spec.index == index:
                return volume
        return None

    def volume(self, stack: str, node: str, index: int = 0) -> Path | None:
        """The file behind a volume."""
        found = self._find(stack, node, index)
        return found.file if found else None

    def order(self, stack: str, node: str, op: str, index: int = 0, **fields: Any) -> dict[str, Any]:
        """Have a volume's server do something while it runs (``orders.order``): count, fail, stall, be retuned.
        Raises ``SetupError``."""
        found = self._find(stack, node, index)
        if found is None:
            raise SetupError(f"{node} has no volume {index} of {stack}")
        return found.order(op, **fields)

    def set_latencies(self, spec: VolumeSpec, added: Mapping[str, float], *, whole: bool) -> None:
        """By an order to the volume's server."""
        profile = behaviour(spec.profile)
        changed: dict[str, Any] = {name: profile.get(name, 0) if whole else 0 for name in CAPS}
        for way, latency in added.items():
            changed[f"{way}_latency"] = latency
            if table := profile.get(f"{way}_quantiles"):
                changed[f"{way}_quantiles"] = shifted(table, latency - at(table, 0.5)) if whole else None
        self.order(spec.stack, spec.nodes[0], "retune", spec.index, profile=changed)

    def crash(self, host: str) -> None:
        """End a node's process."""
        self._nodes[host].crash()

    def freeze(self, host: str) -> None:
        """Stop a node's processes."""
        self._nodes[host].freeze()

    def thaw(self, host: str) -> None:
        """Let a node's processes go on."""
        self._nodes[host].thaw()

    def boot(self, host: str) -> None:
        """Boot a node again that was crashed. Raises ``SetupError`` for one that runs, ``NodeLost``."""
        name = host
        dead = self._nodes[name]
        if not dead.doomed.is_set():
            raise SetupError(f"{name} was not crashed, so it cannot be booted again")
        dead.process.wait_gone()
        dead.channel.close()
        self._processes.remove(dead.process)
        self._folder.forget(dead.process)
        # What was sent to it while it was dead is lost, as on any wire.
        for end, mtu in self._ends.get(name, ()):
            with contextlib.suppress(BlockingIOError):
                while end.recv(mtu + FRAME):
                    pass
        self._boot(name)
        self._ready(name)

    def save(self, name: str) -> None:
        """Keep a copy of all volumes under a name, for ``restore``. No stack may stand on them. Raises
        ``SetupError`` where they cannot be copied."""
        folder = self._place / f"saved-{name}"
        try:
            with self._copying():
                folder.mkdir()
                for number, volume in enumerate(self._volumes):
                    copy = folder / str(number)
                    make_file(copy, int(volume.profile.size))
                    copy_sparse(volume.file, copy)
        except SetupError:
            # Half a copy would pass for one.
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def restore(self, name: str) -> None:
        """Put the volumes back as they were at ``save``; as empty as at the start, without a name. Raises
        ``SetupError`` where they cannot be copied."""
        with self._copying():
            for number, volume in enumerate(self._volumes):
                empty(volume.file)
                if name:
                    copy_sparse(self._place / f"saved-{name}" / str(number), volume.file)

    def refill(self) -> None:
        """Fill the volumes' bursts again, and begin the draws of their latencies again. Raises ``SetupError``."""
        for volume in self._volumes:
            volume.reset()

    @contextlib.contextmanager
    def _copying(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SetupError(
                f"the volumes cannot be copied in {self._place.parent}: {error.strerror}",
                hint="make room there, or keep the volumes elsewhere with --volumes DIR",
            ) from error

    def spent(self) -> Mapping[str, float]:
        """What this machine has spent so far. Raises ``OSError``."""
        return spent()

    def shortage(self) -> str:
        """The place of nodes or volumes that is full, with the hint; empty where they have room."""
        return shortage(self._places)

    def close(self) -> None:
        """End every process, then remove the files. Safe to call twice."""
        if not self._open:
            return
        self._open = False
        if self._watch is not None:
            self._watch.close()
        for process in reversed(self._processes):
            process.kill()
        self._cables.close()
        for node in self._nodes.values():
            node.channel.close()
        try:
            for process in self._processes:
                process.wait_gone()
        finally:
            self._folder.close()
            if self._disk:
                self._disk.close()


def cpu_of(number: int) -> int:
    """The CPU of the n-th node, of those that this process may use: the first node has one for itself where there
    are several, and the others go round robin over the rest; or all share one where that is faster (``pinning``).

    A peer or a client beside the active node takes that node's time, and a mirror would seem to cost more than it
    does.
    """
    first, *rest = cpus_of(pinning().choice, tuple(os.sched_getaffinity(0)))
    return rest[(number - 1) % len(rest)] if number and rest else first


class UmlSite(standing_lab.ByDoor):
    """Nodes on this machine.

    ``volumes`` is a folder for the volumes; None keeps them in memory. ``image`` is the node image; None takes
    this version's own.
    """

    name = "uml"
    offers = OFFERS

    def __init__(self, volumes: Path | None = None, image: images.Image | None = None) -> None:
        if volumes is not None and not volumes.is_dir():
            raise SetupError(f"--volumes {volumes}: no such folder", hint="create it first, or use another one")
        if volumes is not None and not os.access(volumes, os.W_OK | os.X_OK):
            raise SetupError(f"--volumes {volumes} cannot be written to", hint="use a folder of yours")
        if volumes is not None:
            real = volumes.resolve()
            check_path(real, f"--volumes {real}")
        self._volumes = volumes
        self._image = image

    def ground(self, topology: Topology) -> Ground:
        """The names that ``start`` will give."""
        return ground(topology)

    def start(self, topology: Topology) -> UmlLab:
        """Boot the nodes. Raises ``SetupError``, ``ImageError``, ``NodeLost``, ``StudyError``."""
        self.room(topology, 1)
        return UmlLab(self._image or images.require(topology.addons), topology, scratch(), self._volumes)

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        """Machine, kernel, CPU, image, the version of every package in it, and where volumes are. Raises
        ``ImageError``."""
        place = self._volumes.absolute() if self._volumes else scratch()
        return {**environment(self._image or images.require(addons)), "volumes": str(place)}

    def room(self, topology: Topology, copies: int, labs: int = 1) -> str:
        """Whether nodes and volumes fit into this machine's memory. Raises ``StudyError``."""
        return check_room(topology, volumes=self._volumes, copies=copies, labs=labs)

    def options(self, addons: tuple[str, ...] = ()) -> Tables:
        """What the programs in the image told; nothing without an image."""
        image = self._image or images.find(addons)
        return image.options if image else {}

    def keep_options(self, tables: Tables, addons: tuple[str, ...] = ()) -> None:
        """Beside the image. Raises ``ImageError``."""
        (self._image or images.require(addons)).keep_options(tables)

    # -- a lab that stays up -----------------------------------------------------------------------------------

    # -- requirements ------------------------------------------------------------------------------------------

    def requirements(self) -> Sequence[Requirement]:
        """What this machine has and lacks."""
        return doctor.facts()

    # -- setting up --------------------------------------------------------------------------------------------

    def missing_packages(self) -> Mapping[str, str]:
        """Debian packages."""
        return doctor.host_packages()

    def installing(self, names: Sequence[str]) -> Sequence[Argv]:
        """By apt-get. Raises ``SetupError``."""
        return packages.installing(names)

    def install(self, names: Sequence[str]) -> None:
        """By apt-get. Raises ``SetupError``."""
        packages.install(names)

    def prepare(self, say: Callable[[str], None]) -> None:
        """The node image, with its shim. Raises ``ImageError``."""
        image = images.find()
        if image is None or image.shim is None:
            images.build(say)

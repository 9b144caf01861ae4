"""A limit on a block device inside the node: the kernel's block throttling, by cgroup v1 or v2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, TypeAlias

from blocklab.layers.base import LayerBase
from blocklab.layers.performance import BEHAVIOUR, BURST, LATENCIES, bad_limits, given
from blocklab.model import places
from blocklab.model.ground import Performance, Topology
from blocklab.model.layer import Layer, Place
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Run, Step, Wait
from blocklab.model.spans import one_copy
from blocklab.model.stack_map import device_of
from blocklab.model.units import Bandwidth

# Our field, the file of cgroup v1's blkio controller, the key in cgroup v2's io.max.
LIMITS: dict[str, tuple[str, str]] = {
    "read_iops": ("blkio.throttle.read_iops_device", "riops"),
    "write_iops": ("blkio.throttle.write_iops_device", "wiops"),
    "read_bandwidth": ("blkio.throttle.read_bps_device", "rbps"),
    "write_bandwidth": ("blkio.throttle.write_bps_device", "wbps"),
}
# All nodes' commands run in it under cgroup v2; one for all caps of a node, since a process is in one group only.
GROUP = "blocklab"
Parse: TypeAlias = Callable[[str], dict[str, str]]
# The kernel keeps IOPS in 32 bits.
MOST_IOPS = 2**32 - 1


class Cap(LayerBase, frozen=True, tag="cap"):
    """A limit on each device below (``volume``, ``stripe``, ``drbd``), by the node's own kernel: cgroup v1 or v2.

    The devices pass through. An instance's limit belongs above the stripe: below it, each volume has the limit for
    itself. The kernel counts each direction by itself, so a mixed workload may get both limits at once. A limit on
    reads and writes together is the volume's own (``iops``, ``bandwidth`` of ``volume``).

    Example::

        - {layer: cap, read_iops: 1000, write_iops: 1000, by: cgroup-v2}

    Example, by an instance's profile::

        - {layer: cap, profile: ec2-m5-large}

    A node has one version of the block controller at a time: do not mix both in one stack.

    In both versions a buffered write returns as soon as it is in memory, and writeback joins neighbouring pages to
    requests of up to a megabyte or so, each counted as one I/O. A workload that writes buffered and in order can
    so be many times over the IOPS limit as it counts its own writes; only ``direct`` I/O is counted one to one,
    and a bandwidth limit holds for both.

    Read back: each limit of each device, from the controller's files; with v2 also the group that commands run in.
    """

    read_iops: int | None = None
    """Reads per second: ``blkio.throttle.read_iops_device`` of v1, ``riops`` in ``io.max`` of v2."""
    write_iops: int | None = None
    """Writes per second: ``blkio.throttle.write_iops_device``, ``wiops``."""
    read_bandwidth: Bandwidth | None = None
    """Bytes per second, at least 4096B/s: ``blkio.throttle.read_bps_device``, ``rbps``."""
    write_bandwidth: Bandwidth | None = None
    """Bytes per second, at least 4096B/s: ``blkio.throttle.write_bps_device``, ``wbps``."""
    profile: str = ""
    """An instance's limit by its name, e.g. ``ec2-m5-large`` or ``azure-d4s-v3``, or one of the study's own: see
    ``profiles``. What it says of both directions together holds for each of them here."""
    by: Literal["cgroup-v1", "cgroup-v2"] = "cgroup-v1"
    """``cgroup-v1`` sets the limits of the root group. They hold for every process and for the kernel's own
    threads: for a mirror's writes from the peer, and for writeback of the page cache. ``cgroup-v2`` sets
    ``io.max`` of a group ``blocklab``, into which the node's command agent moves, and so everything started from
    then on: loads and the database servers above. Threads of the kernel stay outside: a mirror's writes from the
    peer are not capped, nor is writeback to files that were made outside of the group."""
    performance: Performance | None = None
    """What the profile said; blocklab fills it in for the record. It cannot be given."""

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"
    title: ClassVar[str] = "IOPS cap"

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """No limit at all, limits of nothing, a profile with what a cap cannot hold."""
        found = []
        for name in (*LATENCIES, *BURST, *BEHAVIOUR):
            if self.performance is not None and getattr(self.performance, name):
                found.append(
                    ("profile", f"{self.profile} has a {name}, which a cap cannot hold; give it to the volume")
                )
                break
        if not self.limits():
            found.append(("", "limits nothing; give read_iops, write_iops, read_bandwidth or write_bandwidth"))
        found += bad_limits(self, tuple(LIMITS), least=1)
        for name in ("read_iops", "write_iops"):
            if self.limits().get(name, 0) > MOST_IOPS:
                found.append((name, f"must be at most {MOST_IOPS}"))
        return found

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """Over a cap of the other version, and over one of the same device that limits the same."""
        found = []
        if any(isinstance(each, Cap) and each.by != self.by for each in below):
            said = "a node's kernel has one version of cgroups for block devices at a time"
            found.append(("by", f"{said}; take the same for all caps"))
        for index, each in reversed(list(enumerate(below))):
            if isinstance(each, Cap):
                found += [
                    (
                        "profile" if getattr(self, name) is None else name,
                        f"layers[{index}] has set {name} of the same device already, and the kernel has one limit "
                        "for it; keep one of them",
                    )
                    for name in self.limits()
                    if name in each.limits()
                ]
            elif not one_copy(each):
                # Another device.
                break
        return found

    def width(self, below: int) -> int:
        return below

    def limits(self) -> dict[str, int]:
        """Field -> the limit in I/Os or bytes per second, of those that are set."""
        found = {}
        for name in LIMITS:
            value = given(self, name)
            if value is None and self.performance is not None:
                value = getattr(self.performance, name.partition("_")[2])
            if value is not None:
                found[name] = round(value)
        return found

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Mount the controller, set the limits, take both back."""
        # Several caps may stand on one node: each has a mount of its own, named after its first device.
        folder = places.run(f"cap-{device_of(below[0])}")
        version = self._version_2 if self.by == "cgroup-v2" else self._version_1
        return version(place.host, folder, below)

    def _version_1(self, host: str, folder: str, below: tuple[Port, ...]) -> Plan:
        steps = _mounted(host, folder, ("-t", "cgroup", "-o", "blkio", "cgroup"))
        files = {name: f"{folder}/{file}" for name, (file, _) in LIMITS.items()}
        for port in below:
            steps += [
                _set(port, files[name], f"{{number}} {value}", undo="{number} 0")
                for name, value in self.limits().items()
            ]
        facts = tuple(self._fact(port, list(files.values()), len(below), parse_version_1) for port in below)
        return Plan(tuple(steps), facts, below)

    def _version_2(self, host: str, folder: str, below: tuple[Port, ...]) -> Plan:
        group = f"{folder}/{GROUP}"
        steps = _mounted(host, folder, ("-t", "cgroup2", "cgroup2"))
        steps += [
            # Another cap's hierarchy of version 1 gives the controller back only a while after its unmount.
            Wait(host, ("grep", "-w", "io", f"{folder}/cgroup.controllers"), seconds=30.0),
            # The memory controller, by whose groups the kernel charges writeback, comes along.
            _set(below[0], f"{folder}/cgroup.subtree_control", "+io", undo="-io"),
            # Another cap of this node may have made the group already, and removed it already. The limits go
            # with the group.
            Run(
                host,
                ("mkdir", "-p", group),
                undo=("find", folder, "-maxdepth", "1", "-name", GROUP, "-exec", "rmdir", "{}", "+"),
            ),
        ]
        values = [f"{LIMITS[name][1]}={value}" for name, value in self.limits().items()]
        steps += [_set(port, f"{group}/io.max", f"{{number}} {' '.join(values)}") for port in below]
        steps.append(Run(host, _move(f"{group}/cgroup.procs"), undo=_move(f"{folder}/cgroup.procs")))
        facts = [self._fact(port, [f"{group}/io.max"], len(below), parse_version_2) for port in below]
        facts.append(Fact(host, "cap", ("cat", "/proc/self/cgroup"), parse_group, {"group": f"/{GROUP}"}))
        return Plan(tuple(steps), tuple(facts), below)

    def _fact(self, port: Port, files: list[str], count: int, parse: Parse) -> Fact:
        suffix = "" if count == 1 else f" of {port.where}"
        # -H: each line with its file before it; the first one is the device's number.
        ask = ("grep", "-H", "", _number_file(port), *files)
        wanted = {name + suffix: str(value) for name, value in self.limits().items()}

        def named(text: str) -> dict[str, str]:
            return {name + suffix: value for name, value in parse(text).items()}

        return Fact(port.host, "cap", ask, named, wanted)


def _number_file(port: Port) -> str:
    # holds "98:16"
    return f"/sys/class/block/{device_of(port)}/dev"


def _mounted(host: str, folder: str, what: Argv) -> list[Step]:
    return [
        Run(host, ("mkdir", "-p", folder), undo=("rmdir", "--ignore-fail-on-non-empty", folder)),
        # Busy as long as another cap's group of version 2 is on its way out.
        Wait(host, ("mount", *what, folder), seconds=30.0),
        Run(host, ("mountpoint", "-q", folder), undo=("umount", folder)),
    ]


def _set(port: Port, file: str, text: str, undo: str = "") -> Run:
    """Write ``text`` to a file of the controller, with the device's major:minor in place of ``{number}``."""

    def argv(text: str) -> Argv:
        return program("verbs", "write", file, text, port.where)

    return Run(port.host, argv(text), undo=argv(undo) if undo else ())


def _move(procs: str) -> Argv:
    """Move whoever starts this command, and so all that it starts later, to another group."""
    return program("verbs", "adopt", procs)


def parse_version_1(text: str) -> dict[str, str]:
    """The limits of one device from the files of the blkio controller, by our names."""
    # /sys/class/block/ubdb/dev:98:16
    # /run/blocklab/cap-ubdb/blkio.throttle.read_iops_device:98:16 1000
    number, lines = _lines(text)
    found = dict.fromkeys(LIMITS, "none")
    for name, (file, _) in LIMITS.items():
        for path, (device, *values) in lines:
            if path.endswith(f"/{file}") and device == number:
                found[name] = values[0]
    return found


def parse_version_2(text: str) -> dict[str, str]:
    """The limits of one device from io.max, by our names."""
    # /sys/class/block/ubdb/dev:98:16
    # /run/blocklab/cap-ubdb/blocklab/io.max:98:16 rbps=max wbps=max riops=max wiops=20
    number, lines = _lines(text)
    found = dict.fromkeys(LIMITS, "none")
    for _, (device, *values) in lines:
        limits = dict(value.split("=") for value in values)
        if device == number:
            found |= {name: limits[key] for name, (_, key) in LIMITS.items() if limits.get(key, "max") != "max"}
    return found


def _lines(text: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """The device's number, and each further line as (file, words)."""
    first, *rest = [line.partition(":") for line in text.splitlines()]
    return first[2].strip(), [(path, words.split()) for path, _, words in rest if words.split()]


def parse_group(text: str) -> dict[str, str]:
    """The cgroup v2 of the process that was asked."""
    # 0::/blocklab
    for line in text.splitlines():
        if line.startswith("0::"):
            return {"group": line.removeprefix("0::")}
    return {}

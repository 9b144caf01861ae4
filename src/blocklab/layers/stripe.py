"""Several volumes as one device: MD RAID-0 and RAID-10, and LVM's striped volume."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec

from blocklab.layers import net_mirror_pair
from blocklab.layers.base import LayerBase, copies_misplaced
from blocklab.model import numbers
from blocklab.model.ground import Topology
from blocklab.model.layer import Layer, Place
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Run, Wait
from blocklab.model.units import Size

# LVM's extents of 4 MiB bound its stripe size; the same bounds for both, so that they stay comparable.
LEAST_CHUNK, MOST_CHUNK = 4096, 4 * 2**20
# mdadm --detail: "        Chunk Size : 64K", "    Active Devices : 2"
_DETAIL = re.compile(r"^ *(?P<name>[A-Z][A-Za-z ]*?) : (?P<value>.*)$", re.MULTILINE)
# "       0      98       16        0      active sync   /dev/ubdb"; near copies have "active sync set-A   ..."
_MEMBER = re.compile(r"^ +\d+ +\d+ +\d+ +(?P<role>\d+) +active sync.* (?P<device>/dev/\S+)$", re.MULTILINE)


class _Joined(LayerBase, frozen=True):
    """What all have: N block devices below, one above, and data in turns of ``chunk`` bytes."""

    chunk: Size = msgspec.field(default_factory=lambda: Size("64KiB"))
    """The piece that goes to one volume before the next one's turn, a power of two from 4KiB to 4MiB: mdadm's
    ``--chunk``, lvcreate's ``--stripesize``. Requests larger than that use several volumes."""

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "block"

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """A chunk that is no power of two, or out of bounds."""
        if not LEAST_CHUNK <= self.chunk <= MOST_CHUNK or self.chunk & (self.chunk - 1):
            return [("chunk", f"{self.chunk} is not a power of two from 4KiB to 4MiB")]
        return []

    def holds(self, below: Sequence[int]) -> list[int]:
        """What all have together, but for the notes on each."""
        return [sum(self.usable(size) for size in below)]

    def usable(self, size: int) -> int:
        """What a volume of so many bytes has for data."""
        raise NotImplementedError

    def width(self, below: int) -> int:
        """One port above two or more."""
        if below < 2:
            raise ValueError(
                "joins two devices or more, but there is 1 below it; set count of the volume to 2 to 8"
            )
        return 1


class _Md(_Joined, frozen=True):
    name: ClassVar[str]
    redundant: ClassVar[bool] = False

    def usable(self, size: int) -> int:
        """All but the superblock, metadata 1.2, and what stands before it."""
        return size - 8192

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Make the array, or assemble it over its data; undone by stopping it."""
        host, device = place.host, numbers.STRIPE.path(place.number)
        members = tuple(port.where for port in below)
        copied = not place.alike and self.redundant
        steps = (
            Run(host, ("modprobe", self.name)),
            Run(
                host,
                # --run: a volume that shows signs of an earlier use is no question to wait for an answer to.
                ("mdadm", "--create", device, "--run", "--metadata=1.2", "--homehost=any",
                 f"--level={self.name.removeprefix('raid')}", f"--chunk={self.chunk // 1024}",
                 f"--raid-devices={len(members)}", *self.create(clean=place.alike), *members),
                once=True,
                again=("mdadm", "--assemble", "--run", device, *members),
                undo=("mdadm", "--stop", device),
            ),
            *((net_mirror_pair.copied(host, device),) if copied else ()),
        )  # fmt: skip
        fact = Fact(host, self.tag, ("mdadm", "--detail", device), parse_detail, self.wanted(members))
        return Plan(steps, (fact,), (Port(host, "block", device),))

    def create(self, *, clean: bool) -> Argv:
        """What else mdadm --create is told. ``clean``: whether the members are zero."""
        return ()

    def wanted(self, members: Argv) -> dict[str, str]:
        """What ``mdadm --detail`` has to say."""
        return {
            "Raid Level": self.name,
            "Chunk Size": f"{self.chunk // 1024}K",
            "Active Devices": str(len(members)),
            "Failed Devices": "0",
            # Of a device-mapper's two names mdadm shows the kernel's, where mount(8) shows the other.
            "members": " ".join(members).replace("/dev/mapper/dm-", "/dev/dm-"),
        }


class Stripe(_Md, frozen=True, tag="stripe"):
    """A stripe over the 2 to 8 volumes below (``count`` of the ``volume``): the kernel's MD RAID-0, see md(4).

    Caps of the volumes add up as long as the workload has enough requests under way for all of them; at queue
    depth 1 a stripe is no faster than one volume. Nothing is redundant: a crash of one volume is the end of all.

    Example::

        - {layer: volume, size: 512MiB, count: 4, iops: 1250}
        - {layer: stripe, chunk: 64KiB}

    Read back before and after each workload, by ``mdadm --detail``: level, chunk size, the volumes and their
    order.
    """

    name: ClassVar[str] = "raid0"
    title: ClassVar[str] = "MD RAID-0"


class Raid10(_Md, frozen=True, tag="raid10"):
    """A stripe with every chunk on two of the 2 to 8 volumes below: the kernel's MD RAID-10, see md(4).

    Made with ``--assume-clean``, since fresh volumes are zero and so alike, and without a write-intent bitmap.
    Over what is not zero, such as ``crypt``, MD first makes the copies the same.

    Example::

        - {layer: volume, size: 512MiB, count: 4, iops: 1250}
        - {layer: raid10, layout: far}

    Read back before and after each workload, by ``mdadm --detail``: level, layout, chunk size, the volumes and
    their order.
    """

    layout: Literal["near", "far", "offset"] = "near"
    """``near`` has the copies side by side; ``far`` and ``offset`` have them elsewhere on the next volume, which
    makes reads as fast as from a stripe and writes slower: mdadm's ``--layout``."""

    name: ClassVar[str] = "raid10"
    redundant: ClassVar[bool] = True
    title: ClassVar[str] = "MD RAID-10"

    def holds(self, below: Sequence[int]) -> list[int]:
        """Half of it, for there are two copies."""
        return [size // 2 for size in super().holds(below)]

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """On what would not stay the same in both copies."""
        return copies_misplaced(below)

    def create(self, *, clean: bool) -> Argv:
        """Two copies, no first synchronisation where they are the same, no bitmap (mdadm would ask)."""
        return (f"--layout={self.layout[0]}2", *(("--assume-clean",) if clean else ()), "--bitmap=none")

    def wanted(self, members: Argv) -> dict[str, str]:
        """The layout too."""
        return {**super().wanted(members), "Layout": f"{self.layout}=2"}


def parse_detail(text: str) -> dict[str, str]:
    """``mdadm --detail`` as name -> value, without times and names that differ each time; ``members`` in order."""
    keep = ("Raid Level", "Layout", "Chunk Size", "Active Devices", "Failed Devices", "State")
    found = {
        match["name"]: match["value"].rstrip(" ") for match in _DETAIL.finditer(text) if match["name"] in keep
    }
    members = sorted((int(match["role"]), match["device"]) for match in _MEMBER.finditer(text))
    return {**found, "members": " ".join(device for _, device in members)}


# A node has no udev to make device nodes or to confirm them; there is one user of the volumes, so no list of
# devices (system.devices) and no back-up of the metadata is kept.
_LVM_CONFIG = (
    "activation/udev_sync=0 activation/udev_rules=0 activation/monitoring=0 "
    "backup/backup=0 backup/archive=0 devices/use_devicesfile=0"
)
# Group "dm", volume "500": the device-mapper's name is then "dm-500", which with a minor of our own is the
# kernel's name too, so that /dev/mapper/dm-500 is dm-500 in iostat and under /sys. Mount shows the former;
# nothing shows both.
# Groups of other stacks are not seen (--devices).
_GROUP = "dm"


class LvmStripe(_Joined, frozen=True, tag="lvm-stripe"):
    """A stripe over the 2 to 8 volumes below: an LVM logical volume of all of their space, ``lvcreate --stripes``.

    In the kernel it is one device-mapper target ``striped``.

    Example::

        - {layer: volume, size: 512MiB, count: 4, iops: 1250}
        - {layer: lvm-stripe, chunk: 64KiB}

    Read back before and after each workload, by ``dmsetup table``: the target, the number of volumes, the chunk.
    """

    title: ClassVar[str] = "LVM stripe"

    def usable(self, size: int) -> int:
        """Whole extents of 4 MiB, but for the first MiB, which is LVM's own."""
        extent = 4 * 2**20
        return (size - 2**20) // extent * extent

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """Physical volumes, a group, a volume; active until undone."""
        host, number = place.host, str(numbers.LVM.of(place.number))
        device = numbers.LVM.path(place.number)
        members = tuple(port.where for port in below)
        options = ("--config", _LVM_CONFIG, "--devices", ",".join(members))
        activate = ("vgchange", *options, "--noudevsync")
        steps = (
            Run(host, ("modprobe", "dm-mod")),
            Run(host, ("pvcreate", *options, "-ff", "--yes", *members), once=True),
            Run(host, ("vgcreate", *options, _GROUP, *members), once=True),
            Run(
                host,
                ("lvcreate", *options, "--noudevsync", "--yes", "--activate", "n", "--zero", "n",
                 "--wipesignatures", "n", "--persistent", "y", "--minor", number,
                 "--stripes", str(len(members)), "--stripesize", f"{self.chunk // 1024}k",
                 "--extents", "100%FREE", "--name", number, _GROUP),
                once=True,
            ),
            Run(host, (*activate, "--activate", "y", _GROUP), undo=(*activate, "--activate", "n", _GROUP)),
            # Without udev a name may be missing, and fio would write to a plain file of that name.
            Wait(host, ("test", "-b", device), seconds=5.0),
        )  # fmt: skip
        wanted = {"target": "striped", "volumes": str(len(members)), "chunk": str(self.chunk)}
        fact = Fact(host, "lvm-stripe", ("dmsetup", "table", f"{_GROUP}-{number}"), parse_table, wanted)
        return Plan(steps, (fact,), (Port(host, "block", device),))


def parse_table(text: str) -> dict[str, str]:
    """The kernel's table of a striped target: start, length, target, stripes, chunk in sectors of 512 bytes."""
    # 0 245760 striped 2 128 98:16 2048 98:32 2048
    _, _, target, *rest = text.split()
    found = {"target": target}
    if target == "striped":
        found |= {"volumes": rest[0], "chunk": f"{int(rest[1]) * 512}B"}
    return found

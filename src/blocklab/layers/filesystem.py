"""The file systems: xfs and ext4 on any block device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from blocklab.layers.base import Base
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Run
from blocklab.model.protocols import Map, Place

# "noatime", "barrier=0", "logbsize=256k", "data=writeback": one mount(8) option.
_OPTION = re.compile(r"^[a-z0-9_]+(=[A-Za-z0-9_./:+-]+)?$")
# /proc/mounts has an option in other words than it was given: asked -> what it shows then.
_SHOWN = {"barrier=0": "nobarrier", "dioread_lock": "nodioread_nolock", "noload": "norecovery"}
# It does not show these, which are the default, but shows the contrary: asked -> what must not be there.
_CONTRARY = {
    "barrier": "nobarrier", "barrier=1": "nobarrier", "async": "sync", "atime": "noatime",
    "strictatime": "relatime", "nolazytime": "lazytime", "nodiscard": "discard", "delalloc": "nodelalloc",
    "dioread_nolock": "nodioread_nolock", "auto_da_alloc": "noauto_da_alloc", "acl": "noacl",
    "block_validity": "noblock_validity", "init_itable": "noinit_itable", "nogrpid": "grpid",
    "journal_checksum": "nojournal_checksum", "suid": "nosuid", "dev": "nodev", "exec": "noexec",
}  # fmt: skip
# Nor these numbers, which are ext4's default; any other is shown.
_NUMBERS = frozenset(
    {
        "commit=5", "stripe=0", "min_batch_time=0", "max_batch_time=15000", "inode_readahead_blks=32",
        "init_itable=10", "errors=continue",
    }
)  # fmt: skip


class _FileSystem(Base, frozen=True):
    """What both have: ``mkfs`` is argv for the mkfs program, ``mount`` a list of mount(8) options."""

    mkfs: tuple[str, ...] = ()
    """Arguments of the mkfs program, one list item each: mkfs.xfs(8), mke2fs(8)."""
    mount: tuple[str, ...] = ()
    """Options of mount(8) and of the file system, xfs(5) or ext4(5), one list item each."""

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "dir"
    name: ClassVar[str]
    always: ClassVar[Argv]

    def problems(self, host: str, map: Map) -> list[tuple[str, str]]:
        """Mount options that mount(8) would read as several, or not at all."""
        return [
            (f"mount[{index}]", f"{option!r} is not one mount option; write one a line, e.g. noatime")
            for index, option in enumerate(self.mount)
            if not _OPTION.match(option)
        ]

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """mkfs, mount; undone by umount."""
        host, device, folder = place.host, below[0].where, f"/mnt/{place.stack}"
        options: Argv = ("-o", ",".join(self.mount)) if self.mount else ()
        return Plan(
            steps=(
                Run(host, (f"mkfs.{self.name}", *self.always, *self.mkfs, device), once=True),
                Run(host, ("mkdir", "-p", folder)),
                Run(host, ("mount", "-t", self.name, *options, device, folder), undo=("umount", folder)),
            ),
            facts=(self._fact(host, device, folder),),
            ports=(Port(host, "dir", folder),),
        )

    def _fact(self, host: str, device: str, folder: str) -> Fact:
        def parse(text: str) -> Mapping[str, str]:
            found = mounted(text, folder)
            asked = {f"mount.{option}" for option in self.mount}
            hidden = {name: value for name, value in hidden_defaults(found).items() if name in asked}
            return {**found, **hidden} if found else {}

        wanted = {"device": device, "type": self.name}
        for option in self.mount:
            wanted |= in_force(option)
        return Fact(host, self.name, ("cat", "/proc/mounts"), parse, wanted)


class Xfs(_FileSystem, frozen=True, tag="xfs"):
    """The xfs file system.

    Example::

        - {layer: xfs, mkfs: [-m, reflink=0], mount: [noatime]}

    Without mount options it has ``rw,relatime``. xfs always sends flushes: Linux 4.19 took its ``nobarrier`` away,
    so ``barrier`` and ``nobarrier`` are refused.

    Read back: the device, the type, and each mount option in ``/proc/mounts``; a default, which the kernel does
    not show there, by the absence of its contrary.
    """

    name: ClassVar[str] = "xfs"
    # The volumes are fresh: to discard them whole only takes time, on a mirror much of it.
    always: ClassVar[Argv] = ("-f", "-K")

    def problems(self, host: str, map: Map) -> list[tuple[str, str]]:
        """Barriers too, which xfs no longer has a say in."""
        found = [
            (f"mount[{index}]", f"xfs has no {option!r} since Linux 4.19; leave it out, or take ext4")
            for index, option in enumerate(self.mount)
            if option.removeprefix("no").partition("=")[0] == "barrier"
        ]
        return super().problems(host, map) + found


class Ext4(_FileSystem, frozen=True, tag="ext4"):
    """The ext4 file system.

    Example::

        - {layer: ext4, mkfs: [-b, "1024"], mount: [noatime, data=writeback]}

    Without mount options it has ``rw,relatime,data=ordered``, with barriers. With ``barrier=0`` ext4 sends no
    flush to the device, not for an fsync either: what a database was told to be on disk may be lost in a crash of
    whatever caches below.

    Read back: the device, the type, and each mount option in ``/proc/mounts``; a default, which the kernel does
    not show there, by the absence of its contrary.
    """

    name: ClassVar[str] = "ext4"
    # Or the kernel writes the inode tables in the minutes after the mount, under the load.
    always: ClassVar[Argv] = ("-F", "-E", "nodiscard,lazy_itable_init=0")


def in_force(option: str) -> dict[str, str]:
    """What ``mounted`` has to say of a file system that was mounted with this option."""
    if option == "defaults":
        # It asks for nothing.
        return {}
    if option in _CONTRARY:
        return {f"mount.{_CONTRARY[option]}": "absent"}
    return {f"mount.{_SHOWN.get(option, option)}": "yes"}


def hidden_defaults(found: Mapping[str, str]) -> dict[str, str]:
    """The numbers that are in force although ``mounted`` did not find them, since they are the default."""
    shown = {name.partition("=")[0] for name in found}
    return {f"mount.{option}": "yes" for option in _NUMBERS if f"mount.{option.partition('=')[0]}" not in shown}


def mounted(text: str, folder: str) -> dict[str, str]:
    """What /proc/mounts says of ``folder``: device, type, and each option as ``mount.<option>: yes``."""
    for line in text.splitlines():
        # /dev/drbd0 /mnt/drbd0 xfs rw,noatime,attr2,inode64,logbufs=8,logbsize=32k,noquota 0 0
        fields = line.split(" ")
        if len(fields) >= 4 and fields[1] == folder:
            options = {f"mount.{option}": "yes" for option in fields[3].split(",")}
            return {"device": fields[0], "type": fields[2], **options}
    return {}

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
# "noatime", "barrier=0", "logbsize=256k": one mount(8) option without commas or blanks.
_SILENT = frozenset(
    {"defaults", "rw", "relatime", "atime", "async", "barrier=1", "barrier", "discard", "nodiscard"}
)


class _FileSystem(Base, frozen=True):
    """What both have: ``mkfs`` is argv for the mkfs program, ``mount`` a list of mount(8) options."""

    mkfs: tuple[str, ...] = ()
    mount: tuple[str, ...] = ()

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "dir"
    name: ClassVar[str]
    force: ClassVar[str]

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
                Run(host, (f"mkfs.{self.name}", self.force, *self.mkfs, device), once=True),
                Run(host, ("mkdir", "-p", folder)),
                Run(host, ("mount", "-t", self.name, *options, device, folder), undo=("umount", folder)),
            ),
            facts=(self._fact(host, device, folder),),
            ports=(Port(host, "dir", folder),),
        )

    def _fact(self, host: str, device: str, folder: str) -> Fact:
        def parse(text: str) -> Mapping[str, str]:
            return mounted(text, folder)

        wanted = {"device": device, "type": self.name}
        wanted |= {f"mount.{option}": "yes" for option in self.mount if option not in _SILENT}
        return Fact(host, self.name, ("cat", "/proc/mounts"), parse, wanted)


class Xfs(_FileSystem, frozen=True, tag="xfs"):
    """The xfs file system. ``mkfs``: arguments of mkfs.xfs(8); ``mount``: options of mount(8), xfs(5)."""

    name: ClassVar[str] = "xfs"
    force: ClassVar[str] = "-f"


class Ext4(_FileSystem, frozen=True, tag="ext4"):
    """The ext4 file system. ``mkfs``: arguments of mke2fs(8); ``mount``: options of mount(8), ext4(5)."""

    name: ClassVar[str] = "ext4"
    force: ClassVar[str] = "-F"


def mounted(text: str, folder: str) -> dict[str, str]:
    """What /proc/mounts says of ``folder``: device, type, and each option as ``mount.<option>: yes``."""
    for line in text.splitlines():
        # /dev/drbd0 /mnt/drbd0 xfs rw,noatime,attr2,inode64,logbufs=8,logbsize=32k,noquota 0 0
        fields = line.split(" ")
        if len(fields) >= 4 and fields[1] == folder:
            options = {f"mount.{option}": "yes" for option in fields[3].split(",")}
            return {"device": fields[0], "type": fields[2], **options}
    return {}

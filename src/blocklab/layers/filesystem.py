"""The file systems: xfs and ext4 on any block device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import ClassVar

from blocklab.layers.base import LayerBase
from blocklab.layers.filesystem_options import MKFS_EXT4, MKFS_XFS, MOUNT_EXT4, MOUNT_XFS
from blocklab.model.allowed import Allowed, arguments, pairs
from blocklab.model.ground import Topology
from blocklab.model.layer import Garbled, Layer, Place
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Run

# "noatime", "barrier=0", "logbsize=256k", "data=writeback": one mount(8) option.
_OPTION = re.compile(r"[a-z0-9_]+(=[A-Za-z0-9_./:+-]+)?")
# These decide the same; of two the last one would hold.
_SAME = {
    "atime": "atime", "noatime": "atime", "relatime": "atime", "strictatime": "atime",
    "sync": "sync", "async": "sync", "dioread_lock": "dioread_nolock",
    "bsdgroups": "grpid", "sysvgroups": "grpid", "inode32": "inode64", "no_mbcache": "mbcache",
    "minixdf": "bsddf",
}  # fmt: skip
# These ask for nothing: of a file system that is mounted by hand, or of xfs, which has no other way any more.
_NOTHING = frozenset({"defaults", "auto", "noauto", "nofail", "nouser", "_netdev", "attr2", "noikeep"})
# The kernel has an option in other words than it was given: asked -> what it shows then.
_SHOWN = {
    "barrier=0": "nobarrier", "barrier=1": "barrier", "dioread_lock": "nodioread_nolock", "noload": "norecovery",
    "auto_da_alloc=0": "noauto_da_alloc", "auto_da_alloc=1": "auto_da_alloc", "commit=0": "commit=5",
    "init_itable": "init_itable=10", "no_mbcache": "nombcache", "bsdgroups": "grpid",
    "quota": "usrquota", "uquota": "usrquota", "gquota": "grpquota", "pquota": "prjquota",
    "qnoenforce": "uqnoenforce",
}  # fmt: skip
# It does not show these, which are the default, but shows the contrary: asked -> what must not be there.
_CONTRARY = {
    "async": "sync", "atime": "noatime", "strictatime": "relatime", "diratime": "nodiratime",
    "nolazytime": "lazytime", "suid": "nosuid", "dev": "nodev", "exec": "noexec", "symfollow": "nosymfollow",
    "nodiscard": "discard", "nogrpid": "grpid", "sysvgroups": "grpid", "nolargeio": "largeio",
    "lifetime": "nolifetime",
    "data_err=ignore": "data_err=abort", "mb_optimize_scan=0": "mb_optimize_scan=1",
    "mb_optimize_scan=1": "mb_optimize_scan=0",
}  # fmt: skip
# xfs shows sizes in KiB: "allocsize=1m", "logbsize=262144"
_SIZE = re.compile(r"^(?P<name>allocsize|logbsize|max_atomic_write)=(?P<number>\d+)(?P<unit>[kKmMgG]?)\Z")
_KIB = {"": 2**-10, "k": 1, "m": 2**10, "g": 2**20}

# Without a journal the kernel mounts no ext4 with these.
_OF_JOURNAL = ("data", "commit", "journal_checksum", "journal_async_commit", "data_err")


class _FileSystem(LayerBase, frozen=True):
    """What both have: ``mkfs`` is argv for the mkfs program, ``mount`` a list of mount(8) options."""

    mkfs: tuple[str, ...] = ()
    """Arguments of the mkfs program, one list item each: mkfs.xfs(8), mke2fs(8). Only those that stay on the
    device below: refused are what it would take for a device, other devices (``logdev=``, ``rtdev=``, ``-J
    device=``), and files of the host."""
    mount: tuple[str, ...] = ()
    """Options of mount(8) and of the file system, xfs(5) or ext4(5), one list item each. Refused are those that
    name another device (``logdev=``, ``journal_path=``), ``errors=panic``, ``ro``, two that decide the same, and
    what is no option of mount(8) or of the file system."""

    takes: ClassVar[Kind | None] = "block"
    gives: ClassVar[Kind] = "dir"
    stage: ClassVar[str] = "mount"
    name: ClassVar[str]
    always: ClassVar[Argv]
    of_mkfs: ClassVar[Allowed]
    of_mount: ClassVar[Allowed]
    # Bytes of the smallest device that its mkfs takes.
    least: ClassVar[int] = 0

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """Options that lead away from the device; mount options that mount(8) would read as several, or that
        contradict each other."""
        found = [
            (f"mount[{index}]", f"{option!r} is not one mount option; write one a line, e.g. noatime")
            for index, option in enumerate(self.mount)
            if not _OPTION.fullmatch(option)
        ]
        if self.mount and not found:
            found = [(f"mount[{index}]", why) for index, why in (*self._contradictions(), *self._not_allowed())]
        return found + [(f"mkfs[{index}]", why) for index, why in arguments(self.of_mkfs, self.mkfs, "device")]

    def _not_allowed(self) -> Iterator[tuple[int, str]]:
        for index, option in enumerate(self.mount):
            ((name, value),) = pairs(option)
            if why := self.of_mount.problem(name, value):
                yield index, f"{name}: {why}"

    def _contradictions(self) -> Iterator[tuple[int, str]]:
        """Mount options that leave nothing to write to, that contradict an earlier one, or that xfs lost."""
        decided: dict[str, str] = {}
        for index, option in enumerate(self.mount):
            bare = option.partition("=")[0]
            subject = _SAME.get(bare) or bare.removeprefix("no")
            earlier = decided.setdefault(subject, option)
            if self.name == "xfs" and subject == "barrier":
                yield index, f"xfs has no {option!r} since Linux 4.19; leave it out, or use ext4"
            elif option == "ro":
                yield index, "nothing could be written to a file system that is mounted with 'ro'; leave it out"
            elif earlier != option:
                yield index, f"{option!r} decides the same as {earlier!r}; give one of the two"

    @property
    def title(self) -> str:
        return self.name

    def holds(self, below: Sequence[int]) -> list[int]:
        """A device that is too small for its mkfs is refused."""
        if "--unsupported" not in self.mkfs and 0 < sum(below) < self.least:
            needs, has = (f"{size / 2**20:,.6g} MiB" for size in (self.least, sum(below)))
            said = f"needs {needs}, but what it stands on has {has}; make the volume larger, or take ext4"
            raise ValueError(said)
        return list(below)

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """mkfs, mount; undone by umount."""
        host, device, folder = place.host, below[0].where, f"/mnt/{place.stack}"
        options: Argv = ("-o", ",".join(self.mount)) if self.mount else ()
        return Plan(
            steps=(
                Run(host, (f"mkfs.{self.name}", *self.make(), device), once=True),
                Run(host, ("mkdir", "-p", folder), undo=("rmdir", folder)),
                Run(host, ("mount", "-t", self.name, *options, device, folder), undo=("umount", folder)),
            ),
            facts=(self._fact(host, device, folder),),
            ports=(Port(host, "dir", folder),),
        )

    def _fact(self, host: str, device: str, folder: str) -> Fact:
        wanted = {"device": device, "type": self.name}
        for option in self.mount:
            wanted |= in_force(option)
        return Fact(host, self.name, self.ask(device), partial(mounted, folder=folder), wanted)

    def make(self) -> Argv:
        """Arguments of the mkfs program."""
        return (*self.always, *self.mkfs)

    def ask(self, device: str) -> Argv:
        """What tells the mount options that are in force."""
        return ("cat", "/proc/mounts")


class Xfs(_FileSystem, frozen=True, tag="xfs"):
    """The xfs file system.

    Example::

        - {layer: xfs, mkfs: [-m, reflink=0], mount: [noatime]}

    It needs a device of 300MiB or more. Without mount options it has ``rw,relatime``. xfs always sends flushes:
    Linux 4.19 took its ``nobarrier`` away, so ``barrier`` and ``nobarrier`` are refused.

    Read back: the device, the type, and each mount option in ``/proc/mounts``; a default, which the kernel does
    not show there, by the absence of its contrary.
    """

    name: ClassVar[str] = "xfs"
    least: ClassVar[int] = 300 * 2**20
    # The volumes are fresh: to discard them whole only takes time, on a mirror much of it.
    always: ClassVar[Argv] = ("-f", "-K")
    of_mkfs: ClassVar[Allowed] = MKFS_XFS
    of_mount: ClassVar[Allowed] = MOUNT_XFS


class Ext4(_FileSystem, frozen=True, tag="ext4"):
    """The ext4 file system.

    Example::

        - {layer: ext4, mkfs: [-b, "1024"], mount: [noatime, data=writeback]}

    Without mount options it has ``rw,relatime,data=ordered``, with barriers. With ``barrier=0`` ext4 sends no
    flush to the device, not for an fsync either: what a database was told to be on disk may be lost in a crash of
    whatever caches below.

    ``-E`` in ``mkfs`` is joined with the layer's own ``-E nodiscard,lazy_itable_init=0``, and wins over it.

    Read back: the device, the type, and each mount option, in ``/proc/mounts`` and in the kernel's full list,
    ``/proc/fs/ext4/*/options``; what neither shows, by the absence of its contrary.
    """

    name: ClassVar[str] = "ext4"
    always: ClassVar[Argv] = ("-F",)
    of_mkfs: ClassVar[Allowed] = MKFS_EXT4
    of_mount: ClassVar[Allowed] = MOUNT_EXT4

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        """As of every file system; and mount options of a journal that mkfs leaves out."""
        found = super().problems(host, lab)
        if any("^has_journal" in word for word in self.mkfs):
            found += [
                (f"mount[{index}]", f"{option!r} needs a journal, and mkfs makes none (^has_journal); drop one")
                for index, option in enumerate(self.mount)
                if option.partition("=")[0] in _OF_JOURNAL
            ]
        return found

    def misplaced(self, below: Sequence[Layer]) -> list[tuple[str, str]]:
        """Told that the device is zero where it is not: the inode tables would be garbage."""
        garbled = next((layer.tag for layer in below if isinstance(layer, Garbled)), "")
        return [
            (
                f"mkfs[{index}]",
                f"{word!r} is wrong over {garbled}, which is not zero when it is fresh; leave it out",
            )
            for index, word in enumerate(self.mkfs)
            if garbled and "assume_storage_prezeroed" in word
        ]

    def make(self) -> Argv:
        """With one ``-E`` in all: of several, mke2fs takes the last one only."""
        kept: list[str] = []
        # Or the kernel writes the inode tables in the minutes after the mount, under the workload.
        extended = ["nodiscard,lazy_itable_init=0"]
        words = iter(self.mkfs)
        for word in words:
            if value := (word[2:] or next(words, "")) if word.startswith("-E") else "":
                # Behind ours: of two that contradict each other the last one holds.
                extended.append(value)
            else:
                kept.append(word)
        return (*self.always, "-E", ",".join(extended), *kept)

    def ask(self, device: str) -> Argv:
        """The kernel's full list too, since /proc/mounts leaves out what is the default of this very device."""
        return (*super().ask(device), f"/proc/fs/ext4/{PurePosixPath(device).name}/options")


def in_force(option: str) -> dict[str, str]:
    """What ``mounted`` has to say of a file system that was mounted with this option."""
    if option in _NOTHING:
        return {}
    if option in _CONTRARY:
        return {f"mount.{_CONTRARY[option]}": "absent"}
    if size := _SIZE.match(option):
        return {f"mount.{size['name']}={int(size['number']) * _KIB[size['unit'].lower()]:.0f}k": "yes"}
    return {f"mount.{_SHOWN.get(option, option)}": "yes"}


def mounted(text: str, folder: str) -> dict[str, str]:
    """What /proc/mounts says of ``folder``: device, type, and each option as ``mount.<option>: yes``; then the
    options that ext4 lists, one a line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        # /dev/drbd0 /mnt/drbd0 xfs rw,noatime,attr2,inode64,logbufs=8,logbsize=32k,noquota 0 0
        fields = line.split(" ")
        if len(fields) >= 4 and fields[1] == folder and not found:
            options = {f"mount.{option}": "yes" for option in fields[3].split(",")}
            found = {"device": fields[0], "type": fields[2], **options}
        # rw is the device's; what is mounted may be read-only all the same.
        elif found and len(fields) == 1 and line not in ("rw", "ro"):
            found[f"mount.{line}"] = "yes"
    return found

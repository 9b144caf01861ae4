"""The hosts file: where a study's nodes, links and volumes are on hosts that are there already."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from blocklab.errors import StudyError
from blocklab.model.units import Size, dec_hook
from blocklab.study.decode import located
from blocklab.study.read import line_of, load_yaml

BY_ID = "/dev/disk/by-id/"
_HOST_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9.:_-]*\Z")
_INTERFACE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,14}\Z")
# Disks of VMs: virtio, and QEMU's of other buses.
_MADE_UP = ("virtio-", "scsi-0QEMU_", "scsi-SQEMU_", "ata-QEMU_", "nvme-QEMU_", "usb-QEMU_")


class Disk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A disk that blocklab may write to."""

    id: str
    """Its path below /dev/disk/by-id/, which is the same after each boot."""
    serial: str
    """Its serial number, as ``blocklab hosts add`` shows it."""
    size: Size
    """All of it, to the byte."""


class PowerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Commands of this machine (argv lists) that switch the host's power, for drills.

    Example::

        power:
          off: [aws, ec2, stop-instances, --force, --instance-ids, i-0abc]
          check: [aws, ec2, describe-instances, --instance-ids, i-0abc, --query,
                  "Reservations[].Instances[].State.Name", --output, text]
          is_off: stopped
          on: [aws, ec2, start-instances, --instance-ids, i-0abc]
    """

    off: tuple[str, ...]
    """Cuts the power, without a shutdown."""
    check: tuple[str, ...]
    """Prints whether it is off."""
    is_off: str
    """What ``check`` prints then: a whole line of it."""
    on: tuple[str, ...] = ()
    """Switches it on again; without it the host has to come back by itself."""


class HostEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A host."""

    address: str
    """What ssh connects to: a name or an address."""
    user: str = ""
    """The login; without it ssh's own choice."""
    port: int = 22
    identity: str = ""
    """A file with a private key; without it those of the agent and ssh's usual ones."""
    hostname: str = ""
    """What ``uname -n`` prints there, where that is not its name in this file: DRBD's configuration has it."""
    become: Literal["sudo", "none"] = "sudo"
    """How root's rights are had: by ``sudo -n``, or the login is root's."""
    ssh_config: str = ""
    """An ssh_config(5) that counts; without it none does, neither the user's nor the machine's."""
    disks: dict[str, Disk] = {}
    """By names of yours."""
    blocklab: str = "blocklab"
    """The program there, for ``--dask``: blocklab itself, with its extra ``dask``."""
    crash: bool = False
    """Whether drills may crash it: sysrq ``b``, which reboots at once and writes nothing back."""
    power: PowerEntry | None = None
    """How its power is cut, for drills."""


class LinkEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One end of a link: an interface that is there, with an IPv4 address on it."""

    interface: str
    address: str


class LinkEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A link by its two ends."""

    ends: dict[str, LinkEnd]
    """By host."""
    emulate: bool = False
    """Whether netem may add delay, jitter and rate on both interfaces. Never on that of the connection."""


class Hosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a study's nodes are. The study stays the question.

    Example::

        hosts:
          a1:
            address: 10.0.1.10
            user: admin
            disks:
              data: {id: /dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0abc, serial: vol0abc, size: 100GiB}
          a2: {address: 10.0.1.11, user: admin, disks: {...}}
        links:
          zone: {ends: {a1: {interface: ens6, address: 10.0.2.10}, a2: {interface: ens6, address: 10.0.2.11}}}
        volumes:
          stripe: {a1: [data, more]}
    """

    hosts: dict[str, HostEntry]
    """By the names of the study's nodes."""
    links: dict[str, LinkEntry] = {}
    """By the names of the study's links."""
    volumes: dict[str, dict[str, tuple[str, ...]]] = {}
    """Which disks a stack's volumes are, by stack and host; without it a host's disks in their order."""
    first: int = 100
    """Numbers of devices and ports count from here: DRBD's and MD's minors, and with 100 the ports 7100, 5532,
    3406 and 10909. Another number keeps away from what is there."""


def load(path: Path) -> Hosts:
    """Read a hosts file. Raises ``StudyError`` with file, line and field."""
    if not path.exists():
        hint = "blocklab hosts add NAME USER@ADDRESS makes it"
        raise StudyError("", "no such hosts file", hint=hint, file=str(path))
    raw = load_yaml(path)
    try:
        hosts = msgspec.convert(raw, Hosts, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        problem, where = located(raw, str(error), Hosts)
        raise StudyError(where, problem, file=str(path), line=line_of(raw, where)) from error
    for where, problem in problems(hosts):
        raise StudyError(where, problem, file=str(path), line=line_of(raw, where))
    return hosts


def problems(hosts: Hosts) -> Iterator[tuple[str, str]]:
    """What is wrong with a file by itself: (field, problem) pairs."""
    if not hosts.hosts:
        yield "hosts", "there is none"
    if not 0 < hosts.first <= 1000:
        yield "first", "must be from 1 to 1000"
    for name, host in hosts.hosts.items():
        yield from _host_problems(f"hosts.{name}", host)
    yield from _shared_disks(hosts)
    for name, link in hosts.links.items():
        yield from _link_problems(f"links.{name}", link, hosts)
    for stack, by_host in hosts.volumes.items():
        for name, labels in by_host.items():
            known = hosts.hosts[name].disks if name in hosts.hosts else {}
            yield from (
                (f"volumes.{stack}.{name}", f"there is no disk {label!r} on {name}")
                for label in labels
                if label not in known
            )
            if len(set(labels)) < len(labels):
                yield f"volumes.{stack}.{name}", "names a disk twice"


def _host_problems(at: str, host: HostEntry) -> Iterator[tuple[str, str]]:
    if not _HOST_NAME.match(host.address):
        yield f"{at}.address", f"{host.address!r} is no name or address of a host"
    if host.user.startswith("-"):
        yield f"{at}.user", f"{host.user!r} is no login"
    serials: dict[str, str] = {}
    for label, disk in host.disks.items():
        if not disk.id.startswith(BY_ID) or "/" in disk.id.removeprefix(BY_ID):
            yield f"{at}.disks.{label}.id", f"{disk.id} is not below {BY_ID}; other names move between disks"
        if not disk.serial:
            yield f"{at}.disks.{label}.serial", "is empty; blocklab disks list shows it"
        if (before := serials.setdefault(disk.serial, label)) != label:
            yield f"{at}.disks.{label}.serial", f"is that of {before} too"


def _shared_disks(hosts: Hosts) -> Iterator[tuple[str, str]]:
    """Disks that two hosts see: as the two halves of a mirror they would be one."""
    seen: dict[str, tuple[str, str, Disk]] = {}
    for name, host in hosts.hosts.items():
        for label, disk in host.disks.items():
            # 0x or naa., upper case or lower: the kernel, udev and multipath write a WWID in ways of their own.
            other, twin, there = seen.setdefault(_plain(disk.serial), (name, label, disk))
            if other != name and not (_made_up(disk) and _made_up(there)):
                yield (
                    f"hosts.{name}.disks.{label}.serial",
                    f"is that of {twin} on {other} too: give each host a disk of its own",
                )


def _made_up(disk: Disk) -> bool:
    """Whether its serial is one that a VM's owner gave it: two VMs may have the same. What tells such disks apart
    is the stamp, once they are taken."""
    return disk.id.removeprefix(BY_ID).startswith(_MADE_UP)


def _plain(serial: str) -> str:
    """A serial or WWID in one spelling."""
    return re.sub(r"[^0-9a-z]", "", re.sub(r"^(naa\.|eui\.|uuid\.|nvme\.|t10\.|0x)", "", serial.lower()))


def _link_problems(at: str, link: LinkEntry, hosts: Hosts) -> Iterator[tuple[str, str]]:
    if len(link.ends) != 2:
        yield f"{at}.ends", f"a link has two ends; this one has {len(link.ends)}"
    for host, end in link.ends.items():
        if host not in hosts.hosts:
            yield f"{at}.ends.{host}", "there is no such host in this file"
        if not _INTERFACE.match(end.interface):
            yield f"{at}.ends.{host}.interface", f"{end.interface!r} is no name of an interface"
        try:
            ipaddress.IPv4Address(end.address)
        except ValueError:
            yield f"{at}.ends.{host}.address", f"{end.address!r} is no IPv4 address"


def known_hosts_of(path: Path) -> Path:
    """The known_hosts file that belongs to a hosts file."""
    return path.resolve().with_suffix(".known_hosts")

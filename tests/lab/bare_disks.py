"""Volumes of a node as disks of a host: with a serial, and a name below /dev/disk/by-id.

A node has no udev, and its volumes no serial. What udev would leave is written by hand: its database, which lsblk
reads, and its links.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blocklab.model import node_programs
from blocklab.model.host import Host, must

BY_ID = "/dev/disk/by-id"


def plug(host: Host, device: str, serial: str) -> str:
    """Give a volume a serial; its ID. A second call gives it another one."""
    number = must(host, ["cat", f"/sys/block/{Path(device).name}/dev"]).strip()
    host.put(f"/run/udev/data/b{number}", f"E:ID_SERIAL_SHORT={serial}\n".encode())
    path = f"{BY_ID}/virtio-{serial}"
    must(host, ["mkdir", "-p", BY_ID])
    must(host, ["ln", "-sfn", device, path])
    return path


@dataclass
class BareDisk:
    """A volume that is plugged in: its device on the node, its file on this machine, and a folder for a test's
    own files."""

    host: Host
    device: str
    file: Path
    serial: str
    id: str
    folder: Path

    @property
    def name(self) -> str:
        """The kernel's name."""
        return Path(self.device).name

    @property
    def size(self) -> int:
        """In bytes."""
        return self.file.stat().st_size

    def words(self, **changes: Any) -> list[str]:
        """Its arguments to the programs, or others in their place."""
        found = {"serial": self.serial, "size": self.size, **changes}
        return [
            str(found.pop("id", self.id)),
            *(word for name, value in found.items() for word in (f"--{name}", str(value))),
        ]

    def settle(self) -> str:
        """A checksum of all that is on it."""
        must(self.host, ["sync"])
        with self.file.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def write(self, at: int, data: bytes) -> None:
        """Past the node, whose cache is emptied."""
        must(self.host, ["sync"])
        with self.file.open("r+b") as file:
            file.seek(at)
            file.write(data)
        must(self.host, ["blockdev", "--flushbufs", self.device])

    def read(self, at: int, size: int) -> bytes:
        """Past the node."""
        must(self.host, ["sync"])
        with self.file.open("rb") as file:
            file.seek(at)
            return file.read(size)

    def empty(self) -> None:
        """All zero again, without partitions."""
        size = self.size
        must(self.host, ["sync"])
        with self.file.open("r+b") as file:
            file.truncate(0)
            file.truncate(size)
        must(self.host, ["blockdev", "--setrw", self.device])
        must(self.host, ["blockdev", "--flushbufs", self.device])
        must(self.host, ["blockdev", "--rereadpt", self.device])


def ask(host: Host, program: str, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code of one of blocklab's programs, and what it printed."""
    done = host.run(node_programs.program(program, *words), timeout=120.0)
    try:
        return done.code, json.loads(done.out)
    except ValueError:
        raise AssertionError(f"{program} {words}: {done.code} {done.said}") from None

"""Raw volumes of a node: sparse files, and the servers that make them behave like a cloud disk.

A plain volume is a file that the node's ``ubd`` driver opens by itself. A volume with a profile has a server, one
process: file -> server (limits, latency) -> vhost-user -> the node's virtio-blk. The limits are below everything
in the node, so they also hold for a mirror's writes from the peer.
"""

from __future__ import annotations

import errno
import json
import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from blocklab.errors import SetupError
from blocklab.layers.performance import LATENCIES, PER_MIB, QUANTILES, quantiles
from blocklab.model.ground import Profile, VolumeSpec
from blocklab.sites.uml.image import Image
from blocklab.sites.uml.orders import order
from blocklab.sites.uml.processes import Process, check_socket

# Starts a process that the lab will end: name, argv, log.
Start = Callable[[str, Sequence[str], Path], Process]


def make_file(path: Path, size: int) -> None:
    """A sparse file. Raises ``SetupError`` where there is no room for a file of that size."""
    try:
        with path.open("xb") as file:
            os.truncate(file.fileno(), size)
    except OSError as error:
        raise SetupError(f"cannot make the volume {path} of {size} bytes: {error}") from error


def empty(path: Path) -> None:
    """Make the file all holes again, in place: a node or a daemon has it open."""
    size = path.stat().st_size
    os.truncate(path, 0)
    os.truncate(path, size)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy what is not a hole into a file of the same size that is all holes."""
    with source.open("rb") as read, target.open("r+b") as write:
        end = os.fstat(read.fileno()).st_size
        at = 0
        while at < end:
            try:
                start = os.lseek(read.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    # nothing but a hole up to the end
                    return
                raise
            at = os.lseek(read.fileno(), start, os.SEEK_HOLE)
            os.lseek(write.fileno(), start, os.SEEK_SET)
            while start < at:
                start += os.sendfile(write.fileno(), read.fileno(), start, min(at - start, 1 << 30))


def behaviour(profile: Profile, place: str = "") -> dict[str, Any]:
    """A profile as the server takes it (``volume/profile.rs``): seconds and bytes as numbers.

    ``place`` says where the volume is, e.g. ``a1-0``: two volumes of one profile draw different latencies, and the
    volume at one place draws the same ones whatever stands on it.
    """
    found: dict[str, Any] = {"seed": zlib.crc32(f"{profile.seed or 0} {place}".encode())}
    if profile.io_most:
        found["split"] = int(profile.io_most)
    for name in ("iops", "burst_iops", "burst_seconds", "read_iops", "write_iops"):
        if value := getattr(profile, name):
            found[name] = value
    for name in ("bandwidth", "read_bandwidth", "write_bandwidth", *LATENCIES, *PER_MIB):
        if value := getattr(profile, name):
            found[name] = float(value)
    for name in QUANTILES:
        if value := getattr(profile, name):
            found[name] = quantiles(value)
    if slow := profile.slow:
        found["slow"] = {"times": slow.times, "for": float(slow.lasts), "every": float(slow.every)}
    if degrade := profile.degrade:
        found["degrade"] = {"to": float(degrade.to), "for": float(degrade.lasts), "every": float(degrade.every)}
    return found


def server_argv(
    server: Path, file: Path, sockets: Sequence[Path], control: Path, profile: Mapping[str, Any]
) -> list[str]:
    """The server of one volume: a vhost-user socket for each node. All share its limits: a disk that is shared by
    two nodes has one cap. At ``control`` it takes orders (``orders``); ``profile`` is what ``behaviour`` gives."""
    config = {
        "file": str(file),
        "sockets": [str(socket) for socket in sockets],
        "control": str(control),
        "profile": profile,
    }
    return [str(server), json.dumps(config)]


def wait_for_socket(socket: Path, process: Process, seconds: float = 30.0) -> None:
    """Until the daemon listens. Raises ``SetupError`` with what the daemon said."""
    deadline = time.monotonic() + seconds
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SetupError(f"{process.name} did not start\n{process.last_words()}")
        time.sleep(0.005)


class Volume:
    """One volume: its file and, with a profile, its ``server``, once it is started. ``sockets`` has one for each
    node."""

    def __init__(self, spec: VolumeSpec, place: Path, folder: Path) -> None:
        name = f"{spec.nodes[0]}-{spec.stack}-{spec.index}"
        self.spec = spec
        self.profile = spec.profile
        self.shared = len(spec.nodes) > 1
        self.file = place / f"{name}.img"
        self.sockets = {node: folder / f"{node}-{spec.stack}-{spec.index}.vhost" for node in spec.nodes}
        self.server: Process | None = None
        self._control = folder / f"{name}.control"
        self._log = folder / f"{name}.volume.log"

    def serve(self, image: Image, start: Start) -> None:
        """Start what the profile needs: nothing for a plain volume. Raises ``SetupError``."""
        if self.profile.plain:
            return
        sockets = tuple(self.sockets.values())
        for path in (*sockets, self._control):
            check_socket(path, "set BLOCKLAB_SCRATCH to a folder with a short path, or take shorter names")
        profile = behaviour(self.profile, f"{self.spec.nodes[0]}-{self.spec.index}")
        self.server = start(
            f"volume {self.spec.stack} of {' and '.join(self.spec.nodes)}",
            server_argv(image.volume_server, self.file, sockets, self._control, profile),
            self._log,
        )
        # It opens them in this order.
        for path in (self._control, *sockets):
            wait_for_socket(path, self.server)

    def order(self, op: str, **fields: Any) -> dict[str, Any]:
        """Have its server do something while it runs (``orders.order``). Raises ``SetupError``, also for a plain
        volume, which has none."""
        if self.server is None:
            raise SetupError(f"{self.file.name} is a plain volume: it has no server that could {op}")
        return order(self._control, op, **fields)

    def reset(self) -> None:
        """As at the start: full buckets, and the same draws again. Raises ``SetupError``."""
        if self.server is not None:
            self.order("reset")

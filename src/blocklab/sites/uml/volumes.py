"""Raw volumes of a node: sparse files, and the daemons that give them a cloud disk's manners.

A plain volume is a file that the node's ``ubd`` driver opens by itself. A volume with a profile goes
file -> nbdkit (delay, when a latency is asked for) -> storage daemon (throttle) -> vhost-user -> virtio-blk.
The throttle sits below everything in the node, so it also holds for a mirror's writes from the peer.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from blocklab.errors import SetupError
from blocklab.model.ground import Profile
from blocklab.sites.uml.image import Image
from blocklab.sites.uml.processes import Process

# What one delayed request takes besides the delay itself: half of it on the way through nbd, throttle, vhost-user
# and virtio, half because nbdkit's sleep wakes up late. ``python -m bench.floor`` measures it (0.23 ms on two
# machines); subtracting it makes a volume of 450 us take 450 us, not 680. Shorter latencies end at the path's own.
PATH_SECONDS = 230e-6
# Starts a process that the lab will end: name, argv, log.
Start = Callable[[str, Sequence[str], Path], Process]
# Requests that nbdkit delays at the same time: queue depth beyond it would wait twice.
NBD_THREADS = 256


def make_file(path: Path, size: int) -> None:
    """A sparse file. Raises ``SetupError`` where there is no room for a file of that size."""
    try:
        with path.open("xb") as file:
            os.truncate(file.fileno(), size)
    except OSError as error:
        raise SetupError(f"cannot make the volume {path} of {size} bytes: {error}") from error


def delay_argv(nbdkit: Path, plugin: Path, delay: Path, file: Path, socket: Path, profile: Profile) -> list[str]:
    """nbdkit that serves ``file`` with the profile's latencies, less what the path itself takes."""

    def microseconds(latency: float) -> str:
        return f"{round(max(0.0, latency - PATH_SECONDS) * 1e6)}us"

    return [
        str(nbdkit), "--foreground", "--exit-with-parent", f"--threads={NBD_THREADS}",
        f"--unix={socket}", f"--filter={delay}", str(plugin), f"file={file}",
        f"delay-read={microseconds(profile.read_latency)}",
        f"delay-write={microseconds(profile.write_latency)}",
    ]  # fmt: skip


def limits(profile: Profile) -> dict[str, int]:
    """The throttle group's limits, by QEMU's names (docs/throttle.txt): averages, and a bucket for the burst.

    Without a burst QEMU's bucket holds a tenth of a second of I/O.
    """
    found: dict[str, int] = {}
    if profile.iops:
        found["iops-total"] = profile.iops
    if profile.burst_iops:
        found["iops-total-max"] = profile.burst_iops
        found["iops-total-max-length"] = profile.burst_seconds
    if profile.bandwidth:
        found["bps-total"] = round(profile.bandwidth)
    return found


def daemon_argv(daemon: Path, file: Path, nbd: Path | None, socket: Path, profile: Profile) -> list[str]:
    """The storage daemon: source, throttle, vhost-user export."""
    source: dict[str, Any] = (
        {"driver": "nbd", "node-name": "source", "server": {"type": "unix", "path": str(nbd)}}
        if nbd
        else {
            "driver": "raw", "node-name": "source",
            "file": {"driver": "file", "filename": str(file), "aio": "threads", "locking": "off"},
        }
    )  # fmt: skip
    group = {"qom-type": "throttle-group", "id": "group", "limits": limits(profile)}
    throttle = {"driver": "throttle", "node-name": "disk", "throttle-group": "group", "file": "source"}
    export = {
        "type": "vhost-user-blk", "id": "export", "node-name": "disk", "writable": True,
        "addr": {"type": "unix", "path": str(socket)},
    }  # fmt: skip
    return [
        str(daemon),
        "--object", json.dumps(group),
        "--blockdev", json.dumps(source),
        "--blockdev", json.dumps(throttle),
        "--export", json.dumps(export),
    ]  # fmt: skip


def wait_for_socket(socket: Path, process: Process, seconds: float = 5.0) -> None:
    """Until the daemon listens. Raises ``SetupError`` with what the daemon said."""
    deadline = time.monotonic() + seconds
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SetupError(f"{process.name} did not come up\n{process.last_words()}")
        time.sleep(0.005)


class Volume:
    """One volume of one node: its file and, with a profile, its two daemons."""

    def __init__(self, stack: str, node: str, profile: Profile, file: Path, folder: Path) -> None:
        self.stack = stack
        self.node = node
        self.profile = profile
        self.file = file
        self.socket = folder / f"{node}-{stack}.vhost"
        self._nbd = folder / f"{node}-{stack}.nbd"
        self._log = folder / f"{node}-{stack}.volume.log"

    def serve(self, image: Image, start: Start) -> None:
        """Start what the profile needs: nothing for a plain volume. Raises ``SetupError``."""
        if self.profile.plain:
            return
        nbd: Path | None = None
        name = f"volume {self.stack} of {self.node}"
        if self.profile.read_latency or self.profile.write_latency:
            nbd = self._nbd
            argv = delay_argv(
                image.nbdkit,
                image.nbdkit_plugins["file"],
                image.nbdkit_filters["delay"],
                self.file,
                nbd,
                self.profile,
            )
            wait_for_socket(nbd, start(f"{name}: nbdkit", argv, self._log))
        argv = daemon_argv(image.storage_daemon, self.file, nbd, self.socket, self.profile)
        wait_for_socket(self.socket, start(f"{name}: storage daemon", argv, self._log))

"""Raw volumes of a node: sparse files, and the daemons that give them a cloud disk's manners.

A plain volume is a file that the node's ``ubd`` driver opens by itself. A volume with a profile goes
file -> nbdkit (delay, when a latency is asked for) -> storage daemon (throttle) -> vhost-user -> virtio-blk.
The throttle sits below everything in the node, so it also holds for a mirror's writes from the peer.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from blocklab.errors import SetupError
from blocklab.model.ground import Profile, VolumeSpec
from blocklab.sites.uml import qmp
from blocklab.sites.uml.image import Image
from blocklab.sites.uml.processes import Process, check_socket

# What one delayed request takes besides the delay itself: half of it on the way through nbd, throttle, vhost-user
# and virtio, half because nbdkit's sleep wakes up late. ``python -m bench.floor`` measures it (0.23 ms on two
# machines); subtracting it makes a volume of 450 us take 450 us, not 680. Shorter latencies end at the path's own.
PATH_SECONDS = 230e-6
# Starts a process that the lab will end: name, argv, log.
Start = Callable[[str, Sequence[str], Path], Process]
# Requests that nbdkit delays at the same time: queue depth beyond it would wait twice.
NBD_THREADS = 256
# The throttle group, by its name in the daemon.
GROUP = "group"


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
    for way in ("read", "write"):
        if cap := getattr(profile, f"{way}_iops"):
            found[f"iops-{way}"] = cap
        if cap := getattr(profile, f"{way}_bandwidth"):
            found[f"bps-{way}"] = round(cap)
    if profile.bandwidth:
        found["bps-total"] = round(profile.bandwidth)
    return found


def daemon_argv(
    daemon: Path,
    file: Path,
    nbd: Path | None,
    sockets: Sequence[Path],
    profile: Profile,
    control: Path | None = None,
) -> list[str]:
    """The storage daemon: source, throttle, and a vhost-user export for each node. ``control`` is the socket at
    which it takes orders (``qmp``)."""
    # Otherwise QEMU leaves what is discarded as it was, while a server of a mirror's other leg makes it zeroes.
    unmap = {"discard": "unmap"}
    source: dict[str, Any] = (
        {"driver": "nbd", "node-name": "source", **unmap, "server": {"type": "unix", "path": str(nbd)}}
        if nbd
        else {
            "driver": "raw", "node-name": "source", **unmap,
            "file": {"driver": "file", "filename": str(file), "aio": "threads", "locking": "off"},
        }
    )  # fmt: skip
    # All exports stand on the one throttle: a disk that is shared by two nodes has one cap.
    group = {"qom-type": "throttle-group", "id": GROUP, "limits": limits(profile)}
    throttle = {"driver": "throttle", "node-name": "disk", **unmap, "throttle-group": GROUP, "file": "source"}
    exports: list[str] = []
    orders: list[str] = []
    if control is not None:
        orders = ["--chardev", f"socket,id=control,path={control},server=on,wait=off", "--monitor", "control"]
    for number, socket in enumerate(sockets):
        export = {
            "type": "vhost-user-blk", "id": f"export{number}", "node-name": "disk", "writable": True,
            "addr": {"type": "unix", "path": str(socket)},
        }  # fmt: skip
        exports += ["--export", json.dumps(export)]
    return [
        str(daemon),
        "--object", json.dumps(group),
        "--blockdev", json.dumps(source),
        "--blockdev", json.dumps(throttle),
        *orders,
        *exports,
    ]  # fmt: skip


def wait_for_socket(socket: Path, process: Process, seconds: float = 30.0) -> None:
    """Until the daemon listens. Raises ``SetupError`` with what the daemon said."""
    deadline = time.monotonic() + seconds
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SetupError(f"{process.name} did not come up\n{process.last_words()}")
        time.sleep(0.005)


class Volume:
    """One volume: its file and, with a profile, its ``daemons``, once they are started. ``sockets`` has one for
    each node; at ``control`` the storage daemon takes orders, None where there is nothing to order."""

    def __init__(self, spec: VolumeSpec, place: Path, folder: Path) -> None:
        name = f"{spec.nodes[0]}-{spec.stack}-{spec.index}"
        self.spec = spec
        self.profile = spec.profile
        self.shared = len(spec.nodes) > 1
        self.file = place / f"{name}.img"
        self.sockets = {node: folder / f"{node}-{spec.stack}-{spec.index}.vhost" for node in spec.nodes}
        self.daemons: list[Process] = []
        self._nbd = folder / f"{name}.nbd"
        # Only a bucket is ever to be filled again.
        self.control = folder / f"{name}.qmp" if spec.profile.burst_iops else None
        self._log = folder / f"{name}.volume.log"

    def serve(self, image: Image, start: Start) -> None:
        """Start what the profile needs: nothing for a plain volume. Raises ``SetupError``."""
        if self.profile.plain:
            return
        # The path of nbdkit's own is shorter.
        for path in (*self.sockets.values(), *([self.control] if self.control else [])):
            check_socket(path, "set BLOCKLAB_SCRATCH to a folder with a short path, or take shorter names")
        nbd: Path | None = None
        name = f"volume {self.spec.stack} of {' and '.join(self.spec.nodes)}"
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
            self.daemons.append(start(f"{name}: nbdkit", argv, self._log))
            wait_for_socket(nbd, self.daemons[-1])
        sockets = tuple(self.sockets.values())
        daemon = start(
            f"{name}: storage daemon",
            daemon_argv(image.storage_daemon, self.file, nbd, sockets, self.profile, self.control),
            self._log,
        )
        self.daemons.append(daemon)
        for socket in (*sockets, *([self.control] if self.control else [])):
            wait_for_socket(socket, daemon)

    def refill(self) -> None:
        """A full bucket again, for a volume that has one. Raises ``SetupError``."""
        if self.control:
            # Limits that are set again begin with empty levels, which is what QEMU calls a full bucket.
            new = {"path": f"/objects/{GROUP}", "property": "limits", "value": limits(self.profile)}
            qmp.order(self.control, "qom-set", new)

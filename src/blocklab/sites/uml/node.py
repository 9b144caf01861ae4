"""One node: a User Mode Linux kernel as a pinned process, and the ``Host`` that its agent makes of it."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from blocklab.errors import NodeLost
from blocklab.model.clock import clock
from blocklab.model.host import must
from blocklab.model.units import Size
from blocklab.sites.agented import Agented
from blocklab.sites.channel import Channel
from blocklab.sites.uml.processes import Process

# Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100
PANIC = "Kernel panic"
# So often a node's clock is asked; the fastest answer tells most.
_LOOKS = 3


def kernel_argv(
    kernel: Path,
    *,
    node: str,
    memory: Size,
    rootfs: Path,
    folder: Path,
    disks: Sequence[tuple[Path, bool]],
    sockets: Sequence[Path],
    nics: Sequence[tuple[int, int]],
    line: int,
) -> list[str]:
    """The kernel's command line.

    ``disks`` (and whether another node has it too) become ubdb, ubdc, ...; ``sockets`` (vhost-user) become vda,
    vdb, ...; ``nics`` are descriptors of socketpair ends, each with the largest MTU that it will take, that become
    vec0, vec1, ...; ``line`` is the descriptor of the control channel.
    """
    return [
        *common_argv(kernel, node, memory, f"{folder}/uml/"),
        # r: read-only; c: shared, so that the file is not locked; d: do not look for a COW header.
        f"ubd0r={rootfs}",
        "root=/dev/ubda",
        *(f"ubd{number}{'c' if shared else ''}={disk}" for number, (disk, shared) in enumerate(disks, 1)),
        *(f"virtio_uml.device={path}:2" for path in sockets),
        *(
            f"vec{number}:transport=fd,fd={fd},depth=64,mtu={mtu},mac={mac_of(node, number)}"
            for number, (fd, mtu) in enumerate(nics)
        ),
        f"ssl0=fd:{line},fd:{line}", "ssl=null",
    ]  # fmt: skip


def common_argv(kernel: Path, node: str, memory: Size, folder: str) -> list[str]:
    """What is on every node's command line; ``folder`` is for the kernel's own files."""
    return [
        str(kernel),
        f"mem={int(memory) // 2**20}M",
        "seccomp=on",
        "ro", "rootfstype=ext4", "init=/usr/lib/blocklab/init", f"node={node}",
        "con=null", "con0=null,fd:1", "quiet", "loglevel=4",
        # A panicked kernel must end its process, not wait for somebody to look.
        "panic=-1", "oops=panic",
        f"umid={node}", f"uml_dir={folder}",
    ]  # fmt: skip


def mac_of(node: str, number: int) -> str:
    """The address of a node's n-th interface, the same after each boot: the others go on sending to the one that
    they know, for half a minute if nobody answers there."""
    # 02: locally administered, one interface
    return "02:" + hashlib.sha256(f"{node} {number}".encode()).digest()[:5].hex(":")


class Node(Agented):
    """A started node. Every method raises ``NodeLost`` once the node is gone."""

    def __init__(self, name: str, process: Process, line: Channel) -> None:
        super().__init__(name, line)
        self.process = process
        self.doomed = threading.Event()
        self.frozen = threading.Event()

    def crash(self) -> None:
        """SIGKILL to all of the node's processes, as a power cut."""
        self.doomed.set()
        self.frozen.clear()
        self.process.kill()
        self.process.wait_gone()
        self.channel.fail(NodeLost(self.name, "crashed on purpose"))

    def freeze(self) -> None:
        """SIGSTOP to all of the node's processes."""
        self.frozen.set()
        self.process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT to all of the node's processes."""
        # Its heart has yet to beat again.
        self.channel.last_beat = time.monotonic()
        self.process.signal(signal.SIGCONT)
        self.frozen.clear()

    def wait_ready(self, deadline: float) -> None:
        """Until the agent's first heartbeat. Raises ``NodeLost``."""
        while not self.channel.ready.wait(0.02):
            if self.process.poll() is not None:
                raise NodeLost(self.name, "its kernel ended during the boot", self.console())
            if time.monotonic() > deadline:
                raise NodeLost(self.name, "it did not boot in time", self.console())

    def set_clock(self) -> None:
        """Set its clock by ours. Until it has booted its kernel counts ticks, and misses some where many nodes
        boot on one CPU: it would stay a second behind. Raises ``HostError``."""
        found = min((clock(self) for _ in range(_LOOKS)), key=lambda each: each.error)
        if abs(found.offset) > found.error:
            must(self, ("date", "--set", f"{-found.offset:+.6f}sec"))

    def console(self) -> str:
        """What its kernel printed; of a panic the lines around it, since a stack dump follows."""
        try:
            text = self.process.log.read_text(errors="replace")
        except OSError:
            return ""
        before, panic, after = text.partition(PANIC)
        if not panic:
            return text
        return "\n".join([*before.splitlines()[-6:], panic + after.split("\n", 1)[0]])

"""Nodes of the lab as somebody's hosts: blocklab reaches them by nothing but OpenSSH.

Each has its addresses, its delays and its disks before blocklab comes, and a real sshd behind a ProxyCommand.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from blocklab.model.ground import End, LinkSpec, Topology
from blocklab.model.host import must
from blocklab.sites.names import ground
from blocklab.sites.ssh.hosts import known_hosts_of
from blocklab.sites.uml.node import Node
from blocklab.sites.uml.site import UmlSite
from tests.lab.bare_disks import plug

SSHD = """\
HostKey /etc/blocklab-test/host
AuthorizedKeysFile /etc/blocklab-test/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
# One is enough.
MaxSessions 1
"""
# Hands the connection to ssh (ProxyUseFdpass): no process of ours in between.
# A stack of this name has hosts' own disks: for what they keep over a boot.
OWN = "own"
PROXY = (
    "import socket, sys; line = socket.socket(socket.AF_UNIX); line.connect(sys.argv[1]); "
    "socket.send_fds(socket.socket(fileno=1), [b'!'], [line.fileno()])"
)
CALL = (
    "import socket, sys; line = socket.socket(socket.AF_UNIX); line.connect(sys.argv[1]); "
    "line.sendall(' '.join(sys.argv[2:]).encode()); print(line.recv(99).decode())"
)


class Bridge:
    """Starts an sshd on the node for each connection to a Unix socket here."""

    def __init__(self, node: Node, path: Path) -> None:
        self.node = node
        self.path = path
        self.cut = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._lines: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                if self.cut.is_set():
                    line.close()
                    continue
                self._lines.append(line)
                threading.Thread(target=self._carry, args=(line,), daemon=True).start()

    def _carry(self, line: socket.socket) -> None:
        def said(stream: int, data: bytes) -> None:
            with contextlib.suppress(OSError):
                if stream == 1:
                    line.sendall(data)

        argv = ["/usr/sbin/sshd", "-i", "-f", "/etc/blocklab-test/sshd_config"]
        with contextlib.suppress(Exception):
            call = self.node.order("spawn", said, argv=argv, feed=True)
            while not call.ended.is_set():
                if not select.select([line], [], [], 0.1)[0]:
                    continue
                data = line.recv(1 << 16)
                self.node.tell("input", call, data, **({} if data else {"end": True}))
                if not data:
                    break
            call.wait(30.0)
        with contextlib.suppress(OSError):
            line.close()

    def break_off(self) -> None:
        """Every connection breaks, as when the network between goes."""
        lines, self._lines = self._lines, []
        for line in lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """No more connections."""
        self.cut.set()
        self._listener.close()
        self.break_off()


class Reached:
    """Hosts by a hosts file. ``lab`` is behind them, for a test to plant things and to look.

    Link delays are the whole ``rtt`` of the topology's links, half of it at each end: what the hosts' links take.
    """

    def __init__(self, topology: Topology, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "hosts.yaml"
        self.disks: dict[str, dict[str, Any]] = {}
        self.bridges: dict[str, Bridge] = {}
        self._topology = topology
        self._ground = ground(topology)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True)
        public = " ".join((folder / "host.pub").read_text().split()[:2])
        known_hosts_of(self.file).write_text("".join(f"{name} {public}\n" for name in topology.nodes))
        (folder / "ssh_config").write_text("".join(map(self._ssh_config, topology.nodes)))
        self.lab = UmlSite().start(topology)
        try:
            for name in topology.nodes:
                self.set_up(name)
            self._switch = Switch(self, folder / "power.sock")
        except BaseException:
            self.close()
            raise

    def _ssh_config(self, name: str) -> str:
        proxy = f'{sys.executable} -c "{PROXY}" {self.folder}/{name}.sock'
        return f"Host {name}\n  ProxyUseFdpass yes\n  ProxyCommand {proxy}\n"

    def set_up(self, name: str) -> None:
        """What a host has before blocklab comes: sshd, addresses, delays, disks that udev has named. A node's own
        files go when it is booted again."""
        node = self.lab.nodes[name]
        # First, for the folder is as open as the file that it is made for, and users read their keys there.
        node.put("/etc/blocklab-test/sshd_config", SSHD.encode())
        for file, mode in (("host", 0o600), ("user.pub", 0o644)):
            node.put(f"/etc/blocklab-test/{file}", (self.folder / file).read_bytes(), mode)
        must(node, ["mkdir", "-p", "/run/sshd"])
        for link, ends in self._ground.ends.items():
            if name in ends:
                self._plug_in(node, ends[name], self._topology.links[link])
        for spec in self._topology.volumes:
            if name in spec.nodes:
                device, serial = self._ground.devices[spec.stack][name][spec.index], f"{name}-{spec.index}"
                if spec.stack == OWN:
                    # Formatted once: what is on it outlives the node, as a host's own disk does.
                    node.run(["sh", "-c", f"blkid {device} || mkfs.ext4 -q {device}"])
                    must(node, ["mount", "-m", device, "/var/lib/blocklab"])
                    continue
                entry = {"id": plug(node, device, serial), "serial": serial, "size": str(spec.profile.size)}
                self.disks.setdefault(name, {})[f"disk{spec.index}"] = entry
        if name in self.bridges:
            self.bridges[name].node = node
        else:
            self.bridges[name] = Bridge(node, self.folder / f"{name}.sock")

    @staticmethod
    def _plug_in(node: Node, end: End, link: LinkSpec) -> None:
        must(node, ["ip", "link", "set", end.nic, "mtu", str(link.mtu), "up"])
        must(node, ["ip", "addr", "add", f"{end.address}/24", "dev", end.nic])
        if link.rtt:
            delay = f"{float(link.rtt) / 2 * 1e6:.0f}us"
            must(node, ["tc", "qdisc", "add", "dev", end.nic, "root", "netem", "delay", delay])

    def write(self, **more: Any) -> str:
        """The hosts file with all of them, or with other parts; its path."""
        ends = {
            name: {"ends": {host: {"interface": end.nic, "address": end.address} for host, end in each.items()}}
            for name, each in self._ground.ends.items()
        }
        plain = {"hosts": {name: self.entry(name) for name in self._topology.nodes}, "links": ends, **more}
        YAML(typ="safe").dump(plain, self.file)
        return str(self.file)

    def entry(self, name: str, **more: Any) -> dict[str, Any]:
        """What a hosts file has to say of one."""
        return {
            "address": name, "user": "root", "become": "none", "identity": str(self.folder / "user"),
            "ssh_config": str(self.folder / "ssh_config"), "disks": self.disks.get(name, {}), **more,
        }  # fmt: skip

    def power(self, name: str, off: str = "off") -> dict[str, Any]:
        """Commands that switch its power; ``off`` may be ``shutdown``."""
        call = [sys.executable, "-c", CALL, str(self.folder / "power.sock")]
        return {
            "off": [*call, off, name],
            "check": [*call, "check", name],
            "is_off": "off",
            "on": [*call, "on", name],
        }

    def close(self) -> None:
        """End the nodes."""
        if hasattr(self, "_switch"):
            self._switch.close()
        for bridge in self.bridges.values():
            bridge.close()
        self.lab.close()


class Switch:
    """Switches nodes off and on, as a power strip or a cloud's interface: one command a connection."""

    def __init__(self, there: Reached, path: Path) -> None:
        self._there = there
        self._off: set[str] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                with line:
                    what, name = line.recv(4096).decode().split()
                    line.sendall(self._do(what, name).encode())

    def _do(self, what: str, name: str) -> str:
        if what == "shutdown":
            # What systemd does to all that is still there.
            self._there.lab.nodes[name].run(["pkill", "-TERM", "-f", "python3 -I -S -u -c"])
            time.sleep(1.0)
        if what in ("off", "shutdown"):
            self._off.add(name)
            self._there.lab.crash(name)
            self._there.bridges[name].break_off()
        elif what == "on":
            self._there.lab.boot(name)
            self._there.set_up(name)
            self._off.discard(name)
        return "off" if name in self._off else "on"

    def close(self) -> None:
        """No more commands."""
        self._listener.close()


@contextlib.contextmanager
def reached(topology: Topology) -> Iterator[Reached]:
    """Start nodes with these links and volumes, and an sshd on each."""
    folder = Path(tempfile.mkdtemp(prefix="blocklab-ssh-", dir=os.environ.get("BLOCKLAB_SCRATCH", "/tmp")))
    try:
        with contextlib.closing(Reached(topology, folder)) as there:
            yield there
    finally:
        shutil.rmtree(folder)


def blocklab(*argv: str, folder: Path) -> tuple[int, str]:
    """The command line as a user calls it."""
    done = subprocess.run(
        [sys.executable, "-m", "blocklab.cli.main", *argv],
        cwd=folder,
        capture_output=True,
        timeout=1500,
        check=False,
    )
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def residue(there: Reached) -> dict[str, str]:
    """What a run would leave on the hosts, if it left anything."""
    look = (
        "grep blocklab- /proc/mounts; ls /sys/block | grep -E 'dm-|drbd|md'; ls /etc/drbd.d | grep blocklab; "
        "ls /run/blocklab | grep -v '^lock$'; ls -d /mnt/blocklab-*; "
        "ls -d /var/lib/blocklab/work/* /var/lib/blocklab/log /var/lib/blocklab/bin; "
        "cat /var/lib/blocklab/journal.jsonl; pgrep -fa '[p]ostgres|[f]io|[s]ampler|[h]eld'; tc qdisc | grep netem"
    )
    return {name: node.run(["sh", "-c", f"({look}) 2> /dev/null"]).text for name, node in there.lab.nodes.items()}

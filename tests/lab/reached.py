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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from blocklab.model.ground import Topology
from blocklab.model.host import must
from blocklab.sites.names import ground
from blocklab.sites.ssh.hosts import known_hosts_of
from blocklab.sites.uml.node import Node
from blocklab.sites.uml.site import UmlLab, UmlSite
from tests.lab.bare_disks import plug

SSHD = """\
HostKey /etc/blocklab-test/host
AuthorizedKeysFile /etc/blocklab-test/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
"""
# Hands the connection to ssh (ProxyUseFdpass): no process of ours in between.
PROXY = (
    "import socket, sys; line = socket.socket(socket.AF_UNIX); line.connect(sys.argv[1]); "
    "socket.send_fds(socket.socket(fileno=1), [b'!'], [line.fileno()])"
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
    """Hosts by a hosts file. ``lab`` is behind them, for a test to plant things and to look."""

    def __init__(
        self, lab: UmlLab, folder: Path, bridges: Mapping[str, Bridge], disks: Mapping[str, dict[str, Any]]
    ) -> None:
        self.lab = lab
        self.disks = disks
        self.folder = folder
        self.bridges = bridges
        self.file = folder / "hosts.yaml"

    def write(self, plain: Mapping[str, Any]) -> Path:
        """The hosts file."""
        YAML(typ="safe").dump(dict(plain), self.file)
        return self.file

    def entry(self, name: str, **more: Any) -> dict[str, Any]:
        """What a hosts file has to say of one."""
        return {
            "address": name, "user": "root", "become": "none", "identity": str(self.folder / "user"),
            "ssh_config": str(self.folder / "ssh_config"), "disks": self.disks.get(name, {}), **more,
        }  # fmt: skip


@contextlib.contextmanager
def reached(topology: Topology) -> Iterator[Reached]:
    """Start nodes with these links and volumes, and an sshd on each."""
    folder = Path(tempfile.mkdtemp(prefix="blocklab-ssh-", dir=os.environ.get("BLOCKLAB_SCRATCH", "/tmp")))
    lab = UmlSite().start(topology)
    bridges: dict[str, Bridge] = {}
    try:
        keys = ("host", "user")
        for name in keys:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
        lines = []
        for name, node in lab.nodes.items():
            for file in ("host", "user.pub"):
                node.put(
                    f"/etc/blocklab-test/{file}",
                    (folder / file).read_bytes(),
                    0o644 if file == "user.pub" else 0o600,
                )
            node.put("/etc/blocklab-test/sshd_config", SSHD.encode())
            must(node, ["mkdir", "-p", "/run/sshd"])
            bridges[name] = Bridge(node, folder / f"{name}.sock")
            proxy = f'{sys.executable} -c "{PROXY}" {folder}/{name}.sock'
            lines.append(f"Host {name}\n  ProxyUseFdpass yes\n  ProxyCommand {proxy}\n")
        (folder / "ssh_config").write_text("".join(lines))
        public = " ".join((folder / "host.pub").read_text().split()[:2])
        known_hosts_of(folder / "hosts.yaml").write_text("".join(f"{name} {public}\n" for name in lab.nodes))
        names = ground(topology)
        for link, ends in names.ends.items():
            for host, end in ends.items():
                must(lab.nodes[host], ["ip", "link", "set", end.nic, "mtu", str(topology.links[link].mtu), "up"])
                must(lab.nodes[host], ["ip", "addr", "add", f"{end.address}/24", "dev", end.nic])
        disks: dict[str, dict[str, Any]] = {}
        for spec in topology.volumes:
            for name in spec.nodes:
                device, serial = names.devices[spec.stack][name][spec.index], f"{name}-{spec.index}"
                disks.setdefault(name, {})[f"disk{spec.index}"] = {
                    "id": plug(lab.nodes[name], device, serial), "serial": serial, "size": str(spec.profile.size),
                }  # fmt: skip
        yield Reached(lab, folder, bridges, disks)
    finally:
        for bridge in bridges.values():
            bridge.close()
        lab.close()
        shutil.rmtree(folder)

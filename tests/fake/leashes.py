"""Hosts of a hosts file that are this machine, without SSH: programs held by a pipe, and what they listen on."""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from blocklab.sites.leashed import Order

LISTENS = "0A"


class LocalLeash:
    """A program as ``blocklab leashed`` holds it."""

    def __init__(self, order: Order, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "blocklab.cli.main", "leashed"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(order) + b"\n")
        self.process.stdin.flush()

    def told(self, seconds: float) -> bytes:
        """Its line."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], seconds)[0], "it said nothing"
        return self.process.stdout.readline()

    def check(self) -> None:
        """It is there."""
        assert self.process.poll() is None

    def close(self) -> None:
        """End it."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait(60)


class LocalHost:
    """A host by name. ``leashes``: what was started there."""

    address = "127.0.0.1"

    def __init__(self, name: str, environment: dict[str, str]) -> None:
        self.name = name
        self.leashes: list[LocalLeash] = []
        self._environment = environment

    def start(self, order: Order) -> LocalLeash:
        """Start a program."""
        self.leashes.append(LocalLeash(order, self._environment))
        return self.leashes[-1]


def family(pid: int) -> set[int]:
    """A process and all below it."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, more = set(), {pid}
    while more:
        found |= more
        more = {child for child, parent in parents.items() if parent in more} - found
    return found


def running(pid: int) -> bool:
    """Whether a process has not ended."""
    with contextlib.suppress(OSError):
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    return False


def ports(pid: int) -> set[tuple[str, int]]:
    """The addresses that a process listens on by TCP."""
    own = set()
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            own.add(str(link.readlink()))
    found = set()
    for name, family_of in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENS and f"socket:[{inode}]" in own:
                raw, _, port = local.partition(":")
                words = [bytes.fromhex(raw[at : at + 8])[::-1] for at in range(0, len(raw), 8)]
                found.add((socket.inet_ntop(family_of, b"".join(words)), int(port, 16)))
    return found


def answers_http(address: str, port: int) -> bool:
    """Whether somebody there answers a question in plain HTTP."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
    with contextlib.suppress(OSError), socket.create_connection((host, port), 10) as one:
        one.settimeout(10)
        one.sendall(b"GET /json/identity.json HTTP/1.0\r\n\r\n")
        return one.recv(64).startswith(b"HTTP/")
    return False

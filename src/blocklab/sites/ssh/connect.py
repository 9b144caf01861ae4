"""One connection to a host: OpenSSH starts the agent's far end there (``blocklab_node.host_agent``)."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

import msgspec

from blocklab.errors import SetupError
from blocklab.model import node_programs
from blocklab.sites.ssh.hosts import HostEntry

CONNECT_SECONDS = 15
# From the connection to the agent's greeting: a slow shell's start-up files and sudo come in between.
GREETING_SECONDS = 30.0
GREETING = b"\nblocklab-agent "
# What start-up files print before that; more is no shell that waits for a command.
MOST_NOISE = 1 << 20
NEEDS = "blocklab needs Python 3.9 or newer there"
# In the order in which one needs the other.
PROGRAMS = ("agent", "journal", "host_agent")


class Greeting(msgspec.Struct):
    """The far end's first line."""

    ok: bool
    kind: str = ""
    why: str = ""
    connection: str = ""


class Unreachable(SetupError):
    """A host cannot be had now. ``again``: it may be worth another try; ``busy``: another agent has it."""

    def __init__(self, message: str, *, hint: str = "", again: bool = False, busy: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.again = again
        self.busy = busy


def ssh_argv(entry: HostEntry, known_hosts: Path) -> list[str]:
    """The command without what runs there. Nothing of the user's own configuration counts unless it is named."""
    options = {
        "BatchMode": "yes", "StrictHostKeyChecking": "yes", "UserKnownHostsFile": f'"{known_hosts}"',
        "GlobalKnownHostsFile": "/dev/null", "ConnectTimeout": str(CONNECT_SECONDS), "ServerAliveInterval": "5",
        "ServerAliveCountMax": "3", "ControlMaster": "no", "ControlPath": "none", "ForwardAgent": "no",
        "ClearAllForwardings": "yes", "EscapeChar": "none", "LogLevel": "ERROR", "UpdateHostKeys": "no",
    }  # fmt: skip
    argv = ["ssh", "-T", "-F", entry.ssh_config or "none", "-p", str(entry.port)]
    for name, value in options.items():
        argv += ["-o", f"{name}={value}"]
    if entry.identity:
        argv += ["-o", "IdentitiesOnly=yes", "-i", entry.identity]
    return [*argv, "-l", entry.user, "--", entry.address] if entry.user else [*argv, "--", entry.address]


@cache
def _programs() -> dict[str, str]:
    return {name: node_programs.text(name) for name in PROGRAMS}


def far_end(order: dict[str, object]) -> bytes:
    """What ``blocklab_node.far`` reads: the agent's programs, and what it is to do."""
    data = msgspec.json.encode({"programs": _programs(), "order": {**order, "load": PROGRAMS}})
    return b"%d\n" % len(data) + data


class Connection:
    """A connection on which the agent has greeted: ``end`` carries its bytes, ``rest`` is what came behind the
    greeting. ``address``: the host's own, to which it leads; empty where sshd does not tell."""

    def __init__(
        self, end: socket.socket, process: subprocess.Popen[bytes], greeting: Greeting, rest: bytes
    ) -> None:
        self.end = end
        self.rest = rest
        # 10.0.0.9 51234 10.0.0.5 22: the client's address and port, and the host's
        parts = greeting.connection.split()
        self.address = parts[2] if len(parts) == 4 else ""
        self._process = process

    def close(self) -> None:
        """End it; the agent goes on."""
        self.end.close()
        stop(self._process)


def connect(name: str, entry: HostEntry, known_hosts: Path, order: dict[str, object]) -> Connection:
    """Connect to a host. Raises ``Unreachable`` with what is wrong and what to do."""
    there = ["python3", "-I", "-S", "-u", "-c", node_programs.text("far")]
    there = ["sudo", "-n", *there] if entry.become == "sudo" else there
    # The shell fills in the addresses of this connection, which sudo would take out of the environment.
    command = shlex.join(there) + ' "$SSH_CONNECTION"'
    ours, theirs = socket.socketpair()
    # A file takes whatever is said later, too, and nobody has to read it.
    with theirs, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [*ssh_argv(entry, known_hosts), command],
                stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=errors, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            ours.close()
            raise Unreachable("this machine has no ssh", hint="install OpenSSH's client") from error
        theirs.close()
        try:
            ours.settimeout(GREETING_SECONDS)
            with contextlib.suppress(OSError):
                ours.sendall(far_end(order))
            greeting, rest = _greeted(name, entry, ours, process, errors)
        except BaseException:
            ours.close()
            stop(process)
            raise
    ours.setblocking(False)
    return Connection(ours, process, greeting, rest)


def _greeted(
    name: str, entry: HostEntry, end: socket.socket, process: subprocess.Popen[bytes], errors: IO[bytes]
) -> tuple[Greeting, bytes]:
    """Read up to the greeting: that, and what came behind it."""
    data = b""
    deadline = time.monotonic() + GREETING_SECONDS
    while True:
        before, mark, behind = (b"\n" + data).partition(GREETING)
        if mark and b"\n" in behind:
            break
        before += behind
        try:
            piece = end.recv(1 << 16)
        except TimeoutError:
            piece = None
        except OSError:
            piece = b""
        if not piece or len(before) > MOST_NOISE or time.monotonic() > deadline:
            _say_why(name, entry, process, errors, before.decode(errors="replace"), late=piece is None)
        data += piece
    line, _, rest = behind.partition(b"\n")
    try:
        greeting = msgspec.json.decode(line, type=Greeting)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problem = f"{name} ({entry.address}): the greeting of its agent cannot be read: {error}"
        raise Unreachable(problem, hint="what does a shell's start-up file print there?") from error
    if not greeting.ok:
        _refused(name, entry, greeting)
    return greeting, rest


def _say_why(
    name: str, entry: HostEntry, process: subprocess.Popen[bytes], errors: IO[bytes], noise: str, *, late: bool
) -> NoReturn:
    """There is no greeting: say why, by what ssh, sudo and the shell said. Raises ``Unreachable``."""
    stop(process, gently=not late)
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip()
    last = (said or noise.strip()).splitlines()[-1:] or ["it said nothing"]
    at = f"{name} ({entry.address})"
    for words, problem, hint in _CAUSES:
        if words in said:
            hint = hint.format(name=name, user=entry.user or "the user")
            raise Unreachable(f"{at}: {problem}: {last[0]}", hint=hint)
    if late:
        hint = "does a shell start-up file there wait for something?"
        raise Unreachable(f"{at}: connected, but no answer in {GREETING_SECONDS:g} s", hint=hint, again=True)
    hint = "try it by hand: ssh, with the address, user and identity of the hosts file"
    raise Unreachable(f"{at} cannot be reached: {last[0]}", hint=hint, again=True)


# What OpenSSH, sudo and shells say -> the problem, and what to do.
# Host key verification failed.
# No ED25519 host key is known for 10.0.0.5 and you have requested strict checking.
# admin@10.0.0.5: Permission denied (publickey).
# sudo: a password is required
# sudo: a terminal is required to read the password; either use the -S option to read from standard input ...
# bash: line 1: sudo: command not found
# bash: line 1: python3: command not found
# sudo: python3: command not found
# env: 'python3': No such file or directory
_CAUSES = (
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key is another one than the known one",
     "if the host was made anew: remove its line from the known_hosts file, then blocklab hosts add {name}"),
    ("Host key verification failed", "its host key is not known", "blocklab hosts add {name} shows and keeps it"),
    ("host key is known", "its host key is not known", "blocklab hosts add {name} shows and keeps it"),
    ("Permission denied", "the login was refused", "check user and identity in the hosts file"),
    ("password is required", "sudo asks for a password",
     "let {user} use sudo without one (NOPASSWD in sudoers), or log in as root with become: none"),
    ("terminal is required", "sudo asks for a password",
     "let {user} use sudo without one (NOPASSWD in sudoers), or log in as root with become: none"),
    ("may not run sudo", "sudo is not allowed", "allow {user} to use sudo, or log in as root with become: none"),
    ("not in the sudoers", "sudo is not allowed", "allow {user} to use sudo, or log in as root with become: none"),
    ("sudo: command not found", "there is no sudo", "install it, or log in as root with become: none"),
    ("sudo: not found", "there is no sudo", "install it, or log in as root with become: none"),
    ("python3: command not found", "there is no Python", NEEDS),
    ("python3: not found", "there is no Python", NEEDS),
    ("python3’: No such file", "there is no Python", NEEDS),
    ("python3': No such file", "there is no Python", NEEDS),
)  # fmt: skip


def _refused(name: str, entry: HostEntry, greeting: Greeting) -> NoReturn:
    at = f"{name} ({entry.address})"
    if greeting.kind == "busy":
        raise Unreachable(
            f"{at} is in use by another blocklab: {greeting.why}",
            hint="wait until it has ended; an agent whose blocklab is gone ends by itself after 30 s",
            busy=True,
        )
    hints = {
        "python": NEEDS,
        "user": "log in as root, or let sudo do it: become: sudo",
        "failed": "is there room on the host, and may root write there?",
    }
    gone = f"its agent is gone: {greeting.why or 'it was killed, or the host was booted again'}"
    problem = gone if greeting.kind == "gone" else greeting.why
    raise Unreachable(f"{at}: {problem}", hint=hints.get(greeting.kind, ""))


def stop(process: subprocess.Popen[bytes], *, gently: bool = False) -> None:
    """End ssh and what it has started here (a ProxyCommand)."""
    if gently:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2.0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

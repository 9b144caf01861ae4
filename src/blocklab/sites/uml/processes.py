"""Processes on this machine that never outlive blocklab, and the janitor that sweeps after a SIGKILL."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from blocklab.errors import SetupError, tail
from blocklab.model.files import write_whole
from blocklab.sites.uml.janitor import MARK

JANITOR = Path(__file__).with_name("janitor.py")
# Every lab's folder starts like this, so that a later start can sweep what a lost machine left.
PREFIX = "blocklab-"
# Locked in it as long as blocklab lives: /proc knows nothing of a janitor in another container.
ALIVE = "alive"
_PID_BYTES = 32
# No path of ours may hold one: of the loader's lists of libraries; of the kernel's own command line, where a quote
# begins what blanks do not end, and of its "ubda=FILE,COW:FILE".
SEPARATORS = re.compile(r'[:;$,"\s]')
# The kernel reads its command line byte by byte, and this one is a blank to it (lib/ctype.c), which à and many
# others end with in UTF-8.
BLANK = b"\xa0"
PLAIN = 'take a folder whose path is plain ASCII, without blanks and , : ; $ "'
# A Unix socket's path is 108 bytes long at most, with the one that ends it.
SOCKET_BYTES = 107


def separator(path: Path) -> str:
    """The first character of a path that a node's kernel, or the loader of its tools, takes for a separator; empty
    where there is none."""
    return next((each for each in str(path) if SEPARATORS.match(each) or BLANK in os.fsencode(each)), "")


def check_path(path: Path, said: str, hint: str = PLAIN) -> None:
    """Raises ``SetupError`` for a path that cannot stand on a node's command line; ``said`` names it."""
    if bad := separator(path):
        raise SetupError(f"{said}: a node's kernel treats {bad!r} in a path as a separator", hint=hint)


def check_socket(path: Path, hint: str) -> None:
    """Raises ``SetupError`` for a path that is too long for a Unix socket."""
    if (size := len(os.fsencode(path))) > SOCKET_BYTES:
        raise SetupError(
            f"the path of the socket {path} has {size} bytes, and the system takes {SOCKET_BYTES}", hint=hint
        )


def scratch() -> Path:
    """Where a lab's sockets, consoles and volumes live: memory, unless the machine has no /dev/shm.
    ``$BLOCKLAB_SCRATCH`` is another place. Raises ``SetupError`` where it is none."""
    if own := os.environ.get("BLOCKLAB_SCRATCH"):
        if not os.access(own, os.W_OK | os.X_OK):
            raise SetupError(f"BLOCKLAB_SCRATCH={own} is not a writable folder", hint="make it first")
        real = Path(own).resolve()
        check_path(real, f"BLOCKLAB_SCRATCH={real}")
        return Path(own).absolute()
    shm = Path("/dev/shm")
    if os.access(shm, os.W_OK):
        return shm
    real = Path(tempfile.gettempdir()).resolve()
    check_path(real, f"{real}, where nodes live without /dev/shm", f"set BLOCKLAB_SCRATCH; {PLAIN}")
    return real


class Process:
    """A child in a process group of its own that the kernel kills when blocklab dies, however it dies.

    ``setpriv --pdeathsig`` sets the parent-death signal and executes on, so no code of ours runs between
    fork and exec in a process that may have threads. ``lab`` is the folder by whose name the janitor knows it.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        *,
        cpus: Sequence[int] = (),
        keep: Sequence[int] = (),
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
        lab: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        marked = {} if lab is None else {MARK: str(lab)}
        pin = ["taskset", "-c", ",".join(map(str, cpus))] if cpus else []
        command = ["setpriv", "--pdeathsig", "KILL", "--", *pin, *argv]
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=tuple(keep),
                start_new_session=True,
                env={**os.environ, **(environment or {}), **marked},
                cwd=folder,
            )
        self.pid = self._popen.pid

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._popen.poll()

    def signal(self, number: int) -> None:
        """Signal the whole process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """SIGKILL to the whole group. Frozen processes die of it too."""
        self.signal(signal.SIGKILL)

    def wait_gone(self, seconds: float = 30.0) -> None:
        """Reap the child and wait until its whole group is gone. Raises ``SetupError``."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        deadline = time.monotonic() + seconds
        while group_lives(self.pid):
            if time.monotonic() > deadline:
                raise SetupError(f"{self.name}: process group {self.pid} survived SIGKILL for {seconds:g} s")
            time.sleep(0.005)

    def last_words(self) -> str:
        """The end of its log, for a message."""
        with contextlib.suppress(OSError):
            return tail(self.log.read_text(errors="replace"))
        return ""


def group_lives(pgid: int) -> bool:
    """Whether any process of the group still runs. A zombie that process 1 has yet to reap does not count."""
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return any(state != "Z" for state, _ in _members(pgid))


def group_use(pgid: int) -> tuple[bool, float]:
    """Whether a process of the group has a CPU or waits for one, and the CPU time in s of those that live."""
    members = list(_members(pgid))
    return any(state == "R" for state, _ in members), sum(seconds for _, seconds in members)


def _members(pgid: int) -> Iterator[tuple[str, float]]:
    """State and CPU time in s of each process of a group."""
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # 29228 (linux.uml) S 29226 29228 29228 0 ...: pid (name, may hold blanks) state ppid pgrp; utime and
            # stime are the 14th and 15th
            fields = file.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[2]) == pgid:
                yield fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Folder:
    """A lab's folder in memory, with a janitor that empties it when blocklab is gone.

    The janitor is a tiny process that waits for the end of a pipe which only blocklab holds open; then it
    kills the process groups listed in the folder's ``groups`` file, and removes the folder. Raises ``SetupError``
    where no folder can be made.
    """

    def __init__(self, base: Path) -> None:
        # By one name, whoever gave which: by it a janitor is known as that of a folder.
        base = base.resolve()
        sweep(base)
        self.path = base / f"{PREFIX}{secrets.token_hex(4)}"
        self._groups = self.path / "groups"
        watched, self._hold = os.pipe()
        try:
            # Before the folder: whoever kills blocklab in between leaves nothing.
            self._janitor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(JANITOR), str(self.path)],
                stdin=watched,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            os.close(watched)
        self._alive = contextlib.ExitStack()
        try:
            self.path.mkdir(mode=0o700)
            self._groups.touch()
            self._alive.callback(os.close, _locked(self.path / ALIVE))
            (self.path / "janitor").write_text(str(self._janitor.pid))
        except OSError as error:
            # It must not remove what it has not been told to watch.
            self._janitor.kill()
            self._alive.close()
            self._let_go()
            shutil.rmtree(self.path, ignore_errors=True)
            problem = f"no folder can be made in {base}: {error.strerror}"
            raise SetupError(problem, hint="is it full, or not yours? --volumes DIR is another place") from error

    def note(self, process: Process) -> None:
        """Tell the janitor of a process group. To be called right after its start."""
        with self._groups.open("a") as file:
            file.write(f"{process.pid}\n")

    def forget(self, process: Process) -> None:
        """Tell the janitor that a process group is gone: its number may become somebody else's."""
        left = [line for line in self._groups.read_text().splitlines() if line != str(process.pid)]
        # In one piece: the janitor may look at any moment.
        write_whole(self._groups, "".join(f"{line}\n" for line in left).encode())

    def close(self) -> None:
        """Remove the folder and let the janitor go."""
        # A network file system keeps what is open, and so the folder.
        self._alive.close()
        shutil.rmtree(self.path, ignore_errors=True)
        self._let_go()

    def _let_go(self) -> None:
        os.close(self._hold)
        self._janitor.wait()


def _locked(path: Path) -> int:
    """Make a file and lock it: the descriptor."""
    held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    # Some network file systems know no locks: then it has to do without.
    with contextlib.suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_EX)
    return held


def stale(base: Path) -> Iterator[Path]:
    """Lab folders whose blocklab and janitor are gone: the machine went down, or somebody killed both."""
    for folder in base.resolve().glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            # Anybody may make folders there, and whatever they like in them.
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
                continue
            with _regular(folder / "janitor", os.O_RDONLY) as file:
                pid = int(file.read(_PID_BYTES))
            if not _is_janitor(pid, folder) and not _is_alive(folder / ALIVE):
                yield folder


def _regular(path: Path, flags: int) -> IO[bytes]:
    """A regular file, opened; nobody waits for what else may be there. Raises ``OSError``."""
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{path} is not a file")
    return os.fdopen(file, "rb" if flags == os.O_RDONLY else "r+b")


def _is_alive(path: Path) -> bool:
    """Whether somebody has it locked. Of an earlier version's lab there is no such file."""
    try:
        with _regular(path, os.O_RDWR) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _is_janitor(pid: int, folder: Path) -> bool:
    # By the folder, not by where the program is: another installation's labs are none of our business.
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        # It has none in the moment of its start.
        return not line or str(folder).encode() in line.split(b"\0")
    except OSError:
        return False


def sweep(base: Path) -> None:
    """Remove stale lab folders of this user."""
    for folder in stale(base):
        shutil.rmtree(folder, ignore_errors=True)

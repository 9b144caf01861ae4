"""The agent on a host that is reached by a connection which may break: it goes on without one, and keeps what its
commands print.

The connection's far end starts this file's ``main``. The first time it makes the agent, a process of its own; each
time it then passes bytes between its own standard streams and the agent's socket. A new connection says how many
bytes it has of the agent's (``{"hello": 4711}``), hears how many the agent has of its own, and both go on there.

Beside the orders of ``agent`` it takes::

    {"op": "got", "id": 0, "n_got": 4711}               so many bytes have arrived: they need not be kept
    {"op": "note", "id": 7, "number": 3, "undo": [...]}  keep an undo, on disk before it answers
    {"op": "done", "id": 8, "numbers": [3, 2]}           drop undos
    {"op": "left", "id": 9}                              the undos that are due, the last first, as JSON
    {"op": "sweep", "id": 10}                            end what an agent has left that was killed
    {"op": "end", "id": 11}                              end all commands, and the agent

An agent that hears nothing for ``ALONE_SECONDS`` ends its commands and takes netem off, and then itself. The other
undos stay in the journal: ``blocklab down`` runs them.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import select
import shutil
import signal
import socket
import sys
import time

from blocklab_node.agent import (
    BEAT_SECONDS,
    CHUNK,
    ENVIRONMENT,
    RUN,
    STATE,
    WORK,
    Agent,
    look_into,
    make_own_folders,
)
from blocklab_node.journal import Journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Header: TypeAlias = dict[str, Any]

# Holds the boot id of a boot that ended by a shutdown.
ORDERLY = f"{STATE}/orderly"
GREETING = b"blocklab-agent "
ALONE_SECONDS = 30.0
# What commands print is left in their pipes while so much of it has not arrived.
MOST_KEPT = 8 << 20
TERM_SECONDS = 3.0
MARK = "_BLOCKLAB_AGENT="
# What runs leave in files, which nobody needs after them: in folders of blocklab's own alone.
LEFT = (f"{RUN}/*", WORK, f"{STATE}/log", f"{STATE}/bin")
LOCK = f"{RUN}/lock"
MOST_HELLO = 4096
LOCK_SECONDS = 3.0
PR_SET_CHILD_SUBREAPER = 36
# Where databases keep programs that no PATH has: Debian and Ubuntu; RHEL, SUSE and Amazon Linux.
POSTGRESQL = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/lib/postgresql*/bin")


class Held(Agent):
    """``line`` is the connection, -1 without one; ``outbox`` keeps what has not arrived, of which ``sent`` bytes
    are on their way."""

    def __init__(self, listener: socket.socket, environment: dict[str, str]) -> None:
        super().__init__(-1, environment)
        self.listener = listener
        self.connection: socket.socket | None = None
        self.hello: bytearray | None = None
        self.base = 0
        self.sent = 0
        self.taken = 0
        self.heard = time.monotonic()
        self.gets: dict[int, int] = {}
        self.journal = Journal()
        # systemd and its like send it before they switch off.
        self.orderly = False
        signal.signal(signal.SIGTERM, self.on_term)
        self.ending = self.told = False

    # -- orders --------------------------------------------------------------------------------------

    def do_got(self, header: Header, payload: bytes) -> None:
        self.arrived(header["n_got"])

    def do_note(self, header: Header, payload: bytes) -> None:
        self.journal.note(header["number"], header["undo"])
        self.send({"id": header["id"], "done": True})

    def do_done(self, header: Header, payload: bytes) -> None:
        self.journal.done(header["numbers"])
        self.send({"id": header["id"], "done": True})

    def do_left(self, header: Header, payload: bytes) -> None:
        due, damaged = self.journal.read()
        listed = [[each["number"], each["argv"], each.get("boot") == self.journal.boot] for each in due[::-1]]
        for stream, answer in ((1, listed), (2, damaged)):
            data = json.dumps(answer).encode()
            for at in range(0, len(data), CHUNK):
                self.send({"id": header["id"], "stream": stream}, data[at : at + CHUNK])
        self.send({"id": header["id"], "done": True})

    def do_sweep(self, header: Header, payload: bytes) -> None:
        put_down(lambda: [pid for pid in marked() if pid not in descendants()], lambda: None)
        self.send({"id": header["id"], "done": True})

    def do_end(self, header: Header, payload: bytes) -> None:
        self.ending = self.told = True

    def do_get(self, header: Header, payload: bytes) -> None:
        # In pieces, as there is room for them.
        self.gets[look_into(header["path"])] = header["id"]

    def read_on(self) -> None:
        """Send a piece of each file that is asked for."""
        for fd, number in list(self.gets.items()):
            try:
                data = os.read(fd, CHUNK)
            except OSError as error:
                self.send({"id": number, "errno": error.errno, "error": error.strerror})
            else:
                if data:
                    self.send({"id": number, "stream": 1}, data)
                    continue
                self.send({"id": number, "done": True})
            del self.gets[fd]
            os.close(fd)

    # -- the connection ------------------------------------------------------------------------------

    def arrived(self, count: int) -> None:
        """The other side has so many bytes."""
        gone = count - self.base
        if gone > 0:
            del self.outbox[:gone]
            self.base = count
            self.sent = max(0, self.sent - gone)

    def flush(self, keep: int = 0) -> None:
        """Write what the connection takes now."""
        while self.connection is not None and self.hello is None and self.sent < len(self.outbox):
            try:
                self.sent += os.write(self.line, self.outbox[self.sent : self.sent + CHUNK])
            except BlockingIOError:
                return
            except OSError:
                self.hang_up()

    def accept(self) -> None:
        """A new connection takes the place of the one before."""
        self.hang_up()
        self.connection, _ = self.listener.accept()
        self.connection.setblocking(False)
        self.line = self.connection.fileno()
        self.hello = bytearray()

    def hang_up(self) -> None:
        """Without a connection for now."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self.line, self.hello, self.sent = None, -1, None, 0

    def hear(self) -> None:
        """Take what the connection has to say."""
        try:
            data = os.read(self.line, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.hang_up()
            return
        self.heard = time.monotonic()
        if self.hello is not None:
            self.hello += data
            end = self.hello.find(b"\n")
            if end < 0:
                if len(self.hello) > MOST_HELLO:
                    self.hang_up()
                return
            data = bytes(self.hello[end + 1 :])
            self.arrived(json.loads(self.hello[:end])["hello"])
            self.sent, self.hello = 0, None
            os.write(self.line, json.dumps({"hello": self.taken}).encode() + b"\n")
        if data:
            self.taken += len(data)
            self.send({"took": len(data)})
            self.inbox += data
            try:
                self.orders()
            except ValueError as error:
                # In agent.log, whose last line is what became of it.
                print(f"an order cannot be read: {error}", file=sys.stderr)
                self.ending = True

    # -- the loop --------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Until it is told to end, or hears nothing for too long."""
        self.listen()
        beat = 0.0
        while not self.ending and time.monotonic() - self.heard <= ALONE_SECONDS:
            if self.orderly:
                self.shut_down()
            if time.monotonic() >= beat:
                # Without anybody who hears it, it would only pile up.
                if self.connection is not None:
                    self.send({"beat": time.time()})
                beat = time.monotonic() + BEAT_SECONDS
            self.flush()
            self.turn(beat)
        self.end()

    def turn(self, beat: float) -> None:
        """Wait until somebody has something to say, at most until the next beat."""
        room = len(self.outbox) < MOST_KEPT
        if room:
            self.read_on()
        watched = [self.listener.fileno(), self.wake, *(self.by_fd if room else ())]
        writers = list(self.hungry)
        if self.connection is not None:
            watched.append(self.line)
            if self.hello is None and self.sent < len(self.outbox):
                writers.append(self.line)
        rest = 0.0 if self.gets and room else max(0.0, beat - time.monotonic())
        readable, writable, _ = select.select(watched, writers, [], rest)
        if self.line in readable:
            self.hear()
        if self.listener.fileno() in readable:
            self.accept()
        self.attend(readable, writable)

    def on_term(self, *_: object) -> None:
        """The loop, which this wakes, looks at it."""
        self.orderly = True

    def shut_down(self) -> None:
        """Tell, and note, that this boot has ended in good order: what was to be a power cut was none."""
        self.send({"id": 0, "orderly": True})
        self.flush()
        with contextlib.suppress(OSError), open(ORDERLY, "w") as file:
            file.write(self.journal.boot)
            file.flush()
            os.fsync(file.fileno())
        sys.exit(0)

    def end(self) -> None:
        """End all that was started here, and take netem off; the rest of the journal stays."""
        put_down(descendants, self.reap)
        # Whatever is wrong with the journal's disk, the rest is to end as it should.
        with contextlib.suppress(OSError):
            due = self.journal.due()
            if self.told and not due:
                # Undos that are due need them.
                remove_left()
            self.unshape(due)
        with contextlib.suppress(OSError):
            os.unlink(self.listener.getsockname())
        with contextlib.suppress(BlockingIOError, OSError):
            self.flush()
        self.hang_up()

    def unshape(self, due: list[Header]) -> None:
        """Take netem off, by the undos of it. Raises ``OSError`` where the journal cannot keep that."""
        done = []
        for each in due[::-1]:
            if each["argv"][:3] == ["tc", "qdisc", "del"]:
                nothing = os.open(os.devnull, os.O_RDWR)
                with contextlib.suppress(OSError):
                    dup = [(os.POSIX_SPAWN_DUP2, nothing, fd) for fd in (0, 1, 2)]
                    os.waitpid(os.posix_spawnp("tc", each["argv"], self.environment, file_actions=dup), 0)
                    done.append(each["number"])
        if done:
            self.journal.done(done)


def remove_left() -> None:
    """Remove what runs have left in blocklab's own folders, and nothing elsewhere."""
    for path in [path for pattern in LEFT for path in glob.glob(pattern) if path != LOCK]:
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def put_down(alive: Callable[[], list[int]], reap: Callable[[], None]) -> None:
    """SIGTERM, which databases take as a request to stop; SIGKILL after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + TERM_SECONDS
        for pid in alive():
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        while alive() and time.monotonic() < deadline:
            reap()
            time.sleep(0.02)


def marked() -> list[int]:
    """The processes that an agent has started, by their environment."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if any(part.startswith(MARK.encode()) for part in file.read().split(b"\0")):
                    found.append(int(name))
    return found


def descendants() -> list[int]:
    """The processes below this one, all that it adopted as well."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/stat") as file:
                    # 812 (fio) S 800 812 ...: the name may hold blanks and brackets
                    state, parent = file.read().rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found


# -- how it is started -----------------------------------------------------------------------------------------


def main(order: Header) -> None:
    """Be the far end of a connection. ``order``: ``token`` names the agent, ``new`` makes it, ``who`` is for those
    that find it at work."""
    path = f"{RUN}/agent-{order['token']}.sock"
    if os.geteuid() != 0:
        refuse("user", f"user {os.getuid()} is not root")
    try:
        make_own_folders()
        if order["new"]:
            start(path, order)
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        refuse("gone", last_words())
    except OSError as error:
        refuse("failed", f"{error.filename or RUN}: {error.strerror}")
    greet({"ok": True, "connection": sys.argv[1] if len(sys.argv) > 1 else ""})
    relay(line)


def last_words() -> str:
    """What the agent said of its end; empty where it was killed."""
    with contextlib.suppress(OSError), open(f"{RUN}/agent.log") as file:
        return (file.read().strip().splitlines() or [""])[-1]
    return ""


def greet(words: Header) -> None:
    """Whatever a shell's start-up files print stands before this line."""
    data = b"\n" + GREETING + json.dumps(words).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def refuse(kind: str, why: str) -> None:
    """Say why there is no agent, and end."""
    greet({"ok": False, "kind": kind, "why": why})
    sys.exit(0)


def start(path: str, order: Header) -> None:
    """Make the agent, unless another one is at work. Raises ``OSError``."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                refuse("busy", os.read(lock, 4096).decode(errors="replace").strip())
            time.sleep(0.1)
    os.ftruncate(lock, 0)
    os.write(lock, order["who"].encode())
    for old in glob.glob(f"{RUN}/agent-*.sock"):
        os.unlink(old)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(2)
    if os.fork():
        listener.close()
        os.close(lock)
        return
    # The child: it outlives the connection, and whatever a login's end would end with it.
    code = 1
    try:
        os.setsid()
        for number in (signal.SIGHUP, signal.SIGINT):
            # Not SIG_IGN, which all commands would inherit.
            signal.signal(number, lambda *_: None)
        log = os.open(f"{RUN}/agent.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        for fd, to in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(fd, to)
        for procs in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/systemd/cgroup.procs"):
            with contextlib.suppress(OSError), open(procs, "w") as file:
                file.write(str(os.getpid()))
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
        os.umask(0o022)
        os.chdir("/")
        folders = [path for pattern in POSTGRESQL for path in sorted(glob.glob(pattern), reverse=True)[:1]]
        words = dict(ENVIRONMENT, **{MARK[:-1]: order["token"]})
        words["PATH"] = ":".join(
            [*folders, f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/libexec:{STATE}/bin"]
        )
        os.environ["PATH"] = words["PATH"]
        Held(listener, words).serve()
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def relay(line: socket.socket) -> None:
    """Pass bytes on, both ways, until one side has closed."""
    there = line.fileno()
    while True:
        ready, _, _ = select.select([0, there], [], [])
        for fd in ready:
            try:
                data = os.read(fd, CHUNK)
            except OSError:
                data = b""
            if not data:
                return
            view = memoryview(data)
            while view:
                view = view[os.write(there if fd == 0 else 1, view) :]

"""The agent on a host: takes orders from a line and streams back what commands print. In a node it is process 1,
and the line is a serial one; on other hosts ``host_agent`` keeps it.

A frame is one line of JSON and then, where the line has ``n``, that many raw bytes. Orders:

    {"op": "spawn", "id": 7, "argv": [...], "n": 3}abc   start a command; the bytes are its standard input
    {"op": "spawn", "id": 8, "argv": [...], "tty": [24, 80]}   start it on a terminal of 24 x 80
    {"op": "input", "id": 8, "n": 1}q                    type into that terminal
    {"op": "spawn", "id": 9, "argv": [...], "feed": true}   start it with a pipe that "input" goes into, until
    {"op": "input", "id": 9, "end": true}                this closes it
    {"op": "signal", "id": 7, "number": 2}               signal the command's process group
    {"op": "put", "id": 10, "path": "/x", "mode": 420, "n": 2}hi   write a file (in pieces: "more": true)
    {"op": "get", "id": 11, "path": "/x"}                read a file

Answers: {"id": 7, "stream": 1, "n": 5}hello, {"id": 7, "exit": 0, "cpu": 0.12} with the seconds of CPU that it
took, {"id": 10, "done": true}, {"id": 10, "errno": 2, "error": "..."}, a heartbeat {"beat": 1700000000.1} twice a
second, and {"took": 812} for bytes read from the line: the sender keeps less than a terminal's buffer (4096) under
way, since a UML serial line that had to throttle its input does not wake up again.

Standard library only, no thread; it must answer while the node's one CPU is busy, so it runs under SCHED_FIFO.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pty
import select
import signal
import stat
import struct
import sys
import termios
import time
import tty

BEAT_SECONDS = 0.5
CHUNK = 65536
# A command may print faster than the line carries; past this much unsent output its pipe is left unread.
BACKLOG = 1 << 20
# An order's line, or its bytes: whoever sends more is no blocklab.
MOST_ORDER = 1 << 26
FAILED = -1

# blocklab's own folders on a host: nobody but root can write to them. RUN is for what is small; often no program
# can be started there.
RUN, STATE = "/run/blocklab", "/var/lib/blocklab"
WORK = f"{STATE}/work"
# Users of services have folders within these.
FOLDER_MODES = {RUN: 0o755, STATE: 0o711, WORK: 0o711}
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Neither a link's end nor a FIFO that nobody reads: see ``regular``.
FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MOST_LINKS = 40

# Not under -I -S: these come from the kernel's command line (node=a1), not the environment of a user.
PATH = "/usr/lib/postgresql/17/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {"PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "xterm-256color"}

# Importing typing (or subprocess) would cost a node a tenth of its boot.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Header: TypeAlias = dict[str, Any]


class Task:
    """One command: its process, its output pipes, and its exit code and CPU seconds once reaped."""

    def __init__(self, number: int, pid: int, pipes: dict[int, int], master: int | None = None) -> None:
        self.number = number
        self.pid = pid
        self.pipes = pipes  # file descriptor -> stream number
        self.master = master
        self.code: int | None = None
        self.cpu = 0.0
        # Of a command that is fed: the pipe, what it has not taken yet, and whether nothing follows.
        self.feed: int | None = None
        self.waiting = bytearray()
        self.last = False


def start(
    argv: list[str], environment: dict[str, str], stdin: int, stdout: int, stderr: int, *, session: bool
) -> int:
    """Start a command; its process id. Raises ``OSError``.

    posix_spawn takes a quarter less of a node's time than subprocess does.
    """
    dup = os.POSIX_SPAWN_DUP2
    actions = [(dup, stdin, 0), (dup, stdout, 1), (dup, stderr, 2)]
    # Python ignores SIGPIPE and SIGXFSZ; what it starts must not.
    default = [signal.SIGPIPE, signal.SIGXFSZ]
    return os.posix_spawnp(argv[0], argv, environment, file_actions=actions, setsid=session, setsigdef=default)


# -- files where others may write ---------------------------------------------------------------------------------


def writable_by_others(fd: int) -> bool:
    """Whether anybody but root and this user can write to a folder."""
    about = os.fstat(fd)
    group = about.st_mode & 0o020 and about.st_gid not in (0, os.getegid())
    return bool(about.st_mode & 0o002 or group) or about.st_uid not in (0, os.geteuid())


def step_into(folder: int, name: str, mode: int) -> int | str:
    """A folder within ``folder``, made where it is missing; where it is a link, what that says. Raises ``OSError``
    where others may have put it there."""
    trusted = not writable_by_others(folder)
    try:
        found = os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not trusted:
            raise OSError(errno.EPERM, f"others than root can write to the folder of {name}") from None
        os.mkdir(name, mode, dir_fd=folder)
        return os.open(name, FOLDER, dir_fd=folder)
    except NotADirectoryError:
        if trusted and stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            return os.readlink(name, dir_fd=folder)
        raise
    # In a sticky folder nobody can take away what is another's.
    sticky = os.fstat(folder).st_mode & stat.S_ISVTX and os.fstat(found).st_uid in (0, os.geteuid())
    if not trusted and not sticky:
        os.close(found)
        raise OSError(errno.EPERM, f"others than root can write to the folder of {name}")
    return found


def guarded_folder(path: str, mode: int = 0o755) -> int:
    """A descriptor of a folder that nobody but root and this user can write to, made where it is missing, by a way
    that nobody else can have laid. Raises ``OSError``."""
    todo, links = path.split("/")[::-1], 0
    at = os.open("/", FOLDER)
    try:
        while todo:
            found = step_into(at, name, mode) if (name := todo.pop()) else at
            if isinstance(found, str):
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                todo += found.split("/")[::-1]
                found = os.open("/", FOLDER) if found.startswith("/") else at
            if found != at:
                os.close(at)
                at = found
        if writable_by_others(at):
            raise OSError(errno.EPERM, f"others than root can write to {path or '/'}")
    except BaseException:
        os.close(at)
        raise
    return at


def make_own_folders() -> None:
    """blocklab's own, which nobody else can write to. Raises ``OSError`` where somebody can."""
    for path, mode in FOLDER_MODES.items():
        # Without room for this one a host can be cleaned all the same.
        with contextlib.suppress(*((OSError,) if path == WORK else ())):
            folder = guarded_folder(path, mode)
            os.fchmod(folder, mode)
            os.close(folder)


def folder_of(path: str, mode: int) -> int:
    """A descriptor of the folder that a file is to be in, made where it is missing. Below blocklab's own it may be
    that of a service's user, since only root can have made it. Raises ``OSError``."""
    folder = path.rpartition("/")[0]
    own = next((each for each in (RUN, STATE) if f"{folder}/".startswith(f"{each}/")), folder)
    at, path = guarded_folder(own, FOLDER_MODES.get(own, mode)), own
    for name in filter(None, folder[len(own) :].split("/")):
        path = f"{path}/{name}"
        try:
            if name == "..":
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, FOLDER_MODES.get(path, mode), dir_fd=at)
            found = os.open(name, FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = found
    return at


def create(path: str, mode: int) -> int:
    """A descriptor of an empty file that nobody else has put there, for writing. Its folders are made, and can be
    searched by those who can read it. Raises ``OSError``."""
    folder = folder_of(path, (mode | 0o700 | (mode & 0o444) >> 2) & ~0o022)
    try:
        file = os.open(path.rpartition("/")[2], os.O_WRONLY | os.O_CREAT | FILE, mode, dir_fd=folder)
        try:
            about, others = os.fstat(file), writable_by_others(folder)
            if others and (about.st_uid != os.geteuid() or about.st_nlink != 1):
                raise OSError(errno.EPERM, "somebody else has put a file there")
            regular(file)
            os.ftruncate(file, 0)
            os.fchmod(file, mode)
        except BaseException:
            os.close(file)
            raise
        return file
    finally:
        os.close(folder)


def look_into(path: str) -> int:
    """A descriptor of a regular file, for reading: a FIFO would hold up everything. Raises ``OSError``."""
    own = path.startswith((f"{RUN}/", f"{STATE}/"))
    # A service's user may have made it there, and root must not read another file for it.
    file = os.open(path, os.O_RDONLY | (FILE if own else FILE & ~os.O_NOFOLLOW))
    try:
        regular(file)
    except OSError:
        os.close(file)
        raise
    return file


def regular(file: int) -> None:
    """Raises ``OSError`` for all else."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


# -- the agent ----------------------------------------------------------------------------------------------------


class Agent:
    """The loop between the line and the commands, which get ``environment``."""

    def __init__(self, line: int, environment: dict[str, str] = ENVIRONMENT) -> None:
        self.line = line
        self.environment = environment
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.tasks: dict[int, Task] = {}
        self.by_pid: dict[int, Task] = {}
        self.by_fd: dict[int, Task] = {}
        self.files: dict[int, int] = {}
        # Of commands that have not taken all of their input: its pipe -> the command.
        self.hungry: dict[int, Task] = {}
        self.wake = -1

    def send(self, header: Header, payload: bytes = b"") -> None:
        """Put a frame into the outbox."""
        if payload:
            header["n"] = len(payload)
        self.outbox += json.dumps(header).encode() + b"\n" + payload

    # -- orders ------------------------------------------------------------------------------------

    def orders(self) -> None:
        """Take whole frames out of the inbox. Raises ``ValueError`` for what is none."""
        while True:
            end = self.inbox.find(b"\n")
            if end < 0 and len(self.inbox) <= MOST_ORDER:
                return
            header = json.loads(self.inbox[:end])
            size = header.get("n", 0)
            if not 0 <= size <= MOST_ORDER:
                raise ValueError(f"an order with {size} bytes")
            if len(self.inbox) < end + 1 + size:
                return
            payload = bytes(self.inbox[end + 1 : end + 1 + size])
            del self.inbox[: end + 1 + size]
            try:
                getattr(self, "do_" + header["op"])(header, payload)
            except OSError as error:
                self.send({"id": header["id"], "errno": error.errno, "error": error.strerror})

    def do_spawn(self, header: Header, payload: bytes) -> None:
        if "tty" in header:
            self.on_terminal(header)
            return
        out, theirs_out = os.pipe()
        err, theirs_err = os.pipe()
        ours: int | None = None
        if header.get("feed"):
            feed, ours = os.pipe()
            os.set_blocking(ours, False)
        else:
            feed = os.memfd_create("stdin") if payload else os.open("/dev/null", os.O_RDONLY)
        if payload:
            os.write(feed, payload)
            os.lseek(feed, 0, os.SEEK_SET)
        try:
            pid = start(header["argv"], self.environment, feed, theirs_out, theirs_err, session=True)
        except OSError:
            for fd in (out, err, *([] if ours is None else [ours])):
                os.close(fd)
            raise
        finally:
            for fd in (feed, theirs_out, theirs_err):
                os.close(fd)
        task = Task(header["id"], pid, {out: 1, err: 2})
        task.feed = ours
        self.adopt(task)

    def on_terminal(self, header: Header) -> None:
        """Start a command on a terminal of its own."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *header["tty"], 0, 0))
        try:
            # A shell needs the terminal as its controlling one; setsid -c does that in its own process.
            pid = start(["setsid", "-c", *header["argv"]], self.environment, slave, slave, slave, session=False)
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        self.adopt(Task(header["id"], pid, {master: 1}, master))

    def adopt(self, task: Task) -> None:
        """Watch a command's output and remember whose it is."""
        for fd in task.pipes:
            os.set_blocking(fd, False)
            self.by_fd[fd] = task
        self.tasks[task.number] = task
        self.by_pid[task.pid] = task

    def do_input(self, header: Header, payload: bytes) -> None:
        task = self.tasks.get(header["id"])
        if task is None:
            return
        if task.master is not None:
            os.write(task.master, payload)
        elif task.feed is not None:
            task.waiting += payload
            task.last = task.last or header.get("end", False)
            self.hungry[task.feed] = task

    def nourish(self, fd: int) -> None:
        """Write what a command's pipe takes of its input now; close it behind the last of it."""
        task = self.hungry[fd]
        try:
            if task.waiting:
                del task.waiting[: os.write(fd, task.waiting[:CHUNK])]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it reads no more
            task.waiting.clear()
            task.last = True
        if not task.waiting:
            del self.hungry[fd]
            if task.last:
                self.starve(task)

    def starve(self, task: Task) -> None:
        """Nothing more goes into a command."""
        if task.feed is not None:
            self.hungry.pop(task.feed, None)
            os.close(task.feed)
            task.feed = None

    def do_signal(self, header: Header, payload: bytes) -> None:
        task = self.tasks.get(header["id"])
        if task is not None and task.code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(task.pid, header["number"])

    def do_put(self, header: Header, payload: bytes) -> None:
        number, path, more = header["id"], header["path"], header.get("more", False)
        file = self.files.pop(number, None)
        if file == FAILED:  # already answered; the pieces behind the failed one are still coming in
            if more:
                self.files[number] = FAILED
            return
        try:
            if file is None:
                file = create(path, header["mode"])
            view = memoryview(payload)
            while view:
                view = view[os.write(file, view) :]
        except OSError:
            if file is not None:
                os.close(file)
            if more:
                self.files[number] = FAILED
            raise
        if more:
            self.files[number] = file
            return
        os.close(file)
        self.send({"id": number, "done": True})

    def do_get(self, header: Header, payload: bytes) -> None:
        with open(look_into(header["path"]), "rb") as file:
            while data := file.read(CHUNK):
                self.send({"id": header["id"], "stream": 1}, data)
                self.flush(BACKLOG)
        self.send({"id": header["id"], "done": True})

    # -- commands' output and end ------------------------------------------------------------------

    def pump(self, fd: int) -> None:
        """Pass on what a command printed; at the end of its output, close."""
        task = self.by_fd[fd]
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a terminal whose last user has gone gives EIO
            data = b""
        if data:
            self.send({"id": task.number, "stream": task.pipes[fd]}, data)
            return
        self.drop(fd)
        self.finish(task)

    def drop(self, fd: int) -> None:
        """Stop watching an output."""
        task = self.by_fd.pop(fd)
        task.pipes.pop(fd)
        if fd == task.master:
            task.master = None
        os.close(fd)

    def reap(self) -> None:
        """Every child that ended; process 1 also inherits the daemons' orphans."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            task = self.by_pid.pop(pid, None)
            if task is None:
                continue
            task.code = os.waitstatus_to_exitcode(status)
            task.cpu = usage.ru_utime + usage.ru_stime
            self.finish(task)

    def finish(self, task: Task) -> None:
        """Report a command's end once it is reaped and its output is drained.

        A daemon that it left may hold its pipes open for ever: what is there is passed on, then they close.
        """
        if task.code is None or task.number not in self.tasks:
            return
        for fd in list(task.pipes):
            with contextlib.suppress(OSError):
                while data := os.read(fd, CHUNK):
                    self.send({"id": task.number, "stream": task.pipes[fd]}, data)
            self.drop(fd)
        self.starve(task)
        del self.tasks[task.number]
        self.send({"id": task.number, "exit": task.code, "cpu": round(task.cpu, 6)})

    # -- the loop ------------------------------------------------------------------------------------

    def flush(self, keep: int = 0) -> None:
        """Write the outbox to the line until at most ``keep`` bytes are left."""
        while len(self.outbox) > keep:
            sent = os.write(self.line, self.outbox[:CHUNK])
            del self.outbox[:sent]

    def listen(self) -> None:
        """Be told of children that end."""
        self.wake, poke = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(poke, False)
        signal.set_wakeup_fd(poke)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def attend(self, readable: list[int], writable: list[int]) -> None:
        """Look after the commands that have something to say, or take something."""
        for fd in readable:
            if fd == self.wake:
                os.read(fd, 512)
                self.reap()
            elif fd in self.by_fd:
                self.pump(fd)
        for fd in writable:
            if fd in self.hungry:
                self.nourish(fd)

    def serve(self) -> None:
        """Take orders and pass on output, for ever."""
        self.listen()
        beat = 0.0
        while True:
            now = time.monotonic()
            if now >= beat:
                self.send({"beat": time.time()})
                beat = now + BEAT_SECONDS
            self.flush()
            watched = [self.line, self.wake, *self.by_fd]
            ready, room, _ = select.select(watched, list(self.hungry), [], max(0.0, beat - time.monotonic()))
            if self.line in ready:
                data = os.read(self.line, CHUNK)
                self.send({"took": len(data)})
                self.inbox += data
                self.orders()
            self.attend(ready, room)


def main() -> None:
    """Entry point: the serial line's path is the one argument."""
    os.environ["PATH"] = PATH  # posix_spawnp searches ours, not the command's
    os.chdir("/")
    make_own_folders()
    line = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
    tty.setraw(line)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
    Agent(line).serve()


if __name__ == "__main__":
    main()

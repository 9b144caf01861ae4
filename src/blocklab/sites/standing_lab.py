"""The door to a lab that was left standing by ``blocklab up``: a Unix socket that only its user can open.

A request is one JSON line; a shell's request carries the caller's own standard input, output and error as
descriptors, so that the lab's process writes straight to the caller's terminal. The answer is one JSON line.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from blocklab.errors import BlocklabError, SetupError
from blocklab.model.cache import cache_folder
from blocklab.model.site import Lab
from blocklab.sites.agented import Agented, Shell
from blocklab.sites.uml.processes import check_socket

REQUEST_BYTES = 1 << 16
POLL_SECONDS = 0.1
# So often a shell looks for output: less than a user at a terminal notices.
TICK = 0.02
# So many pieces of output (64 KiB at most) are passed on before a look at what was typed.
TURN = 16
# A command's input goes over the control line at about 0.8 MB/s, and other orders wait for it.
MOST_INPUT = 16 << 20
# After so long without any input, it is said what is waited for.
PATIENCE = 3.0
# A lab that was taken down is gone after so many seconds.
LEAVING = 3.0
SHORTER = "set XDG_RUNTIME_DIR to a folder with a short path"


def _folder() -> Path:
    # The XDG specification: a relative path is to be ignored.
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(runtime) / "blocklab" if runtime.startswith("/") else cache_folder()


def door_path() -> Path:
    """Where the socket of this user's standing lab is: in $XDG_RUNTIME_DIR, or else in the cache folder."""
    return _folder() / "up.sock"


def log_path() -> Path:
    """Where the process that holds the lab writes what goes wrong."""
    return _folder() / "up.log"


# -- the lab's side ------------------------------------------------------------------------------------------


class Door:
    """Listens, and serves shells until somebody asks for the end."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._about = dict(about)
        path = door_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        # Nobody else's: see ``claim``.
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen()
        self._leaver: socket.socket | None = None

    def serve(self, nodes: Mapping[str, Agented]) -> None:
        """Answer requests until a ``down`` comes or SIGTERM."""
        done = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: done.set())
        while not done.is_set():
            ready, _, _ = select.select([self._listener], [], [], POLL_SECONDS)
            if ready:
                caller, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(caller, nodes, done), daemon=True).start()

    def _answer(self, caller: socket.socket, nodes: Mapping[str, Agented], done: threading.Event) -> None:
        message, fds, _, _ = socket.recv_fds(caller, REQUEST_BYTES, 3)
        answer: dict[str, Any]
        try:
            request = json.loads(message)
            if request["op"] == "down":
                self._leaver = caller
                done.set()
                return
            answer = self._about if request["op"] == "about" else _shell(request, fds, caller, nodes)
        except BlocklabError as error:
            answer = {"error": error.message, "hint": error.hint}
        except BrokenPipeError:
            # As the command itself would have ended.
            answer = {"exit": -signal.SIGPIPE}
        except OSError as error:
            answer = {"error": f"its input or output: {error.strerror}; the command was ended", "hint": ""}
        except (ValueError, KeyError) as error:
            answer = {"error": f"not a request: {error}", "hint": ""}
        finally:
            for fd in fds:
                os.close(fd)
        with contextlib.suppress(OSError):
            caller.sendall(json.dumps(answer).encode() + b"\n")
        caller.close()

    def close(self) -> None:
        """The lab is gone: tell whoever asked for it."""
        door_path().unlink(missing_ok=True)
        self._listener.close()
        if self._leaver is not None:
            with contextlib.suppress(OSError):
                self._leaver.sendall(b"{}\n")
            self._leaver.close()


def _shell(
    request: Mapping[str, Any], fds: Sequence[int], caller: socket.socket, nodes: Mapping[str, Agented]
) -> dict[str, Any]:
    """Run the command and pass on what it prints. Raises ``OSError`` when the caller or its output is gone; the
    command is ended then."""
    name = request["node"]
    if name not in nodes:
        raise SetupError(f"there is no node {name!r}", hint=f"the nodes are {', '.join(nodes)}")
    size = request["tty"]
    typed = [] if size is None else [fds[0]]
    shell = Shell(nodes[name], request["argv"], size, b"" if typed else _input(fds, caller))
    try:
        while True:
            code = shell.poll()
            # Not all of a flood at once: the key that ends it must get through.
            for _ in range(min(shell.said.qsize(), TURN)):
                stream, data = shell.said.get()
                _write_all(fds[stream], data, caller)
            more = not shell.said.empty()
            if code is not None and not more:
                return {"exit": code}
            ready, _, _ = select.select([caller.fileno(), *typed], [], [], 0.0 if more else TICK)
            if caller.fileno() in ready:
                raise BrokenPipeError
            if ready and (data := os.read(fds[0], 4096)):
                shell.type(data)
    finally:
        shell.end(signal.SIGKILL if size is None else signal.SIGHUP)


def _input(fds: Sequence[int], caller: socket.socket) -> bytes:
    """All that a pipe or a file has for the command: an agent takes it whole."""
    if os.isatty(fds[0]):
        return b""
    data = bytearray()
    patience: float | None = PATIENCE
    while len(data) <= MOST_INPUT:
        ready, _, _ = select.select([fds[0], caller.fileno()], [], [], patience)
        if caller.fileno() in ready:
            raise BrokenPipeError
        if not ready:
            os.write(fds[2], b"blocklab sh: waiting for the end of standard input (none: < /dev/null)\n")
        elif piece := os.read(fds[0], REQUEST_BYTES):
            data += piece
        else:
            return bytes(data)
        patience = None
    raise SetupError(f"standard input has more than {MOST_INPUT >> 20} MiB", hint="give it in pieces")


def _write_all(fd: int, data: bytes, caller: socket.socket) -> None:
    """Write as the output takes it. Raises ``OSError``, also when the caller is gone."""
    view = memoryview(data)
    while view:
        ready, _, _ = select.select([caller], [fd], [])
        if ready:
            raise BrokenPipeError
        # As much as a pipe that can be written to takes without a wait.
        view = view[os.write(fd, view[: select.PIPE_BUF]) :]


# -- the caller's side -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _call(request: Mapping[str, Any], fds: Sequence[int] = ()) -> Iterator[socket.socket]:
    check_socket(door_path(), SHORTER)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        try:
            end.connect(str(door_path()))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise SetupError("no lab is running", hint="blocklab up STUDY --stack NAME") from error
        except OSError as error:
            problem = f"{door_path()} cannot be reached: {error.strerror or error}"
            raise SetupError(
                problem, hint="is it another user's? XDG_RUNTIME_DIR is where it is looked for"
            ) from error
        socket.send_fds(end, [json.dumps(dict(request)).encode()], list(fds))
        yield end


def ask(request: Mapping[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
    """Send a request and wait for its answer. Raises ``SetupError`` when no lab stands or it refuses."""
    with _call(request, fds) as end:
        text = b""
        while not text.endswith(b"\n"):
            data = end.recv(REQUEST_BYTES)
            if not data:
                raise SetupError("the running lab is gone", hint=f"see {log_path()}")
            text += data
    answer: dict[str, Any] = json.loads(text)
    if "error" in answer:
        raise SetupError(answer["error"], hint=answer["hint"])
    return answer


def claim() -> int:
    """Hold this user's one place for a standing lab, as long as this process or one that it forks has the returned
    descriptor open. Raises ``SetupError`` where another one has it, and where its socket cannot be."""
    # Before anything is built: only then is the door made.
    check_socket(door_path(), SHORTER)
    path = _folder() / "up.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}", hint="is the folder yours?") from error
    # One that was taken down a moment ago is about to let go.
    deadline = time.monotonic() + LEAVING
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return held
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(held)
                hint = "wait until it stands, and see `blocklab down`"
                raise SetupError("another `blocklab up` is at work", hint=hint) from None
            time.sleep(POLL_SECONDS)
        except OSError:
            # Some network file systems know no locks: then it has to do without.
            return held


def stand(build: Callable[[], AbstractContextManager[Lab]], about: Mapping[str, Any]) -> None:
    """Hold what ``build()`` builds in a process of its own until a ``down`` comes; return once it stands. Raises
    ``SetupError`` where another lab stands, or with what was said when it could not be built."""
    held = claim()

    def hold(ready: Callable[[], None]) -> None:
        with build() as lab:
            gate = Door({**about, "nodes": list(lab.hosts)})
            try:
                ready()
                gate.serve({name: host for name, host in lab.hosts.items() if isinstance(host, Agented)})
            except BaseException:
                gate.close()
                raise
        gate.close()

    try:
        in_background(hold)
    finally:
        # The process that holds the lab holds it on.
        os.close(held)


def standing_lab() -> dict[str, Any] | None:
    """What stands, or None."""
    try:
        return ask({"op": "about"})
    except SetupError:
        return None


def in_background(work: Callable[[Callable[[], None]], None]) -> None:
    """Run ``work(ready)`` in a process of its own that outlives this one; return once it called ``ready``.

    Raises ``SetupError`` with what it said when it ends before.
    """
    log = log_path()
    log.parent.mkdir(parents=True, exist_ok=True)
    watched, told = os.pipe()
    if os.fork() == 0:
        code = 1
        try:
            os.close(watched)
            os.setsid()
            _redirect(log)
            work(lambda: _tell(told))
            code = 0
        except BlocklabError as error:
            print(error, flush=True)
        except BaseException:  # nobody above this sees it; the log must
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(told)
    with os.fdopen(watched, "rb") as pipe:
        if pipe.read(1) != b"!":
            raise SetupError(
                log.read_text(errors="replace").strip() or "the lab did not come up", hint=f"see {log}"
            )


def _tell(told: int) -> None:
    os.write(told, b"!")
    os.close(told)


def _redirect(log: Path) -> None:
    nothing = os.open("/dev/null", os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for fd, target in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(fd, target)


class ByDoor:
    """What a site has whose labs stand behind a door: ``model.site.Standing``."""

    def stand(self, build: Callable[[], AbstractContextManager[Lab]], about: Mapping[str, Any]) -> None:
        """In a process of its own, behind a socket. Raises ``SetupError``."""
        stand(build, about)

    def about(self) -> dict[str, Any] | None:
        """What the process behind the socket says."""
        return standing_lab()

    def shell(self, host: str, argv: Sequence[str], size: tuple[int, int] | None) -> int:
        """Over the socket, which takes our standard streams along."""
        answer = ask({"op": "sh", "node": host, "argv": list(argv), "tty": size}, [0, 1, 2])
        return int(answer["exit"])

    def take_down(self) -> dict[str, Any]:
        """Stacks undone, hosts ended or let go."""
        about = ask({"op": "about"})
        ask({"op": "down"})
        return about

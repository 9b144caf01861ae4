"""blocklab in a process of its own, which ends with the one that started it."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from blocklab.errors import SetupError

# What is left of standard error for a message.
SAID_BYTES = 4_000
# After Ctrl-C it takes its lab down; after that it is killed, and its lab with it.
GRACE_SECONDS = 20.0


class Own:
    """A Python module of blocklab's that prints lines, and may be sent some. Not to be outlived by the thread that
    made it: the kernel kills it then."""

    def __init__(self, module: str, arguments: Sequence[str], cpu: int | None = None) -> None:
        """Start it, on that ``cpu`` alone where one is given. Raises ``SetupError``."""
        # It may say more than a pipe holds, and nobody reads it meanwhile.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        # No module of the folder that this is run in comes before those of Python.
        python = [sys.executable, "-P", "-X", "utf8", "-m", module]
        argv = ["setpriv", "--pdeathsig", "KILL", "--", *python, *arguments]
        if cpu is not None:
            argv = ["taskset", "--cpu-list", str(cpu), *argv]
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True
            )
        except OSError as error:
            self._errors.close()
            raise SetupError(f"{argv[0]} cannot be started: {error.strerror}") from error
        assert self._process.stdout is not None and self._process.stdin is not None
        self._out, self._in = self._process.stdout.fileno(), self._process.stdin
        self._rest = b""
        self._over = self._interrupted = False
        self.said = ""
        """The end of what it wrote to standard error, once it has ended."""

    def fileno(self) -> int:
        """To wait for what it prints."""
        return self._out

    def send(self, line: str) -> None:
        """A line for it to read. One that has ended does not get it, which its end shows."""
        with contextlib.suppress(BrokenPipeError):
            self._in.write(f"{line}\n".encode())
            self._in.flush()

    def close_input(self) -> None:
        """It gets no more lines."""
        with contextlib.suppress(BrokenPipeError):
            self._in.close()

    def lines(self, seconds: float) -> list[bytes]:
        """What was printed since, waiting at most so long for the first of it."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._out, selectors.EVENT_READ)
            if not waiting.select(seconds):
                return []
        data = os.read(self._out, 1 << 16)
        self._over = not data
        *whole, self._rest = (self._rest + data).split(b"\n")
        return whole

    @property
    def over(self) -> bool:
        """Whether it has printed all."""
        return self._over

    def interrupt(self) -> None:
        """What Ctrl-C would do, once, where it has not printed all: a second time would disturb its end."""
        if not self._over and not self._interrupted:
            self._interrupted = True
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """End it, as Ctrl-C would, and by force if that does not do; its exit code, negative for a signal."""
        self.interrupt()
        self.close_input()
        try:
            code = self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        if not self._errors.closed:
            with self._errors as errors:
                errors.seek(max(0, errors.seek(0, os.SEEK_END) - SAID_BYTES))
                self.said = errors.read().decode(errors="replace").strip()
        return code

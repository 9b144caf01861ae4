"""One run of a workload's command: output kept, counters asked around it, files fetched; ended early if told
so."""

from __future__ import annotations

import contextlib
import fnmatch
import signal
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from blocklab.errors import CommandError, HostError, HostTimeout
from blocklab.model.clock import Stretch, Timer
from blocklab.model.host import Host, Proc, must
from blocklab.model.workload import Command
from blocklab.runner.cross import Cross
from blocklab.runner.engine import Engine
from blocklab.store.run import Record

STOP_SECONDS = 5.0
KILL_SECONDS = 5.0
# What a program needs to end and print its summary after the signal upon which it does: its transactions under
# way.
END_SECONDS = 30.0
# What a host's folder may hold for us.
MOST_FILES, MOST_BYTES = 100_000, 1 << 32
MOST_NAME = 255
SHOWN = 80
# How often the values of a workload that is watched are looked at.
LOOK_SECONDS = 0.5

Enough = Callable[[bytes, bytes], bool]
"""Given what a workload has printed so far, whether that is enough."""


def run_once(engine: Engine, command: Command, folder: Path, cross: Cross) -> dict[str, bytes]:
    """Run a workload to its end; its raw files, which are in ``folder`` too, beside what ``cross`` reads.

    Raises ``CommandError`` when it fails or takes too long, ``NodeLost``, ``HostError`` for a file that cannot be
    fetched.
    """
    return _run(engine, command, folder, cross, None, signal.SIGTERM)[0]


def run_until(
    engine: Engine, command: Command, folder: Path, cross: Cross, ends_on: int, enough: Enough
) -> tuple[dict[str, bytes], bool]:
    """Run a workload until ``enough`` says so, then send it the signal upon which it prints its summary.

    (raw files, whether it was ended early). Raises what ``run_once`` and ``enough`` raise.
    """
    return _run(engine, command, folder, cross, enough, ends_on)


def _run(
    engine: Engine, command: Command, folder: Path, cross: Cross, enough: Enough | None, ends_on: int
) -> tuple[dict[str, bytes], bool]:
    folder.mkdir(parents=True)
    # The last one asked before is the first one asked after.
    _around(engine, command, folder, "before", list(command.around))
    cross.read(folder, "before")
    timer = engine.timer
    run = Stretch(timer)
    proc = engine.hosts[command.host].spawn(command.argv, folder / "stdout", folder / "stderr")
    try:
        early = enough is not None and _watch(proc, folder, command, enough, timer)
        if early:
            proc.signal(ends_on)
        code = proc.wait(END_SECONDS if early else max(0.1, command.seconds - run.seconds))
    except HostTimeout as error:
        stop(proc, signal.SIGTERM)
        said = f"did not end in {run.seconds:.0f} s; stopped"
        engine.records.append(Record("workload", command.host, command.argv, -15, run.seconds, said))
        raise CommandError(command.host, command.argv, -15, said) from error
    except BaseException:
        stop(proc, signal.SIGTERM)
        raise
    engine.records.append(Record("workload", command.host, command.argv, code, run.seconds, cpu=run.own))
    # fio ends with 128 then; whether the summary is whole is the parser's affair.
    if code != 0 and not early:
        said = (folder / "stdout").read_text(errors="replace") + (folder / "stderr").read_text(errors="replace")
        raise CommandError(command.host, command.argv, code, said)
    cross.read(folder, "after")
    _around(engine, command, folder, "after", list(command.around)[::-1])
    _fetch(engine.hosts[command.host], command, folder)
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}, early


def _watch(proc: Proc, folder: Path, command: Command, enough: Enough, timer: Timer) -> bool:
    """Whether it was enough before the workload ended by itself. Raises ``HostTimeout`` after its time."""
    deadline = timer.now() + command.seconds
    while proc.poll() is None:
        if timer.now() > deadline:
            raise HostTimeout(command.host, command.seconds)
        if enough((folder / "stdout").read_bytes(), (folder / "stderr").read_bytes()):
            return True
        timer.sleep(LOOK_SECONDS)
    return False


def _around(engine: Engine, command: Command, folder: Path, when: str, names: Iterable[str]) -> None:
    """Keep what the commands around a workload print."""
    for name in names:
        argv, started = command.around[name], engine.timer.now()
        text = must(engine.hosts[command.host], argv)
        engine.records.append(Record("workload", command.host, argv, 0, engine.timer.now() - started))
        (folder / f"{name}.{when}").write_text(text)


def _fetch(host: Host, command: Command, folder: Path) -> None:
    """Bring the files that the workload left. ``fetch`` holds paths whose last part may be a pattern."""
    listed: dict[PurePosixPath, list[str]] = {}
    count = size = 0
    for path in map(PurePosixPath, command.fetch):
        if path.parent not in listed:
            text = must(host, ("ls", "-1", "-A", "--", str(path.parent)))
            listed[path.parent] = file_names(host.name, text)
        for name in fnmatch.filter(listed[path.parent], path.name):
            content = read(host, str(path.parent / name))
            count, size = count + 1, size + len(content)
            if count > MOST_FILES or size > MOST_BYTES:
                raise HostError(
                    host.name,
                    f"the files in {path.parent} that the workload left are more than are fetched: {MOST_FILES:,} "
                    f"files, {MOST_BYTES >> 30} GiB",
                    hint="a shorter workload leaves less",
                )
            (folder / name).write_bytes(content)


def file_names(host: str, text: str) -> list[str]:
    """The names that a host's ``ls -1`` prints, which become names here. Raises ``HostError`` where one leads
    elsewhere."""
    names = text.removesuffix("\n").split("\n") if text else []
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\0" in name or len(name.encode()) > MOST_NAME:
            raise HostError(
                host,
                f"it lists a file called {name[:SHOWN]!r}, which is no file's name; nothing is fetched",
                hint="look into that folder there: can the host be trusted?",
            )
    return names


def read(host: Host, path: str) -> bytes:
    """A file of a host's. Raises ``HostError``."""
    try:
        return host.get(path)
    except OSError as error:
        raise HostError(host.name, f"cannot read {path}: {error.strerror}") from error


def stop(proc: Proc, number: int, seconds: float = STOP_SECONDS) -> None:
    """Signal and wait so long; SIGKILL when that does not help. A lost node ends the wait."""
    try:
        proc.signal(number)
        proc.wait(seconds)
    except HostTimeout:
        # What outlives SIGKILL hangs in the node's kernel; the node's end will be its end.
        with contextlib.suppress(HostError):
            proc.signal(signal.SIGKILL)
            proc.wait(KILL_SECONDS)
    except HostError:
        return

"""A Dask scheduler and workers on loopback, whose labs are fake, as processes that a test may kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from ruamel.yaml import YAML

from blocklab.store.folder import StudyFolder
from blocklab.store.run import environment_of
from tests.fake.runs import io

ROOT = Path(__file__).parents[2]
STARTS_SECONDS = 60.0
WAIT_SECONDS = 90.0


def environment(
    place: Path, machine: str = "one", seconds: float = 0.0, failing: str = "", first: str = ""
) -> dict[str, str]:
    """Of a process that knows the fake site; each machine has a cache of its own."""
    paths = [*([first] if first else []), str(Path(__file__).parent / "hook"), str(ROOT / "src"), str(ROOT)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "BLOCKLAB_CACHE": str(place / f"cache-{machine}"),
        "BLOCKLAB_MACHINE": machine,
        "FAKE_SECONDS": str(seconds),
        "FAKE_FAILING": failing,
        "FAKE_LOG": str(place / "begun"),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "null",
    }


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Cluster:
    """Processes of Dask's own programs; all of them end with the block."""

    def __init__(
        self,
        place: Path,
        *,
        seconds: float = 0.0,
        security: dict[str, str] | None = None,
        real: dict[str, str] | None = None,
    ) -> None:
        self.place = place
        # The environment of workers on real nodes, in place of fake ones.
        self.real = real
        self.seconds = seconds
        self.security = security or {}
        # A stack whose loads fail on workers that are started from now on, and a folder of packages before others.
        self.failing = self.first = ""
        # The node image of workers that are started from now on.
        self.image = ""
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def address(self) -> str:
        return f"{'tls' if self.security else 'tcp'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)

    def _environment(self, machine: str = "one") -> dict[str, str]:
        if self.real is not None:
            return {**os.environ, **self.real}
        named = environment(self.place, machine, self.seconds, self.failing, self.first)
        return {**named, "FAKE_IMAGE": self.image}

    def _start(self, name: str, argv: list[str], machine: str = "one", cpu: int | None = None) -> None:
        if (before := self.processes.get(name)) is not None:
            self._end(before)
        env = {**self._environment(machine), **self.security}
        pin = [] if cpu is None else ["taskset", "-c", str(cpu)]
        with (self.place / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*pin, sys.executable, "-m", *argv], env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True, cwd=self.place,
            )  # fmt: skip

    def scheduler(self) -> None:
        self._start("scheduler", ["distributed.cli.dask_scheduler", "--host", self.address.rsplit(":", 1)[0],
                                  "--port", str(self.port), "--no-dashboard"])  # fmt: skip
        deadline = time.monotonic() + STARTS_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self.place / "scheduler.log").read_text()
                time.sleep(0.05)

    def worker(self, name: str, machine: str = "", *options: str, cpu: int | None = None) -> None:
        resources = () if options else ("--resources", "lab=1")
        self._start(name, [
            "distributed.cli.dask_worker", self.address, "--name", name, "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--death-timeout", "60", *resources, *options,
        ], machine or name, cpu)  # fmt: skip

    def kill(self, name: str) -> None:
        """At once, with all that it started."""
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait(30)

    def blocklab(self, *arguments: str) -> subprocess.Popen[str]:
        """The command line."""
        return subprocess.Popen(
            [sys.executable, "-m", "blocklab.cli.main", *arguments], text=True, stdout=subprocess.PIPE,
            env={**self._environment(), **self.security}, stderr=subprocess.PIPE, cwd=self.place,
            start_new_session=True,
        )  # fmt: skip

    def begun(self) -> list[tuple[str, str]]:
        """Each cell that was begun, as (machine, key)."""
        file = self.place / "begun"
        return [tuple(line.split()) for line in file.read_text().splitlines()] if file.exists() else []  # type: ignore[misc]


def finished(folder: StudyFolder) -> dict[str, str]:
    """The name of the machine of each good run."""
    cells = folder.manifest().cells
    return {cell.key: environment_of(folder.cells / cell.key)["name"] for cell in cells if folder.has(cell)}


def events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def written(place: Path, small: dict[str, Any], **fields: Any) -> Path:
    small["workloads"] = {"io": io(small)}
    small |= fields
    YAML().dump(small, place / "study.yaml")
    return place


def ended(process: subprocess.Popen[str], code: int = 0, seconds: float = WAIT_SECONDS) -> str:
    """What it said on standard error."""
    try:
        out, said = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == code, f"{process.returncode}\n{said}\n{out}"
    return said


def until(met: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def folder_of(cluster: Cluster) -> StudyFolder:
    return StudyFolder(cluster.place / "runs" / "small")


def measuring(cluster: Cluster) -> list[str]:
    """The processes that measure for this test."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"blocklab.campaign.unit" in line and any(str(cluster.place).encode() in each for each in line):
            found.append(process.parent.name)
    return found


def nothing_is_left(cluster: Cluster) -> None:
    """No process, no draft, and on the machines no unit."""
    until(lambda: not measuring(cluster), 30)
    folder = folder_of(cluster)
    assert not list(folder.cells.glob(".*")) and not list(folder.path.glob(".*"))
    assert not list(cluster.place.glob("cache-*/units/*"))

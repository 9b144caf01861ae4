"""``kill -9`` of a study on the fake site, at any moment and at each step of writing, and then ``resume``.

The command's own code runs in processes of its own, which a server forks: Python starts once. What is not real
there is the site, and the report, which takes longer than all the rest.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from ruamel.yaml import YAML

from blocklab import report
from blocklab.campaign import start
from blocklab.cli import studies
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.model.sample import Parsed
from blocklab.predict import cells as predicting
from blocklab.runner import measure as measuring
from blocklab.runner import run as running
from blocklab.sites.fake import FakeSite
from blocklab.store.folder import StudyFolder
from blocklab.store.run import draft, load, sweep
from blocklab.study import profiles
from tests.fake.answers import Answers
from tests.fake.runs import io

KILLS = 30
LOAD_SECONDS = 0.01


# -- the processes that are killed ---------------------------------------------------------------------------


class Busy(Answers):
    """Whose workloads take a moment."""

    def __call__(self, host: str, argv: Argv) -> Result:
        if "--output-format=json+" in argv:
            time.sleep(LOAD_SECONDS)
        return super().__call__(host, argv)


def opened(name: str, volumes: Path | None = None, hosts: Path | None = None, seed: int = 0) -> FakeSite:
    """In place of the site that the command line opens."""
    return FakeSite(Busy())


def serve() -> None:
    """Fork a process for each line of standard input, ``runs log argument...``; see ``_run`` for the arguments.

    Its id is printed. It is not reaped before the next line, ``wait``, upon which its exit code is printed.
    """
    profiles.shipped()
    print(0, flush=True)
    for line in sys.stdin:
        runs, log, *arguments = line.split()
        if (child := os.fork()) == 0:
            code = 99
            try:
                code = _run(Path(runs), Path(log), arguments)
            finally:
                os._exit(code)
        print(child, flush=True)
        assert sys.stdin.readline() == "wait\n"
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run(runs: Path, log: Path, arguments: Sequence[str]) -> int:
    """``blocklab run`` or ``resume``; ``store`` and a number: see ``_store``."""
    if arguments[0] == "store":
        _store(runs, int(arguments[1]))
        return 0
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    real = measuring.measure

    def measure(engine: Any, workload: Any, port: Any, facts: Any, raw: Path, *rest: Any, **more: Any) -> None:
        # cells/.<key>.<process>.partial/raw
        with log.open("a") as stream:
            stream.write(raw.parent.name.split(".")[1] + "\n")
        real(engine, workload, port, facts, raw, *rest, **more)

    measuring.PROBE_LEAD = measuring.PROBE_LEAST = measuring.PROBE_MOST = 0.0
    patched: dict[tuple[Any, str], Any] = {
        (start, "open_site"): opened,
        (predicting, "analysed"): lambda _: None,
        (report, "render"): lambda *_, **__: "none", (report, "terminal_table"): lambda *_, **__: "",
    }  # fmt: skip
    for (owner, name), value in patched.items():
        # The report's are looked up late, so that nothing of it is imported here.
        assert name in vars(owner) or name in report.__all__
        setattr(owner, name, value)
    vars(running)["measure"] = measure
    try:
        if arguments[0] == "resume":
            studies.resume(runs=runs)
        else:
            studies.run(runs.parent / "study.yaml", runs=runs, seed=1)
    except typer.Exit as error:
        return error.exit_code
    return 0


def _store(runs: Path, step: int) -> None:
    """Write a study's folder and its cells again, as ``run --again`` does, and die at a step."""
    folder = StudyFolder(runs / "small")
    manifest, source = folder.manifest(), runs.parent / "study.yaml"
    every = [load(runs.parent / "whole" / "cells" / cell.key) for cell in manifest.cells]
    _die_at(step)
    folder = StudyFolder.create(runs, manifest, source)
    for run in every:
        with draft(folder.cells, run.cell.key) as here:
            here.write(
                run.cell, run.outcome, environment=run.environment, records=run.records, knobs=run.knobs,
                parsed=Parsed(run.samples, run.phases), stops=run.stops, rounds=run.rounds,
            )  # fmt: skip


def _die_at(step: int) -> None:
    """Be killed in place of the change number ``step`` (from 1) to a file or a folder; a file is half written."""
    left = step

    def instead(owner: Any, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def change(*given: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                if name == "write_bytes":
                    real(given[0], given[1][: len(given[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **options)

        setattr(owner, name, change)

    for name in ("write_bytes", "rename", "replace", "mkdir"):
        instead(Path, name)
    instead(shutil, "rmtree")


# -- the tests -----------------------------------------------------------------------------------------------


class Server:
    """Starts the processes. ``log`` has the key of each cell whose measurement was begun."""

    def __init__(self, process: subprocess.Popen[str], place: Path) -> None:
        self._process = process
        self.runs = place / "runs"
        self.log = place / "measured"

    def _ask(self, line: str) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def call(self, *arguments: str, killed_after: float | None = None) -> int:
        """The exit code of a process, negative for the signal that killed it."""
        child = self._ask(f"{self.runs} {self.log} {' '.join(arguments)}")
        if killed_after is not None:
            time.sleep(killed_after)
            # It may have ended; it is not reaped yet, so its id is still its own.
            os.kill(child, signal.SIGKILL)
        return self._ask("wait")

    def measured(self) -> list[str]:
        """Key by key what was measured since this was asked last."""
        text = self.log.read_text() if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return text.split()

    def folder(self) -> StudyFolder | None:
        """The study's folder; None while there is none that could be resumed."""
        found = StudyFolder(self.runs / "small")
        return found if (found.path / "study.json").exists() else None

    def finished(self) -> dict[str, int]:
        """The inode of each finished cell's result, every one of which can be read back whole."""
        folder = self.folder()
        if folder is None:
            assert not list(self.runs.glob("*/cells/[!.]*"))
            return {}
        runs = folder.runs()
        assert {run.outcome.status for run in runs} <= {"ok"} and all(run.values() for run in runs)
        assert len(runs) == len(list(folder.cells.glob("[!.]*")))
        return {run.cell.key: (run.folder / "result.json").stat().st_ino for run in runs}

    def nothing_is_left(self) -> None:
        folder = self.folder()
        assert folder is not None and folder.missing(folder.manifest().cells) == ()
        assert not list(folder.cells.glob(".*")) and not list(folder.path.glob(".*"))

    def resumed(self) -> list[str]:
        """What a resume measures; it ends well, keeps what is finished, and leaves no draft."""
        before = self.finished()
        self.measured()
        assert self.call("resume" if self.folder() else "run") == 0
        self.nothing_is_left()
        after = self.finished()
        assert {key: after[key] for key in before} == before
        return self.measured()


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """The server itself, once for all tests."""
    argv = [sys.executable, "-c", "from tests.fake.test_killed import serve; serve()"]
    with (tmp_path_factory.mktemp("server") / "said").open("w") as said:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == "0\n"
        yield process
    finally:
        process.communicate(timeout=10)


@pytest.fixture
def server(forks: subprocess.Popen[str], small: dict[str, Any], tmp_path: Path) -> Server:
    small["workloads"] = {"io": io(small)}
    small["factors"] = {"depth": {"field": "workloads.io.options.iodepth", "values": [1, 2, 4]}}
    YAML().dump(small, tmp_path / "study.yaml")
    return Server(forks, tmp_path)


def test_a_study_killed_at_any_moment_is_resumed_with_no_cell_lost_or_run_again(server: Server) -> None:
    took = []
    for _ in range(2):
        shutil.rmtree(server.runs, ignore_errors=True)
        started = time.monotonic()
        assert server.call("run") == 0
        took.append(time.monotonic() - started)
        every = server.measured()
    # Of the faster one, so that most kills come before the end.
    whole = min(took)
    assert len(set(every)) == len(every) == 6
    moments, ends = random.Random(11), []
    for number in range(KILLS):
        shutil.rmtree(server.runs)
        # One in each thirtieth of the time that it takes.
        started = time.monotonic()
        ends.append(server.call("run", killed_after=whole * (number + moments.random()) / KILLS))
        # The first ones may have been slow for what ran beside them.
        whole = whole if ends[-1] else min(whole, time.monotonic() - started)
        finished = server.finished()
        assert sorted(server.resumed()) == sorted(set(every) - finished.keys())
    assert set(ends) <= {0, -signal.SIGKILL} and ends.count(-signal.SIGKILL) >= KILLS // 6


def test_a_resume_may_be_killed_too(server: Server) -> None:
    """Again and again, each a little later, until it comes through: a cell that was finished once stays."""
    finished: dict[str, int] = {}
    for number in range(1, 100):
        code = server.call("resume" if server.folder() else "run", killed_after=number * 0.05)
        now = server.finished()
        assert {key: now[key] for key in finished} == finished
        assert not set(server.measured()) & finished.keys()
        finished = now
        if code == 0:
            break
    assert server.resumed() == [] and len(finished) == 6


@pytest.mark.parametrize(
    "over",
    [
        pytest.param(True, id="over finished cells"),
        pytest.param(False, id="for the first time", marks=pytest.mark.long),
    ],
)
def test_a_kill_at_each_step_of_writing(server: Server, over: bool) -> None:
    """A file half written, a folder not yet renamed: a cell is there whole or not at all, and never lost."""
    assert server.call("run") == 0
    folder = server.folder()
    assert folder is not None
    manifest = folder.manifest()
    cells, others = manifest.cells[:2], manifest.cells[2:]
    for cell in others:
        shutil.rmtree(folder.cells / cell.key)
    StudyFolder.create(server.runs, msgspec.structs.replace(manifest, cells=cells), folder.path / "study.yaml")
    keys = {cell.key for cell in cells}
    whole = folder.path.rename(server.runs.parent / "whole")
    step, code, sizes = 0, -signal.SIGKILL, set()
    while code == -signal.SIGKILL:
        step += 1
        shutil.rmtree(folder.path, ignore_errors=True)
        shutil.copytree(whole, folder.path)
        if not over:
            shutil.rmtree(folder.cells)
        code = server.call("store", str(step))
        # What ``resume`` does first.
        folder.sweep()
        assert folder.manifest().cells == cells and (folder.path / "study.yaml").read_text()
        finished = server.finished().keys()
        sizes.add(len(finished))
        assert {cell.key for cell in folder.missing(cells)} == keys - finished
        assert not list(folder.cells.glob(".*")) and not list(folder.path.glob(".*"))
    assert code == 0 and step > 30
    assert sizes == ({2} if over else {0, 1, 2})


def test_drafts_under_our_own_number_are_an_earlier_process_s(tmp_path: Path) -> None:
    """In a container each blocklab may have the same process id."""
    for name in (f".abc.{os.getpid()}.partial", f".abc.{os.getpid()}.old", f".def.{os.getpid()}.partial"):
        (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["abc"]

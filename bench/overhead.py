"""What a cell takes beside its workload: fio patterns as the cells of one layout, and the same of ``bench-fio``.

Ours is a whole ``run_study`` on a real node: from one cell's beginning to the next one's, less the time for which
fio did I/O, less building (the first cell only). Where it goes is timed around the runner's own functions, each
without those within it. ``bench-fio`` (of ``fio-plot``, installed into a folder that is removed again) runs the
same patterns on this machine with this machine's fio, on a file in memory, as the node's volume is one: its fio
starts without a node's detour, which is in our value and not in its.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from bench.common import PLAIN, show
from bench.stopping import bounded
from blocklab.runner.events import AnyEvent, Begun, Done, Warned
from blocklab.runner.run import run_study
from blocklab.sites.uml.site import UmlSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import Study

AIM = 0.5
PACKAGE = "fio-plot==1.1.21"
MODES, SIZES, DEPTHS = ("randread", "randwrite"), ("4k", "16k"), (1, 2, 4, 8, 16, 32)
FILE = "64MiB"
BUILD, FIO, REST = "build", "fio: start and end", "all else"


def command(engine: object, host: str, argv: Sequence[str], *more: object) -> str:
    """``prepare: fio --name=fill``: the kind of a command, and what it is."""
    return f"{more[-1]}: {' '.join(argv[:2])}"


# Where a cell's time goes: what is timed, and what it is called.
TIMED: dict[str, str | Callable[..., str]] = {
    "runner.workshop:Turn.ready": BUILD,
    "runner.engine:Engine._command": command,
    "runner.engine:Engine._put": "prepare: job file",
    "runner.measure:_Watched.__init__": "probes: start",
    "runner.measure:_Watched.wait": "probes: wait for their start",
    "runner.measure:_Watched.stop": "probes: stop",
    "runner.measure:_watched": "probes: parse",
    "runner.measure:run_once": FIO,
    "runner.trials:run_once": FIO,
    "runner.single:_fetch": "fio: fetch its logs",
    "runner.cross:Cross.read": "counters: read",
    "runner.cross:Cross.judge": "counters: judge",
    "workloads.fio:Fio.parse": "fio: parse",
    "runner.trials:merged": "rounds: merge",
    "runner.run:clocks": "clocks of the nodes",
    "store.run:Draft.write": "store: write",
}


class Parts:
    """Seconds by part, each without the parts timed within it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.unknown: list[str] = []
        """What there is no longer under that name; its time is in another part."""
        self._inner: list[float] = []

    @contextlib.contextmanager
    def timing(self) -> Iterator[None]:
        """Time everything in ``TIMED`` within the block."""
        with contextlib.ExitStack() as stack:
            for where, part in TIMED.items():
                module, _, path = where.partition(":")
                *owners, name = path.split(".")
                try:
                    owner = functools.reduce(getattr, owners, importlib.import_module(f"blocklab.{module}"))
                    stack.enter_context(mock.patch.object(owner, name, self._timed(getattr(owner, name), part)))
                except (AttributeError, ImportError):
                    self.unknown.append(where)
            yield

    def _timed(self, function: Callable[..., Any], part: str | Callable[..., str]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._inner.append(0.0)
            started = time.monotonic()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.monotonic() - started
                self.seconds[part if isinstance(part, str) else part(*args, *kwargs.values())] += (
                    took - self._inner.pop()
                )
                if self._inner:
                    self._inner[-1] += took

        return timed


class Watch:
    """Notes when cells begin, and what was spent on what until the next one does."""

    def __init__(self, parts: Parts) -> None:
        self.cells: dict[str, tuple[float, dict[str, float]]] = {}
        self.bad: list[str] = []
        self._parts = parts
        self._begun: tuple[Begun, float] | None = None

    def __call__(self, event: AnyEvent) -> None:
        """Note it."""
        match event:
            case Begun():
                # The cell before this one has ended.
                self._end()
                self._begun = event, time.monotonic()
                self._parts.seconds.clear()
            case Done():
                if event.status not in ("ok", "suspect"):
                    self.bad.append(f"{event.label}: {event.status}: {event.error}")
                if self._begun is not None and self._begun[0].number == self._begun[0].of:
                    # What follows is the nodes' end.
                    self._end()
            case Warned():
                print(f"warning: {event.text}")

    def _end(self) -> None:
        if self._begun is not None:
            cell, began = self._begun
            self.cells[cell.key] = time.monotonic() - began, dict(self._parts.seconds)
            self._begun = None

    def overhead(self, key: str, load: float) -> tuple[float, dict[str, float]]:
        """What a cell whose fio did I/O for so long took beside, and each part of it."""
        whole, parts = self.cells[key]
        building = sum(seconds for part, seconds in parts.items() if part.startswith(BUILD))
        spent = {part: seconds for part, seconds in parts.items() if not part.startswith(BUILD)}
        # The run's own time is within that of its start and end.
        spent[FIO] = spent.get(FIO, 0.0) - load
        overhead = whole - building - load
        spent[REST] = overhead - sum(spent.values())
        return overhead, spent


def study(depths: Sequence[int], seconds: int) -> Study:
    """One raw volume, one workload, and a factor for each part of the pattern: a cell for each."""
    job = "workloads.io.jobs.pattern"
    return build(
        {
            "blocklab": 2, "name": "overhead", "question": "What does a cell take beside its workload?",
            "nodes": {"a1": {"memory": "512MiB"}},
            "stacks": {"raw": {"on": "a1", "layers": [PLAIN]}},
            "workloads": {
                "io": {
                    "workload": "fio", "size": FILE, "options": {"ioengine": "libaio", "direct": 1},
                    "jobs": {"pattern": {"rw": MODES[0], "bs": SIZES[0], "iodepth": 1}},
                    "stop": {"fixed": f"{seconds}s"},
                }
            },
            "factors": {
                "mode": {"field": f"{job}.rw", "values": list(MODES)},
                "bs": {"field": f"{job}.bs", "values": list(SIZES)},
                "depth": {"field": f"{job}.iodepth", "values": list(depths)},
            },
        }
    )  # fmt: skip


def ours(depths: Sequence[int], seconds: int, seed: int) -> None:
    """Run the study, print its overhead and where it goes."""
    what = study(depths, seconds)
    grid = cells(what)
    parts = Parts()
    watch = Watch(parts)
    with tempfile.TemporaryDirectory(prefix="blocklab-overhead-") as runs:
        folder = StudyFolder.create(Path(runs), Manifest(what, grid, seed=seed))
        started = time.monotonic()
        with parts.timing():
            run_study(UmlSite(), what, grid, folder, watch, seed)
            whole = time.monotonic() - started
        loads = {run.cell.key: sum(phase.end - phase.start for phase in run.phases) for run in folder.runs()}
    for said in watch.bad:
        print(f"not ok: {said}")
    if not loads:
        raise SystemExit("no cell was measured")
    overheads, spents = zip(*(watch.overhead(key, load) for key, load in loads.items()), strict=True)
    show("blocklab: a cell beside its workload", list(overheads), "s", f"aim: median under {AIM} s")
    outside = whole - sum(loads.values())
    print(f"  the study took {whole:.1f} s: {outside / len(grid):.3f} s a cell with boot, build and take-down")
    print("  median of each part, ms a cell (each without the parts within it):")
    names = {name for spent in spents for name in spent}
    middle = {name: statistics.median(spent.get(name, 0.0) for spent in spents) for name in names}
    for name in sorted(middle, key=lambda name: -middle[name]):
        print(f"    {name:<46}{middle[name] * 1000:9.1f}")
    for where in parts.unknown:
        print(f"  not timed, since there is no {where}: in another part, or in '{REST}'")


def bench_fio(depths: Sequence[int], seconds: int, program: Path | None) -> None:
    """The same patterns by ``bench-fio`` with this machine's fio; says why where that cannot be."""
    if shutil.which("fio") is None:
        print("bench-fio: skipped: there is no fio on this machine (its Debian package is fio)")
        return
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(prefix="blocklab-bench-fio-") as here,
        tempfile.TemporaryDirectory(prefix="blocklab-bench-fio-", dir=memory if memory.is_dir() else None) as fast,
    ):
        folder, target = Path(here), Path(fast) / f"{Path(fast).name}.dat"
        program = program or installed(folder / "venv")
        if program is None:
            return
        with target.open("wb") as file:
            # Written, as the study's volume is filled: a hole would be faster.
            for _ in range(64):
                file.write(bytes(2**20))
        argv = [
            str(program), "--target", str(target), "--type", "file", "--size", "64M",
            "--output", str(folder / "out"), "--mode", *MODES, "--block-size", *SIZES,
            "--iodepth", *map(str, depths), "--numjobs", "1",
            "--runtime", str(seconds), "--time-based", "--destructive", "--quiet",
        ]  # fmt: skip
        started = time.monotonic()
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        finally:
            # It leaves its job file there.
            Path("/tmp", f"{target.name}-tmpjobfile.fio").unlink(missing_ok=True)
        whole = time.monotonic() - started
        results = sorted((folder / "out").rglob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        count = len(MODES) * len(SIZES) * len(depths)
        if done.returncode or len(results) != count:
            print(f"bench-fio: exit code {done.returncode}, {len(results)} of {count} results: "
                  f"{(done.stdout + done.stderr)[-500:]}")  # fmt: skip
            return
        report(results, whole)


def report(results: Sequence[Path], whole: float) -> None:
    """From one result's last write to the next one's, less the time for which fio did I/O."""
    workloads = []
    for path in results:
        (job,) = json.loads(path.read_text())["jobs"]
        workloads.append(max(job["read"]["runtime"], job["write"]["runtime"]) / 1000)
    ends = [path.stat().st_mtime_ns / 1e9 for path in results]
    beside = [
        after - before - workload
        for (before, after), workload in zip(itertools.pairwise(ends), workloads[1:], strict=True)
    ]
    show("bench-fio (fio on this machine): a cell beside its workload", beside, "s")
    print(f"  it took {whole:.1f} s: {(whole - sum(workloads)) / len(results):.3f} s a cell with its start")


def installed(folder: Path) -> Path | None:
    """bench-fio in a virtual environment of its own; None, and the reason printed, where that fails."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    argv = [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", PACKAGE]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"bench-fio: skipped: {PACKAGE} cannot be installed: {done.stderr.strip()[-500:]}")
        return None
    return folder / "bin" / "bench-fio"


def main() -> None:
    """Ours, then bench-fio's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", type=int, default=len(DEPTHS), metavar="N", choices=range(1, len(DEPTHS) + 1),
                        help=f"so many queue depths: {len(MODES) * len(SIZES)} cells for each")  # fmt: skip
    parser.add_argument("--seconds", type=int, default=2, help="of workload in each cell")
    parser.add_argument("--seed", type=int, default=1, help="for the order of the cells")
    parser.add_argument("--bench-fio", type=Path, metavar="FILE", help=f"an installed one, not {PACKAGE} again")
    parser.add_argument("--only-ours", action="store_true", help="without bench-fio")
    asked = parser.parse_args()
    if asked.seconds < 1:
        parser.error("--seconds must be at least 1")
    depths = DEPTHS[: asked.depths]
    count = len(MODES) * len(SIZES) * len(depths)
    each = count * (asked.seconds + 4) + 30
    ways = 1 if asked.only_ours else 2
    print(f"{count} cells of {asked.seconds} s: takes about {each * ways / 60:.0f} minutes", flush=True)
    with bounded(2 * each * ways + 300):
        ours(depths, asked.seconds, asked.seed)
        if not asked.only_ours:
            bench_fio(depths, asked.seconds, asked.bench_fio)


if __name__ == "__main__":
    main()

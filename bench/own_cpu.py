"""What blocklab itself takes of a CPU while a cell runs, without and with progress drawn on a terminal."""

from __future__ import annotations

import contextlib
import functools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.common import PLAIN, mirror, show, study
from blocklab.campaign.remaining import Remaining
from blocklab.cli.live import Live, screen
from blocklab.model.sample import Parsed
from blocklab.model.stop import Stop
from blocklab.model.terminal import Console
from blocklab.model.units import Duration, Size
from blocklab.runner.engine import Engine
from blocklab.runner.estimate import costs
from blocklab.runner.events import Begun, Interim
from blocklab.runner.measure import Measured, measure, own
from blocklab.runner.run import standing
from blocklab.runner.trials import Tell
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlSite
from blocklab.store.run import Rate
from blocklab.study.grid import cells, port_for
from blocklab.study.types import Cell
from blocklab.workloads import Fio

SECONDS = 20
# Four rounds, so that there are values to draw.
LOAD = Fio(
    size=Size("64MiB"), options={"direct": 1}, jobs={"write": {"rw": "randwrite", "bs": "4k"}},
    stop=Stop(rounds="4..4", each=Duration(f"{SECONDS // 4}s")),
)  # fmt: skip


def one(stand: Standing, tell: Tell | None) -> tuple[float, float]:
    """One cell: our share of a core from its preparation to the last parsed sample, and while its workload ran
    (%)."""
    engine, measured = Engine(stand.lab), Measured()
    with tempfile.TemporaryDirectory() as raw:
        before, started = time.process_time(), time.monotonic()
        measure(
            engine,
            LOAD,
            port_for(LOAD, stand.ports["m"], stand.ground),
            stand.facts["m"],
            Path(raw),
            measured,
            stand.shapes["m"],
            tell=tell,
        )
        whole = (time.process_time() - before) / (time.monotonic() - started) * 100
    assert measured.parsed != Parsed()
    (loaded,) = [sample.value for sample in own(engine.records) if sample.layer == "blocklab"]
    return whole, loaded


def drawn(live: Live, cell: Cell, phase: str, rounds: int, rates: Sequence[Rate]) -> None:
    """Draw the rates so far."""
    live(Interim(cell.key, phase, rounds, tuple(rates)))


def main() -> None:
    """The whole measurement of one cell: probes, load, collecting, parsing."""
    what = study({"m": [PLAIN, mirror("a2", "zone")]}, {"zone": ("a2", 0.5)})
    grid = cells(what)
    with standing(UmlSite(), what, ["m"]) as stand, Path("/dev/null").open("w") as nowhere:
        console = Console(file=nowhere, force_terminal=True, width=100, height=40)
        for kind in ("plain", "drawn"):
            live = Live(console, what, grid, Remaining(costs(what, grid))) if kind == "drawn" else None
            with screen(console, live.picture) if live else contextlib.nullcontext():
                if live is not None:
                    live(Begun(grid[0].key, grid[0].label, 1, len(grid)))
                tell = functools.partial(drawn, live, grid[0]) if live is not None else None
                found = [one(stand, tell) for _ in range(3)]
            bound = "bound: under 2 %"
            show(f"own CPU while a workload runs, {kind}", [each for _, each in found], "% of one core", bound)
            show(
                f"own CPU of a whole cell of {SECONDS} s, {kind}", [each for each, _ in found], "% of one core", ""
            )


if __name__ == "__main__":
    main()

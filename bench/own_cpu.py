"""What blocklab itself takes of a CPU while a cell runs."""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

from bench.common import PLAIN, mirror, show, study
from blocklab.model.sample import Parsed
from blocklab.model.units import Size
from blocklab.runner.engine import Engine
from blocklab.runner.measure import Measured, measure
from blocklab.runner.run import standing
from blocklab.sites.uml.site import UmlSite
from blocklab.study.grid import port_for
from blocklab.workloads import Fio

SECONDS = 20


def cpu() -> float:
    """Seconds that this process has used, children not counted."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """The whole measurement of one cell: probes, load, collecting, parsing."""
    what = study({"m": [PLAIN, mirror("a2", "zone")]}, {"zone": ("a2", 0.5)})
    load = Fio(
        size=Size("64MiB"), options={"direct": 1, "runtime": SECONDS, "time_based": True},
        jobs={"write": {"rw": "randwrite", "bs": "4k"}},
    )  # fmt: skip
    shares = []
    with standing(UmlSite(), what, ["m"]) as stand:
        for _ in range(3):
            engine = Engine(stand.lab.hosts)
            measured = Measured()
            with tempfile.TemporaryDirectory() as raw:
                before, started = cpu(), time.monotonic()
                measure(
                    engine,
                    load,
                    port_for(load, stand.ports["m"], stand.ground),
                    stand.facts["m"],
                    Path(raw),
                    measured,
                    stand.shapes["m"],
                )
                shares.append((cpu() - before) / (time.monotonic() - started) * 100)
            assert measured.parsed != Parsed()
    show(f"blocklab's own CPU in a cell of {SECONDS} s", shares, "% of one core", "bound: under 3 %")


if __name__ == "__main__":
    main()

"""Round trips of links and latencies of volumes are set by measuring: on a machine of any speed they are true, or
known not to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from blocklab.model.host import Result
from blocklab.model.node import program
from blocklab.model.plan import Argv
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeSite
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from tests.fake import runs
from tests.fake.answers import Answers
from tests.fake.links import Machine


def run(small: dict[str, Any], tmp_path: Path, machine: Machine) -> Any:
    small["workloads"] = {"io": runs.io(small)}
    small["stacks"], small["baseline"] = {"mirror": small["stacks"]["mirror"]}, "mirror"
    folder, _, bad, _ = runs.go(build(small), tmp_path, machine)
    assert bad == 0, [each.outcome for each in folder.runs()]
    (found,) = folder.runs()
    return found


@pytest.mark.parametrize(("floor", "times"), [(0.15, 1.0), (0.38, 1.0), (0.2, 1.6), (0.05, 0.8)])
def test_what_a_machine_takes_by_itself_is_taken_off(
    small: dict[str, Any], tmp_path: Path, floor: float, times: float
) -> None:
    machine = Machine(floor, times)
    tuned = run(small, tmp_path, machine).stack.tuned["link zone"]
    assert tuned.true and tuned.reached.median == pytest.approx(0.5e-3, abs=51e-6)
    assert tuned.asked == 0.5e-3
    # Nothing added, at most three corrections and the first one.
    assert machine.changes[0] == 0 and len(machine.changes) <= 5
    assert tuned.added == pytest.approx(machine.changes[-1] / 1e6, abs=1e-6)


def test_a_machine_that_is_too_slow_is_known_to_be(small: dict[str, Any], tmp_path: Path) -> None:
    found = run(small, tmp_path, Machine(1.7))
    tuned = found.stack.tuned["link zone"]
    assert not tuned.true and tuned.added == 0 and tuned.reached.median == pytest.approx(1.7e-3)
    # Before the workload, and after it.
    assert [each.median for each in found.stack.times["link zone"]] == pytest.approx([1.7e-3, 1.7e-3])


def test_a_link_that_answers_no_ping_keeps_its_delay(small: dict[str, Any], tmp_path: Path) -> None:
    machine = Machine(0.15, lost=True)
    found = run(small, tmp_path, machine)
    assert found.stack.tuned == {} and "link zone" not in found.stack.times
    assert machine.changes == [0, 500]


class Volumes(Answers):
    """Volumes whose way takes ``path`` us beside what the lab was last told to add."""

    site: FakeSite

    def __init__(self, path: float) -> None:
        super().__init__()
        self.path = path

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[:4] == program("latency"):
            orders = [order for _, order in self.site.labs[-1].log if order[0] == "latencies" and order[1] == host]
            way = argv[5]
            told = (word.partition("=") for word in (orders or [()])[-1])
            added = next((float(value) for name, _, value in told if name == way), 450e-6)
            return Result(0, f"{self.path + 1e6 * added:.1f}\n".encode() * int(argv[6]), b"")
        return super().__call__(host, argv)


def run_volume(small: dict[str, Any], tmp_path: Path, path: float, **latencies: Any) -> tuple[Any, list[Argv]]:
    latencies = latencies or {"read_latency": "450us", "write_latency": "1ms"}
    volume = {"layer": "volume", "size": "512MiB", "iops": 3000, **latencies}
    small["workloads"] = {"io": runs.io(small)}
    small["stacks"], small["baseline"] = {"local": {"on": "a1", "layers": [volume, {"layer": "xfs"}]}}, "local"
    machine = Volumes(path)
    study = build(small)
    folder = StudyFolder.create(tmp_path, Manifest(study, cells(study)))
    machine.site = FakeSite(machine)
    assert run_study(machine.site, study, cells(study), folder, runs.Silent()) == 0
    (found,) = folder.runs()
    return found, [argv for _, argv in machine.site.labs[-1].log if argv[0] in ("latencies", "mkfs.xfs")]


def test_a_volumes_latencies_are_tuned_before_anything_stands_on_it(small: dict[str, Any], tmp_path: Path) -> None:
    found, log = run_volume(small, tmp_path, 130.0)
    reads, writes = (found.stack.tuned[f"{way} of vda on a1"] for way in ("reads", "writes"))
    assert reads.true and writes.true and (reads.asked, writes.asked) == (450e-6, 1e-3)
    assert reads.added == pytest.approx(320e-6) and writes.added == pytest.approx(870e-6)
    assert reads.floor == pytest.approx(130e-6)
    # First without caps, for measuring uses them up; with them in the end, and only then is it built upon.
    assert log[0] == ("latencies", "a1", "read=0.00045", "write=0.001")
    assert log[-2:-1] == [("latencies", "a1", "read=0.00032", "write=0.00087", "whole")]
    assert log[-1][0] == "mkfs.xfs"
    assert [each.median for each in found.stack.times["reads of vda on a1"]] == pytest.approx([450e-6, 450e-6])


def test_of_a_table_of_quantiles_the_median_is_tuned(small: dict[str, Any], tmp_path: Path) -> None:
    found, log = run_volume(small, tmp_path, 130.0, write_quantiles={"p25": "400us", "p75": "900us", "p99": "5ms"})
    # Linear in the logarithm: sqrt(0.4 x 0.9) ms.
    assert set(found.stack.tuned) == {"the median of writes of vda on a1"}
    tuned = found.stack.tuned["the median of writes of vda on a1"]
    assert tuned.true and tuned.asked == pytest.approx(600e-6) and tuned.added == pytest.approx(470e-6)
    assert log[-2][2:] == ("write=0.00047", "whole")


def test_a_volume_whose_way_takes_longer_than_asked_is_known_to(small: dict[str, Any], tmp_path: Path) -> None:
    found, _ = run_volume(small, tmp_path, 700.0)
    reads = found.stack.tuned["reads of vda on a1"]
    assert not reads.true and reads.added == 0 and reads.reached.median == pytest.approx(700e-6)
    assert found.stack.tuned["writes of vda on a1"].true

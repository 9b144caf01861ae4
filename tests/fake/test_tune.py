"""Round trips of links and latencies of volumes are set by measuring: on a machine of any speed they are true, or
known not to be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from blocklab.model.host import Result
from blocklab.model.node_programs import program
from blocklab.model.plan import Argv
from blocklab.report.limits import vague_text
from blocklab.runner.run import run_study
from blocklab.sites.fake import FakeSite
from blocklab.stats.analysis import analyse
from blocklab.stats.format import NBSP
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
    assert tuned.true and tuned.reached.median == pytest.approx(0.5e-3, rel=0.05)
    assert tuned.asked == 0.5e-3
    # Nothing added, then at most the first correction and four more.
    assert machine.changes[0] == 0 and len(machine.changes) <= 6
    assert tuned.added == pytest.approx(machine.changes[-1] / 1e6, abs=1e-6)


class Busy(Machine):
    """A machine that is busy while links are tuned, as it was found: they took 0.2 ms then, and 0.12 ms later."""

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[:2] == ("fsfreeze", "--unfreeze"):
            self.floor = 0.12
        return super().__call__(host, argv)


def test_what_a_busy_moment_made_too_short_is_corrected_before_the_cell(
    small: dict[str, Any], tmp_path: Path
) -> None:
    machine = Busy(0.2)
    found = run(small, tmp_path, machine)
    tuned = found.stack.tuned["link zone"]
    assert tuned.true and tuned.added == pytest.approx(0.38e-3) and machine.changes[-1] == 380
    # The old value and the new one are stored.
    (earlier,) = tuned.earlier
    assert earlier.added == pytest.approx(0.3e-3) and earlier.took.median == pytest.approx(0.42e-3)
    # What it took before the workload and after it, with what was in force then.
    assert [each.median for each in found.stack.times["link zone"]] == pytest.approx([0.5e-3, 0.5e-3])
    # The knob that is read back is the one in force.
    delays = {knob.value for knob in found.knobs if knob.name == "delay"}
    assert delays == {"380us"} and found.outcome.status == "ok"


class Passing(Machine):
    """Busy at one moment only: when the links are probed before the workload."""

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[:2] == ("fsfreeze", "--unfreeze"):
            self.floor, self.wait = 0.3, True
        done = super().__call__(host, argv)
        if argv[:2] == ("ping", "-A") and getattr(self, "wait", False):
            self.floor = 0.2
        return done


def test_a_probe_that_was_off_for_a_moment_changes_nothing(small: dict[str, Any], tmp_path: Path) -> None:
    found = run(small, tmp_path, machine := Passing(0.2))
    tuned = found.stack.tuned["link zone"]
    assert tuned.added == pytest.approx(0.3e-3) and not tuned.earlier and machine.changes[-1] == 300
    # What was seen stays to be seen.
    assert [each.median for each in found.stack.times["link zone"]] == pytest.approx([0.6e-3, 0.5e-3, 0.5e-3])


def test_noise_that_is_more_than_the_tolerance_is_said(small: dict[str, Any], tmp_path: Path) -> None:
    small["workloads"] = {"io": runs.io(small)}
    small["stacks"], small["baseline"] = {"mirror": small["stacks"]["mirror"]}, "mirror"
    folder, _, bad, _ = runs.go(build(small), tmp_path, machine := Machine(0.1, noise=0.2))
    (found,) = folder.runs()
    tuned = found.stack.tuned["link zone"]
    # It is not hunted.
    assert bad == 0 and tuned.true and tuned.reached.noise > 0.05 * 0.5e-3 and len(machine.changes) == 2
    said = vague_text(analyse(folder)).replace(NBSP, " ")
    assert re.search(r"vary, and were set as well as that lets: link zone to \d+ %\.$", said)


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

    def __init__(self, path: float, later: float | None = None) -> None:
        """``later``: what it takes once the cell is prepared."""
        super().__init__()
        self.path = path
        self.later = path if later is None else later

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[:2] == ("fsfreeze", "--unfreeze"):
            self.path = self.later
        if argv[:4] == program("latency"):
            orders = [order for _, order in self.site.labs[-1].log if order[0] == "latencies" and order[1] == host]
            way = argv[5]
            told = (word.partition("=") for word in (orders or [()])[-1])
            added = next((float(value) for name, _, value in told if name == way), 450e-6)
            return Result(0, f"{self.path + 1e6 * added:.1f}\n".encode() * int(argv[6]), b"")
        return super().__call__(host, argv)


def run_volume(
    small: dict[str, Any], tmp_path: Path, path: float, later: float | None = None, **latencies: Any
) -> tuple[Any, list[Argv]]:
    latencies = latencies or {"read_latency": "450us", "write_latency": "1ms"}
    volume = {"layer": "volume", "size": "512MiB", "iops": 3000, **latencies}
    small["workloads"] = {"io": runs.io(small)}
    small["stacks"], small["baseline"] = {"local": {"on": "a1", "layers": [volume, {"layer": "xfs"}]}}, "local"
    machine = Volumes(path, later)
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


def test_reads_that_a_busy_moment_made_too_short_are_corrected_before_the_cell(
    small: dict[str, Any], tmp_path: Path
) -> None:
    found, log = run_volume(small, tmp_path, 130.0, 60.0)
    reads, writes = (found.stack.tuned[f"{way} of vda on a1"] for way in ("reads", "writes"))
    assert reads.added == pytest.approx(390e-6) and reads.true
    assert [each.added for each in reads.earlier] == [pytest.approx(320e-6)]
    # Nobody can write to what is in use: writes keep what they had.
    assert writes.added == pytest.approx(870e-6) and not writes.earlier
    assert log[-1] == ("latencies", "a1", "read=0.00039", "write=0.00087", "whole")


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

"""Virtual time as far as it needs no node: what makes a cell ready, what a CPU costs, what is searched."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blocklab.cli.replay import SearchedCrash, Shell, moments
from blocklab.errors import CommandError, StoreError, StudyError
from blocklab.model.clock import MACHINE, Stretch
from blocklab.model.drill import Drill, Verdict
from blocklab.model.ground import Ground
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.model.sample import Parsed
from blocklab.model.terminal import Console
from blocklab.report.versus import printed
from blocklab.sites.machine import hides_itself
from blocklab.sites.names import ground
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.caveats import _certainty
from blocklab.stats.format import NBSP
from blocklab.stats.source import source
from blocklab.stats.versus import versus
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.store.run import HIDDEN, Outcome, Run, draft
from blocklab.study.grid import cells, topology
from blocklab.study.phases import Begin, Build, Fill, Nodes, Volumes, ready
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads import ledger_output

LEDGER = Path(__file__).parent / "golden" / "ledger-killed" / "blocklab-ledger.tsv"
COSTS = {"syscall": "2us", "fault": "1us"}


def on(study: Study) -> Ground:
    return ground(topology(study, ["local"]), virtio=True)


def test_each_cell_begins_its_time_anew_and_so_do_its_data(small: dict[str, Any]) -> None:
    small["workloads"]["tpcc"] = {"workload": "tpcc", "warehouses": 1, "time": "5s"}
    study = build(small)
    nodes = Nodes(own_time=True)
    first, nodes = ready(study, "local", study.workloads["tpcc"], on(study), nodes, "one")
    assert [type(each) for each in first] == [Begin, Fill, Begin, Volumes, Build]
    (data, fill, begin, restore, _) = first
    assert isinstance(data, Begin) and isinstance(fill, Fill) and isinstance(restore, Volumes)
    assert data.seed == fill.name == restore.name and begin == Begin("one")
    # The data are there by now; the stack that stands is of no use to the next cell.
    second, nodes = ready(study, "local", study.workloads["tpcc"], on(study), nodes, "two")
    assert [type(each) for each in second] == [Begin, Volumes, Build] and second[0] == Begin("two")
    plain, _ = ready(study, "local", study.workloads["io"], on(study), nodes, "three")
    assert [type(each) for each in plain] == [Begin, Build] and plain[0] == Begin("three")


def test_what_a_cpu_costs_makes_another_cell_and_none_where_nobody_asks(small: dict[str, Any]) -> None:
    before = {cell.key for cell in cells(build(small))}
    assert all("cpu" not in node for cell in cells(build(small)) for node in cell.spec["nodes"].values())
    for node in small["nodes"].values():
        node["cpu"] = COSTS
    study = build(small)
    assert before.isdisjoint(cell.key for cell in cells(study))
    assert study.nodes["a1"].cpu_costs == {"syscall": 2e-6, "fault": 1e-6}
    small["factors"] = {"cpu": {"field": "nodes.*.cpu.syscall", "values": ["1us", "4us"]}}
    assert {cell.spec["nodes"]["a1"]["cpu"]["syscall"] for cell in cells(build(small))} == {
        "0.000001s",
        "0.000004s",
    }


def test_this_process_has_no_part_in_a_time_of_the_nodes_own() -> None:
    assert Stretch(MACHINE).own is not None
    passed = iter((1.0, 3.5))
    run = Stretch(SimpleNamespace(now=lambda: next(passed), today=float, sleep=print))
    assert run.seconds == 2.5 and run.own is None


@pytest.mark.parametrize("field", ["syscall", "fault"])
def test_a_cost_that_no_cpu_has_is_refused(small: dict[str, Any], field: str) -> None:
    small["nodes"]["a1"]["cpu"] = {**COSTS, field: "1.1ms"}
    with pytest.raises(StudyError, match="over 1 ms") as caught:
        build(small)
    assert caught.value.path == f"nodes.a1.cpu.{field}"


@pytest.mark.parametrize(
    ("cpu", "said"),
    [
        (None, "in which a CPU costs nothing; seed 7"),
        (COSTS, "in which a system call takes 2 us and a page fault 1 us; seed 7"),
        (
            {**COSTS, "source": "Old Server"},
            "in which a system call takes 2 us and a page fault 1 us (Old Server); seed 7",
        ),
    ],
)
def test_the_first_line_says_what_a_cpu_costs(
    small: dict[str, Any], tmp_path: Path, cpu: dict[str, str] | None, said: str
) -> None:
    for node in small["nodes"].values():
        node |= {"cpu": cpu} if cpu else {}
    found = lived(small, tmp_path)
    assert _certainty(found).about == "seed"
    clock = found.clock.replace(NBSP, " ")
    assert re.fullmatch(rf"virtual time \(experimental\), {re.escape(said)}; output [0-9a-f]{{12}}", clock)


def test_costs_that_differ_are_a_range(small: dict[str, Any], tmp_path: Path) -> None:
    small["factors"] = {"cpu": {"field": "nodes.*.cpu.syscall", "values": ["1us", "2us", "16us"]}}
    for node in small["nodes"].values():
        node["cpu"] = COSTS
    clock = lived(small, tmp_path).clock.replace(NBSP, " ")
    assert "in which a system call takes 1 to 16 us and a page fault 1 us; seed 7" in clock


def lived(small: dict[str, Any], runs: Path, printed: bytes = b"1 ms\n", cpu: str = HIDDEN) -> Analysis:
    """A study whose programs printed that, in virtual time, on a machine whose CPU they saw."""
    study = build(small)
    grid = cells(study)
    folder = StudyFolder.create(runs, Manifest(study, grid, seed=7))
    for cell in grid:
        with draft(folder.cells, cell.key) as here:
            (here.raw / "workload").mkdir()
            (here.raw / "workload" / "stdout").write_bytes(printed)
            here.write(
                cell,
                Outcome("ok", started=1e9, seconds=1.0),
                environment={"clock": "virtual", "seed": 7, "host": {"cpu": cpu}},
                records=[],
                knobs=[],
                parsed=Parsed(),
            )
    return analyse(folder)


def test_the_first_line_tells_whether_two_runs_printed_the_same(small: dict[str, Any], tmp_path: Path) -> None:
    one = lived(small, tmp_path / "one").clock
    assert lived(small, tmp_path / "same").clock == one
    assert lived(small, tmp_path / "other", b"2 ms\n").clock != one
    seen = lived(small, tmp_path / "seen", cpu="Old CPU").clock
    assert seen == f"{one}; programs saw the CPU (Old CPU), so another one may give other output"


def test_a_comparison_says_whether_the_output_is_the_same(small: dict[str, Any], tmp_path: Path) -> None:
    for name, text in (("one", b"1 ms\n"), ("same", b"1 ms\n"), ("other", b"2 ms\n")):
        lived(small, tmp_path / name, text)
    one, same, other = (source(tmp_path / name / small["name"]) for name in ("one", "same", "other"))
    count = len(one.pieces)
    said = printed(versus(one, same))
    assert said == f"The output is the same, byte for byte, in {count} of {count} cells that both have."
    assert printed(versus(one, other)).startswith(
        f"The output differs in {count} of {count} cells that both have: "
    )
    (run, *_) = (piece.run for piece in other.pieces)
    run.environment.pop("clock")
    found = versus(one, other).printed
    assert found is not None and found.cells == count - 1


@pytest.mark.parametrize(
    ("cpuinfo", "hides"),
    [
        ("processor\t: 0\nflags\t\t: fpu vme cpuid_fault fsgsbase\nbugs\t\t: spectre_v1\n", True),
        ("processor\t: 0\nflags\t\t: fpu vme cpuid fsgsbase\n", False),
        ("", False),
    ],
)
def test_a_cpu_that_can_hide_itself(cpuinfo: str, hides: bool) -> None:
    assert hides_itself(cpuinfo) == hides


# -- drills once more ------------------------------------------------------------------------------------------


def drilled(folder: Path, after: float = 2.0) -> Run:
    """A history of real transactions, with a crash in it."""
    text = LEDGER.read_bytes()
    (folder / "raw" / "workload").mkdir(parents=True)
    (folder / "raw" / "workload" / "history.tsv").write_bytes(text)
    ended = sorted(each.ended for each in ledger_output.attempts(text)[0] if each.ended is not None)
    drill = Drill("7 abc", "kill", "a1", "a2", True, ("a1", "a2"), (), (), Verdict("ok"),
                  struck=ended[len(ended) // 2], after=after)  # fmt: skip
    return SimpleNamespace(folder=folder, drill=drill)  # type: ignore[return-value]


def test_moments_lie_between_what_the_client_sent_and_what_was_acknowledged(tmp_path: Path) -> None:
    run = drilled(tmp_path)
    assert run.drill is not None and run.drill.struck is not None and run.drill.after is not None
    found = moments(run, 10**6)
    start = run.drill.struck - run.drill.after
    attempts, _ = ledger_output.attempts((run.folder / "raw" / "workload" / "history.tsv").read_bytes())
    times = sorted(time for each in attempts for time in (each.sent, each.ended) if time is not None)
    assert len(found) > 50 and all(run.drill.after - 1 <= each <= run.drill.after for each in found)
    for each in found:
        assert not any(abs(start + each - time) < 1e-7 for time in times)
    few = moments(run, 10)
    assert len(few) == 10 and set(few) <= set(found) and few == sorted(few)


def test_a_run_without_a_crash_is_not_searched(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no crash to search around"):
        moments(SimpleNamespace(folder=tmp_path, drill=None), 3)  # type: ignore[arg-type]


def test_torn_transactions_come_before_the_smallest_loss() -> None:
    verdicts = [("ok", 0, 0), ("lost", 7, 0), ("lost", 2, 0), ("lost", 9, 1)]
    found = [SearchedCrash(float(after), "", *verdict) for after, verdict in enumerate(verdicts, 1)]
    assert [each.after for each in sorted(found, key=lambda each: each.rank)] == [4.0, 3.0, 2.0, 1.0]


class Node:
    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, argv: Argv, *, input: bytes, timeout: float) -> Result:
        assert argv == ("sh",)
        self.ran.append(input.decode().strip())
        if b"fails" in input:
            raise CommandError("a1", argv, 1, "it did")
        return Result(0, b"Connected\n", b"")


@pytest.mark.parametrize(
    ("typed", "ran", "said"),
    [
        ("a1 cat /proc/drbd\n\ncrash\na1 late\n", ["cat /proc/drbd"], "Connected"),
        ("a1 it fails\n", ["it fails"], "it did"),
        ("b9 ls\na1\n", [], "a node and a command: a1 cat /proc/drbd"),
        ("", [], "nodes: a1"),
    ],
)
def test_the_shell_before_the_crash(
    monkeypatch: pytest.MonkeyPatch, typed: str, ran: list[str], said: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    shown, node = io.StringIO(), Node()
    shell = Shell(Console(file=shown, width=200))
    shell({"a1": node})  # type: ignore[dict-item]
    assert node.ran == ran and said in shown.getvalue()
    assert shell.used == bool(ran)

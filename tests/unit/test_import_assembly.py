"""What becomes of a load that was only watched, and of files whose times do not tell what they belong to."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from blocklab.errors import StudyError
from blocklab.imports import Imported, Options, minimal, read
from blocklab.imports.timeline import Phases, line_of, phases_of
from blocklab.model.sample import Sample
from blocklab.stats.analysis import Analysis, analyse
from blocklab.store.folder import StudyFolder
from tests.unit.golden import FOLDER
from tests.unit.import_checks import take, watched
from tests.unit.import_samples import BANNER, NEW, NEW_ROW

Rates = Sequence[float]


def device(rates: Rates, name: str = "sda", size: float = 4096.0) -> list[Sample]:
    """A device that wrote so often in each second."""
    return [
        Sample(metric, value, unit, name, "h", time=1e9 + second)
        for second, rate in enumerate(rates)
        for metric, value, unit in (("write.iops", rate, "1/s"), ("write.bandwidth", rate * size, "B/s"))
    ]


def phases(**stacks: Rates) -> dict[str, Phases]:
    """Those of the workload of each stack."""
    lines = [line for name, rates in stacks.items() if (line := line_of(name, watched(device(rates)))) is not None]
    return dict(zip(stacks, phases_of(lines, ()), strict=True))


def names(found: Phases) -> list[str]:
    """Of its phases."""
    return [phase.name for phase in found.phases]


def steady(rate: float, seconds: int, seed: int, noise: float = 0.05) -> list[float]:
    """About one rate."""
    chance = random.Random(seed)
    return [rate * math.exp(chance.gauss(0, noise)) for _ in range(seconds)]


# -- one load is one load -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_databases_checkpoints_and_stalls_are_no_phases(seed: int) -> None:
    """Every half a minute twice the rate for ten seconds, and now and then nothing for some seconds."""
    chance = random.Random(seed)

    def database() -> list[float]:
        rates = steady(800, 300, chance.randrange(1 << 30))
        for start in range(chance.randrange(20), 300, 30):
            rates[start : start + 10] = [2 * rate for rate in rates[start : start + 10]]
        for _ in range(chance.randrange(4)):
            at = chance.randrange(20, 280)
            rates[at : at + chance.randrange(1, 8)] = [0.0] * chance.randrange(1, 8)
        return rates

    found = phases(mysql=database(), mariadb=database())
    assert {name: names(each) for name, each in found.items()} == {"mysql": ["run"], "mariadb": ["run"]}


def test_one_run_is_what_the_device_did_from_its_first_busy_second_to_its_last() -> None:
    (found,) = phases(local=[0.0] * 20 + [500.0] * 60 + [0.0] * 20).values()
    values = {sample.metric: sample.value for sample in found.values if sample.time is None}
    assert values == {"write.iops": 500.0, "write.bandwidth": 500.0 * 4096}
    assert found.said == ("local: one run of 60 s in the time line of sda (60 of 100 intervals)",)


@pytest.mark.parametrize(
    ("idle", "after", "parts"),
    [(4, 2000, 0), (10, 2000, 2), (10, 800, 0), (40, 800, 2)],
    ids=["a stall", "another load", "a long stall", "a pause"],
)
def test_what_an_idle_gap_parts(idle: int, after: float, parts: int) -> None:
    (found,) = phases(local=[*steady(800, 60, 1), *[0.0] * idle, *steady(after, 60, 2)]).values()
    assert names(found) == ["run", *(f"local-{number}" for number in range(1, parts + 1))]
    if parts:
        assert f"{idle} intervals are between them" in found.said[-1]


def test_the_same_sequence_on_every_stack_has_parts_that_are_not_compared() -> None:
    def jobs(factor: float) -> list[float]:
        return [rate for level in (100, 400, 1500) for rate in [*steady(level * factor, 30, 3), 1.0]]

    found = phases(local=jobs(1.0), mirror=jobs(0.4))
    assert names(found["local"]) == ["run", "local-1", "local-2", "local-3"]
    assert names(found["mirror"]) == ["run", "mirror-1", "mirror-2", "mirror-3"]
    assert "not compared with those of other stacks (--jobs FILE tells what they are)" in found["mirror"].said[-1]
    # What only one of them shows is no sequence.
    assert names(phases(local=jobs(1.0), mirror=steady(300, 93, 4))["local"]) == ["run"]


def test_a_busier_disk_counts_before_a_mirror_that_did_little() -> None:
    line = line_of("local", watched([*device([5.0] * 30, "drbd0"), *device([900.0] * 30, "sdb")]))
    assert line is not None and line.device == "sdb"
    line = line_of("local", watched([*device([880.0] * 30, "drbd0"), *device([900.0] * 30, "sdb")]))
    assert line is not None and line.device == "drbd0"


# -- what watched a load belongs to it ----------------------------------------------------------------------------

SYSBENCH = re.sub(r"^\d{10}\.\d{3} ", "", (FOLDER / "sysbench/stdout").read_text(), flags=re.MULTILINE)


def iostat(seconds: int, lead: int = 0, *, timed: bool = False) -> str:
    """iostat -x of a device that was idle for ``lead`` seconds, then busy."""
    reports = [BANNER]
    for second in range(lead + seconds):
        rate = 500.0 if second >= lead else 0.0
        # 08/11/2020 10:15:07 AM
        stamp = f"08/31/2020 10:{second // 60:02}:{second % 60:02} AM\n" if timed else ""
        row = NEW_ROW.replace("  2.00      8.00 ", "  0.00      0.00 ")
        row = row.replace(" 500.00   2000.00 ", f" {rate:.2f}   {4 * rate:.2f} ").replace(
            "30.00\n", f"{rate / 20:.2f}\n"
        )
        reports.append(f"{stamp}{NEW}{row}\n")
    return "".join(reports)


def imported(
    folder: Path, files: dict[str, str], *, own: str = "", agree: Callable[[str], bool] = lambda question: False
) -> tuple[Imported, Analysis, dict[str, tuple[str, ...]]]:
    """One stack with these files; what is said of each by its name."""
    stack = folder / "local"
    for name, text in files.items():
        (stack / name).parent.mkdir(parents=True, exist_ok=True)
        (stack / name).write_text(text)
    about = folder / "mine.yaml"
    about.write_text(f"imported: 1\nname: mine\nquestion: What?\nstacks:\n  local: {{{own}}}\n")
    file, source = (read(about, ["local"]), about) if own else (minimal(["local"]), None)
    done = take(file, source, {"local": [str(stack)]}, folder / "runs", Options(agree=agree))
    return done, analyse(StudyFolder(done.folder)), {each.name: each.remarks for each in done.files["local"]}


def awaits(analysis: Analysis, workload: str) -> list[str]:
    """The devices that are told of beside a workload."""
    return sorted({row.layer for row in analysis.rows if row.workload == workload and row.layer == "nvme0n1"})


def length(folder: Path) -> int:
    """How long the sample of sysbench took, in whole seconds."""
    done, _, _ = imported(folder, {"out.txt": SYSBENCH})
    (run,) = StudyFolder(done.folder).runs()
    return round(run.phases[0].end - run.phases[0].start)


def test_two_that_are_as_long_are_joined_by_who_is_asked(tmp_path: Path) -> None:
    asked: list[str] = []

    def agree(question: str) -> bool:
        asked.append(question)
        return True

    files = {"out.txt": SYSBENCH, "iostat.txt": iostat(length(tmp_path / "alone"))}
    done, analysis, said = imported(tmp_path / "yes", files, agree=agree)
    assert done.workloads["local"] == ("sysbench",) and awaits(analysis, "sysbench")
    assert len(asked) == 1 and "iostat.txt of local has no times in common with sysbench" in asked[0]
    assert "taken to have begun together with sysbench: as it was said" in said["iostat.txt"]
    done, analysis, said = imported(tmp_path / "no", files)
    assert not awaits(analysis, "sysbench") and "--yes joins them" in said["iostat.txt"][0]


def test_what_is_busy_for_as_long_is_joined_where_it_becomes_busy(tmp_path: Path) -> None:
    files = {"out.txt": SYSBENCH, "iostat.txt": iostat(length(tmp_path / "alone"), lead=40)}
    done, _, _ = imported(tmp_path / "yes", files, agree=lambda question: "busy for about as long" in question)
    (run,) = StudyFolder(done.folder).runs()
    rates = [each.value for each in run.series() if each.layer == "nvme0n1" and each.metric == "write.iops"]
    assert rates.count(500.0) > 0.8 * length(tmp_path / "again")


def test_another_length_is_not_joined(tmp_path: Path) -> None:
    files = {"out.txt": SYSBENCH, "iostat.txt": iostat(10 * length(tmp_path / "alone"))}
    _, analysis, said = imported(tmp_path / "x", files, agree=lambda question: True)
    assert not awaits(analysis, "sysbench") and "left out: it has no times" in said["iostat.txt"][0]


@pytest.mark.parametrize("timed", [False, True])
def test_a_folder_with_one_workload_joins(tmp_path: Path, timed: bool) -> None:
    files = {"c10/out.txt": SYSBENCH, "c10/iostat.txt": iostat(30, timed=timed)}
    done, analysis, said = imported(tmp_path, files)
    assert done.workloads["local"] == ("c10",) and awaits(analysis, "c10")
    told = said["c10/out.txt" if timed else "c10/iostat.txt"]
    assert any("together" in each and "the only workload in its folder" in each for each in told)


def test_the_file_about_the_logs_joins(tmp_path: Path) -> None:
    files = {"out.txt": SYSBENCH, "tx/out.txt": f"{SYSBENCH}\n", "iostat.txt": iostat(300)}
    _, analysis, said = imported(tmp_path, files, own="belongs_to: {iostat.txt: tx}")
    assert awaits(analysis, "tx") and not awaits(analysis, "sysbench")
    assert "taken to have begun together with tx: as the file about the logs says" in said["iostat.txt"]


def test_the_file_about_the_logs_says_when_a_workload_began(tmp_path: Path) -> None:
    files = {"out.txt": SYSBENCH, "iostat.txt": iostat(300, timed=True)}
    done, analysis, _ = imported(tmp_path, files, own="began: {sysbench: '2020-08-31 10:01:00'}")
    assert awaits(analysis, "sysbench")
    (run,) = [each for each in StudyFolder(done.folder).runs() if each.cell.workload == "sysbench"]
    assert run.phases[0].start == 1598868060.0


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("began: {other: '2020-08-31 10:01:00'}", "stacks.local.began: no log is of a workload 'other'"),
        ("began: {sysbench: soon}", "stacks.local.began.sysbench: 'soon' is no time"),
        ("began: {sysbench: '10:01:00'}", "'10:01:00' is no time"),
        ("belongs_to: {iostat.txt: other}", "no log is of a workload 'other'"),
        ("belongs_to: {vmstat.txt: sysbench}", "no file that watched something is called 'vmstat.txt'"),
    ],
)
def test_what_the_file_about_the_logs_cannot_say(tmp_path: Path, own: str, said: str) -> None:
    with pytest.raises(StudyError, match=said.replace("(", ".")):
        imported(tmp_path, {"out.txt": SYSBENCH, "iostat.txt": iostat(30)}, own=own)


def test_what_nothing_was_made_of_is_told(tmp_path: Path) -> None:
    """It was idle all the time."""
    done, _, said = imported(tmp_path, {"out.txt": SYSBENCH, "idle/iostat.txt": iostat(0, lead=60, timed=True)})
    assert done.workloads["local"] == ("sysbench",)
    assert said["idle/iostat.txt"] == (
        "left out: it is of another time than every workload, or its devices were idle",
    )


def test_a_folder_whose_name_a_workload_cannot_have_is_told(tmp_path: Path) -> None:
    done, _, said = imported(tmp_path, {"C 10/a/out.txt": SYSBENCH})
    assert done.workloads["local"] == ("c-10-a",) and "C 10/a/out.txt" in said
    assert "the folder C 10/a is the workload c-10-a" in done.said

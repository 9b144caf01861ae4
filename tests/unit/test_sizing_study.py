"""The study that ``size`` writes, and the command itself: what it prints, refuses, and never does."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ruamel.yaml import YAML

from blocklab.cli.main import main
from blocklab.errors import StudyError
from blocklab.layers import Volume
from blocklab.model.units import Size
from blocklab.sizing import layouts
from blocklab.sizing.choice import Options as Choice
from blocklab.sizing.choices import choose, demand
from blocklab.sizing.need import Need, Options, need
from blocklab.sizing.series import Interval, Rates
from blocklab.sizing.study import WORKING_SET, io_workloads, study_name, study_text, transaction_workloads
from blocklab.study.grid import cells
from blocklab.study.read import read
from blocklab.study.shipped import shipped
from blocklab.study.types import Study
from blocklab.workloads.open_loop import OpenLoop
from tests.unit.synthetic_sizing import stats, system

STUDIES = shipped()


def some(product: str = "", transactions: float | None = None, **rates: float) -> Need:
    """One hour of 900 reads of 8 KiB and 300 writes of 20,000 bytes a second, with 60 flushes."""
    told = {"reads": 900.0, "writes": 300.0, "read_bytes": 900 * 8192.0, "write_bytes": 300 * 20000.0} | rates
    hour = Interval(start=0, seconds=3600, rates=Rates(**told), flushes=60, transactions=transactions)
    one = system("erp", [hour])
    return need([msgspec.structs.replace(one, product=product)], Options())


def written(text: str, tmp_path: Path) -> Study:
    path = tmp_path / "written.yaml"
    path.write_text(text)
    return read(path)


def test_the_load_is_the_need(tmp_path: Path) -> None:
    study = written(study_text(some(), layouts.of_study(STUDIES["sizing"]), "need"), tmp_path)
    workload = study.workloads["need"]
    assert isinstance(workload, OpenLoop)
    assert (workload.reads, workload.writes, workload.flushes, workload.read_size) == (900, 300, 60, 8192)
    # whole sectors
    assert abs(workload.write_size - 20000) <= 256
    assert workload.levels == (100, 120, 150)
    assert set(study.workloads) == {"need"}


def test_the_layouts_of_a_study_keep_their_factors_and_lose_those_of_its_loads(tmp_path: Path) -> None:
    both = layouts.of_study(STUDIES["mysql-rtt"])
    assert set(both.plain["factors"]) == {"sync_binlog", "rtt"}
    study = written(study_text(some(), both, "need"), tmp_path)
    assert {cell.stack for cell in cells(study)} == {"local", "disconnected", "mirror"}


def test_most_bytes_at_another_time_are_a_second_load() -> None:
    small = Interval(
        start=0, seconds=60, rates=Rates(reads=10, writes=2000, read_bytes=1e5, write_bytes=2000 * 4096)
    )
    large = Interval(start=60, seconds=60, rates=Rates(reads=500, writes=1, read_bytes=5e7, write_bytes=4096))
    workloads = io_workloads(
        need([system("erp", [small, large])], Options()), seconds=5, scale=1, working_set=WORKING_SET
    )
    assert workloads["need"]["writes"] == 2000
    assert workloads["need-bytes"]["reads"] == 500


def test_a_direction_without_requests_has_no_rate() -> None:
    workload = io_workloads(some(reads=0.0, read_bytes=0.0), seconds=5, scale=1, working_set=WORKING_SET)["need"]
    assert "reads" not in workload and "read_size" not in workload


def test_no_study_is_written_for_an_average_or_for_requests_that_are_not_told_apart() -> None:
    average = need([system("erp", [Interval(start=0, seconds=3e5, rates=Rates(reads=1, writes=1))])], Options())
    with pytest.raises(StudyError, match="peak is unknown"):
        study_text(average, layouts.of_study(STUDIES["sizing"]), "need")
    together = need([system("erp", [Interval(start=0, seconds=60, rates=Rates(requests=500))])], Options())
    assert together.amounts["iops"].required == 500
    with pytest.raises(StudyError, match="reads and writes apart"):
        study_text(together, layouts.of_study(STUDIES["sizing"]), "need")


@pytest.mark.parametrize(
    ("product", "database", "workload"),
    [("postgresql", "postgres", "pgbench"), ("mariadb", "mariadb", "sysbench"), ("mysql", "mysql", "sysbench")],
)
def test_a_database_gets_its_measured_transactions(product: str, database: str, workload: str) -> None:
    found = transaction_workloads(some(product, transactions=200), database, seconds=10, scale=0.5)
    assert [each["options"]["rate"] for each in found.values()] == [100, 120, 150]
    assert {each["workload"] for each in found.values()} == {workload}


def test_unknown_transactions_are_no_load() -> None:
    assert transaction_workloads(some("postgresql"), "postgres", seconds=10, scale=1) == {}
    assert transaction_workloads(some("oracle", transactions=200), "", seconds=10, scale=1) == {}


# -- candidates ---------------------------------------------------------------------------------------------------


def chosen(found: Need, **more: Any) -> list[Any]:
    return choose(found, capacity=Size("500GiB"), clouds=("aws",), own=None, options=Choice(**more))


def test_the_demand_has_the_most_requests_and_the_most_bytes() -> None:
    small = Interval(start=0, seconds=60, rates=Rates(reads=0, writes=2000, read_bytes=0, write_bytes=2000 * 4096))
    large = Interval(start=60, seconds=60, rates=Rates(reads=500, writes=0, read_bytes=5e7, write_bytes=0))
    found = demand(need([system("erp", [small, large])], Options()), None)
    assert (found.write_iops, found.read_bytes) == (2000, 5e7)


def test_large_requests_that_are_split_count_for_more_than_many_small_ones() -> None:
    """400 reads of 1 MiB are 1,600 I/Os of 256 KiB, more than 1,000 writes of 4 KiB."""
    small = Interval(start=0, seconds=60, rates=Rates(reads=0, writes=1000, read_bytes=0, write_bytes=1000 * 4096))
    large = Interval(start=60, seconds=60, rates=Rates(reads=400, writes=0, read_bytes=400 * 2**20, write_bytes=0))
    assert demand(need([system("erp", [small, large])], Options()), None).read_iops == 400


def test_every_layout_of_the_candidates_is_a_stack_that_can_be_built(tmp_path: Path) -> None:
    found = some("postgresql", transactions=200)
    where = layouts.of_candidates(chosen(found), "postgres")
    study = written(study_text(found, where, "need"), tmp_path)
    assert set(study.stacks) == {"aws-single", "aws-stripe", "aws-mirror", "aws-zones"}
    assert {"need", "tx-100", "tx-120", "tx-150", "ledger"} <= set(study.workloads)
    # A drill kills the primary; only the layouts with a mirror survive it.
    assert set(study.faults) == {"kill"}
    assert study.links["zones"].rtt > study.links["zone"].rtt


def test_candidates_without_a_database_are_block_devices(tmp_path: Path) -> None:
    found = some()
    study = written(study_text(found, layouts.of_candidates(chosen(found)), "need"), tmp_path)
    assert set(study.workloads) == {"need"}
    assert not study.faults


def test_a_scaled_study_scales_rates_and_caps_alike(tmp_path: Path) -> None:
    found = some()
    whole = layouts.of_candidates(chosen(found))
    study = written(study_text(found, layouts.scaled(whole, 0.1), "need", scale=0.1), tmp_path)
    workload = study.workloads["need"]
    assert isinstance(workload, OpenLoop) and (workload.reads, workload.writes) == (90, 30)
    volume = study.stacks["aws-single"].layers[0]
    full = written(study_text(found, whole, "need"), tmp_path).stacks["aws-single"].layers[0]
    assert isinstance(volume, Volume) and isinstance(full, Volume) and full.performance is not None
    assert volume.iops == round(0.1 * (full.iops or full.performance.iops or 0))
    assert any("10 % of the need" in note for note in study.notes)


def test_nothing_is_chosen_for_an_average() -> None:
    rates = Rates(reads=1, writes=1, read_bytes=8192, write_bytes=8192)
    average = need([system("erp", [Interval(start=0, seconds=3e5, rates=rates)])], Options())
    with pytest.raises(StudyError, match="peak is unknown"):
        chosen(average)


@pytest.mark.parametrize(
    ("file", "name"), [("need.yaml", "need"), ("/x/My Need 2.yml", "my-need-2"), (".yaml", "yaml")]
)
def test_the_studys_name_is_the_files(file: str, name: str) -> None:
    assert study_name(file) == name


# -- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return stats(tmp_path / "stats", (1_700_000_000, 0), (1_700_000_100, 1000), (1_700_000_200, 4000))


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["blocklab", "size", *argv])
    try:
        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_it_prints_the_need(
    disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(monkeypatch, capsys, str(disk), "--headroom", "50%")
    assert code == 0
    assert "The storage must carry 45.0\u00a0IOPS" in out


def test_json_has_the_need_the_series_and_the_candidates(
    disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(monkeypatch, capsys, f"erp={disk}", "--json", "--candidates", "--cloud", "aws")
    found = json.loads(out)
    assert code == 0
    assert found["need"]["amounts"]["read_iops"]["required"] == 30
    assert found["series"]["erp"]["read_iops"] == [10, 30]
    assert found["candidates"]


def test_it_writes_a_page_and_a_study_and_never_overwrites_the_study(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, study = tmp_path / "need.html", tmp_path / "need.yaml"
    options = (str(disk), "-o", str(page), "--study", str(study), "--layouts", str(STUDIES["sizing"]))
    code, _, _ = run(monkeypatch, capsys, *options)
    assert code == 0 and "30.0\u00a0IOPS" in page.read_text()
    assert YAML(typ="safe").load(study.read_text())["workloads"]["need"]["reads"] == 30
    study.write_text("mine")
    code, _, err = run(monkeypatch, capsys, *options)
    assert code == 2 and "the file exists" in err and study.read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--busy", "25-26"), "--busy 25-26"),
        (("--headroom", "30"), "--headroom 30"),
        (("--zone", "Mars"), "--zone Mars"),
        (("--as", "iostat=other"), "that file was not given"),
        (("--as", "nonsense=stats"), "no kind 'nonsense'"),
        (("--scale", "0%"), "--scale 0%"),
        (("--scale", "200%"), "--scale 200%"),
        (("--candidates", "--cloud", "moon"), "no cloud 'moon'"),
        (("--without", "backup"), "--without backup"),
        (("--dates", "xyz"), "--dates xyz"),
        (("--candidates", "--capacity", "2"), "--capacity 2"),
    ],
)
def test_a_wrong_option_is_one_error(
    options: tuple[str, ...],
    said: str,
    disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = run(monkeypatch, capsys, str(disk), *options)
    assert code == 2 and said in err and "Traceback" not in err


def test_a_folder_is_all_the_files_in_it_and_a_missing_file_is_named(
    disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, capsys, str(disk.parent))[0] == 0
    code, _, err = run(monkeypatch, capsys, "nowhere.txt")
    assert code == 2 and "nowhere.txt: no such file" in err


def test_entries_older_than_a_year_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime(2035, 1, 1, tzinfo=tz)

    monkeypatch.setattr("blocklab.sizing.choices.datetime.datetime", Later)
    assert any("year" in mark for each in chosen(some()) for mark in each.marks)

"""The report's files: whole, escaped, and honest about what is missing."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
import vl_convert
from rich.text import Text

from blocklab.errors import StoreError
from blocklab.model.terminal import Console
from blocklab.report import build, render, terminal_table
from blocklab.report import bundle as bundles
from blocklab.report.build import script_json
from blocklab.report.terminal import _gaps
from blocklab.stats.longform import REPORT
from blocklab.stats.reading import Gap
from blocklab.store.folder import StudyFolder
from tests.unit import synthetic
from tests.unit.readers import Reader

HOSTILE = "</script><script>alert('x')</script><!-- \"{{ 7*7 }}"


pytestmark = pytest.mark.usefixtures("without_vega")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """A folder with its report; not to be changed."""
    found = synthetic.make(tmp_path_factory.mktemp("runs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "bundle", lambda: "/* vega */")
        render(found)
    return found


def test_the_page_and_its_twins_are_written(folder: StudyFolder) -> None:
    assert {path.name for path in folder.path.glob("report.*")} == {"report.html", "report.csv", "report.json"}
    reader = Reader((folder.path / "report.html").read_text())
    order = [
        "Answer",
        "Expectations",
        "All results",
        "Latency",
        "Second by second",
        "Layout",
        "Method",
    ]
    places = [reader.text.rindex(f" {word} ") for word in order]
    assert places == sorted(places)
    assert (
        "keeps from 48 % (tps-scale1) to 74 % (tps-scale50)" in reader.text
        and "? one build: inside" in reader.text
    )
    assert not list(folder.path.glob(".report*"))


def test_nothing_is_loaded_from_anywhere(folder: StudyFolder) -> None:
    reader = Reader((folder.path / "report.html").read_text())
    assert {link for link in reader.links if not link.startswith("#")} == {"data:,", "report.csv", "report.json"}


def test_hostile_text_stays_text(tmp_path: Path, folder: StudyFolder) -> None:
    claim = {**synthetic.RAW["expect"][0], "says": HOSTILE, "source": HOSTILE}
    study = synthetic.study(question=HOSTILE, notes=[HOSTILE], expect=[claim])
    text = render(synthetic.make(tmp_path, study)).read_text()
    calm = Reader((folder.path / "report.html").read_text())
    reader = Reader(text)
    assert len(reader.scripts) == len(calm.scripts)
    assert not any("alert(" in script for script in reader.scripts)
    assert "<script>alert" not in text
    assert reader.text.count("alert('x')") >= 4 and "{{ 7*7 }}" in reader.text


def test_json_in_a_script_cannot_end_it() -> None:
    text = script_json({"name": "</script><!--\u2028&amp;"})
    assert not re.search(r"[<>&\u2028]", text)
    # What ends a line for a script is shown.
    assert json.loads(text) == {"name": r"</script><!--\u2028&amp;"}


def test_cells_without_figures_are_shown_with_cause_and_cure(tmp_path: Path) -> None:
    folder = synthetic.make(
        tmp_path, failed=["drbd0/fio"], invalid=["drbd0/tps-scale1"], missing=["drbd1/tps-scale50"]
    )
    text = Reader(render(folder).read_text()).text
    assert "drbd0/fio ✗ failed a1: exit code 1 from: mkfs.xfs -f /dev/drbd0 hint: look at raw/console.txt" in text
    assert (
        "drbd0/tps-scale1 ✗ invalid" in text and "net.protocol C C (fio, tps-scale50); A (tps-scale1) ✗ no" in text
    )
    assert "drbd1/tps-scale50 – missing" in text
    assert "? one build: inside" in text and "cannot open" in text


def test_a_folder_without_any_run_still_gives_a_page(tmp_path: Path) -> None:
    everything = [f"{s}/{w}" for s in synthetic.RAW["stacks"] for w in synthetic.RAW["workloads"]]
    reader = Reader(render(synthetic.make(tmp_path, missing=everything)).read_text())
    assert "There is no answer yet" in reader.text and "0 of 9 cells measured" in reader.text
    assert "Chart left out: bars" in reader.text


def test_the_csv_has_a_line_for_each_figure(folder: StudyFolder) -> None:
    with (folder.path / "report.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [column.name for column in REPORT]
    (tps,) = (r for r in rows if (r["stack"], r["workload"], r["metric"]) == ("drbd1", "tps-scale1", "tps"))
    assert (float(tps["value"]), tps["unit"], tps["layer"], tps["host"]) == (237, "1/s", "pgbench", "a1")
    assert float(tps["relative"]) == pytest.approx(237 / 1031)
    # The baseline had no failed transaction, so nobody's share of it is a number.
    assert {r["relative"] for r in rows if r["metric"] == "failed"} == {""}


def test_the_json_has_the_verdicts_and_the_gaps(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, synthetic.study(repeats=3), missing=synthetic.repeated("drbd1/tps-scale50"))
    render(folder)
    found = json.loads((folder.path / "report.json").read_text())
    assert [verdict["status"] for verdict in found["verdicts"]] == ["ok", "ok", "unknown"]
    assert found["verdicts"][2]["found"] is None
    assert found["gaps"][0]["status"] == "missing"
    assert found["answer"]["lead"] and found["findings"][0]["kind"] == "range"
    assert found["findings"][0]["numbers"][0]["at"] == "tps-scale1"


def test_the_same_folder_gives_the_same_page(folder: StudyFolder) -> None:
    first = (folder.path / "report.html").read_bytes()
    assert render(folder).read_bytes() == first


def test_a_million_bytes_of_transactions_do_not_reach_the_page(tmp_path: Path) -> None:
    page = render(synthetic.make(tmp_path, transactions=30_000))
    assert page.stat().st_size < 1_500_000


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        render(StudyFolder(tmp_path / "none"))


def test_the_terminals_table_fits_a_hundred_columns(tmp_path: Path) -> None:
    console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
    study = synthetic.study(question="[red]What[/red] does it cost?")
    console.print(terminal_table(synthetic.make(tmp_path, study, failed=["drbd1/fio"]), every=True))
    console.file.close()
    text = console.export_text()
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "[red]What[/red]" in text and "? one build: inside" in text and "drbd1/fio is failed" in text
    assert "494" in text and "48" in text


def test_the_bundle_is_built_once_and_a_damaged_copy_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def make(snippet: str) -> str:
        built.append(snippet)
        return "var a = '</script>';"

    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vl_convert, "javascript_bundle", make)
    fresh = bundles.bundle.__wrapped__
    assert fresh() == "var a = '<\\/script>';" == fresh()
    assert len(built) == 1
    bundles.cache_path().write_text("deadbeef\nalert(1)")
    assert "alert" not in fresh() and len(built) == 2
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path / "file"))
    assert fresh() and len(built) == 3


def test_a_version_that_differs_is_a_warning_and_a_measurement_is_not(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path)
    first, *others = folder.manifest().cells
    for number, cell in enumerate(others):
        path = folder.cells / cell.key / "environment.json"
        told = json.loads(path.read_text())
        path.write_text(json.dumps({**told, "workload": {"a1": 0.001 * number + 0.0001}}))
    calm = Reader(render(folder).read_text()).text
    assert "same environment" not in calm and "1 that differ between cells" in calm
    path = folder.cells / first.key / "environment.json"
    path.write_text(path.read_text().replace("3.39", "3.40"))
    warned = Reader(render(folder).read_text()).text
    assert "did not all run in the same environment: packages.fio was 3.39 and 3.40" in warned


def test_the_terminal_says_an_error_once_however_many_cells_have_it() -> None:
    gaps = [
        Gap(
            f"mirror rtt={rtt}ms",
            "tpcc",
            "failed",
            f"a1: log-mirror rtt={rtt}ms said at 12:0{rtt}: no room",
            "make room",
        )
        for rtt in (1, 2, 4)
    ]
    shown = list(_gaps([*gaps, Gap("local", "tpcc", "invalid", "a1: a knob is not in force")]))
    said = [each.plain for each in shown if isinstance(each, Text)]
    assert said[0].startswith("mirror rtt=1ms/tpcc is failed (and 2 more alike): a1: log-mirror rtt=1ms")
    assert said[-1] == "local/tpcc is invalid: a1: a knob is not in force"
    # The one more is the hint, once.
    assert len(said) == 2 and len(shown) == 3

"""The index of a folder of runs: one line a study, links, and nobody else's page overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab.report import render
from blocklab.report.index import INDEX, SUMMARY
from tests.unit import synthetic

pytestmark = pytest.mark.usefixtures("without_vega")


def test_every_study_has_its_answer_in_one_line(tmp_path: Path) -> None:
    first, second = synthetic.make(tmp_path), synthetic.make_sweep(tmp_path, seconds=5)
    render(first)
    page = (tmp_path / INDEX).read_text()
    assert f'href="{first.path.name}/report.html"' in page and second.path.name not in page
    assert "tps-scale1: drbd0 52\u00a0% less, drbd1 77\u00a0% less" in page and "9 of 9" in page
    render(second)
    page = (tmp_path / INDEX).read_text()
    assert all(f'href="{each.path.name}/report.html"' in page for each in (first, second))
    assert "One build of each layout" in page


def test_a_study_that_cannot_be_read_has_no_row_and_hides_no_other(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / SUMMARY).write_text("{")
    render(folder)
    page = (tmp_path / INDEX).read_text()
    assert folder.path.name in page and "broken" not in page


def test_comparisons_there_are_linked_and_other_pages_are_not(tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text(
        '<meta name="generator" content="blocklab-compare"><title>b against a</title>'
    )
    (tmp_path / "notes.html").write_text("<title>my own notes</title>")
    render(synthetic.make(tmp_path))
    page = (tmp_path / INDEX).read_text()
    assert '<a href="b.html">b against a</a>' in page and "my own notes" not in page


def test_somebody_elses_index_stays(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text("<h1>mine</h1>")
    render(synthetic.make(tmp_path))
    assert (tmp_path / INDEX).read_text() == "<h1>mine</h1>"


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path)
    render(folder)
    summary = folder.path / SUMMARY
    summary.write_text(summary.read_text().replace("What does", "<script>alert(1)</script>"))
    (tmp_path / '"><b>').mkdir()
    (tmp_path / '"><b>' / SUMMARY).write_text(summary.read_text())
    render(folder)
    page = (tmp_path / INDEX).read_text()
    assert "<script>alert(1)" not in page and '"><b>' not in page

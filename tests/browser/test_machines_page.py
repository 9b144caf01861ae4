"""The forest plots of a study that several machines measured, in headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from blocklab.report import render
from tests.browser.visits import DESKTOP, OVERLAPPING, WIDER, Opened, visit
from tests.unit import synthetic
from tests.unit.synthetic import Worker

PHONE = (390, 844)
WORKERS = (
    Worker("node-a"), Worker("node-b", 0.6, 0.8), Worker("node-c", 1.3, 1.15), Worker("node-a"),
    Worker("node-b", 0.6, 0.8), Worker("node-c", 1.3, 1.1), Worker("node-d", 1, 1, {"image": "7057d1bc8cb22977"}),
)  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = synthetic.study(repeats=len(WORKERS))
    return render(synthetic.make(tmp_path_factory.mktemp("machines"), study, transactions=300, workers=WORKERS))


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def opened(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Opened]:
    found = visit(browser, report, request.param)
    yield found
    found.page.close()


def test_no_error_no_request_and_every_chart_fits_its_place(opened: Opened, report: Path) -> None:
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [report.as_uri()]
    assert opened.page.evaluate(WIDER) == []
    assert opened.page.evaluate(OVERLAPPING) == []
    size = opened.page.viewport_size
    assert size is not None
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_each_ratio_has_a_dot_for_each_machine_a_diamond_and_the_names(opened: Opened) -> None:
    panels = opened.page.locator("#by-machine [data-spec]")
    assert panels.count() == 12
    for number in range(12):
        marks = panels.nth(number).locator(".mark-symbol.role-mark path[d]:not([d=''])")
        # Three machines, the one that is kept apart, and all of them.
        assert marks.count() == 5
        texts = panels.nth(number).locator("svg text").all_text_contents()
        assert {"node-a", "node-d", "all machines", "a further machine"} <= set(texts)


def test_the_section_says_which_machine_is_kept_apart_and_why(opened: Opened) -> None:
    text = opened.page.locator("#machines").inner_text()
    assert "other image: 7057d1bc8cb22977" in text
    assert "Machines differ by more than builds do in" in text
    # The table behind the charts has the intervals.
    opened.page.locator("#by-machine details.data > summary").click()
    opened.page.locator("#by-machine details.data td", has_text="node-b").first.wait_for()

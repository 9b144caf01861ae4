"""The page of a comparison in headless Chromium: it draws, asks nobody, and its CSV is what it shows."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from blocklab.report.versus import write_page
from blocklab.stats.across import across
from blocklab.stats.guard import condition, judge
from blocklab.stats.source import source
from blocklab.stats.versus import headlines, versus
from tests.browser.visits import OVERLAPPING, WIDER, visit
from tests.unit import machines, versions

HOSTILE = "</script><script>document.title='owned'</script>"


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_page_of_a_comparison(browser: Browser, width: int, scheme: str, tmp_path: Path) -> None:
    # The page says where the studies are; a path has no place to break.
    a = versions.make(tmp_path / ("a" * 80), {"local": (1000.0, 1010.0, 990.0), "mirror": (500.0, 505.0, 495.0)})
    slow = {"local": (1001.0, 1012.0, 989.0), "mirror": (400.0, 404.0, 396.0)}
    b = versions.make(tmp_path / "b", slow, knobs={"fsync": HOSTILE})
    found = versus(source(a.path), source(b.path))
    file = tmp_path / "compare.html"
    write_page(file, found, headlines(found.pairs), judge([condition("tps < 0.95")], found))
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    # Other tests keep the machine busy.
    page.set_default_timeout(120_000)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector("body[data-charts=ready]")
    assert (said, asked) == ([], [file.as_uri()])
    assert page.title() == "two against two"
    # A point and a line for each of the two values.
    assert page.locator("#forest svg .mark-symbol path[aria-roledescription=point]").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    with page.expect_download() as download:
        page.locator("header a[download]").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    shown = page.locator("#results tbody tr:not(.group) th").all_inner_texts()
    workloads = [row for row in rows if row["layer"] == "pgbench"]
    assert [text.split()[0] for text in shown] == [row["metric"] for row in workloads]
    page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_shares_of_two_machines(browser: Browser, width: int, scheme: str, tmp_path: Path) -> None:
    a = machines.lab(tmp_path, factors=machines.RTT)
    planted = {"mirror rtt=5ms": 0.6, "mirror rtt=10ms": 0.54}
    b = machines.hosts(tmp_path, planted=planted, factors=machines.RTT)
    found = versus(source(a.path), source(b.path))
    file = tmp_path / "across.html"
    write_page(file, found, headlines(found.pairs), (), across(found))
    page, said, asked = visit(browser, file, (width, 900), scheme)
    assert (said, asked) == ([], [file.as_uri()])
    points = "svg .mark-symbol path[aria-roledescription=point]"
    assert [page.locator(f"#{chart} {points}").count() for chart in ("shares", "forest")] == [5, 6]
    verdicts = page.locator("#shares-table .verdict").all_inner_texts()
    assert verdicts == ["agree", "agree", "differ", "differ", "agree"]
    assert page.locator("#answer .lead").inner_text().startswith("3 of 5 shares agree within 10")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (page.evaluate(WIDER), page.evaluate(OVERLAPPING)) == ([], [])
    page.close()

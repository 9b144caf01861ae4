"""The page of a need in headless Chromium: it draws, asks nobody, and fits a telephone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from blocklab.model.units import Size
from blocklab.sizing import choices
from blocklab.sizing.choice import Options as Choice
from blocklab.sizing.gather import Asked, gather
from blocklab.sizing.need import Options, need
from blocklab.sizing.page import write_page
from tests.unit.synthetic_sizing import stats

HOSTILE = "</script><script>document.title='owned'</script>"


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_page_of_a_need(browser: Browser, width: int, scheme: str, tmp_path: Path) -> None:
    first = stats(tmp_path / "a", *((1_700_000_000 + 60 * at, 60 * 100 * at + at * at) for at in range(40)))
    second = stats(tmp_path / "b", *((1_700_000_000 + 90 * at, 90 * 50 * at) for at in range(30)))
    gathered = gather([first, second], Asked(names={first: HOSTILE, second: "crm"}))
    found = need(gathered.systems, Options())
    capacity = Size("100GiB")
    chosen = choices.choose(found, capacity=capacity, clouds=("aws",), own=None, options=Choice())
    file = tmp_path / "need.html"
    write_page(file, found, gathered, choices=choices.for_page(chosen))
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
    assert page.title() == f"Storage needed by {HOSTILE}, crm"
    # In each panel a line for each series, and the peak.
    assert page.locator("#need .plot").count() == 3
    assert page.locator("#need svg .mark-line path").count() >= 3
    assert page.locator("#need svg .mark-symbol path[aria-roledescription=point]").count() == 3
    assert page.locator("#candidates tbody tr").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()

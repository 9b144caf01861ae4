"""The tables behind the charts, what can be read in both themes, and what a keyboard and a printer make of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from blocklab.report import render
from blocklab.store.folder import StudyFolder
from blocklab.study.types import View
from tests.browser.cuts import CUT
from tests.unit import synthetic

MARKS = """all => all.map((each) => [each.dataset.name, each.querySelectorAll(
    ":is(.mark-rect, .mark-symbol, .mark-line).role-mark path[d]:not([d=''])").length])"""
# Every text of the page that has too little contrast with what lies behind it: [ratio, text].
FAINT = """() => {
    const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
    const part = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
    const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    const ratio = (a, b) => {
        const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
        return (x + .05) / (y + .05);
    };
    const behind = (each) => {
        for (let at = each; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length === 3 || colour[3] > 0) return colour;
        }
        return [255, 255, 255];
    };
    const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const each = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
        if (!text || each.closest("svg, script, style, .vega-actions") || !each.checkVisibility()) continue;
        const got = ratio(parse(getComputedStyle(each).color), behind(each));
        if (got < 4.5) found.push([got, text.slice(0, 60)]);
    }
    for (const svg of document.querySelectorAll("[data-spec] svg")) {
        for (const each of svg.querySelectorAll("text")) {
            const style = getComputedStyle(each);
            if (!each.textContent || each.getAttribute("stroke") || style.opacity === "0") continue;
            // The values of a heat map stand on its cells; tests/unit holds them to the same.
            if (each.closest(".mark-text") && svg.closest("figure").id.startsWith("heat-")) continue;
            const back = parse(getComputedStyle(svg).backgroundColor);
            const seen = back.length === 3 || back[3] > 0 ? back : behind(svg);
            const got = ratio(parse(style.fill), seen);
            if (got < 4.5) found.push([got, each.textContent.slice(0, 60)]);
        }
    }
    return found;
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, drilled: Path) -> dict[str, Path]:
    """One of each kind; ``apart`` is laid out as asked and stands alone."""
    runs = tmp_path_factory.mktemp("runs")
    view = View(x="rtt", color="stack", facet="threads")
    ways: dict[str, Callable[[], Path]] = {
        "plain": lambda: render(synthetic.make(runs, lab=True, transactions=2000)),
        "sweep": lambda: render(synthetic.make_sweep(runs, seconds=5, transactions=200)),
        "patterns": lambda: render(synthetic.make_patterns(runs, seconds=3)),
        "drills": lambda: drilled,
        "by size": lambda: render(
            synthetic.make_patterns(runs / "b", seconds=3, few=True),
            runs / "size.html",
            View(x="bs", color="iodepth"),
        ),
        "apart": lambda: render(StudyFolder(made["sweep"].parent), runs / "apart.html", view),
    }

    class Made(dict[str, Path]):
        """Each is made when it is first asked for: they take seconds."""

        def __missing__(self, kind: str) -> Path:
            self[kind] = ways[kind]()
            return self[kind]

    made = Made()
    return made


def visit(
    browser: Browser, path: Path, width: int = 1440, scheme: str = "light"
) -> tuple[Page, list[str], list[str]]:
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page.set_default_timeout(120_000)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-charts=ready]", state="attached", timeout=120_000)
    return page, said, asked


@pytest.mark.parametrize("kind", ["by size", "drills", "sweep"])
def test_no_name_in_a_chart_is_cut_off_on_a_phone(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    page, _, _ = visit(browser, pages[kind], 390)
    assert page.evaluate(CUT) == []
    page.close()


LONG = [pytest.param(kind, marks=pytest.mark.long) for kind in ("sweep", "patterns", "apart")]


@pytest.mark.parametrize("kind", ["plain", "drills", *LONG])
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_it_draws_asks_nobody_and_can_be_read(
    browser: Browser, pages: dict[str, Path], kind: str, width: int, scheme: str
) -> None:
    page, said, asked = visit(browser, pages[kind], width, scheme)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [pages[kind].as_uri()]
    counts = page.eval_on_selector_all("[data-spec]", MARKS)
    assert counts and all(count >= 1 for _, count in counts), counts
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(FAINT) == []
    page.close()


def test_the_search_for_faint_text_can_find(browser: Browser, pages: dict[str, Path]) -> None:
    page, _, _ = visit(browser, pages["plain"])
    page.evaluate("document.querySelector('h1').style.color = '#999999'")
    page.evaluate("document.querySelector('[data-spec] svg text').setAttribute('fill', '#aaaaaa')")
    assert len(page.evaluate(FAINT)) == 2
    page.close()


# What a table shows, and the file that its button makes: a download each would take most of the time.
SAVED = """async (place) => {
    place.open = true;
    while (!place.querySelector("table")) await new Promise(requestAnimationFrame);
    const blobs = [], make = URL.createObjectURL, click = HTMLAnchorElement.prototype.click;
    URL.createObjectURL = (blob) => { blobs.push(blob); return "#"; };
    HTMLAnchorElement.prototype.click = () => {};
    place.querySelector("button.csv").click();
    URL.createObjectURL = make;
    HTMLAnchorElement.prototype.click = click;
    const shown = [...place.querySelector("table").rows].map((r) => [...r.cells].map((c) => c.innerText));
    return [shown, await blobs[0].text()];
}"""


@pytest.mark.parametrize("kind", ["plain", pytest.param("drills", marks=pytest.mark.long)])
def test_each_csv_is_what_its_table_shows(browser: Browser, pages: dict[str, Path], kind: str) -> None:
    page, said, _ = visit(browser, pages[kind])
    places = page.locator("details.data")
    assert places.count() == page.locator("figure.chart").count() > 0
    # As a person does it, once.
    place = places.first
    place.locator("summary").focus()
    page.keyboard.press("Enter")
    place.locator("table").wait_for()
    with page.expect_download() as download:
        place.locator("button.csv").click()
    assert download.value.suggested_filename.endswith(".csv")
    _, made = place.evaluate(SAVED)
    assert Path(download.value.path()).read_text() == made
    for number in range(places.count()):
        shown, made = places.nth(number).evaluate(SAVED)
        rows = list(csv.reader(io.StringIO(made)))
        assert len(rows) > 1 and rows == shown, number
    assert said == []
    page.close()


def test_the_figures_of_a_page_that_stands_alone_are_in_it(browser: Browser, pages: dict[str, Path]) -> None:
    page, _, _ = visit(browser, pages["apart"])
    with page.expect_download() as download:
        page.locator("header a[download]").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    beside = list(csv.DictReader(io.StringIO((pages["sweep"].parent / "report.csv").read_text())))
    assert rows == beside and len(rows) > 500
    page.close()


def test_the_keyboard_reaches_and_shows_where_it_is(browser: Browser, pages: dict[str, Path]) -> None:
    page, _, _ = visit(browser, pages["sweep"])
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        kind, outline = page.evaluate(
            "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
        )
        seen.add(kind)
        assert outline != "none", kind
    assert {"A", "SUMMARY"} <= seen
    page.close()


def test_it_prints_without_what_only_a_screen_can_use(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    page, _, _ = visit(browser, pages["plain"])
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible() and not page.locator("details.data").first.is_visible()
    assert page.locator("#bars svg").first.is_visible()
    sheet = page.pdf(path=str(tmp_path / "page.pdf"), format="A4")
    assert sheet.startswith(b"%PDF") and len(sheet) > 20_000
    page.close()

"""The report opened from file:// in headless Chromium: it draws everything and asks nobody for anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from blocklab.report import render
from blocklab.stats.floor import LIMITED
from blocklab.store.floor import METRICS
from blocklab.study.grid import cells
from tests.browser.visits import DESKTOP, OVERLAPPING, WIDER, Opened, visit
from tests.unit import synthetic

PHONE = (390, 844)
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(synthetic.make(tmp_path_factory.mktemp("runs"), transactions=3000))


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def opened(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Opened]:
    found = visit(browser, report, request.param)
    yield found
    found.page.close()


def test_no_error_and_no_request_leaves_the_page(opened: Opened, report: Path) -> None:
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [report.as_uri()]


def test_every_chart_has_marks(opened: Opened) -> None:
    counts = opened.page.eval_on_selector_all(
        "[data-spec]",
        """all => all.map((each) => [each.dataset.name, each.querySelectorAll(
            ":is(.mark-rect, .mark-symbol, .mark-line).role-mark path[d]:not([d=''])").length])""",
    )
    # The bars, curves of fio by phase and of the transactions, points, and what is drawn over time.
    assert len(counts) == 1 + 4 + 2 * (3 + 1) + 2 * 3 + 4 * 3
    assert all(count >= 2 for _, count in counts), counts


def test_every_chart_fits_its_place_and_the_page_its_window(opened: Opened) -> None:
    assert opened.page.evaluate(WIDER) == []
    size = opened.page.viewport_size
    assert size is not None
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_the_bars_are_as_long_as_the_figures_say(opened: Opened) -> None:
    texts = opened.page.eval_on_selector_all("#bars svg text", "all => all.map(each => each.textContent)")
    assert any("48\u00a0%" in text for text in texts)
    # Only a wide page has room for the values.
    size = opened.page.viewport_size
    assert size is not None
    assert any("494\u00a0TPS" in text for text in texts) == (size["width"] == DESKTOP[0])
    widths = opened.page.eval_on_selector_all(
        "#bars g.mark-rect.role-mark path", "all => all.map(each => each.getBoundingClientRect().width)"
    )
    assert len(widths) == 12
    # tps-scale1: 48 % on drbd0 and 23 % on drbd1.
    assert widths[0] / widths[1] == pytest.approx(494 / 237, rel=0.03)


def test_no_two_texts_of_a_chart_lie_on_each_other(opened: Opened) -> None:
    assert opened.page.evaluate(OVERLAPPING) == []


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(synthetic.make_sweep(tmp_path_factory.mktemp("runs"), seconds=10))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_sweep_is_drawn_and_can_be_read(browser: Browser, sweep: Path, size: tuple[int, int]) -> None:
    page, said, asked = visit(browser, sweep, size)
    assert said == [] and len([url for url in asked if not url.startswith("data:")]) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    points = page.eval_on_selector_all(
        "#sweep-tpcc [data-spec], #share-tpcc [data-spec]",
        "all => all.map(each => each.querySelectorAll('.mark-symbol.role-mark path').length)",
    )
    assert points == [49, 49, 42, 42]
    assert page.evaluate(OVERLAPPING) == []
    assert page.evaluate(WIDER) == []
    page.close()


def test_lines_with_long_names_have_a_legend(browser: Browser, tmp_path: Path) -> None:
    factors = {name: synthetic.SWEEP["factors"][name] for name in ("rtt", "sync_binlog")}
    study = synthetic.sweep(factors=factors, expect=[])
    page, said, _ = visit(browser, render(synthetic.make_sweep(tmp_path, study, seconds=10)), PHONE)
    assert said == []
    texts = page.eval_on_selector_all("#sweep-tpcc svg text", "all => all.map(each => each.textContent)")
    assert "mirror sync_binlog=1" in texts and "20ms" in texts
    assert page.evaluate(OVERLAPPING) == []
    page.close()


def test_dark_mode_is_dark_and_follows_the_system(browser: Browser, report: Path) -> None:
    page, said, _ = visit(browser, report, scheme="dark")
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    assert max(page.evaluate(brightness)) < 60
    assert "#56B4E9" in page.inner_html("#bars svg")
    page.evaluate("document.body.dataset.charts = ''")
    page.emulate_media(color_scheme="light")
    page.wait_for_selector("body[data-charts=ready]", state="attached", timeout=120_000)
    assert min(page.evaluate(brightness)) > 200
    assert "#0072B2" in page.inner_html("#bars svg")
    assert said == []
    page.close()


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a machine whose floor is known, with counts of each layer and stops."""
    runs = tmp_path_factory.mktemp("runs")
    return render(synthetic.make(runs, lab=True, busy=["drbd0/tps-scale1"], transactions=3000))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_the_lab_limits_is_marked(
    browser: Browser, limited: Path, size: tuple[int, int], scheme: str
) -> None:
    page, said, _ = visit(browser, limited, size, scheme)
    assert said == []
    assert page.is_visible("#floor .floor") and len(page.query_selector_all("#floor .floor tbody tr")) == len(
        METRICS
    )
    marked = page.eval_on_selector_all(
        "#results .lab", "all => all.map(each => [each.innerText, each.title, each.getBoundingClientRect().width])"
    )
    assert len(marked) == 8
    assert all(words == LIMITED and title.startswith(f"{LIMITED}: ") and wide for words, title, wide in marked)
    reasons = page.inner_text("#floor .limited")
    assert "the node's CPU was 95\u00a0% busy" in reasons and "715\u00a0IOPS is within 1.5 times" in reasons
    # Hollow bars are filled with the paper's colour, which hides the grid, and outlined in the stack's.
    bars = page.eval_on_selector_all(
        "#bars g.mark-rect.role-mark path",
        "all => all.map(each => [each.getAttribute('fill'), each.getAttribute('stroke')])",
    )
    paper = "#1b1e23" if scheme == "dark" else "#ffffff"
    assert len(bars) == 12 and sum(fill == paper and bool(stroke) for fill, stroke in bars) == 3
    assert "limited by the lab" in page.inner_text("#bars figcaption")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate(OVERLAPPING) == []
    page.close()


def test_layers_and_stops_are_on_the_page(browser: Browser, limited: Path) -> None:
    page, said, _ = visit(browser, limited)
    assert said == []
    layers = page.inner_text("#layers")
    assert "What each layer did" in layers and "fio / rand-write-4k" in layers and "wire (vec0 of a1)" in layers
    assert len(page.query_selector_all("#layers tbody tr.first")) == 3 * 6
    assert len(page.query_selector_all("#method .stops tbody tr")) == 9
    assert "seed 20201" in page.inner_text("#method")
    page.close()


def test_points_that_the_lab_limits_are_hollow(browser: Browser, tmp_path: Path) -> None:
    busy = [cell.label for cell in cells(synthetic.sweep()) if cell.levels.get("threads") == "64"]
    page, said, _ = visit(browser, render(synthetic.make_sweep(tmp_path, seconds=10, busy=busy)))
    assert said == []
    hollow = (
        "all => all.map(each => each.querySelectorAll(\".mark-symbol.role-mark path[fill='#ffffff']\").length)"
    )
    both = "#sweep-tpcc [data-spec], #share-tpcc [data-spec]"
    assert page.eval_on_selector_all(both, hollow) == [7, 7, 6, 6]
    assert len(page.query_selector_all("#results .lab")) > 0 and page.evaluate(OVERLAPPING) == []
    page.close()


def test_hostile_text_is_shown_and_never_run(browser: Browser, tmp_path: Path) -> None:
    study = synthetic.study(question=HOSTILE, notes=[HOSTILE])
    page, said, asked = visit(browser, render(synthetic.make(tmp_path, study, failed=["drbd0/fio"])))
    assert page.inner_text("h1") == HOSTILE
    assert page.title() != "owned"
    assert said == [] and len([url for url in asked if not url.startswith("data:")]) == 1
    page.close()


def test_a_page_without_any_run_opens_too(browser: Browser, tmp_path: Path) -> None:
    everything = [f"{s}/{w}" for s in synthetic.RAW["stacks"] for w in synthetic.RAW["workloads"]]
    page, said, _ = visit(browser, render(synthetic.make(tmp_path, missing=everything)))
    assert said == [] and page.query_selector_all("[data-spec]") == []
    assert "There is no answer yet" in page.inner_text("#answer")
    page.close()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_drills_are_drawn_and_can_be_read(
    browser: Browser, drilled: Path, size: tuple[int, int], scheme: str
) -> None:
    page, said, asked = visit(browser, drilled, size, scheme)
    assert said == [] and len([url for url in asked if not url.startswith("data:")]) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate(OVERLAPPING) == []
    assert page.evaluate(WIDER) == []
    marks = "all => all.map(each => each.querySelectorAll('.mark-symbol.role-mark path').length)"
    # A mark for each cell: the local disk's have no round trip, so they have a panel of their own.
    assert sum(page.eval_on_selector_all("#cost [data-spec]", marks)) == 20
    counts = page.eval_on_selector_all(
        "#drills .drill [data-spec]",
        "all => all.map(each => each.querySelectorAll('.mark-rect.role-mark path').length)",
    )
    assert len(counts) == 12 and all(count > 50 for count in counts)
    page.close()


def test_the_time_line_is_true_to_time(browser: Browser, drilled: Path) -> None:
    page, said, _ = visit(browser, drilled)
    assert said == []
    # The stages of the takeover fill the silence that is shaded, from its begin to its end.
    spans = page.eval_on_selector_all(
        "#drills .drill [data-spec]",
        """all => all.map((each) => {
            const box = (path) => path.getBoundingClientRect();
            const rects = [...each.querySelectorAll(".mark-rect.role-mark")].map(
                (group) => [...group.querySelectorAll("path")].map(box));
            const stages = rects[rects.length - 1], outage = rects[0][0];
            return [outage.left - Math.min(...stages.map((one) => one.left)),
                    outage.right - Math.max(...stages.map((one) => one.right)), stages.length];
        })""",
    )
    shown = [each for each in spans if each[2] == 6]
    assert len(shown) >= 10
    assert all(abs(left) < 1 and abs(right) < 1 for left, right, _ in shown), shown
    page.close()


def test_lists_of_a_drill_open(browser: Browser, drilled: Path) -> None:
    page, _, _ = visit(browser, drilled, PHONE)
    first = page.locator("#drills .drill > details").first
    assert not first.locator("table").first.is_visible()
    first.locator("summary").click()
    assert first.locator("table").first.is_visible() and "acknowledged (UTC)" in first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    page.close()

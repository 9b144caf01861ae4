"""Charts where there is little room, what the pointer finds in them, and what a printer makes of a dark page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from blocklab.report import render
from blocklab.study.grid import cells
from blocklab.study.types import View
from tests.browser.cuts import CUT
from tests.browser.visits import OVERLAPPING, WIDER, visit
from tests.unit import synthetic

DESKTOP, PHONE = (1440, 900), (390, 844)
LONG = {"drbd0": "mirror-by-drbd-in-the-zone", "drbd1": "mirror-by-drbd-across-zones"}
# Of each chart the part of its place that its plot has, and the names in its legend with their rows.
ROOM = """() => [...document.querySelectorAll("[data-spec]")].map((each) => [
    each.dataset.name,
    each.querySelector("path.background").getBoundingClientRect().width / each.getBoundingClientRect().width,
    [...each.querySelectorAll(".role-legend text")].map((text) => text.textContent),
    new Set([...each.querySelectorAll(".role-legend text")].map(
        (text) => Math.round(text.getBoundingClientRect().top))).size,
])"""


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of stacks with long names."""
    with pytest.MonkeyPatch.context() as patch:
        for old, new in LONG.items():
            patch.setitem(synthetic.ADDED, new, synthetic.ADDED[old])
            patch.setitem(synthetic.PEERS, new, synthetic.PEERS[old])
            for workload in ("tps-scale1", "tps-scale50"):
                patch.setitem(synthetic.TPS, (new, workload), synthetic.TPS[old, workload])
        stacks = {LONG.get(name, name): stack for name, stack in synthetic.RAW["stacks"].items()}
        study = synthetic.study(stacks=stacks, expect=[])
        return render(synthetic.make(tmp_path_factory.mktemp("runs"), study, transactions=1000))


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_legend_of_long_names_is_whole_and_leaves_room_for_its_plot(
    browser: Browser, long_names: Path, size: tuple[int, int]
) -> None:
    page, said, _ = visit(browser, long_names, size)
    found = {name: tuple(rest) for name, *rest in page.evaluate(ROOM)}
    assert said == [] and page.evaluate(CUT) == [] and page.evaluate(WIDER) == []
    assert page.evaluate(OVERLAPPING) == []
    for name, (part, names, _) in found.items():
        assert part > 0.4, name
        assert not any("…" in each for each in names), name
    assert found["drbd-az-bars-1"][1] == list(LONG.values())
    assert found["drbd-az-latency-curve-tps-scale1-1"][1] == ["local", *LONG.values()]
    assert found["drbd-az-await-fio-2"][1] == ["drbd1 on a1", "vda on a1", "vda on a2"]
    # Side by side where there is room.
    rows = [found[f"drbd-az-{name}-1"][2] for name in ("bars", "latency-curve-tps-scale1")]
    assert rows == ([1, 1] if size == DESKTOP else [2, 3])
    page.close()


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of nine queue depths, with marked cells and cells that the lab limits."""
    jobs: dict[str, Any] = {
        f"r{reads}-qd{depth}": {"rw": "randrw", "bs": "4k", "rwmixread": reads, "iodepth": depth}
        for reads in (0, 100)
        for depth in (1, 2, 4, 8, 16, 32, 64, 128, 256)
    }
    workload = {
        "workload": "fio", "size": "1GiB", "options": {"ioengine": "libaio", "direct": 1, "runtime": 3},
        "jobs": jobs,
    }  # fmt: skip
    stacks = {name: synthetic.RAW["stacks"][name] for name in ("local", "drbd1")}
    plan = synthetic.study(name="deep", workloads={"fio": workload}, stacks=stacks, expect=[])
    return render(synthetic.make_patterns(tmp_path_factory.mktemp("runs"), seconds=3, lab=True, plan=plan))


def values(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        "#heat-fio .mark-text.role-mark text", "all => all.map(each => each.textContent)"
    )
    return found


def test_figures_of_narrow_cells_are_short_and_apart(browser: Browser, deep: Path) -> None:
    wide, said, _ = visit(browser, deep, DESKTOP)
    assert said == [] and "3,000†" in values(wide)
    wide.close()
    page, said, _ = visit(browser, deep, PHONE)
    assert said == [] and "3k†" in values(page) and "3,000†" not in values(page)
    assert [each for each in page.evaluate(OVERLAPPING) if "†" in each] == []
    assert page.evaluate(OVERLAPPING) == []
    page.close()


def tips(page: Page, selector: str, *numbers: int) -> list[str]:
    """What the pointer is told at these marks."""
    found = []
    for number in numbers:
        mark = page.locator(selector).nth(number)
        mark.scroll_into_view_if_needed()
        mark.hover(force=True)
        tip = page.locator("#vg-tooltip-element.visible")
        tip.wait_for()
        found.append(tip.inner_text())
        page.mouse.move(0, 0)
    return found


def test_the_pointer_is_told_what_there_is_and_never_undefined(browser: Browser, deep: Path) -> None:
    page, said, _ = visit(browser, deep, DESKTOP)
    # Queue depth 1 on the local volume, and 2 on the mirror.
    first, plain = tips(page, "#heat-fio .mark-text.role-mark text", 0, 19)
    assert "CrystalDiskMark" in first and "limited by the lab" in first
    assert "note" not in plain and "marked" not in plain and "value" in plain
    told = [first, plain, *tips(page, "#knee-fio .mark-symbol.role-mark path", 0)]
    assert said == [] and not any("undefined" in each for each in told)
    page.close()


def test_a_limited_level_line_has_hollow_ends(browser: Browser, tmp_path: Path) -> None:
    factors = {name: synthetic.SWEEP["factors"][name] for name in ("rtt", "sync_binlog")}
    study = synthetic.sweep(factors=factors, expect=[])
    busy = [cell.label for cell in cells(study) if cell.stack == "local"]
    folder = synthetic.make_sweep(tmp_path, study, seconds=5, busy=busy)
    page, said, _ = visit(browser, render(folder, tmp_path / "x.html", View(x="rtt")))
    hollow = page.eval_on_selector_all(
        "#sweep-tpcc [data-spec]",
        "all => all.map(each => each.querySelectorAll(\".mark-symbol.role-mark path[fill='#ffffff']\").length)",
    )
    # Two ends of each of the two lines that the round trip makes no difference to.
    assert said == [] and sum(hollow) == 2 * 2, hollow
    page.close()


# Of each drawing the colours of all that is in it, in its order, and of its background.
COLOURS = """(which) => [...document.querySelectorAll("[data-spec] " + which)].map((svg) => [
    getComputedStyle(svg).backgroundColor,
    ...[...svg.querySelectorAll("[fill], [stroke]")].map(
        (each) => [each.getAttribute("fill"), each.getAttribute("stroke")]),
])"""


def test_a_dark_page_is_printed_as_a_light_one(browser: Browser, deep: Path, tmp_path: Path) -> None:
    light, _, _ = visit(browser, deep, DESKTOP)
    wanted = light.evaluate(COLOURS, "svg.marks")
    light.close()
    page, said, _ = visit(browser, deep, DESKTOP, "dark")
    assert page.evaluate(COLOURS, "svg.marks") != wanted
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = ({COLOURS})('svg.paper'); }})")
    page.pdf(path=str(tmp_path / "page.pdf"))
    assert page.evaluate("window.printed") == wanted
    assert page.locator("svg.paper").count() == 0, "the screen has its own again"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 33, 38)"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("svg.paper").count() == len(wanted)
    assert page.locator("svg.paper").first.is_visible() and not page.locator("svg.marks").first.is_visible()
    assert said == []
    page.close()

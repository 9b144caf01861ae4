"""The report in Japanese: every character has a glyph, and its charts are as tidy as in English."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.visits import OVERLAPPING, WIDER, visit
from tests.unit import synthetic, synthetic_drills

# Characters that are drawn like one that no font has.
MISSING = """(more) => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 40;
    const context = canvas.getContext("2d", {willReadFrequently: true});
    context.font = "24px " + getComputedStyle(document.body).fontFamily;
    const drawn = (text) => {
        context.clearRect(0, 0, 40, 40);
        context.fillText(text, 4, 30);
        return canvas.toDataURL();
    };
    const none = drawn("\\u0378");
    const charts = [...document.querySelectorAll("[data-spec] text")].map((each) => each.textContent).join("");
    const every = [...new Set(document.body.innerText + charts + more)];
    return every.filter((each) => each.trim() && drawn(each) === none);
}"""
MAKERS: dict[str, Callable[[Path], object]] = {
    "layouts": synthetic.make, "sweep": synthetic.make_sweep, "matrix": synthetic.make_patterns,
    "drills": synthetic_drills.make_drills,
}  # fmt: skip


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name == "layouts" else pytest.mark.long) for name in MAKERS],
)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    MAKERS[request.param](folder)
    (study,) = (each for each in folder.iterdir() if (each / "study.json").exists())
    code = "import sys; sys.argv[0] = 'blocklab'; from blocklab.cli.start import main; main()"
    subprocess.run(
        [sys.executable, "-c", code, "report", str(study)], check=True, capture_output=True, timeout=120,
        env={**os.environ, "LC_ALL": "ja_JP.UTF-8"},
    )  # fmt: skip
    return study / "report.html"


def test_every_character_has_a_glyph_and_the_charts_are_tidy(browser: Browser, page: Path) -> None:
    opened = visit(browser, page)
    assert opened.page.evaluate(MISSING, "\U0002ebf0\u0378") != [], "the check sees nothing"
    assert opened.page.evaluate(MISSING, "") == [], "a font for Japanese is needed: fonts-ipafont-gothic"
    assert opened.said == [] and opened.page.evaluate(WIDER) == []
    assert opened.page.evaluate(OVERLAPPING) == []
    opened.page.close()

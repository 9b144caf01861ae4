"""One headless Chromium, and the page of drills, which takes seconds to make, for all tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from blocklab.report import render
from tests.unit import synthetic_drills

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Skips, with the reason, where there is no Chromium; CI must have one."""
    if CHROMIUM is None:
        assert not os.environ.get("CI"), "CI must have chromium"
        pytest.skip("no chromium; apt-get install chromium")
    with sync_playwright() as playwright:
        # Root, as in a container, has no sandbox; the page is our own.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def drilled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render(synthetic_drills.make_drills(tmp_path_factory.mktemp("drills")))

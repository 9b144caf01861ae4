"""One headless Chromium for the tests of a module."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
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

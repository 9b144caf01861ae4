"""Pages in the browser, and what must not be on them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page

DESKTOP = (1440, 900)


# Charts that are wider than their places.
WIDER = """() => [...document.querySelectorAll("[data-spec]")].filter((each) =>
    each.querySelector("svg").getBoundingClientRect().width > each.getBoundingClientRect().width + 1
).map((each) => each.dataset.name)"""


# Pairs of texts of one chart that lie on each other.
OVERLAPPING = """() => {
    const found = [];
    for (const svg of document.querySelectorAll("[data-spec] svg")) {
        const shown = (each) => each.textContent && getComputedStyle(each).opacity !== "0";
        // A halo has a stroke and lies under its text on purpose.
        const texts = [...svg.querySelectorAll("text")].filter(
            (each) => shown(each) && !each.getAttribute("stroke"));
        const boxes = texts.map((each) => each.getBoundingClientRect());
        for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
            const wide = Math.min(boxes[i].right, boxes[j].right) - Math.max(boxes[i].left, boxes[j].left);
            const high = Math.min(boxes[i].bottom, boxes[j].bottom) - Math.max(boxes[i].top, boxes[j].top);
            if (wide > 1 && high > 3) found.push(texts[i].textContent + " / " + texts[j].textContent);
        }
    }
    return found;
}"""


class Opened(NamedTuple):
    page: Page
    said: list[str]
    asked: list[str]


def visit(browser: Browser, path: Path, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> Opened:
    page = browser.new_page(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page.set_default_timeout(120_000)
    opened = Opened(page, [], [])
    page.on("console", lambda message: opened.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: opened.said.append(str(error)))
    page.on("request", lambda request: opened.asked.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-charts=ready]", state="attached", timeout=120_000)
    return opened

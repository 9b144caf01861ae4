"""What is cut off on a page."""

from __future__ import annotations

# The texts of charts of which a part lies outside of their picture.
CUT = """() => [...document.querySelectorAll("[data-spec] svg")].flatMap((svg) => {
    const whole = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].filter((each) => {
        const box = each.getBoundingClientRect();
        return each.textContent && box.width && getComputedStyle(each).opacity !== "0"
            && (box.right > whole.right + 1 || box.left < whole.left - 1);
    }).map((each) => [svg.closest("figure").id, each.textContent]);
})"""

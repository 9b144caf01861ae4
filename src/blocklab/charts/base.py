"""What all charts share: the colours, both themes, and the shape in which they reach the page."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import altair as alt
import msgspec

# Okabe and Ito's colours, told apart by people with any of the usual colour vision deficiencies; see
# https://jfly.uni-koeln.de/color/. Their black, yellow and sky blue fade on one of the two backgrounds.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
# The baseline is what the others are seen against, so it gets no colour of its own; 4.4:1 on both backgrounds.
BASELINE = "#7d8187"
# The same hues for dark paper, where the originals are too dim for points and thin lines.
ON_DARK = {
    "#0072B2": "#56B4E9", "#D55E00": "#F28A4B", "#009E73": "#35C299", "#CC79A7": "#DE9CC2", "#E69F00": "#F2B632",
    BASELINE: "#A0A6AE",
}  # fmt: skip
# For levels with an order: from dark blue to orange in even steps of OKLCH's lightness and hue, each at least 3:1
# on its paper, so that the order shows without colour vision too.
RAMP = (
    "#093DA1", "#473BAA", "#6D3AA8", "#8F3A9E", "#AC3C8B", "#C44273", "#D64F56", "#E06130", "#DE7C00",
)  # fmt: skip
_RAMP_ON_DARK = (
    "#568EF9", "#8B89FF", "#B584F9", "#D982E9", "#F781D1", "#FF92B4", "#FEA5A4", "#FFB49A", "#FDC495",
)  # fmt: skip
ON_DARK |= dict(zip(RAMP, _RAMP_ON_DARK, strict=True))
# What hollow marks are filled with, so that they hide the line or the grid under them.
PAPER, PAPER_ON_DARK = "#ffffff", "#1b1e23"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


# How a chart shows the figures that are the lab's own, for its caption.
HOLLOW = (
    " Hollow: limited by the lab. The figure, or the one that it is a share of, is near the lab's floor or was "
    "measured at a busy CPU; the tooltip says why."
)


class Panel(msgspec.Struct, frozen=True):
    """One Vega-Lite specification as wide as its place on the page; ``label`` says what it shows."""

    label: str
    spec: dict[str, Any]


class Chart(msgspec.Struct, frozen=True):
    """Panels under one title that says the finding. ``caption`` says how to read them and what was done.

    ``columns``: how many panels stand side by side where there is room; 0 leaves it to the page.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 0


class Charts(msgspec.Struct, frozen=True):
    """The charts that have data, and for each that has none a note that says why."""

    shown: tuple[Chart, ...]
    left_out: tuple[str, ...]


def colours(stacks: Sequence[str], baselines: Collection[str]) -> dict[str, str]:
    """A colour for each stack; the sixth besides the baselines starts over."""
    others = [stack for stack in stacks if stack not in baselines]
    found = {stack: PALETTE[at % len(PALETTE)] for at, stack in enumerate(others)}
    return {stack: found.get(stack, BASELINE) for stack in stacks}


def ramp(count: int) -> list[str]:
    """Colours for so many levels that have an order."""
    last = len(RAMP) - 1
    return [RAMP[round(at * last / max(1, count - 1))] for at in range(count)]


def slug(label: str) -> str:
    """A label as a part of a chart's name, which is an element's id on the page."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", label).strip("-")


def panel(label: str, chart: Any, data: Mapping[str, Sequence[Mapping[str, Any]]], height: int) -> Panel:
    """A finished panel. Rows go in by name and late: Altair would copy and check thousands of them."""
    spec = chart.properties(
        width="container", height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    ).to_dict(validate=False)
    # The bundled Vega-Lite is the one; a link would only make the page look as if it needed the network.
    spec.pop("$schema", None)
    spec["datasets"] = dict(data)
    return Panel(label, spec)


def text(base: Any, mark: Mapping[str, Any], **channels: Any) -> list[Any]:
    """Text marks with a halo under them, in the paper's colour."""
    return [base.mark_text(**mark, **style).encode(**channels) for style in ({"style": "halo"}, {})]


def at(value: float | str, channel: Any) -> Any:
    """A fixed place on an axis: pixels, or ``width`` or ``height`` of the plot."""
    return channel(value)


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... from ``low`` to ``high`` (both above 0); 1, 10, 100 where that would be too many."""
    steps = (1, 2, 5) if high / low < 2000 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [tick for power in powers for step in steps if low <= (tick := float(f"{step}e{power}")) <= high]


def heading(text: str, colour: str | None = None) -> alt.TitleParams:
    """A panel's own title, so that a picture saved from the page says what it shows."""
    plain = alt.TitleParams(text=text, anchor="start", frame="group", fontSize=13, fontWeight=600, offset=8)
    if colour is not None:
        plain.color = colour
    return plain


def config(*, dark: bool) -> dict[str, Any]:
    """Vega-Lite's configuration for one theme; the colours are those of the page's style sheet."""
    ink, quiet, line, paper = (
        ("#e6e8eb", "#a3a9b1", "#363c44", PAPER_ON_DARK) if dark else ("#1d2126", "#5a6169", "#dfe2e6", PAPER)
    )
    return {
        "background": paper,
        "font": FONT,
        "view": {"stroke": None},
        "title": {"color": ink, "font": FONT},
        "axis": {
            "labelColor": quiet, "titleColor": quiet, "gridColor": line, "domainColor": line, "tickColor": line,
            "labelFont": FONT, "titleFont": FONT, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": 400,
        },
        "legend": {
            "labelColor": ink, "titleColor": quiet, "labelFont": FONT, "titleFont": FONT, "labelFontSize": 12,
        },
        "text": {"color": ink, "font": FONT},
        # Drawn under a text so that it stays legible on points and lines.
        "style": {"halo": {"stroke": paper, "strokeWidth": 4, "strokeJoin": "round", "opacity": 0.85}},
        "rule": {"color": ink},
        "rect": {"color": quiet},
    }  # fmt: skip

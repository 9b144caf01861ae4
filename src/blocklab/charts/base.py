"""What all charts share: the colours, both themes, and the shape in which they reach the page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import altair as alt
import msgspec

from blocklab.stats.analysis import Analysis
from blocklab.stats.values import Measured

# Okabe and Ito's colours, distinguished by people with any of the usual colour vision deficiencies; see
# https://jfly.uni-koeln.de/color/. Their black, yellow and sky blue fade on one of the two backgrounds.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
# The baseline is what the others are seen against, so it gets no colour of its own; 4.4:1 on both backgrounds.
BASELINE = "#7d8187"
# The same hues for dark paper, where the originals are too dim for points and thin lines.
ON_DARK = {
    "#0072B2": "#56B4E9", "#D55E00": "#F28A4B", "#009E73": "#35C299", "#CC79A7": "#DE9CC2", "#E69F00": "#F2B632",
    BASELINE: "#A0A6AE",
}  # fmt: skip
# The same hues for text, which needs more contrast than a line: at least 4.5:1 on its paper.
INKS = {
    "#0072B2": "#0070B0", "#D55E00": "#B34F00", "#009E73": "#007A59", "#CC79A7": "#A84A7E", "#E69F00": "#8A6000",
    BASELINE: "#686C72",
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
INKS |= {"#D64F56": "#C8404A", "#E06130": "#BD4A1C", "#DE7C00": "#A35B00"}
ON_DARK |= {ink: ON_DARK[colour] for colour, ink in INKS.items()}
# Beside the colours. Where those start over these must not, or two lines would look the same.
DASHES = ([1, 0], [5, 2], [2, 2], [7, 2, 2, 2], [1, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")
# What hollow marks are filled with, so that they hide the line or the grid under them.
PAPER, PAPER_ON_DARK = "#ffffff", "#1b1e23"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


# How a chart shows the values that are the lab's own, for its caption.
_LIMITED = (
    "limited by the lab. The value, or the one that it is a share of, is near the lab's floor or was measured at "
    "a busy CPU; the tooltip says why."
)
PREDICTED = "predicted"
HOLLOW, DAGGER = f" Hollow: {_LIMITED}", f" †: {_LIMITED}"
# Pixels of a character of a legend's name in a wide font, of its symbol with the gap to the next name, and of what
# stands beside a plot with an axis of numbers.
_CHARACTER, _SYMBOL, BESIDE = 7.2, 36, 70


class Panel(msgspec.Struct, frozen=True):
    """One Vega-Lite specification as wide as its place on the page; ``label`` says what it shows."""

    label: str
    spec: dict[str, Any]


Section: TypeAlias = Literal["curves", "machines", "bars", "latency", "time", "drills"]


class Chart(msgspec.Struct, frozen=True):
    """Panels under one title that says the finding. ``caption`` says how to read them and what was done.

    ``columns``: how many panels stand side by side where there is room; 0 leaves it to the page. ``section``: the
    part of the page that it is in.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    columns: int = 0
    section: Section | None = None


class Charts(msgspec.Struct, frozen=True):
    """The charts that have data, and for each that has none a note that says why."""

    shown: tuple[Chart, ...]
    left_out: tuple[str, ...]

    def of(self, section: Section) -> list[Chart]:
        """Those of a section."""
        return [chart for chart in self.shown if chart.section == section]


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


def apart(names: Iterable[str]) -> list[str]:
    """The same names, with a number behind each that is there already: labels that differ may have one slug."""
    found: dict[str, None] = {}
    for name in names:
        free, number = name, 1
        while free in found:
            number += 1
            free = f"{name}-{number}"
        found[free] = None
    return list(found)


def panel(
    label: str,
    chart: Any,
    data: Mapping[str, Sequence[Mapping[str, Any]]],
    height: int,
    table: tuple[str, Mapping[str, str]] | None = None,
) -> Panel:
    """A finished panel. Rows go in by name and late: Altair would copy and check thousands of them.

    ``table``: the data set that the page shows as the table behind the panel, and its fields with their titles.
    """
    spec = chart.to_dict(validate=False)
    # Not by the chart's own properties(), which copies all of it for each.
    spec |= {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    # The bundled Vega-Lite is the one; a link would only make the page look as if it needed the network.
    spec.pop("$schema", None)
    spec["datasets"] = dict(data)
    if table is not None:
        spec["usermeta"] = {"rows": table[0], "columns": list(table[1].items())}
    return Panel(label, spec)


def titled(
    title: str,
    what: str,
    layers: Sequence[Any],
    data: Mapping[str, Sequence[Mapping[str, Any]]],
    height: int,
    table: tuple[str, Mapping[str, str]],
    colour: str | None = None,
) -> Panel:
    """A panel of ``layers`` that show ``what``, under its own heading if it has one; the rest as of ``panel``."""
    chart = alt.layer(*layers)
    if title:
        chart.title = heading(title, colour)
    return panel(f"{title}: {what}" if title else what, chart, data, height, table)


def text(base: Any, mark: Mapping[str, Any], **channels: Any) -> list[Any]:
    """Text marks with a halo under them, in the paper's colour."""
    return [base.mark_text(**mark, **style).encode(**channels) for style in ({"style": "halo"}, {})]


def legend(
    names: Sequence[str], orient: Literal["top", "bottom"] = "top", *, beside: int = BESIDE, **more: Any
) -> Any:
    """A legend in as many columns as its longest name leaves room for; what is wider would be cut off.

    ``beside``: pixels of the panel that the plot's own width has not, which are those left of it.
    """
    columns = f"clamp(floor({_room(beside)} / {_entry(names):.0f}), 1, {max(1, len(names))})"
    return alt.Legend(
        **{"title": None, **more}, orient=orient, columns=alt.ExprRef(columns),
        labelLimit=alt.ExprRef(f"max(80, {_room(BESIDE)} - {_SYMBOL})"),
    )  # fmt: skip


def flush_right(names: Sequence[str], beside: int) -> dict[str, Any]:
    """The configuration that lets such a legend end where the plot does, over its axis, where even one column is
    wider than the plot."""
    anchor = {"signal": f"{_room(beside)} < {_entry(names):.0f} ? 'end' : 'start'"}
    return {"legend": {"layout": {"top": {"anchor": anchor}}}}


def _room(beside: int) -> str:
    """The width that a plot will have, for Vega: its own it knows only when the legend has been laid out."""
    return f"(isFinite(containerSize()[0]) && width >= 0 ? containerSize()[0] - {beside} : width)"


def _entry(names: Sequence[str]) -> float:
    return _SYMBOL + _CHARACTER * max(map(len, names), default=0)


def tooltip(always: Sequence[str], some: Sequence[str]) -> Any:
    """What a mark tells: the fields that each row has, and those that some rows have, of which Vega would write
    "undefined" for the others."""

    def pairs(names: Sequence[str]) -> str:
        return "{" + ", ".join(f"{json.dumps(name)}: datum[{json.dumps(name)}]" for name in names) + "}"

    parts = [pairs(always), *(f"isValid(datum[{json.dumps(name)}]) ? {pairs([name])} : {{}}" for name in some)]
    return alt.ExprRef(f"merge({', '.join(parts)})")


def contrast(one: str, other: str) -> float:
    """The ratio of two colours' luminances as WCAG 2 has it, from 1 to 21; ``#rrggbb`` each."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def watched(analysis: Analysis) -> dict[str, dict[str, Measured]]:
    """The workloads that are shown in detail, and the good run of each of their stacks."""
    found: dict[str, dict[str, Measured]] = {workload: {} for _, workload in analysis.detailed}
    for stack in analysis.stacks:
        for workload, cells in found.items():
            measured = analysis.measured.get((stack, workload))
            if measured is not None and (stack, workload) in analysis.detailed:
                cells[stack] = measured
    return found


def palette_of(analysis: Analysis) -> dict[str, str]:
    """A colour for each stack of a study."""
    return colours(tuple(analysis.stacks), analysis.grid.baselines)


def rows_of(name: str) -> Any:
    """An empty chart over a data set of the panel."""
    return alt.Chart(alt.NamedData(name=name))


def numbers(
    channel: Any,
    field: str,
    title: str,
    domain: Sequence[float],
    *,
    log: bool = False,
    axis: Mapping[str, Any] | None = None,
    **scale: Any,
) -> Any:
    """An axis of numbers from end to end of ``domain``. ``axis`` and ``scale`` say what is special about it."""
    ticks: dict[str, Any] = {} if axis and "values" in axis else {"tickCount": 5}
    if log:
        ticks = {"format": ",.3~r", "values": log_ticks(*domain), "labelOverlap": "greedy"}
        scale["type"] = "log"
    return channel(
        f"{field}:Q", title=title, scale=alt.Scale(domain=list(domain), nice=False, **scale),
        axis=alt.Axis(**{**ticks, **(axis or {})}),
    )  # fmt: skip


def since_start(end: float) -> Any:
    """The time axis of a workload, in seconds."""
    return numbers(alt.X, "t", "s since the workload began", [0, end], axis={"grid": False})


def named(channel: Any, field: str, looks: Mapping[str, Any], legend: Any = None) -> Any:
    """A channel that tells names apart, each with its own look: colour, dash or shape."""
    return channel(f"{field}:N", scale=alt.Scale(domain=list(looks), range=list(looks.values())), legend=legend)


def constant(channel: Any, value: float | str) -> Any:
    """A channel of that value. Altair would look ``alt.value`` up among all that the channel may be, slowly."""
    return channel(value)


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... from ``low`` to ``high`` (both above 0); 1, 10, 100 where that would be too many."""
    steps = (1, 2, 5) if high / low < 2000 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [tick for power in powers for step in steps if low <= (tick := float(f"{step}e{power}")) <= high]


def ink(colour: str) -> str:
    """The colour in which text is written that belongs to a mark of that colour."""
    return INKS.get(colour, colour)


def heading(text: str, colour: str | None = None) -> alt.TitleParams:
    """A panel's own title, so that a picture saved from the page says what it shows."""
    plain = alt.TitleParams(text=text, anchor="start", frame="group", fontSize=13, fontWeight=600, offset=8)
    if colour is not None:
        plain.color = ink(colour)
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

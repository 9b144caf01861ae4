"""The need as one self-contained page: the answer, the rates over time with the peak marked, the sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from blocklab import __version__
from blocklab.charts.base import PALETTE, Chart, Panel, heading, legend, panel
from blocklab.report.build import dress, environment, written
from blocklab.sizing.curve import Curve, total
from blocklab.sizing.need import Need
from blocklab.sizing.show import LABELS, amount_text, basis, lead, lines, remarks
from blocklab.sizing.system import Gathered
from blocklab.stats.format import quantity

# More points than this are drawn as the highest of each of so many stretches: it is the peaks that count.
MOST_POINTS = 1200
HEIGHT = 170
# Metric, factor to what the axis shows, its title; drawn where there is something to draw.
_PANELS = (
    (("iops", "read_iops", "write_iops"), 1.0, "IOPS"),
    (("bandwidth", "read_bandwidth", "write_bandwidth"), 1e-6, "MB/s"),
    (("flushes",), 1.0, "flushes/s"),
    (("transactions",), 1.0, "transactions/s"),
)
_SERIES = {"": "reads and writes", "read": "reads", "write": "writes"}


def write_page(
    path: Path, need: Need, gathered: Gathered, zone: tzinfo = UTC, choices: Mapping[str, Any] | None = None
) -> None:
    """Write the page. ``choices``: the candidates' tables, where they were asked for. Raises ``StoreError``."""
    made = environment()
    text = made.get_template("need.html.j2").render(
        version=__version__,
        need=need,
        gathered=gathered,
        lead=lead(need),
        basis=basis(need, zone),
        lines=list(lines(need, zone)),
        labels=LABELS,
        amount_text=amount_text,
        quantity=quantity,
        chart=need_chart(need, gathered, zone),
        choices=choices or {},
        remarks=remarks(need, gathered),
        **dress(made),
    )
    written({path: text.encode()})


def need_chart(need: Need, gathered: Gathered, zone: tzinfo = UTC) -> Chart | None:
    """The rates of all systems together over time; None where they were not observed together, or only once."""
    if not need.together:
        return None
    curve = total([system.curve for system in gathered.systems])
    panels = tuple(
        _panel(need, curve, names, factor, title, zone)
        for names, factor, title in _PANELS
        if names[0] in need.amounts
    )
    caption = (
        "Each step is the mean of its interval; of long series the highest of each stretch is drawn. Dashed: what "
        "the storage must carry. Dot: the highest interval that counts."
    )
    return Chart("need", "What the systems asked of their storage", caption, panels)


def _panel(need: Need, curve: Curve, names: tuple[str, ...], factor: float, title: str, zone: tzinfo) -> Panel:
    rows = [row for name in names if name in need.amounts for row in _rows(curve, name, factor, zone, need.start)]
    amount = need.amounts[names[0]]
    required = [{"required": amount.required * factor}]
    timed = need.start is not None
    at = amount.at if amount.at is not None else float(curve.starts[np.nanargmax(curve.values[names[0]])])
    peak = [{"at": _label(at, zone, need.start), "value": amount.most * factor}]
    x = (
        alt.X("at:T", title=None, axis=alt.Axis(labelOverlap=True))
        if timed
        else alt.X("at:Q", title="seconds (times unknown)")
    )
    kinds = list(dict.fromkeys(str(row["kind"]) for row in rows))
    base = alt.Chart(alt.NamedData("rows")).mark_line(interpolate="step-after", strokeWidth=1.4, clip=True)
    drawn = base.encode(
        x=x, y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=True)),
        color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=list(PALETTE)), legend=legend(kinds)),
    )  # fmt: skip
    rule = alt.Chart(alt.NamedData("required")).mark_rule(strokeDash=[5, 3]).encode(y="required:Q")
    dot = alt.Chart(alt.NamedData("peak")).mark_point(size=70, filled=True).encode(x=x, y="value:Q")
    chart = alt.layer(drawn, rule, dot).properties(title=heading(title))
    label = f"{title} over time: at most {amount_text(amount, names[0], amount.most)}"
    return panel(
        label, chart, {"rows": rows, "required": required, "peak": peak}, HEIGHT,
        ("rows", {"at": "from", "kind": "what", "value": title}),
    )  # fmt: skip


def _rows(curve: Curve, name: str, factor: float, zone: tzinfo, start: float | None) -> Iterator[dict[str, Any]]:
    kind = _SERIES["read" if name.startswith("read") else "write" if name.startswith("write") else ""]
    if "iops" not in name and "bandwidth" not in name:
        kind = LABELS[name]
    starts, ends, values = curve.starts, curve.ends, curve.values[name]
    for first, last, value in _thinned(starts, ends, values):
        if value == value:
            yield {"at": _label(first, zone, start), "kind": kind, "value": value * factor}
            end = last, value
    # A step is drawn up to the next point: the last one needs an end.
    yield {"at": _label(end[0], zone, start), "kind": kind, "value": end[1] * factor}


def _thinned(starts: Any, ends: Any, values: Any) -> Iterator[tuple[float, float, float]]:
    step = max(1, -(-len(starts) // MOST_POINTS))
    for at in range(0, len(starts), step):
        some = values[at : at + step]
        high = float(np.nanmax(some)) if not np.isnan(some).all() else float("nan")
        yield float(starts[at]), float(ends[min(at + step, len(ends)) - 1]), high


def _label(at: float, zone: tzinfo, start: float | None) -> str | float:
    """Wall clock time of the zone, since a browser would show its own."""
    if start is None:
        return round(float(at), 3)
    return datetime.fromtimestamp(at, zone).replace(tzinfo=None).isoformat(timespec="seconds")

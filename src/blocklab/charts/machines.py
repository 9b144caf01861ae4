"""Each ratio on each machine, and on all of them together: a forest plot for each ratio."""

from __future__ import annotations

from typing import Any

import altair as alt

from blocklab.charts.base import BASELINE, PALETTE, PAPER, Chart, Panel, named, numbers, rows_of, text, titled
from blocklab.stats.analysis import Analysis
from blocklab.stats.effects import Effect, effects
from blocklab.stats.format import percent

# More panels than this are a page to scroll through; the table has the rest.
MOST = 12
ROW = 26
# No panel shows less than this part of the ratio on either side.
LEAST = 0.05
_ONE, _APART, _ALL, _NEXT = "one machine", "kept apart", "all machines", "a further machine"
_COLOURS = {_ONE: PALETTE[0], _APART: BASELINE, _ALL: PALETTE[1], _NEXT: PALETTE[1]}
_TABLE = {
    "item": "machine", "ratio": "ratio", "least": "95 % interval from", "most": "to", "builds": "builds",
    "apart": "kept apart",
}  # fmt: skip


def forests(analysis: Analysis) -> Chart | None:
    """A panel for each ratio, those on which the machines disagree first; None of a study of one machine."""
    found = sorted(effects(analysis), key=lambda effect: (not effect.disagree, -(effect.between or 0.0)))
    if not found:
        return None
    disagree = sum(effect.disagree for effect in found)
    tested = sum(effect.pool is not None and effect.pool.chance is not None for effect in found)
    title = f"Machines differ by more than builds do in {disagree} of {tested} ratios"
    if not disagree:
        title = "Machines differ by no more than builds do" if tested else "The ratios on each machine"
    caption = (
        f"Each dot is the share of {analysis.baseline}'s value on one machine, with the 95 % interval over its "
        "own builds (none of a single build; cut at the edge). Diamond: all machines together, with the interval "
        "that the verdict is of. Dashed: where 95 % of further machines like these are (of three or more). "
        "Hollow: kept apart, and not in the diamond."
    )
    if left := len(found) - MOST:
        caption += f" {left} more are in the table." if left > 0 else ""
    return Chart(
        "by-machine", title, caption, tuple(map(_panel, found[:MOST])), 2 if len(found) > 1 else 1, "machines"
    )


def _panel(effect: Effect) -> Panel:
    rows = _rows(effect)
    centre = [row["ratio"] for row in rows if "ratio" in row]
    whole = [end for row in rows if row["kind"] == _ALL for end in (row["low"], row["high"])]
    # Machines that agree are not to look as if they differed.
    room = max(0.25 * (max(centre) - min(centre)), LEAST * max(centre))
    # An interval of two builds may be many times as wide as all that the machines differ by.
    low = max(0.0, min(min(centre) - room, *whole) - 0.3 * room)
    high = max(max(centre) + room, *whole) + 0.3 * room
    for row in rows:
        row["low"], row["high"] = max(low, row["low"]), min(high, row["high"])
    base = rows_of("machines")
    labels = [row["item"] for row in rows]
    y = alt.Y("item:N", sort=labels, axis=alt.Axis(title=None, ticks=False, domain=False, labelLimit=160))
    x = numbers(alt.X, "ratio", "ratio", [low, high], zero=False, axis={"format": ".3~r", "domain": False})
    looks = {kind: colour for kind, colour in _COLOURS.items() if any(row["kind"] == kind for row in rows)}
    shared: dict[str, Any] = {
        "color": named(alt.Color, "kind", looks), "y": y, "tooltip": ["item:N", "said:N", "builds:N", "apart:N"],
    }  # fmt: skip

    def of(*kinds: str) -> Any:
        return base.transform_filter(alt.FieldOneOfPredicate("kind", list(kinds)))

    dot: dict[str, Any] = {"size": 70, "opacity": 1}
    one = rows_of("one").transform_filter(f"{low} < datum.one && datum.one < {high}")
    layers = [
        one.mark_rule(strokeDash=[4, 3]).encode(x=alt.X("one:Q")),
        of(_ONE, _APART).mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), **shared),
        of(_ALL).mark_rule(strokeWidth=4).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), **shared),
        of(_NEXT)
        .mark_rule(strokeWidth=2, strokeDash=[5, 3])
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), **shared),
        of(_ONE).mark_point(**dot, filled=True).encode(x=x, **shared),
        of(_APART).mark_point(**dot, filled=False, strokeWidth=2, fill=PAPER).encode(x=x, **shared),
        of(_ALL).mark_point(filled=True, opacity=1, shape="diamond", size=220).encode(x=x, **shared),
        *text(base, {"align": "center", "dy": -10, "fontSize": 11}, y=y, x=x, text=alt.Text("short:N")),
    ]
    data = {"machines": rows, "one": [{"one": 1}]}
    return titled(effect.label, _said(effect), layers, data, max(80, len(rows) * ROW), ("machines", _TABLE))


def _said(effect: Effect) -> str:
    """What a panel shows, for those who hear it."""
    if effect.between is None or effect.within is None:
        return "ratio on each machine"
    return (
        f"ratio on each machine; it differs by {percent(effect.between)} between machines and by "
        f"{percent(effect.within)} between builds"
    )


def _rows(effect: Effect) -> list[dict[str, Any]]:
    rows = [
        _row(on.machine, _APART if on.apart else _ONE, on.share.value, on.share.half, on.share.builds)
        | {"apart": "; ".join(on.apart)}
        for on in effect.each
    ]
    if effect.pool is not None:
        rows.append(_row(_ALL, _ALL, effect.share.value, effect.share.half, effect.share.builds))
    if effect.further is not None:
        low, high = effect.further
        more = {"low": low, "high": high, "least": round(low, 4), "most": round(high, 4)}
        rows.append({"item": _NEXT, "kind": _NEXT, "said": f"{low:.3f} to {high:.3f}", **more})
    return rows


def _row(item: str, kind: str, ratio: float, half: float | None, builds: int) -> dict[str, Any]:
    low, high = max(0.0, ratio - (half or 0.0)), ratio + (half or 0.0)
    found: dict[str, Any] = {
        "item": item, "kind": kind, "ratio": round(ratio, 5), "low": low, "high": high, "builds": builds,
        "short": f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}",
        "said": f"{ratio:.3f}" + (f" ± {half:.3f}" if half is not None else ""),
    }  # fmt: skip
    return found if half is None else found | {"least": round(low, 4), "most": round(high, 4)}

"""A chart of the report as a picture, for documents."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import vl_convert

from blocklab.charts.all import draw
from blocklab.charts.base import Chart, config
from blocklab.errors import StoreError
from blocklab.stats.analysis import analyse
from blocklab.store.folder import StudyFolder

# A panel's width in pixels, and what a pixel of it is on the picture.
WIDTH = 520
SCALE = 2.0


def export_png(folder: StudyFolder, chart_name: str, path: Path) -> None:
    """Write the chart that has this id on the page (``bars``, ``sweep-tpcc``) as a PNG on light paper.

    Raises ``StoreError`` when there is no such chart, or ``path`` cannot be written.
    """
    shown = {chart.name: chart for chart in draw(analyse(folder)).shown}
    if chart_name not in shown:
        raise StoreError(f"there is no chart {chart_name!r}; there are {', '.join(shown) or 'none'}")
    picture = vl_convert.vegalite_to_png(specification(shown[chart_name]), scale=SCALE, config=config(dark=False))
    try:
        path.write_bytes(picture)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error}", hint="make the folder, or check its owner"
        ) from error


def specification(chart: Chart) -> dict[str, Any]:
    """The chart's panels as one Vega-Lite specification of a fixed width, under the chart's title."""
    columns = chart.columns or min(len(chart.panels), 2)
    width = WIDTH if columns > 1 else 2 * WIDTH
    return {
        "concat": [_fixed(panel.spec, width) for panel in chart.panels],
        "columns": columns,
        "spacing": 30,
        "title": {"text": _wrapped(chart.title, 2 * WIDTH // 9), "anchor": "start", "fontSize": 16, "offset": 14},
        # Each panel keeps its own scales, as on the page.
        "resolve": {"scale": dict.fromkeys(("x", "y", "color", "shape", "strokeDash"), "independent")},
        "padding": 16,
    }  # fmt: skip


def _fixed(spec: Mapping[str, Any], width: int) -> dict[str, Any]:
    """A panel by itself: its rows in place of the names of data sets, which only a whole page may have."""
    plain = {
        key: copy.deepcopy(value) for key, value in spec.items() if key not in ("autosize", "datasets", "config")
    }
    _fill(plain, spec["datasets"], width)
    return {**plain, "width": width}


def _fill(value: Any, datasets: Mapping[str, Sequence[Any]], width: int) -> None:
    if isinstance(value, list):
        for each in value:
            _fill(each, datasets, width)
    elif isinstance(value, dict):
        name = str((value.get("data") or {}).get("name"))
        if name in datasets:
            value["data"] = {"values": datasets[name]}
        # Beside each other panels have no signal of that name.
        if isinstance(value.get("expr"), str):
            value["expr"] = re.sub(r"(?<![\w.])width\b", str(width), value["expr"])
        for key, each in value.items():
            if key != "data":
                _fill(each, datasets, width)


def _wrapped(text: str, most: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= most:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines

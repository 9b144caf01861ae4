"""What was predicted of cells that nobody measured: for the page, the terminal, and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.console import RenderableType

from blocklab.model.terminal import Text
from blocklab.report.grid import grid
from blocklab.stats.format import percent, quantity, scale, unit_of
from blocklab.stats.predicted import Fit, Told

# More of them are for the page.
MOST_ROWS = 20


class PredictionTable(msgspec.Struct, frozen=True):
    """One headline: how well the model does in a sentence, its parameters (name, value), and a row of texts for
    each predicted cell under ``columns``."""

    label: str
    said: str
    parameters: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def prediction_tables(fits: Sequence[Fit]) -> list[PredictionTable]:
    """One for each headline that was predicted."""
    return [_table(fit) for fit in fits]


def _table(fit: Fit) -> PredictionTable:
    names = tuple(dict.fromkeys(name for each in fit.cells for name in each.levels))
    factor, unit = scale(fit.unit, fit.metric)
    rows = tuple(
        (each.stack, *(each.levels.get(name, "") for name in names), f"{each.value * factor:,.0f}",
         f"{each.low * factor:,.0f} to {each.high * factor:,.0f}", "predicted")
        for each in fit.cells
    )  # fmt: skip
    parameters = tuple((_name(each), _value(each)) for each in fit.parameters)
    columns = ("stack", *names, unit or unit_of(fit.metric), "90 % interval", "")
    return PredictionTable(fit.label, said(fit), parameters, columns, rows)


def said(fit: Fit) -> str:
    """How many cells the model is made of, and how far it was off where it could be told."""
    off = "none could be held out"
    if fit.errors:
        middle, most = percent(statistics.median(fit.errors)), percent(max(fit.errors))
        off = f"off by {middle} (median) and {most} (most) in {len(fit.errors)} that were held out"
    noise = "no cell was built twice" if fit.noise is None else f"a cell differs by {percent(fit.noise)} by itself"
    return f"{fit.label}: predicted from {fit.points} measured cells; {off}; {noise}."


def _name(told: Told) -> str:
    return f"{told.name}, {told.at}" if told.at else told.name


def _value(told: Told) -> str:
    if told.unit == "s":
        return quantity(told.value, "s")
    return f"{told.value:,.0f}/s" if told.unit else f"{told.value:.2g}"


def prediction_parts(fits: Sequence[Fit]) -> Iterator[RenderableType]:
    """For the terminal; nothing of a study without predictions."""
    for table in prediction_tables(fits):
        yield Text(table.said, style="bold")
        if len(table.rows) <= MOST_ROWS:
            yield grid(table.columns, table.rows)
        else:
            yield Text(f"~: predicted, {len(table.rows)} cells; the page has their 90 % intervals.", style="dim")
        yield grid(("parameter", "value"), table.parameters)


def document(fits: Sequence[Fit]) -> dict[str, Any]:
    """For JSON: nothing of a study without predictions."""
    return {"predicted": msgspec.to_builtins(fits)} if fits else {}

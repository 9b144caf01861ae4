"""The phases of a workload as bands behind a time line, with their names or numbers above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from blocklab.charts.base import constant, rows_of
from blocklab.stats.values import Measured

# Below this share of the time line a phase's name does not fit, on a phone, above its band and a neighbour's.
NARROWEST = 0.18
LONGEST_NAME = 16
# Of more phases not even the numbers fit.
MOST_NUMBERS = 24


def numbers_of(shown: Sequence[Measured], end: float) -> dict[str, int]:
    """A number for each job where a name does not fit above its phases: the same in all of its rounds and on all
    stacks, each of which has an order of its own. None where all names fit."""
    if not any(_too_narrow(measured, end) for measured in shown):
        return {}
    names = dict.fromkeys(phase.name for measured in shown for phase in measured.run.phases)
    return {name: number for number, name in enumerate(names, 1)}


def _too_narrow(measured: Measured, end: float) -> bool:
    phases = measured.run.phases
    if len(phases) < 2:
        return False
    return any((phase.end - phase.start) / end < NARROWEST or len(phase.name) > LONGEST_NAME for phase in phases)


def phase_at(measured: Measured, time: float) -> int:
    """A number for the phase or the pause that a point lies in: no line is drawn from one to another."""
    for number, phase in enumerate(measured.run.phases):
        if time < phase.start:
            return 2 * number
        if time <= phase.end:
            return 2 * number + 1
    return 2 * len(measured.run.phases)


def is_pause(number: int) -> bool:
    """Whether such a number is that of a pause, in which a point is a part of what was before and after it."""
    return number % 2 == 0


def bands_of(measured: Measured, numbers: Mapping[str, int]) -> tuple[list[dict[str, Any]], list[Any]]:
    """The phases as bands with their names above, in turn on two heights so that neighbours do not collide."""
    start = measured.start or 0.0
    bands = [
        {"from": round(phase.start - start, 2), "to": round(phase.end - start, 2),
         "name": str(numbers.get(phase.name, phase.name)), "phase": phase.name, "row": number % 2}
        for number, phase in enumerate(measured.run.phases)
    ]  # fmt: skip
    base = rows_of("phases")
    layers: list[Any] = [
        base.mark_rect(opacity=0.09).encode(
            x=alt.X("from:Q"),
            x2=alt.X2("to:Q"),
            y=constant(alt.YValue, 0),
            y2=constant(alt.Y2Value, "height"),
            tooltip=[alt.Tooltip("phase:N")],
        )
    ]
    if _named(measured):
        layers += [
            base.transform_filter(alt.datum.row == row)
            .mark_text(align="left", baseline="bottom", fontSize=10, dx=1)
            .encode(x=alt.X("from:Q"), y=constant(alt.YValue, height), text=alt.Text("name:N"))
            for row, height in ((0, -15), (1, -3))
        ]
    return bands, layers


def phases_text(shown: Sequence[Measured], numbers: Mapping[str, int]) -> str:
    """What the bands are, and which job has which number."""
    text = " Shaded bands are the phases of the workload; all panels share both axes."
    if any(_named(measured) for measured in shown) and numbers:
        text += " Phases: " + ", ".join(f"{number} = {name}" for name, number in numbers.items()) + "."
    many = [len(measured.run.phases) for measured in shown if len(measured.run.phases) > MOST_NUMBERS]
    if many:
        count = f"{min(many)}" if min(many) == max(many) else f"{min(many)} to {max(many)}"
        text += f" {count} phases are too many for numbers: the tooltip of a band has its name."
    return text


def _named(measured: Measured) -> bool:
    """Whether the phases have their names or numbers above them."""
    return 1 < len(measured.run.phases) <= MOST_NUMBERS

"""Which factor goes where in the chart of a sweep: along the axis, into lines, or into panels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from blocklab.charts.waits import Wait
from blocklab.stats.grid import label_of, number_of
from blocklab.stats.summary import Estimate
from blocklab.study.types import View

# More lines than this in one panel cannot be followed.
MOST_LINES = 8
# More panels in a chart are a catalogue.
MOST_PANELS = 12
# What is no factor of a study, and may be laid out like one.
STACK, WORKLOAD = "stack", "workload"


class Dot(msgspec.Struct, frozen=True):
    """One value of a sweep: ``levels`` by dimension, ``share`` its ratio to the baseline's.

    ``base`` marks a value of the baseline itself. ``limited`` says why the value is the lab's own rather than
    the layout's, ``share_limited`` the same of the share, which the baseline's value decides too. ``wait`` is how
    long what it counts took. ``predicted``: it was not measured.
    """

    stack: str
    levels: Mapping[str, str]
    value: float
    half: float | None
    share: Estimate | None
    base: bool
    limited: str = ""
    share_limited: str = ""
    wait: Wait | None = None
    predicted: bool = False

    def level(self, name: str) -> str | None:
        """Its level of a dimension; None where that makes no difference to it."""
        return self.stack if name == STACK else self.levels.get(name)

    def words(self) -> str:
        """``iodepth=8, bs=4k``: its levels."""
        return ", ".join(f"{name}={level}" for name, level in self.levels.items())

    def row(self, limited: str) -> dict[str, Any]:
        """What a chart's row has of each dot, for the tooltip and the table; ``limited`` becomes its note."""
        return {
            "stack": self.stack,
            **{f"of {name}": level for name, level in self.levels.items()},
            "what": " ".join([self.stack, *(f"{name}={level}" for name, level in self.levels.items())]),
            **({"note": limited} if limited else {}),
        }


class Group(msgspec.Struct, frozen=True):
    """The dots of one panel under its heading. All panels of a chart share colours and the x axis, for which
    a panel knows ``everything`` they show, and some of them the y axis: those that show ``beside``."""

    title: str
    dots: Sequence[Dot]
    everything: Sequence[Dot]
    beside: Sequence[Dot]


class Scale(msgspec.Struct, frozen=True):
    """An axis of levels from left to right: where each stands, whether they are numbers, and whether the axis is
    logarithmic."""

    name: str
    levels: tuple[str, ...]
    places: tuple[float, ...]
    measured: bool
    log: bool = False

    def at(self, level: str) -> float:
        """Where a level stands."""
        return self.places[self.levels.index(level)]


class Arrangement(msgspec.Struct, frozen=True):
    """The axis, and the dimensions that become lines and panels (``stack`` may be one of the latter).

    ``color``: the dimension that the colours tell; empty where each line may have its own.
    """

    x: Scale
    lines: tuple[str, ...]
    panels: tuple[str, ...]
    color: str = ""

    def line(self, dot: Dot) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What tells a dot's line from the others of its panel."""
        stack = "" if STACK in (*self.panels, self.x.name) else dot.stack
        return stack, tuple((name, dot.levels[name]) for name in self.lines if name in dot.levels)

    def panel_of(self, dot: Dot) -> dict[str, str]:
        """The levels that choose a dot's panel; it is in all panels for what it lacks."""
        own = {STACK: dot.stack, **dot.levels}
        return {name: own[name] for name in self.panels if name in own}


def scale_of(name: str, levels: Sequence[str], numbers: Mapping[str, float] | None = None) -> Scale:
    """Powers of two of one another on a logarithmic scale, the least first; all else side by side, in the order
    given."""
    known = [numbers.get(level) if numbers else number_of(level) for level in levels]
    values = [value for value in known if value is not None]
    measured = len(values) == len(levels)
    if measured and min(values) > 0 and len(values) > 1:
        logs = [math.log2(value / min(values)) for value in values]
        if all(abs(log - round(log)) < 1e-9 for log in logs):
            ranked = sorted(zip(logs, levels, strict=True))
            return Scale(name, tuple(level for _, level in ranked), tuple(at for at, _ in ranked), True, True)
    return Scale(name, tuple(levels), tuple(float(at) for at in range(len(levels))), measured)


def plan(
    dots: Sequence[Dot],
    dimensions: Mapping[str, Sequence[str]],
    *,
    x: str = "",
    to_panels: Sequence[str] = (),
    view: View | None = None,
) -> Arrangement:
    """The axis is that of ``view`` or ``x``, or else the dimension with the most levels that is a number or a
    quantity. Of the others so many become panels, those of ``to_panels`` first and then those with the fewest
    levels, that what is left is few enough lines. What ``view`` names and ``dimensions`` lack is left out."""
    known = {**dimensions, STACK: tuple(dict.fromkeys(dot.stack for dot in dots))}
    color, facet = (name if name in known else "" for name in ((view.color, view.facet) if view else ("", "")))
    along = _along(dimensions, x, view)
    color, facet = (name if name != along else "" for name in (color, facet))
    fixed = [facet] if facet else []
    rest = [name for name in dimensions if name not in (along, facet)]
    order = [name for name in to_panels if name in rest or name == STACK]
    order += sorted((name for name in rest if name not in order), key=lambda name: len(dimensions[name]))
    order += [] if STACK in order else [STACK]
    # What somebody wants to tell by colour stays in lines.
    order = [name for name in order if name not in (along, facet, color)]

    def laid(moved: Sequence[str]) -> Arrangement:
        lines = tuple(name for name in rest if name not in moved)
        return Arrangement(scale_of(along, known[along]), lines, (*fixed, *moved), color)

    made = laid(())
    for count in range(1, len(order) + 1):
        if len({made.line(dot) for dot in dots}) <= MOST_LINES:
            break
        moved = order[:count]
        if moved == [STACK] and len(known[STACK]) == 1:
            continue
        made = laid(moved)
    return made


def _along(dimensions: Mapping[str, Sequence[str]], x: str, view: View | None) -> str:
    taken = {view.color, view.facet} if view else set()
    if view and view.x and (view.x in dimensions or view.x == STACK):
        return view.x
    if x and x not in taken:
        return x
    free = [name for name in dimensions if name not in taken]
    if not free:
        return next(iter(dimensions)) if STACK in taken and dimensions else STACK
    numeric = [name for name in free if all(number_of(level) is not None for level in dimensions[name])]
    return max(numeric or free, key=lambda name: len(dimensions[name]))


def columns(dimensions: Iterable[str], **fields: str) -> dict[str, str]:
    """The columns of the table behind a panel: what ``Dot.row`` has, and ``fields`` with their titles."""
    return {STACK: STACK, **{f"of {name}": name for name in dimensions}, **fields, "note": "note"}


def groups(
    made: Arrangement, dots: Sequence[Dot], dimensions: Mapping[str, Sequence[str]], own_axis: Sequence[str] = ()
) -> tuple[list[Group], int]:
    """The first panels, and how many more there are. Other levels of ``own_axis`` have another y axis."""
    chosen = panels(made, dots, dimensions)
    shown = [(levels, [dot for dot in dots if belongs(made, dot, levels)]) for levels in chosen[:MOST_PANELS]]
    axes: dict[tuple[str | None, ...], list[Dot]] = {}
    everything = [dot for _, mine in shown for dot in mine]
    found = []
    for levels, mine in shown:
        title = label_of(levels.get(STACK, ""), {n: at for n, at in levels.items() if n != STACK}).strip()
        own = tuple(mine[0].levels.get(name) for name in own_axis if name in made.panels)
        beside = axes.setdefault(own, [])
        beside += mine
        found.append(Group(title, mine, everything, beside))
    return found, len(chosen) - len(shown)


def panels(
    made: Arrangement, dots: Sequence[Dot], dimensions: Mapping[str, Sequence[str]]
) -> list[dict[str, str]]:
    """The levels of each panel that has dots, the last dimension's changing fastest; one without any levels."""
    known = {**dimensions, STACK: list(dict.fromkeys(dot.stack for dot in dots))}
    # The stacks stand side by side.
    names = sorted(made.panels, key=lambda name: name == STACK)
    chosen = (
        dict(zip(names, levels, strict=True)) for levels in itertools.product(*(known[name] for name in names))
    )
    return [levels for levels in chosen if any(belongs(made, dot, levels) for dot in dots)]


def belongs(made: Arrangement, dot: Dot, levels: Mapping[str, str]) -> bool:
    """Whether a dot is in the panel of these levels."""
    return made.panel_of(dot).items() <= levels.items()


def line_label(line: tuple[str, tuple[tuple[str, str], ...]], *, short: bool) -> str:
    """``mirror rtt=10ms``, or without the stack where it is clear."""
    stack, levels = line
    return (
        label_of(stack, dict(levels)) if stack and not (short and levels) else label_of("", dict(levels)).strip()
    )

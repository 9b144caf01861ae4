"""Which factor goes where in the chart of a sweep: along the axis, into lines, or into panels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import msgspec

from blocklab.model.units import QUANTITIES
from blocklab.stats.grid import label_of
from blocklab.stats.summary import Estimate

# More lines than this in one panel cannot be followed.
MOST_LINES = 8
STACK = "stack"


class Dot(msgspec.Struct, frozen=True):
    """One figure of a sweep: ``levels`` by dimension, ``share`` its ratio to the baseline's.

    ``base`` marks a figure of the baseline itself. ``limited`` says why the figure is the lab's own rather than
    the layout's, ``share_limited`` the same of the share, which the baseline's figure decides too.
    """

    stack: str
    levels: Mapping[str, str]
    value: float
    half: float | None
    share: Estimate | None
    base: bool
    limited: str = ""
    share_limited: str = ""


class Scale(msgspec.Struct, frozen=True):
    """An axis of levels: where each stands, whether they are numbers, and whether the axis is logarithmic."""

    name: str
    levels: tuple[str, ...]
    places: tuple[float, ...]
    measured: bool
    log: bool = False

    def at(self, level: str) -> float:
        """Where a level stands."""
        return self.places[self.levels.index(level)]


class Plan(msgspec.Struct, frozen=True):
    """The axis, and the dimensions that become lines and panels (``stack`` may be one of the latter)."""

    x: Scale
    lines: tuple[str, ...]
    panels: tuple[str, ...]

    def line(self, dot: Dot) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What tells a dot's line from the others of its panel."""
        stack = "" if STACK in self.panels else dot.stack
        return stack, tuple((name, dot.levels[name]) for name in self.lines if name in dot.levels)

    def panel_of(self, dot: Dot) -> dict[str, str]:
        """The levels that choose a dot's panel; it is in all panels for what it lacks."""
        own = {STACK: dot.stack, **dot.levels}
        return {name: own[name] for name in self.panels if name in own}


def number_of(level: str) -> float | None:
    """``16``, ``0.5ms``, ``64KiB`` as a number in its base unit; None for a name."""
    try:
        return float(level)
    except ValueError:
        pass
    for kind in QUANTITIES:
        try:
            return float(kind(level))
        except ValueError:
            continue
    return None


def scale_of(name: str, levels: Sequence[str], numbers: Mapping[str, float] | None = None) -> Scale:
    """Powers of two of one another on a logarithmic scale; all else side by side, in the order given."""
    known = [numbers.get(level) if numbers else number_of(level) for level in levels]
    values = [value for value in known if value is not None]
    measured = len(values) == len(levels)
    if measured and min(values) > 0 and len(values) > 1:
        logs = [math.log2(value / min(values)) for value in values]
        if all(abs(log - round(log)) < 1e-9 for log in logs):
            return Scale(name, tuple(levels), tuple(logs), True, True)
    return Scale(name, tuple(levels), tuple(float(at) for at in range(len(levels))), measured)


def plan(
    dots: Sequence[Dot], dimensions: Mapping[str, Sequence[str]], *, x: str = "", to_panels: Sequence[str] = ()
) -> Plan:
    """The axis is ``x``, or else the dimension with the most levels that is a number or a quantity. Of the others
    so many become panels, those of ``to_panels`` first and then those with the fewest levels, that what is left is
    few enough lines."""
    counted = {name: len(levels) for name, levels in dimensions.items()}
    numeric = [
        name for name, levels in dimensions.items() if all(number_of(level) is not None for level in levels)
    ]
    along = x or max(numeric or list(counted), key=lambda name: counted[name])
    rest = [name for name in dimensions if name != along]
    order = [name for name in to_panels if name in rest or name == STACK]
    order += sorted((name for name in rest if name not in order), key=lambda name: counted[name])
    order += [] if STACK in order else [STACK]
    made = Plan(scale_of(along, dimensions[along]), tuple(rest), ())
    for count in range(1, len(order) + 1):
        if len({made.line(dot) for dot in dots}) <= MOST_LINES:
            break
        moved = order[:count]
        if moved == [STACK] and len({dot.stack for dot in dots}) == 1:
            continue
        made = Plan(made.x, tuple(name for name in rest if name not in moved), tuple(moved))
    return made


def panels(made: Plan, dots: Sequence[Dot], dimensions: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """The levels of each panel that has dots, the last dimension's changing fastest; one without any levels."""
    known = {**dimensions, STACK: list(dict.fromkeys(dot.stack for dot in dots))}
    # The stacks stand side by side.
    names = sorted(made.panels, key=lambda name: name == STACK)
    chosen = (
        dict(zip(names, levels, strict=True)) for levels in itertools.product(*(known[name] for name in names))
    )
    return [levels for levels in chosen if any(belongs(made, dot, levels) for dot in dots)]


def belongs(made: Plan, dot: Dot, levels: Mapping[str, str]) -> bool:
    """Whether a dot is in the panel of these levels."""
    return made.panel_of(dot).items() <= levels.items()


def line_label(line: tuple[str, tuple[tuple[str, str], ...]], *, short: bool) -> str:
    """``mirror rtt=10ms``, or without the stack where it is clear."""
    stack, levels = line
    return (
        label_of(stack, dict(levels)) if stack and not (short and levels) else label_of("", dict(levels)).strip()
    )

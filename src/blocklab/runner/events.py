"""What happens while a study is measured: one union for all who tell of it and all who listen.

Each event is a document of JSON, by which one process tells another; what ``--events`` prints is made of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from blocklab.model.drill import Drill
from blocklab.model.metrics import quoted
from blocklab.model.sample import Parsed, Sample
from blocklab.runner.estimate import Span
from blocklab.runner.strikes import Count
from blocklab.store.run import Outcome, Rate, Status, Stopped
from blocklab.study.types import Cell


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """Something that happened. ``worker``: on which of several machines; ``unit``: in which part of the study that
    it measures."""

    worker: str = ""
    unit: str = ""


# -- of one lab ---------------------------------------------------------------------------------------------------


class Preparing(Event, frozen=True, tag="preparing"):
    """Before the first cell something takes a while, or fails without stopping the study."""

    text: str
    failed: bool = False


class OnStack(Event, frozen=True, tag="stack"):
    """A stack is being built, or stands, or is gone."""

    stack: str
    text: str


class Begun(Event, frozen=True, tag="cell"):
    """A cell begins, the ``number``-th ``of`` so many. ``left``: the time that they take from now on."""

    key: str
    label: str
    number: int
    of: int
    left: Span | None = None


class Interim(Event, frozen=True, tag="rates"):
    """A phase of a cell's load is under way: its rates after so many rounds (0 in one long run); none before the
    first."""

    key: str
    phase: str
    rounds: int
    rates: tuple[Rate, ...]


class Counted(Event, frozen=True, tag="counters"):
    """A drill's client has counted on: several times a second."""

    key: str
    count: Count


class Done(Event, frozen=True, tag="done"):
    """A cell is stored. ``status`` to ``hint`` as in ``store.run.Outcome``; ``values``: those that users quote."""

    key: str
    label: str
    status: Status
    seconds: float
    error: str
    hint: str
    values: tuple[Sample, ...]
    stops: tuple[Stopped, ...]

    @classmethod
    def of(cls, cell: Cell, outcome: Outcome, parsed: Parsed, stops: Sequence[Stopped]) -> Done:
        """How a cell ended, and what was measured."""
        # JSON knows no infinity.
        values = [each for each in parsed.samples if each.time is None and math.isfinite(each.value)]
        shown = quoted(each.metric for each in values)
        return cls(
            cell.key, cell.label, outcome.status, outcome.seconds, outcome.error, outcome.hint,
            tuple(each for each in values if each.metric in shown), tuple(stops),
        )  # fmt: skip


class Judged(Event, frozen=True, tag="drilled"):
    """A cell was a drill. ``label``: that of its repeats together."""

    key: str
    label: str
    drill: Drill


class Warned(Event, frozen=True, tag="warning"):
    """Something that does not stop the study."""

    text: str


# -- of many machines ---------------------------------------------------------------------------------------------


class Connected(Event, frozen=True, tag="scheduler"):
    """The scheduler answers, and has so many workers. ``dashboard``: a link, empty where there is none."""

    address: str
    dashboard: str
    workers: int


class Disconnected(Event, frozen=True, tag="scheduler lost"):
    """The scheduler is gone, and waited for, so many seconds at most."""

    address: str
    patience: float


class Joined(Event, frozen=True, tag="worker"):
    """A worker that fits came."""

    machine: str
    address: str


class Refused(Event, frozen=True, tag="refused"):
    """A worker came that does not fit."""

    why: str


class Assigned(Event, frozen=True, tag="unit"):
    """A worker begins a unit, of which so many cells are to be measured."""

    cells: int


class Kept(Event, frozen=True, tag="kept"):
    """A unit's runs have arrived."""

    cells: int
    seconds: float


class Lost(Event, frozen=True, tag="lost"):
    """A unit has to be done again."""

    why: str


class LeftOut(Event, frozen=True, tag="left out"):
    """A machine gets no more units."""

    why: str


# -- of a lab's process, to who started it ------------------------------------------------------------------------


class Free(Event, frozen=True, tag="free"):
    """It waits for cells."""


class Failed(Event, frozen=True, tag="failed"):
    """Why it ends."""

    message: str
    hint: str


AnyEvent: TypeAlias = (
    Preparing | OnStack | Begun | Interim | Counted | Done | Judged | Warned
    | Connected | Disconnected | Joined | Refused | Assigned | Kept | Lost | LeftOut
    | Free | Failed
)  # fmt: skip
Listener: TypeAlias = Callable[[AnyEvent], None]

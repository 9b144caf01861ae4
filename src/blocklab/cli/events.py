"""Events of a study as lines of JSON; docs/many-machines.md lists them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import msgspec

from blocklab.cli.progress import headline, sureness
from blocklab.cli.remaining import Remaining
from blocklab.model.drill import Drill
from blocklab.model.sample import Parsed
from blocklab.model.terminal import json_for
from blocklab.runner.run import Progress
from blocklab.runner.strikes import Count
from blocklab.store.run import Outcome, Rate, Stopped
from blocklab.study.types import Cell

Event = Mapping[str, Any]
Listener = Callable[[Event], None]


def printed(stream: IO[str]) -> Listener:
    """Writes each event to a stream at once, with the ``time`` in seconds since the epoch."""

    def listen(event: Event) -> None:
        text = msgspec.json.encode({"time": round(time.time(), 3), **event}).decode()
        stream.write(json_for(stream, text) + "\n")
        stream.flush()

    return listen


class Events:
    """Progress as events."""

    def __init__(self, tell: Listener, remaining: Remaining) -> None:
        self._tell = tell
        self._remaining = remaining

    def stack(self, name: str, text: str) -> None:
        """``stack``."""
        self._tell({"event": "stack", "stack": name, "text": text})

    def cell(self, number: int, count: int, cell: Cell) -> None:
        """``cell``, with the seconds that are left of all."""
        left = self._remaining.left(cell.key)
        self._tell({"event": "cell", "key": cell.key, "label": cell.label, "number": number, "of": count,
                    "left": [left.least, left.likely, left.most]})  # fmt: skip

    def interim(self, cell: Cell, phase: str, rounds: int, rates: Sequence[Rate]) -> None:
        """``rates``."""
        known = {rate.metric: [rate.value, rate.half] for rate in rates}
        self._tell({"event": "rates", "key": cell.key, "phase": phase, "rounds": rounds, "rates": known})

    def counters(self, cell: Cell, count: Count) -> None:
        """Many times a second: told when the drill is over."""

    def done(self, cell: Cell, outcome: Outcome, parsed: Parsed, stops: Sequence[Stopped]) -> None:
        """``done``: a cell is stored."""
        self._remaining.finished(cell.key, outcome, stops)
        self._tell({"event": "done", "key": cell.key, "label": cell.label, "status": outcome.status,
                    "seconds": round(outcome.seconds, 3), "error": outcome.error, "hint": outcome.hint,
                    "said": (sureness(stops) or headline(parsed)).removeprefix("; ")})  # fmt: skip

    def drilled(self, cell: Cell, drill: Drill) -> None:
        """``drilled``, with the verdict."""
        self._tell({"event": "drilled", "key": cell.key, "verdict": drill.verdict.status})

    def warning(self, text: str) -> None:
        """``warning``."""
        self._tell({"event": "warning", "text": text})


class Both:
    """Progress that two are told of."""

    def __init__(self, *those: Progress) -> None:
        self._those = those

    def stack(self, name: str, text: str) -> None:
        """A stack is being built, or stands, or is gone."""
        for each in self._those:
            each.stack(name, text)

    def cell(self, number: int, count: int, cell: Cell) -> None:
        """A cell begins."""
        for each in self._those:
            each.cell(number, count, cell)

    def interim(self, cell: Cell, phase: str, rounds: int, rates: Sequence[Rate]) -> None:
        """A phase is under way."""
        for each in self._those:
            each.interim(cell, phase, rounds, rates)

    def counters(self, cell: Cell, count: Count) -> None:
        """A drill's client has counted on."""
        for each in self._those:
            each.counters(cell, count)

    def done(self, cell: Cell, outcome: Outcome, parsed: Parsed, stops: Sequence[Stopped]) -> None:
        """A cell is stored."""
        for each in self._those:
            each.done(cell, outcome, parsed, stops)

    def drilled(self, cell: Cell, drill: Drill) -> None:
        """A cell was a drill."""
        for each in self._those:
            each.drilled(cell, drill)

    def warning(self, text: str) -> None:
        """Something that does not stop the study."""
        for each in self._those:
            each.warning(text)

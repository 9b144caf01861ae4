"""What is shown of a study on many machines."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from rich.console import RenderableType

from blocklab.campaign.remaining import Remaining
from blocklab.cli.live import bar_and_lines, clock_text
from blocklab.cli.progress import STYLES, Lines, said, several, stack_text
from blocklab.model.terminal import Console
from blocklab.runner import events
from blocklab.runner.estimate import Span, between, costs
from blocklab.study.types import Cell, Study
from blocklab.study.units import units

# What scrolls of an event: text and style.
SAID: dict[type[events.Event], tuple[str, str]] = {
    events.Disconnected: ("the scheduler {address} is gone; waiting for it, {patience:.0f} s at most", "yellow"),
    events.Joined: ("{worker}: {machine}", ""),
    events.Refused: ("{worker} is not used: {why}", "yellow"),
    events.Assigned: ("{worker}: {unit} begins; cells: {cells}", ""),
    events.Kept: ("{worker}: {unit} is stored; cells: {cells}", ""),
    events.Lost: ("{worker}: {unit} has to be done again: {why}", "yellow"),
    events.LeftOut: ("{worker} failed twice, so it is left out: {why}", "bold yellow"),
    events.Warned: ("{worker}: warning: {text}", "yellow"),
}


class At(msgspec.Struct):
    """What is known of a worker: its unit, what it does in it, how many of its cells are done, and the time that
    is left, since when."""

    unit: str = ""
    doing: str = ""
    cells: int = 0
    done: int = 0
    left: Span | None = None
    since: float = 0.0

    @property
    def rest(self) -> Span | None:
        """What is left of it by now."""
        return None if self.left is None else self.left.after(time.monotonic() - self.since)


class Machines(Lines):
    """Events of all workers as lines that scroll, and, on a terminal, a line for each worker below them."""

    def __init__(self, console: Console, study: Study, todo: Sequence[Cell]) -> None:
        super().__init__(console)
        self._study = study
        self._costs = {unit.label: Remaining(costs(study, unit.cells)).left() for unit in units(todo)}
        self._total = len(todo)
        self._finished: set[str] = set()
        self._workers: dict[str, At] = {}

    def __call__(self, event: events.AnyEvent) -> None:
        """Show it."""
        if scrolls := _scrolls(event):
            self._line(*scrolls)
        match event:
            case events.Joined():
                self._workers.setdefault(event.worker, At())
            case events.Refused():
                self._workers.pop(event.worker, None)
            case _ if (at := self._workers.get(event.worker)) is not None:
                self._moved(event, at)

    def _moved(self, event: events.AnyEvent, at: At) -> None:
        match event:
            case events.Assigned():
                at.unit, at.cells, at.done, at.doing = event.unit, event.cells, 0, "starting"
                at.left, at.since = self._costs.get(event.unit), time.monotonic()
            case events.Begun():
                at.doing, at.left, at.since = event.label, event.left, time.monotonic()
            case events.OnStack():
                at.doing = stack_text(event)
            case events.Done():
                at.done += 1
                self._finished.add(event.key)
            case events.Kept() | events.Lost():
                at.unit, at.doing, at.left, at.cells, at.done = "", "", None, 0, 0
                if isinstance(event, events.Kept):
                    self._costs.pop(event.unit, None)

    def picture(self) -> RenderableType:
        """The lines at the bottom: all of it, and each worker."""
        passed, done = time.monotonic() - self._started, len(self._finished)
        # Drawn in a thread of Rich's, while events come.
        workers = [(self._of(name, at), "") for name, at in list(self._workers.items())]
        name, total = self._study.name, self._total
        whole = f"{name}: {clock_text(passed)} gone, left: {self._left()}; {done} of {total} cells"
        return bar_and_lines(self._console, max(total, 1), done, [(whole, "bold"), *workers])

    def _of(self, name: str, at: At) -> str:
        if not at.unit:
            return f"  {name}: waits"
        left = at.rest
        text = "" if left is None else f", left: {between(left.least, left.most)}"
        return f"  {name}: {at.unit}, {at.done} of {at.cells} cells{text}: {at.doing}"

    def _left(self) -> str:
        """Of all: what the workers have, and their share of what waits."""
        at_work = list(self._workers.values())
        under_way = {at.unit for at in at_work}
        waits = [span for unit, span in list(self._costs.items()) if unit not in under_way]
        rests = [rest for at in at_work if (rest := at.rest) is not None]
        count = max(1, len(at_work))
        # Nobody is done before the slowest.
        least = max([sum(each.least for each in (*rests, *waits)) / count, *(each.least for each in rests)])
        most = max([sum(each.most for each in (*rests, *waits)) / count, *(each.most for each in rests)])
        return between(least, most)


def _scrolls(event: events.AnyEvent) -> tuple[str, str] | None:
    """Text and style; None where nothing scrolls."""
    match event:
        case events.Done():
            error = f"\n{event.error}" if event.error else ""
            text = f"{event.worker}:   {event.label}: {event.status} in {event.seconds:.0f} s{said(event)}{error}"
            return text, STYLES[event.status]
        case events.Connected():
            link = f"; dashboard: {event.dashboard}" if event.dashboard else ""
            return f"scheduler {event.address}: {several(event.workers, 'worker')}{link}", ""
    if type(event) not in SAID:
        return None
    text, style = SAID[type(event)]
    return text.format(**msgspec.structs.asdict(event)), style

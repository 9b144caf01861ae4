"""What a run says while it goes: one line for each event, on standard error."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from blocklab.model.drill import Drill
from blocklab.model.sample import Sample
from blocklab.model.terminal import Console, Text
from blocklab.report.stops import relative
from blocklab.runner.events import AnyEvent, Begun, Done, Judged, OnStack, Preparing, Warned
from blocklab.stats.drills import tally
from blocklab.stats.format import number, scale, unit_of
from blocklab.store.run import Rate, Stopped

STYLES = {"ok": "green", "failed": "bold red", "invalid": "bold yellow", "suspect": "bold yellow"}
# What a shell reports of a program that Ctrl-C ended.
INTERRUPTED = 130
# The exit code where what was asked could not be decided: neither yes nor no.
UNDECIDED = 3
# Of a workload with more phases than this a line says only how many ended how.
MOST_PHASES = 4


class Lines:
    """Events as plain lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._drills: dict[str, list[Drill]] = {}

    def __call__(self, event: AnyEvent) -> None:
        """Print what there is to say of it."""
        match event:
            case Preparing():
                self._console.print(event.text, style="yellow" if event.failed else None, soft_wrap=True)
            case OnStack():
                self._line(stack_text(event))
            case Begun():
                left = f"; left: {event.left.text}" if event.left is not None and event.left.most else ""
                self._line(f"{place_text(event)}{left}")
            case Done():
                self._done(event)
            case Judged():
                self._line(f"  {self._tallied(event)}")
            case Warned():
                self._line(f"warning: {event.text}", "yellow")

    def _done(self, cell: Done) -> None:
        line = Text(f"{self._clock()}   {cell.label}: ")
        line.append(cell.status, STYLES[cell.status])
        line.append(f" in {cell.seconds:.0f} s{said(cell)}")
        self._console.print(line, soft_wrap=True)
        if cell.error:
            self._console.print(Text(f"{cell.error}\n  hint: {cell.hint}" if cell.hint else cell.error))

    def _tallied(self, cell: Judged) -> str:
        """What is known so far of drills of its kind."""
        self._drills.setdefault(cell.label, []).append(cell.drill)
        return f"{cell.label}: {tally(self._drills[cell.label])}"

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(Text(f"{self._clock()} {text}", style), soft_wrap=True)

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._started)
        return f"{seconds // 60:02d}:{seconds % 60:02d}"


def stack_text(event: OnStack) -> str:
    """``stack local: postgres``."""
    name = event.stack
    return f"stack {name}: {event.text}"


def place_text(cell: Begun) -> str:
    """``cell 3 of 8: local/io``."""
    count = cell.of
    return f"cell {cell.number} of {count}: {cell.label}"


def said(cell: Done) -> str:
    """What was measured, in a few words."""
    return sureness(cell.stops) or headline(cell.values)


def headline(values: Sequence[Sample]) -> str:
    """A cell's values in a few words, e.g. ``; rand-write-4k 1799 write IOPS``."""
    words = [
        f"{each.phase} {each.value * scale(each.unit)[0]:.0f} {unit_of(each.metric)}".strip() for each in values
    ]
    return "; " + ", ".join(words) if words else ""


def sureness(stops: Sequence[Stopped]) -> str:
    """Why a cell's phases were measured no longer, with their rates: ``; settled after 15 s: 1204 TPS ± 1.3 %``,
    or of many phases how many of each."""
    good = [each for each in stops if each.reason != "failed"]
    if len(good) > MOST_PHASES:
        counts = Counter(each.reason for each in good)
        seconds = sum(each.seconds for each in good)
        said = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
        return f"; {len(good)} phases: {said}, {seconds / len(good):.0f} s each"
    words = []
    for each in good:
        rates = ", ".join(rate_text(rate) for rate in each.rates)
        why = f" ({each.why})" if each.why else ""
        words.append(f"{each.phase} {each.reason} after {each.seconds:.0f} s{why}: {rates}".strip())
    return "; " + "; ".join(words) if words else ""


def rate_text(rate: Rate) -> str:
    """``1,204 TPS ± 1.3 %``."""
    unit = unit_of(rate.metric)
    if rate.value is None:
        return f"no {unit}"
    share = relative(rate)
    half = "" if share is None else f" ± {100 * share:.1f} %"
    return f"{number(rate.value)} {unit}{half}"


def several(count: int, what: str) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count} {what}{'s' if count > 1 else ''}"

"""What a run says while it goes: one line for each event, on standard error."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import msgspec

from blocklab.cli.remaining import Remaining
from blocklab.model.drill import Drill
from blocklab.model.metrics import quoted
from blocklab.model.sample import Parsed
from blocklab.model.terminal import Console, Text
from blocklab.report.stops import relative
from blocklab.runner.strikes import Count
from blocklab.stats.drills import tally
from blocklab.stats.format import number, scale, unit_of
from blocklab.store.run import Outcome, Rate, Stopped
from blocklab.study.types import Cell

STYLES = {"ok": "green", "failed": "bold red", "invalid": "bold yellow", "suspect": "bold yellow"}
# What a shell reports of a program that Ctrl-C ended.
INTERRUPTED = 130
# The exit code where what was asked could not be decided: neither yes nor no.
UNDECIDED = 3
# Of a workload with more phases than this a line says only how many ended how.
MOST_PHASES = 4


class Lines:
    """Progress as plain lines."""

    def __init__(self, console: Console, remaining: Remaining) -> None:
        self._console = console
        self._remaining = remaining
        self._started = time.monotonic()
        self._drills: dict[str, list[Drill]] = {}

    def stack(self, name: str, text: str) -> None:
        """A stack is being built or stands."""
        self._line(f"stack {name}: {text}")

    def cell(self, number: int, count: int, cell: Cell) -> None:
        """A cell begins."""
        left = self._remaining.left(cell.key)
        self._line(f"cell {number} of {count}: {cell.label}{f'; left: {left.text}' if left.most else ''}")

    def interim(self, cell: Cell, phase: str, rounds: int, rates: Sequence[Rate]) -> None:
        """Told when the cell is done."""

    def counters(self, cell: Cell, count: Count) -> None:
        """Told when the drill is over."""

    def done(self, cell: Cell, outcome: Outcome, parsed: Parsed, stops: Sequence[Stopped]) -> None:
        """A cell is stored."""
        self._remaining.finished(cell.key, outcome, stops)
        line = Text(f"{self._clock()}   {cell.label}: ")
        line.append(outcome.status, STYLES[outcome.status])
        line.append(f" in {outcome.seconds:.0f} s{sureness(stops) or headline(parsed)}")
        self._console.print(line, soft_wrap=True)
        if outcome.error:
            self._console.print(
                Text(f"{outcome.error}\n  hint: {outcome.hint}" if outcome.hint else outcome.error)
            )

    def drilled(self, cell: Cell, drill: Drill) -> None:
        """A cell was a drill: what is known of its kind so far."""
        self._line(f"  {self._tallied(cell, drill)}")

    def warning(self, text: str) -> None:
        """Something that does not stop the study."""
        self._console.print(Text(f"{self._clock()} warning: {text}", "yellow"), soft_wrap=True)

    def _tallied(self, cell: Cell, drill: Drill) -> str:
        kind = msgspec.structs.replace(cell, repeat=0).label
        self._drills.setdefault(kind, []).append(drill)
        return f"{kind}: {tally(self._drills[kind])}"

    def _line(self, text: str) -> None:
        self._console.print(Text(f"{self._clock()} {text}"), soft_wrap=True)

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._started)
        return f"{seconds // 60:02d}:{seconds % 60:02d}"


def headline(parsed: Parsed) -> str:
    """The values of a cell in a few words, e.g. ``; rand-write-4k 1799 write IOPS``."""
    values = [sample for sample in parsed.samples if sample.time is None]
    shown = quoted(sample.metric for sample in values)
    words = [
        f"{each.phase} {each.value * scale(each.unit)[0]:.0f} {unit_of(each.metric)}".strip()
        for each in values
        if each.metric in shown
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

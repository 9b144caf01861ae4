"""What a run says on a terminal: lines that stay at the bottom, and finished cells that scroll away above them.

Rich draws it twice a second from a thread of its own, so that the clock goes on while the runner waits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.live import Live as Screen
from rich.padding import Padding
from rich.progress_bar import ProgressBar

from blocklab.cli.progress import Lines, rate_text
from blocklab.cli.remaining import Remaining
from blocklab.model.drill import Drill
from blocklab.model.sample import Parsed
from blocklab.model.stop import Rule
from blocklab.model.terminal import Console, Text
from blocklab.runner.run import Progress
from blocklab.runner.strikes import Count
from blocklab.store.run import Outcome, Rate, Stopped
from blocklab.study.factors import variant
from blocklab.study.phases import rule_of
from blocklab.study.types import Cell, Study

MOST_COLUMNS = 100
# Times a second; each takes about 1 ms of a CPU.
DRAWN = 2.0


@contextlib.contextmanager
def showing(console: Console, study: Study, remaining: Remaining, *, plain: bool) -> Iterator[Progress]:
    """Progress as suits the console: drawn on a terminal, else, or if it is to be ``plain``, a line an event."""
    if plain or not console.file.isatty() or console.is_dumb_terminal:
        yield Lines(console, remaining)
        return
    live = Live(console, study, remaining)
    with live.screen():
        yield live


class Live(Lines):
    """Progress drawn on a terminal, as ``picture`` has it at each moment. What is over scrolls as plain lines."""

    def __init__(
        self, console: Console, study: Study, remaining: Remaining, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(console, remaining)
        self._study = study
        self._now = clock
        self._began = clock()
        self._place = self._interim = self._tally = self._warning = ""
        self._doing = "starting"
        self._cell: Cell | None = None
        self._rule: Rule | None = None
        self._phase: tuple[str, float] | None = None

    def screen(self) -> Screen:
        """The lines at the bottom, while it is entered."""
        return Screen(console=self._console, transient=True, get_renderable=self.picture,
                      refresh_per_second=DRAWN, redirect_stdout=False, redirect_stderr=False)  # fmt: skip

    def stack(self, name: str, text: str) -> None:
        """A stack is being built or stands."""
        self._doing, self._interim = f"stack {name}: {text}", ""

    def cell(self, number: int, count: int, cell: Cell) -> None:
        """A cell begins."""
        self._cell, self._phase = cell, None
        self._place = f"cell {number} of {count}: {cell.label}"
        self._doing, self._interim = "preparing", ""
        self._rule = rule_of(variant(self._study, cell.levels).workloads[cell.workload])

    def interim(self, cell: Cell, phase: str, rounds: int, rates: Sequence[Rate]) -> None:
        """A phase is under way, its rates known so far."""
        now = self._now()
        if self._phase is None or self._phase[0] != phase:
            self._phase = phase, now
        long = self._rule is not None and self._rule.kind == "long"
        self._doing = f"measuring{_wanted(self._rule)}"
        after = f"{now - self._phase[1]:.0f} s" if long else f"{rounds} {'round' if rounds == 1 else 'rounds'}"
        self._interim = interim_text(phase or cell.workload, rates, after)

    def counters(self, cell: Cell, count: Count) -> None:
        """A drill's client has counted on."""
        self._doing = "a client writes"
        self._interim = (
            f"{count.acknowledged:,} acknowledged, {count.refused:,} refused, {count.in_doubt:,} in doubt"
        )

    def done(self, cell: Cell, outcome: Outcome, parsed: Parsed, stops: Sequence[Stopped]) -> None:
        """A cell is stored: its line scrolls."""
        self._doing, self._interim = "stored", ""
        super().done(cell, outcome, parsed, stops)

    def drilled(self, cell: Cell, drill: Drill) -> None:
        """A cell was a drill: what is known of its kind so far."""
        self._tally = self._tallied(cell, drill)

    def warning(self, text: str) -> None:
        """Something that does not stop the study: it scrolls, and the last one stays."""
        self._warning = text
        super().warning(text)

    def picture(self) -> RenderableType:
        """The lines at the bottom: where the study is, what is being done, what is known of it."""
        now = self._now()
        passed = now - self._began
        left = self._remaining.left(self._cell.key if self._cell else "")
        width = min(self._console.width, MOST_COLUMNS)
        lines: list[RenderableType] = [
            # By itself it has no line of its own.
            Padding(ProgressBar(total=max(passed + left.middle, 1e-9), completed=passed, width=width), 0),
            _line(f"{self._study.name}: {clock_text(passed)} gone, left: {left.text}", "bold"),
        ]
        lines += [_line(text, style) for text, style in (
            (self._place, ""), (f"  {self._doing}", ""), (f"  {self._interim}" if self._interim else "", "cyan"),
            (self._tally, ""), (f"last warning: {self._warning}" if self._warning else "", "yellow"),
        ) if text]  # fmt: skip
        return Group(*lines)


def interim_text(name: str, rates: Sequence[Rate], after: str) -> str:
    """``rand-write-4k-qd1: 2,980 write IOPS ± 3.1 % after 3 rounds``."""
    known = [rate for rate in rates if rate.value is not None]
    if not known:
        return f"{name}: no value yet"
    return f"{name}: {', '.join(rate_text(rate) for rate in known)} after {after}"


def _wanted(rule: Rule | None) -> str:
    """When it ends: `` in rounds of 4 s (3 to 15, until ± 2 %)``; empty of a workload that ends by itself."""
    if rule is None:
        return ""
    if rule.kind == "fixed":
        return f" for {rule.at_most:g} s"
    until = "steady" if rule.kind == "snia" else f"± {100 * rule.half_width:g} %"
    if rule.kind == "long":
        return f" until {until}, for {rule.at_most:g} s at most"
    return f" in rounds of {rule.each:g} s ({rule.least} to {rule.most}, until {until})"


def clock_text(seconds: float) -> str:
    """``02:05``, ``1:02:05``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def _line(text: str, style: str) -> Text:
    """One line, whatever the terminal's width: what is cut off makes no second one."""
    return Text(text.replace("\n", " "), style, no_wrap=True, overflow="ellipsis")

"""What a run says on a terminal: lines that stay at the bottom, and finished cells that scroll away above them.

Rich draws it twice a second from a thread of its own, so that the clock goes on while the runner waits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.live import Live as Screen
from rich.padding import Padding
from rich.progress_bar import ProgressBar

from blocklab.campaign.remaining import Remaining
from blocklab.cli.progress import Lines, place_text, rate_text, stack_text
from blocklab.model.stop import Rule
from blocklab.model.terminal import Console, Text
from blocklab.runner.events import AnyEvent, Begun, Counted, Done, Interim, Judged, Listener, OnStack, Warned
from blocklab.store.run import Rate
from blocklab.study.factors import variant
from blocklab.study.phases import rule_of
from blocklab.study.types import Cell, Study

MOST_COLUMNS = 100
# Times a second; each takes about 1 ms of a CPU.
DRAWN = 2.0


def drawn(console: Console, *, plain: bool) -> bool:
    """Whether there is a terminal to draw on, and nobody wants ``plain`` lines."""
    return console.file.isatty() and not console.is_dumb_terminal and not plain


def screen(console: Console, picture: Callable[[], RenderableType]) -> Screen:
    """The lines at the bottom, while it is entered."""
    return Screen(console=console, transient=True, get_renderable=picture, refresh_per_second=DRAWN,
                  redirect_stdout=False, redirect_stderr=False)  # fmt: skip


def bar_and_lines(console: Console, total: float, done: float, lines: Iterable[tuple[str, str]]) -> RenderableType:
    """A bar, and lines (text and style) below it, each one line whatever the terminal's width."""
    # By itself it has no line of its own.
    bar = Padding(ProgressBar(total=total, completed=done, width=min(console.width, MOST_COLUMNS)), 0)
    texts = ((text.replace("\n", " "), style) for text, style in lines if text)
    return Group(bar, *(Text(text, style, no_wrap=True, overflow="ellipsis") for text, style in texts))


@contextlib.contextmanager
def showing(
    console: Console, study: Study, todo: Sequence[Cell], remaining: Remaining, *, plain: bool
) -> Iterator[Listener]:
    """What shows events: drawn on a terminal, else a line an event."""
    if not drawn(console, plain=plain):
        yield Lines(console)
        return
    live = Live(console, study, todo, remaining)
    with screen(console, live.picture):
        yield live


class Live(Lines):
    """Events drawn on a terminal, as ``picture`` has it at each moment. What is over scrolls as plain lines."""

    def __init__(
        self,
        console: Console,
        study: Study,
        todo: Sequence[Cell],
        remaining: Remaining,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console)
        self._study = study
        self._cells = {cell.key: cell for cell in todo}
        self._remaining = remaining
        self._now = clock
        self._began = clock()
        self._place = self._interim = self._tally = self._warning = self._key = ""
        self._doing = "starting"
        self._rule: Rule | None = None
        self._phase: tuple[str, float] | None = None

    def __call__(self, event: AnyEvent) -> None:
        """Draw what is under way, and let scroll what is over."""
        match event:
            case OnStack():
                self._doing, self._interim = stack_text(event), ""
            case Begun():
                self._begun(event)
            case Interim():
                self._measuring(event)
            case Counted(count=count):
                self._doing = "a client writes"
                self._interim = (
                    f"{count.acknowledged:,} acknowledged, {count.refused:,} refused, {count.in_doubt:,} in doubt"
                )
            case Judged():
                self._tally = self._tallied(event)
            case Done():
                self._doing, self._interim = "stored", ""
                super().__call__(event)
            case Warned():
                # It scrolls, and the last one stays.
                self._warning = event.text
                super().__call__(event)

    def _begun(self, event: Begun) -> None:
        cell = self._cells[event.key]
        self._key, self._phase = event.key, None
        self._place = place_text(event)
        self._doing, self._interim = "preparing", ""
        self._rule = rule_of(variant(self._study, cell.levels).workloads[cell.workload])

    def _measuring(self, event: Interim) -> None:
        now = self._now()
        if self._phase is None or self._phase[0] != event.phase:
            self._phase = event.phase, now
        long = self._rule is not None and self._rule.kind == "long"
        self._doing = f"measuring{_wanted(self._rule)}"
        rounds = event.rounds
        after = f"{now - self._phase[1]:.0f} s" if long else f"{rounds} {'round' if rounds == 1 else 'rounds'}"
        self._interim = interim_text(event.phase or self._cells[event.key].workload, event.rates, after)

    def picture(self) -> RenderableType:
        """The lines at the bottom: where the study is, what is being done, what is known of it."""
        passed = self._now() - self._began
        left = self._remaining.left(self._key)
        lines = (
            (f"{self._study.name}: {clock_text(passed)} gone, left: {left.text}", "bold"), (self._place, ""),
            (f"  {self._doing}", ""), (f"  {self._interim}" if self._interim else "", "cyan"),
            (self._tally, ""), (f"last warning: {self._warning}" if self._warning else "", "yellow"),
        )  # fmt: skip
        return bar_and_lines(self._console, max(passed + left.middle, 1e-9), passed, lines)


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

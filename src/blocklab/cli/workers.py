"""``--dask``: a study on many machines, and what is shown of them all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.live import Live as Screen
from rich.padding import Padding
from rich.progress_bar import ProgressBar

from blocklab.cli.carry import asked, several
from blocklab.cli.events import Event, Listener
from blocklab.cli.live import DRAWN, MOST_COLUMNS, clock_text
from blocklab.cli.progress import STYLES
from blocklab.cli.remaining import Remaining
from blocklab.errors import SetupError
from blocklab.model.terminal import Console, Text
from blocklab.runner.estimate import between, costs
from blocklab.store.folder import StudyFolder
from blocklab.study.types import Cell, Study
from blocklab.study.units import units


def spread(folder: StudyFolder, console: Console, listener: Listener | None, *, plain: bool) -> int:
    """Measure what a folder lacks on the machines that its manifest names. The number of cells that did not end
    ``ok``. Raises ``SetupError``, ``StudyError`` before anything starts."""
    try:
        from blocklab.cluster.control import Controller
        from blocklab.cluster.scheduler import opened
    except ModuleNotFoundError as error:
        raise SetupError(f"--dask needs {error.name}", hint="pip install 'blocklab[dask]'") from error
    manifest = folder.manifest()
    assert manifest.workers is not None
    _, todo = asked(folder, manifest)
    shown = Machines(console, manifest.study, todo)

    def tell(event: Mapping[str, Any]) -> None:
        shown.take(event)
        if listener is not None:
            listener(event)

    drawn = console.file.isatty() and not plain and not console.is_dumb_terminal
    with opened(manifest.workers) as place, shown.screen() if drawn else contextlib.nullcontext():
        return Controller(folder, place, tell).run(todo)


# What scrolls of an event: text and style.
SAID = {
    "scheduler lost": ("the scheduler {address} is gone; waiting for it, {patience:.0f} s at most", "yellow"),
    "worker": ("{worker}: {machine}", ""),
    "refused": ("{worker} is not used: {why}", "yellow"),
    "unit": ("{worker}: {unit} begins; cells: {cells}", ""),
    "kept": ("{worker}: {unit} is stored; cells: {cells}", ""),
    "lost": ("{worker}: {unit} has to be done again: {why}", "yellow"),
    "left out": ("{worker} failed twice, so it is left out: {why}", "bold yellow"),
    "warning": ("{worker}: warning: {text}", "yellow"),
}


class At(msgspec.Struct):
    """What is known of a worker: its unit, what it does in it, how many of its cells are done, and the seconds
    that are left (least and most), since when."""

    unit: str = ""
    doing: str = ""
    cells: int = 0
    done: int = 0
    left: tuple[float, float] | None = None
    since: float = 0.0


class Machines:
    """Events of all workers as lines that scroll, and, on a terminal, a line for each worker below them."""

    def __init__(self, console: Console, study: Study, todo: Sequence[Cell]) -> None:
        self._console = console
        self._study = study
        self._costs = {unit.label: Remaining(costs(study, unit.cells)).left() for unit in units(todo)}
        self._total = len(todo)
        self._done: set[str] = set()
        self._workers: dict[str, At] = {}
        self._began = time.monotonic()

    @contextlib.contextmanager
    def screen(self) -> Iterator[None]:
        """The lines at the bottom, while it is entered."""
        with Screen(console=self._console, transient=True, get_renderable=self.picture,
                    refresh_per_second=DRAWN, redirect_stdout=False, redirect_stderr=False):  # fmt: skip
            yield

    def take(self, event: Event) -> None:
        """An event of ``spread.control``, or of a worker's own ``cli.events``."""
        name, at = event["event"], self._workers.get(event.get("worker", ""))
        if said := _said(name, event):
            self._console.print(Text(f"{self._clock()} {said[0]}", said[1]), soft_wrap=True)
        if name == "worker":
            self._workers.setdefault(event["worker"], At())
        elif name == "refused":
            self._workers.pop(event["worker"], None)
        elif at is not None:
            self._moved(name, event, at)

    def _moved(self, name: str, event: Event, at: At) -> None:
        if name == "unit":
            at.unit, at.cells, at.done, at.doing = event["unit"], event["cells"], 0, "starting"
            span = self._costs.get(event["unit"])
            at.left, at.since = (None if span is None else (span.least, span.most)), time.monotonic()
        elif name == "cell":
            least, _, most = event["left"]
            at.doing, at.left, at.since = event["label"], (least, most), time.monotonic()
        elif name == "stack":
            at.doing = f"stack {event['stack']}: {event['text']}"
        elif name == "done":
            at.done += 1
            self._done.add(event["key"])
        elif name in ("kept", "lost"):
            at.unit, at.doing, at.left, at.cells, at.done = "", "", None, 0, 0
            if name == "kept":
                self._costs.pop(event["unit"], None)

    def picture(self) -> RenderableType:
        """The lines at the bottom: all of it, and each worker."""
        passed, done = time.monotonic() - self._began, len(self._done)
        width = min(self._console.width, MOST_COLUMNS)
        lines: list[RenderableType] = [
            Padding(ProgressBar(total=max(self._total, 1), completed=done, width=width), 0),
            _line(f"{self._study.name}: {clock_text(passed)} gone, left: {self._left()}; "
                  f"{done} of {self._total} cells", "bold"),
        ]  # fmt: skip
        # Drawn in a thread of Rich's, while events come.
        lines += [_line(self._of(name, at), "") for name, at in list(self._workers.items())]
        return Group(*lines)

    def _of(self, name: str, at: At) -> str:
        if not at.unit:
            return f"  {name}: waits"
        left = self._rest(at)
        text = "" if left is None else f", left: {between(*left)}"
        return f"  {name}: {at.unit}, {at.done} of {at.cells} cells{text}: {at.doing}"

    def _rest(self, at: At) -> tuple[float, float] | None:
        if at.left is None:
            return None
        gone = time.monotonic() - at.since
        return max(0.0, at.left[0] - gone), max(0.0, at.left[1] - gone)

    def _left(self) -> str:
        """Of all: what the workers have, and their share of what waits."""
        at_work = list(self._workers.values())
        under_way = {at.unit for at in at_work}
        waits = [span for unit, span in list(self._costs.items()) if unit not in under_way]
        rests = [rest for at in at_work if (rest := self._rest(at)) is not None]
        count = max(1, len(at_work))
        least, most = (
            sum(rest[side] for rest in rests) / count
            + sum((span.least, span.most)[side] for span in waits) / count
            for side in (0, 1)
        )
        # Nobody is done before the slowest.
        return between(max([least, *(rest[0] for rest in rests)]), max([most, *(rest[1] for rest in rests)]))

    def _clock(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"{seconds // 60:02d}:{seconds % 60:02d}"


def _said(name: str, event: Event) -> tuple[str, str] | None:
    """What scrolls: text and style; None where nothing does."""
    if name == "done":
        return _done(event)
    if name == "scheduler":
        link = f"; dashboard: {event['dashboard']}" if event["dashboard"] else ""
        return f"scheduler {event['address']}: {several(event['workers'], 'worker')}{link}", ""
    if name in SAID:
        text, style = SAID[name]
        return text.format(**event), style
    return None


def _done(event: Event) -> tuple[str, str]:
    status, said = event["status"], f"; {event['said']}" if event["said"] else ""
    error = f"\n{event['error']}" if event["error"] else ""
    text = f"{event['worker']}:   {event['label']}: {status} in {event['seconds']:.0f} s{said}{error}"
    return text, STYLES[status]


def _line(text: str, style: str) -> Text:
    return Text(text.replace("\n", " "), style, no_wrap=True, overflow="ellipsis")

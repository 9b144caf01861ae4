"""Labs of virtual time in parallel: each in a process and on a CPU of its own (``one_lab``), which takes layout
after layout.

Such a process reads the keys of cells, a line for those that it is to measure next, and stores them in the study's
folder. What it loaded is kept for the next line. What happens it prints as messages.
"""

from __future__ import annotations

import base64
import contextlib
import math
import selectors
import sys
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from blocklab.errors import BlocklabError, SetupError
from blocklab.lang import catalogue
from blocklab.model.drill import Drill
from blocklab.model.sample import Parsed, Sample
from blocklab.runner.run import Progress, in_order, run_cells
from blocklab.runner.strikes import Count
from blocklab.runner.workshop import Workshop
from blocklab.sites import open_site
from blocklab.sites.own import Own
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Outcome, Rate, Stopped
from blocklab.study.grid import hardware, layouts, topology
from blocklab.study.types import Cell, Study

MODULE = "blocklab.cli.one_lab"
# What has to be built and loaded for a cell: hardware and stack.
Place: TypeAlias = tuple[str, str]


# -- what a lab sends --------------------------------------------------------------------------------------------


class Message(msgspec.Struct, frozen=True, tag=True):
    """What a lab sends: a call of ``Progress``, or something of itself. ``key`` is a cell's."""

    def line(self) -> bytes:
        """As it is printed: JSON knows no infinity."""
        return base64.b64encode(msgspec.msgpack.encode(self))


class OnStack(Message, frozen=True):
    """See ``Progress.stack``."""

    name: str
    text: str


class Begun(Message, frozen=True):
    """See ``Progress.cell``."""

    key: str


class Interim(Message, frozen=True):
    """See ``Progress.interim``."""

    key: str
    phase: str
    rounds: int
    rates: tuple[Rate, ...]


class Counted(Message, frozen=True):
    """See ``Progress.counters``."""

    key: str
    count: Count


class Done(Message, frozen=True):
    """See ``Progress.done``; of the samples those that are values."""

    key: str
    outcome: Outcome
    values: tuple[Sample, ...]
    stops: tuple[Stopped, ...]


class Drilled(Message, frozen=True):
    """See ``Progress.drilled``."""

    key: str
    drill: Drill


class Warned(Message, frozen=True):
    """See ``Progress.warning``."""

    text: str


class Free(Message, frozen=True):
    """It waits for a line."""


class Failed(Message, frozen=True):
    """Why it ends."""

    message: str
    hint: str


_MESSAGES: TypeAlias = OnStack | Begun | Interim | Counted | Done | Drilled | Warned | Free | Failed


def received(line: bytes) -> _MESSAGES:
    """What was printed as that line."""
    message: _MESSAGES = msgspec.msgpack.decode(base64.b64decode(line), type=_MESSAGES)
    return message


class Sender:
    """Progress that is sent to who started the lab."""

    def stack(self, name: str, text: str) -> None:
        """A stack is being built, or stands, or is gone."""
        send(OnStack(name, text))

    def cell(self, number: int, count: int, cell: Cell) -> None:
        """A cell begins."""
        send(Begun(cell.key))

    def interim(self, cell: Cell, phase: str, rounds: int, rates: Sequence[Rate]) -> None:
        """A phase is under way."""
        send(Interim(cell.key, phase, rounds, tuple(rates)))

    def counters(self, cell: Cell, count: Count) -> None:
        """A drill's client has counted on."""
        send(Counted(cell.key, count))

    def done(self, cell: Cell, outcome: Outcome, parsed: Parsed, stops: Sequence[Stopped]) -> None:
        """A cell is stored."""
        values = tuple(sample for sample in parsed.samples if sample.time is None)
        send(Done(cell.key, outcome, values, tuple(stops)))

    def drilled(self, cell: Cell, drill: Drill) -> None:
        """A cell was a drill."""
        send(Drilled(cell.key, drill))

    def warning(self, text: str) -> None:
        """Something that does not stop the study."""
        send(Warned(text))


def send(message: Message) -> None:
    """Print it at once."""
    sys.stdout.buffer.write(message.line() + b"\n")
    sys.stdout.buffer.flush()


def serve(path: Path, name: str, volumes: Path | None) -> int:
    """Measure what the lines ask for, with hosts of the site of that name. The exit code, 0 where all of it has a
    run, good or bad."""
    folder = StudyFolder(path)
    try:
        manifest = folder.manifest()
        known = {cell.key: cell for cell in manifest.cells}
        site = open_site(name, volumes=volumes, seed=manifest.seed or 0)
        with contextlib.closing(Workshop(site)) as workshop:
            for line in sys.stdin:
                cells = [known[key] for key in line.split()]
                run_cells(workshop, manifest.study, cells, folder, Sender(), manifest.seed)
                send(Free())
    except BlocklabError as error:
        send(Failed(error.message, error.hint))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


# -- who asks ----------------------------------------------------------------------------------------------------


class Waiting:
    """The cells that no lab has yet, by layout; a layout is built once, by one lab, as long as there are enough
    of them for all ``labs``."""

    def __init__(self, study: Study, todo: Sequence[Cell], labs: int) -> None:
        self._labs = labs
        self._layouts: dict[Place, deque[tuple[Cell, ...]]] = {}
        for layout in in_order(layouts(study, todo)):
            place = hardware(topology(layout.study, [layout.stack])), layout.stack
            self._layouts.setdefault(place, deque()).append(layout.cells)

    def next(self, mine: Place, others: Collection[Place]) -> tuple[Place, Sequence[Cell]]:
        """What a lab is to measure that has what ``mine`` needs; nothing where nothing is left. If it has to load
        other data, then some that no other lab has, and of what most cells are left."""
        left = {place: sum(map(len, found)) for place, found in self._layouts.items() if found}
        if not left:
            return mine, ()

        def fits(place: Place) -> tuple[bool, bool, bool, int]:
            return place == mine, place not in others, place[0] == mine[0], left[place]

        place = max(left, key=fits)
        found = self._layouts[place]
        cells = found.popleft()
        if sum(map(len, self._layouts.values())) + 1 < self._labs:
            # The others want some of it.
            share = math.ceil(len(cells) / self._labs)
            cells, rest = cells[:share], cells[share:]
            if rest:
                found.appendleft(rest)
        return place, cells


class Parallel:
    """The processes that measure ``todo``, which report to ``progress`` as a single lab does."""

    def __init__(
        self, folder: StudyFolder, todo: Sequence[Cell], progress: Progress, volumes: Path | None
    ) -> None:
        manifest = folder.manifest()
        self._study = manifest.study
        self._progress = progress
        self._cells = {cell.key: cell for cell in todo}
        self._begun = self._bad = 0
        of_site = [manifest.site, *([str(volumes)] if volumes else [])]
        self._arguments = [catalogue.language(), str(folder.path), *of_site]

    def run(self, cpus: Sequence[int]) -> int:
        """Measure all, one process on each of these CPUs. The number of cells that did not end ``ok``. Raises
        ``SetupError`` where a process cannot go on."""
        waiting = Waiting(self._study, tuple(self._cells.values()), len(cpus))
        labs: list[Own] = []
        at: dict[int, Place] = {}
        with selectors.DefaultSelector() as waits:
            try:
                for number, cpu in enumerate(cpus):
                    labs.append(Own(MODULE, self._arguments, cpu))
                    waits.register(labs[number], selectors.EVENT_READ, number)
                    at[number] = self._feed(labs[number], waiting, ("", ""), at.values())
                while waits.get_map():
                    for ready, _ in waits.select():
                        number = int(ready.data)
                        lab, others = labs[number], [place for other, place in at.items() if other != number]
                        for line in lab.lines(0):
                            message = received(line)
                            if isinstance(message, Free):
                                at[number] = self._feed(lab, waiting, at[number], others)
                            else:
                                self._pass_on(number + 1, message)
                        if lab.over:
                            waits.unregister(lab)
                            _ended(lab)
            finally:
                # All of them first: each takes a moment to take its nodes down.
                for lab in labs:
                    lab.interrupt()
                for lab in labs:
                    lab.end()
        return self._bad

    def _feed(self, lab: Own, waiting: Waiting, mine: Place, others: Collection[Place]) -> Place:
        """Give a process its next cells, or let it end. What it has then."""
        place, cells = waiting.next(mine, others)
        if cells:
            lab.send(" ".join(cell.key for cell in cells))
        else:
            lab.close_input()
        return place

    def _pass_on(self, number: int, message: Message) -> None:
        """Report what a lab sent; labs are numbered from 1. Raises ``SetupError`` with why it ends."""
        progress, cells = self._progress, self._cells
        match message:
            case OnStack(name, text):
                progress.stack(name, f"{text} (lab {number})")
            case Begun(key):
                self._begun += 1
                progress.cell(self._begun, len(cells), cells[key])
            case Interim(key, phase, rounds, rates):
                progress.interim(cells[key], phase, rounds, rates)
            case Counted(key, count):
                progress.counters(cells[key], count)
            case Done(key, outcome, values, stops):
                self._bad += outcome.status != "ok"
                progress.done(cells[key], outcome, Parsed(values), stops)
            case Drilled(key, drill):
                progress.drilled(cells[key], drill)
            case Warned(text):
                progress.warning(text)
            case Failed(said, hint):
                raise SetupError(said, hint=hint)


def _ended(lab: Own) -> None:
    """Raises ``SetupError`` where it did not end by itself, all being done."""
    if not (code := lab.end()):
        return
    said = f": {lab.said}" if lab.said else ""
    less = "was there memory for all labs? `blocklab resume --parallel N` goes on with fewer"
    hint = less if code < 0 else "blocklab resume goes on"
    raise SetupError(f"the process of a lab ended with exit code {code}{said}", hint=hint)

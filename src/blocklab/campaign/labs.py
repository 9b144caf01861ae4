"""Labs of virtual time in parallel: each in a process and on a CPU of its own (``lab``), which takes layout
after layout.

Such a process reads the keys of cells, a line for those that it is to measure next, and stores them in the study's
folder. What it loaded is kept for the next line. What happens it prints as events.
"""

from __future__ import annotations

import contextlib
import math
import selectors
import sys
from collections import deque
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from blocklab.campaign.lines import received, send
from blocklab.campaign.start import site_of
from blocklab.errors import BlocklabError, SetupError
from blocklab.lang import catalogue
from blocklab.runner.events import AnyEvent, Begun, Done, Failed, Free, Listener, OnStack
from blocklab.runner.run import in_order, run_cells
from blocklab.runner.workshop import Workshop
from blocklab.sites.own import Own
from blocklab.store.folder import StudyFolder
from blocklab.study.grid import hardware, layouts, topology
from blocklab.study.types import Cell, Study

MODULE = "blocklab.campaign.lab"
# What has to be built and loaded for a cell: hardware and stack.
Place: TypeAlias = tuple[str, str]


def serve(path: Path, volumes: Path | None) -> int:
    """Measure what the lines ask for. The exit code, 0 where all of it has a run, good or bad."""
    folder = StudyFolder(path)
    try:
        manifest = folder.manifest()
        known = {cell.key: cell for cell in manifest.cells}
        with contextlib.closing(Workshop(site_of(manifest, volumes))) as workshop:
            for line in sys.stdin:
                cells = [known[key] for key in line.split()]
                run_cells(workshop, manifest.study, cells, folder, send, manifest.seed)
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


class Labs:
    """The processes that measure ``todo``, and ``tell`` of it as a single lab does."""

    def __init__(self, folder: StudyFolder, todo: Sequence[Cell], tell: Listener, volumes: Path | None) -> None:
        self._study = folder.manifest().study
        self._tell = tell
        self._todo = todo
        self._begun = self._bad = 0
        self._arguments = [catalogue.language(), str(folder.path), *([str(volumes)] if volumes else [])]

    def run(self, cpus: Sequence[int]) -> int:
        """Measure all, one process on each of these CPUs. The number of cells that did not end ``ok``. Raises
        ``SetupError`` where a process cannot go on."""
        waiting = Waiting(self._study, self._todo, len(cpus))
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
                        for text in lab.lines(0):
                            event = received(text)
                            if isinstance(event, Free):
                                at[number] = self._feed(lab, waiting, at[number], others)
                            else:
                                self._pass_on(number + 1, event)
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

    def _pass_on(self, number: int, event: AnyEvent) -> None:
        """Tell what a lab sent; labs are numbered from 1. Raises ``SetupError`` with why it ends."""
        match event:
            case Failed():
                raise SetupError(event.message, hint=event.hint)
            case OnStack():
                text = f"{event.text} (lab {number})"
                event = msgspec.structs.replace(event, text=text)
            case Begun():
                self._begun += 1
                event = msgspec.structs.replace(event, number=self._begun, of=len(self._todo))
            case Done():
                self._bad += event.status != "ok"
        self._tell(event)


def _ended(lab: Own) -> None:
    """Raises ``SetupError`` where it did not end by itself, all being done."""
    if not (code := lab.end()):
        return
    said = f": {lab.said}" if lab.said else ""
    less = "was there memory for all labs? `blocklab resume --parallel N` goes on with fewer"
    hint = less if code < 0 else "blocklab resume goes on"
    raise SetupError(f"the process of a lab ended with exit code {code}{said}", hint=hint)

"""Labs of virtual time in parallel: each in a process and on a CPU of its own, which takes cell after cell.

``python -m blocklab.cli.parallel FOLDER SITE [VOLUMES]`` is such a process. It reads the key of a cell, measures
it into the study's folder, and prints its events as lines of JSON; what it loaded is kept for its next cell.
"""

from __future__ import annotations

import contextlib
import selectors
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from blocklab.cli.events import Events, printed
from blocklab.cli.remaining import Remaining
from blocklab.errors import BlocklabError, SetupError
from blocklab.model.sample import Parsed
from blocklab.runner.run import Progress, in_order, run_cells, shuffled
from blocklab.runner.workshop import Workshop
from blocklab.sites import open_site
from blocklab.sites.own import Own
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Outcome
from blocklab.study.grid import hardware, layouts, topology
from blocklab.study.types import Cell

MODULE = "blocklab.cli.parallel"


class Parallel:
    """The processes that measure ``todo``, and what is told of them."""

    def __init__(
        self, folder: StudyFolder, todo: Sequence[Cell], progress: Progress, volumes: Path | None
    ) -> None:
        self._folder = folder
        self._progress = progress
        manifest = folder.manifest()
        self._arguments = [str(folder.path), manifest.site, *([str(volumes)] if volumes else [])]
        self._cells = {cell.key: cell for cell in todo}
        self._waiting: dict[tuple[str, str], deque[Cell]] = {}
        """The cells by what has to be built and loaded for them: hardware and stack."""
        for layout in in_order(layouts(manifest.study, todo)):
            place = hardware(topology(layout.study, [layout.stack])), layout.stack
            mine = layout.cells if manifest.seed is None else shuffled(layout.cells, manifest.seed)
            self._waiting.setdefault(place, deque()).extend(mine)
        self._begun = self._bad = 0

    def run(self, cpus: Sequence[int]) -> int:
        """Measure all, one process on each of these CPUs. The number of cells that did not end ``ok``. Raises
        ``SetupError`` where a process cannot go on."""
        own: list[Own] = []
        try:
            with selectors.DefaultSelector() as waits:
                for cpu in cpus:
                    own.append(each := Own(MODULE, self._arguments, cpu))
                    waits.register(each, selectors.EVENT_READ, each)
                at = {each: self._next(each, ("", "")) for each in own}
                while waits.get_map():
                    for key, _ in waits.select():
                        each = key.data
                        for line in each.lines(0):
                            if self._told(own.index(each) + 1, msgspec.json.decode(line)):
                                at[each] = self._next(each, at[each])
                        if each.over:
                            waits.unregister(each)
                            if code := each.end():
                                raise SetupError(
                                    f"a lab's process ended with {code}: {each.said}",
                                    hint="blocklab resume goes on",
                                )
        finally:
            # All of them first: each takes a moment to take its lab down.
            for each in own:
                each.interrupt()
            for each in own:
                each.end()
        return self._bad

    def _next(self, own: Own, before: tuple[str, str]) -> tuple[str, str]:
        """Give a process its next cell: one for which it has all there already, or of what most are left of."""
        left = {place: len(cells) for place, cells in self._waiting.items() if cells}
        if not left:
            own.hush()
            return before

        def fits(place: tuple[str, str]) -> tuple[bool, bool, int]:
            return place == before, place[0] == before[0], left[place]

        place = max(left, key=fits)
        cell = self._waiting[place].popleft()
        self._begun += 1
        self._progress.cell(self._begun, len(self._cells), cell)
        own.tell(cell.key)
        return place

    def _told(self, number: int, event: Mapping[str, Any]) -> bool:
        """Pass on what a process said, the first of which has number 1; whether it is free again."""
        if event["event"] == "stack":
            self._progress.stack(event["stack"], f"{event['text']} (lab {number})")
        elif event["event"] == "warning":
            self._progress.warning(event["text"])
        elif event["event"] == "done":
            cell = self._cells[event["key"]]
            self._bad += event["status"] != "ok"
            outcome = Outcome(event["status"], event["error"], event["hint"], seconds=event["seconds"])
            run = self._folder.run(cell) if event["status"] == "ok" else None
            if run is None:
                self._progress.done(cell, outcome, Parsed(), ())
            else:
                self._progress.done(cell, outcome, Parsed(run.samples), run.stops)
                if run.drill is not None:
                    self._progress.drilled(cell, run.drill)
        return bool(event["event"] == "free")


def main() -> int:
    """Exit code 0: every cell that was asked for has a run, good or bad."""
    folder, console = StudyFolder(Path(sys.argv[1])), Console(stderr=True, highlight=False)
    tell = printed(sys.stdout)
    progress = Events(tell, Remaining(()))
    try:
        manifest = folder.manifest()
        cells = {cell.key: cell for cell in manifest.cells}
        volumes = Path(sys.argv[3]) if len(sys.argv) > 3 else None
        site = open_site(sys.argv[2], volumes=volumes, seed=manifest.seed or 0)
        with contextlib.closing(Workshop(site)) as workshop:
            for line in sys.stdin:
                cell = cells[line.strip()]
                run_cells(workshop, manifest.study, (cell,), folder, progress, manifest.seed)
                tell({"event": "free"})
    except BlocklabError as error:
        console.print(f"error: {error}", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

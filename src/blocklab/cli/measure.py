"""From a study's folder to its runs and its report, in words: what run, resume and drill have in common."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import typer

from blocklab import report
from blocklab.campaign.here import prepared
from blocklab.campaign.remaining import Machine, Remaining
from blocklab.campaign.start import asked
from blocklab.cli.events import printed
from blocklab.cli.live import drawn, screen, showing
from blocklab.cli.progress import INTERRUPTED, UNDECIDED, Lines, several
from blocklab.cli.workers import Machines
from blocklab.errors import SetupError, StoreError
from blocklab.model import outside
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.runner.estimate import Cost
from blocklab.runner.events import AnyEvent, Listener
from blocklab.stats.format import percent
from blocklab.store.folder import StudyFolder, Workers
from blocklab.store.run import head
from blocklab.study.grid import is_drill, layouts
from blocklab.study.types import Cell, Study


class Shown(msgspec.Struct, frozen=True):
    """How a study is shown: ``plain`` lines, the result ``as_json``, its ``events`` in a file (``-``: standard
    output), and ``every`` table of it."""

    plain: bool = False
    as_json: bool = False
    events: str = ""
    every: bool = False

    @contextlib.contextmanager
    def listener(self) -> Iterator[Listener]:
        """What takes the events for the file. Raises ``StoreError``."""
        if self.events == "-":
            yield printed(typer.get_text_stream("stdout"))
        elif self.events:
            with contextlib.ExitStack() as opened:
                try:
                    stream = opened.enter_context(Path(self.events).open("a"))
                except OSError as error:
                    raise StoreError(f"--events {self.events} cannot be written: {error.strerror}") from error
                yield printed(stream)
        else:
            yield lambda event: None


def carry_out(
    folder: StudyFolder, shown: Shown, elsewhere: Path | None = None, parallel: int | None = None
) -> None:
    """Measure what the folder's manifest asks for and is not measured yet, and write the report. ``elsewhere`` is
    another folder for the volumes, ``parallel`` another number of labs. Raises ``typer.Exit``."""
    manifest = folder.manifest()
    console = Console(stderr=True)
    wanted, todo = asked(folder, manifest)
    for why in folder.unreadable(todo):
        text = f"{why.message}; its cell is measured again, and what is there is kept in {folder.aside}"
        console.print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)
    if not todo:
        console.print(f"finished: all {len(wanted)} cells are measured; --again measures them again")
    bad = 0
    if todo:
        begun = time.monotonic()
        try:
            with shown.listener() as listener:
                if manifest.workers is not None:
                    bad = _on_workers(folder, manifest.workers, todo, console, shown, listener)
                else:
                    bad = _here(folder, console, shown, listener, elsewhere, parallel)
        except KeyboardInterrupt:
            console.print("stopped; nothing is left running; `blocklab resume` continues", style="yellow")
            raise typer.Exit(INTERRUPTED) from None
        console.print(f"{several(len(todo), 'cell')} in {time.monotonic() - begun:.0f} s, {bad} of them not ok")
    # numpy, which takes longer to import than a study to check.
    from blocklab.predict.cells import analysed

    analysis = analysed(folder)
    page = report.render(folder, analysis=analysis)
    if shown.as_json:
        echo_json(outside.text(folder.path / "report.json", outside.MOST_DATA))
    else:
        # Of its events standard output is full.
        Console(stderr=shown.events == "-").print(report.terminal_table(folder, analysis, every=shown.every))
        echo(f"report: {page}", err=shown.events == "-")
    if bad:
        raise typer.Exit(1)
    if unknown := _unknown(folder, manifest.study, wanted):
        console.print(f"undecided, so exit code {UNDECIDED}: the verdict of {', '.join(unknown)} is unknown",
                      style="yellow", markup=False, soft_wrap=True)  # fmt: skip
        raise typer.Exit(UNDECIDED)


def _unknown(folder: StudyFolder, study: Study, wanted: Sequence[Cell]) -> list[str]:
    """The drills among these cells that could not be judged. Raises ``StoreError`` where one cannot be read."""
    found = []
    for cell in wanted:
        if is_drill(study, cell.workload) and folder.there(cell):
            drill = head(folder.cells / cell.key).drill
            if drill is not None and drill.verdict.status == "unknown":
                found.append(cell.label)
    return found


def _here(
    folder: StudyFolder, console: Console, shown: Shown, listener: Listener, volumes: Path | None, labs: int | None
) -> int:
    """On this machine. The number of cells that did not end ``ok``."""
    campaign = prepared(folder, Lines(console), volumes, labs)
    study = campaign.manifest.study
    console.print(about(study, campaign.todo, campaign.costs, campaign.machine), soft_wrap=True)
    for note in campaign.notes:
        console.print(f"note: {note}", style="yellow")
    with showing(console, study, campaign.todo, campaign.remaining, plain=shown.plain) as show:
        if campaign.cpus:
            console.print(f"{len(campaign.cpus)} labs in parallel")
        return campaign.run(_both(show, listener))


def _on_workers(
    folder: StudyFolder, workers: Workers, todo: Sequence[Cell], console: Console, shown: Shown, listener: Listener
) -> int:
    """The same on the machines that the manifest names. Raises ``SetupError`` without the extra."""
    try:
        from blocklab.cluster.control import Controller
        from blocklab.cluster.scheduler import opened
    except ModuleNotFoundError as error:
        raise SetupError(f"--dask needs {error.name}", hint="pip install 'blocklab[dask]'") from error
    show = Machines(console, folder.manifest().study, todo)
    on_screen = screen(console, show.picture) if drawn(console, plain=shown.plain) else contextlib.nullcontext()
    with opened(workers) as place, on_screen:
        return Controller(folder, place, _both(show, listener)).run(todo)


def _both(show: Listener, listener: Listener) -> Listener:
    def tell(event: AnyEvent) -> None:
        show(event)
        listener(event)

    return tell


def about(study: Study, wanted: Sequence[Cell], parts: Sequence[Cost], machine: Machine) -> str:
    """How many cells there are, and how long they will take on that machine."""
    loads = [each.load for each in parts]
    open_ended = sum(each.open_ended for each in loads)
    ruled = any(each.rule is not None and each.most > each.least for each in loads)
    why = "; the least if every workload settles at once, the most if none does" if ruled else ""
    does = "do" if open_ended > 1 else "does"
    fixed = f"; {several(open_ended, 'cell')} {does} a fixed amount of work, so the time is a guess"
    size = f"{several(len(wanted), 'cell')} on {several(len(layouts(study, wanted)), 'layout')}"
    noise = machine.noise if ruled else None
    here = "" if noise is None else f"; rates differ by {percent(noise)} from round to round on this machine"
    return f"{size}: {Remaining(parts, machine).left().text}{why}{here}{fixed if open_ended else ''}"

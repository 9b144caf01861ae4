"""From a study's folder to its runs and its report: what run, resume and drill have in common."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import typer

from blocklab import report
from blocklab.cli.events import Both, Events, Listener, printed
from blocklab.cli.floor import fresh_floor
from blocklab.cli.live import showing
from blocklab.cli.notes import too_short
from blocklab.cli.options import check_options, learn_options
from blocklab.cli.parallel import Parallel
from blocklab.cli.progress import INTERRUPTED, UNDECIDED
from blocklab.cli.remaining import Machine, Remaining
from blocklab.errors import StoreError, StudyError
from blocklab.model import outside
from blocklab.model.site import OwnTime, Room, Site, offered
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.runner.estimate import Cost, costs
from blocklab.runner.run import Progress, run_study
from blocklab.sites import DEFAULT, open_site
from blocklab.stats.format import percent
from blocklab.store.floor import Floor, keep_floor, known_floor
from blocklab.store.folder import Manifest, StudyFolder, Workers
from blocklab.store.identity import identity
from blocklab.store.run import head
from blocklab.study.grid import is_drill, layouts, topology
from blocklab.study.needs import site_problems
from blocklab.study.read import placed
from blocklab.study.room import hardwares
from blocklab.study.types import Cell, Study


class Where(msgspec.Struct, frozen=True):
    """Where hosts come from: the site's name, a hosts file, a folder for volumes; or machines by Dask.
    ``parallel`` as in ``Manifest``."""

    site: str
    hosts: Path | None = None
    volumes: Path | None = None
    workers: Workers | None = None
    parallel: int | None = None

    def open(self, seed: int | None = None) -> Site:
        """That site, which draws by ``seed``. Raises what ``open_site`` raises."""
        return open_site(self.site, volumes=self.volumes, hosts=self.hosts, seed=seed or 0)


class Shown(msgspec.Struct, frozen=True):
    """How a study is shown: ``plain`` lines, the result ``as_json``, and its ``events`` in a file (``-``: standard
    output)."""

    plain: bool = False
    as_json: bool = False
    events: str = ""

    @contextlib.contextmanager
    def listener(self) -> Iterator[Listener | None]:
        """What takes the events; None where nobody wants any. Raises ``StoreError``."""
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
            yield None


def started(manifest: Manifest, wanted: Sequence[Cell], where: Where, *, again: bool) -> Manifest:
    """With how the study is started, so that ``resume`` goes on with the same."""
    volumes, hosts = (str(path.absolute()) if path else "" for path in (where.volumes, where.hosts))
    todo, since = tuple(cell.key for cell in wanted), time.time() if again else 0.0
    return msgspec.structs.replace(
        manifest, site=where.site, hosts=hosts, volumes=volumes, workers=where.workers,
        parallel=where.parallel, todo=todo, since=since,
    )  # fmt: skip


def carry_out(
    folder: StudyFolder, shown: Shown, elsewhere: Path | None = None, parallel: int | None = None
) -> None:
    """Measure what the folder's manifest asks for and is not measured yet, and write the report. ``elsewhere`` is
    another folder for the volumes, ``parallel`` another number of labs. Raises ``typer.Exit``."""
    manifest = folder.manifest()
    console = Console(stderr=True)
    wanted, todo = asked(folder, manifest)
    tell_unreadable(folder, todo, console)
    if not todo:
        console.print(f"finished: all {len(wanted)} cells are measured; --again measures them again")
    bad = 0
    if todo:
        begun = time.monotonic()
        try:
            with shown.listener() as listener:
                bad = _measured(folder, console, shown, listener, elsewhere, parallel)
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
        Console(stderr=shown.events == "-").print(report.terminal_table(folder, analysis))
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


def _measured(
    folder: StudyFolder,
    console: Console,
    shown: Shown,
    listener: Listener | None,
    elsewhere: Path | None,
    parallel: int | None,
) -> int:
    """Here, or on the machines that the manifest names."""
    if folder.manifest().workers:
        # What it needs is an extra.
        from blocklab.cli.workers import spread

        return spread(folder, console, listener, plain=shown.plain)

    @contextlib.contextmanager
    def show(study: Study, remaining: Remaining) -> Iterator[Progress]:
        with showing(console, study, remaining, plain=shown.plain) as progress:
            yield progress if listener is None else Both(progress, Events(listener, remaining))

    return measured(folder, console, show, elsewhere, parallel)


def tell_unreadable(folder: StudyFolder, todo: Sequence[Cell], console: Console) -> None:
    """Which runs are measured again since they cannot be read."""
    for why in folder.unreadable(todo):
        text = f"{why.message}; its cell is measured again, and what is there is kept in {folder.aside}"
        console.print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)


def asked(folder: StudyFolder, manifest: Manifest) -> tuple[list[Cell], tuple[Cell, ...]]:
    """The cells that a manifest asks for, and those of them that have no good run yet."""
    keys = {cell.key for cell in manifest.cells} if manifest.todo is None else set(manifest.todo)
    wanted = [cell for cell in manifest.cells if cell.key in keys]
    return wanted, folder.missing(wanted, manifest.since)


def measured(
    folder: StudyFolder,
    console: Console,
    show: Callable[[Study, Remaining], AbstractContextManager[Progress]],
    elsewhere: Path | None = None,
    parallel: int | None = None,
) -> int:
    """Measure on this machine what the folder lacks. The number of cells that
    did not end ``ok``. Raises ``StudyError``, ``StoreError``, ``SetupError``, before anything starts."""
    manifest = folder.manifest()
    study = manifest.study
    hosts, volumes = (Path(kept) if kept else None for kept in (manifest.hosts, manifest.volumes))
    wanted, todo = asked(folder, manifest)
    site = Where(manifest.site or DEFAULT, hosts, elsewhere or volumes).open(manifest.seed)
    # Every stack's needs are checked before the first one starts.
    notes = fitting(study, todo, folder.path / "study.yaml", site, quick=manifest.quick)
    left_out: list[str] = []
    floor: Floor | None = None
    # A missing image or add-on is found before the first stack starts, not after hours.
    for addons in addons_of(study, todo):
        environment = site.environment(addons)
        same_machine(folder, wanted, todo, environment)
        floor = fresh_floor(manifest.site or DEFAULT, addons, environment, console) or floor
        left_out.append(keep_floor(folder.path, environment))
    if learn_options(study, site, lambda text: console.print(text, soft_wrap=True)):
        notes = fitting(study, todo, folder.path / "study.yaml", site, quick=manifest.quick)
    machine, parts = Machine.of(floor), costs(study, todo)
    cpus = at_once(site, study, todo, parallel or manifest.parallel)
    if OwnTime in site.offers:
        machine, parts = Machine(1 / max(1, len(cpus))), tuple(each.computed for each in parts)
    console.print(about(study, todo, parts, machine), soft_wrap=True)
    for note in filter(None, [*notes, *left_out]):
        console.print(f"note: {note}", style="yellow")
    with show(study, Remaining(parts, machine)) as progress:
        if cpus:
            console.print(f"{len(cpus)} labs in parallel")
            return Parallel(folder, todo, progress, elsewhere or volumes).run(cpus)
        return run_study(site, study, todo, folder, progress, manifest.seed)


def at_once(site: Site, study: Study, todo: Sequence[Cell], parallel: int | None) -> list[int]:
    """The CPUs for labs in parallel, which are more than one: none where labs would disturb each other, else
    ``parallel`` of those of this process, or all, as far as there are cells and memory for them."""
    if OwnTime not in site.offers:
        return []
    cpus = sorted(os.sched_getaffinity(0))
    for count in range(min(parallel or len(cpus), len(cpus), len(todo)), 1, -1):
        with contextlib.suppress(StudyError):
            # What might do for one lab, with a note, is not tried with several.
            if Room not in site.offers or not any(
                offered(site, Room).room(shape, copies, count) for shape, copies in hardwares(study, todo)
            ):
                return cpus[:count]
    return []


def addons_of(study: Study, wanted: Sequence[Cell]) -> set[tuple[str, ...]]:
    """What these cells' layouts need of an image beside what it has: a set for each kind of layout."""
    return {topology(layout.study, [layout.stack]).addons for layout in layouts(study, wanted)}


def fitting(study: Study, wanted: Sequence[Cell], file: Path, site: Site, *, quick: bool) -> list[str]:
    """Notes on what these cells ask of a site. Raises ``StudyError`` with file and line for what it cannot give,
    and for a layout that it has no room for."""
    try:
        for path, problem in site_problems(study, wanted, site.offers):
            raise StudyError(path, problem, hint="another site may offer it: --site")
        notes = [check_options(study, site), *too_short(study, wanted, known_floor(site))]
        if Room in site.offers:
            room = offered(site, Room).room
            notes = [*(room(shape, copies) for shape, copies in hardwares(study, wanted)), *notes]
    except StudyError as error:
        raise placed(file, error, quick=quick) from error
    return [note for note in dict.fromkeys(notes) if note]


def same_machine(
    folder: StudyFolder, wanted: Sequence[Cell], todo: Sequence[Cell], environment: Mapping[str, Any]
) -> None:
    """Refuse to add to runs of another site or machine. Raises ``StoreError``."""
    left = {cell.key for cell in todo}
    here = identity(environment)
    for cell in wanted:
        there = None if cell.key in left else folder.identity(cell)
        if there is not None and not there.may_be(here):
            raise StoreError(
                f"{folder.path} has runs of another machine: {there}; this is {here}",
                hint="keep them apart with --runs DIR, or measure all cells here: run --again",
            )


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


def several(count: int, what: str) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count} {what}{'s' if count > 1 else ''}"

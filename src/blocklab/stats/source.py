"""Where values come from for a comparison or an export: a study's folder, or one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from blocklab.errors import StoreError
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.grid import Grid, Point
from blocklab.stats.reading import Gap
from blocklab.stats.values import Measured, Row, rows_of
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Run, damage, head, load
from blocklab.study.types import Cell, Study

# The labels of a stack and of a workload, as rows have them.
Place = tuple[str, str]


class Piece(msgspec.Struct, frozen=True):
    """One run with its values; ``run`` is without what is long (``store.run.head``).

    ``levels``: of every factor of its study that makes a difference to it, also of those with one level only.
    ``machine``: what its machine is known by, empty where it does not tell. ``apart``: its values are not put
    together with those of the study's other machines.
    """

    study: str
    run: Run
    levels: Mapping[str, str]
    rows: tuple[Row, ...]
    machine: str = ""
    apart: bool = False

    @property
    def cell(self) -> Cell:
        """What was measured."""
        return self.run.cell

    @property
    def good(self) -> bool:
        """Whether its values may be compared."""
        return self.run.outcome.status == "ok"


class Baseline(msgspec.Struct, frozen=True):
    """What a cell is compared with in its own study: the label of the ``stack`` as rows have it, and the cell."""

    stack: str
    cell: Cell


@dataclass(frozen=True)
class Source:
    """Runs and their values.

    ``rows`` are those of all repeats together (``stats.repeats``), ``cells`` what stands at each place,
    ``gaps`` the cells without usable values. ``study`` is None for a run without a study; ``limited`` says why a
    value is the lab's own, or nothing; None where that is not known. ``single``: it is one run. ``baselines``:
    the labels of the stacks that others are compared with; ``bases``: what each other place is compared with.
    """

    path: Path
    name: str
    study: Study | None
    pieces: tuple[Piece, ...]
    rows: tuple[Row, ...]
    cells: Mapping[Place, Cell]
    gaps: tuple[Gap, ...]
    limited: Callable[[Row], str] | None
    single: bool = False
    baselines: tuple[str, ...] = ()
    bases: Mapping[Place, Baseline] = field(default_factory=dict)

    @property
    def imported(self) -> bool:
        """Whether the values were measured elsewhere and taken from logs."""
        return any(piece.run.files for piece in self.pieces)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Why runs are left out that cannot be read."""
        return tuple(gap.error for gap in self.gaps if gap.status == "unreadable")


def sources(path: Path) -> tuple[Source, ...]:
    """A study's folder or a run's as one source; a folder of studies (``runs``) as one for each.

    Raises ``StoreError`` when it is none of these.
    """
    if (path / "study.json").is_file():
        return (of_study(StudyFolder(path)),)
    if (path / "cell.json").is_file():
        return (of_run(path),)
    return tuple(of_study(StudyFolder(each)) for each in studies(path))


def source(path: Path) -> Source:
    """The one source at a path. Raises ``StoreError`` when there is none, or several."""
    found = sources(path)
    if len(found) == 1:
        return found[0]
    names = ", ".join(str(each.path) for each in found)
    raise StoreError(f"{path} holds {len(found)} studies", hint=f"name one of them: {names}")


def studies(path: Path) -> list[Path]:
    """The studies' folders right below a folder. Raises ``StoreError`` when there is none."""
    if not path.exists():
        hint = "name a study's folder (runs/STUDY), or one of its cells/KEY; --runs DIR where a command has it"
        raise StoreError(f"there is no folder {path}", hint=hint)
    found = sorted(file.parent for file in path.glob("*/study.json"))
    if not found:
        raise StoreError(
            f"{path} holds no runs: it has no study.json, no cell.json, and no study's folder in it",
            hint="name a study's folder (runs/STUDY), or one of its cells/KEY",
        )
    return found


def of_study(folder: StudyFolder) -> Source:
    """Everything in a study's folder. Raises ``StoreError`` when there is no readable ``study.json``."""
    analysis = analyse(folder)
    pieces = []
    cells: dict[Place, Cell] = {}
    tables: dict[tuple[int, int], dict[Place, list[Row]]] = {}
    for build, table in zip(analysis.builds, analysis.tables, strict=True):
        for row in table:
            tables.setdefault(build, {}).setdefault((row.stack, row.workload), []).append(row)
    for cell in sorted(analysis.cells, key=lambda cell: cell.repeat):
        point = analysis.grid.point(cell)
        at = (point.stack, point.workload)
        cells[at] = cell
        mine = tables.get((cell.repeat + 1, analysis.where.get(cell.key, -1)), {}).get(at, [])
        piece = _piece(analysis, folder.cells / cell.key, cell, point, mine)
        pieces += [] if piece is None else [piece]
    # Not the analysis itself, which holds every series.
    said = {place: limit.said for place, limit in analysis.limits.items()}

    def limited(row: Row) -> str:
        return said.get((row.stack, row.workload, row.phase, row.metric), "") if row.own else ""

    return Source(
        folder.path, folder.path.name, analysis.study, tuple(pieces), analysis.rows, cells, analysis.gaps,
        limited, baselines=analysis.grid.baselines, bases=_bases(analysis.grid, cells),
    )  # fmt: skip


def _bases(places: Grid, cells: Mapping[Place, Cell]) -> dict[Place, Baseline]:
    found = {}
    for point in places.points:
        base = places.base(point)
        if base != point.stack and (base, point.workload) in cells:
            found[point.stack, point.workload] = Baseline(base, cells[base, point.workload])
    return found


def _piece(analysis: Analysis, path: Path, cell: Cell, point: Point, rows: list[Row]) -> Piece | None:
    """A run of a study; None when there is none that can be read, which is one of the analysis' gaps."""
    if not path.is_dir():
        return None
    try:
        run = head(path)
        if run.outcome.status != "ok":
            on = analysis.stacks[point.stack].stack.on
            rows = list(rows_of(point, Measured(load(path), on)))
    except StoreError:
        return None
    # The folder's own cell.json may be of a study in which it stood at other levels.
    run = msgspec.structs.replace(run, cell=cell)
    number = analysis.where.get(path.name, -1)
    known = str(run.environment.get("machine") or (analysis.machines[number] if number >= 0 else ""))
    apart = ((point.stack, point.workload), number) in analysis.apart
    return Piece(analysis.study.name, run, cell.levels, tuple(rows), known, apart)


def heads(path: Path) -> tuple[tuple[Piece, ...], tuple[str, ...]]:
    """The runs of a study's folder, or the one at ``path``, without their values; and why others are left out.

    Raises ``StoreError`` where there is no study, or the one run cannot be read."""
    if not (path / "study.json").is_file():
        return tuple(msgspec.structs.replace(piece, rows=()) for piece in of_run(path).pieces), ()
    folder = StudyFolder(path)
    manifest = folder.manifest()
    found, unreadable = [], []
    for cell in manifest.cells:
        path = folder.cells / cell.key
        # One broken file must not hide the others.
        if path.is_dir() and (why := damage(path)) is not None:
            unreadable.append(why.message)
        elif path.is_dir():
            run = msgspec.structs.replace(head(path), cell=cell)
            found.append(Piece(manifest.study.name, run, cell.levels, ()))
    return tuple(found), tuple(unreadable)


def of_run(path: Path) -> Source:
    """One run; with what its study knows of it where it is in a study's folder. Raises ``StoreError``."""
    path = path.resolve()
    home = path.parent.parent
    if path.parent.name == "cells" and (home / "study.json").is_file():
        whole = of_study(StudyFolder(home))
        for piece in whole.pieces:
            if piece.cell.key == path.name:
                only = _single(path, piece)
                return replace(
                    only, name=f"{whole.name}/{only.name}", study=whole.study, limited=whole.limited,
                    baselines=whole.baselines, bases=whole.bases,
                )  # fmt: skip
    run = load(path)
    cell = run.cell
    point = Point(cell.stack, cell.workload, cell.stack, cell.workload, cell.levels, cell.levels)
    on = str(cell.spec.get("stack", {}).get("on", ""))
    return _single(path, Piece("", head(path), cell.levels, tuple(rows_of(point, Measured(run, on)))))


def _single(path: Path, piece: Piece) -> Source:
    """A run by itself."""
    cell, outcome = piece.cell, piece.run.outcome
    at = next(((row.stack, row.workload) for row in piece.rows), (cell.stack, cell.workload))
    gaps = () if piece.good else (Gap(*at, outcome.status, outcome.error, outcome.hint),)
    rows = piece.rows if piece.good else ()
    return Source(path, cell.key, None, (piece,), rows, {at: cell}, gaps, None, single=True)

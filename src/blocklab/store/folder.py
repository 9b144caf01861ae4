"""A study's folder: the study as it was run, and its runs by key.

::

    runs/<study>[-quick]/
        study.yaml      the file, as the user wrote it
        study.json      the study as it was read (quick patch and job files in it), and its cells in order
        cells/<key>/    see ``run``
        unreadable/     runs that could not be read when their cells were measured again
        floors/         the lab's floor on the machines of the runs, see ``floor``
        report.html, report.csv, report.json
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from blocklab.errors import StoreError, StudyError, Unreadable
from blocklab.model import outside
from blocklab.model.files import make_folder, write_whole
from blocklab.model.imported import Imported
from blocklab.model.units import dec_hook, enc_hook
from blocklab.store.floor import machine_of
from blocklab.store.identity import Identity, identity
from blocklab.store.run import Run, analysed, aside, damage, environment_of, good, load, outcome_of, sweep
from blocklab.study.grid import is_drill, repeated
from blocklab.study.kinds import with_study
from blocklab.study.old import words
from blocklab.study.types import Cell, Study

FORMAT = 2


class Workers(msgspec.Struct, frozen=True):
    """Machines by Dask: ``at`` is a scheduler's address, or a file that tells one or where to start one; ``mixed``
    what is done with machines that do not fit (``refuse``, ``apart``, ``pool``); ``insecure``: TLS may lack."""

    at: str
    mixed: str = "refuse"
    insecure: bool = False


class Manifest(msgspec.Struct, frozen=True):
    """What ``study.json`` holds: the study with its quick patch applied, and its cells.

    ``seed`` decides the order in which cells that share a layout were run; None: as they stand in the file. How it
    was started, for ``resume``: ``site`` (empty: the usual one); ``hosts`` is a hosts file, empty without one;
    ``volumes`` is the folder for the volumes, empty for memory; ``workers``: machines that measure it;
    ``parallel``: so many labs at once at most, in virtual time, None for as many as there are CPUs; ``todo`` has
    the keys of the cells that were asked for, None for all; a run that began before ``since`` (seconds since the
    epoch) is to be measured again; ``predicted`` has the keys of cells that are left to prediction.
    """

    study: Study
    cells: tuple[Cell, ...]
    quick: bool = False
    source: str = ""
    seed: int | None = None
    volumes: str = ""
    site: str = ""
    hosts: str = ""
    workers: Workers | None = None
    parallel: int | None = None
    todo: tuple[str, ...] | None = None
    since: float = 0.0
    predicted: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def imported(self) -> bool:
        """Whether its runs come from logs of elsewhere."""
        return any(isinstance(workload, Imported) for workload in self.study.workloads.values())

    @property
    def pooled(self) -> bool:
        """Whether values of machines that do not fit are put together with the others'."""
        return self.workers is not None and self.workers.mixed == "pool"


def encoded(manifest: Manifest) -> bytes:
    """A manifest as it is written."""
    return msgspec.json.format(msgspec.json.encode(manifest, enc_hook=enc_hook), indent=1) + b"\n"


def decoded(text: bytes, name: str) -> Manifest:
    """A manifest as it was written to the file ``name``. Raises ``StoreError``."""
    hint = "`blocklab run STUDY`, or `blocklab import` for logs, writes it again; the runs beside it stay"
    try:
        plain = outside.as_json(text, name)
        if (made := plain.get("format")) != FORMAT:
            raise StoreError(
                f"{name}: format {made}, but this blocklab reads format {FORMAT}",
                hint="`blocklab run` of the study measures its cells again",
            )
        plain["study"], _ = words(plain["study"])
        return msgspec.convert(plain, with_study(Manifest), dec_hook=dec_hook)
    except Unreadable as error:
        why = "it is empty" if not text.strip(b"\0 \n") else error.problem
        raise StoreError(f"{name} cannot be read: {why}", hint=hint) from error
    except (AttributeError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise StoreError(f"{name} cannot be read: {error}", hint=hint) from error


@contextlib.contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Be the only process that measures for a study's folder, which is made where it is not there. The kernel lets
    go of it when the process ends. Raises ``StoreError`` where another one measures, or no folder can be made."""
    try:
        make_folder(path)
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}", hint="use --runs DIR") from error
    try:
        # Some network file systems know no locks: then it has to do without.
        with contextlib.suppress(OSError):
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                hint = "wait for it, or keep the runs of this one elsewhere: --runs DIR"
                raise StoreError(f"another blocklab measures for {path} at the moment", hint=hint) from error
        yield
    finally:
        os.close(held)


def place_of(runs: Path, study: Study, *, quick: bool) -> Path:
    """The folder of a study's runs."""
    return runs / (study.name + ("-quick" if quick else ""))


class StudyFolder:
    """Where one study's runs live."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells = path / "cells"

    @classmethod
    def create(cls, runs: Path, manifest: Manifest, source: Path | None = None) -> StudyFolder:
        """Make or refresh the folder ``runs/<name>[-quick]``. Raises ``StoreError``; ``StudyError`` for one whose
        runs were imported where these are measured, or the other way round: its report would show them no more."""
        folder = cls(place_of(runs, manifest.study, quick=manifest.quick))
        # One that cannot be read shows nothing.
        with contextlib.suppress(StoreError):
            before = folder.manifest()
            folder._keep_kind(before, manifest)
            manifest = folder._with_drills(before, manifest)
        try:
            make_folder(folder.cells)
            folder.sweep()
            if source is not None:
                write_whole(folder.path / "study.yaml", outside.data(source, outside.MOST_TEXT))
            write_whole(folder.path / "study.json", encoded(manifest))
        except OSError as error:
            raise StoreError(f"{folder.path} cannot be written: {error}", hint="use --runs DIR") from error
        return folder

    def _keep_kind(self, before: Manifest, manifest: Manifest) -> None:
        if before.imported != manifest.imported:
            was, will = ("imported", "measured") if before.imported else ("measured", "imported")
            hint = "give one of the two another name, or another folder: --runs DIR"
            raise StudyError("name", f"{self.path} has runs of a study that were {was}, not {will}", hint=hint)

    def _with_drills(self, before: Manifest, manifest: Manifest) -> Manifest:
        """The manifest with the drills of an earlier call that asked for more of them: the report goes on to show
        them."""
        study = manifest.study
        drills = [cell for cell in manifest.cells if cell.repeat == 0 and is_drill(study, cell.workload)]
        repeats = range(study.repeats, before.study.repeats)
        more = (repeated(cell, repeat) for repeat in repeats for cell in drills)
        found = [cell for cell in more if (self.cells / cell.key).is_dir()]
        if not found:
            return manifest
        study = msgspec.structs.replace(study, repeats=found[-1].repeat + 1)
        return msgspec.structs.replace(manifest, study=study, cells=(*manifest.cells, *found))

    def manifest(self) -> Manifest:
        """The study that was run. Raises ``StoreError``."""
        path = self.path / "study.json"
        try:
            return decoded(outside.data(path), str(path))
        except Unreadable as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                raise StoreError(f"{self.path} is not a study's folder: it has no study.json") from error
            raise StoreError(f"{path} cannot be read: {error.problem}", hint=error.hint) from error

    def sweep(self) -> None:
        """Clear away what processes that are gone left half-written."""
        sweep(self.cells)
        for half in self.path.glob(".study.*"):
            half.unlink(missing_ok=True)

    def has(self, cell: Cell, since: float = 0.0) -> bool:
        """Whether a finished, good run of the cell is there that began at ``since`` (seconds since the epoch) or
        later. One that cannot be read is none."""
        folder = self.cells / cell.key
        return good(folder) and outcome_of(folder).started >= since

    @property
    def aside(self) -> Path:
        """Where runs are kept that could not be read when their cells were measured again."""
        return aside(self.cells)

    def unreadable(self, cells: Sequence[Cell]) -> tuple[StoreError, ...]:
        """Why runs of these cells cannot be read."""
        there = (self.cells / cell.key for cell in cells if self.there(cell))
        return tuple(why for folder in there if (why := damage(folder)) is not None)

    def there(self, cell: Cell) -> bool:
        """Whether the cell has a run, good or bad."""
        return (self.cells / cell.key).is_dir()

    def identity(self, cell: Cell) -> Identity | None:
        """Which machine the cell was measured on; None where there is no run, or one that cannot be read."""
        try:
            return identity(environment_of(self.cells / cell.key))
        except StoreError:
            return None

    def environments(self) -> list[dict[str, Any]]:
        """One environment for each machine and image that its cells ran on; of what can be read."""
        found = {}
        for path in sorted(self.cells.glob("*/environment.json")):
            # What cannot be read is for the report to say.
            with contextlib.suppress(StoreError):
                environment = environment_of(path.parent)
                found[machine_of(environment)] = environment
        return list(found.values())

    def missing(self, cells: Sequence[Cell], since: float = 0.0) -> tuple[Cell, ...]:
        """The cells that have no such run yet, in order."""
        return tuple(cell for cell in cells if not self.has(cell, since))

    def run(self, cell: Cell) -> Run | None:
        """The run of a cell, good or bad; None when it was never run."""
        folder = self.cells / cell.key
        return load(folder) if folder.is_dir() else None

    def analysed(self, cells: Sequence[Cell], *, detailed: Collection[str]) -> Iterator[Run | StoreError | None]:
        """The run of each cell as an analysis needs it (``store.run.analysed``), or why it cannot be read; None
        where it was never run. The keys in ``detailed`` come with their transactions."""
        there = [cell.key for cell in cells if (self.cells / cell.key).is_dir()]
        runs = analysed([self.cells / key for key in there], detailed=detailed)
        known = set(there)
        for cell in cells:
            yield next(runs) if cell.key in known else None

    def runs(self) -> tuple[Run, ...]:
        """Every run of the grid that can be read, in the grid's order; ``unreadable`` has the others."""
        found = []
        for cell in self.manifest().cells:
            with contextlib.suppress(StoreError):
                found.append(self.run(cell))
        return tuple(run for run in found if run is not None)


def newest(runs: Path) -> Path:
    """The study's folder that was touched last. Raises ``StoreError``."""
    found = sorted(runs.glob("*/study.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise StoreError(f"no study was run in {runs}", hint="blocklab run STUDY.yaml")
    return found[-1].parent

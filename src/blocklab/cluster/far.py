"""What runs in a Dask worker: what its machine is, and a unit of a study in a process of its own.

::

    <cache folder>/units/<unit>/<study's folder>    as in ``store.folder``, of the unit's cells only
    <cache folder>/units/<unit>/runs.tar.gz         its finished runs, until the controller has them

A unit that was begun goes on where it was, so its folder outlives the worker. It is removed when the runs have
arrived, or after ``KEPT_SECONDS``.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from distributed import get_worker

from blocklab import __version__
from blocklab.campaign.lines import received
from blocklab.campaign.needs import addons_of
from blocklab.errors import BlocklabError, SetupError, Unreadable
from blocklab.model import outside
from blocklab.model.cache import cache_folder
from blocklab.model.files import make_folder, write_whole
from blocklab.model.site import Room, offered
from blocklab.sites import DEFAULT, open_site
from blocklab.sites.own import Own
from blocklab.store.archive import Packed, pack
from blocklab.store.floor import with_floor
from blocklab.store.folder import StudyFolder, decoded
from blocklab.store.run import outcome_of
from blocklab.study.needs import site_problems
from blocklab.study.room import hardwares

# What measures in the process of its own.
MODULE = "blocklab.campaign.unit"
PART_BYTES = 4 << 20
LOOK_SECONDS = 0.5
KEPT_SECONDS = 14 * 86_400.0


class Order(msgspec.Struct, frozen=True):
    """A unit to measure: the folder's ``study.json`` with the unit's cells as what is to be done, the study's file
    as the user wrote it, and the ``topic`` of the events."""

    unit: str
    name: str
    manifest: bytes
    source: bytes
    topic: str


class Report(msgspec.Struct, frozen=True):
    """How a unit ended. ``statuses``: of each of its runs by key; ``missing``: the keys that have none, which
    ``error`` explains: that is the machine's fault, not the load's."""

    statuses: Mapping[str, str]
    missing: tuple[str, ...]
    packed: Packed
    error: str = ""


class About(msgspec.Struct, frozen=True):
    """A worker's machine. ``environment`` as a run stores it, with the floor where it was measured; ``lacks``: why
    the study cannot be measured here, empty where it can; ``units``: keys of those that were begun here.
    ``clock``: seconds since the epoch."""

    version: str
    host: str
    pid: int
    environment: dict[str, Any]
    lacks: str
    units: tuple[str, ...]
    clock: float


def units_folder() -> Path:
    """Where the units of this machine are. Two workers on it may be in different containers."""
    return cache_folder() / "units"


def about(manifest: bytes) -> bytes:
    """Look at this machine, for the study and the cells of a ``study.json``: an ``About`` as JSON."""
    environment: dict[str, Any] = {}
    lacks = ""
    try:
        what = decoded(manifest, "study.json")
        todo = set(what.todo or ())
        cells = [cell for cell in what.cells if cell.key in todo]
        site = open_site(what.site or DEFAULT)
        for path, problem in site_problems(what.study, cells, site.offers):
            raise SetupError(f"{path}: {problem}")
        if Room in site.offers:
            for shape, copies in hardwares(what.study, cells):
                offered(site, Room).room(shape, copies)
        # The same one everywhere, since machines are compared by it; without any of them this is an error.
        for addons in sorted(addons_of(what.study, cells)):
            environment = with_floor(site.environment(addons))
    except BlocklabError as error:
        lacks = f"{error.message} ({error.hint})" if error.hint else error.message
    begun = tuple(sorted(path.name for path in units_folder().glob("*"))) if units_folder().is_dir() else ()
    found = About(__version__, platform.node(), os.getpid(), environment, lacks, begun, time.time())
    return msgspec.json.encode(found)


def carry_out(order: bytes) -> bytes:
    """Measure a unit, what it has no run of yet; a ``Report`` as JSON. Raises ``BlocklabError``, ``OSError``: the
    machine cannot do it."""
    what = outside.typed_json(order, Order, "order")
    _sweep()
    place = units_folder() / what.unit
    folder = StudyFolder(place / what.name)
    make_folder(folder.cells)
    write_whole(folder.path / "study.yaml", what.source)
    write_whole(folder.path / "study.json", what.manifest)
    error = _measured(folder, what)
    manifest = folder.manifest()
    todo = manifest.todo or ()
    packed = pack(folder, todo, place / "runs.tar.gz")
    statuses = {key: outcome_of(folder.cells / key).status for key in packed.keys}
    missing = tuple(key for key in todo if key not in statuses)
    return msgspec.json.encode(Report(statuses, missing, packed, error if missing else ""))


def _measured(folder: StudyFolder, what: Order) -> str:
    """Run the process until it ends, or nobody wants the unit any more. What it said last."""
    worker = get_worker()
    key = worker.get_current_task()
    own = Own(MODULE, [str(folder.path)])
    wanted = True
    try:
        while not own.over and wanted:
            for text in own.lines(LOOK_SECONDS):
                with contextlib.suppress(Unreadable):
                    event = msgspec.structs.replace(received(text), unit=what.unit, worker=worker.address)
                    worker.log_event(what.topic, msgspec.json.encode(event))
            wanted = _wanted(worker, key)
    finally:
        code = own.end()
        said = own.said
    if not wanted:
        raise SetupError("the controller is gone, or wants it no more")
    return f"exit code {code}: {said}" if code else said


def _wanted(worker: Any, key: object) -> bool:
    """Whether somebody waits for a task's result: a controller that is gone has its tasks cancelled, which Dask
    cannot do to one that runs."""
    task = worker.state.tasks.get(key)
    return task is not None and task.state == "executing" and worker.status.name == "running"


def part(unit: str, number: int) -> bytes:
    """A piece of a unit's archive, from 0. Raises ``OSError``."""
    with (units_folder() / unit / "runs.tar.gz").open("rb") as stream:
        stream.seek(number * PART_BYTES)
        return stream.read(PART_BYTES)


def forget(unit: str) -> None:
    """Remove what is kept of a unit, whose runs have arrived."""
    shutil.rmtree(units_folder() / unit, ignore_errors=True)


def _sweep() -> None:
    """Remove units that nobody asked for again."""
    for path in units_folder().glob("*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)

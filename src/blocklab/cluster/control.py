"""Hands out a study's units to Dask's workers, one at a time to each, and takes their runs back.

Where a unit runs is decided here, and each is pinned to its worker: a unit that was begun goes on where its
finished cells are, and what a machine does wrong counts against that machine. What is finished is known by the run
folders alone; the scheduler may lose all that it knows.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import queue
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from distributed import Client, Future

from blocklab import __version__
from blocklab.campaign.lines import received
from blocklab.cluster import far
from blocklab.cluster.calls import LOST, Gone, everywhere, fetched
from blocklab.cluster.endpoint import RESOURCE, Endpoint
from blocklab.errors import BlocklabError, SetupError, StoreError, Unreadable
from blocklab.model import outside
from blocklab.rules.fit import fits
from blocklab.runner import events
from blocklab.store.folder import StudyFolder, encoded
from blocklab.store.identity import identity
from blocklab.study.types import Cell
from blocklab.study.units import Unit, units

# A controller looks for workers that came or went so often (s); a unit that ends wakes it at once.
LOOK_SECONDS = 0.5
# So long it waits for a scheduler that is gone, and for a worker where none is left.
PATIENCE_SECONDS = 600.0
# So long a unit that was begun waits for its machine, while others could have it.
RETURN_SECONDS = 60.0
# Failures in a row, for reasons of its own, after which a machine gets no more.
STRIKES = 2
# Clocks that are further apart (s) would make runs look older than the study.
CLOCK_SECONDS = 60.0


class Worker(msgspec.Struct, frozen=True):
    """A worker that fits. ``machine``: its machine's identity, ``name`` for people."""

    address: str
    name: str
    machine: str
    about: far.About


class Running(msgspec.Struct):
    """A unit at a worker; ``keys``: those of the cells that it is to measure."""

    unit: Unit
    keys: tuple[str, ...]
    worker: Worker
    future: Future[bytes]
    since: float
    # A future is what is asked, not a value.
    __hash__ = object.__hash__


class Controller:
    """The study's folder, and what is known of the workers."""

    def __init__(
        self, folder: StudyFolder, place: Endpoint, tell: events.Listener, *, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._folder = folder
        self._manifest = folder.manifest()
        self._mixed = self._manifest.workers.mixed if self._manifest.workers is not None else "refuse"
        self._place = place
        self._tell = tell
        self._patience = patience
        self._topic = f"blocklab-{uuid.uuid4().hex[:12]}"
        # Of the client's own thread: events, and empty texts to wake this one.
        self._inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._known: dict[str, Worker | None] = {}
        self._running: dict[str, Running] = {}
        self._strikes: dict[str, int] = {}
        self._whys: dict[str, str] = {}
        self._scheduler = ""
        # Machines that have a part of a unit, and since when each unit could go elsewhere.
        self._begun: dict[str, str] = {}
        self._lost: dict[str, float] = {}
        self._reference: far.About | None = None

    def run(self, todo: Sequence[Cell]) -> int:
        """Measure these cells, and all of a repeat's where the machine that began it is not there. The number of
        cells that did not end ``ok``. Raises ``SetupError`` before anything starts, and where the
        scheduler or all workers are gone for good: ``resume`` goes on then."""
        pending = list(units(todo))
        bad = 0
        client = self._connected()
        try:
            quiet = time.monotonic()
            while pending or self._running:
                try:
                    bad += self._turn(client, pending)
                except Gone:
                    self._put_back(pending)
                    client.close(timeout=1)
                    client = self._again()
                if self._running:
                    quiet = time.monotonic()
                elif pending and time.monotonic() - quiet > self._waits():
                    raise SetupError(self._nobody(), hint="blocklab resume goes on once there are workers")
                self._wait()
        finally:
            with contextlib.suppress(Exception):
                client.cancel([each.future for each in self._running.values()], force=True)
            client.close(timeout=5)
        return bad

    def _turn(self, client: Client, pending: list[Unit]) -> int:
        """Look who is there, take back what has ended, and hand out what waits. How many cells did not end ``ok``.
        Raises ``Gone``."""
        if client.status != "running":
            raise Gone
        self._look(client, pending)
        bad = sum(self._taken_back(client, running, pending) for running in self._ended())
        self._hand_out(client, pending)
        return bad

    # -- the scheduler -----------------------------------------------------------------------------------------

    def _connected(self) -> Client:
        client = self._place.client()
        try:
            client.subscribe_topic(self._topic, self._event)
            info = client.scheduler_info()
            link = self._dashboard(client, info)
        except LOST as error:
            client.close(timeout=1)
            raise SetupError(f"no scheduler answers at {self._place.address}: {error}") from error
        self._scheduler = info["id"]
        self._tell(events.Connected(self._place.address, link, len(info["workers"])))
        return client

    def _dashboard(self, client: Client, info: Mapping[str, Any]) -> str:
        """The link to Dask's own; without bokeh there it would lead to an excuse."""
        if "dashboard" not in info.get("services", {}):
            return ""
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            client.run_on_scheduler(importlib.metadata.version, "bokeh")
            return str(client.dashboard_link)
        return ""

    def _again(self) -> Client:
        """A new connection, once the scheduler is there again."""
        self._tell(events.Disconnected(self._place.address, self._patience))
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._connected()
            except SetupError as error:
                if time.monotonic() > deadline:
                    hint = "blocklab resume goes on once it is there"
                    raise SetupError(f"the scheduler is gone: {error.message}", hint=hint) from error
                time.sleep(LOOK_SECONDS)

    def _event(self, event: tuple[float, bytes]) -> None:
        """In the client's own thread."""
        self._inbox.put(event[1])

    def _wait(self) -> None:
        """Tell the events that came, until a look is due or a unit has ended."""
        deadline = time.monotonic() + LOOK_SECONDS
        while True:
            try:
                found = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return
            if not found:
                return
            self._tell_of(found)
            if time.monotonic() > deadline:
                return

    def _tell_of(self, text: bytes) -> None:
        """What comes of a unit that is no longer ours is left out."""
        # Whoever may use the scheduler can say anything.
        with contextlib.suppress(Unreadable):
            event = received(text)
            running = self._running.get(event.unit)
            if running is not None and running.worker.address == event.worker:
                unit, name = running.unit.label, running.worker.name
                self._tell(msgspec.structs.replace(event, unit=unit, worker=name))

    # -- the workers -------------------------------------------------------------------------------------------

    def _look(self, client: Client, pending: Sequence[Unit]) -> None:
        """Take in workers that came, and forget those that went."""
        try:
            info = client.scheduler_info()
        except LOST as error:
            raise Gone from error
        if info["id"] != self._scheduler:
            # The client has found another one by itself, which knows nothing of us.
            self._scheduler = info["id"]
            client.subscribe_topic(self._topic, self._event)
        there = info["workers"]
        for address in self._known.keys() - there.keys():
            self._known.pop(address)
        new = {address: each for address, each in there.items() if address not in self._known}
        if not new:
            return
        why, abouts = self._asked(client, new)
        for address, about in abouts.items():
            problem = self._misfit(about)
            name = str(new[address].get("name") or address)
            name = about.host if name == address else name
            who = identity(about.environment)
            if problem:
                why[address] = problem
                continue
            self._known[address] = Worker(address, name, who.machine or about.host, about)
            for unit in about.units:
                self._begun.setdefault(unit, who.machine or about.host)
            self._tell(events.Joined(str(who), address, worker=name))
        for address, problem in why.items():
            self._known[address] = None
            self._tell(events.Refused(problem, worker=str(new[address].get("name") or address)))
        if why and not any(self._known.values()) and not self._running:
            said = "; ".join(dict.fromkeys(f"{address}: {problem}" for address, problem in why.items()))
            raise SetupError(f"no worker can measure this study: {said}", hint="docs/many-machines.md")

    def _asked(
        self, client: Client, new: Mapping[str, Mapping[str, Any]]
    ) -> tuple[dict[str, str], dict[str, far.About]]:
        """Why workers cannot be used, and what the others say of themselves."""
        why = {
            address: f"it has no resource {RESOURCE}: start it with --resources {RESOURCE}=1"
            for address, each in new.items()
            if not each.get("resources", {}).get(RESOURCE)
        }
        rest = [address for address in new if address not in why]
        # By name, since one that lacks blocklab can load nothing of it.
        versions = everywhere(client, rest, importlib.metadata.version, "blocklab")
        for address, version in versions.items():
            if isinstance(version, importlib.metadata.PackageNotFoundError):
                why[address] = "it has no blocklab: pip install 'blocklab[dask]' there"
            elif version != __version__:
                why[address] = f"it has blocklab {version}, and this is {__version__}: install the same one there"
        rest = [address for address in rest if address not in why]
        abouts = {}
        for address, text in everywhere(client, rest, far.about, encoded(self._manifest)).items():
            if isinstance(text, bytes):
                abouts[address] = outside.typed_json(text, far.About, address)
            else:
                why[address] = f"it cannot be asked: {text}"
        return why, abouts

    def _misfit(self, about: far.About) -> str:
        """Why a worker's machine is of no use; empty where it fits."""
        if about.lacks:
            return about.lacks
        if (apart := abs(about.clock - time.time())) > CLOCK_SECONDS:
            return f"its clock is {apart:.0f} s off: set it, or start a time service there"
        # By the first one that fits.
        self._reference = about if self._reference is None else self._reference
        reasons = fits(self._reference.environment, about.environment)
        if reasons and self._mixed == "refuse":
            return f"{'; '.join(reasons)} (--mixed apart or --mixed pool take it all the same)"
        return ""

    def _nobody(self) -> str:
        out = [f"{name} ({why})" for name, why in self._whys.items()]
        said = f"; left out: {'; '.join(out)}" if out else ""
        return f"no worker is there for what is left{said}"

    def _waits(self) -> float:
        """Machines that are all left out do not come back."""
        there = {each.machine for each in self._known.values() if each is not None}
        return 0.0 if there and all(self._strikes.get(each, 0) >= STRIKES for each in there) else self._patience

    # -- the units ---------------------------------------------------------------------------------------------

    def _hand_out(self, client: Client, pending: list[Unit]) -> None:
        busy = {each.worker.address for each in self._running.values()}
        for worker in [each for each in self._known.values() if each is not None]:
            if worker.address in busy or self._strikes.get(worker.machine, 0) >= STRIKES:
                continue
            unit = self._next(worker, pending)
            if unit is not None:
                self._start(client, unit, worker)
                pending.remove(unit)

    def _next(self, worker: Worker, pending: Sequence[Unit]) -> Unit | None:
        """What was begun there, else what was begun nowhere, else what waited long enough for its machine."""
        there = {each.machine for each in self._known.values() if each is not None}

        def rank(unit: Unit) -> int:
            kept = self._kept_as(unit)
            machine = self._begun.get(kept)
            if machine == worker.machine:
                return 0
            if machine is None or self._strikes.get(machine, 0) >= STRIKES:
                return 1
            waited = time.monotonic() - self._lost.setdefault(kept, time.monotonic())
            return 2 if machine not in there and waited > RETURN_SECONDS else 3

        return min((unit for unit in pending if rank(unit) < 3), key=rank, default=None)

    def _start(self, client: Client, unit: Unit, worker: Worker) -> None:
        cells = self._cells_for(unit, worker)
        keys = tuple(cell.key for cell in cells)
        manifest = msgspec.structs.replace(self._manifest, todo=keys, since=0.0, workers=None)
        source = self._folder.path / "study.yaml"
        order = far.Order(
            self._kept_as(unit), self._folder.path.name, encoded(manifest),
            outside.data(source, outside.MOST_TEXT) if source.exists() else b"", self._topic,
        )  # fmt: skip
        try:
            future = client.submit(
                far.carry_out, msgspec.json.encode(order), key=f"blocklab-{unit.key}-{uuid.uuid4().hex[:8]}",
                workers=[worker.address], allow_other_workers=False, resources={RESOURCE: 1}, pure=False,
                retries=0,
            )  # fmt: skip
        except LOST as error:
            raise Gone from error
        kept = self._kept_as(unit)
        self._begun[kept] = worker.machine
        self._lost.pop(kept, None)
        self._running[kept] = Running(unit, keys, worker, future, time.monotonic())
        future.add_done_callback(lambda _: self._inbox.put(b""))
        self._tell(events.Assigned(len(cells), unit=unit.label, worker=worker.name))

    def _kept_as(self, unit: Unit) -> str:
        """The name of its folder on a worker: what is to be measured again is another one."""
        since = self._manifest.since
        return f"{unit.key}-{since:.0f}" if since else unit.key

    def _cells_for(self, unit: Unit, worker: Worker) -> Sequence[Cell]:
        """The unit's cells; all of its repeat's where others of them were measured on another machine: each ratio
        is of one machine."""
        keys = {cell.key for cell in unit.cells}
        todo = set(self._manifest.todo or ()) or {cell.key for cell in self._manifest.cells}
        rest = [cell for cell in self._manifest.cells if cell.repeat == unit.repeat and cell.key in todo - keys]
        here = identity(worker.about.environment)
        found = [self._folder.identity(cell) for cell in rest]
        if all(each is None or each.may_be(here) for each in found):
            return unit.cells
        return [cell for cell in self._manifest.cells if cell.repeat == unit.repeat and cell.key in todo]

    def _ended(self) -> Iterator[Running]:
        """Those that have ended, well or not, and those whose worker is gone."""
        ended = [
            (key, each)
            for key, each in self._running.items()
            if each.future.status != "pending" or each.worker.address not in self._known
        ]
        # What they told before has come, and is told while they are known.
        for _ in range(self._inbox.qsize()):
            if text := self._inbox.get():
                self._tell_of(text)
            else:
                self._inbox.put(text)
        for key, each in ended:
            del self._running[key]
            yield each

    def _put_back(self, pending: list[Unit]) -> None:
        """The scheduler is gone, and with it who runs what: no machine's fault."""
        pending += [each.unit for each in self._running.values()]
        self._running.clear()
        self._known.clear()

    def _taken_back(self, client: Client, running: Running, pending: list[Unit]) -> int:
        """Store what a worker measured, or put the unit back; how many of its cells did not end ``ok``."""
        unit, worker, future = running.unit, running.worker, running.future
        if future.status == "pending" or future.status in ("lost", "cancelled"):
            with contextlib.suppress(*LOST):
                client.cancel([future], force=True)
            return self._failed(running, pending, "it is gone", fault=future.status == "pending")
        try:
            report = outside.typed_json(future.result(timeout=30), far.Report, worker.address)
        except Exception as error:
            # Whatever a worker raised arrives as itself.
            why = error.message if isinstance(error, BlocklabError) else f"{type(error).__name__}: {error}"
            return self._failed(running, pending, why)
        try:
            taken = fetched(client, worker.address, self._kept_as(unit), running.keys, report, self._folder)
        except Gone:
            pending.append(unit)
            raise
        except (StoreError, SetupError) as error:
            if isinstance(error, StoreError) and error.hint:
                # This machine's disk.
                raise
            return self._failed(running, pending, error.message)
        if set(running.keys) - set(report.packed.keys):
            return self._failed(running, pending, report.error or "it ended early")
        self._strikes.pop(worker.machine, None)
        self._begun.pop(self._kept_as(unit), None)
        took = round(time.monotonic() - running.since, 1)
        self._tell(events.Kept(len(taken), took, unit=unit.label, worker=worker.name))
        with contextlib.suppress(Gone):
            everywhere(client, [worker.address], far.forget, self._kept_as(unit))
        return sum(report.statuses.get(key) != "ok" for key in running.keys)

    def _failed(self, running: Running, pending: list[Unit], why: str, *, fault: bool = True) -> int:
        """Put a unit back that a machine could not carry out."""
        worker = running.worker
        pending.append(running.unit)
        self._tell(events.Lost(why, unit=running.unit.label, worker=worker.name))
        if fault:
            count = self._strikes[worker.machine] = self._strikes.get(worker.machine, 0) + 1
            if count == STRIKES:
                self._whys[worker.name] = why
                self._tell(events.LeftOut(why, worker=worker.name))
        return 0

"""One run: the folder that holds all that a cell's measurement left.

::

    <study folder>/cells/<key>/
        cell.json           stack, workload, key and the full spec that the key is a hash of
        result.json         status, error, when, how long; format version
        environment.json    kernel, CPU, image, the version of every package
        steps.jsonl         every command that was run: host, argv, exit code, seconds
        stack.json          where the stack stood: devices, wires, times, clocks, see ``model.stack_map``
        knobs.json          every knob read back from the running system
        raw/                what the tools printed, byte for byte
        samples.parquet     values and series, made from raw/ by pure parsers
        phases.json         the named parts of the workload
        transactions.parquet  what the workload logged of single transactions, if it did
        stops.json          of a workload that went on until it was sure: why each phase was measured no longer
        rounds.jsonl        its values in each round
        drill.json          of a drill: what was done, what the client saw in each tenth of a second, the verdict
        ledger.json         what the database had afterwards, which the verdict was made from
        latencies.json      of an imported log with too many transactions to keep each
        files.json          of an imported run: the files that it was made from, see ``imported``

It is written under a temporary name, and renamed when it is complete and on the disk; so a folder that exists is
whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from blocklab.errors import StoreError, Unreadable
from blocklab.model import files as disk
from blocklab.model import outside
from blocklab.model.drill import Drill, Ledger
from blocklab.model.plan import Knob
from blocklab.model.sample import OWN, Latencies, Parsed, Phase, Sample, Spread, Transaction
from blocklab.model.stack_map import StackMap
from blocklab.store import tables
from blocklab.store.imported import ImportedFile
from blocklab.study.old import kind
from blocklab.study.types import Cell

FORMAT = 4
# The CPU in the environment of a run whose programs saw nothing of the machine's own one.
HIDDEN = "virtual"
# Runs whose series are read by one query: of more it is no faster, and all of them are held twice meanwhile.
_AT_ONCE = 8
# What a process writes, or is about to replace, of a key.
_HALF = re.compile(r"\.(?P<key>.+)\.(?P<pid>[0-9]+)\.(?P<kind>partial|old)")
Status = Literal["ok", "failed", "invalid", "suspect"]
Reason = Literal["settled", "capped", "drained", "failed"]
T = TypeVar("T")


class Record(msgspec.Struct, frozen=True):
    """One command that was run: ``part`` is ``build``, ``prepare``, ``knob``, ``workload``, ``probe`` or ``undo``.

    ``put`` as the program is a file that was written; its text is in ``said``. ``cpu``: seconds of CPU; of a probe
    those that it took of its host's, of a workload those that blocklab's own process took meanwhile; None for all
    others, and where it is not known.
    """

    part: str
    host: str
    argv: tuple[str, ...]
    code: int
    seconds: float
    said: str = ""
    cpu: float | None = None


class Rate(msgspec.Struct, frozen=True):
    """A rate (1/s) that a workload is known by: its mean, and the half width of its 95 % interval; None where
    there is none."""

    metric: str
    value: float | None
    half: float | None = None


class Stopped(msgspec.Struct, frozen=True):
    """Why a phase was measured no longer, and what was known of its rates then.

    ``reason``: ``settled`` (sure enough), ``capped`` (as long as allowed), ``drained`` (its program ended by
    itself before) or ``failed``. ``why`` says of a phase that is not settled what it lacks. ``seconds`` is the
    time under load, ``cut`` the part of it (s) that was left out as warm-up.
    """

    phase: str
    reason: Reason
    rates: tuple[Rate, ...] = ()
    rounds: int = 1
    seconds: float = 0.0
    cut: float = 0.0
    why: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """How a cell ended. ``started`` is seconds since the epoch, ``seconds`` the whole cell's duration."""

    status: Status
    error: str = ""
    hint: str = ""
    started: float = 0.0
    seconds: float = 0.0
    format: int = FORMAT


class Run(msgspec.Struct, frozen=True):
    """A run as read back. ``samples`` with a ``time`` are points of series; those without are values.

    ``series_by_name``: the series, of a run that was read for its values (``analysed``); ``samples`` has only
    the values then.
    """

    folder: Path
    cell: Cell
    outcome: Outcome
    environment: dict[str, Any]
    records: tuple[Record, ...]
    knobs: tuple[Knob, ...]
    samples: tuple[Sample, ...]
    phases: tuple[Phase, ...]
    transactions: tuple[Transaction, ...]
    stops: tuple[Stopped, ...] = ()
    rounds: tuple[Spread, ...] = ()
    drill: Drill | None = None
    latencies: Latencies | None = None
    files: tuple[ImportedFile, ...] = ()
    series_by_name: Mapping[tables.Key, tables.Series] | None = None
    stack: StackMap = StackMap()

    def values(self) -> tuple[Sample, ...]:
        """The samples that stand for a whole phase."""
        return tuple(sample for sample in self.samples if sample.time is None and sample.metric != OWN)

    def own(self) -> tuple[Sample, ...]:
        """What measuring itself took of a CPU: blocklab's process (layer ``blocklab``) and each probe."""
        return tuple(sample for sample in self.samples if sample.metric == OWN)

    def series(self) -> tuple[Sample, ...]:
        """The samples with a time."""
        return tuple(sample for sample in self.samples if sample.time is not None)

    def value(self, metric: str, phase: str = "") -> Sample | None:
        """The one value of that metric and phase that the workload itself reported; None when there is none."""
        for sample in self.samples:
            if sample.time is None and sample.metric == metric and sample.phase == phase:
                return sample
        return None


class Draft:
    """A run that is being written. ``raw`` is the folder for the tools' output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.raw = folder / "raw"
        self.raw.mkdir(parents=True)
        self.dropped = False

    def drop(self) -> None:
        """Leave what is there under its key as it is."""
        self.dropped = True

    def write(
        self,
        cell: Cell,
        outcome: Outcome,
        *,
        environment: dict[str, Any],
        records: Sequence[Record],
        knobs: Sequence[Knob],
        parsed: Parsed,
        stops: Sequence[Stopped] = (),
        rounds: Sequence[Spread] = (),
        drill: Drill | None = None,
        ledger: Ledger | None = None,
        latencies: Latencies | None = None,
        files: Sequence[ImportedFile] = (),
        stack: StackMap | None = None,
    ) -> None:
        """Everything but the raw output, which is there already."""
        if stack is not None:
            _write_json(self.folder / "stack.json", stack)
        _write_json(self.folder / "cell.json", cell)
        _write_json(self.folder / "environment.json", environment)
        _write_json(self.folder / "knobs.json", knobs)
        _write_json(self.folder / "phases.json", parsed.phases)
        _write_lines(self.folder / "steps.jsonl", records)
        tables.write(self.folder, parsed)
        if stops:
            _write_json(self.folder / "stops.json", stops)
            _write_lines(self.folder / "rounds.jsonl", rounds)
        if drill is not None:
            _write_json(self.folder / "drill.json", drill)
        if ledger is not None:
            # A row each would be a line each.
            (self.folder / "ledger.json").write_bytes(msgspec.json.encode(ledger) + b"\n")
        if latencies is not None:
            _write_json(self.folder / "latencies.json", latencies)
        if files:
            _write_json(self.folder / "files.json", files)
        _write_json(self.folder / "result.json", outcome)


@contextlib.contextmanager
def draft(cells: Path, key: str) -> Iterator[Draft]:
    """A new run under a temporary name, which takes the place of an older one of that key at the end of the block.

    An exception in the block removes the draft. Raises ``StoreError`` when the disk is full.
    """
    temporary = cells / f".{key}.{os.getpid()}.partial"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        disk.make_folder(cells)
        temporary.mkdir()
        made = Draft(temporary)
        yield made
        if not made.dropped:
            take_place(temporary, cells / key)
    except OSError as error:
        raise StoreError(
            f"cannot write the run {cells / key}: {error}", hint="make room, or use --runs DIR"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def take_place(new: Path, final: Path) -> None:
    """Store a run: the folder ``new``, once all of it is on the disk, as ``final``. An older run there is removed;
    one that cannot be read is kept in ``aside``, for its raw output. Raises ``OSError``."""
    old = None
    if final.exists():
        old = final.with_name(f".{final.name}.{os.getpid()}.old") if damage(final) is None else _free(final)
        final.rename(old)
    disk.move(new, final)
    if old is not None and old.parent == final.parent:
        shutil.rmtree(old, ignore_errors=True)


def aside(cells: Path) -> Path:
    """The folder for runs that could not be read when they were measured again."""
    return cells.parent / "unreadable"


def _free(final: Path) -> Path:
    """A name in ``aside`` that no run has."""
    folder = aside(final.parent)
    disk.make_folder(folder)
    further = (f"{final.name}-{number}" for number in itertools.count(2))
    return next(path for name in itertools.chain([final.name], further) if not (path := folder / name).exists())


def sweep(cells: Path) -> None:
    """Remove the drafts of processes that are gone; put back a run that one was about to replace.

    Not to be called while this process writes one: a draft under its own id is that of an earlier process (in a
    container ids come again).
    """
    for folder in cells.glob(".*"):
        half = _HALF.fullmatch(folder.name)
        if half is None or (half["pid"] != str(os.getpid()) and Path(f"/proc/{half['pid']}").exists()):
            continue
        if half["kind"] == "old" and not (cells / half["key"]).exists():
            folder.rename(cells / half["key"])
        else:
            shutil.rmtree(folder, ignore_errors=True)


def damage(folder: Path) -> StoreError | None:
    """Why a run cannot be read, naming the file; None where it can."""
    try:
        run = head(folder)
        for name, kind in (("steps.jsonl", Record), *((("rounds.jsonl", Spread),) if run.stops else ())):
            _read_lines(folder / name, kind)
        ledger_of(folder)
        tables.check(folder)
    except StoreError as error:
        return error
    return None


def load(folder: Path) -> Run:
    """Read a run back. Raises ``StoreError`` that names the file."""
    run = head(folder)
    return msgspec.structs.replace(
        run,
        records=tuple(_read_lines(folder / "steps.jsonl", Record)),
        samples=tables.samples(folder),
        transactions=tables.transactions(folder),
        rounds=tuple(_read_lines(folder / "rounds.jsonl", Spread)) if run.stops else (),
    )


def analysed(folders: Sequence[Path], *, detailed: Collection[str]) -> Iterator[Run | StoreError]:
    """Runs as an analysis needs them: with their series as ``series_by_name``, and with their transactions where
    their folders' names are in ``detailed``. For one that cannot be read why not, naming the file."""
    for first in range(0, len(folders), _AT_ONCE):
        some = folders[first : first + _AT_ONCE]
        known = tables.ahead(some)
        for folder in some:
            run: Run | StoreError
            try:
                run = _analysed(folder, known.get(folder), transactions=folder.name in detailed)
            except StoreError as error:
                run = error
            yield run


def _analysed(folder: Path, groups: tables.Groups | None, *, transactions: bool) -> Run:
    run = head(folder)
    values, series_by_name = tables.series_by_name(folder, groups)
    return msgspec.structs.replace(
        run,
        records=tuple(_read_lines(folder / "steps.jsonl", Record)),
        samples=values,
        series_by_name=series_by_name,
        transactions=tables.transactions(folder) if transactions else (),
        rounds=tuple(_read_lines(folder / "rounds.jsonl", Spread)) if run.stops else (),
    )


def head(folder: Path) -> Run:
    """A run without what is long: its commands, samples, transactions and rounds. Raises ``StoreError``."""
    outcome = _read_json(folder / "result.json", Outcome)
    if outcome.format != FORMAT:
        raise StoreError(
            f"{folder}: format {outcome.format}, but this blocklab reads format {FORMAT}",
            hint=tables.again(folder / "result.json"),
        )
    ruled, dense = (folder / "stops.json").exists(), (folder / "latencies.json").exists()
    imported, built = (folder / "files.json").exists(), (folder / "stack.json").exists()
    return Run(
        folder=folder,
        cell=_read_json(folder / "cell.json", Cell),
        outcome=outcome,
        environment=_read_json(folder / "environment.json", dict[str, Any]),
        records=(),
        knobs=tuple(
            msgspec.structs.replace(knob, layer=kind("layer", knob.layer))
            for knob in _read_json(folder / "knobs.json", tuple[Knob, ...])
        ),
        samples=(),
        phases=_read_json(folder / "phases.json", tuple[Phase, ...]),
        transactions=(),
        stops=_read_json(folder / "stops.json", tuple[Stopped, ...]) if ruled else (),
        drill=_read_json(folder / "drill.json", Drill) if (folder / "drill.json").exists() else None,
        latencies=_read_json(folder / "latencies.json", Latencies) if dense else None,
        files=_read_json(folder / "files.json", tuple[ImportedFile, ...]) if imported else (),
        stack=_read_json(folder / "stack.json", StackMap) if built else StackMap(),
    )


def output_of(runs: Iterable[Run]) -> str:
    """12 hex digits for all that the tools of some runs printed: equal where every byte is, in whatever order the
    runs come. Raises ``StoreError`` where it cannot be read."""
    found = hashlib.sha256()
    for run in sorted(runs, key=lambda run: run.cell.key):
        for path in sorted(path for path in (run.folder / "raw").rglob("*") if path.is_file()):
            try:
                with outside.opened(path) as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
            except (OSError, Unreadable) as error:
                raise StoreError(f"{path} cannot be read: {error}") from error
            found.update(f"{run.cell.key} {path.relative_to(run.folder)} {content}\n".encode())
    return found.hexdigest()[:12]


def ledger_of(folder: Path) -> Ledger | None:
    """What the database had after a drill; None where it could not be read then. Raises ``StoreError``."""
    path = folder / "ledger.json"
    return _read_json(path, Ledger) if path.exists() else None


def good(folder: Path) -> bool:
    """Whether there is a run that can be read and ended ``ok``."""
    return folder.is_dir() and damage(folder) is None and outcome_of(folder).status == "ok"


def outcome_of(folder: Path) -> Outcome:
    """Just how a run ended. Raises ``StoreError``."""
    return _read_json(folder / "result.json", Outcome)


def environment_of(folder: Path) -> dict[str, Any]:
    """Just where a run was measured. Raises ``StoreError``."""
    return _read_json(folder / "environment.json", dict[str, Any])


def _write_json(path: Path, value: Any) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def _write_lines(path: Path, rows: Sequence[Any]) -> None:
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))


def _read_json(path: Path, kind: type[T]) -> T:
    try:
        return outside.typed_json(outside.data(path), kind, str(path))
    except Unreadable as error:
        raise StoreError(f"{path} cannot be read: {error.problem}", hint=tables.again(path)) from error


def _read_lines(path: Path, kind: type[T]) -> list[T]:
    try:
        return outside.typed_lines(outside.data(path), kind, str(path))
    except Unreadable as error:
        raise StoreError(f"{path} cannot be read: {error.problem}", hint=tables.again(path)) from error

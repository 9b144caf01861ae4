"""Drills in virtual time once more: the same crash, with a look at its nodes before it, or other moments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from itertools import pairwise

import msgspec

from blocklab.campaign.remaining import Remaining
from blocklab.campaign.start import site_of
from blocklab.cli.progress import Lines
from blocklab.errors import HostError, NodeLost, ParseError, StoreError, StudyError, Unreadable
from blocklab.model import outside
from blocklab.model.drill import Drill
from blocklab.model.host import Host
from blocklab.model.site import OwnTime
from blocklab.model.terminal import Console
from blocklab.runner.estimate import costs
from blocklab.runner.run import run_cells
from blocklab.runner.strikes import Moment
from blocklab.runner.workshop import Workshop
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Run
from blocklab.study.types import Cell
from blocklab.workloads import ledger_output

# What a drill's seed has in it before the moment of a crash that was searched.
AT = "@"
# A shell's command that does not end is ended after so many seconds of the nodes' time.
COMMAND_SECONDS = 60.0


class SearchedCrash(msgspec.Struct, frozen=True):
    """A crash that was searched: ``after`` so many seconds, with the seed that replays it."""

    after: float
    seed: str
    verdict: str
    lost: int
    torn: int

    @property
    def rank(self) -> tuple[int, float]:
        """Torn transactions first, then the smallest loss; those that lost nothing last."""
        return (0 if self.torn else 1, self.lost) if self.torn or self.lost else (2, 0)


def replay(folder: StudyFolder, seed: str, console: Console) -> bool | None:
    """Carry a drill of a folder out again, with a shell before the crash. Whether the same is gone as before; None
    where one of both could not be judged.

    Raises ``StudyError`` where there is no such drill, or it lived in real time; what carrying out raises.
    """
    text, _, after = seed.partition(AT)
    before = _run(folder, text)
    shell = Shell(console)
    moment = Moment(float(after) if after else None, shell)
    with contextlib.closing(Again(folder, console)) as again:
        found = again.drill(before.cell, moment)
    console.print(f"gone: {_gone(found)}; verdict: {found.verdict.status}")
    if after:
        return None if found.verdict.status == "unknown" else True
    assert before.drill is not None
    then, now = before.drill.verdict, found.verdict
    if "unknown" in (then.status, now.status):
        why = "; ".join(each.why for each in (then, now) if each.status == "unknown")
        console.print(f"undecided: what is gone is not known ({why})", style="yellow")
        return None
    same = (now.missing, now.torn) == (then.missing, then.torn)
    if same:
        console.print("the same as before, transaction by transaction")
    elif shell.used:
        console.print("not the same as before: what was done in the shell took time, and came before the crash")
    else:
        console.print(f"not the same as before: {_gone(before.drill)}", style="red")
    return same or shell.used


def search(folder: StudyFolder, cell: Cell, count: int, console: Console) -> list[SearchedCrash]:
    """Crash a drill of a folder at ``count`` moments between what its client sent and what was acknowledged, in
    the second before its own crash; all that happened until then happens again. The best finds first.

    Raises ``StoreError`` where the drill has no history; what carrying out raises.
    """
    before = _run(folder, "", cell)
    assert before.drill is not None
    found = []
    with contextlib.closing(Again(folder, console)) as again:
        for after in moments(before, count):
            drill = again.drill(cell, Moment(after))
            lost, torn = len(drill.verdict.missing), len(drill.verdict.torn)
            found.append(SearchedCrash(after, drill.seed, drill.verdict.status, lost, torn))
            gone = "unknown" if drill.verdict.status == "unknown" else _gone(drill)
            console.print(f"crash after {after:.6f} s: {gone}")
    found.sort(key=lambda each: each.rank)
    (folder.path / f"search-{cell.key}.json").write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return found


def moments(run: Run, count: int) -> list[float]:
    """Moments for a drill's crash, each between two events at its client: of the second before the crash as many
    as ``count``, evenly chosen. Seconds after the workload's start. Raises ``StoreError``."""
    drill = run.drill
    history = run.folder / "raw" / "workload" / "history.tsv"
    if drill is None or drill.struck is None or drill.after is None:
        hint = "blocklab drill STUDY --clock virtual"
        raise StoreError(f"{run.folder} has no crash to search around", hint=hint)
    try:
        attempts, _ = ledger_output.attempts(outside.data(history))
    except (Unreadable, ParseError) as error:
        why = error.problem if isinstance(error, Unreadable) else error
        raise StoreError(f"{history} cannot be read: {why}") from error
    struck = drill.struck
    times = {time for each in attempts for time in (each.sent, each.ended) if time is not None}
    events = sorted(time for time in times if struck - 1 <= time < struck)
    between = [(earlier + later) / 2 for earlier, later in pairwise(events)]
    chosen = between if len(between) <= count else [between[n * len(between) // count] for n in range(count)]
    return [max(0.0, drill.after + time - struck) for time in chosen]


class Again:
    """Carries drills of a folder out again, each in a folder of its own below it."""

    def __init__(self, folder: StudyFolder, console: Console) -> None:
        manifest = folder.manifest()
        self._console = console
        self._manifest = manifest
        self._source = folder.path / "study.yaml"
        self._place = folder.path / "replays"
        site = site_of(manifest)
        if OwnTime not in site.offers:
            raise StudyError(
                "", f"the drills of {folder.path} lived in real time, in which nothing happens twice",
                hint="blocklab drill STUDY --clock virtual",
            )  # fmt: skip
        # What was loaded for one is there for the next.
        self._workshop = Workshop(site)

    def close(self) -> None:
        """End the nodes."""
        self._workshop.close()

    def drill(self, cell: Cell, moment: Moment) -> Drill:
        """Once more. Raises ``StoreError`` where it could not be carried out."""
        manifest = msgspec.structs.replace(self._manifest, cells=(cell,), todo=(cell.key,))
        there = StudyFolder.create(self._place, manifest, self._source)
        (cost,) = costs(manifest.study, (cell,))
        tell = Remaining([cost.computed]).announcing(Lines(self._console))
        run_cells(self._workshop, manifest.study, (cell,), there, tell, manifest.seed, moment)
        run = there.run(cell)
        if run is None or run.drill is None:
            why = f": {run.outcome.error}" if run is not None else ""
            raise StoreError(f"the drill could not be carried out again{why}")
        return run.drill


class Shell:
    """Before the crash: commands for the nodes from standard input, until it ends or says ``crash``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.used = False

    def __call__(self, hosts: Mapping[str, Host]) -> None:
        names = list(hosts)
        self._console.print(
            f"before the crash; nodes: {', '.join(names)}. The name of a node and a command runs it there; "
            "`crash` or the end of the input goes on.",
            markup=False,
        )
        for line in self._lines():
            name, _, command = line.strip().partition(" ")
            if name == "crash":
                return
            if name not in hosts or not command:
                if name:
                    self._console.print(f"a node and a command: {names[0]} cat /proc/drbd")
                continue
            self.used = True
            try:
                done = hosts[name].run(("sh",), input=f"{command}\n".encode(), timeout=COMMAND_SECONDS)
                self._console.out(done.said.rstrip(), highlight=False)
            except NodeLost:
                raise
            except HostError as error:
                self._console.print(error.message, style="red")

    def _lines(self) -> Iterator[str]:
        while True:
            try:
                yield self._console.input("> ")
            except EOFError:
                self._console.print()
                return


def _run(folder: StudyFolder, seed: str, cell: Cell | None = None) -> Run:
    """A drill by its seed or by its cell."""
    drills = [run for run in folder.runs() if run.drill is not None]
    for run in drills:
        assert run.drill is not None
        if (cell is not None and run.cell.key == cell.key) or (cell is None and run.drill.seed == seed):
            return run
    if broken := folder.unreadable(folder.manifest().cells):
        raise broken[0]
    known = ", ".join(repr(run.drill.seed) for run in drills[:4] if run.drill)
    raise StudyError(
        "", f"{folder.path} has no drill with the seed {seed!r}",
        hint=f"there are {known}{', ...' if len(drills) > 4 else ''}" if drills else "blocklab drill STUDY",
    )  # fmt: skip


def _gone(drill: Drill) -> str:
    """``2 of 1,369 acknowledged (ids 1366, 1367)``, with torn transactions."""
    verdict = drill.verdict
    ids = [str(each.id) for each in verdict.missing]
    named = f" (ids {', '.join(ids[:8])}{', ...' if len(ids) > 8 else ''})" if ids else ""
    torn = f", {len(verdict.torn)} torn" if verdict.torn else ""
    return f"{len(ids)} of {verdict.acknowledged:,} acknowledged{named}{torn}"

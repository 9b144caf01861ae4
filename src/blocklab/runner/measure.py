"""One cell on a stack that stands: prepare, watch, load, collect, parse."""

from __future__ import annotations

import contextlib
import fnmatch
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from blocklab.errors import CommandError, HostError, NodeLost, ParseError
from blocklab.model.host import Host, Proc, must
from blocklab.model.plan import Fact, Knob, Port, Run
from blocklab.model.protocols import Load, Probe, Workload
from blocklab.model.sample import Parsed, Sample
from blocklab.probes import PROBES
from blocklab.runner.engine import Engine
from blocklab.store.run import Record

PROBE_SECONDS = 1
# iostat waits for the next whole second before it starts to count; the load starts after that.
PROBE_LEAD = 1.5
STOP_SECONDS = 5.0
KILL_SECONDS = 5.0


class Measured:
    """What a cell left: knobs before and after, parsed output, warnings."""

    def __init__(self) -> None:
        self.knobs: list[Knob] = []
        self.parsed = Parsed()
        self.warnings: list[str] = []


def measure(
    engine: Engine, workload: Workload, port: Port, facts: Sequence[Fact], raw: Path, measured: Measured
) -> None:
    """Measure once, into ``measured``. ``facts`` are those of the stack; every probe watches every host.

    Raises ``CommandError`` when the load fails, ``ParseError`` when its output makes no sense, ``NodeLost``.
    What was found before an error stays in ``measured``, and the raw output in ``raw``.
    """
    hosts = list(engine.hosts)
    mark = engine.mark()
    try:
        engine.carry_out([*workload.prepare(port), *settled(hosts)], "prepare")
        measured.knobs = engine.ask([*facts, *workload.facts(port)])
        load = workload.load(port)
        probes = _Watched(engine, hosts, raw)
        try:
            time.sleep(PROBE_LEAD)
            _run_load(engine, load, raw)
        finally:
            probes.stop()
        _fetch(engine.hosts[load.host], load, raw)
        # A mirror that broke during the load leaves figures of another layout: ask again.
        measured.knobs += engine.ask([fact for fact in facts if fact.wanted])
        measured.parsed = _parse(workload, load, hosts, raw, measured)
    finally:
        engine.undo(mark)


def settled(hosts: Iterable[str]) -> tuple[Run, ...]:
    """Steps that write back what building and preparing left dirty: seconds later it would hit the load."""
    return tuple(Run(host, ("sync",)) for host in hosts)


def _run_load(engine: Engine, load: Load, raw: Path) -> None:
    folder = raw / "load"
    folder.mkdir()
    # The last one asked before is the first one asked after.
    _around(engine, load, folder, "before", list(load.around))
    started = time.monotonic()
    proc = engine.hosts[load.host].spawn(load.argv, folder / "stdout", folder / "stderr")
    try:
        code = proc.wait(load.seconds)
    except TimeoutError as error:
        _stop(proc, signal.SIGTERM)
        said = f"did not end in {load.seconds:g} s; stopped"
        engine.records.append(Record("load", load.host, load.argv, -15, time.monotonic() - started, said))
        raise CommandError(load.host, load.argv, -15, said) from error
    except BaseException:
        _stop(proc, signal.SIGTERM)
        raise
    engine.records.append(Record("load", load.host, load.argv, code, time.monotonic() - started))
    if code != 0:
        said = (folder / "stdout").read_text(errors="replace") + (folder / "stderr").read_text(errors="replace")
        raise CommandError(load.host, load.argv, code, said)
    _around(engine, load, folder, "after", list(load.around)[::-1])


def _around(engine: Engine, load: Load, folder: Path, when: str, names: Iterable[str]) -> None:
    """Keep what the commands around a load print."""
    for name in names:
        argv, started = load.around[name], time.monotonic()
        text = must(engine.hosts[load.host], argv)
        engine.records.append(Record("load", load.host, argv, 0, time.monotonic() - started))
        (folder / f"{name}.{when}").write_text(text)


def _stop(proc: Proc, number: int) -> None:
    """Signal and wait; SIGKILL when that does not help. A lost node ends the wait."""
    try:
        proc.signal(number)
        proc.wait(STOP_SECONDS)
    except TimeoutError:
        # What outlives SIGKILL hangs in the node's kernel; the node's end will be its end.
        with contextlib.suppress(TimeoutError, HostError):
            proc.signal(signal.SIGKILL)
            proc.wait(KILL_SECONDS)
    except HostError:
        return


class _Watched:
    """Every probe on every host, from the constructor to ``stop``."""

    def __init__(self, engine: Engine, hosts: Sequence[str], raw: Path) -> None:
        self._engine = engine
        self._running: list[tuple[str, Probe, Proc, float]] = []
        try:
            for host in hosts:
                folder = raw / "probes" / host
                folder.mkdir(parents=True)
                for probe in PROBES:
                    proc = engine.hosts[host].spawn(
                        probe.argv(PROBE_SECONDS), folder / probe.name, folder / f"{probe.name}.stderr"
                    )
                    self._running.append((host, probe, proc, time.monotonic()))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the probes with SIGINT, upon which iostat closes its JSON."""
        for _, _, proc, _ in self._running:
            try:
                proc.signal(signal.SIGINT)
            except HostError:
                continue
        for host, probe, proc, started in self._running:
            _stop(proc, signal.SIGINT)
            seconds = time.monotonic() - started
            self._engine.records.append(Record("probe", host, probe.argv(PROBE_SECONDS), 0, seconds))
        self._running.clear()


def _fetch(host: Host, load: Load, raw: Path) -> None:
    """Bring the files that the load left. ``fetch`` holds paths whose last part may be a pattern."""
    for pattern in load.fetch:
        path = PurePosixPath(pattern)
        names = must(host, ("ls", "-1", "-A", "--", str(path.parent))).splitlines()
        for name in fnmatch.filter(names, path.name):
            try:
                data = host.get(str(path.parent / name))
            except OSError as error:
                raise HostError(host.name, f"cannot read {path.parent / name}: {error.strerror}") from error
            (raw / "load" / name).write_bytes(data)


def _parse(workload: Workload, load: Load, hosts: Sequence[str], raw: Path, measured: Measured) -> Parsed:
    files = {file.name: file.read_bytes() for file in sorted((raw / "load").iterdir())}
    parsed = workload.parse(files, load.host)
    samples: list[Sample] = list(parsed.samples)
    for host in hosts:
        for probe in PROBES:
            text = (raw / "probes" / host / probe.name).read_bytes()
            try:
                samples += probe.parse(text, host)
            except ParseError as error:
                measured.warnings.append(f"{host}: probe {probe.name}: {error.message}")
    return Parsed(tuple(samples), parsed.phases, parsed.transactions)


def not_in_force(knobs: Sequence[Knob]) -> list[Knob]:
    """The knobs that the study sets and the running system does not have."""
    return [knob for knob in knobs if not knob.in_force]


def offsets(hosts: Mapping[str, Host]) -> tuple[dict[str, float], list[str]]:
    """Each host's clock less ours, in seconds, as far as a command's round trip tells; and the lost hosts."""
    found: dict[str, float] = {}
    lost: list[str] = []
    for name, host in hosts.items():
        before = time.time()
        try:
            there = float(must(host, ("date", "+%s.%N")))
        except NodeLost:
            lost.append(name)
            continue
        except HostError:
            continue
        found[name] = there - (before + time.time()) / 2
    return found, lost

"""One cell on a stack that stands: prepare, watch, load, collect, parse."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from blocklab.errors import BlocklabError, HostError, KnobError, NodeLost, ParseError
from blocklab.model.clock import MACHINE, Timer, clock
from blocklab.model.host import Host, Proc
from blocklab.model.plan import Argv, Fact, Knob, Port
from blocklab.model.sample import OWN, Parsed, Sample, Spread
from blocklab.model.stack_map import Clock, StackMap
from blocklab.model.workload import Ruled, SlowStart, Workload
from blocklab.probes import PROBES, SAMPLER
from blocklab.runner.cross import Cross
from blocklab.runner.engine import Engine
from blocklab.runner.single import run_once, stop
from blocklab.runner.trials import Tell, Trials
from blocklab.store.run import Record, Stopped
from blocklab.study.phases import (
    CELL,
    Ask,
    Do,
    Mark,
    Measure,
    Phase,
    Undo,
    Unwatch,
    Watch,
    measurement,
    rule_of,
    start,
)

# Probes count from whole seconds on. What matters is that they wait for the next one when the workload starts: the
# second that is under way then is partly without workload, and no use.
PROBE_LEAD = 0.3
# Ended before that, under a workload that takes no time, they have printed nothing.
PROBE_LEAST = 1.5
# On a busy node it may take one longer.
PROBE_MOST = 10.0
# An answer that took longer says too little of a clock.
CLOCK_SECONDS = 1.0
# Steps of a clock up to this (s) move no point of a probe, of which there is one a second, into another second.
CLOCK_STEP = 0.1
# As fast as NTP may make a clock go, which is no step.
CLOCK_DRIFT = 500e-6


class Measured:
    """What a cell left: knobs before and after, parsed output, how sure it is, warnings."""

    def __init__(self) -> None:
        self.knobs: list[Knob] = []
        self.parsed = Parsed()
        self.stops: list[Stopped] = []
        self.rounds: list[Spread] = []
        self.warnings: list[str] = []
        self.suspicions: list[str] = []


def measure(
    engine: Engine,
    workload: Workload,
    port: Port,
    facts: Sequence[Fact],
    raw: Path,
    measured: Measured,
    where: StackMap,
    seed: str = "",
    tell: Tell | None = None,
    correct: Correct | None = None,
) -> None:
    """Measure once, into ``measured``. ``facts`` are those of the stack; every probe watches every host. ``where``
    says where the stack's devices are. ``seed`` is for the order of a workload's phases, which an empty one leaves
    as it is. ``tell`` is told of its rates. ``correct`` is called once the links and volumes were probed.

    Raises ``KnobError`` where one is not in force before the workload, ``CommandError`` when the workload fails,
    ``ParseError`` when its output makes no sense, ``NodeLost``. What was found before an error stays in
    ``measured``, and the raw output in ``raw``.
    """

    def phases(facts: Sequence[Fact]) -> tuple[Phase, ...]:
        return measurement(workload, port, facts, list(engine.hosts), where.folders)

    _Measurement(engine, Cross(engine, where), raw, measured, seed, tell, correct).run(phases, facts)


Correct: TypeAlias = Callable[[], Sequence[Fact] | None]
"""Tunes again what the probe before a workload found off; the stack's facts then, None where nothing changed."""


class _Measurement:
    """Carries out the phases of one measurement; what it began ends, whatever happens."""

    def __init__(
        self,
        engine: Engine,
        cross: Cross,
        raw: Path,
        measured: Measured,
        seed: str,
        tell: Tell | None,
        correct: Correct | None,
    ) -> None:
        self._engine = engine
        self._cross = cross
        self._raw = raw
        self._measured = measured
        self._seed = seed
        self._tell = tell
        self._correct = correct
        self._probes: _Watched | None = None
        self._steady = Steady()

    def run(self, phases: Callable[[Sequence[Fact]], Sequence[Phase]], facts: Sequence[Fact]) -> None:
        """All phases of a stack with these facts. Raises what ``measure`` raises."""
        plan = phases(facts)
        try:
            for number in range(len(plan)):
                self._go(phase := plan[number])
                if isinstance(phase, Ask) and not phase.after and (changed := self._changed()) is not None:
                    # What is in force from now on is what has to be in force after the workload.
                    plan = phases(changed)
                    self._ask_again(plan[number])
        finally:
            self._unwatch()
            if CELL in self._engine.marks:
                self._engine.go(Undo(CELL))

    def _go(self, phase: Phase) -> None:
        if isinstance(phase, Do | Mark | Undo):
            self._engine.go(phase)
        elif isinstance(phase, Watch):
            self._probes = _Watched(self._engine, phase, self._raw)
        elif isinstance(phase, Ask):
            self._steady.ask(self._engine, phase, self._measured)
        elif isinstance(phase, Measure):
            self._measure(phase)
        elif isinstance(phase, Unwatch):
            self._unwatch()
        else:
            raise TypeError(f"no phase of a measurement: {phase}")

    def _changed(self) -> Sequence[Fact] | None:
        return self._correct() if self._correct is not None else None

    def _ask_again(self, phase: Phase) -> None:
        """But for what was timed, which the tuning measured."""
        assert isinstance(phase, Ask)
        self._measured.knobs.clear()
        facts = tuple(fact for fact in phase.facts if not fact.timed)
        self._steady.ask(self._engine, Ask(facts), self._measured)

    def _measure(self, phase: Measure) -> None:
        assert self._probes is not None
        workload = phase.workload
        self._probes.wait(PROBE_LEAD - (workload.head_start if isinstance(workload, SlowStart) else 0.0))
        _work(self._engine, self._cross, phase, self._raw / "workload", self._measured, self._seed, self._tell)
        self._probes.wait(PROBE_LEAST)
        self._probes.heard(PROBE_MOST)

    def _unwatch(self) -> None:
        probes, self._probes = self._probes, None
        if probes is not None:
            self._measured.warnings += probes.stop()
            _watched(probes.hosts, self._raw, self._measured)


class Steady:
    """Reads knobs back, before a workload and after it."""

    def __init__(self) -> None:
        self._before: list[tuple[Fact, Mapping[str, str]]] = []

    def ask(self, engine: Engine, phase: Ask, measured: Measured) -> None:
        """Into ``measured``. Raises ``KnobError`` where one is not in force before the workload."""
        measured.knobs += engine.ask(phase.facts)
        measured.warnings += [
            f"{fact.host}: {fact.timed}: nothing was answered"
            for fact in phase.facts
            if fact.timed and fact.timed not in engine.times
        ]
        if phase.after:
            measured.knobs += engine.since(self._before)
            return
        if wrong := not_in_force(measured.knobs):
            raise knob_error(wrong, "nothing was measured")
        self._before = engine.before(phase.facts)


def _work(
    engine: Engine, cross: Cross, phase: Measure, raw: Path, measured: Measured, seed: str, tell: Tell | None
) -> None:
    """Run the workload, once or as its rule says, and parse what it printed."""
    workload, port, rule = phase.workload, phase.port, rule_of(phase.workload)
    try:
        if rule is None or not isinstance(workload, Ruled):
            once, mark = start(workload, port, None), engine.mark()
            engine.go(once.arm)
            if tell is not None:
                tell("", 0, ())
            measured.parsed = workload.parse(run_once(engine, once.command, raw, cross), once.command.host)
            measured.parsed = cross.judge(workload, measured.parsed, raw, "", file=port.kind == "dir")
            engine.undo(mark)
            return
        trials = Trials(engine, cross, workload, rule, port, raw, seed, tell)
        try:
            trials.run()
        except BlocklabError as error:
            trials.failed(error)
            raise
        finally:
            measured.parsed, measured.stops, measured.rounds = trials.parsed, trials.stops, trials.spreads
    finally:
        measured.suspicions += cross.suspicions
        # One for each run of a workload that goes in rounds; they say the same.
        measured.warnings += dict.fromkeys(cross.warnings)


class _Watched:
    """The probes on every host, from the constructor to ``stop``."""

    def __init__(self, engine: Engine, phase: Watch, raw: Path) -> None:
        self.hosts = phase.hosts
        self._engine = engine
        self._raw = raw
        self._running: list[tuple[str, Argv, Proc, float]] = []
        self._started = engine.timer.now()
        try:
            for host, argv in phase.commands:
                out = printed(raw, host)
                out.parent.mkdir(parents=True)
                proc = engine.hosts[host].spawn(argv, out, out.with_suffix(".stderr"))
                self._running.append((host, argv, proc, self._engine.timer.now()))
        except BaseException:
            self.stop()
            raise

    def wait(self, seconds: float) -> None:
        """Until so long after they were started."""
        self._engine.timer.sleep(max(0.0, self._started + seconds - self._engine.timer.now()))

    def heard(self, seconds: float) -> None:
        """Until each of them that still runs has printed something, but no longer than that."""
        deadline = self._engine.timer.now() + seconds
        with contextlib.suppress(HostError):
            while self._engine.timer.now() < deadline and any(
                not printed(self._raw, host).stat().st_size and proc.poll() is None
                for host, _, proc, _ in self._running
            ):
                self._engine.timer.sleep(0.05)

    def stop(self) -> list[str]:
        """End the probes with SIGINT, which cuts no line. What is to be said of those that ended before: what they
        printed until then looks whole."""
        codes: list[int | None] = []
        for _, _, proc, _ in self._running:
            codes.append(None)
            with contextlib.suppress(HostError):
                codes[-1] = proc.poll()
                proc.signal(signal.SIGINT)
        warnings = []
        for (host, argv, proc, started), code in zip(self._running, codes, strict=True):
            stop(proc, signal.SIGINT)
            seconds = self._engine.timer.now() - started
            self._engine.records.append(Record("probe", host, argv, code or 0, seconds, cpu=proc.cpu))
            if code is not None:
                said = printed(self._raw, host).with_suffix(".stderr").read_text(errors="replace")
                last = "".join(f": {line}" for line in said.strip().splitlines()[-1:])
                warnings.append(f"{host}: the probes ended before the workload did, exit code {code}{last}")
        self._running.clear()
        return warnings


def printed(raw: Path, host: str) -> Path:
    """The file of what the probes of a host print."""
    return raw / "probes" / host / SAMPLER


def _watched(hosts: Sequence[str], raw: Path, measured: Measured) -> None:
    """Add what the probes saw to what the workload found."""
    samples: list[Sample] = list(measured.parsed.samples)
    for host in hosts:
        for probe in PROBES:
            try:
                samples += probe.parse(printed(raw, host).read_bytes(), host)
            except (ParseError, OSError) as error:
                said = error.message if isinstance(error, ParseError) else str(error)
                measured.warnings.append(f"{host}: probe {probe.name}: {said}")
    measured.parsed = Parsed(tuple(samples), measured.parsed.phases, measured.parsed.transactions)


def own(records: Sequence[Record]) -> tuple[Sample, ...]:
    """What measuring took of a CPU according to a cell's records: the probes on each host, and blocklab's own
    process over all runs of the workload. What did not tell is left out."""
    cpu: dict[tuple[str, str], float] = {}
    seconds: dict[tuple[str, str], float] = {}
    for record in records:
        if record.cpu is None or record.part not in ("workload", "probe"):
            continue
        place = ("blocklab", "") if record.part == "workload" else (f"probe {SAMPLER}", record.host)
        cpu[place] = cpu.get(place, 0.0) + record.cpu
        seconds[place] = seconds.get(place, 0.0) + record.seconds
    return tuple(
        Sample(OWN, 100 * cpu[layer, host] / took, "%", layer, host)
        for (layer, host), took in seconds.items()
        if took > 0
    )


def not_in_force(knobs: Sequence[Knob]) -> list[Knob]:
    """The knobs that the study sets and the running system does not have."""
    return [knob for knob in knobs if not knob.in_force]


def knob_error(wrong: Sequence[Knob], so: str) -> KnobError:
    """What is to be said of these, of which there is at least one. ``so``: what follows."""
    first = wrong[0]
    count = f"{len(wrong)} knobs are" if len(wrong) > 1 else "it is"
    return KnobError(
        first.host, f"{first.layer} {first.name}", str(first.wanted), first.value,
        hint=f"{count} not in force; {so}",
    )  # fmt: skip


def clocks(
    hosts: Mapping[str, Host], exchanges: int = 1, timer: Timer = MACHINE
) -> tuple[dict[str, Clock], list[str]]:
    """Each host's clock less ours, as far as the shortest of so many round trips tells; and the lost hosts.

    A host that took more than a second to answer is left out.
    """
    found: dict[str, Clock] = {}
    lost: list[str] = []
    for name, host in hosts.items():
        try:
            best = min((clock(host, timer) for _ in range(exchanges)), key=lambda each: each.error)
        except NodeLost:
            lost.append(name)
            continue
        except (HostError, ValueError):
            continue
        if 2 * best.error <= CLOCK_SECONDS:
            found[name] = best
    return found, lost


def stepped(before: Mapping[str, Clock], after: Mapping[str, Clock], seconds: float) -> HostError | None:
    """What is to be said when a host's clock was set, or ours, or this machine slept, between two ``clocks`` that
    lie so many seconds apart.

    Rates come from clocks that cannot be set, but the points of a time series then lie at wrong times.
    """
    for name in before.keys() & after.keys():
        then, now = before[name], after[name]
        step = now.offset - then.offset
        if abs(step) > then.error + now.error + CLOCK_STEP + CLOCK_DRIFT * seconds:
            return HostError(
                name, f"its clock went {step:+,.2f} s against ours while the cell was measured",
                hint="was a clock set, or did this machine sleep? `blocklab resume` measures the cell again",
            )  # fmt: skip
    return None

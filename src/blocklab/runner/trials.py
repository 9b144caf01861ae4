"""A workload that goes on until its values are sure: in short rounds, or in one long run of each phase.

The decision is statistics (``judge.settle``); what is here starts, ends and counts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from blocklab.errors import BlocklabError
from blocklab.model.plan import Port
from blocklab.model.sample import Parsed, Spread
from blocklab.model.stop import SNIA_WINDOW, Rule
from blocklab.model.workload import Command, Live, Reseeded, Ruled, Steadied, Workload
from blocklab.rules.rounds import merged
from blocklab.rules.settle import Settled, from_rounds, long_run
from blocklab.rules.snia import snia
from blocklab.runner.cross import Cross
from blocklab.runner.engine import Engine
from blocklab.runner.single import run_once, run_until
from blocklab.store.run import Rate, Reason, Stopped
from blocklab.study.phases import start

# A tool that reports each second.
INTERVAL = 1.0
# A program that ends so much earlier than it was told has ended by itself.
_EARLY = 1.5


Tell: TypeAlias = Callable[[str, int, Sequence[Rate]], None]
"""Is told which phase is under way, how many rounds of it are done (0 in one long run), and its rates so far; none
before the first."""


class Trials:
    """All phases of one workload on a stack. ``parsed``, ``stops`` and ``spreads`` hold what is known so far.

    ``seed`` decides the order of the phases; an empty one leaves them as they are. ``tell`` is told before and
    after each round, and at each look at a long run.
    """

    def __init__(
        self,
        engine: Engine,
        cross: Cross,
        workload: Ruled,
        rule: Rule,
        port: Port,
        raw: Path,
        seed: str,
        tell: Tell | None = None,
    ) -> None:
        self._engine = engine
        self._cross = cross
        self._workload = workload
        self._rule = rule
        self._port = port
        self._raw = raw
        self._random = random.Random(seed) if seed else None
        self._tell = tell
        self.parsed = Parsed()
        self.stops: list[Stopped] = []
        self.spreads: list[Spread] = []
        # The phase that is being measured.
        self._at = ""

    def run(self) -> None:
        """Measure every phase. Raises what a single run raises; what was found before that is kept."""
        if self._rule.kind == "long":
            self._long_runs()
        else:
            self._rounds()

    def _ordered(self, phases: list[str]) -> list[str]:
        return phases if self._random is None else self._random.sample(phases, len(phases))

    # -- rounds --------------------------------------------------------------------------------------------

    def _rounds(self) -> None:
        rule = self._rule
        seconds = rule.seconds
        least, most = (1, 1) if rule.kind == "fixed" else (rule.least, rule.most)
        trials = self._workload.trials(seconds)
        found: dict[str, list[Parsed]] = {phase: [] for phase in trials}
        going = list(trials)
        try:
            for number in range(1, most + 1):
                # Whatever drifts meanwhile must not fall upon the same phases in each round.
                for phase in self._ordered(going):
                    self._told(phase, found[phase])
                    # In another cell, or the same one of another repeat, another seed again.
                    seed = number if self._random is None else self._random.randrange(1, 2**31)
                    trial = trials[phase]
                    again = trial.reseeded(seed) if isinstance(trial, Reseeded) else trial
                    found[phase].append(self._trial(again, phase, number))
                    self._told(phase, found[phase])
                if number >= least:
                    going = [phase for phase in going if not self._settled(found[phase])]
                if not going:
                    break
        finally:
            self._conclude(found, seconds)

    def _trial(self, trial: Ruled, phase: str, number: int) -> Parsed:
        self._at = phase
        mark = self._engine.mark()
        command = self._start(trial)
        folder = self._raw / f"{number:02d}-{phase or 'workload'}"
        raw = run_once(self._engine, command, folder, self._cross)
        parsed = self._cross.judge(
            trial, trial.parse(raw, command.host), folder, phase, file=self._port.kind == "dir"
        )
        self._engine.undo(mark)
        # One fixed run is what people compare with fio's own value; SNIA's rounds are the standard's affair.
        return trial.steady(parsed) if self._rule.kind == "rounds" and isinstance(trial, Steadied) else parsed

    def _start(self, trial: Workload) -> Command:
        """What the command needs each time; the command."""
        found = start(trial, self._port, self._rule)
        self._engine.go(found.arm)
        return found.command

    def _told(self, phase: str, rounds: list[Parsed]) -> None:
        if self._tell is not None:
            self._tell(phase, len(rounds), _known(self._judged(rounds)))

    def _settled(self, rounds: list[Parsed]) -> bool:
        return self._rule.kind != "fixed" and _sure(self._decisive(rounds))

    def _decisive(self, rounds: list[Parsed]) -> dict[str, Settled]:
        """What decides: the one rate, or several as one. How a mixed workload falls into reads and writes is its
        own dice, which short rounds show and no layout changes; each has its interval all the same."""
        rates = _rates(self._workload, rounds)
        if len(rates) > 1:
            rates = {" + ".join(rates): [sum(values) for values in zip(*rates.values(), strict=True)]}
        return self._each(rates)

    def _judged(self, rounds: list[Parsed]) -> dict[str, Settled]:
        return self._each(_rates(self._workload, rounds))

    def _each(self, rates: Mapping[str, list[float]]) -> dict[str, Settled]:
        rule = self._rule
        judged = {}
        for metric, values in rates.items():
            if rule.kind == "snia":
                judged[metric] = _steady(values)
            else:
                judged[metric] = from_rounds(values, rule.half_width, rule.least, rule.most)
        return judged

    def _conclude(self, found: Mapping[str, list[Parsed]], seconds: float) -> None:
        whole, rule = [], self._rule
        for phase, rounds in found.items():
            if not rounds:
                continue
            # SNIA's values are those of its measurement window, which the rounds before it lead to.
            parsed, spreads = merged(rounds[-SNIA_WINDOW:] if rule.kind == "snia" else rounds)
            whole.append(parsed)
            self.spreads += spreads
            rates = _known(self._judged(rounds))
            fixed = rule.kind == "fixed"
            decisive = self._decisive(rounds)
            settled = not fixed and _sure(decisive)
            why = "" if settled or fixed else _why(decisive)
            reason: Reason = "settled" if settled else "capped"
            self.stops.append(Stopped(phase, reason, rates, len(rounds), seconds * len(rounds), why=why))
        self.parsed = _joined(whole)

    # -- one long run --------------------------------------------------------------------------------------

    def _long_runs(self) -> None:
        trials = self._workload.trials(self._rule.seconds)
        for phase in self._ordered(list(trials)):
            self._long_run(trials[phase], phase)

    def _long_run(self, trial: Ruled, phase: str) -> None:
        self._at, rule = phase, self._rule
        assert isinstance(trial, Live), "the study's check lets no other workload through"
        judged: dict[str, Settled] = {}

        def enough(out: bytes, err: bytes) -> bool:
            rates = trial.live(out, err)
            judged.update(
                {
                    name: long_run(values, INTERVAL, rule.half_width, rule.at_least)
                    for name, values in rates.items()
                }
            )
            if self._tell is not None:
                self._tell(phase, 0, _known(judged))
            return _sure(judged)

        mark = self._engine.mark()
        command = self._start(trial)
        if self._tell is not None:
            self._tell(phase, 0, ())
        folder = self._raw / (phase or "workload")
        raw, early = run_until(self._engine, command, folder, self._cross, trial.ends_on, enough)
        parsed = self._cross.judge(
            trial, trial.parse(raw, command.host), folder, phase, file=self._port.kind == "dir"
        )
        self._engine.undo(mark)
        if not early:
            # Of one that was ended the last second is a part of one.
            enough(raw["stdout"], raw["stderr"])
        seconds = sum(each.end - each.start for each in parsed.phases)
        settled = _sure(judged)
        drained = not early and not settled and 0 < seconds < rule.at_most - _EARLY
        rates = _known(judged)
        self.stops.append(
            Stopped(
                phase, "settled" if early or settled else "drained" if drained else "capped", rates,
                seconds=seconds, cut=max((each.cut for each in judged.values()), default=0) * INTERVAL,
                why="" if early or settled else _why(judged),
            )
        )  # fmt: skip
        self.parsed = _joined([self.parsed, parsed])

    def failed(self, error: BlocklabError) -> None:
        """Note at which phase it failed, and that those in need of more rounds got no more of them."""
        others = [each for each in self.stops if each.phase != self._at]
        mine = next((each for each in self.stops if each.phase == self._at), Stopped(self._at, "failed", rounds=0))
        self.stops = [self._cut_short(each) for each in others]
        self.stops.append(msgspec.structs.replace(mine, reason="failed", why=error.message))

    def _cut_short(self, stop: Stopped) -> Stopped:
        rule = self._rule
        if rule.kind not in ("rounds", "snia") or stop.reason != "capped" or stop.rounds >= rule.most:
            return stop
        return msgspec.structs.replace(stop, reason="failed", why=f"{self._at} failed; until then {stop.why}")


def _steady(values: list[float]) -> Settled:
    """SNIA's rule, with the interval of its window, of which it says nothing."""
    steady, window = snia(values), values[-SNIA_WINDOW:]
    half = from_rounds(window, 1.0, 2, SNIA_WINDOW).half
    cut = len(values) - len(window)
    return Settled(steady.average, half, len(window), cut, steady.steady, steady.why)


def _known(judged: Mapping[str, Settled]) -> tuple[Rate, ...]:
    return tuple(Rate(metric, each.value, each.half) for metric, each in judged.items())


def _rates(workload: Ruled, rounds: list[Parsed]) -> dict[str, list[float]]:
    """Each rate that decides, in each round; a direction without I/O in a round has 0."""
    found: dict[str, list[float]] = {}
    for number, parsed in enumerate(rounds):
        for sample in parsed.samples:
            if sample.time is None and sample.metric in workload.rates:
                found.setdefault(sample.metric, [0.0] * len(rounds))[number] = sample.value
    return found


def _sure(judged: Mapping[str, Settled]) -> bool:
    """Whether every rate is sure enough; a workload that has reported none is not."""
    return bool(judged) and all(each.settled for each in judged.values())


def _why(judged: Mapping[str, Settled]) -> str:
    if not judged:
        return "it has reported no rate"
    return "; ".join(f"{metric}: {each.why}" for metric, each in judged.items() if not each.settled)


def _joined(parts: list[Parsed]) -> Parsed:
    return Parsed(
        tuple(sample for part in parts for sample in part.samples),
        tuple(sorted((phase for part in parts for phase in part.phases), key=lambda phase: phase.start)),
        tuple(sorted((each for part in parts for each in part.transactions), key=lambda each: each.end)),
    )

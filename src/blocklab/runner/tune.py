"""Tunes the round trips of emulated links and the latencies of emulated volumes: measure, correct, measure again.
Those that are given are measured, beside what the study expects.

What they take by themselves depends on the machine, on what else runs there, and on what is added. A constant that
is taken off would hold on one machine only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from blocklab.model.ground import Ground
from blocklab.model.plan import Fact
from blocklab.model.site import EmulatedVolumes
from blocklab.model.stack_map import Setting, Took, Tuned
from blocklab.runner.engine import Engine
from blocklab.study.links import delayed
from blocklab.study.phases import TuneLink, TuneVolume

CORRECTIONS = 4
# What a second more of delay adds, in seconds, is taken from two measurements within these bounds: beyond them it
# is noise.
_LEAST_SLOPE, _MOST_SLOPE = 0.5, 2.0


def tuned_link(engine: Engine, ground: Ground, phase: TuneLink) -> dict[str, Tuned]:
    """Set netem's delay so that the median of the pings is within ``tolerance`` of the ``rtt``, or within its own
    noise where that is more; by what was timed.

    At most ``CORRECTIONS`` times. A link that is too slow by itself keeps a delay of 0. One without an answer
    keeps the whole ``rtt``, and is a warning. Raises what ``Engine.carry_out`` raises.
    """
    add = partial(_delay, engine, ground, phase)
    add(0.0)
    asked = float(phase.link.rtt)
    found = _tuned(engine, phase.pings, asked, 0.0, add)
    if not found:
        add(asked)
    return found


def _delay(engine: Engine, ground: Ground, phase: TuneLink, delay: float) -> None:
    engine.carry_out(delayed(phase.name, phase.link, ground, delay), "tune")


def tuned_volume(engine: Engine, lab: EmulatedVolumes, phase: TuneVolume) -> dict[str, Tuned]:
    """The same of a volume: of a constant latency, or of the median of a table of quantiles, all of which are
    corrected by as much. Meanwhile its latencies are constant and without caps. Raises ``SetupError`` too."""
    added = dict(phase.asked)
    found: dict[str, Tuned] = {}
    for way, fact in phase.facts.items():

        def add(latency: float, way: str = way) -> None:
            added[way] = latency
            lab.set_latencies(phase.spec, added, whole=False)

        add(added[way])
        found |= _tuned(engine, fact, phase.asked[way], added[way], add)
    lab.set_latencies(phase.spec, added, whole=True)
    return found


def corrected(
    engine: Engine,
    ground: Ground,
    lab: EmulatedVolumes | None,
    phases: Sequence[TuneLink | TuneVolume],
    tuned: Mapping[str, Tuned],
) -> dict[str, Tuned]:
    """Tune once more what the latest probe of ``engine.times`` found off; those that were set otherwise, by what
    was timed. Of a volume only reads: what stands on it uses its blocks, so writes cannot be tried."""
    changed: dict[str, Tuned] = {}
    for phase in phases:
        fact = phase.pings if isinstance(phase, TuneLink) else phase.facts.get("read")
        known = tuned.get(fact.timed) if fact is not None else None
        times = engine.times.get(fact.timed, ()) if fact is not None else ()
        if fact is None or known is None or not times or not known.off(times[-1]):
            continue
        if isinstance(phase, TuneLink):
            found = _tuned(engine, fact, known.asked, known.added, partial(_delay, engine, ground, phase))
        elif lab is not None:
            found = _reads(engine, lab, phase, fact, tuned)
        else:
            continue
        again = found.get(fact.timed)
        if again is None or again.added == known.added:
            # It was a passing moment; both probes are of the same setting.
            engine.times[fact.timed] = (*times, *engine.times.get(fact.timed, ()))
            continue
        earlier = (*known.earlier, Setting(known.added, times[-1]))
        changed[fact.timed] = msgspec.structs.replace(again, earlier=earlier)
    return changed


def _reads(
    engine: Engine, lab: EmulatedVolumes, phase: TuneVolume, fact: Fact, tuned: Mapping[str, Tuned]
) -> dict[str, Tuned]:
    """A volume's reads under what stands on it; its writes are added what was added before."""
    known = {way: tuned.get(each.timed) for way, each in phase.facts.items()}
    added = {way: phase.asked[way] if each is None else each.added for way, each in known.items()}

    def add(latency: float) -> None:
        added["read"] = latency
        lab.set_latencies(phase.spec, added, whole=False)

    add(added["read"])
    try:
        return _tuned(engine, fact, phase.asked["read"], added["read"], add)
    finally:
        lab.set_latencies(phase.spec, added, whole=True)


def given(engine: Engine, phase: TuneLink | TuneVolume) -> dict[str, Tuned]:
    """What a link or a volume takes that is what it is."""
    if isinstance(phase, TuneLink):
        asked = [(float(phase.link.rtt), phase.pings)]
    else:
        asked = [(phase.asked[way], fact) for way, fact in phase.facts.items()]
    found = ((fact.timed, expected, _took(engine, fact)) for expected, fact in asked)
    return {what: Tuned(expected, 0.0, took, given=True) for what, expected, took in found if took is not None}


def _tuned(
    engine: Engine, fact: Fact, asked: float, added: float, add: Callable[[float], None]
) -> dict[str, Tuned]:
    """``added`` (s) is in force; ``add`` puts something else in force."""
    reached = _took(engine, fact)
    if reached is None:
        engine.warnings.append(f"{fact.timed}: nothing was answered, so it is not tuned")
        return {}
    slope = 1.0
    for _ in range(1 + CORRECTIONS):
        off = reached.median - asked
        if Tuned(asked, added, reached).true or (off > 0 and added == 0):
            break
        before, then = added, reached
        added = max(0.0, added - off / slope)
        add(added)
        reached = _took(engine, fact) or reached
        # A delay of a coarse timer adds more than it says, or less.
        if abs(change := reached.median - then.median) > 3 * max(reached.noise, then.noise):
            slope = min(_MOST_SLOPE, max(_LEAST_SLOPE, change / (added - before)))
    return {fact.timed: Tuned(asked, added, reached)}


def _took(engine: Engine, fact: Fact) -> Took | None:
    """None without an answer."""
    engine.times.pop(fact.timed, None)
    engine.ask([fact])
    return engine.times[fact.timed][-1] if fact.timed in engine.times else None

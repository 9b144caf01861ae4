"""Tunes the round trips of emulated links and the latencies of emulated volumes: measure, correct, measure again.
Those that are given are measured, beside what the study expects.

What they take by themselves depends on the machine, on what else runs there, and on what is added. A constant that
is taken off would hold on one machine only.
"""

from __future__ import annotations

from collections.abc import Callable

from blocklab.model.ground import Ground
from blocklab.model.plan import Fact
from blocklab.model.site import EmulatedVolumes
from blocklab.model.stack_map import Took, Tuned, tolerance
from blocklab.runner.engine import Engine
from blocklab.study.links import delayed
from blocklab.study.phases import TuneLink, TuneVolume

CORRECTIONS = 3


def tuned_link(engine: Engine, ground: Ground, phase: TuneLink) -> dict[str, Tuned]:
    """Set netem's delay so that the median of the pings is within ``tolerance`` of the ``rtt``; by what was timed.

    At most ``CORRECTIONS`` times. A link that is too slow by itself keeps a delay of 0. One without an answer
    keeps the whole ``rtt``, and is a warning. Raises what ``Engine.carry_out`` raises.
    """

    def add(delay: float) -> None:
        engine.carry_out(delayed(phase.name, phase.link, ground, delay), "tune")

    add(0.0)
    asked = float(phase.link.rtt)
    found = _tuned(engine, phase.pings, asked, 0.0, add)
    if not found:
        add(asked)
    return found


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
    for _ in range(1 + CORRECTIONS):
        off = reached.median - asked
        if abs(off) <= tolerance(asked) or (off > 0 and added == 0):
            break
        added = max(0.0, added - off)
        add(added)
        reached = _took(engine, fact) or reached
    return {fact.timed: Tuned(asked, added, reached)}


def _took(engine: Engine, fact: Fact) -> Took | None:
    """None without an answer."""
    engine.times.clear()
    engine.ask([fact])
    return engine.times[fact.timed][-1] if fact.timed in engine.times else None

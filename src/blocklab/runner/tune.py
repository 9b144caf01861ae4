"""Tunes the round trips of emulated links: measure, correct, measure again.

What a link takes by itself depends on the machine, on what else runs there, and on the delay. A constant that is
taken off would hold on one machine only.
"""

from __future__ import annotations

from collections.abc import Iterable

from blocklab.model.ground import Ground
from blocklab.model.stack_map import RoundTrip, Tuned, tolerance
from blocklab.runner.engine import Engine
from blocklab.study.links import delayed
from blocklab.study.phases import Tune

CORRECTIONS = 3


def tuned(engine: Engine, ground: Ground, phases: Iterable[Tune]) -> dict[str, Tuned]:
    """Set the delay of each link so that the median of its pings is within ``tolerance`` of the ``rtt``; by link.

    At most ``CORRECTIONS`` times. A link that is too slow by itself keeps a delay of 0. One without an answer
    stays as it is, and is a warning. Raises what ``Engine.carry_out`` raises.
    """
    found = {}
    for phase in phases:
        made = _tuned(engine, ground, phase)
        if made is None:
            engine.warnings.append(f"link {phase.name}: not one ping was answered, so its delay is not tuned")
        else:
            found[phase.name] = made
    return found


def _tuned(engine: Engine, ground: Ground, phase: Tune) -> Tuned | None:
    asked = float(phase.link.rtt)
    floor = _took(engine, ground, phase, 0.0)
    if floor is None:
        engine.carry_out(delayed(phase.name, phase.link, ground, asked), "tune")
        return None
    delay, reached = 0.0, floor
    for _ in range(1 + CORRECTIONS):
        off = reached.median - asked
        if abs(off) <= tolerance(asked) or (off > 0 and delay == 0):
            break
        delay = max(0.0, delay - off)
        reached = _took(engine, ground, phase, delay) or reached
    return Tuned(asked, floor, delay, reached)


def _took(engine: Engine, ground: Ground, phase: Tune, delay: float) -> RoundTrip | None:
    """The round trips with that delay (s); None without an answer."""
    engine.carry_out(delayed(phase.name, phase.link, ground, delay), "tune")
    engine.pings.clear()
    engine.ask([phase.pings])
    return engine.pings[phase.name][-1] if phase.name in engine.pings else None

"""When faults strike and are mended, and when a drill has seen enough: on a clock of its own, without any host."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import CommandError
from blocklab.faults import AnyFault, Crash, Freeze, LinkCut, VolumeFull
from blocklab.model.fault import Scene
from blocklab.model.ground import End as Socket
from blocklab.model.ground import Ground, LinkSpec
from blocklab.model.plan import Port, Power, Run
from blocklab.model.units import Duration
from blocklab.runner.strikes import Count, Counters, End, Moment, Strikes
from blocklab.study.drill_phases import strikes_of

ENDS = {host: Socket("vec0", f"10.77.0.{number}", ("vec0",)) for number, host in enumerate(("a1", "a2"), 1)}
SCENE = Scene("s", 0, "a1", ("a2",), Ground({"zone": ENDS}, {}), {"zone": LinkSpec(("a1", "a2"))}, {})


class Clock:
    """Time that only a test moves."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    def today(self) -> float:
        return 1_000_000.0 + self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


class Engine:
    """Remembers steps. ``fails``: those with this word in them do, once."""

    timer: Clock

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.fails = ""
        self.hosts: dict[str, Any] = {}

    def carry_out(self, steps: Any, part: str) -> None:
        for step in steps:
            if self.fails and self.fails in repr(step):
                self.fails = ""
                raise CommandError(step.host, ("tc",), 2, "busy")
            self.done.append(step)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(Engine, "timer", made, raising=False)
    return made


def counters(tmp_path: Path, *acknowledged: int, step: float = 1.0) -> Counters:
    file = tmp_path / "stdout"
    rows = [
        {"time": number * step, "scheduled": each, "acknowledged": each, "refused": 0, "in_doubt": 0, "server": 0}
        for number, each in enumerate(acknowledged)
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows) + '{"time": 99, "sch')
    found = Counters(file)
    found.look()
    return found


def some(**faults: AnyFault) -> tuple[Strikes, Engine]:
    engine = Engine()
    return Strikes(engine, strikes_of(faults, SCENE), random.Random(1)), engine  # type: ignore[arg-type]


def count(acknowledged: int, server: int = 0) -> Count:
    return Count(0.0, acknowledged, acknowledged, 0, 0, server)


def test_a_line_that_is_being_written_is_read_later(tmp_path: Path) -> None:
    found = counters(tmp_path, 5, 9)
    assert [each.acknowledged for each in found.counts] == [5, 9]
    with (tmp_path / "stdout").open("a") as file:
        file.write('eduled": 20, "acknowledged": 19, "refused": 1, "in_doubt": 0, "server": 1}\n')
    last = found.look()
    assert last is not None and (last.acknowledged, last.server) == (19, 1)


def test_a_rate_is_steady_only_when_it_is(tmp_path: Path) -> None:
    assert counters(tmp_path, 0, 50, 150, 250, 350, 450).steady
    assert not counters(tmp_path, 0, 50, 100, 200, 350, 450).steady
    assert not counters(tmp_path, 0, 100, 200).steady, "too short"
    assert not counters(tmp_path, 0, 0, 0, 0, 0, 0).steady, "nothing is acknowledged"


def test_a_fault_strikes_once_when_it_is_due_and_is_mended_in_time(tmp_path: Path, clock: Clock) -> None:
    made, engine = some(pause=Freeze(at="5s", lasts=Duration("3s")))
    quiet = counters(tmp_path, 0)
    made.start()
    seen = []
    for _ in range(12):
        seen += [(round(clock.at - 100), what) for what, _ in made.look(quiet)]
        if clock.at < 108:
            assert made.last is None
        clock.at += 1
    assert seen == [(5, "pause strikes"), (8, "pause is mended")]
    assert engine.done == [Power("a1", "freeze"), Power("a1", "thaw")]
    assert made.last == 108 and made.dead == set()


def test_a_random_moment_lies_in_its_range_and_follows_the_seed() -> None:
    fault = Crash(at="4s..8s")
    moments = [fault.moment(random.Random(seed)) for seed in range(200)]
    assert 4 <= min(moments) < 4.3 and 7.7 < max(moments) <= 8
    assert moments[7] == fault.moment(random.Random(7))


def test_one_that_waits_for_a_steady_rate(tmp_path: Path, clock: Clock) -> None:
    made, engine = some(kill=Crash(at="1s", when="settled"))
    made.start()
    unsteady, steady = counters(tmp_path, 0), counters(tmp_path, 0, 50, 150, 250, 350, 450)
    clock.at += 20
    assert made.look(unsteady) == []
    made.look(steady)
    clock.at += 1
    assert [what for what, _ in made.look(steady)] == ["kill strikes"]
    assert made.dead == {"a1"} and engine.done == [Power("a1", "crash")]


def test_it_waits_no_longer_than_half_a_minute_for_it(tmp_path: Path, clock: Clock) -> None:
    made, _ = some(kill=Crash(when="settled"))
    made.start()
    clock.at += 30.1
    assert [what for what, _ in made.look(counters(tmp_path, 0))] == ["kill strikes"]


def test_what_lasts_to_the_end_is_mended_then_but_not_on_dead_nodes(tmp_path: Path, clock: Clock) -> None:
    made, engine = some(pause=Freeze(at="1s"), other=Freeze(at="1s", node="peer"))
    made.start()
    clock.at += 1
    made.look(counters(tmp_path, 0))
    made.dead.add("a1")
    made.mend()
    assert engine.done[2:] == [Power("a2", "thaw")]
    assert made.mend() == ([], []), "once"


def test_nothing_is_done_to_a_node_that_was_fenced(tmp_path: Path, clock: Clock) -> None:
    made, engine = some(
        pause=Freeze(at="1s", lasts=Duration("3s")), late=Freeze(at="6s"), other=Freeze(at="6s", node="peer")
    )
    made.start()
    clock.at += 1
    made.look(counters(tmp_path, 0))
    made.dead.add("a1")
    for _ in range(6):
        clock.at += 1
        made.look(counters(tmp_path, 0))
    assert engine.done == [Power("a1", "freeze"), Power("a2", "freeze")]
    assert made.last is not None, "it is over all the same"


def test_a_drill_ends_after_writes_were_accepted_again_for_a_while(tmp_path: Path, clock: Clock) -> None:
    made, _ = some(kill=Crash(at="1s"))
    made.start()
    end = End(after=3, wait=30, notice=8, timer=clock)
    assert not end.reached(count(5), made)
    clock.at += 1
    made.look(counters(tmp_path, 0))
    clock.at += 2
    assert not end.reached(count(5), made)
    end.taken_over(server=1)
    # What the old one still acknowledges says nothing of the new one.
    assert not end.reached(count(6), made)
    clock.at += 1
    assert not end.reached(count(7, server=1), made)
    clock.at += 2.9
    assert not end.reached(count(9, server=1), made)
    clock.at += 0.2
    assert end.reached(count(9, server=1), made)


def test_a_drill_ends_when_writes_are_never_accepted_again(tmp_path: Path, clock: Clock) -> None:
    made, _ = some(kill=Crash(at="1s"))
    made.start()
    clock.at += 1
    made.look(counters(tmp_path, 0))
    end = End(after=3, wait=30, notice=8, timer=clock)
    assert not end.reached(count(5), made)
    clock.at += 29
    assert not end.reached(count(5), made)
    clock.at += 2
    assert end.reached(count(5), made)


def test_a_fault_that_nobody_notices_is_given_time_to_show(tmp_path: Path, clock: Clock) -> None:
    made, _ = some(pause=Freeze(at="1s", node="peer"))
    made.start()
    clock.at += 1
    made.look(counters(tmp_path, 0))
    end = End(after=3, wait=30, notice=8, timer=clock)
    for second in range(8):
        assert not end.reached(count(second + 1), made)
        clock.at += 1
    assert end.reached(count(20), made)


def test_what_lies_on_dead_nodes_alone_is_not_said_to_be_mended(tmp_path: Path, clock: Clock) -> None:
    made, engine = some(pause=Freeze(at="1s", lasts=Duration("2s")), other=Freeze(at="1s", node="peer"))
    made.start()
    clock.at += 1
    made.look(counters(tmp_path, 0))
    made.dead |= {"a1", "a2"}
    clock.at += 2
    assert made.look(counters(tmp_path, 0)) == [] and made.mend() == ([], [])
    assert engine.done == [Power("a1", "freeze"), Power("a2", "freeze")]
    assert made.last == clock.at, "nobody waits for it any more"


def look(made: Strikes, clock: Clock, quiet: Counters, until: float) -> list[tuple[float, str]]:
    """What happened each half second until then."""
    seen = []
    while clock.at < 100 + until:
        clock.at += 0.5
        seen += [(clock.at - 100, what) for what, _ in made.look(quiet)]
    return seen


def test_one_that_finds_its_node_dead_did_not_strike(tmp_path: Path, clock: Clock) -> None:
    made, engine = some(pause=Freeze(at="5s"), kill=Crash(at="15s"))
    made.start()
    quiet = counters(tmp_path, 0)
    look(made, clock, quiet, 6)
    made.dead.add("a1")
    assert look(made, clock, quiet, 16) == [(15, "kill did not strike")]
    assert made.struck == ("pause",) and engine.done == [Power("a1", "freeze")]
    (warning,) = made.warnings
    assert "kill did not strike: no node of it (a1) was alive" in warning and "earlier" in warning
    assert made.last is not None, "it is over all the same"


def test_what_needs_a_frozen_node_waits_for_its_thaw(tmp_path: Path, clock: Clock) -> None:
    """``tc`` would wait for the node, and the thaw for ``tc``."""
    made, _ = some(
        pause=Freeze(node="peer", at="5s", lasts=Duration("10s")),
        cut=LinkCut(link="zone", at="8s", lasts=Duration("2s")),
    )
    made.start()
    seen = look(made, clock, counters(tmp_path, 0), 20)
    assert seen == [(5, "pause strikes"), (15, "pause is mended"), (15.5, "cut strikes"), (17.5, "cut is mended")]
    assert not made.frozen and made.last is not None


def test_a_crash_does_not_wait_for_a_thaw(tmp_path: Path, clock: Clock) -> None:
    made, _ = some(pause=Freeze(at="1s", lasts=Duration("10s")), kill=Crash(at="3s"))
    made.start()
    assert look(made, clock, counters(tmp_path, 0), 4) == [(1, "pause strikes"), (3, "kill strikes")]
    assert made.dead == {"a1"} and not made.frozen


def test_what_was_kept_waiting_happens_in_the_order_in_which_it_was_due(tmp_path: Path, clock: Clock) -> None:
    """A takeover may take longer than both: a node has to be thawed before anything is mended on it."""
    made, _ = some(
        cut=LinkCut(link="zone", at="1s", lasts=Duration("8s")),
        pause=Freeze(node="peer", at="5s", lasts=Duration("2s")),
    )
    made.start()
    quiet = counters(tmp_path, 0)
    look(made, clock, quiet, 5.5)
    clock.at += 60
    assert [what for what, _ in made.look(quiet)] == ["pause is mended", "cut is mended"]


def test_what_cannot_be_mended_in_time_is_a_warning_and_tried_again_at_the_end(
    tmp_path: Path, clock: Clock
) -> None:
    made, engine = some(cut=LinkCut(link="zone", at="1s", lasts=Duration("2s")))
    made.start()
    quiet = counters(tmp_path, 0)
    look(made, clock, quiet, 2)
    engine.fails = "tc"
    assert look(made, clock, quiet, 5) == [] and made.last == 103
    assert "cut could not be mended when that was due: " in made.warnings[0] and "busy" in made.warnings[0]
    found, errors = made.mend()
    assert [what for what, _ in found] == ["cut is mended"] and errors == []
    assert made.mend() == ([], [])


def test_what_can_never_be_mended_is_an_error_at_the_end(tmp_path: Path, clock: Clock) -> None:
    made, engine = some(cut=LinkCut(link="zone", at="1s", lasts=Duration("2s")))
    made.start()
    quiet = counters(tmp_path, 0)
    look(made, clock, quiet, 2)
    engine.fails = "tc"
    assert look(made, clock, quiet, 5) == []
    engine.fails = "tc"
    found, errors = made.mend()
    assert found == [] and [error.host for error in errors if isinstance(error, CommandError)] == ["a1"]


def test_a_survivor_that_dies_after_the_takeover_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    """Without that the silence at the end is shorter than the takeover's, and nobody sees that it has no end."""
    made, _ = some(kill=Crash(at="1s"), again=Crash(at="5s", node="peer"))
    made.start()
    quiet = counters(tmp_path, 0)
    look(made, clock, quiet, 1)
    end = End(after=0, wait=30, notice=8, timer=clock)
    end.taken_over(server=1)
    clock.at += 1
    assert not end.reached(count(5, server=1), made)
    look(made, clock, quiet, 5)
    # What was under way came a moment later.
    assert not end.reached(count(6, server=1), made)
    for seconds in (0.1, 0.5, 1, 28):
        clock.at += seconds
        assert not end.reached(count(6, server=1), made), seconds
    clock.at += 1
    assert end.reached(count(6, server=1), made)


def test_what_lies_in_the_data_is_mended_where_they_are_by_then(tmp_path: Path, clock: Clock) -> None:
    ports = {"a1": (Port("a1", "dir", "/mnt/s"),), "a2": ()}
    scene = msgspec.structs.replace(SCENE, ports=ports)
    quiet = counters(tmp_path, 0)
    for lasts in (Duration("2s"), None):
        engine, full = Engine(), VolumeFull(at="1s", lasts=lasts)
        made = Strikes(engine, strikes_of({"full": full}, scene), random.Random(1))  # type: ignore[arg-type]
        clock.at = 100.0
        made.start()
        look(made, clock, quiet, 1)
        made.dead.add("a1")
        made.taken_over = "a2"
        seen = [what for _, what in look(made, clock, quiet, 4)] + [what for what, _ in made.mend()[0]]
        assert seen == ["full is mended"]
        assert engine.done[-1] == Run("a2", ("rm", "-f", "/mnt/s/blocklab-fill"))


def test_a_moment_of_its_own_is_met_exactly_and_seen_before(tmp_path: Path, clock: Clock) -> None:
    engine, told = Engine(), []
    faults = {"kill": Crash(at="4s..8s"), "later": Crash(at="9s", node="peer")}
    moment = Moment(2.5, lambda hosts: told.append((clock.at, engine.done.copy())))
    made = Strikes(engine, strikes_of(faults, SCENE), random.Random(1), moment)  # type: ignore[arg-type]
    assert made.after == 2.5
    made.start()
    quiet = counters(tmp_path, 0)
    assert made.within(0.02) == 0.02
    clock.at += 2.49
    assert made.within(0.02) == pytest.approx(0.01) and made.look(quiet) == []
    clock.at += made.within(0.02)
    assert [what for what, _ in made.look(quiet)] == ["kill strikes"]
    assert [len(done) for _, done in told] == [0] and told[0][0] == pytest.approx(102.5), "before it, once"
    clock.at += 7
    assert [what for what, _ in made.look(quiet)] == ["later strikes"] and len(told) == 1


def test_what_is_due_but_has_to_wait_does_not_stop_time(tmp_path: Path, clock: Clock) -> None:
    made, _ = some(pause=Freeze(at="1s"), cut=LinkCut(at="2s", link="zone"))
    look(made, clock, counters(tmp_path, 0), 3)
    assert made.within(0.02) == 0.02

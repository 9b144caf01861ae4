"""Faults: when they strike, what they do and undo, what they refuse; and the monitor's lines."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import ParseError, StudyError
from blocklab.faults import (
    AnyFault,
    Crash,
    Freeze,
    LinkCut,
    LinkLoss,
    LinkSlow,
    PowerCut,
    Takeover,
    VolumeError,
    VolumeFull,
    VolumeStall,
    monitor,
)
from blocklab.layers import drbd_pair
from blocklab.model import mapping
from blocklab.model.drill import Event
from blocklab.model.fault import Fault, Scene
from blocklab.model.ground import LinkSpec
from blocklab.model.netem import netem
from blocklab.model.node_programs import program
from blocklab.model.plan import Port, Power, Run, Step
from blocklab.model.spans import Follow, Poll, Sign
from blocklab.model.units import BitRate, Duration, Share, dec_hook
from blocklab.sites.fake import FakeSite
from blocklab.study.grid import plan_layers, plan_stack, topology
from blocklab.study.read import build
from blocklab_node import monitor as watcher

VOLUME = {"layer": "volume", "size": "64MiB"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}


def scene_of(small: dict[str, Any], layers: list[dict[str, Any]], peer: str = "a2") -> Scene:
    """The scene of one stack on the fake site's ground."""
    small["stacks"] = {"one": {"on": "a1", "layers": layers}}
    small["baseline"] = "one"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    study = build(small)
    ground = FakeSite().ground(topology(study, ["one"]))
    ports: dict[str, tuple[Port, ...]] = {}
    for level in plan_layers(study, "one", 2, ground):
        for host, plan in level.items():
            ports[host] = ports.get(host, ()) + plan.ports
    return Scene("one", 2, "a1", (peer,) if peer else (), ground, study.links, ports)


@pytest.fixture
def mirror(small: dict[str, Any]) -> Scene:
    """A mirror over fragile volumes, with a file system."""
    return scene_of(small, [VOLUME, {"layer": "fragile"}, DRBD, {"layer": "ext4"}])


def said(steps: tuple[Step, ...]) -> list[str]:
    """Runs and power as text, each with its host."""
    found = []
    for step in steps:
        if isinstance(step, Run):
            found.append(f"{step.host}: {' '.join(step.argv)}")
        elif isinstance(step, Power):
            found.append(f"{step.host}: {step.what}")
    return found


def read(**fields: Any) -> AnyFault:
    """A fault as a study would have it."""
    found: AnyFault = msgspec.convert(fields, AnyFault, dec_hook=dec_hook)
    return found


# -- when -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "moments"),
    [
        ("5s", (5.0, 5.0)),
        ("4s..8s", (4.0, 8.0)),
        ("0.5s..1.5s", (0.5, 1.5)),
        ("500ms..2s", (0.5, 2.0)),
        ("1s..1s", (1.0, 1.0)),
        (" 4s .. 8s ", (4.0, 8.0)),
        ("1.5min", (90.0, 90.0)),
        ("0s", (0.0, 0.0)),
        ("60min", (3600.0, 3600.0)),
        ("", (0.0, 0.0)),
    ],
)
def test_when_it_strikes(at: str, moments: tuple[float, float]) -> None:
    assert Crash(at=at).moments() == moments
    assert moments[0] <= Crash(at=at).moment(random.Random(1)) <= moments[1]


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        ("8s..4s", "the earlier time comes first"),
        ("5", "not a number with a unit"),
        ("soon", "not a number with a unit"),
        ("5 parsecs", "unknown unit 'parsecs'"),
        ("4..8s", "'4' is not a number with a unit"),
        ("4s..", "not a number with a unit"),
        ("..8s", "not a number with a unit"),
        ("4s..8s..9s", "not a number with a unit"),
        ("4s...8s", "not a number with a unit"),
        ("-4s..8s", "not a number with a unit"),
        ("4s-8s", "not a number with a unit"),
        ("1e9s", "not a number with a unit"),
        ("infs", "not a number with a unit"),
        ("nans..5s", "not a number with a unit"),
        ("3601s", "later than 1 h"),
        ("1s..99999999999999999999s", "more than any machine has"),
        ("1" + "0" * 400 + "s", "more than any machine has"),
    ],
)
def test_a_time_that_is_none(at: str, problem: str, mirror: Scene) -> None:
    with pytest.raises(ValueError, match=problem):
        Crash(at=at).moments()
    ((field, text),) = Crash(at=at).problems(mirror)
    assert field == "at" and problem in text and "4s..8s" in text


def test_a_fault_without_a_time_and_one_that_waits_for_steadiness(mirror: Scene) -> None:
    ((field, text),) = Crash().problems(mirror)
    assert field == "at" and "when: settled" in text
    assert Crash(when="settled").problems(mirror) == []
    assert Crash(when="settled", at="1s..2s").problems(mirror) == []
    with pytest.raises(msgspec.ValidationError, match="when"):
        read(fault="crash", when="later")
    with pytest.raises(msgspec.ValidationError, match="at"):
        read(fault="crash", at=5)


@pytest.mark.parametrize("lasts", ["0s", "3601s"])
def test_a_fault_that_lasts_no_time_or_for_ever(lasts: str, mirror: Scene) -> None:
    ((field, text),) = read(fault="freeze", at="5s", **{"for": lasts}).problems(mirror)
    assert field == "for" and "left out" in text


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers())
def test_a_moment_is_in_its_range_and_the_seed_decides(low: int, more: int, seed: int) -> None:
    fault = Crash(at=f"{low}ms..{low + more}ms")
    moment = fault.moment(random.Random(seed))
    assert low / 1000 - 1e-9 <= moment <= (low + more) / 1000 + 1e-9
    assert moment == fault.moment(random.Random(seed))


# -- nodes ------------------------------------------------------------------------------------------------------


def test_faults_of_nodes(mirror: Scene) -> None:
    assert said(Crash(at="1s").strike(mirror)) == ["a1: crash"]
    assert said(Crash(at="1s", node="peer").strike(mirror)) == ["a2: crash"]
    assert said(PowerCut(at="1s").strike(mirror)) == ["a1: crash", "a2: crash"]
    freeze = Freeze(at="1s", node="a2")
    assert said(freeze.strike(mirror)) == ["a2: freeze"] and said(freeze.heal(mirror)) == ["a2: thaw"]


@pytest.mark.parametrize("kind", [Crash, Freeze, VolumeError, VolumeStall, VolumeFull])
@pytest.mark.parametrize("node", ["b1", "nowhere", ""])
def test_a_node_that_the_stack_does_not_stand_on(kind: type[Crash], node: str, mirror: Scene) -> None:
    ((field, text),) = kind(at="1s", node=node).problems(mirror)
    assert field == "node" and "a1, a2" in text


def test_a_peer_where_there_is_none(small: dict[str, Any]) -> None:
    scene = scene_of(small, [VOLUME, {"layer": "ext4"}], peer="")
    ((field, _),) = Crash(at="1s", node="peer").problems(scene)
    assert field == "node"
    assert said(PowerCut(at="1s").strike(scene)) == ["a1: crash"]


# -- links ------------------------------------------------------------------------------------------------------

CUT = "root netem limit 100000"


def test_a_cut_link_keeps_its_delay_and_is_whole_again(mirror: Scene) -> None:
    fault = LinkCut(link="zone", at="1s")
    assert fault.problems(mirror) == []
    assert said(fault.strike(mirror)) == [
        f"a1: tc qdisc replace dev vec0 {CUT} delay 500us loss 100%",
        f"a2: tc qdisc replace dev vec0 {CUT} loss 100%",
    ]
    assert said(fault.heal(mirror)) == [
        f"a1: tc qdisc replace dev vec0 {CUT} delay 500us",
        f"a2: tc qdisc replace dev vec0 {CUT}",
        "a2: tc qdisc del dev vec0 root",
    ]


@pytest.mark.parametrize(
    ("direction", "node"), [("from a1", "a1"), ("from a2", "a2"), ("from active", "a1"), ("from peer", "a2")]
)
def test_one_direction(direction: str, node: str, mirror: Scene) -> None:
    fault = LinkCut(link="zone", at="1s", direction=direction)
    assert fault.problems(mirror) == []
    assert {step.host for step in (*fault.strike(mirror), *fault.heal(mirror))} == {node}


@pytest.mark.parametrize("direction", ["", "a1", "from", "from b1", "to a1", "fromage"])
def test_a_direction_that_is_none(direction: str, mirror: Scene) -> None:
    for fault in (LinkCut(link="zone", at="1s", direction=direction),
                  LinkLoss(link="zone", at="1s", direction=direction)):  # fmt: skip
        ((field, text),) = fault.problems(mirror)
        assert field == "direction" and "both, from a1, from a2" in text


def test_all_lanes_with_rate_and_jitter(small: dict[str, Any]) -> None:
    small["links"]["zone"] |= {"lanes": 2, "rtt": "2ms", "jitter": "0.1ms", "rate": "50Mbit/s"}
    scene = scene_of(small, [VOLUME, DRBD, {"layer": "ext4"}])
    # As it was tuned.
    scene = msgspec.structs.replace(scene, ground=msgspec.structs.replace(scene.ground, delays={"zone": 1.8e-3}))
    for fault in (LinkCut(link="zone", at="1s"), LinkLoss(link="zone", at="1s", loss=Share("2.5%"))):
        assert [step.host for step in fault.strike(scene)] == ["a1", "a1", "a2", "a2"]
        for step in fault.heal(scene):
            # What plan_links set up, word for word.
            assert isinstance(step, Run)
            own, _ = netem(scene.links["zone"], first=step.host == "a1", delay=1.8e-3)
            assert step.argv[-len(own) :] == own and "rate" in own
    assert said(LinkLoss(link="zone", at="1s", loss=Share("2.5%")).strike(scene))[3].endswith(
        "dev vec1 root netem limit 100000 rate 50000000bit loss 2.5%"
    )
    (slow, slow_too) = LinkSlow(link="zone", at="1s", rtt=Duration("50ms")).strike(scene)
    assert said((slow,)) == [
        f"a1: tc qdisc replace dev vec0 {CUT} delay 49800us 100us distribution normal rate 50000000bit"
    ]
    assert slow_too.host == "a1"


def test_a_slow_link(mirror: Scene) -> None:
    fault = LinkSlow(link="zone", at="1s", rtt=Duration("20ms"))
    assert said(fault.strike(mirror)) == [f"a1: tc qdisc replace dev vec0 {CUT} delay 20000us"]
    assert said(fault.heal(mirror)) == [f"a1: tc qdisc replace dev vec0 {CUT} delay 500us"]


@pytest.mark.parametrize(
    ("fault", "field", "problem"),
    [
        (LinkCut(link="cross", at="1s"), "link", "those that it uses: zone"),
        (LinkCut(link="none", at="1s"), "link", "those that it uses: zone"),
        (LinkLoss(link="zone", at="1s", loss=Share("0%")), "loss", "at least"),
        (LinkLoss(link="zone", at="1s", loss=Share("100%")), "loss", "link-cut"),
        (LinkLoss(link="zone", at="1s", loss=Share("140%")), "loss", "link-cut"),
        (LinkSlow(link="zone", at="1s", rtt=Duration("0.5ms")), "rtt", "not slower"),
        (LinkSlow(link="zone", at="1s", rtt=Duration("6s")), "rtt", "over 5 s"),
    ],
)
def test_a_fault_of_a_link_that_makes_no_sense(fault: Fault, field: str, problem: str, mirror: Scene) -> None:
    ((where, text),) = fault.problems(mirror)
    assert where == field and problem in text


@given(st.integers(0, 5000), st.integers(0, 100), st.sampled_from([None, "50Mbit/s"]), st.integers(1, 999_999))
def test_whatever_the_link_has_is_kept(delay: int, jitter: int, rate: str | None, share: int) -> None:
    link = LinkSpec(
        ("a", "b"), rtt=Duration(f"{delay}us"), jitter=Duration(f"{min(jitter, delay)}us"),
        rate=BitRate(rate) if rate else None,
    )  # fmt: skip
    fault = LinkLoss(link="x", at="1s", loss=Share(f"{share / 10_000:.4f}%"))
    scene = Scene("one", 0, "a", ("b",), FakeSite().ground(topology_of(link)), {"x": link}, {})
    assert fault.problems(scene) == []
    for step in fault.strike(scene):
        assert isinstance(step, Run)
        own, _ = netem(link, first=step.host == "a")
        words = step.argv[step.argv.index("netem") + 1 :]
        assert words[: len(own)] == own and words[-2] == "loss"
        assert float(words[-1].removesuffix("%")) * 10_000 == pytest.approx(share)


def topology_of(link: LinkSpec) -> Any:
    """Two nodes and one link."""
    from blocklab.model.ground import NodeSpec, Topology

    return Topology({"a": NodeSpec(), "b": NodeSpec()}, {"x": link}, ())


# -- volumes ----------------------------------------------------------------------------------------------------


def test_faults_of_volumes(mirror: Scene) -> None:
    name = "dm-1016"
    stall, error = VolumeStall(at="1s", node="peer"), VolumeError(at="1s")
    assert stall.problems(mirror) == [] == error.problems(mirror)
    assert said(stall.strike(mirror)) == [f"a2: dmsetup suspend --noudevsync --noflush --nolockfs {name}"]
    assert said(stall.heal(mirror)) == [f"a2: dmsetup resume --noudevsync {name}"]
    assert said(error.strike(mirror)) == [f"a1: dmsetup wipe_table --noudevsync --noflush --nolockfs {name}"]
    assert said(error.heal(mirror)) == [
        f"a1: dmsetup load {name} {mapping.table(name)}",
        f"a1: dmsetup resume --noudevsync --noflush --nolockfs {name}",
    ]


def test_all_volumes_of_a_node_fail_and_no_other_device(small: dict[str, Any]) -> None:
    layers: list[dict[str, Any]] = [
        {**VOLUME, "count": 3},
        {"layer": "fragile"},
        {"layer": "lvm-stripe"},
        {"layer": "xfs"},
    ]
    small["stacks"] = {}
    scene = scene_of(small, layers, peer="")
    names = ["dm-1016", "dm-1017", "dm-1018"]
    assert [line.split()[-1] for line in said(VolumeError(at="1s").strike(scene))] == names


@pytest.mark.parametrize("kind", [VolumeError, VolumeStall])
def test_a_volume_that_cannot_fail(kind: type[VolumeError], small: dict[str, Any]) -> None:
    scene = scene_of(small, [VOLUME, DRBD, {"layer": "ext4"}])
    ((field, text),) = kind(at="1s").problems(scene)
    assert field == "node" and "put {layer: fragile} on its volume" in text


def test_a_full_file_system(mirror: Scene) -> None:
    fault = VolumeFull(at="1s")
    assert fault.problems(mirror) == []
    assert fault.strike(mirror) == (Run("a1", program("fill", "/mnt/one/blocklab-fill")),)
    assert said(fault.heal(mirror)) == ["a1: rm -f /mnt/one/blocklab-fill"]


def test_a_file_system_that_is_not_there(mirror: Scene, small: dict[str, Any]) -> None:
    ((field, text),) = VolumeFull(at="1s", node="peer").problems(mirror)
    assert field == "node" and "no file system on a2; give node: active" in text
    ((field, text),) = VolumeFull(at="1s").problems(scene_of(small, [VOLUME, DRBD]))
    assert field == "node" and "put {layer: xfs} or {layer: ext4} on it" in text


# -- the layer fragile ------------------------------------------------------------------------------------------


def test_the_plan_of_fragile_volumes(small: dict[str, Any]) -> None:
    scene_of(small, [{**VOLUME, "count": 2}, {"layer": "fragile"}, {"layer": "stripe"}], peer="")
    study = build(small)
    plan = plan_stack(study, "one", 2, FakeSite().ground(topology(study, ["one"])))
    lines = [line.removeprefix("a1: ") for line in said(plan.steps)]
    assert [line for line in lines if "dm" in line] == [
        "modprobe dm-mod",
        " ".join(
            program("verbs", "write", "/run/blocklab/dm-1016.table", "0 {sectors} linear /dev/ubdb 0", "/dev/ubdb")
        ),
        "dmsetup create dm-1016 --notable --major 1 --minor 1016 --noudevsync",
        "dmsetup load dm-1016 /run/blocklab/dm-1016.table",
        "dmsetup resume --noudevsync dm-1016",
        "dmsetup mknodes dm-1016",
        " ".join(
            program("verbs", "write", "/run/blocklab/dm-1017.table", "0 {sectors} linear /dev/ubdc 0", "/dev/ubdc")
        ),
        "dmsetup create dm-1017 --notable --major 1 --minor 1017 --noudevsync",
        "dmsetup load dm-1017 /run/blocklab/dm-1017.table",
        "dmsetup resume --noudevsync dm-1017",
        "dmsetup mknodes dm-1017",
        # the stripe stands on them
        next(line for line in lines if line.startswith("mdadm --create")),
    ]
    assert lines[-1].endswith("/dev/mapper/dm-1016 /dev/mapper/dm-1017")
    wanted = [fact.wanted for fact in plan.facts if fact.layer == "fragile"]
    assert wanted[0] == {"target of dm-1016": "linear"} and wanted[3] == {"state of dm-1017": "Active"}


def test_what_the_kernel_says_of_a_fragile_device() -> None:
    assert mapping.parse_table("", "0 131072 linear 98:16 0\n") == {"target": "linear"}
    assert mapping.parse_table(" of dm-1000", "0 131072 error \n") == {"target of dm-1000": "error"}


def test_fragile_stands_on_a_volume(small: dict[str, Any]) -> None:
    for layers in ([VOLUME, {"layer": "fragile"}, {"layer": "fragile"}], [VOLUME, DRBD, {"layer": "fragile"}]):
        with pytest.raises(StudyError, match="put it directly on the volume or on shared"):
            scene_of(small, layers)
    scene = scene_of(small, [VOLUME, {"layer": "shared", "peer": "a2"}, {"layer": "fragile"}])
    assert VolumeError(at="1s").problems(scene) == []
    assert VolumeError(at="1s", node="peer").problems(scene) != []


# -- the monitor ------------------------------------------------------------------------------------------------

# what a real one printed
LINES = b"""\
{"time": 1795312253.5076, "what": "started", "said": "pings 10.77.1.1 every 200 ms; dead after 8 misses"}
{"time": 1795312253.515, "what": "answered", "said": "ping 1, after 0 without an answer"}
{"time": 1795312253.5434, "what": "connection", "said": "Connected"}
{"time": 1795312253.6199, "what": "connection", "said": "Connected -> TearDown"}
{"time": 1795312254.5135, "what": "missed", "said": "ping 5: no answer in 200 ms, 1 in a row"}
{"time": 1795312254.5138, "what": "dead", "said": "connection Connecting and 1 ping in a row without an answer"}
"""


def test_the_lines_of_the_monitor() -> None:
    found = monitor.events(LINES)
    assert [event.what for event in found] == [
        "started", "answered", "connection", "connection", "missed", "dead",
    ]  # fmt: skip
    assert found[-1] == Event(
        1795312254.5138, "dead", "connection Connecting and 1 ping in a row without an answer"
    )
    assert monitor.events(b"") == ()


@given(st.integers(0, len(LINES)))
def test_a_line_cut_in_the_middle_is_left_for_later(cut: int) -> None:
    found = monitor.events(LINES[:cut])
    assert found == monitor.events(LINES)[: LINES[:cut].count(b"\n")]


@pytest.mark.parametrize(
    "line", [b"garbage", b"{}", b'{"time": "now", "what": "dead", "said": ""}', b"[1, 2]", b"\xff", b""]
)
def test_garbage_is_no_line_of_the_monitor(line: bytes) -> None:
    with pytest.raises(ParseError, match="monitor"):
        monitor.events(LINES + line + b"\n" + LINES)


def test_the_monitor_is_told_what_the_study_says(mirror: Scene) -> None:
    takeover = Takeover(interval=Duration("50ms"), misses=5)
    followed = drbd_pair.connection("blocklab-one")
    *argv, told = monitor.argv(monitor.address(mirror, "a2", "a1"), takeover, [followed])
    assert tuple(argv) == program("monitor", "10.77.1.1", "0.05", "5")
    assert msgspec.json.decode(told, type=list[Follow]) == [followed]
    assert json.loads(told)[0]["argv"] == ["drbdsetup", "events2", "blocklab-one"]
    assert monitor.argv("10.77.1.1", takeover)[-1] == "[]"
    assert monitor.address(mirror, "b1", "a1") == ""


class Line:
    """Pings whose answers a test gives."""

    def __init__(self) -> None:
        self.number = 0
        self.there: list[int] = []

    def send(self) -> None:
        self.number += 1

    def answers(self) -> list[int]:
        there, self.there = self.there, []
        return there


def watch(monkeypatch: pytest.MonkeyPatch, misses: int, *signs: Sign) -> tuple[Any, list[str]]:
    """The monitor's own state, without a network; and the list of what it says."""
    told: list[str] = []
    monkeypatch.setattr(watcher, "Pings", lambda address: Line())
    monkeypatch.setattr(watcher, "say", lambda what, said="": told.append(what))
    return watcher.Watch("10.77.0.1", 0.02, misses, json.loads(msgspec.json.encode(signs))), told


def test_the_monitor_takes_nobody_for_dead_before_the_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a long way, or before a slow node has told its address, the first answer is late and no sign of death."""
    made, told = watch(monkeypatch, misses=3)
    for _ in range(8):
        made.tick(0.0)
    assert "dead" not in told and told.count("missed") == 7
    made.pings.there = [1]
    made.listen()
    assert told[-1] == "answered"
    for _ in range(4):
        made.tick(0.0)
    assert told[-1] == "dead", "once it has been heard, misses count"


def test_a_mirror_that_lost_its_peer_needs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    made, told = watch(monkeypatch, misses=3)
    made.follows = [msgspec.defstruct("Follow", ["lost", "state"])(True, "Connecting")]
    made.tick(0.0)
    made.tick(0.0)
    assert told == ["missed", "dead"]


def polled(made: Any, ticks: int = 1) -> None:
    """Ticks of a monitor whose pings are all answered; each poll comes to its end before the next one."""
    for _ in range(ticks):
        made.pings.there = [made.pings.number]
        made.tick(0.0)
        for poll in made.polls:
            assert poll.child is not None
            with contextlib.suppress(subprocess.TimeoutExpired):
                poll.child.wait(timeout=poll.seconds)


def test_a_server_that_dies_on_a_node_that_answers_is_dead_until_it_lives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lives = tmp_path / "lives"
    lives.touch()
    made, told = watch(monkeypatch, 3, Poll("server on a1", ("test", "-e", str(lives))))
    polled(made, 5)
    assert told == ["answered", "answered"], "the ping and the poll"
    lives.unlink()
    polled(made, 3)
    assert told[2:] == ["missed", "missed"] and not made.dead, "the third is still under way"
    polled(made, 4)
    assert told[2:] == ["missed", "missed", "missed", "dead"], "once for each silence"
    lives.touch()
    polled(made, 2)
    assert told[6:] == ["answered"] and not made.dead
    lives.unlink()
    polled(made, 4)
    assert told[7:] == ["missed", "missed", "missed", "dead"]
    made.end()


@pytest.mark.parametrize(
    ("argv", "alive"), [(("echo", "in recovery"), "^primary$"), (("sleep", "60"), ""), (("false",), "")]
)
def test_a_poll_that_never_told_that_the_server_lives_is_blind(
    monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], alive: str
) -> None:
    made, told = watch(monkeypatch, 2, Poll("server on a1", argv, seconds=0.05, alive=alive))
    polled(made, 8)
    assert told == ["answered", "blind"] and not made.dead
    made.end()
    assert made.polls[0].child.poll() is not None, "nothing is left"


def test_a_server_that_stands_still_is_dead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It takes connections, and never answers."""
    script = tmp_path / "ask"
    script.write_text(f"test -e {tmp_path}/still && exec sleep 60; echo primary")
    made, told = watch(monkeypatch, 2, Poll("server on a1", ("sh", str(script)), seconds=5.0, alive="^primary$"))
    polled(made, 2)
    (tmp_path / "still").touch()
    made.polls[0].seconds = 0.05
    polled(made, 4)
    assert told == ["answered", "answered", "missed", "missed", "dead"]
    made.end()


def test_where_the_monitor_itself_stood_still_no_poll_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    made, told = watch(monkeypatch, 1, Poll("server on a1", ("sleep", "60"), seconds=0.0))
    made.tick(0.0)
    made.tick(5.0)
    assert made.polls[0].row == 0
    made.tick(0.0)
    assert made.polls[0].row == 1 and told[-1] == "blind"
    made.end()


def test_the_monitor_pings_over_the_first_link_between_both(mirror: Scene) -> None:
    assert monitor.link(mirror, "a2", "a1") == "zone"
    assert monitor.address(mirror, "a2", "a1") == mirror.ground.ends["zone"]["a1"].address
    assert monitor.link(mirror, "b1", "a1") == ""


# -- what has no use --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", get_args(AnyFault))
def test_a_field_that_a_fault_refuses_is_refused(kind: type[AnyFault], mirror: Scene) -> None:
    """The reference leaves them out."""
    given = {"fault": kind.__struct_config__.tag, "at": "1s", "for": "2s"}
    if "link" in kind.__struct_fields__:
        given["link"] = "zone"
    found = [field for field, _ in read(**given).problems(mirror)]
    assert found == list(kind.refused)

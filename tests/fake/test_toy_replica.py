"""A database that replicates to any number of peers, which the package does not know: two layers and a fault, as
CONTRIBUTING.md says, registered in one line; and whole drills with three nodes.

It stands for a PostgreSQL standby or a MariaDB replica: what is below it is built for a role, it seeds its peers
by itself, has stages of its own, and tells a dead server on a node that lives.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import msgspec
import pytest

from blocklab.charts.layout import layouts
from blocklab.cli.plan import planned
from blocklab.errors import StudyError
from blocklab.faults.base import FaultBase
from blocklab.layers.base import LayerBase, link_problems, peer_problems
from blocklab.model import node_programs
from blocklab.model.drill import Drill
from blocklab.model.dsn import Dsn
from blocklab.model.fault import Scene
from blocklab.model.ground import Topology
from blocklab.model.host import Result
from blocklab.model.layer import Place
from blocklab.model.plan import Argv, Fact, Kind, Plan, Port, Run, Step
from blocklab.model.spans import Comparison, Poll, Query, Side, Sign, Stage
from blocklab.model.units import Size
from blocklab.runner import drill
from blocklab.sites.fake import FakeLab, FakeSite, Play
from blocklab.stats.analysis import analyse
from blocklab.stats.findings import describe
from blocklab.study.check import combined_problems
from blocklab.study.grid import roles_of, topology, wires
from blocklab.study.kinds import registered
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab_node import monitor as watcher
from tests.fake.as_planned import compared
from tests.fake.clients import COUNT
from tests.fake.drilled import MISSED, QUIET, WRITES, Drilled, said
from tests.fake.runs import Silent, go

# -- the layers ---------------------------------------------------------------------------------------------------


class Server(LayerBase, frozen=True, tag="server"):
    """A database server: a replica is neither made nor started."""

    buffers: Size = msgspec.field(default_factory=lambda: Size("16MiB"))

    takes: ClassVar[Kind | None] = "dir"
    gives: ClassVar[Kind] = "postgresql"
    stage: ClassVar[str] = "recovery"
    max_connections: ClassVar[int | None] = None

    def memory(self) -> dict[str, tuple[str, float]]:
        return {"buffers": (str(self.buffers), float(self.buffers))}

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        host = place.host
        port = Port(host, "postgresql", str(Dsn("postgresql", "postgres", "bench", "/run/server", 5432)))
        if place.role == "replica":
            return Plan((), (), (port,))
        listen = Run(host, ("server", "listen", *place.listen, *(own for own, _ in place.joined)))
        return Plan((Run(host, ("server", "make"), once=True), listen, started(host, "primary")), (), (port,))


class Replicated(LayerBase, frozen=True, tag="replicated"):
    """Replicas of a database on other nodes."""

    peers: tuple[str, ...]
    links: tuple[str, ...]

    takes: ClassVar[Kind | None] = "postgresql"
    gives: ClassVar[Kind] = "postgresql"
    exact: ClassVar[bool] = False
    connected: ClassVar[bool] = True

    def problems(self, host: str, lab: Topology) -> list[tuple[str, str]]:
        found = [problem for peer in self.peers for problem in peer_problems(peer, host, lab)]
        return found or [
            problem
            for peer in self.peers
            if not any({host, peer} == set(lab.links[link].between) for link in self.links if link in lab.links)
            for problem in link_problems(self.links[0], peer, host, lab)
        ]

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        steps: list[Step] = []
        for peer in self.peers:
            steps += [
                Run(peer, ("server", "copy", _address(place, peer, place.host)), once=True),
                started(peer, "replica"),
            ]
        count = Fact(place.host, self.tag, ("server", "replicas"), _replicas, {"replicas": str(len(self.peers))})
        return Plan(tuple(steps), (count,), tuple(port for port in below if port.host == place.host))

    def sides(self, on: str) -> tuple[Side, ...]:
        return Side(on, "primary"), *(Side(peer, "replica") for peer in self.peers)

    @property
    def survivors(self) -> tuple[str, ...]:
        return self.peers

    def failed_over(self, old: str, new: str) -> Self:
        return msgspec.structs.replace(self, peers=(*(peer for peer in self.peers if peer != new), old))

    def takeover(self, place: Place, below: tuple[Port, ...], gone: Sequence[str]) -> tuple[Stage, ...]:
        follow = [
            Run(peer, ("server", "follow", _address(place, peer, place.host)))
            for peer in self.peers
            if peer not in gone
        ]
        return Stage("promote", (Run(place.host, ("server", "promote")),)), Stage("follow", tuple(follow))

    def restart(self, place: Place, below: tuple[Port, ...]) -> tuple[Stage, ...]:
        return (Stage("promote", ()),)

    def alone(self, place: Place, below: tuple[Port, ...]) -> tuple[Fact, ...]:
        return (Fact(place.host, self.tag, ("server", "role"), lambda text: {"role": text}, {"role": "primary"}),)

    def rejoin(self, place: Place, below: tuple[Port, ...], back: Sequence[str]) -> tuple[Step, ...]:
        steps: list[Step] = []
        for peer in back:
            steps += [Run(peer, ("server", "rewind", _address(place, peer, place.host))), started(peer, "replica")]
        return tuple(steps)

    def split_brain(self, place: Place) -> Query:
        return place.host, ("server", "apart")

    def comparison(self, place: Place, below: tuple[Port, ...]) -> Comparison:
        settle = tuple(Run(peer, ("server", "replayed")) for peer in self.peers)
        return Comparison(settle, dict.fromkeys((place.host, *self.peers), ("server", "sum")))

    def signs(self, place: Place, of: str) -> tuple[Sign, ...]:
        return (Poll(f"server on {of}", ("server-lives", _address(place, place.host, of))),)


class ServerKilled(FaultBase, frozen=True, tag="server-killed"):
    """The server dies, and its node lives."""

    def strike(self, scene: Scene) -> tuple[Step, ...]:
        return (Run(scene.active, ("server", "kill")),)


def started(host: str, role: str) -> Run:
    return Run(host, ("server", "start", role), undo=("server", "stop"))


def _address(place: Place, host: str, of: str) -> str:
    """Where a host reaches another one."""
    return next(ends[of].address for ends in place.ground.ends.values() if {host, of} == ends.keys())


def _replicas(text: str) -> dict[str, str]:
    return {"replicas": text}


# -- their nodes --------------------------------------------------------------------------------------------------

STUDY: dict[str, Any] = {
    "blocklab": 2,
    "name": "toy",
    "question": "What does a replica lose?",
    "nodes": {name: {"memory": "256MiB"} for name in ("a1", "a2", "a3", "c1")},
    "links": {
        "near": {"between": ["a1", "a2"], "rtt": "0.35ms"},
        "far": {"between": ["a1", "a3"], "rtt": "0.35ms"},
        "across": {"between": ["a2", "a3"]},
        **{f"to-{name}": {"between": ["c1", name]} for name in ("a1", "a2", "a3")},
    },
    "stacks": {
        "three": {
            "on": "a1",
            "layers": [
                {"layer": "volume", "size": "512MiB"},
                {"layer": "ext4"},
                {"layer": "server"},
                {"layer": "replicated", "peers": ["a2", "a3"], "links": ["near", "far", "across"]},
            ],
        }
    },
    "workloads": {"writes": {"workload": "ledger", "from": "c1", "after": "0s", "patience": "30s"}},
    "faults": {"kill": {"fault": "crash", "at": "0s"}},
    "takeover": {"wait": "1s"},
}
DEAD = said("dead", MISSED)
LIVES = (said("started"), said("answered"))
DIES = (*LIVES, QUIET, DEAD)
FIRST, SECOND, BETWEEN = ("a2", "a1"), ("a3", "a1"), ("a3", "a2")


def written(count: int, server: int) -> tuple[bytes, bytes]:
    row = {**COUNT, "time": 0.1 * count, "scheduled": count, "acknowledged": count, "server": server}
    return json.dumps(row).encode() + b"\n", b""


Watches: TypeAlias = dict[Any, Sequence[tuple[bytes, bytes]]]
"""What the monitor on a node says about another one, by both; and ``client``: what the client says."""


class Answered:
    """Pings of which every one is answered."""

    def __init__(self, address: str) -> None:
        self.number = 0

    def send(self) -> None:
        self.number += 1

    def answers(self) -> list[int]:
        return [self.number] if self.number else []


class Nodes(Drilled):
    """Three nodes with a database: who runs as what, and what each has. ``plant``: other data on a replica."""

    def __init__(self, watches: Watches) -> None:
        super().__init__(Play(0, b"", b"", pieces=tuple(watches["client"])) if "client" in watches else WRITES)
        self.watches = watches
        self.at: dict[str, str] = {}
        self.running: dict[str, str] = {}
        self.data: dict[str, str] = {}
        self.apart = ""
        self.plant = ("", "")
        self.wrong: list[str] = []

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[:3] == ("ip", "addr", "add"):
            self.at[argv[3].partition("/")[0]] = host
        if node_programs.path("monitor") in argv[1:] and argv[0] != "put":
            return Play(0, b"", b"", pieces=tuple(self.watches.get((host, self.at[argv[-4]]), LIVES)))
        if "SELECT 'tally'" in " ".join(argv):
            return Result(0, b"count\t0\t0\t0\n", b"")
        if argv[0] == "server":
            return Result(0, self.server(host, *argv[1:]).encode(), b"")
        return super().__call__(host, argv)

    def server(self, host: str, verb: str, what: str = "", *more: str) -> str:
        if verb == "make":
            self.data[host] = "rows"
        elif verb in ("copy", "rewind"):
            if self.running.get(self.at[what]) != "primary":
                self.wrong.append(f"{host} has its data from {self.at[what]}, which is no primary")
            self.data[host] = self.data[self.at[what]]
        elif verb in ("start", "promote"):
            role = what or "primary"
            if role == "primary" and "primary" in self.running.values():
                self.wrong.append(f"{host} is a second primary")
            self.running[host] = role
        elif verb in ("stop", "kill"):
            self.running.pop(host, None)
        sums = {**self.data, self.plant[0]: self.plant[1]}
        answers = {
            "replicas": str([*self.running.values()].count("replica")), "role": self.running.get(host, ""),
            "sum": sums.get(host, ""), "apart": self.apart,
        }  # fmt: skip
        return answers.get(verb, "")


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watches]:
    """What the monitors say, by who says it about whom; the layers are known meanwhile."""
    crash = FakeLab.crash

    def crashed(lab: FakeLab, host: str) -> None:
        lab._site.answer.running.pop(host, None)  # type: ignore[attr-defined]  # with its node
        crash(lab, host)

    monkeypatch.setattr(FakeLab, "crash", crashed)
    monkeypatch.setattr(drill, "NOTICE_SECONDS", 0.5)
    with registered(Server, Replicated, ServerKilled):
        yield {}


def study(**changes: Any) -> Study:
    return build({**STUDY, **changes})


class Drilling:
    """A drill of the three, and what was done to them."""

    def __init__(self, folder: Path, what: Study, answers: Nodes) -> None:
        self.study, self.nodes = what, answers
        self.folder, progress, self.bad, self.site = go(what, folder, answers)
        self.progress: Silent = progress
        assert self.bad == 0, progress.outcomes
        assert answers.wrong == []
        self.drill: Drill = progress.drills[0]
        self.log = [line for lab in self.site.labs for line in lab.log]

    def of(self, host: str) -> list[str]:
        """What its server was told, and its power, from the first blow on."""
        blows = (("crash",), ("server", "kill"))
        first = next(i for i, (_, argv) in enumerate(self.log) if argv in blows)
        told = (argv for who, argv in self.log[first:] if who == host and argv[0] in ("server", "crash", "boot"))
        return [" ".join(argv[argv[0] == "server" :][: 2 if "start" in argv else 1]) for argv in told]

    def about(self, what: str) -> list[str]:
        """What the drill's events of that name say."""
        return [event.said for event in self.drill.events if event.what == what]


# -- drills -------------------------------------------------------------------------------------------------------


def test_the_primary_crashes_and_the_first_survivor_takes_over(tmp_path: Path, nodes: Watches) -> None:
    nodes |= {FIRST: DIES, SECOND: DIES}
    it = Drilling(tmp_path, study(), Nodes(nodes))
    drill = it.drill
    assert (drill.active, drill.survivor, drill.took_over, drill.servers) == ("a1", "a2", True, ("a1", "a2", "a3"))
    assert it.of("a2")[0] == "promote" and "follow" in it.of("a3")
    # It comes back as a replica: its server is not started before it has the new primary's data.
    assert it.of("a1") == ["crash", "crash", "boot", "rewind", "start replica", "replayed", "sum", "stop"]
    assert drill.mirror is not None and drill.mirror.status == "in sync"
    assert set(drill.mirror.copies) == {"a1", "a2", "a3"} and drill.mirror.verified is None
    assert set(it.about("dead")) == {MISSED, f"a3 about a1: {MISSED}"}
    compared(it.study, it.site)


def test_the_first_survivor_is_dead_too_and_the_second_takes_over(tmp_path: Path, nodes: Watches) -> None:
    nodes |= {FIRST: DIES, SECOND: DIES, BETWEEN: DIES}
    both = {"kill": {"fault": "crash", "at": "0s"}, "too": {"fault": "crash", "node": "a2", "at": "0s"}}
    it = Drilling(tmp_path, study(faults=both), Nodes(nodes))
    assert (it.drill.survivor, it.drill.took_over) == ("a3", True)
    assert "promote" not in it.of("a2") and it.of("a3")[0] == "promote"
    # Nobody is left to follow; both come back as its replicas.
    for host in ("a1", "a2"):
        assert "follow" not in it.of(host)
        assert it.of(host)[-6:] == ["boot", "rewind", "start replica", "replayed", "sum", "stop"]
    assert it.drill.mirror is not None and it.drill.mirror.status == "in sync"
    compared(it.study, it.site)


def test_a_second_survivor_waits_while_the_first_one_lives(tmp_path: Path, nodes: Watches) -> None:
    """The first one's own monitor has not seen the crash yet."""
    nodes |= {FIRST: (*LIVES, *[QUIET] * 10, DEAD), SECOND: DIES}
    it = Drilling(tmp_path, study(), Nodes(nodes))
    assert it.drill.survivor == "a2" and "promote" not in it.of("a3")


def test_a_survivor_that_was_only_deaf_for_a_while_is_not_passed_over(tmp_path: Path, nodes: Watches) -> None:
    nodes |= {
        FIRST: (*LIVES, *[QUIET] * 10, DEAD),
        SECOND: (*LIVES, *[QUIET] * 5, DEAD),
        BETWEEN: (*LIVES, QUIET, DEAD, said("answered")),
    }
    it = Drilling(tmp_path, study(), Nodes(nodes))
    assert it.drill.survivor == "a2"


def test_a_survivor_that_dies_after_it_took_over_has_an_heir_too(tmp_path: Path, nodes: Watches) -> None:
    nodes |= {FIRST: DIES, SECOND: DIES, BETWEEN: (*LIVES, *[QUIET] * 60, DEAD)}
    nodes["client"] = [written(n, 0 if n < 100 else 2) for n in range(1, 3000)]
    twice = {"kill": {"fault": "crash", "at": "0s"}, "again": {"fault": "crash", "node": "a2", "at": "0.3s"}}
    it = Drilling(tmp_path, study(faults=twice, takeover={"wait": "60s"}), Nodes(nodes))
    assert (it.drill.survivor, it.drill.took_over) == ("a3", True)
    promoted = [who for who, argv in it.log if argv == ("server", "promote")]
    assert promoted == ["a2", "a3"] and it.of("a3").index("follow") < it.of("a3").index("promote")
    for host in ("a1", "a2"):
        assert it.of(host)[-6:] == ["boot", "rewind", "start replica", "replayed", "sum", "stop"]


def test_a_server_that_dies_on_a_live_node_is_noticed_by_the_layers_own_watch(
    tmp_path: Path, nodes: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monitor itself, with the signs of the plan, on a node that answers every ping."""
    what = study(faults={"server": {"fault": "server-killed", "at": "0s"}})
    argv = next(each.argv for each in planned(what, "three", FakeSite()) if each.part == "monitor")
    (sign,) = json.loads(argv[-1])
    assert (sign["what"], sign["argv"]) == ("server on a1", ["server-lives", argv[-4]])
    told: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(watcher, "say", lambda what, why="": told.append(said(what, why)))
    monkeypatch.setattr(watcher, "Pings", Answered)
    lives = tmp_path / "lives"
    lives.touch()
    monitor = watcher.Watch(
        argv[-4], float(argv[-3]), int(argv[-2]), [{**sign, "argv": ["test", "-e", str(lives)]}]
    )
    for tick in range(10):
        monitor.tick(0.0)
        child = monitor.polls[0].child
        assert child is not None and child.wait(timeout=60) is not None
        if tick == 3:
            lives.unlink()
    monitor.end()
    nodes[FIRST] = [told[0], *told[1:3], QUIET, *told[3:]]

    it = Drilling(tmp_path / "runs", what, Nodes(nodes))
    drill = it.drill
    assert (drill.survivor, drill.took_over, drill.fault) == ("a2", True, "server")
    assert it.about("dead") == ["server on a1: 3 in a row without an answer, though its node answers"]
    # Its node lives, so it is fenced: the old primary comes back as a replica.
    assert it.of("a1") == ["kill", "crash", "boot", "rewind", "start replica", "replayed", "sum", "stop"]
    # Where only pings are looked at, nobody notices.
    nodes[FIRST] = LIVES
    it = Drilling(tmp_path / "blind", what, Nodes(nodes))
    assert not it.drill.took_over and it.drill.survivor == "a2"


def test_a_side_that_differs_is_told(tmp_path: Path, nodes: Watches) -> None:
    nodes |= {FIRST: DIES, SECOND: DIES}
    answers = Nodes(nodes)
    answers.plant = ("a3", "other rows")
    it = Drilling(tmp_path, study(), answers)
    mirror = it.drill.mirror
    assert mirror is not None and (mirror.status, mirror.why) == ("differs", "the checksums differ")
    assert mirror.copies == {"a1": "rows", "a2": "rows", "a3": "other rows"}


def test_a_split_brain_is_told(tmp_path: Path, nodes: Watches) -> None:
    nodes |= {FIRST: DIES, SECOND: DIES}
    answers = Nodes(nodes)
    answers.apart = "12 transactions of a1 are nowhere else"
    it = Drilling(tmp_path, study(takeover={"wait": "1s", "fence": False}), answers)
    assert it.drill.mirror is not None and it.drill.mirror.status == "split brain"


def test_all_nodes_lose_their_power_and_the_same_one_is_the_primary(tmp_path: Path, nodes: Watches) -> None:
    it = Drilling(tmp_path, study(faults={"dark": {"fault": "power-cut", "at": "0s"}}), Nodes(nodes))
    assert not it.drill.took_over
    assert it.of("a1")[:3] == ["crash", "boot", "listen"] and "start primary" in it.of("a1")
    for host in ("a2", "a3"):
        assert it.of(host) == ["crash", "boot", "rewind", "start replica", "replayed", "sum", "stop"]
    assert it.drill.mirror is not None and it.drill.mirror.status == "in sync"


def test_a_replica_that_dies_is_taken_in_again(tmp_path: Path, nodes: Watches) -> None:
    it = Drilling(tmp_path, study(faults={"kill": {"fault": "crash", "node": "a3", "at": "0s"}}), Nodes(nodes))
    assert not it.drill.took_over and "crash" not in it.of("a1")
    assert it.of("a3") == ["crash", "boot", "rewind", "start replica", "replayed", "sum", "stop"]


def test_nobody_waits_for_a_replica_that_is_dead_to_follow(tmp_path: Path, nodes: Watches) -> None:
    nodes |= {FIRST: DIES, SECOND: DIES}
    both = {"kill": {"fault": "crash", "at": "0s"}, "too": {"fault": "crash", "node": "a3", "at": "0s"}}
    it = Drilling(tmp_path, study(faults=both), Nodes(nodes))
    assert it.drill.took_over and it.drill.survivor == "a2" and "follow" not in it.of("a3")
    compared(it.study, it.site)


# -- everything else that asks for what it says -----------------------------------------------------------------


@pytest.mark.usefixtures("nodes")
def test_the_plan_has_its_roles_stages_and_monitors() -> None:
    what = study()
    lines = [*planned(what, "three", FakeSite())]
    seeded = [(line.host, line.argv[1]) for line in lines if line.part == "build" and line.argv[:1] == ("server",)]
    # Made on the primary alone, and copied; over the copies of the volumes nothing is made and nothing copied.
    assert seeded == [
        ("a1", "make"), ("a1", "listen"), ("a1", "start"), ("a2", "copy"), ("a2", "start"), ("a3", "copy"),
        ("a3", "start"), ("a1", "listen"), ("a1", "start"), ("a2", "start"), ("a3", "start"),
    ]  # fmt: skip
    ends = FakeSite().ground(topology(what, ["three"])).ends
    pings = [(line.host, line.argv[-4]) for line in lines if line.part == "monitor"]
    near, far, across = (ends[link] for link in ("near", "far", "across"))
    assert pings == [("a2", near["a1"].address), ("a3", far["a1"].address), ("a3", across["a2"].address)]
    stages = [(line.about.partition(" ")[0], line.host) for line in lines if line.part == "takeover"]
    assert stages == [("fencing", "a1"), ("promote", "a2"), ("follow", "a3")]
    tuned = [line.said for line in lines if line.part == "tune"]
    assert {word for word in ("near", "far") for said in tuned if f" {word} " in said} == {"near", "far"}
    # Where the first survivor is going to be dead, the second one's is the plan.
    both = {"kill": {"fault": "crash", "at": "0s"}, "too": {"fault": "crash", "node": "peer", "at": "0s"}}
    lines = [*planned(study(faults=both), "three", FakeSite())]
    stages = [(line.about.partition(" ")[0], line.host) for line in lines if line.part == "takeover"]
    assert stages == [("fencing", "a1"), ("fencing", "a2"), ("promote", "a3")]


@pytest.mark.usefixtures("nodes")
def test_it_has_volumes_links_and_memory_of_its_own() -> None:
    what = study()
    shape = topology(what, ["three"])
    assert [(volume.nodes, volume.alike) for volume in shape.volumes] == [
        (("a1",), False), (("a2",), False), (("a3",), False),
    ]  # fmt: skip
    assert set(shape.links) == set(STUDY["links"])
    roles = [dict(level) for level in roles_of(what.stacks["three"])]
    below = {"a1": "primary", "a2": "replica", "a3": "replica"}
    assert roles == [below, below, below, {"a1": "primary"}]
    ground = FakeSite().ground(shape)
    near, far, across = (ground.ends[link] for link in ("near", "far", "across"))
    assert wires(what, "three", ground) == {
        "a1": (near["a1"].nic, far["a1"].nic), "a2": (near["a2"].nic, across["a2"].nic),
        "a3": (far["a3"].nic, across["a3"].nic),
    }  # fmt: skip
    # A server that is replicated listens where its replicas come from, and each node where clients do.
    listening = [line for line in planned(what, "three", FakeSite()) if line.argv[:2] == ("server", "listen")]
    own = {near["a1"].address, far["a1"].address, ground.ends["to-a1"]["a1"].address}
    assert {line.host for line in listening} == {"a1"} and set(listening[0].argv[2:]) == own
    assert describe(what.stacks["three"], what.links) == "replica on a2 and a3, 0.35\N{NO-BREAK SPACE}ms away"


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("across", "no link joins a3 and a2, over which the monitor pings"),
        ("to-a3", "needs a link to a3, which may"),
    ],
)
@pytest.mark.usefixtures("nodes")
def test_every_pair_needs_its_link(link: str, said: str) -> None:
    links = {name: each for name, each in STUDY["links"].items() if name != link}
    with pytest.raises(StudyError) as caught:
        study(links=links)
    assert said in str(caught.value)


@pytest.mark.usefixtures("nodes")
def test_each_of_its_nodes_needs_room_for_a_server() -> None:
    (stack,) = STUDY["stacks"].values()
    layers = [{**layer, "buffers": "200MiB"} if layer["layer"] == "server" else layer for layer in stack["layers"]]
    stacks = {"three": {**stack, "layers": layers}}
    assert list(combined_problems(study(stacks=stacks))) == []
    nodes = {**STUDY["nodes"], "a3": {"memory": "128MiB"}}
    problems = {problem for _, problem in combined_problems(study(stacks=stacks, nodes=nodes))}
    assert len(problems) == 1 and "more than the whole memory of node a3" in str(problems)


def test_it_is_one_box_over_three_nodes(tmp_path: Path, nodes: Watches) -> None:
    nodes |= {FIRST: DIES, SECOND: DIES}
    it = Drilling(tmp_path, study(), Nodes(nodes))
    (layout,) = layouts(analyse(it.folder))
    assert layout.nodes == ("a1", "a2", "a3", "c1")
    (box,) = [box for box in layout.boxes if box.title == "replicated"]
    assert (box.first, box.width) == (0, 3) and "near: " in box.link and "far: " in box.link

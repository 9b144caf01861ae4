"""Every fault on real nodes: it strikes, the nodes see it, it is mended. And the monitor that has to notice."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import CommandError, HostTimeout
from blocklab.faults import (
    Crash,
    Freeze,
    LinkCut,
    LinkLoss,
    LinkSlow,
    Takeover,
    VolumeError,
    VolumeFull,
    VolumeStall,
    monitor,
)
from blocklab.layers import drbd_pair
from blocklab.model import fragile
from blocklab.model.drill import Event
from blocklab.model.fault import Fault, Mended, Scene
from blocklab.model.ground import LinkSpec
from blocklab.model.host import Host, Proc, must
from blocklab.model.plan import Port
from blocklab.model.spans import Poll, Sign
from blocklab.model.units import BitRate, Duration, Share
from blocklab.runner.engine import Engine
from blocklab.runner.measure import not_in_force
from blocklab.runner.run import standing
from blocklab.runner.workshop import Standing
from blocklab.sites.uml.site import UmlLab, UmlSite
from blocklab.study import takeover as recipes
from blocklab.study.grid import plan_ground, plan_layers
from blocklab.study.read import build
from tests.lab.conftest import topology

pytestmark = pytest.mark.long

PLAIN = {"layer": "volume", "size": "64MiB"}
XFS = {"layer": "volume", "size": "320MiB"}
FRAGILE = {"layer": "fragile"}
DRBD = {"layer": "drbd", "peer": "a2", "link": "zone"}
# Long enough for a machine that is busy with other things.
PATIENCE = 30.0


class Wires:
    """Two nodes and a link, without a stack."""

    def __init__(self, link: LinkSpec) -> None:
        shape = topology("a1", "a2", links={"zone": link})
        site = UmlSite()
        ground = site.ground(shape)
        self.lab: UmlLab = site.start(shape)
        self.engine = Engine(self.lab)
        self.scene = Scene("one", 0, "a1", ("a2",), ground, shape.links, {})
        try:
            self.engine.carry_out(plan_ground(shape, ground).steps, "build")
        except BaseException:
            self.lab.close()
            raise

    def qdiscs(self) -> list[Any]:
        """What the kernels say of every lane."""
        found = []
        for node, end in self.scene.ground.ends["zone"].items():
            for lane in end.lanes:
                told = json.loads(must(self.lab.hosts[node], ["tc", "-j", "qdisc", "show", "dev", lane]))
                found.append((node, lane, [(each["kind"], each.get("options")) for each in told]))
        return found

    def ping(self, node: str, count: int = 20) -> tuple[int, str]:
        """How many of a node's pings to the other one were answered, and all that ping said."""
        other = next(name for name in self.scene.ground.ends["zone"] if name != node)
        address = self.scene.ground.ends["zone"][other].address
        argv = ["ping", "-q", "-n", "-c", str(count), "-i", "0.02", "-W", "1", address]
        text = self.lab.hosts[node].run(argv).text
        # 20 packets transmitted, 20 received, 0% packet loss, time 396ms
        return int(text.partition(" received")[0].rpartition(" ")[2]), text

    def reached(self, node: str) -> int:
        """How many pings have reached a node."""
        # Icmp: InMsgs ... InEchos ...: a line of names, then one of numbers
        lines = self.lab.hosts[node].get("/proc/net/snmp").decode().splitlines()
        names, numbers = (line.split() for line in lines if line.startswith("Icmp: "))
        return int(numbers[names.index("InEchos")])

    def strike(self, fault: Fault) -> None:
        """Check it, and do it."""
        assert fault.problems(self.scene) == []
        self.engine.carry_out(fault.strike(self.scene), "fault")

    def heal(self, fault: Fault) -> None:
        """Mend it."""
        assert isinstance(fault, Mended)
        self.engine.carry_out(fault.heal(self.scene), "heal")


@pytest.fixture(scope="module")
def wires() -> Iterator[Wires]:
    """Delay and rate at one end, rate at the other."""
    found = Wires(LinkSpec(("a1", "a2"), rtt=Duration("2ms"), rate=BitRate("100Mbit/s")))
    try:
        yield found
    finally:
        found.lab.close()


@pytest.fixture(scope="module")
def bare() -> Iterator[Wires]:
    """Two lanes without any netem."""
    found = Wires(LinkSpec(("a1", "a2"), lanes=2))
    try:
        yield found
    finally:
        found.lab.close()


@pytest.mark.parametrize("kind", ["wires", "bare"])
def test_a_cut_link_carries_nothing_and_is_whole_again(kind: str, wires: Wires, bare: Wires) -> None:
    line = wires if kind == "wires" else bare
    before, fault = line.qdiscs(), LinkCut(link="zone", at="1s")
    assert line.ping("a1")[0] == 20
    line.strike(fault)
    count = line.reached("a2")
    assert line.ping("a1")[0] == 0 and line.ping("a2")[0] == 0
    assert line.reached("a2") == count
    assert line.qdiscs() != before
    line.heal(fault)
    assert line.qdiscs() == before
    assert line.ping("a1")[0] == 20
    line.heal(fault)  # twice does no harm
    assert line.qdiscs() == before


@pytest.mark.parametrize("sender", ["a1", "a2"])
def test_a_link_cut_one_way_carries_the_other_way(wires: Wires, sender: str) -> None:
    other = "a2" if sender == "a1" else "a1"
    before, fault = wires.qdiscs(), LinkCut(link="zone", at="1s", direction=f"from {sender}")
    assert wires.ping(other)[0] == 20  # so that both know each other's address
    wires.strike(fault)
    reached = wires.reached(sender), wires.reached(other)
    assert wires.ping(other, 10)[0] == 0 and wires.ping(sender, 10)[0] == 0
    # The questions arrive where it is whole; the answers do not come back.
    assert (wires.reached(sender), wires.reached(other)) == (reached[0] + 10, reached[1])
    wires.heal(fault)
    assert wires.qdiscs() == before and wires.ping(sender)[0] == 20


def test_a_lossy_link_loses_some(wires: Wires) -> None:
    before, fault = wires.qdiscs(), LinkLoss(link="zone", at="1s", loss=Share("40%"))
    wires.strike(fault)
    assert 0 < wires.ping("a1", 100)[0] < 100
    wires.heal(fault)
    assert wires.qdiscs() == before and wires.ping("a1")[0] == 20


@pytest.mark.parametrize("kind", ["wires", "bare"])
def test_a_slow_link_is_slow_and_fast_again(kind: str, wires: Wires, bare: Wires) -> None:
    line = wires if kind == "wires" else bare
    before, fault = line.qdiscs(), LinkSlow(link="zone", at="1s", rtt=Duration("50ms"))
    line.strike(fault)
    count, text = line.ping("a1", 10)
    # rtt min/avg/max/mdev = 50.112/50.201/50.433/0.043 ms
    assert count == 10 and float(text.partition("mdev = ")[2].split("/")[0]) > 49.5
    line.heal(fault)
    assert line.qdiscs() == before


def test_a_frozen_node_is_silent_and_goes_on(wires: Wires, tmp_path: Path) -> None:
    a1, fault = wires.lab.nodes["a1"], Freeze(at="1s")
    code = "import time\nfor i in range(40): print(i, flush=True); time.sleep(0.05)"
    proc = a1.spawn(["python3", "-u", "-c", code], tmp_path / "out", tmp_path / "err")
    _until(lambda: (tmp_path / "out").read_text() != "")
    wires.strike(fault)
    assert wires.ping("a2")[0] == 0
    # The lab gives a node up that has been silent for 1.75 s, unless it was frozen on purpose.
    time.sleep(2.5)
    wires.heal(fault)
    assert proc.wait(PATIENCE) == 0 and (tmp_path / "out").read_text().splitlines()[-1] == "39"
    time.sleep(2.5)  # still not taken for hung
    assert must(a1, ["echo", "back"]) == "back\n" and wires.ping("a2")[0] == 20


# -- volumes ------------------------------------------------------------------------------------------------------


class Stack:
    """A stack that stands, and its scene."""

    def __init__(self, small: dict[str, Any], stand: Standing, layers: list[dict[str, Any]]) -> None:
        self.stand = stand
        study = _study(small, layers)
        ports: dict[str, tuple[Port, ...]] = {}
        for level in plan_layers(study, "one", 0, stand.ground):
            for host, plan in level.items():
                ports[host] = ports.get(host, ()) + plan.ports
        self.scene = Scene("one", 0, "a1", ("a2",) if "a2" in ports else (), stand.ground, study.links, ports)
        self.host: Host = stand.lab.hosts["a1"]
        self.folder = "/mnt/one"

    def strike(self, fault: Fault) -> None:
        """Check it, and do it."""
        assert fault.problems(self.scene) == []
        self.stand.engine.carry_out(fault.strike(self.scene), "fault")

    def heal(self, fault: Fault) -> None:
        """Mend it."""
        assert isinstance(fault, Mended)
        self.stand.engine.carry_out(fault.heal(self.scene), "heal")

    def wrong(self) -> dict[str, str]:
        """Knobs that are not in force."""
        return {knob.name: knob.value for knob in not_in_force(self.stand.engine.ask(self.stand.facts["one"]))}

    def write(self, name: str, count: int = 1) -> None:
        """So many MiB, flushed. Raises ``CommandError``."""
        must(self.host, self.writing(name, count))

    def writing(self, name: str, count: int = 1) -> list[str]:
        """The command."""
        to = f"of={self.folder}/{name}"
        return ["dd", "if=/dev/urandom", to, "bs=1M", f"count={count}", "conv=notrunc,fsync"]

    def undone(self) -> None:
        """Take it down, without a residue."""
        self.stand.engine.undo()
        assert self.stand.engine.warnings == []
        for host in self.stand.lab.hosts.values():
            if host.run(["dmsetup", "info", "-c"]).code == 0:
                assert "No devices found" in must(host, ["dmsetup", "info", "-c"])
                assert "dm-" not in must(host, ["ls", "/dev/mapper"])


def _study(small: dict[str, Any], layers: list[dict[str, Any]]) -> Any:
    small["stacks"] = {"one": {"on": "a1", "layers": layers}}
    small["baseline"] = "one"
    small["workloads"] = {"io": {**small["workloads"]["io"], "size": "16MiB"}}
    return build(small)


def test_a_volume_with_errors_and_without(small: dict[str, Any]) -> None:
    layers: list[dict[str, Any]] = [{**PLAIN, "count": 2}, FRAGILE, {"layer": "stripe"}, {"layer": "ext4"}]
    with standing(UmlSite(), _study(small, layers), ["one"]) as stand:
        stack, fault = Stack(small, stand, layers), VolumeError(at="1s")
        assert stack.wrong() == {}
        stack.write("kept")
        known = must(stack.host, ["sha256sum", f"{stack.folder}/kept"])
        stack.strike(fault)
        with pytest.raises(CommandError, match=r"Input/output error|Read-only file system"):
            stack.write("refused")
        assert set(stack.wrong()) >= {"target of dm-1000", "target of dm-1001"}
        stack.heal(fault)
        # The file system has given up; mounted again it is as it was.
        device = must(stack.host, ["findmnt", "-n", "-o", "SOURCE", stack.folder]).strip()
        must(stack.host, ["umount", stack.folder])
        must(stack.host, ["mount", "-t", "ext4", device, stack.folder])
        assert must(stack.host, ["sha256sum", f"{stack.folder}/kept"]) == known
        stack.write("again")
        assert stack.wrong() == {}
        stack.heal(fault)  # twice does no harm
        stack.undone()


UPON: dict[str, list[dict[str, Any]]] = {
    "xfs": [XFS, FRAGILE, {"layer": "xfs"}],
    "shared": [PLAIN, {"layer": "shared", "peer": "a2"}, FRAGILE, {"layer": "ext4"}],
    "net_mirror": [PLAIN, FRAGILE, {"layer": "net-mirror", "peer": "a2", "link": "zone"}, {"layer": "ext4"}],
    "lvm_stripe": [{**PLAIN, "count": 2}, FRAGILE, {"layer": "lvm-stripe"}, {"layer": "ext4"}],
    "cap": [{**PLAIN, "iops": 3000}, FRAGILE, {"layer": "cap", "write_iops": 500}, {"layer": "ext4"}],
}


@pytest.mark.parametrize("name", UPON)
def test_what_stands_on_fragile_volumes_is_in_force(small: dict[str, Any], name: str) -> None:
    with standing(UmlSite(), _study(small, UPON[name]), ["one"]) as stand:
        stack = Stack(small, stand, UPON[name])
        assert stack.wrong() == {}
        # The kernel counts by the name that the stack goes by.
        (device, *_) = fragile.devices(stack.scene.ports["a1"])
        assert device in must(stack.host, ["cat", "/proc/diskstats"]).split()
        stack.write("file")
        stack.undone()


def test_a_mirror_gives_up_a_volume_with_errors_and_goes_on(small: dict[str, Any]) -> None:
    layers = [PLAIN, FRAGILE, DRBD, {"layer": "ext4"}]
    study = _study(small, layers)
    with standing(UmlSite(), study, ["one"]) as stand:
        stack, twins = Stack(small, stand, layers), recipes.comparison(study, "one", 0, stand.ground)
        assert twins is not None and twins.differ is not None
        for node, disks in (("active", "Diskless/UpToDate"), ("peer", "UpToDate/Diskless")):
            fault = VolumeError(at="1s", node=node)
            stack.strike(fault)
            stack.write("file")
            _disks(stack, disks)
            stack.heal(fault)
            # A drill takes it back before both sides are compared.
            stand.engine.carry_out(twins.settle + twins.verify, "compare")
            _disks(stack, "UpToDate/UpToDate")
            host, argv = twins.differ
            assert must(stand.lab.hosts[host], argv) == "0\n"
        stack.write("file")
        stack.undone()


def _disks(stack: Stack, states: str) -> None:
    """Soon DRBD says this of both disks."""
    _until(lambda: must(stack.host, ["drbdadm", "dstate", "one"]).strip() == states)


def test_a_write_to_a_stalled_volume_hangs_and_then_finishes(small: dict[str, Any], tmp_path: Path) -> None:
    layers = [PLAIN, FRAGILE, {"layer": "ext4"}]
    with standing(UmlSite(), _study(small, layers), ["one"]) as stand:
        stack, fault = Stack(small, stand, layers), VolumeStall(at="1s")
        stack.strike(fault)
        assert stack.wrong() == {"state": "Suspended"}
        proc = stack.host.spawn(stack.writing("file"), tmp_path / "out", tmp_path / "err")
        with pytest.raises(HostTimeout):
            proc.wait(2.0)
        stack.heal(fault)
        assert proc.wait(PATIENCE) == 0
        assert stack.wrong() == {}
        stack.undone()


@pytest.mark.parametrize(("volume", "kind"), [(PLAIN, "ext4"), (XFS, "xfs")])
def test_a_full_file_system_has_room_again(small: dict[str, Any], volume: dict[str, Any], kind: str) -> None:
    layers = [volume, {"layer": kind}]
    with standing(UmlSite(), _study(small, layers), ["one"]) as stand:
        stack, fault = Stack(small, stand, layers), VolumeFull(at="1s")
        stack.write("before")
        stack.strike(fault)
        # Not one more block, not even for root.
        with pytest.raises(CommandError, match="No space left on device"):
            must(stack.host, ["dd", "if=/dev/zero", f"of={stack.folder}/x", "bs=64k", "count=1", "conv=fsync"])
        stack.write("before")  # has its blocks
        stack.heal(fault)
        stack.write("after", 8)
        stack.undone()


# -- the monitor --------------------------------------------------------------------------------------------------


class Monitor:
    """The monitor on a2."""

    def __init__(self, host: Host, scene: Scene, folder: Path, takeover: Takeover, *signs: Sign) -> None:
        self.out, self.err, self.host = folder / "monitor.out", folder / "monitor.err", host
        argv = monitor.argv(monitor.address(scene, "a2", "a1"), takeover, signs)
        self.proc: Proc = host.spawn(argv, self.out, self.err)
        self.wait("answered")

    def events(self, what: str = "") -> list[Event]:
        """Those of one kind, or all."""
        return [each for each in monitor.events(self.out.read_bytes()) if what in ("", each.what)]

    def wait(self, what: str) -> Event:
        """The first of a kind."""
        _until(lambda: self.events(what) or self.proc.poll() is not None)
        assert self.events(what), (self.out.read_text(), self.err.read_text())
        return self.events(what)[0]

    def end(self) -> None:
        """SIGTERM; nothing of it is left."""
        self.proc.signal(signal.SIGTERM)
        assert self.proc.wait(PATIENCE) == 0 and self.err.read_text() == ""
        left = must(self.host, ["ps", "-eo", "args"])
        assert "monitor.py" not in left and "events2" not in left


def _until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Some patience, since other tests may keep this machine busy.
LENIENT = Takeover(misses=8)


def test_a_living_node_is_not_dead_however_busy(wires: Wires, tmp_path: Path) -> None:
    a1, a2 = wires.lab.nodes["a1"], wires.lab.nodes["a2"]
    watch = Monitor(a2, wires.scene, tmp_path, LENIENT)
    fio = ["fio", "--name=x", "--filename=/dev/shm/x", "--size=64M", "--rw=randwrite", "--bs=4k", "--iodepth=32",
           "--time_based", "--runtime=5", "--ioengine=libaio"]  # fmt: skip
    must(a1, fio)
    assert watch.events("dead") == [] and len(watch.events("started")) == 1
    watch.end()


def test_a_slow_link_is_not_a_dead_node(wires: Wires, tmp_path: Path) -> None:
    """Every answer comes later than the interval, so each ping is missed; but they come."""
    fault = LinkSlow(link="zone", at="1s", rtt=Duration("500ms"))
    wires.strike(fault)
    watch = Monitor(wires.lab.nodes["a2"], wires.scene, tmp_path, Takeover(misses=8))
    _until(lambda: len(watch.events("missed")) > 12)
    assert watch.events("dead") == []
    watch.end()
    wires.heal(fault)


@pytest.mark.parametrize(
    "fault",
    [
        LinkCut(link="zone", at="1s"),
        LinkCut(link="zone", at="1s", direction="from active"),
        LinkCut(link="zone", at="1s", direction="from peer"),
        Freeze(at="1s"),
    ],
    ids=["cut", "cut-active", "cut-peer", "freeze"],
)
def test_a_node_that_does_not_answer_is_dead_until_it_does(wires: Wires, tmp_path: Path, fault: Fault) -> None:
    watch = Monitor(wires.lab.nodes["a2"], wires.scene, tmp_path, Takeover())
    answers = len(watch.events("answered"))
    struck = time.time()
    wires.strike(fault)
    dead = watch.wait("dead")
    assert dead.time > struck and "in a row without an answer" in dead.said
    assert [each.what for each in watch.events()][-4:] == ["missed", "missed", "missed", "dead"]
    wires.heal(fault)
    _until(lambda: len(watch.events("answered")) > answers)
    assert len(watch.events("dead")) == 1
    watch.end()


def test_a_mirrors_connection_is_followed_and_a_crash_is_noticed(small: dict[str, Any], tmp_path: Path) -> None:
    layers = [PLAIN, DRBD]
    with standing(UmlSite(), _study(small, layers), ["one"]) as stand:
        stack, survivor = Stack(small, stand, layers), stand.lab.hosts["a2"]
        watch = Monitor(survivor, stack.scene, tmp_path, LENIENT, drbd_pair.connection("one"))
        assert watch.wait("connection").said == "Connected"
        must(stack.host, ["drbdadm", "disconnect", "one"])
        _until(lambda: len(watch.events("connection")) > 1)
        must(stack.host, ["drbdadm", "connect", "one"])
        _until(lambda: watch.events("connection")[-1].said.endswith("-> Connected"))
        # Without a connection, but answering: alive.
        assert watch.events("dead") == [] and watch.events("blind") == []
        must(stack.host, ["drbdadm", "disconnect", "one"])
        _until(lambda: not watch.events("connection")[-1].said.endswith("Connected"))
        stack.strike(Crash(at="1s"))
        dead = watch.wait("dead")
        # One miss is enough where the connection is lost as well.
        assert dead.said.startswith("connection ") and dead.said.endswith(" and 1 ping in a row without an answer")
        watch.end()


def test_a_monitor_without_its_mirror_says_so(wires: Wires, tmp_path: Path) -> None:
    a2 = wires.lab.nodes["a2"]
    watch = Monitor(a2, wires.scene, tmp_path, LENIENT, drbd_pair.connection("nothing"))
    assert "no connection of nothing; pings alone decide" in watch.wait("blind").said
    must(a2, ["pkill", "drbdsetup"])
    _until(lambda: len(watch.events("blind")) == 2)
    assert "ended with -15" in watch.events("blind")[1].said and watch.events("dead") == []
    watch.end()


def test_a_server_that_dies_on_a_node_that_answers_pings_is_noticed(wires: Wires, tmp_path: Path) -> None:
    a1, a2 = wires.lab.nodes["a1"], wires.lab.nodes["a2"]
    address = monitor.address(wires.scene, "a2", "a1")
    serve = ["python3", "-m", "http.server", "--bind", address, "8000"]
    server = a1.spawn(serve, tmp_path / "server.out", tmp_path / "server.err")
    connect = f"import socket; socket.create_connection(({address!r}, 8000), 1)"
    poll = Poll("server on a1", ("python3", "-c", connect), seconds=5.0)
    must(a1, ["sh", "-c", f"until ss -Hltn | grep -q {address}:8000; do sleep 0.1; done"])
    watch = Monitor(a2, wires.scene, tmp_path, LENIENT, poll)
    _until(lambda: any(each.said.startswith("server on a1") for each in watch.events("answered")))
    assert watch.events("dead") == []
    server.signal(signal.SIGKILL)
    server.wait(PATIENCE)
    assert "server on a1: 8 in a row without an answer, though its node answers" in watch.wait("dead").said
    assert not any(each.said.startswith("ping") for each in watch.events("dead"))
    watch.end()

"""The SSH site on real nodes that are reached by nothing but OpenSSH, as somebody's hosts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import NodeLost, SetupError
from blocklab.layers.volume import Volume
from blocklab.model.ground import LinkSpec, NodeSpec, Profile, Topology, VolumeSpec
from blocklab.model.host import must
from blocklab.model.units import Duration, Size
from blocklab.sites.ssh.connect import Unreachable
from blocklab.sites.ssh.host import SshHost
from blocklab.sites.ssh.hosts import Hosts, known_hosts_of, load
from blocklab.sites.ssh.site import SshSite
from blocklab.store.folder import StudyFolder
from blocklab.study.read import read
from blocklab.study.shipped import shipped
from tests.lab.reached import OWN, Reached, blocklab, reached, residue

DISK = Size("320MiB")


def shape() -> Topology:
    """Two hosts with a link and a disk each."""
    nodes = {name: NodeSpec(memory=Size("768MiB")) for name in ("a1", "a2")}
    links = {"zone": LinkSpec(("a1", "a2"), Duration("0ms"))}
    volumes = tuple(
        VolumeSpec("any", (name,), Profile(size=DISK, write_latency=Duration("300us"))) for name in nodes
    )
    return Topology(nodes, links, volumes)


@pytest.fixture(scope="module")
def there() -> Iterator[Reached]:
    with reached(shape()) as found:
        yield found


def connected(there: Reached, name: str = "a1", **more: Any) -> SshHost:
    hosts: Hosts = load(Path(there.write(hosts={name: there.entry(name, **more)}, links={})))
    return SshHost(name, hosts.hosts[name], known_hosts_of(there.file))


def processes(there: Reached, name: str = "a1") -> str:
    return must(there.lab.nodes[name], ["ps", "-eo", "args"])


def test_commands_files_and_output(there: Reached, tmp_path: Path) -> None:
    host = connected(there)
    try:
        assert host.run(["sh", "-c", "echo out; echo err >&2; exit 3"]).code == 3
        assert host.run(["cat"], input=b"fed").out == b"fed"
        host.put("/run/some/file", b"x" * 300_000)
        assert host.get("/run/some/file") == b"x" * 300_000
        with pytest.raises(FileNotFoundError):
            host.get("/run/none")
        proc = host.spawn(["sh", "-c", "echo begun; sleep 60"], tmp_path / "out", tmp_path / "err")
        proc.signal(15)
        assert proc.wait(30.0) == -15
        # Ctrl-C and a hang-up too, which the agent itself does not heed.
        for number in (1, 2):
            proc = host.spawn(["sleep", "60"], tmp_path / "out", tmp_path / "err")
            proc.signal(number)
            assert proc.wait(30.0) == -number
    finally:
        host.close()
    assert "held" not in processes(there) and "sleep 60" not in processes(there)


def test_a_connection_that_breaks_is_no_dead_host(there: Reached, tmp_path: Path) -> None:
    host = connected(there)
    try:
        count = "for n in $(seq 40); do echo $n; sleep 0.1; done"
        proc = host.spawn(["sh", "-c", count], tmp_path / "out", tmp_path / "err")
        for _ in range(3):
            time.sleep(0.7)
            there.bridges["a1"].break_off()
            assert host.run(["echo", "here"], timeout=40.0).out == b"here\n"
        assert proc.wait(60.0) == 0
        assert (tmp_path / "out").read_text().split() == [str(n) for n in range(1, 41)]
        assert host.channel.breaks >= 3
    finally:
        host.close()


@pytest.mark.long
def test_a_host_that_stays_away_is_lost(there: Reached, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blocklab.sites.ssh.line.AGAIN_SECONDS", 2.0)
    host = connected(there)
    bridge = there.bridges["a1"]
    try:
        bridge.cut.set()
        bridge.break_off()
        with pytest.raises(NodeLost, match=r"a1: node lost: no connection for 2 s: a1 \(a1\) cannot be reached"):
            host.run(["true"], timeout=60.0)
    finally:
        bridge.cut.clear()
        host.close()
    # Its agent is alone, and ends by itself: then another one may come.
    deadline = time.monotonic() + 90
    while True:
        try:
            connected(there).close()
            break
        except Unreachable as error:
            assert "in use by another blocklab" in error.message and time.monotonic() < deadline
            time.sleep(2.0)


def test_a_second_blocklab_is_refused_with_the_name_of_the_first(there: Reached) -> None:
    first = connected(there)
    try:
        with pytest.raises(
            Unreachable, match=r"a1 \(a1\) is in use by another blocklab: .*@.*, process \d+, since"
        ):
            connected(there)
    finally:
        first.close()


@pytest.mark.parametrize(
    ("plant", "entry", "said"),
    [
        ("", {"user": "stranger"}, "the login was refused"),
        ("mv /usr/bin/python3 /usr/bin/kept", {}, "there is no Python: .*python3"),
        ("mount -t tmpfs -o size=0,nr_inodes=1,mode=755 tmpfs /run/blocklab", {}, "No space left"),
    ],
)
def test_what_a_host_lacks_is_one_clear_line(there: Reached, plant: str, entry: dict[str, Any], said: str) -> None:
    node = there.lab.nodes["a1"]
    must(node, ["sh", "-c", f"mkdir -p /run/blocklab; {plant or 'true'}"])
    try:
        with pytest.raises(SetupError, match=said) as caught:
            connected(there, **entry).close()
        assert caught.value.hint and "\n" not in caught.value.message
    finally:
        must(
            node,
            [
                "sh",
                "-c",
                "test ! -e /usr/bin/kept || mv /usr/bin/kept /usr/bin/python3; umount /run/blocklab; true",
            ],
        )


def test_another_host_key_is_refused(there: Reached) -> None:
    known = known_hosts_of(there.file)
    before = known.read_text()
    try:
        known.write_text(before.replace("a1 ", "other "))
        with pytest.raises(Unreachable, match="its host key is not known") as caught:
            connected(there)
        assert "blocklab hosts add a1" in caught.value.hint
    finally:
        known.write_text(before)


def test_a_slow_shell_that_talks_and_sudo_that_asks(there: Reached) -> None:
    node = there.lab.nodes["a1"]
    must(node, ["sh", "-c", "echo 'echo hello from bashrc; sleep 1' > ~/.bashrc"])
    # A locked account may not log in at all.
    must(node, ["useradd", "-m", "-s", "/bin/bash", "-p", "*", "admin"])
    try:
        connected(there).close()
        with pytest.raises(Unreachable, match="sudo asks for a password"):
            connected(there, user="admin", become="sudo")
        node.put("/etc/sudoers.d/admin", b"admin ALL=(ALL) NOPASSWD: ALL\n", 0o440)
        host = connected(there, user="admin", become="sudo")
        assert host.run(["id", "-u"]).out == b"0\n"
        host.close()
    finally:
        must(node, ["sh", "-c", "rm -f ~/.bashrc /etc/sudoers.d/admin"])
        must(node, ["userdel", "-r", "admin"])


def test_the_journal_outlives_the_agent(there: Reached) -> None:
    host = connected(there)
    host.note(1, ["sh", "-c", "echo one >> /tmp/undone"])
    host.note(2, ["sh", "-c", "echo two >> /tmp/undone"])
    must(there.lab.nodes["a1"], ["pkill", "-KILL", "-f", "blocklab_node|python3 -I -S -u -c"])
    with pytest.raises(NodeLost, match="its agent is gone"):
        host.run(["true"], timeout=60.0)
    host.close()
    site = SshSite(Path(there.write()))
    assert site.clean() == []
    assert there.lab.nodes["a1"].get("/tmp/undone") == b"two\none\n"
    assert site.clean() == []


STUDY = """\
blocklab: 2
name: over-ssh
question: Does a mirror stand on hosts?
baseline: local
nodes:
  a1: {memory: 768MiB}
  a2: {memory: 768MiB}
links:
  zone: {between: [a1, a2], rtt: 0.2ms}
stacks:
  local:
    on: a1
    layers: [&disk {layer: volume, size: 256MiB, write_latency: 300us}, {layer: ext4}, {layer: postgres}]
  mirror:
    on: a1
    layers: [*disk, {layer: drbd, peer: a2, link: zone}, {layer: ext4}, {layer: postgres}]
workloads:
  tx: {workload: pgbench, scale: 1, clients: 4, transactions: 100}
"""


def test_a_clock_that_is_an_hour_off_and_a_full_disk_are_a_line_each(there: Reached, tmp_path: Path) -> None:
    node, hosts = there.lab.nodes["a1"], there.write()
    must(node, ["date", "--set", "+1 hour"])
    must(node, ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", "/var/lib/blocklab"])
    try:
        code, said = blocklab("hosts", "check", "--hosts", hosts, "--json", folder=tmp_path)
    finally:
        must(node, ["umount", "/var/lib/blocklab"])
        must(node, ["date", "--set", "-1 hour"])
    found = {(line["host"], line["about"]): line for line in json.loads(said)}
    assert found["a1", "clock"]["ok"] == "warn" and "+3,600 s" in found["a1", "clock"]["found"]
    assert found["a2", "clock"]["ok"] == "ok"
    assert code == 1 and found["a1", "room"]["ok"] == "fail"
    assert "/var/lib/blocklab has 1 MiB free, and 272 are needed" in found["a1", "room"]["found"]


def test_a_study_on_hosts(there: Reached, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    hosts = there.write()
    code, said = blocklab("hosts", "check", "study.yaml", "--hosts", hosts, folder=tmp_path)
    assert code == 0, said
    assert "a2 disk disk0" in said and "link zone" in said and "FAIL" not in said
    code, said = blocklab("doctor", "--hosts", hosts, "--json", folder=tmp_path)
    assert code == 0 and {line["ok"] for line in json.loads(said)} <= {"ok", "warn"}
    before = residue(there)
    code, said = blocklab("run", "study.yaml", "--hosts", hosts, folder=tmp_path)
    assert code == 0, said
    assert residue(there) == before
    runs = list(StudyFolder(tmp_path / "runs/over-ssh").runs())
    assert [run.outcome.status for run in runs] == ["ok"] * 2
    found = {what: tuned for run in runs for what, tuned in run.stack.tuned.items()}
    assert found["link zone"].asked == 0.0002 and found["link zone"].added == 0
    assert found["writes of dm-700 on a1"].reached.median > 0
    assert set(runs[0].environment["hosts"]) == {"a1", "a2"} and runs[0].environment["site"] == "ssh"
    # The first MiB has the stamp; the last one of the disk was never written to.
    volume = there.lab.volume("any", "a1")
    assert volume is not None
    data = volume.read_bytes()
    assert data[:12] == b"blocklab-dis" and not any(data[-(1 << 20) :])


@pytest.mark.long
def test_a_study_for_the_lab_that_is_like_the_hosts(there: Reached, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    code, said = blocklab("like", "study.yaml", "--hosts", there.write(), "--out", "like.yaml", folder=tmp_path)
    assert code == 0, said
    made = read(tmp_path / "like.yaml")
    assert made.name == "over-ssh-like"
    disk = made.stacks["mirror"].layers[0]
    assert isinstance(disk, Volume) and disk.write_latency is not None and disk.write_iops is not None
    # The hosts' disks take 0.3 ms for a write and next to nothing for a read.
    assert 0.0003 <= disk.write_latency <= 0.003 and (disk.read_latency or 0) < disk.write_latency
    assert 0 < made.links["zone"].rtt < 0.05


DRBD_AZ = shipped()["drbd-az"]


def cloud() -> Topology:
    """Three hosts with disks as drbd-az expects them; the links are what they are."""
    study = read(DRBD_AZ, quick=True)
    disk = study.stacks["local"].layers[0]
    assert isinstance(disk, Volume)
    profile = msgspec.structs.replace(disk.profiles()[0], size=Size("3100MiB"))
    volumes = tuple(VolumeSpec("any", (name,), profile) for name in study.nodes)
    return Topology(study.nodes, study.links, volumes)


@pytest.mark.long
def test_drbd_az_has_the_same_verdicts_as_on_the_lab(tmp_path: Path) -> None:
    with reached(cloud()) as there:
        hosts = there.write()
        code, said = blocklab("run", str(DRBD_AZ), "--quick", "--hosts", hosts, folder=tmp_path)
        assert code == 0, said
        (tmp_path / "said.txt").write_text(said)
        for node in there.lab.nodes.values():
            left = node.run(["sh", "-c", "ls /sys/block | grep -E 'dm-|drbd|md'; ls /run/blocklab | grep -v lock"])
            assert left.text == ""
    found = json.loads((tmp_path / "runs/drbd-az-quick/report.json").read_text())["verdicts"]
    # As one build of the lab: nothing is decided. What is outside is where a disk or a link is not as expected.
    assert {each["status"] for each in found} == {"unknown"} and len(found) == 8
    assert all(each["inside"] or "the study expects" in each["sentence"] for each in found), said


FAILOVER = """\
blocklab: 2
name: failover-ssh
question: What is lost when a host dies?
baseline: mirror
nodes:
  c1: {memory: 256MiB}
  a1: {memory: 512MiB}
  a2: {memory: 512MiB}
links:
  beat: {between: [a1, a2]}
  pair: {between: [a1, a2]}
  front: {between: [c1, a1]}
  back: {between: [c1, a2]}
stacks:
  mirror:
    on: a1
    layers: [{layer: volume, size: 240MiB}, {layer: drbd, peer: a2, link: pair}, {layer: ext4}, {layer: postgres}]
workloads:
  ledger: {workload: ledger, from: c1, clients: 2, time: 20s}
faults:
  kill: {fault: crash, at: 3s}
"""


@pytest.mark.long
def test_a_drill_cuts_the_power_of_a_host(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(FAILOVER)
    study = read(tmp_path / "study.yaml")
    disks = [VolumeSpec("any", (name,), Profile(size=Size("256MiB"))) for name in ("a1", "a2")]
    own = [VolumeSpec(OWN, (name,), Profile(size=Size("16MiB"))) for name in study.nodes]
    with reached(Topology(study.nodes, study.links, (*disks, *own))) as there:
        hosts = there.write()
        code, said = blocklab("drill", "study.yaml", "--hosts", hosts, folder=tmp_path)
        assert code == 2 and "a crash, which needs power" in said
        gentle = {name: there.entry(name, power=there.power(name, "shutdown")) for name in study.nodes}
        code, said = blocklab("drill", "study.yaml", "--hosts", there.write(hosts=gentle), folder=tmp_path)
        assert code == 1 and "a1: its end should be a power cut" in said, said
        hosts = there.write(hosts={name: there.entry(name, power=there.power(name)) for name in study.nodes})
        code, said = blocklab("drill", "study.yaml", "--hosts", hosts, folder=tmp_path)
        assert code == 0, said
        assert not [text for text in residue(there).values() if text]
    [run] = StudyFolder(tmp_path / "runs/failover-ssh").runs()
    assert run.drill is not None and run.drill.verdict.status == "ok", said
    assert run.drill.mirror is not None and run.drill.mirror.status == "in sync"
    # The monitor follows the mirror by the name that it has on hosts of one's own.
    noticed = {event.what for event in run.drill.events}
    assert "connection" in noticed and "blind" not in noticed

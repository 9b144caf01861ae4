"""Probes: every series from real output, taken in a UML node with DRBD 8.4.11."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import ParseError
from blocklab.model import node_programs
from blocklab.model.probe import Probe
from blocklab.model.sample import Sample
from blocklab.probes import PROBES, Cpu, Disks, DrbdCounters, Net
from blocklab.probes import sampler as sampler_of_all
from blocklab.probes.drbd import devices
from blocklab.probes.points import rate
from blocklab_node import sampler
from tests.unit.golden import FOLDER, Golden, read

SAMPLER = Path(sampler.__file__)


def lines(*texts: str | None, path: str, step: float = 1.0) -> bytes:
    """What the sampler prints for a file with these texts."""
    rows = ({"t": 1000 + step * n, "path": path, "text": text} for n, text in enumerate(texts))
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def values(samples: tuple[Sample, ...], metric: str, layer: str) -> list[float]:
    return [each.value for each in samples if each.metric == metric and each.layer == layer]


# --- all of them


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_real_output(probe: Probe, golden: Golden) -> None:
    samples = probe.parse(read(probe.name)["raw.jsonl"], "db1")
    assert samples
    assert all(each.value >= 0 and each.time is not None and each.host == "db1" for each in samples)
    golden.check(f"{probe.name}/expected.json", msgspec.to_builtins(samples))


def test_names_are_unique() -> None:
    assert [probe.name for probe in PROBES] == ["disks", "cpu", "net", "drbd"]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
@pytest.mark.parametrize("text", [b"", b"\n", b"sh: 1: not found\n", b"{}\n", b"\xff\xfe\n", b'{"t": 1}\n'])
def test_garbage(probe: Probe, text: bytes) -> None:
    with pytest.raises(ParseError):
        probe.parse(text, "db1")


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
@given(text=st.binary())
def test_random_garbage(probe: Probe, text: bytes) -> None:
    with pytest.raises(ParseError):
        probe.parse(text, "db1")


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_cut_and_broken_lines(probe: Probe) -> None:
    raw = read(probe.name)["raw.jsonl"]
    whole = probe.parse(raw, "db1")
    assert probe.parse(raw + raw[:50], "db1") == whole  # the last line is cut: dropped
    with pytest.raises(ParseError, match="not a sample"):
        probe.parse(raw[:50] + b"\n" + raw, "db1")  # one in the middle is not
    with pytest.raises(ParseError, match="no whole line"):
        probe.parse(raw[:50], "db1")


@given(st.integers(0, 2**64), st.integers(0, 2**64), st.floats(-10, 10))
def test_no_rate_is_negative(before: int, after: int, seconds: float) -> None:
    found = rate(before, after, seconds)
    assert found is None or found >= 0
    assert (found is None) == (after < before or seconds <= 0)


# --- /proc/diskstats

# major minor name, reads merged sectors ms, writes merged sectors ms, in flight, ms, weighted ms,
# discards merged sectors ms, flushes ms
IDLE = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
BEFORE = IDLE + " 254       0 vda 100 0 800 50 200 0 1600 100 7 300 400 0 0 0 0 10 5\n"
AFTER = IDLE + " 254       0 vda 100 0 800 50 500 0 4000 400 2 1300 1400 0 0 0 0 30 45\n"


def test_disks_by_hand() -> None:
    """300 writes of 4 KiB in two seconds, 1 ms each; no read, so reads have no wait. A device in no use is left
    out, and fewer requests under way than before is no counter that went back."""
    samples = Disks().parse(lines(BEFORE, AFTER, path="/proc/diskstats", step=2.0), "db1")
    assert {each.metric: (each.value, each.unit) for each in samples} == {
        "read.iops": (0, "1/s"), "read.bandwidth": (0, "B/s"),
        "write.iops": (150, "1/s"), "write.bandwidth": (150 * 4096, "B/s"), "write.await": (0.001, "s"),
        "queue": (0.5, "1"), "util": (50, "%"), "flush.iops": (10, "1/s"), "flush.await": (0.002, "s"),
    }  # fmt: skip
    assert {(each.layer, each.time, each.host) for each in samples} == {("vda", 1002, "db1")}


def test_disks_of_a_real_mirror() -> None:
    """fio wrote 300 times 4 KiB a second on drbd0 and flushed each, which drbd0 counts as a write of 0 bytes."""
    samples = Disks().parse(read("disks")["raw.jsonl"], "db1")
    assert values(samples, "write.iops", "drbd0")[-2] == pytest.approx(600, rel=0.1)
    assert values(samples, "write.bandwidth", "drbd0")[-2] == pytest.approx(300 * 4096, rel=0.1)
    assert 0.0002 < values(samples, "write.await", "drbd0")[-2] < 0.01
    assert values(samples, "flush.iops", "ubdb")[-2] > 100
    assert not values(samples, "read.await", "drbd0") and not values(samples, "flush.await", "drbd0")


def test_disks_that_come_go_and_are_reset() -> None:
    rows = [AFTER, BEFORE, IDLE + BEFORE.replace("vda", "dm-900"), IDLE + AFTER.replace("vda", "dm-900")]
    samples = Disks().parse(lines(*rows, path="/proc/diskstats"), "db1")
    assert {(each.layer, each.time) for each in samples} == {("dm-900", 1003)}


def test_disks_of_an_older_kernel_have_no_flushes() -> None:
    rows = [text.rsplit(" ", 2)[0] + "\n" for text in (BEFORE, AFTER)]
    found = {each.metric for each in Disks().parse(lines(*rows, path="/proc/diskstats"), "db1")}
    assert "write.await" in found and not any(metric.startswith("flush") for metric in found)


@pytest.mark.parametrize("text", [None, "", " 254 0 vda 1 2 3\n", BEFORE + "nonsense\n"])
def test_disks_broken(text: str | None) -> None:
    with pytest.raises(ParseError, match="/proc/diskstats"):
        Disks().parse(lines(text, path="/proc/diskstats"), "db1")


# --- /proc/stat


def test_cpu_by_hand() -> None:
    # user nice system idle iowait irq softirq steal guest guest_nice
    raw = lines(
        "cpu  10 0 10 100 0 0 0 0 0 0\n",
        "cpu  40 10 20 130 10 5 4 1 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
        path="/proc/stat",
    )
    found = {each.metric: each.value for each in Cpu().parse(raw, "db1")}
    assert found == {
        "cpu.user": 40, "cpu.system": 15, "cpu.idle": 30, "cpu.iowait": 10, "cpu.softirq": 4, "cpu.steal": 1,
    }  # fmt: skip


def test_cpu_going_back_gives_nothing() -> None:
    rows = ["cpu  10 0 10 100 9 0 0 0 0 0\n", "cpu  20 0 10 190 8 0 0 0 0 0\n", "cpu  20 0 10 190 8 0 0 0 0 0\n"]
    assert Cpu().parse(lines(*rows, path="/proc/stat"), "db1") == ()
    assert Cpu().parse(lines(rows[0], path="/proc/stat"), "db1") == ()


@pytest.mark.parametrize("text", [None, "", "intr 5\n", "cpu  1 2 3\n", "cpu  a b c d e f g h\n"])
def test_cpu_without_its_line(text: str | None) -> None:
    with pytest.raises(ParseError, match="no cpu line"):
        Cpu().parse(lines(text, path="/proc/stat"), "db1")


@given(st.lists(st.lists(st.integers(0, 2**40), min_size=10, max_size=10), max_size=5))
def test_cpu_shares_add_up(rows: list[list[int]]) -> None:
    texts = ["cpu  " + " ".join(map(str, row)) + "\n" for row in rows]
    if not texts:
        return
    samples = Cpu().parse(lines(*texts, path="/proc/stat"), "db1")
    assert all(0 <= each.value <= 100 for each in samples)
    for at in {each.time for each in samples}:
        assert sum(each.value for each in samples if each.time == at) == pytest.approx(100)


# --- /proc/net/dev

HEADER = (
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls "
    "carrier compressed\n"
)


def nic(name: str, *counters: int) -> str:
    return f"{name:>6}: " + " ".join(map(str, counters)) + "\n"


def test_net_by_hand() -> None:
    before = HEADER + nic("vec0", 1000, 10, 0, 1, 0, 0, 0, 0, 2000, 20, 0, 2, 0, 0, 0, 0)
    after = HEADER + nic("vec0", 3000, 14, 0, 1, 0, 0, 0, 0, 6000, 28, 0, 6, 0, 0, 0, 0)
    samples = Net().parse(lines(before, after, path="/proc/net/dev", step=2.0), "db1")
    assert {each.metric: (each.value, each.unit) for each in samples} == {
        "rx.bandwidth": (1000, "B/s"), "rx.packets": (2, "1/s"), "rx.drops": (0, "1/s"),
        "tx.bandwidth": (2000, "B/s"), "tx.packets": (4, "1/s"), "tx.drops": (2, "1/s"),
    }  # fmt: skip
    assert {(each.layer, each.time) for each in samples} == {("vec0", 1002)}


def test_net_reset_and_new_interfaces() -> None:
    rows = [
        HEADER + nic("a", *[100] * 16),
        HEADER + nic("a", *[50] * 16) + nic("b", *[1] * 16),
        HEADER + nic("b", *[3] * 16),
    ]
    samples = Net().parse(lines(*rows, path="/proc/net/dev"), "db1")
    assert values(samples, "rx.bandwidth", "a") == []
    assert values(samples, "rx.bandwidth", "b") == [2]


@pytest.mark.parametrize("text", [None, "", "lo: 1 2 3\n", HEADER + "  lo: 1 2 3\n", HEADER + "nonsense\n"])
def test_net_broken(text: str | None) -> None:
    with pytest.raises(ParseError):
        Net().parse(lines(text, path="/proc/net/dev"), "db1")


# --- /proc/drbd


def test_drbd_by_hand() -> None:
    """Real: fio on drbd0 at 300 writes of 4 KiB a second; then the peer is cut off, comes back, and is synced."""
    samples = DrbdCounters().parse(read("drbd")["raw.jsonl"], "db1")
    assert values(samples, "net.send", "drbd0")[1] == pytest.approx(300 * 4096, rel=0.05)
    assert values(samples, "net.receive", "drbd1")[1] == pytest.approx(300 * 4096, rel=0.05)
    assert values(samples, "connected", "drbd0") == [1, 1, 1, 1, 0, 1, 1, 1, 1]
    assert values(samples, "peer.uptodate", "drbd0") == [1, 1, 1, 1, 0, 0, 1, 1, 1]
    assert set(values(samples, "uptodate", "drbd0")) == {1}
    assert values(samples, "primary", "drbd1") == [0] * 9
    assert values(samples, "out-of-sync", "drbd0") == [0, 0, 0, 0, 440 * 1024, 420 * 1024, 0, 0, 0]
    # The connection's counters start again for drbd1 (nr 4360, then 60): no rate across that.
    received = [each.time for each in samples if (each.layer, each.metric) == ("drbd1", "net.receive")]
    assert len(received) == 7
    assert len(values(samples, "disk.write", "drbd1")) == 8


def test_drbd_states() -> None:
    raw = read("drbd")["raw.jsonl"].splitlines()
    found = devices(json.loads(raw[5])["text"])
    assert found["drbd0"].cs == "SyncSource"
    assert found["drbd0"].ds == "UpToDate/Inconsistent"
    assert (found["drbd1"].role, found["drbd1"].peers[0].role) == ("Secondary", "Primary")


def test_drbd_9_by_hand() -> None:
    """Its status follows the version. Made after real output, in the middle of a resync; the second resource has
    two peers, one of them lost."""
    status = (FOLDER / "drbd9" / "status.json").read_text()
    text = f"version: 9.3.3 (api:2/proto:118-124)\nTransports (api:21): tcp (9.3.3)\n{status}"
    later = text.replace('"written": 143360', '"written": 143460').replace('"sent": 61568', '"sent": 61578')
    samples = DrbdCounters().parse(lines(text, later, path="/proc/drbd"), "db1")
    assert values(samples, "disk.write", "drbd3") == [100 * 1024]
    assert values(samples, "net.send", "drbd4") == [10 * 1024]
    assert values(samples, "out-of-sync", "drbd3") == [50176 * 1024] * 2
    assert values(samples, "out-of-sync", "drbd4") == [12 * 1024] * 2
    assert values(samples, "unacknowledged", "drbd3") == [8, 8] and values(samples, "local", "drbd3") == [2, 2]
    assert values(samples, "connected", "drbd3") == [1, 1] and values(samples, "connected", "drbd4") == [0, 0]
    assert values(samples, "peer.uptodate", "drbd3") == [0, 0] and values(samples, "primary", "drbd4") == [1, 1]
    assert not values(samples, "epochs", "drbd3")
    assert (
        DrbdCounters().parse(lines("version: 9.3.3 (api:2/proto:118-124)\n[\n]\n", path="/proc/drbd"), "db1") == ()
    )


EMPTY = "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: DA6B55A41DED5E58CDBAB30 \n"


def test_drbd_without_module_or_devices() -> None:
    """No module, then a module without devices (real text), then a device that is not configured."""
    assert (
        DrbdCounters().parse(lines(None, EMPTY, EMPTY + " 1: cs:Unconfigured\n", path="/proc/drbd"), "db1") == ()
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 9.2.8 (api:2/proto:86-122)\n",
        'version: 9.2.8 (api:2/proto:86-122)\n[\n{"name": "m", "devices": [{"volume": 0}]}\n]\n',
        'version: 9.2.8 (api:2/proto:86-122)\n[\n{"name": "m", "devi',
        EMPTY + " 0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----\n",
        EMPTY + " 0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----\n    ns:0 nr:0 oos:0\n",
    ],
)
def test_drbd_broken(text: str) -> None:
    with pytest.raises(ParseError, match="/proc/drbd"):
        DrbdCounters().parse(lines(text, path="/proc/drbd"), "db1")


# --- the sampler itself


def test_the_status_of_drbd_9_follows_its_version(tmp_path: Path) -> None:
    status = FOLDER / "drbd9" / "status.json"
    tool = tmp_path / "drbdsetup"
    tool.write_text(f'#!/bin/sh\n[ "$*" = "status --json" ] && exec /bin/cat {status}\n')
    tool.chmod(0o755)
    file = tmp_path / "drbd"
    for head, more in (("version: 9.3.3 (api:2)\n", status.read_text()), (EMPTY, "")):
        file.write_text(head)
        argv = [sys.executable, "-I", "-S", str(SAMPLER), "0.1", str(file)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, env={"PATH": str(tmp_path)}) as process:
            assert process.stdout is not None
            found = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
        assert found["text"] == head + more and process.returncode == 0


def test_sampler_runs_until_it_is_told(tmp_path: Path) -> None:
    """Real time: a line each tenth of a second, of a file that is absent at first, until SIGINT; none is cut."""
    file = tmp_path / "counter"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", SAMPLER, "0.1", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        found = [json.loads(process.stdout.readline())]
        file.write_text("1\n")
        found += [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=10)
    assert process.returncode == 0
    assert said == b""
    assert rest == b"" or rest.endswith(b"\n")
    assert found[0]["text"] is None
    assert found[-1]["text"] == "1\n"
    assert found[-1]["path"] == str(file)
    # However late it wakes up, no tenth of a second has two.
    ticks = [int((each["t"] + 1e-4) / 0.1) for each in found]
    assert all(before < after for before, after in pairwise(ticks))
    assert abs(found[-1]["t"] - time.time()) < 10


@given(st.text())
def test_sampler_writes_json(text: str) -> None:
    assert json.loads(sampler.quoted(text)) == text


def test_sampler_of_every_probe() -> None:
    """On this machine: each probe finds its own file among the others, and of /proc/stat only the CPU's lines."""
    argv = [str(SAMPLER) if word == node_programs.path("sampler") else word for word in sampler_of_all(1)]
    argv[argv.index("1")] = "0.05"
    with subprocess.Popen([sys.executable, *argv[1:]], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        raw = [process.stdout.readline() for _ in range(2 * len(PROBES))]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
    assert process.returncode == 0
    rows = [json.loads(line) for line in raw]
    assert [row["path"] for row in rows] == 2 * [probe.path for probe in PROBES]
    texts = {row["path"]: row["text"] for row in rows}
    assert all(line.startswith("cpu") for line in texts["/proc/stat"].splitlines())
    Cpu().parse(b"".join(raw), "db1")
    assert Net().parse(b"".join(raw), "db1")

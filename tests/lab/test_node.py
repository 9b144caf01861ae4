"""One real node: what its agent does, and how its loss is noticed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from blocklab.errors import HostTimeout, NodeLost
from blocklab.model.clock import clock
from blocklab.model.ground import Profile, VolumeSpec
from blocklab.model.host import must
from blocklab.model.units import Size
from blocklab.sites.uml.node import Node
from blocklab.sites.uml.site import UmlLab, UmlSite
from tests.lab.conftest import topology

# It takes two seconds; a busy machine longer. The command would take a minute.
NOTICED_SECONDS = 15.0


@pytest.fixture
def host(node: UmlLab) -> Node:
    return node.nodes["a1"]


@pytest.fixture
def doomed() -> Iterator[UmlLab]:
    """A lab for tests that kill its node."""
    lab = UmlSite().start(topology("a1"))
    try:
        yield lab
    finally:
        lab.close()


def test_it_is_a_real_kernel_with_the_real_modules(host: Node) -> None:
    assert must(host, ["uname", "-r"]).startswith("7.")
    must(host, ["modprobe", "drbd"])
    assert "version: 8.4" in host.get("/proc/drbd").decode()
    for module in ("raid0", "sch_netem", "dm_mod"):
        must(host, ["modprobe", module])


def test_exit_codes_streams_and_input(host: Node) -> None:
    code = "import sys; print(sys.stdin.read()); print('e', file=sys.stderr); sys.exit(7)"
    result = host.run(["python3", "-c", code], input=b"in\nput")
    assert (result.code, result.out, result.err) == (7, b"in\nput\n", b"e\n")
    assert host.run(["kill", "-9", "0"]).code == -9
    missing = host.run(["no-such-program"])
    assert missing.code == 127 and b"no-such-program" in missing.err


def test_the_cpu_that_a_command_took_is_known_at_its_end(host: Node, tmp_path: Path) -> None:
    """As the node's kernel counts it, with that of a child that the command waited for."""
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    took = []
    for number, argv in enumerate((["sleep", "5"], ["python3", "-c", burn], ["python3", "-c", child])):
        proc = host.spawn(argv, tmp_path / f"{number}.out", tmp_path / f"{number}.err")
        assert number > 0 or proc.cpu is None
        assert proc.wait(60) == 0
        assert proc.cpu is not None
        took.append(proc.cpu)
    idle, busy, within = took
    assert idle >= 0 and busy >= 0.45 and within >= 0.45
    missing = host.spawn(["no-such-program"], tmp_path / "out", tmp_path / "err")
    assert missing.wait(10) == 127 and missing.cpu is None


@pytest.mark.parametrize("argument", ["$(reboot)", "`reboot`", "; reboot", "a b", "'", "\n", "ü€", "*"])
def test_arguments_reach_the_program_as_they_are(host: Node, argument: str) -> None:
    assert must(host, ["printf", "%s", argument]) == argument


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 300_000])
def test_files_go_in_and_come_back_byte_for_byte(host: Node, size: int) -> None:
    data = os.urandom(size)
    host.put("/run/deep/er/file", data, 0o640)
    assert host.get("/run/deep/er/file") == data
    assert must(host, ["stat", "-c", "%a", "/run/deep/er/file"]).strip() == "640"


def test_errors_of_files_are_the_kernels_own(host: Node) -> None:
    with pytest.raises(FileNotFoundError):
        host.get("/nowhere")
    with pytest.raises(IsADirectoryError):
        host.put("/run", b"x" * 200_000)
    must(host, ["true"])  # the line is still in step after the refused pieces


def test_ten_megabytes_come_through_whole(host: Node) -> None:
    result = host.run(["seq", "1", "1500000"])
    assert result.code == 0 and len(result.out) > 10_000_000
    assert result.out.endswith(b"1499999\n1500000\n")


def test_many_commands_at_once_stream_into_their_files(host: Node, tmp_path: Path) -> None:
    procs = [
        host.spawn(["python3", "-u", "-c", f"import time\nfor i in range(5): print({n}, i); time.sleep(0.05)"],
                   tmp_path / f"{n}.out", tmp_path / f"{n}.err")
        for n in range(8)
    ]  # fmt: skip
    assert [proc.wait(30.0) for proc in procs] == [0] * 8
    for n in range(8):
        assert (tmp_path / f"{n}.out").read_text() == "".join(f"{n} {i}\n" for i in range(5))


def test_output_arrives_while_the_command_runs_and_signals_reach_it(host: Node, tmp_path: Path) -> None:
    proc = host.spawn(["sh", "-c", "echo begun; exec sleep 60"], tmp_path / "out", tmp_path / "err")
    deadline = time.monotonic() + 10
    while (tmp_path / "out").read_text() != "begun\n":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert proc.poll() is None
    proc.signal(signal.SIGINT)
    assert proc.wait(10.0) == -signal.SIGINT
    proc.signal(signal.SIGINT)  # of a command that has ended: nothing


def test_a_spawn_of_nothing_is_127(host: Node, tmp_path: Path) -> None:
    assert host.spawn(["no-such-program"], tmp_path / "out", tmp_path / "err").wait(10.0) == 127


def test_a_timeout_kills_the_command(host: Node) -> None:
    with pytest.raises(HostTimeout):
        host.run(["sleep", "4711"], timeout=0.2)
    deadline = time.monotonic() + 10
    while "4711" in must(host, ["ps", "-eo", "args"]):
        assert time.monotonic() < deadline, "it lives"
        time.sleep(0.05)


def test_a_daemon_that_keeps_its_output_open_does_not_hold_us(host: Node) -> None:
    assert host.run(["sh", "-c", "sleep 30 & echo left"], timeout=10.0).out == b"left\n"
    must(host, ["pkill", "sleep"])


def test_clocks_are_right_though_all_nodes_booted_on_one_cpu() -> None:
    names = [f"n{number}" for number in range(8)]
    with contextlib.closing(UmlSite().start(topology(*names))) as lab:
        found = {name: min((clock(node) for _ in range(5)), key=lambda each: each.error)
                 for name, node in lab.nodes.items()}  # fmt: skip
        assert all(abs(each.offset) < 0.05 + each.error for each in found.values()), found


def test_its_clock_runs_as_ours_and_how_far_it_is_off_is_known(host: Node) -> None:
    first = clock(host)
    time.sleep(0.5)
    second = clock(host)
    assert abs(second.offset - first.offset) <= first.error + second.error
    # Of today.
    assert abs(first.offset) < 3600
    must(host, ["date", "-s", "+100 seconds"])
    ahead = clock(host)
    must(host, ["date", "-s", "-100 seconds"])
    assert abs(ahead.offset - second.offset - 100) <= ahead.error + second.error + 1


def test_nodes_are_pinned_and_use_seccomp(host: Node) -> None:
    group = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # Others of this machine end meanwhile.
        with contextlib.suppress(OSError):
            if stat.read_text().rpartition(")")[2].split()[2] == str(host.process.pid):
                group.append(int(stat.parent.name))
    status = [Path(f"/proc/{pid}/status").read_text() for pid in group]
    assert len(group) > 1
    # Every process of the node on the same one CPU; guest processes run under a seccomp filter, not ptrace.
    assert all(re.search(r"^Cpus_allowed_list:\t\d+$", text, re.M) for text in status)
    assert any("Seccomp:\t2" in text for text in status)
    assert all("TracerPid:\t0" in text for text in status)


def noticed(lab: UmlLab) -> NodeLost:
    """The error that a waiting command gets, long before the command's own time is over."""
    started = time.monotonic()
    with pytest.raises(NodeLost) as caught:
        lab.hosts["a1"].run(["sleep", "60"], timeout=30.0)
    assert time.monotonic() - started < NOTICED_SECONDS
    return caught.value


def test_a_killed_node_is_noticed_and_named(doomed: UmlLab) -> None:
    os.killpg(doomed.nodes["a1"].process.pid, signal.SIGKILL)
    assert "a1: node lost: its kernel ended" in str(noticed(doomed))


def test_a_hung_node_is_noticed_and_named(doomed: UmlLab) -> None:
    os.killpg(doomed.nodes["a1"].process.pid, signal.SIGSTOP)
    assert "a1: node lost: hung" in str(noticed(doomed))


def test_a_panic_is_noticed_with_the_consoles_last_lines(doomed: UmlLab) -> None:
    host = doomed.nodes["a1"]
    trigger = "echo 1 > /proc/sys/kernel/sysrq; sleep 0.3; echo c > /proc/sysrq-trigger"
    host.order("spawn", lambda *_: None, argv=["sh", "-c", trigger])
    lost = noticed(doomed)
    assert "panicked" in lost.why and "Kernel panic" in str(lost)


def test_a_crash_on_purpose_is_said_so(doomed: UmlLab) -> None:
    doomed.crash("a1")
    with pytest.raises(NodeLost, match="crashed on purpose"):
        doomed.hosts["a1"].run(["true"])
    doomed.crash("a1")  # twice is harmless


def test_the_end_of_a_volumes_server_is_noticed_and_named() -> None:
    """Its I/O would stand still, and a workload on it end by its time."""
    capped = VolumeSpec("s", ("a1",), Profile(size=Size("64MiB"), iops=1000))
    lab = UmlSite().start(msgspec.structs.replace(topology("a1"), volumes=(capped,)))
    try:
        (server,) = [each for each in lab._processes if each.name == "volume s of a1"]
        server.kill()
        with pytest.raises(NodeLost, match="volume s of a1 ended with exit code -9"):
            lab.hosts["a1"].run(["sleep", "60"], timeout=90.0)
    finally:
        lab.close()

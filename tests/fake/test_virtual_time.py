"""Virtual time without any kernel: the real program, nodes that speak its protocols, and our side of it."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from blocklab.errors import SetupError
from blocklab.sites.uml import janitor, volume_program
from blocklab.sites.uml.processes import Process
from blocklab.sites.uml.simulator import Simulator
from blocklab.sites.uml.volumes import wait_for_socket
from tests.fake.fake_kernel import FakeKernel

LATENCY = 450_000
WIRE = 500
Script = Callable[[FakeKernel], None]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("rustc") is None:
        pytest.skip("this machine has no Rust compiler")
    built = tmp_path_factory.mktemp("program") / "server"
    argv = ["rustc", "--edition", "2021", "-C", "debug-assertions=on", "-o", str(built), "main.rs"]
    subprocess.run(argv, check=True, cwd=volume_program.FOLDER, timeout=300)
    return built


class Bench:
    """The program with two nodes on a wire, a disk each, and a console each; patience of a second."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.folder = folder
        names = ("a1", "a2")
        for name in names:
            (folder / f"{name}.img").write_bytes(bytes(1 << 20))
        nodes: list[dict[str, Any]] = [
            {
                "name": name,
                "ports": [
                    {"socket": f"{name}.line"},
                    {"socket": f"{name}.disk", "volume": number},
                    {"socket": f"{name}.nic", "mac": "02:00:00:00:00:01", "mtu": 1500, "peer": f"{peer}.nic"},
                ],
            }
            for number, (name, peer) in enumerate(zip(names, reversed(names), strict=True))
        ]
        config = {
            "control": "control", "time": "time", "epoch": 10**18, "wire": WIRE, "patience": 10**9, "nodes": nodes,
            "volumes": [
                {"file": f"{name}.img", "profile": {"read_latency": LATENCY / 1e9, "write_latency": LATENCY / 1e9}}
                for name in names
            ],
        }  # fmt: skip
        argv = [str(program), json.dumps({"lab": config})]
        self.process = Process("virtual time", argv, folder / "log", folder=folder)
        wait_for_socket(folder / "control", self.process)
        self.simulator = Simulator(self.process, folder / "control")
        self.lost: list[tuple[str, str]] = []
        self.simulator.lost = lambda node, why: self.lost.append((node, why))
        self.lines = {name: self.simulator.line(name) for name in names}
        self.kernels: list[threading.Thread] = []
        self.failures: list[BaseException] = []

    def boot(self, *scripts: Script) -> None:
        """Nodes that do what their scripts say, and wait for ever then."""

        def live(number: int, script: Script) -> None:
            try:
                kernel = FakeKernel(self.folder, number)
                try:
                    script(kernel)
                    kernel.wait(2**62)
                finally:
                    kernel.close()
            except (EOFError, ConnectionError):
                pass
            except BaseException as error:
                self.failures.append(error)

        for number, script in enumerate(scripts):
            self.kernels.append(threading.Thread(target=live, args=(number, script), daemon=True))
            self.kernels[-1].start()
        for name, _ in zip(("a1", "a2"), scripts, strict=False):
            self.simulator.expect(name, self.process)

    def close(self) -> None:
        self.simulator.close()
        self.process.wait_gone()
        for kernel in self.kernels:
            kernel.join(10)
        assert not self.failures, self.failures


@pytest.fixture
def bench(program: Path, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(program, tmp_path)
    try:
        yield made
    finally:
        made.process.kill()
        made.close()


def test_nodes_run_in_the_order_of_their_times_and_none_beside_another(bench: Bench) -> None:
    turns: list[tuple[str, int]] = []

    def script(name: str, *times: int) -> Script:
        def run(kernel: FakeKernel) -> None:
            for time in times:
                kernel.wait(time)
                turns.append((name, kernel.now))

        return run

    bench.boot(script("a1", 100, 300, 500), script("a2", 200, 300, 400))
    bench.simulator.sleep(1e-6)
    assert turns == [("a1", 100), ("a2", 200), ("a1", 300), ("a2", 300), ("a2", 400), ("a1", 500)]
    assert bench.simulator.now() == 1e-6


def test_time_stands_still_while_nobody_waits_and_stops_where_it_was_told(bench: Bench) -> None:
    reached: list[int] = []

    def run(kernel: FakeKernel) -> None:
        for step in range(1, 10):
            kernel.wait(step * 1000)
            reached.append(kernel.now)

    bench.boot(run)
    assert bench.simulator.now() == 0 and not reached
    bench.simulator.sleep(3.5e-6)
    assert reached == [1000, 2000, 3000] and bench.simulator.now() == 3.5e-6
    bench.simulator.sleep(1.0)
    assert reached[-1] == 9000 and bench.simulator.now() == pytest.approx(1.0000035)


def test_a_node_may_go_on_by_itself_up_to_what_happens_elsewhere(bench: Bench) -> None:
    free: list[int] = []

    def first(kernel: FakeKernel) -> None:
        kernel.wait(1000)
        free.append(kernel.free)

    def second(kernel: FakeKernel) -> None:
        kernel.wait(7000)
        free.append(kernel.free)

    bench.boot(first, second)
    bench.simulator.sleep(20e-6)
    # Up to the other's turn; then up to the end of what was asked for.
    assert free == [7000, 20_001]


def test_a_request_takes_the_volume_s_latency_to_the_nanosecond(bench: Bench) -> None:
    done: list[tuple[int, int, bytes]] = []
    (bench.folder / "a1.img").write_bytes(b"blocklab" * 64 + bytes((1 << 20) - 512))

    def run(kernel: FakeKernel) -> None:
        disk = kernel.device("a1.disk", 1)
        kernel.wait(10_000)
        disk.memory[8192:8208] = struct.pack("=IIQ", 0, 0, 0)
        kernel.propagate(10_000)
        disk.offer(0, [(8192, 16, False), (8704, 512, True), (9216, 1, True)])
        assert disk.given(0) == 0 and kernel.free <= 10_000 + LATENCY
        kernel.wait(2**61)
        done.append((kernel.now, disk.given(0), bytes(disk.memory[8704:8712])))
        assert disk.calls == [10_000 + LATENCY]

    bench.boot(run)
    bench.simulator.sleep(0.001)
    assert done == [(10_000 + LATENCY, 1, b"blocklab")]
    assert bench.simulator.order(0, "stats")["reads"] == 1


def test_a_stalled_volume_gives_nothing_back_until_it_goes_on(bench: Bench) -> None:
    done: list[int] = []

    def run(kernel: FakeKernel) -> None:
        disk = kernel.device("a1.disk", 1)
        kernel.wait(1000)
        disk.memory[8192:8208] = struct.pack("=IIQ", 1, 0, 0)
        disk.offer(0, [(8192, 16, False), (8704, 512, False), (9216, 1, True)])
        kernel.wait(2**61)
        done.append(kernel.now)

    bench.boot(run)
    bench.simulator.order(0, "faults", stall=True)
    bench.simulator.sleep(0.01)
    assert not done
    bench.simulator.order(0, "faults")
    bench.simulator.sleep(0.001)
    assert done == [10_000_000]


def test_a_frame_takes_its_time_on_the_wire(bench: Bench) -> None:
    got: list[tuple[int, bytes]] = []

    def sender(kernel: FakeKernel) -> None:
        card = kernel.device("a1.nic", 2)
        kernel.wait(5000)
        card.memory[8192:8212] = bytes(12) + b"a frame."
        kernel.propagate(5000)
        card.offer(1, [(8192, 20, False)])
        assert card.given(1) == 1

    def receiver(kernel: FakeKernel) -> None:
        card = kernel.device("a2.nic", 2)
        card.offer(0, [(8192, 1526, True)])
        kernel.wait(2**61)
        got.append((kernel.now, bytes(card.memory[8204:8212])))

    bench.boot(sender, receiver)
    bench.simulator.sleep(0.001)
    assert got == [(5000 + WIRE, b"a frame.")]


def test_a_console_carries_both_ways_and_ends_a_wait(bench: Bench) -> None:
    typed: list[bytes] = []

    def run(kernel: FakeKernel) -> None:
        console = kernel.device("a1.line", 2)
        console.offer(0, [(8192, 64, True)])
        kernel.wait(2**61)
        typed.append(bytes(console.memory[8192:8197]))
        beat = b'{"beat": 1.0}\n'
        console.memory[8300 : 8300 + len(beat)] = beat
        kernel.wait(kernel.now + 1000)
        kernel.propagate(kernel.now)
        console.offer(1, [(8300, len(beat), False)])

    bench.boot(run)
    bench.simulator.sleep(0.001)
    bench.simulator.type("a1", b"hello")
    line = bench.lines["a1"]
    assert line.wait(line.ready, 5.0)
    assert typed == [b"hello"] and bench.simulator.now() == pytest.approx(0.001001)


def test_a_node_that_ends_is_told_and_the_others_go_on(bench: Bench) -> None:
    turns: list[int] = []

    def first(kernel: FakeKernel) -> None:
        kernel.wait(1000)
        kernel.close()
        raise EOFError

    def second(kernel: FakeKernel) -> None:
        kernel.wait(5000)
        turns.append(kernel.now)

    bench.boot(first, second)
    bench.simulator.sleep(0.001)
    assert bench.lost == [("a1", "gone")] and turns == [5000]


def test_a_frozen_node_gets_no_turn_and_does_not_notice(bench: Bench) -> None:
    turns: list[tuple[str, int]] = []

    def script(name: str) -> Script:
        def run(kernel: FakeKernel) -> None:
            for time in (1000, 2_000_000):
                kernel.wait(time)
                turns.append((name, kernel.now))

        return run

    bench.boot(script("a1"), script("a2"))
    bench.simulator.freeze("a1", frozen=True)
    bench.simulator.sleep(0.001)
    assert turns == [("a2", 1000)]
    bench.simulator.freeze("a1", frozen=False)
    bench.simulator.sleep(0.001)
    assert turns[1:] == [("a1", 1_000_000), ("a1", 2_000_000), ("a2", 2_000_000)]


def test_a_node_that_was_buried_comes_again_at_the_time_that_it_is(bench: Bench) -> None:
    turns: list[int] = []
    days: list[int] = []

    def run(kernel: FakeKernel) -> None:
        days.append(kernel.time_of_day())
        kernel.wait(kernel.now + 1000)
        turns.append(kernel.now)

    bench.boot(run)
    bench.simulator.sleep(0.001)
    bench.simulator.bury("a1")
    bench.simulator.sleep(0.001)
    bench.boot(run)
    bench.simulator.sleep(0.001)
    assert turns == [1000, 2_001_000] and days == [10**18, 10**18 + 2_000_000]


def test_a_node_that_ends_before_it_comes_is_not_waited_for(bench: Bench, tmp_path: Path) -> None:
    ended = Process("node a1", ["/bin/true"], tmp_path / "node.log")
    ended.wait_gone()
    bench.simulator.expect("a1", ended)
    assert bench.lost == [("a1", "gone")]


def test_to_wait_for_less_than_a_nanosecond_is_to_wait(bench: Bench) -> None:
    bench.boot(lambda kernel: None)
    bench.simulator.sleep(1e-12)
    assert bench.simulator.now() == 1e-9


def test_a_node_that_never_waits_has_hung_in_real_time(bench: Bench) -> None:
    over = threading.Event()

    def run(kernel: FakeKernel) -> None:
        kernel.wait(1000)
        over.wait(60)

    bench.boot(run)

    def lost(node: str, why: str) -> None:
        bench.lost.append((node, why))
        bench.simulator.bury(node)

    bench.simulator.lost = lost
    bench.simulator.sleep(0.001)
    over.set()
    assert bench.lost == [("a1", "hung")]


def test_a_wrong_order_is_refused_and_says_why(bench: Bench) -> None:
    with pytest.raises(SetupError, match="did not carry out bury: there is no such node"):
        bench.simulator.bury("b9")
    with pytest.raises(SetupError, match="there is no volume 7"):
        bench.simulator.order(7, "stats")


def test_the_program_ends_with_its_owner(bench: Bench) -> None:
    bench.boot(lambda kernel: kernel.wait(1000))
    bench.simulator.close()
    bench.process.wait_gone()
    assert bench.process.poll() == 0
    with pytest.raises(SetupError, match="virtual time has ended"):
        bench.simulator.sleep(1.0)


def test_a_process_of_a_lab_is_known_by_the_labs_folder(tmp_path: Path) -> None:
    process = Process("a1", ["sleep", "600"], tmp_path / "log", lab=tmp_path)
    try:
        deadline = monotonic() + 30
        while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
            assert monotonic() < deadline
        assert list(janitor.unnoted(tmp_path)) == [process.pid] and janitor.ours(process.pid, tmp_path)
    finally:
        process.kill()
        process.wait_gone()

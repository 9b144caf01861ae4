"""The volume server: its own tests, what it is started with, and orders to one that obeys, refuses or is gone."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import SetupError, StudyError
from blocklab.layers import Volume as Layer
from blocklab.layers.performance import quantiles
from blocklab.model.ground import Degrade, Profile, Slow, VolumeSpec
from blocklab.model.units import Bandwidth, Duration, Share, Size
from blocklab.sites.uml import volume_program
from blocklab.sites.uml.orders import order
from blocklab.sites.uml.volumes import Volume, behaviour
from blocklab.study.read import build

GIB = Size("1GiB")
OBEYED = b'{"ok": true, "reads": 3}\n'
REFUSED = b'{"error": "unknown op dance", "ok": false}\n'


@pytest.mark.skipif(shutil.which("rustc") is None, reason="this machine has no Rust compiler")
def test_the_server_s_own_tests(tmp_path: Path) -> None:
    """Buckets, quantiles, schedules, rings, requests: pure, in Rust. The image is built without them."""
    program = tmp_path / "tests"
    argv = ["rustc", "--edition", "2021", "--test", "-o", str(program), "main.rs"]
    subprocess.run(argv, check=True, cwd=volume_program.FOLDER, timeout=300)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


# -- what it is started with -----------------------------------------------------------------------------------


def test_a_whole_profile_in_the_server_s_words() -> None:
    profile = Profile(
        size=GIB,
        write_latency=Duration("450us"),
        read_quantiles={"p99.9": Duration("12ms"), "p50": Duration("0.5ms")},
        write_latency_per_mib=Duration("4ms"),
        iops=1000,
        burst_iops=3000,
        burst_seconds=5,
        read_bandwidth=Bandwidth("60MB/s"),
        io_most=Size("256KiB"),
        slow=Slow(times=8, lasts=Duration("2s"), every=Duration("60s")),
        degrade=Degrade(to=Share("10%"), lasts=Duration("5min"), every=Duration("2h")),
    )
    found = behaviour(profile, "a1-0")
    assert isinstance(found.pop("seed"), int)
    assert found["read_quantiles"] == [(0.5, 0.0005), (pytest.approx(0.999), 0.012)]
    del found["read_quantiles"]
    assert json.loads(json.dumps(found)) == {
        "write_latency": 0.00045, "write_latency_per_mib": 0.004, "split": 262144, "iops": 1000,
        "burst_iops": 3000, "burst_seconds": 5, "read_bandwidth": 60e6,
        "slow": {"times": 8, "for": 2, "every": 60}, "degrade": {"to": 0.1, "for": 300, "every": 7200},
    }  # fmt: skip


def test_draws_follow_from_the_place_and_the_seed_not_from_the_stack(tmp_path: Path) -> None:
    def seed(place: str, **more: Any) -> int:
        return int(behaviour(Profile(size=GIB, iops=9, **more), place)["seed"])

    assert (
        seed("a1-0") == seed("a1-0") and len({seed("a1-0"), seed("a1-1"), seed("a2-0"), seed("a1-0", seed=1)}) == 4
    )


def test_what_only_counts_or_draws_makes_no_server() -> None:
    assert Profile(size=GIB, io_most=Size("256KiB"), seed=7).plain
    assert not Profile(size=GIB, read_quantiles={"p50": Duration("1ms")}).plain
    volume = Volume(VolumeSpec("s", ("a1",), Profile(size=GIB)), Path(), Path())
    volume.reset()
    with pytest.raises(SetupError, match="plain volume: it has no server that could stats"):
        volume.order("stats")


# -- studies ---------------------------------------------------------------------------------------------------


def volume_of(small: dict[str, Any], **fields: Any) -> Layer:
    small["stacks"] = {"one": {"on": "a1", "layers": [{"layer": "volume", "size": "64MiB", **fields}]}}
    small["baseline"] = "one"
    small["workloads"] = {"io": small["workloads"]["io"]}
    small["workloads"]["io"].pop("from", None)
    found = build(small).stacks["one"].layers[0]
    assert isinstance(found, Layer)
    return found


def test_a_study_gives_a_distribution_and_spells(small: dict[str, Any]) -> None:
    volume = volume_of(
        small,
        iops=3000,
        read_quantiles={"p50": "0.5ms", "p99": "3ms"},
        slow={"times": 8, "for": "2s", "every": "60s"},
        degrade={"to": "10%", "for": "5min", "every": "2h"},
        io_most="256KiB",
        seed=4,
    )
    (profile,) = volume.profiles()
    assert (profile.read_quantiles or {})["p99"] == Duration("3ms") and profile.seed == 4
    assert profile.slow == Slow(8, Duration("2s"), Duration("60s"))
    assert profile.degrade == Degrade(Share("10%"), Duration("5min"), Duration("2h"))


def test_a_layer_s_own_latency_replaces_its_profile_s_quantiles(small: dict[str, Any]) -> None:
    small["profiles"] = {"san": {"read_quantiles": {"p50": "1ms"}, "write_quantiles": {"p50": "1ms"}}}
    (profile,) = volume_of(small, profile="san", read_latency="2ms").profiles()
    assert not profile.read_quantiles and profile.read_latency == Duration("2ms")
    assert profile.write_quantiles == {"p50": Duration("1ms")}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"read_quantiles": {"median": "1ms"}}, "'median' is not a quantile; write it like p50 or p99.9"),
        ({"read_quantiles": {"p50": "2ms", "p99": "1ms"}}, "no less than those below it"),
        ({"read_quantiles": {"p50": "1ms", "p50.0": "1ms"}}, "given once"),
        ({"read_quantiles": {"p50": "11s"}}, "p50: must be above 0, and at most 10 s"),
        ({"read_quantiles": {"p50": "1ms"}, "read_latency": "1ms"}, "replaces read_latency"),
        ({"write_latency_per_mib": "11s"}, "over 10 s"),
        ({"iops": 10, "io_most": "512B"}, "must be 4096 bytes or more"),
        ({"iops": 10, "seed": -1}, "must be from 0 to"),
        ({"slow": {"times": 8, "for": "2s", "every": "60s"}}, "multiplies a latency, and there is none"),
        ({"write_latency": "1ms", "slow": {"times": 1, "for": "2s", "every": "60s"}}, "must be more than 1"),
        ({"write_latency": "1ms", "slow": {"times": 2, "for": "60s", "every": "60s"}}, "less than every"),
        ({"degrade": {"to": "10%", "for": "1s", "every": "2s"}}, "lowers caps, and there is none"),
        ({"iops": 10, "degrade": {"to": "100%", "for": "1s", "every": "2s"}}, "less than 100%"),
        ({"iops": 10, "degrade": {"to": "10%", "for": "0s", "every": "2s"}}, "must be 1 ms or more"),
    ],
)
def test_what_no_volume_can_be(small: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError) as caught:
        volume_of(small, **fields)
    assert said in str(caught.value)


def test_quantiles_are_sorted_as_numbers() -> None:
    named = {"p9": Duration("1ms"), "p50": Duration("2ms"), "p100": Duration("3ms")}
    assert quantiles(named) == [(0.09, 0.001), (0.5, 0.002), (1.0, 0.003)]


# -- orders ----------------------------------------------------------------------------------------------------


class Server:
    """Answers one connection, a line for a line; then it hangs up."""

    def __init__(self, control: Path, *answers: bytes) -> None:
        self.heard: list[dict[str, object]] = []
        self._answers = answers
        self._listens = socket.socket(socket.AF_UNIX)
        self._listens.bind(str(control))
        self._listens.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listens.accept()
        with connection, connection.makefile("rwb") as stream:
            self.heard.append(json.loads(stream.readline()))
            for answer in self._answers:
                stream.write(answer)
                stream.flush()

    def close(self) -> None:
        self._thread.join()
        self._listens.close()


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # A socket's whole path may have 107 letters.
    monkeypatch.chdir(tmp_path)
    yield Path("disk.control")


def test_an_order_is_a_line_and_so_is_the_answer(control: Path) -> None:
    server = Server(control, OBEYED)
    assert order(control, "faults", stall=True)["reads"] == 3
    server.close()
    assert server.heard == [{"op": "faults", "stall": True}]


@pytest.mark.parametrize(
    ("answer", "said"), [(REFUSED, "unknown op dance"), (b"", "Expecting value"), (b"{}\n", "no reason given")]
)
def test_a_server_that_does_not_obey_is_an_error(control: Path, answer: bytes, said: str) -> None:
    server = Server(control, answer)
    with pytest.raises(SetupError) as caught:
        order(control, "dance")
    server.close()
    assert "disk.control did not carry out dance" in str(caught.value) and said in str(caught.value)


def test_a_server_that_is_gone_is_an_error(control: Path) -> None:
    with pytest.raises(SetupError, match=r"disk\.control did not carry out stats"):
        order(control, "stats")

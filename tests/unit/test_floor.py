"""The lab's own floor: stored and read back, measured on hosts that only say so, and what it marks."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.cli.main import main
from blocklab.errors import CommandError, KnobError, ParseError, StoreError
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.model.workload import QueueDepths
from blocklab.runner import calibrate as bench
from blocklab.runner.calibrate import calibrate
from blocklab.sites.fake import FakeSite
from blocklab.stats.floor import caution, limited, reasons, table
from blocklab.stats.limits import Limit
from blocklab.store.floor import (
    DELAYS_MS,
    METRICS,
    Floor,
    Machine,
    Reading,
    delay,
    floor_file,
    load_floor,
    machine_of,
    mirror,
    save_floor,
    volume,
)
from blocklab.workloads import Dd, Fio, Pgbench

ENVIRONMENT: dict[str, Any] = {
    "site": "uml", "host": {"kernel": "6.1.0", "cpu": "Some CPU @ 2.50GHz", "cpus": 2}, "image": "cb0e",
    "shim": True,
}  # fmt: skip
MACHINE = machine_of(ENVIRONMENT)
VALUES = {
    "syscall": 3e-6, "empty.latency": 8e-6, "link.rtt": 150e-6,
    "volume.read.latency": 20e-6, "volume.write.latency": 24e-6,
    "volume.read.iops": 40_000.0, "volume.write.iops": 36_000.0,
    "volume.read.iops.qd32": 60_000.0, "volume.write.iops.qd32": 48_000.0,
    "mirror.write.latency": 240e-6, "mirror.write.iops": 4_000.0, "mirror.write.iops.qd32": 12_000.0,
}  # fmt: skip


def made(machine: Machine = MACHINE, **spreads: float) -> Floor:
    """A floor of three rounds with the values above; ``spreads`` by name, with _ for the dots."""
    values = {
        name: Reading(VALUES.get(name, 0.0), unit, spreads.get(name.replace(".", "_"), 0.0), 3)
        for name, (_, unit) in METRICS.items()
    }
    return Floor(machine, 1_790_000_000.0, 41.0, values)


FLOOR = made()


# -- the store --------------------------------------------------------------------------------------------------


def test_a_floor_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    path = save_floor(tmp_path / "cache", FLOOR)
    assert path == floor_file(tmp_path / "cache", MACHINE) and path.parent.name == "floors"
    assert load_floor(tmp_path / "cache", MACHINE) == FLOOR
    newer = msgspec.structs.replace(FLOOR, seconds=1.0)
    assert save_floor(tmp_path / "cache", newer) == path
    assert load_floor(tmp_path / "cache", MACHINE) == newer
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "other",
    [
        {"site": "ssh"},
        {"host": {**ENVIRONMENT["host"], "cpu": "Another CPU"}},
        {"host": {**ENVIRONMENT["host"], "cpus": 4}},
        {"host": {**ENVIRONMENT["host"], "kernel": "6.12.0"}},
        {"image": "e7e0"},
        {"shim": False},
    ],
    ids=lambda other: str(next(iter(other))),
)
def test_a_floor_of_another_machine_or_image_is_not_taken(tmp_path: Path, other: dict[str, Any]) -> None:
    path = save_floor(tmp_path, FLOOR)
    machine = machine_of({**ENVIRONMENT, **other})
    assert load_floor(tmp_path, machine) is None
    # nor one that was copied from there
    path.rename(floor_file(tmp_path, machine))
    assert load_floor(tmp_path, machine) is None


def test_a_machine_that_cannot_be_told_from_others_has_no_floor(tmp_path: Path) -> None:
    nobody = machine_of({"site": "fake"})
    with pytest.raises(StoreError, match="'fake' does not say"):
        save_floor(tmp_path, made(nobody))
    floor_file(tmp_path, nobody).parent.mkdir()
    floor_file(tmp_path, nobody).write_bytes(msgspec.json.encode(made(nobody)))
    assert load_floor(tmp_path, nobody) is None


def test_a_newer_format_is_refused_whatever_else_is_in_it(tmp_path: Path) -> None:
    path = save_floor(tmp_path, FLOOR)
    path.write_text('{"format": 99, "values": "elsewhere"}')
    with pytest.raises(StoreError, match=r"format 99, but this blocklab reads format 3") as caught:
        load_floor(tmp_path, MACHINE)
    assert "blocklab calibrate" in caught.value.hint and str(path) in caught.value.message


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 3}', '{"format": 3, "machine": 3}'])
def test_a_broken_file_is_one_error(tmp_path: Path, text: str) -> None:
    save_floor(tmp_path, FLOOR).write_text(text)
    with pytest.raises(StoreError, match="cannot be read") as caught:
        load_floor(tmp_path, MACHINE)
    assert "blocklab calibrate" in caught.value.hint


def test_a_file_that_lacks_a_figure_is_refused(tmp_path: Path) -> None:
    path = save_floor(tmp_path, FLOOR)
    found = json.loads(path.read_text())
    del found["values"]["link.rtt"]
    path.write_text(json.dumps(found))
    with pytest.raises(StoreError, match=r"lacks the value link\.rtt"):
        load_floor(tmp_path, MACHINE)


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(StoreError, match="cannot be written"):
        save_floor(tmp_path / "cache", FLOOR)


def marks(*what: Any, **around: Any) -> str:
    """The sentence that marks a value; empty where nothing does."""
    why = reasons(*what, **around)
    return Limit(why, floor=True).said if why else ""


# -- marks ------------------------------------------------------------------------------------------------------

READ, WRITE = "read.latency.mean", "write.latency.mean"


@pytest.mark.parametrize(
    ("metric", "mirrored", "depth", "inside", "outside"),
    [
        (READ, False, 1, 30e-6, 30.1e-6),
        (WRITE, False, 1, 36e-6, 36.1e-6),
        (READ, True, 1, 30e-6, 30.1e-6),
        (WRITE, True, 1, 360e-6, 361e-6),
        ("read.iops", False, 32, 40_000, 39_990),
        ("write.iops", False, 32, 32_000, 31_990),
        ("write.iops", False, 4, 32_000, 31_990),
        ("read.iops", True, 32, 40_000, 39_990),
        ("write.iops", True, 32, 8_000, 7_990),
        ("read.iops", False, 1, 26_667, 26_660),
        ("write.iops", True, 1, 2_667, 2_660),
    ],
)
def test_both_sides_of_each_bound(
    metric: str, mirrored: bool, depth: int | None, inside: float, outside: float
) -> None:
    unit = "s" if "latency" in metric else "1/s"
    said = marks(FLOOR, metric, inside, unit, mirrored=mirrored, depth=depth)
    assert said.startswith("limited by the lab: ") and "within 1.5 times the lab's own" in said
    assert ("DRBD mirror" in said) == (mirrored and metric.startswith("write"))
    assert marks(FLOOR, metric, outside, unit, mirrored=mirrored, depth=depth) == ""


def test_what_goes_through_the_page_cache_is_not_compared_with_the_volume() -> None:
    assert marks(FLOOR, "write.iops", 300_000, "1/s", depth=None) == ""


def test_better_than_the_floor_is_limited_too() -> None:
    assert marks(FLOOR, READ, 5e-6, "s", depth=1)
    assert marks(FLOOR, "read.iops", 90_000, "1/s", depth=32)


def test_the_sentence_says_both_figures() -> None:
    text = marks(FLOOR, WRITE, 0.0003, "s", mirrored=True, depth=1).replace("\u00a0", " ")
    assert text == (
        "limited by the lab: 0.3 ms is within 1.5 times the lab's own 0.24 ms "
        "(4 KiB write on a DRBD mirror at RTT 0, queue depth 1)"
    )


@pytest.mark.parametrize("depth", [2, 32, None])
def test_a_latency_of_a_queue_is_not_compared(depth: int | None) -> None:
    assert marks(FLOOR, READ, 1e-6, "s", depth=depth) == ""


@pytest.mark.parametrize("metric", ["read.latency.p99", "sync.latency.mean", "trim.iops", "tps", "read.bandwidth"])
def test_figures_without_a_floor_are_not_marked(metric: str) -> None:
    for value in (0.0, 1e-6, 1e9):
        assert marks(FLOOR, metric, value, "s" if "latency" in metric else "1/s", depth=1) == ""


def test_reads_and_writes_of_one_load_share_the_node() -> None:
    # 20,000 of 60,000 and 16,000 of 48,000: two thirds together, a third each
    assert marks(FLOOR, "read.iops", 20_000, "1/s", depth=32) == ""
    both = marks(FLOOR, "read.iops", 20_000, "1/s", depth=32, other=16_000)
    assert "beside 16,000" in both and "4 KiB writes on a raw volume" in both
    assert marks(FLOOR, "write.iops", 16_000, "1/s", depth=32, other=20_000)
    assert marks(FLOOR, "read.iops", 20_000, "1/s", depth=32, other=15_900) == ""
    # on a mirror its writes cost more
    assert marks(FLOOR, "read.iops", 20_000, "1/s", depth=32, other=4_000, mirrored=True)


def test_a_busy_cpu_marks_any_speed_even_without_a_floor() -> None:
    for floor in (FLOOR, None):
        said = marks(floor, "tps", 900.0, "1/s", busy=90.0)
        assert said.replace("\u00a0", " ") == "limited by the lab: the node's CPU was 90 % busy"
        assert marks(floor, "tps", 900.0, "1/s", busy=89.9) == ""
        assert marks(floor, "tps", 900.0, "1/s") == ""
        assert marks(floor, "cpu.busy", 97.0, "%", busy=97.0) == ""
    both = marks(FLOOR, READ, 20e-6, "s", depth=1, busy=99.0)
    assert "; the node's CPU was" in both and both.count("limited by the lab") == 1


def test_limited_knows_which_way_is_near() -> None:
    assert limited(FLOOR, volume("read", "latency"), 30e-6) and limited(FLOOR, mirror("iops", 32), 8_000)
    assert limited(FLOOR, volume("read", "latency"), 31e-6) is None
    assert limited(FLOOR, mirror("iops", 32), 7_999) is None


@pytest.mark.parametrize(
    ("options", "job", "depth"),
    [
        ({"direct": 1, "ioengine": "libaio"}, {"rw": "randread"}, 1),
        ({"direct": True, "ioengine": "libaio", "iodepth": 8}, {"rw": "randread"}, 8),
        ({"direct": 1, "ioengine": "libaio", "iodepth": 8}, {"rw": "randread", "iodepth": 32, "numjobs": 2}, 64),
        ({"direct": 1, "iodepth": 32}, {"rw": "randread"}, 1),
        ({"direct": 1, "ioengine": "sync", "iodepth": 32, "numjobs": 4}, {"rw": "randread"}, 4),
        ({"ioengine": "libaio"}, {"rw": "randread"}, None),
        ({"direct": False, "ioengine": "libaio"}, {"rw": "randread"}, None),
        ({"direct": 1, "ioengine": "null"}, {"rw": "randread"}, None),
        ({"buffered": 0, "ioengine": "libaio", "iodepth": 8}, {"rw": "randread"}, 8),
        ({"ioengine": "libaio", "iodepth": 8}, {"rw": "randread"}, None),
        ({"direct": 1, "ioengine": "libaio", "iodepth": "many"}, {"rw": "randread"}, None),
    ],
)
def test_queue_depth_of_fio(options: dict[str, Any], job: dict[str, Any], depth: int | None) -> None:
    workload = Fio(size=None, options=options, jobs={"it": job})
    assert workload.queue_depths().get("it") == depth
    assert workload.queue_depths().get("another") is None


def test_queue_depth_of_a_job_file_a_matrix_and_another_load() -> None:
    text = "[global]\ndirect=1\nioengine=libaio\n[a]\nrw=read\niodepth=16\n[b]\nrw=write\n"
    assert [Fio(jobtext=text).queue_depths()[name] for name in "ab"] == [16, 1]
    matrix = Fio(options={"direct": 1, "ioengine": "libaio"}, matrix={"rw": ("randread",), "iodepth": (1, 32)})
    assert [matrix.queue_depths()[name] for name in matrix.all_jobs] == [1, 32]
    assert not isinstance(Pgbench(), QueueDepths)
    assert [Dd(mode=mode, count=1).queue_depths()[""] for mode in ("direct", "dsync", "none")] == [1, None, None]


# -- what a person reads ------------------------------------------------------------------------------------------


def test_the_table_has_every_figure_with_its_unit() -> None:
    rows = table(made(volume_read_latency=1.5e-6))
    assert len(rows) == len(METRICS)
    texts = [" | ".join(row).replace("\u00a0", " ") for row in rows]
    assert "4 KiB read on a raw volume, queue depth 1 | 0.02 ms | 0.0015 ms" in texts
    assert "4 KiB writes on a DRBD mirror at RTT 0, queue depth 32 | 12,000 IOPS | 0 IOPS" in texts


def test_a_busy_machine_is_told() -> None:
    assert caution(FLOOR) == ""
    assert caution(made(volume_read_latency=9e-6)) == "" and caution(made(delay_5ms=1.0)) == ""
    assert "4 KiB read on a raw volume" in caution(made(volume_read_latency=11e-6))
    stolen = msgspec.structs.replace(FLOOR, values={**FLOOR.values, "steal.host": Reading(12.0, "%", 0.0, 3)})
    assert "12\u00a0%" in caution(stolen)


# -- measuring, on hosts that only say so -------------------------------------------------------------------------


class Says:
    """A node that answers each command as the real ones do; ``wrong`` maps a word of a command to its result."""

    def __init__(self) -> None:
        self.wrong: dict[str, Result] = {}
        self.delay = 0.0
        self.ticks = 0

    def __call__(self, host: str, argv: Argv) -> Result:
        line = " ".join(argv)
        for word, result in self.wrong.items():
            if word in line:
                return result
        if argv[:3] in (("tc", "qdisc", "add"), ("tc", "qdisc", "change")):
            self.delay = float(argv[argv.index("delay") + 1].removesuffix("us")) / 1e6
        if argv[:3] == ("tc", "qdisc", "del"):
            self.delay = 0.0
        if "of=/dev/null" in line:
            count = int(line.rpartition("count=")[2])
            return Result(0, b"", f"{count} bytes (1 kB, 1 KiB) copied, {count * 6e-6:g} s, 1 kB/s\n".encode())
        return Result(0, self._out(argv, line).encode(), b"")

    def _out(self, argv: Argv, line: str) -> str:
        if "--output-format=json" in argv:
            return json.dumps({"jobs": [_job(name) for name in re.findall(r"--name=(\S+)", line)]})
        if argv[0] == "ping":
            ms = 0.15 + self.delay * 1e3 + 0.01
            pings = [f"64 bytes from 10.77.1.2: icmp_seq={n} ttl=64 time={ms:.3f} ms" for n in range(10)]
            return "\n".join(pings)
        if line == "cat /proc/stat":
            self.ticks += 100
            return f"cpu  {self.ticks} 0 0 {self.ticks * 3} 0 0 0 0 0 0\ncpu0 1 2\n"
        if argv[:2] == ("tc", "-j"):
            delay = {"delay": self.delay, "jitter": 0}
            return json.dumps([{"kind": "netem", "options": {"limit": 100000, "delay": delay}}])
        answers = {
            "drbdadm cstate": "Connected",
            "drbdadm dstate": "UpToDate/UpToDate", "blockdev --getsize64": str(64 * 2**20),
            "ip -j": '[{"ifname":"vec0","mtu":1500}]',
            "drbdsetup show": "resource m {\n net {\n protocol C;\n }\n"
            " disk {\n disk-flushes no;\n md-flushes no;\n al-extents 6433;\n }\n}\n",
        }  # fmt: skip
        return next((text for start, text in answers.items() if line.startswith(start)), "")


def _job(name: str) -> dict[str, Any]:
    latency = {"mean": 20_000.0, "stddev": 0, "max": 0, "N": 9}
    way = {"io_bytes": 1, "bw_bytes": 1, "iops": 40_000.0, "runtime": 1, "total_ios": 9, "lat_ns": latency}
    idle = {**way, "total_ios": 0, "iops": 0.0}
    ways = {each: way if name.startswith(each) else idle for each in ("read", "write", "trim")}
    return {"jobname": name, "error": 0, "usr_cpu": 1, "sys_cpu": 1, **ways}


class Machined(FakeSite):
    """A fake site that says what machine it is."""

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        return ENVIRONMENT


@pytest.fixture(autouse=True)
def _own_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds on fake hosts are too short for this machine's clock of 10 ms."""
    ticks = iter(range(100, 100_000, 100))
    read = Path.read_text
    stat = Path("/proc/stat")

    def stated(path: Path, *args: Any, **options: Any) -> str:
        if path != stat:
            return read(path, *args, **options)
        now = next(ticks)
        return f"cpu  {now} 0 0 {now * 2} 0 0 0 {now} 0 0\ncpu0 1 2\n"

    monkeypatch.setattr(Path, "read_text", stated)


class Noisy(Says):
    """A machine whose rates differ by 10 % from run to run, half of that by the dice of ten requests."""

    def _out(self, argv: Argv, line: str) -> str:
        if "--name=write5" not in line:
            return super()._out(argv, line)
        jobs = []
        for number in range(6):
            job = _job(f"write{number}")
            latency = {"mean": 1e6, "stddev": 0.05 * 10**0.5 * 1e6, "max": 0, "N": 10}
            job["write"] |= {"iops": 1100.0 if number % 2 else 900.0, "total_ios": 10, "lat_ns": latency}
            jobs.append(job)
        return json.dumps({"jobs": jobs})


def test_the_noise_is_that_of_a_round_without_the_dice_of_a_short_run() -> None:
    floor = calibrate(Machined(Noisy()), rounds=1, seconds=0.1)
    # Variance 100^2 x 6 / 5 of 1,000^2, less 0.05^2, of which a fortieth is left in 4 s.
    assert floor.noise == pytest.approx(math.sqrt(0.012 - 0.0025 + 0.0025 / 40))
    assert calibrate(Machined(Says()), rounds=1, seconds=0.1).noise == 0


def test_calibrate_measures_every_figure_and_closes_the_lab() -> None:
    site, said = Machined(Says()), list[str]()
    floor = calibrate(site, rounds=3, seconds=0.1, say=said.append)
    assert floor.machine == MACHINE and set(floor.values) == set(METRICS)
    assert {value.rounds for value in floor.values.values()} == {3}
    value = {name: value.value for name, value in floor.values.items()}
    assert value["syscall"] == pytest.approx(3e-6)
    assert value["empty.latency"] == value["volume.read.latency"] == value["mirror.write.latency"] == 20e-6
    assert value["volume.write.iops.qd32"] == 40_000
    assert value["link.rtt"] == pytest.approx(160e-6)
    for ms in DELAYS_MS:
        assert value[delay(ms)] == pytest.approx(0.0, abs=50e-6)
    assert (value["steal.host"], value["idle.host"]) == (25, 50)
    assert (value["steal.node"], value["idle.node"]) == (0, 75)
    assert floor.ready is not None and 0 < floor.ready <= floor.seconds
    assert [lab.closed for lab in site.labs] == [True]
    assert said[-1] == "round 3 of 3"


def test_no_round_is_begun_that_would_end_too_late() -> None:
    floor = calibrate(Machined(Says()), rounds=3, seconds=0.1, budget=0.0)
    assert {value.rounds for value in floor.values.values()} == {1}


@pytest.mark.parametrize(
    ("word", "result", "error"),
    [
        ("drbdadm up", Result(1, b"", b"no"), CommandError),
        ("modprobe brd", Result(1, b"", b"not found"), CommandError),
        ("of=/dev/drbd1", Result(1, b"", b"I/O error"), CommandError),
        ("of=/dev/null", Result(0, b"", b"killed"), ParseError),
        ("--name=read1 --filename=/dev/ubd", Result(0, b'{"jobs": []}', b""), ParseError),
        ("ping", Result(0, b"", b""), ParseError),
        ("cat /proc/stat", Result(0, b"cpu  1 2 3\n", b""), ParseError),
        ("cat /proc/stat", Result(0, b"cpu  1 2 3 4 5 6 7 8 9 0\n", b""), ParseError),
        ("tc -j", Result(0, b"[]", b""), KnobError),
        ("drbdsetup show", Result(0, b"net {\nprotocol A;\n}\n", b""), KnobError),
    ],
)
def test_a_failure_anywhere_is_an_error_and_the_lab_is_closed(
    word: str, result: Result, error: type[Exception]
) -> None:
    says = Says()
    says.wrong[word] = result
    site = Machined(says)
    with pytest.raises(error):
        calibrate(site, rounds=1, seconds=0.1)
    assert [lab.closed for lab in site.labs] == [True]
    log = [" ".join(argv) for _, argv in site.labs[0].log]
    if word.startswith("tc"):
        assert "tc qdisc del dev vec0 root" in log
    # whatever came up goes down
    assert log.count("drbdadm up mirror") == log.count("drbdadm down mirror")


def test_the_rounds_undo_their_delays() -> None:
    site = Machined(Says())
    calibrate(site, rounds=2, seconds=0.1)
    log = [" ".join(argv) for _, argv in site.labs[0].log]
    added = sum(line.startswith("tc qdisc add") for line in log)
    assert added == sum(line.startswith("tc qdisc del") for line in log) == 2 * len(DELAYS_MS)
    assert log.count("modprobe -r brd") == 1


# -- the command line ---------------------------------------------------------------------------------------------


def shell(monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    monkeypatch.setattr(sys, "argv", ["blocklab", *argv])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_an_unknown_site_is_one_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell(monkeypatch, "calibrate", "--site", "cloud") == 2
    out, err = capsys.readouterr()
    assert out == "" and err == "error: --site cloud: no such site\n  hint: there is: uml\n"


def test_the_command_prints_and_stores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path))
    monkeypatch.setattr("blocklab.cli.calibrate.open_site", lambda name, addons: Machined(Says()))
    monkeypatch.setattr(bench, "_COPIES_PER_SECOND", 100)
    assert shell(monkeypatch, "calibrate", "--site", "uml") == 0
    out, err = capsys.readouterr()
    assert "4 KiB read on a raw volume, queue depth 1" in out and "IOPS" in out
    assert str(floor_file(tmp_path, MACHINE)) in out.replace("\n", "")
    assert "25\u00a0% of this machine's CPU time" in err
    stored = load_floor(tmp_path, MACHINE)
    assert stored is not None
    assert shell(monkeypatch, "calibrate", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["file"] == str(floor_file(tmp_path, MACHINE)) and set(found["values"]) == set(METRICS)


def test_ctrl_c_stores_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def stopped(*_: Any, **__: Any) -> Floor:
        raise KeyboardInterrupt

    monkeypatch.setenv("BLOCKLAB_CACHE", str(tmp_path))
    monkeypatch.setattr("blocklab.cli.calibrate.open_site", lambda name, addons: Machined(Says()))
    monkeypatch.setattr("blocklab.cli.calibrate.measured", stopped)
    assert shell(monkeypatch, "calibrate") == 130
    assert "nothing is stored" in capsys.readouterr().err and not (tmp_path / "floors").exists()

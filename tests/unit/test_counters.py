"""The kernel's counters: real output of real nodes, what is wrong with others, and differences."""

from __future__ import annotations

import msgspec
import pytest

from blocklab.errors import ParseError
from blocklab.probes.counters import ARGV, Counters, Disk, difference, parse
from tests.unit.golden import FOLDER, Golden

MIRRORED = ("direct", "mixed", "fsync", "ext4", "buffered", "ramp", "stripe", "pgbench")


def text(name: str) -> str:
    return (FOLDER / "counters" / name).read_text()


def moved(name: str, host: str = "a1") -> Counters:
    return difference(parse(text(f"{name}.before.{host}")), parse(text(f"{name}.after.{host}")))


def test_one_command_without_a_shell() -> None:
    assert ARGV[0] == "tail" and not any(set(part) & set(";|&$`") for part in ARGV)
    assert ARGV.count("/proc/uptime") == 2 and ARGV[-1] == "/proc/uptime"


@pytest.mark.parametrize("name", ["direct.after.a1", "direct.after.a2", "stripe.after.a1", "plain.after.a1"])
def test_real_output(name: str, golden: Golden) -> None:
    golden.check(f"counters/{name}.expected.json", msgspec.to_builtins(parse(text(name))))


def test_fields_are_those_of_the_kernel() -> None:
    #   98      16 ubdb 29 0 512 1 1577 0 196904 2118 0 420 2130 0 0 0 0 19 10
    found = parse(text("stripe.after.a1"))
    assert found.time == 8.23
    assert found.disks["ubdb"] == Disk(29, 0, 512 * 512, 1577, 0, 196904 * 512, 0, 0, 19)
    assert found.nics["vec0"].tx_bytes == 210841253 and found.nics["vec0"].rx_packets == 4522
    assert found.drbd["drbd0"].sent_bytes == 196608 * 1024 and found.drbd["drbd0"].log_updates == 40


def test_a_node_without_drbd() -> None:
    found = parse(text("plain.after.a1"))
    assert found.drbd == {} and set(found.disks) == {"ubda", "ubdb"}


def test_drbd_9_has_no_table() -> None:
    head, mark, tail = text("plain.after.a1").rpartition("==> /proc/uptime <==\n")
    new = f"{head}==> /proc/drbd <==\nversion: 9.2.12 (api:2/proto:86-122)\n\n{mark}{tail}"
    assert parse(new).drbd == {} and parse(new).disks == parse(text("plain.after.a1")).disks


@pytest.mark.parametrize("name", MIRRORED)
def test_drbd_counts_what_diskstats_counts(name: str) -> None:
    """Two independent counters of the same bytes, on real runs: fields and units are right."""
    active, peer = moved(name, "a1"), moved(name, "a2")
    assert active.drbd["drbd0"].written_bytes == active.disks["drbd0"].write_bytes
    assert active.drbd["drbd0"].sent_bytes == peer.drbd["drbd0"].received_bytes
    assert active.nics["vec0"].tx_packets == peer.nics["vec0"].rx_packets


@pytest.mark.parametrize(
    ("line", "discards", "flushes"),
    [
        ("   8       0 sda 101 2 629 3 1899 4 398990 2682 0 320 2685", None, None),
        ("   8       0 sda 101 2 629 3 1899 4 398990 2682 0 320 2685 5 0 80 9", 5, None),
        ("   8       0 sda 101 2 629 3 1899 4 398990 2682 0 320 2685 5 0 80 9 6 7", 5, 6),
    ],
)
def test_older_kernels(line: str, discards: int | None, flushes: int | None) -> None:
    old = text("plain.after.a1").replace("  98       0 ubda", f"{line}\n  98       0 ubda")
    disk = parse(old).disks["sda"]
    assert (disk.reads, disk.read_merges, disk.write_merges, disk.write_bytes) == (101, 2, 4, 398990 * 512)
    assert (disk.discards, disk.flushes) == (discards, flushes)
    assert disk.discard_bytes == (None if discards is None else 80 * 512)


def test_every_cut_is_noticed() -> None:
    whole = text("stripe.after.a1")
    last = whole.rindex("==> /proc/uptime <==\n") + len("==> /proc/uptime <==\n")
    for length in range(last):
        with pytest.raises(ParseError):
            parse(whole[:length])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("8.23 1.89", "up 8 s", "not two numbers"),
        (" 16 ubdb 29 0 512", " 16 ubdb 29 - 512", "a line is not a device"),
        ("  vec0:  369189", "  vec0:  many", "a line is not an interface"),
        ("version: 8.4.11", "garbage", "neither the table of DRBD 8.4 nor"),
        ("==> /proc/diskstats <==", "==> /proc/other <==", "without /proc/diskstats"),
        ("==> /proc/net/dev <==", "==> /proc/other <==", "without /proc/net/dev"),
    ],
)
def test_garbage(old: str, new: str, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        parse(text("stripe.after.a1").replace(old, new))


def test_the_difference() -> None:
    found = moved("direct")
    assert found.time == pytest.approx(parse(text("direct.after.a1")).time - 5.68)
    assert (found.disks["drbd0"].writes, found.disks["drbd0"].write_bytes) == (8192, 32 * 2**20)
    assert found.disks["ubdb"].write_bytes == moved("direct", "a2").disks["ubdb"].write_bytes == 32 * 2**20
    assert found.disks["ubda"] == Disk(0, 0, 0, 0, 0, 0, 0, 0, 0)


def test_a_counter_that_went_back() -> None:
    """From close below 2^32, as a 32-bit kernel's would; and by a reset."""
    before = parse(text("direct.before.a1").replace("vec0:  203025 ", f"vec0: {2**32 - 100} "))
    with pytest.raises(ParseError, match=f"vec0: its rx_bytes went back from {2**32 - 100} to") as caught:
        difference(before, parse(text("direct.after.a1")))
    assert "32-bit" in caught.value.hint
    again = parse(
        text("direct.after.a1").replace("ns:", "ns:1 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 x:")
    )
    with pytest.raises(ParseError, match="drbd0: its sent_bytes went back"):
        difference(parse(text("direct.before.a1")), again)


def test_a_device_that_vanished() -> None:
    before = text("direct.before.a1")
    after = "\n".join(line for line in text("direct.after.a1").splitlines() if "drbd0" not in line)
    with pytest.raises(ParseError, match="drbd0 vanished"):
        difference(parse(before), parse(after))


def test_a_device_that_appeared_counts_from_zero() -> None:
    before = "\n".join(line for line in text("direct.before.a1").splitlines() if "drbd0" not in line)
    after = parse(text("direct.after.a1"))
    assert difference(parse(before), after).disks["drbd0"] == after.disks["drbd0"]


def test_a_node_that_booted_anew() -> None:
    with pytest.raises(ParseError, match="booted again"):
        difference(parse(text("direct.after.a1")), parse(text("direct.before.a1")))

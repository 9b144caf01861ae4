"""dd and pg_test_fsync: their commands, and values from real output (coreutils 9.7, PostgreSQL 17)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import ParseError
from blocklab.model.plan import Port, Run
from blocklab.model.units import dec_hook
from blocklab.workloads import AnyWorkload, Commit, Dd
from tests.unit.golden import Golden, read

FOLDER = Port("a1", "dir", "/mnt/x/")
DEVICE = Port("a1", "block", "/dev/drbd0")


def dd(**changes: Any) -> Dd:
    plain = {"workload": "dd", "mode": "dsync", "count": 200, "conv": "fsync"} | changes
    kept = {name: value for name, value in plain.items() if value is not None}
    found = msgspec.convert(kept, AnyWorkload, dec_hook=dec_hook)
    assert isinstance(found, Dd)
    return found


def commit(**changes: Any) -> Commit:
    found = msgspec.convert({"workload": "commit", "time": "1s"} | changes, AnyWorkload, dec_hook=dec_hook)
    assert isinstance(found, Commit)
    return found


# --- dd


@pytest.mark.parametrize(
    ("changes", "where", "why"),
    [
        ({"count": None}, "count", "exactly one"),
        ({"size": "1MiB"}, "count", "exactly one"),
        ({"count": 0}, "count", "at least 1"),
        ({"bs": "0B"}, "bs", "above 0"),
        ({"bs": "1000B", "mode": "direct"}, "bs", "whole sectors"),
        ({"count": None, "size": "1MB"}, "size", "whole number of writes"),
        ({"count": None, "size": "0B"}, "size", "whole number of writes"),
    ],
)
def test_dd_problems(changes: dict[str, Any], where: str, why: str) -> None:
    assert why in dict(dd(**changes).problems())[where]


def test_dd_takes_only_known_modes() -> None:
    assert dd().problems() == dd(bs="1000B").problems() == dd(count=None, size="1MiB").problems() == []
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'append'"):
        dd(mode="append")


def test_dd_steps(golden: Golden) -> None:
    plans = {}
    for name, own, port in (
        ("folder", dd(), FOLDER),
        ("device", dd(mode="direct", conv=None, count=None, size="1MiB", bs="64KiB"), DEVICE),
        ("none", dd(mode="none", conv=None), FOLDER),
    ):
        plans[name] = [msgspec.to_builtins(step) for step in own.prepare(port)]
        plans[name].append(msgspec.to_builtins(own.command(port)))
    golden.check("dd-none/expected-steps.json", plans)


def test_dd_real_output(golden: Golden) -> None:
    slow = dd().parse(read("dd-dsync"), "a1")
    fast = dd(mode="none", conv=None, count=None, size="16MiB", bs="64KiB").parse(read("dd-none"), "a1")
    shown = {"dsync": slow.samples, "none": fast.samples, "phases": [*slow.phases, *fast.phases]}
    golden.check("dd-none/expected.json", msgspec.to_builtins(shown))
    whole = {each.metric: each.value for each in fast.samples}
    # Not one byte of it was on the device: that is what fools people.
    assert whole["dirty"] >= whole["write.bytes"] == 2**24
    whole = {each.metric: each.value for each in slow.samples}
    assert whole["write.iops"] == pytest.approx(200 / whole["seconds"])
    assert whole["write.bandwidth"] == pytest.approx(200 * 4096 / whole["seconds"])


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (b"819200 bytes (819 kB, 800 KiB) copied, 0.0619775 s, 13.2 MB/s\n", 0.0619775),
        (b"819200 bytes copied, 6.5e-05 s, 7.9 MB/s\n", 6.5e-05),
        (b"819200 bytes (819 kB, 800 KiB) copied, 12 s, 68.3 kB/s\n", 12),
    ],
)
def test_dd_times(line: bytes, seconds: float) -> None:
    parsed = dd().parse(read("dd-dsync") | {"stderr": line}, "a1")
    assert {each.metric: each.value for each in parsed.samples}["seconds"] == seconds


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"stderr": b""}, "no line"),
        ({"stderr": b"4096 bytes (4.1 kB) copied, 0.1 s, 41 kB/s\n"}, "copied 4096 bytes, but 819200 were asked"),
        ({"stderr": b"819200 bytes copied, 0 s, Infinity B/s\n"}, "copied"),
        ({"meminfo.after": b""}, "no Dirty"),
        ({"clock.before": b""}, "no time from before"),
    ],
)
def test_dd_bad_output(changes: dict[str, bytes], why: str) -> None:
    with pytest.raises(ParseError, match=why):
        dd().parse(read("dd-dsync") | changes, "a1")


# --- commit


def test_commit_problems() -> None:
    assert commit().problems() == []
    assert commit().lasts() == 16
    for time in ("0s", "0.5s"):
        assert "whole seconds" in dict(commit(time=time).problems())["time"]


def test_commit_removes_its_file() -> None:
    there, remove = commit().prepare(FOLDER)
    assert isinstance(there, Run) and there.argv == ("test", "-d", "/mnt/x/")
    assert isinstance(remove, Run) and remove.undo == ("rm", "-f", "/mnt/x/blocklab.fsync")
    assert commit().command(FOLDER).argv[-2:] == ("--filename=/mnt/x/blocklab.fsync", "--secs-per-test=1")


def test_commit_real_output(golden: Golden) -> None:
    parsed = commit().parse(read("commit"), "a1")
    golden.check("commit/expected.json", msgspec.to_builtins({"samples": parsed.samples, "phases": parsed.phases}))
    names = [phase.name for phase in parsed.phases]
    four = ["open_datasync", "fdatasync", "fsync", "open_sync"]
    assert names == [*four, *(f"{name}-2x8k" for name in four), "unsynced"]
    assert all(a.end <= b.start + 0.1 for a, b in zip(parsed.phases, parsed.phases[1:], strict=False))
    for rate, latency in zip(parsed.samples[::2], parsed.samples[1::2], strict=True):
        assert rate.value * latency.value == pytest.approx(1)


def test_a_method_that_a_file_system_lacks_is_left_out() -> None:
    """tmpfs, say, as pg_test_fsync 17 prints it."""
    lacks = b"         open_datasync                                   n/a*\n"
    lines = read("commit")["stdout"].splitlines(True)
    lines = [line[:14] + lacks if b" open_datasync" in line else line for line in lines]
    names = {phase.name for phase in commit().parse({"stdout": b"".join(lines)}, "a1").phases}
    assert "open_datasync" not in names and "fdatasync" in names


@pytest.mark.parametrize(
    ("cut", "why"),
    [(b" fdatasync ", "no fdatasync in"), (b" write  ", "no unsynced"), (b"two 8kB", "no fdatasync-2")],
)
def test_commit_bad_output(cut: bytes, why: str) -> None:
    lines = read("commit")["stdout"].splitlines(True)
    with pytest.raises(ParseError, match=why):
        commit().parse({"stdout": b"".join(line for line in lines if cut not in line)}, "a1")


@given(st.binary())
def test_garbage_is_a_parse_error(out: bytes) -> None:
    with pytest.raises(ParseError):
        dd().parse({"stdout": out, "stderr": out}, "a1")
    with pytest.raises(ParseError):
        commit().parse({"stdout": out, "stderr": out}, "a1")

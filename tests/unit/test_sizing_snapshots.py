"""Counters become intervals: never across a restart, never twice, and what is left out is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from blocklab.sizing.series import Interval, Rates, Snapshot, Trust
from blocklab.sizing.snapshots import pair


def dump(
    time: float | None, reads: float, *, uptime: float | None = None, line: int = 0, **more: object
) -> Snapshot:
    """A server's counters at one moment: each read has 8 KiB and takes 2 ms."""
    counters = {"reads": reads, "read_bytes": reads * 8192, "read_seconds": reads * 0.002, "flushes": reads / 4}
    fields: dict[str, object] = {
        "system": "db", "source": "status", "file": Path("dump.txt"), "counters": counters, "time": time,
        "uptime": uptime, "line": line,
    }  # fmt: skip
    return Snapshot(**{**fields, **more})  # type: ignore[arg-type]


def test_the_difference_of_two_dumps_is_one_interval() -> None:
    found = pair([dump(1000, 500), dump(1060, 6500)])
    (series,) = found.series
    assert series.intervals == (
        Interval(
            start=1000, seconds=60, rates=Rates(reads=100, read_bytes=819200), flushes=25, read_latency=0.002
        ),
    )
    assert (series.trust, series.untimed, found.remarks) == (Trust.SERVER, False, ())


def test_dumps_in_any_order_and_of_several_files_are_put_in_order() -> None:
    found = pair(
        [dump(1120, 700, file=Path("c")), dump(1000, 100, file=Path("a")), dump(1060, 400, file=Path("b"))]
    )
    assert [each.rates.reads for each in found.series[0].intervals] == [5, 5]
    assert found.series[0].files == (Path("a"), Path("b"), Path("c"))


def test_no_interval_reaches_across_a_restart() -> None:
    """The counters fall in the one case; in the other they were outgrown since, and only the uptime tells."""
    fallen = pair([dump(1000, 500, line=1), dump(1060, 20, line=9), dump(1120, 620, line=17)])
    assert [each.rates.reads for each in fallen.series[0].intervals] == [10]
    assert "dump.txt:9: its counters fell (reads, read_bytes, read_seconds, flushes)" in fallen.remarks[0]
    outgrown = pair([dump(1000, 500, uptime=90), dump(2000, 9000, uptime=400), dump(2100, 9100, uptime=500)])
    assert [each.rates.reads for each in outgrown.series[0].intervals] == [1]
    assert "restarted 400 s before" in outgrown.remarks[0]


def test_counters_that_were_reset_are_not_subtracted() -> None:
    found = pair([dump(1000, 10, counting_since=0), dump(1060, 700, counting_since=1010)])
    assert found.series == () or not any(one.since_start is False for one in found.series)
    assert any("statistics were reset" in remark for remark in found.remarks)


def test_one_moment_counts_once() -> None:
    found = pair([dump(1000, 0), dump(1000, 5, file=Path("again")), dump(1060, 60)])
    assert [each.rates.reads for each in found.series[0].intervals] == [1]
    assert "again: the same moment as dump.txt: left out" in found.remarks


def test_two_servers_or_devices_are_never_subtracted_from_each_other() -> None:
    found = pair([dump(1000, 0, system="a"), dump(1060, 60, system="b"), dump(1060, 6, system="a")])
    assert [(one.system, one.intervals[0].rates.reads) for one in found.series] == [("a", 0.1)]
    devices = pair([dump(1000, 0, device="sda"), dump(1000, 9, device="sdb"), dump(1010, 10, device="sda")])
    assert [one.device for one in devices.series] == ["sda"]


def test_one_dump_alone_is_an_average_since_the_start_and_said_to_be() -> None:
    found = pair([dump(100_000, 72_000, uptime=36_000)])
    (series,) = found.series
    assert series.since_start
    assert series.intervals[0].seconds == 36_000
    assert series.intervals[0].rates.reads == 2
    assert "one dump only" in found.remarks[0]
    fresh = pair([dump(100_000, 72_000, uptime=120)])
    assert any("started 2 min before" in remark for remark in fresh.remarks)


def test_one_dump_without_uptime_gives_its_own_short_window() -> None:
    window = Interval(start=980, seconds=20, rates=Rates(reads=7))
    found = pair([dump(1000, 500, window=window)])
    assert found.series[0].intervals == (window,)
    assert found.series[0].trust is Trust.WINDOW
    assert "last 20 s" in found.remarks[0]


def test_differences_win_over_the_window() -> None:
    window = Interval(start=980, seconds=20, rates=Rates(reads=7000))
    found = pair([dump(1000, 500, window=window), dump(1100, 600, window=window)])
    assert [each.rates.reads for each in found.series[0].intervals] == [1]
    assert found.series[0].trust is Trust.SERVER


def test_one_dump_that_tells_nothing_gives_nothing() -> None:
    found = pair([dump(None, 500)])
    assert found.series == ()
    assert "take a second one" in found.remarks[0]


def test_dumps_without_times_are_placed_by_their_uptime_or_by_every() -> None:
    by_uptime = pair([dump(None, 0, uptime=100), dump(None, 200, uptime=300)])
    assert by_uptime.series[0].untimed
    assert by_uptime.series[0].intervals[0].rates.reads == 1
    assert pair([dump(None, 0), dump(None, 200)]).series == ()
    by_every = pair([dump(None, 0), dump(None, 200)], every=50)
    assert by_every.series[0].intervals[0].rates.reads == 4


def test_a_restart_between_dumps_without_times_is_seen_by_the_uptime() -> None:
    found = pair([dump(None, 900, uptime=100), dump(None, 50, uptime=30), dump(None, 110, uptime=90)])
    assert [each.rates.reads for each in found.series[0].intervals] == [1]
    assert any("fell" in remark for remark in found.remarks)


@pytest.mark.parametrize("apart", [0.0, 0.2])
def test_dumps_that_are_too_near_to_each_other_tell_no_rate(apart: float) -> None:
    found = pair([dump(1000, 0), dump(1000 + apart, 900)])
    assert not found.series or found.series[0].since_start
    assert found.remarks


def test_what_one_dump_lacks_is_unknown_and_not_zero() -> None:
    some = dump(1000, 10)
    less = Snapshot(system="db", source="status", file=Path("b"), time=1060, counters={"reads": 70.0})
    found = pair([some, less])
    assert found.series[0].intervals[0].rates == Rates(reads=1)
    assert found.series[0].intervals[0].flushes is None

"""What InnoDB's own status says of the device below: its calls, its pages (each written twice), its redo log.
``mysql_model`` says what Linux counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from blocklab.formats.found import Dump, Found
from blocklab.sizing.models.mysql_model import LOG_BLOCK, PAGE
from blocklab.sizing.reading import Reading
from blocklab.sizing.series import Device, Interval, Rates, Snapshot, Statistics

SOURCE = "InnoDB status"
COLLECTED = "more redo log writes than syncs: the page cache collects them, so one is counted for each sync"
OUTSIDE = "its file writes leave out the redo log's: one more is counted for each sync"


def statistics(found: Found, reading: Reading) -> Statistics:
    """Each dump as a snapshot."""
    assert found.clock is not None
    times, said = reading.times(found.clock, found.path)
    snapshots = tuple(_snapshot(each, at, found.path) for each, at in zip(found.dumps, times, strict=True))
    return Statistics(snapshots=snapshots, remarks=(*said, *_assumed()))


def _assumed() -> tuple[str, ...]:
    return (
        f"InnoDB status counts no bytes: taken are pages of {PAGE / 1024:.0f} KiB, each written twice "
        "(doublewrite buffer), and the redo log's sequence number",
        "InnoDB status has nothing of the binary log: where there is one, SHOW GLOBAL STATUS says more",
    )


def _snapshot(dump: Dump, time: float | None, path: Path) -> Snapshot:
    window, remarks = _window(dump, time)
    return Snapshot(
        system="", source=SOURCE, file=path, counters=dump.counters, time=time, product=dump.product,
        window=window, line=dump.line, model=_device, window_remarks=remarks,
    )  # fmt: skip


def _device(moved: Mapping[str, float]) -> Device:
    """What the device got while the counters moved by so much."""
    log, pages, fsyncs = moved.get("log"), moved.get("pages_written"), moved["fsyncs"]
    redo, remarks = _redo(moved)
    counters = {"reads": moved["reads"], "writes": max(0.0, moved["writes"] + redo), "flushes": fsyncs}
    if "pages_read" in moved:
        counters["read_bytes"] = moved["pages_read"] * PAGE
    if pages is not None and "sequence" in moved:
        counters["write_bytes"] = 2 * pages * PAGE + moved["sequence"] + LOG_BLOCK * (log or fsyncs)
    return Device(counters=counters, remarks=remarks)


def _redo(moved: Mapping[str, float]) -> tuple[float, tuple[str, ...]]:
    """What to add to the file writes for the redo log's, and what to say of it.

    They leave the redo log out in MariaDB 11.8. There each sync of the log is a write of it, so the writes beside
    the pages' are fewer than the syncs by far; where they are counted, they are about as many or more.
    """
    log, pages, fsyncs = moved.get("log"), moved.get("pages_written"), moved["fsyncs"]
    if log is not None:
        # Through the page cache, its writes are collected until the next sync.
        collected = min(0.0, fsyncs - log)
        return collected, (COLLECTED,) if collected else ()
    if pages is not None and moved["writes"] - pages < fsyncs / 2:
        return fsyncs, (OUTSIDE,) if fsyncs else ()
    return 0.0, ()


def _window(dump: Dump, time: float | None) -> tuple[Interval | None, tuple[str, ...]]:
    """The averages of the last seconds, and what is to be said of them. What was written is not reported there:
    the log's bytes are in no line."""
    if time is None or not dump.window:
        return None, ()
    reads, writes, fsyncs = (dump.rates[name] for name in ("reads", "writes", "fsyncs"))
    moved = {"writes": writes, "fsyncs": fsyncs}
    if "log" in dump.rates:
        moved["log"] = dump.rates["log"]
    elif "pages_written" in dump.counters:
        # The window has no pages: by their part of all writes since the server's start.
        moved["pages_written"] = writes * dump.counters["pages_written"] / max(dump.counters["writes"], 1.0)
    redo, remarks = _redo(moved)
    rated = Rates(reads=reads, writes=max(0.0, writes + redo), read_bytes=reads * dump.rates["size"])
    start = time - dump.window
    return Interval(start=start, seconds=dump.window, line=dump.line, flushes=fsyncs, rates=rated), remarks

"""The columns of iostat, with and without ``-x``, in every sysstat, and what they mean in base units."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

KIB, MIB, SECTOR = 1024.0, 1024.0**2, 512.0
_BYTES = {"kB/s": KIB, "MB/s": MIB, "sec/s": SECTOR}
# Without -x, of both ways with -x -s.
_PLAIN = {
    f"{unit}{name}/s": (metric, factor)
    for unit, factor in (("kB", KIB), ("MB", MIB), ("Blk", SECTOR))
    for name, metric in (("_read", "read.bandwidth"), ("_wrtn", "write.bandwidth"), ("", "bandwidth"))
}

# Without a header the number of columns tells the version; what a header would call kB may be MB (-m), or
# sectors (of the oldest without -k).
BY_COUNT: Mapping[int, tuple[str, tuple[str, ...]]] = {
    len(names.split()): (version, tuple(names.split()))
    for version, names in (
        ("9 to 10.0", "rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await svctm %util"),
        ("10.1 to 11.5", "rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util"),
        (
            "11.5.7 to 12.0",
            "r/s w/s rkB/s wkB/s rrqm/s wrqm/s %rrqm %wrqm r_await w_await aqu-sz rareq-sz wareq-sz svctm %util",
        ),
        (
            "12.1 to 12.3",
            "r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz "
            "d/s dkB/s drqm/s %drqm d_await dareq-sz aqu-sz %util",
        ),
        (
            "12.1 with svctm",
            "r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz "
            "d/s dkB/s drqm/s %drqm d_await dareq-sz aqu-sz svctm %util",
        ),
        (
            "12.3 on",
            "r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz "
            "d/s dkB/s drqm/s %drqm d_await dareq-sz f/s f_await aqu-sz %util",
        ),
    )
}


def in_kilobytes(names: Sequence[str], rows: Sequence[Sequence[float]]) -> float | None:
    """How many kB/s one is in columns without a header: 1, 1024 (MB) or 0.5 (sectors), by the size of the requests
    beside them.

    None where there was no I/O to tell from.
    """
    at = {name: index for index, name in enumerate(names)}
    said = meant = 0.0
    for row in rows:
        if "avgrq-sz" in at:
            said += row[at["rkB/s"]] + row[at["wkB/s"]]
            meant += (row[at["r/s"]] + row[at["w/s"]]) * row[at["avgrq-sz"]] * SECTOR / KIB
        else:
            said += row[at["rkB/s"]] + row[at["wkB/s"]]
            meant += row[at["r/s"]] * row[at["rareq-sz"]] + row[at["w/s"]] * row[at["wareq-sz"]]
    if said <= 0 or meant <= 0:
        return None
    # What is printed is rounded, so it is whichever comes nearest.
    return min((0.5, 1.0, 1024.0), key=lambda factor: abs(math.log(meant / said / factor)))


def rates(row: Mapping[str, float]) -> Iterator[tuple[str, float, str]]:
    """Metric, value and unit, as the probe disks has them; columns that say the same another way are left out."""
    for way, letter in (("read", "r"), ("write", "w"), ("flush", "f")):
        rate = row.get(f"{letter}/s")
        if rate is None:
            continue
        yield f"{way}.iops", rate, "1/s"
        for unit, factor in _BYTES.items():
            if (amount := row.get(f"{letter}{unit}")) is not None:
                yield f"{way}.bandwidth", amount * factor, "B/s"
        wait = row.get(f"{letter}_await", _only(row, letter))
        # iostat prints a wait of 0.00 where nothing waited; that is no measurement.
        if rate and wait is not None:
            yield f"{way}.await", wait / 1000, "s"
    if (rate := row.get("tps")) is not None:
        yield "iops", rate, "1/s"
        yield from ((each, row[name] * by, "B/s") for name, (each, by) in _PLAIN.items() if name in row)
        if rate and row.get("await"):
            yield "await", row["await"] / 1000, "s"
    queue = row.get("aqu-sz", row.get("avgqu-sz"))
    if queue is not None:
        yield "queue", queue, "1"
    util = row.get("%util", row.get("util"))
    if util is not None:
        yield "util", util, "%"


def _only(row: Mapping[str, float], letter: str) -> float | None:
    """Old versions have one wait for reads and writes together: it is of those of which there were any."""
    other = {"r": "w", "w": "r"}.get(letter)
    if "r_await" in row or "await" not in row or other is None:
        return None
    return row["await"] if not row.get(f"{other}/s") else None

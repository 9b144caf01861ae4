"""The candidates for people: the need as a demand on storage, a table, and the arithmetic."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table

from blocklab.errors import StudyError
from blocklab.model.terminal import Text
from blocklab.model.units import Size
from blocklab.sizing import catalogue
from blocklab.sizing.candidates import candidates
from blocklab.sizing.choice import TITLES, Candidate, Demand, Misfit, Options
from blocklab.sizing.need import Moment, Need
from blocklab.stats.format import percent

HEADS = ("cloud", "layout", "volumes, each", "instance", "limit that binds", "at +20 %")
NOTE = (
    "Values are the vendors' as far as they could be read; each entry names its text and its date. Provisioned "
    "IOPS and throughput are as much as is needed, so the limit that binds is the one with the least room that "
    "cannot be raised further."
)
# What a request counts as on most volumes; larger ones count as several.
_SPLIT = 256 * 1024


def choose(
    need: Need, *, capacity: Size | None, clouds: Sequence[str], own: Path | None, options: Options
) -> list[Candidate | Misfit]:
    """The smallest fitting choice of each layout and cloud. Raises ``StudyError``, also where the peak is unknown:
    nothing is chosen for an average."""
    if not need.peak_known:
        raise StudyError(
            "", "the peak is unknown, so nothing can be chosen",
            hint="give statistics of an hour or less, or --peak-factor with what you know of the peak",
        )  # fmt: skip
    today = datetime.datetime.now(datetime.UTC).date()
    dated = msgspec.structs.replace(options, today=today)
    return candidates(demand(need, capacity), catalogue.load(own), clouds, dated)


def demand(need: Need, capacity: Size | None) -> Demand:
    """The need as limits know it: the most I/Os, the most bytes, and the size that decides how requests are split.

    The highest IOPS and the highest throughput may be at different times; the storage has to carry both.
    """
    if not need.moments:
        raise StudyError(
            "", "the statistics do not tell reads and writes apart, in requests and bytes: nothing can be chosen",
            hint="give statistics that do: iostat -x, sar -b with -d, /proc/diskstats, a database's own",
        )  # fmt: skip
    most = max(need.moments, key=_counted)
    widest = max(need.moments, key=lambda each: each.bandwidth)
    flushes = need.amounts.get("flushes")
    return Demand(
        read_iops=most.read_iops, write_iops=most.write_iops, read_bytes=widest.read_bandwidth,
        write_bytes=widest.write_bandwidth, read_size=most.read_size, write_size=most.write_size,
        flushes=None if flushes is None else flushes.required, capacity=capacity,
    )  # fmt: skip


def _counted(moment: Moment) -> float:
    """I/Os as volumes count them."""
    return sum(
        rate * math.ceil(size / _SPLIT)
        for rate, size in ((moment.read_iops, moment.read_size), (moment.write_iops, moment.write_size))
        if size is not None
    )


def rows(found: Sequence[Candidate | Misfit]) -> Iterator[tuple[str, ...]]:
    """One for each layout of each cloud, as text."""
    for each in found:
        if isinstance(each, Misfit):
            yield (each.cloud, TITLES[each.layout], f"nothing fits: {each.reason}", "", "", "")
            continue
        volumes = f"{each.count * each.nodes} x {each.volume} {each.size / 2**30:,.0f} GiB"
        volumes += f", {each.iops:,} IOPS" if each.iops is not None else ""
        volumes += f", {each.bandwidth / 2**20:,.0f} MiB/s" if each.bandwidth is not None else ""
        if each.cost is not None:
            volumes += f"; {each.cost:,.0f} {each.currency} a month"
        bound = next((limit for limit in each.limits if limit.name == each.binds), None)
        binds = f"{each.binds} {percent(bound.hard)}" if bound is not None and bound.hard else "none is known"
        more = f"{', '.join(each.breaks)} exceeded; take {each.after}" if each.breaks else "fits"
        instance = f"{each.nodes} x {each.instance}" if each.nodes > 1 else each.instance
        yield (each.cloud, each.title, volumes, instance, binds, more)


def details(found: Sequence[Candidate | Misfit]) -> Iterator[tuple[str, list[str]]]:
    """The arithmetic of each candidate, what was not checked, and what to know of its entries."""
    for each in found:
        if isinstance(each, Candidate):
            lines = [*each.lines, *each.marks]
            lines += [f"not checked, unknown: {', '.join(each.unchecked)}"] if each.unchecked else []
            yield f"{each.cloud}, {each.title}", lines


def terminal(found: Sequence[Candidate | Misfit]) -> RenderableType:
    """The table, and the arithmetic under it."""
    table = Table(*HEADS, box=None, pad_edge=False)
    for row in rows(found):
        table.add_row(*(Text(cell) for cell in row))
    parts: list[RenderableType] = [Text(), Text("Smallest choices that carry it", style="bold"), table, Text(NOTE)]
    for name, lines in details(found):
        parts += [Text(name, style="bold"), *(Text(f"  {line}") for line in lines)]
    return Group(*parts)


def for_page(found: Sequence[Candidate | Misfit]) -> dict[str, Any]:
    """What the page's template takes."""
    return {
        "heads": HEADS,
        "rows": list(rows(found)),
        "details": [{"name": name, "lines": lines} for name, lines in details(found)],
        "notes": [NOTE],
    }

"""What is told of a choice: its limits, the arithmetic, marks, cost, and the layers of a study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from blocklab.sizing import fitting
from blocklab.sizing.catalogue import Catalogue, cost_of, included, stale
from blocklab.sizing.choice import Demand, Layout, Limit, Node, Options
from blocklab.sizing.fitting import EXACT, Count, Want
from blocklab.study.profiles import GIB, Entry, sized_iops

# Where no request size is told, and what a stripe's chunk may be.
CHUNK, LEAST_CHUNK, MOST_CHUNK = 256 * 2**10, 4 * 2**10, 4 * 2**20


def volume_limits(entry: Entry, node: Node, want: Want, options: Options) -> Iterator[Limit]:
    """All volumes of a node together: IOPS and throughput, and those of one direction where there are such."""
    volume, count = node.volume, node.count
    limits = fitting.usable(entry, volume.gib, volume.iops, volume.bandwidth, bursts=options.bursts)
    rows = (
        ("volume IOPS", "IOPS", want.iops, limits.iops, volume.most_iops),
        ("volume throughput", "B/s", want.bandwidth, limits.bandwidth, volume.most_bandwidth),
    )
    for name, unit, value, limit, most in rows:
        yield limit_row(name, unit, _by(value, count), _by(limit, count), entry, most=_by(most, count))
    own = (
        ("volume read IOPS", "IOPS", want.read_iops, entry.read_iops),
        ("volume write IOPS", "IOPS", want.write_iops, entry.write_iops),
        ("volume read throughput", "B/s", want.read_bandwidth, entry.read_bandwidth),
        ("volume write throughput", "B/s", want.write_bandwidth, entry.write_bandwidth),
    )
    for name, unit, value, limit in own:
        if limit:
            yield limit_row(name, unit, _by(value, count), _by(limit, count), entry)


def _by(value: float | None, count: int) -> float | None:
    return None if value is None else value * count


def instance_limits(
    name: str, entry: Entry, need: Demand, layout: Layout, options: Options, counts: tuple[Count, Count]
) -> Iterator[Limit]:
    """An instance's limits on all of its volumes together, and on what it sends to a mirror's peer."""
    reads, writes = counts
    limits = fitting.usable(entry, 0, entry.iops or None, entry.bandwidth or None, bursts=options.bursts)
    yield limit_row("instance IOPS", "IOPS", fitting.total(reads.iops, writes.iops), limits.iops, entry)
    # What an HDD counts a small request as stays at the volume.
    yield limit_row(
        "instance throughput", "B/s", fitting.total(need.read_bytes, need.write_bytes), limits.bandwidth, entry
    )
    if layout in ("mirror", "zones"):
        wire = None if entry.network is None else entry.network / 8
        sent = need.write_bytes
        line = _not_checked("network", sent, wire)
        if sent is not None and wire is not None:
            part = f"{sent * 8 / 1e9:,.3g} of {wire * 8 / 1e9:,.4g} Gbit/s ({sent / wire:.0%})"
            line = f"network: writes of {sent / 1e6:,.1f} MB/s x 8 = {part}"
        yield Limit(name="network", unit="B/s", need=sent, limit=wire, line=line)


def limit_row(
    name: str, unit: str, need: float | None, limit: float | None, entry: Entry, most: float | None = None
) -> Limit:
    """A limit with its arithmetic as a line; throughputs in the unit that the entry tells its own in."""
    size = fitting.unit_of(entry)
    line = _not_checked(name, need, limit)
    if need is not None and limit is not None:
        line = f"{name}: {rate(need, unit, size)} of {rate(limit, unit, size)} {unit_name(unit, size)}"
        line += f" ({need / limit:.0%})" if limit else ""
        if most is not None and most > limit * EXACT:
            line += f", can be raised to {rate(most, unit, size)}"
    return Limit(name=name, unit=unit, need=need, limit=limit, most=most, line=line)


def _not_checked(name: str, need: float | None, limit: float | None) -> str:
    why = "the need is not known" if need is None else "the catalogue tells no limit" if limit is None else ""
    return f"{name}: not checked, {why}" if why else ""


def rate(value: float, unit: str, size: int) -> str:
    """I/Os as a whole number; bytes in ``size`` (MB or MiB) with one decimal."""
    return f"{value:,.0f}" if unit == "IOPS" else f"{value / size:,.1f}".removesuffix(".0")


def unit_name(unit: str, size: int) -> str:
    """The unit of what ``rate`` makes."""
    return "IOPS" if unit == "IOPS" else "MB/s" if size == 10**6 else "MiB/s"


def times(count: int, name: str) -> str:
    """``2 x gp3``."""
    return name if count == 1 else f"{count} x {name}"


def lines(need: Demand, entry: Entry, node: Node, nodes: int, limits: Sequence[Limit]) -> Iterator[str]:
    """The arithmetic, a short line a step."""
    yield from (text for text in (_counted("reads", need.read_iops, node.reads, entry),
                                  _counted("writes", need.write_iops, node.writes, entry)) if text)  # fmt: skip
    yield from _sized(need, entry, node)
    yield from (limit.line for limit in limits)
    if nodes == 2:
        yield "mirror: each node has all of this, since either may become active; the peer gets the writes only"


def _counted(way: str, iops: float | None, count: Count, entry: Entry) -> str:
    if iops is None or count.iops is None:
        return f"{way}: I/Os per second not known"
    if entry.io_most is None:
        return f"{way}: {iops:,.0f} IOPS, each request counts once"
    most = f"{entry.io_most / 1024:,.0f} KiB"
    if count.size is None:
        return f"{way}: {iops:,.0f} IOPS x 1 I/O each = {count.iops:,.0f} (request size not known)"
    size = f"{count.size / 1024:,.4g} KiB"
    compared = f"{size} <= {most}" if count.each == 1 else f"{size} > {most}"
    return f"{way}: {iops:,.0f} IOPS x {count.each} I/O each ({compared}) = {count.iops:,.0f}"


def _sized(need: Demand, entry: Entry, node: Node) -> Iterator[str]:
    volume = node.volume
    room = f"{volume.gib:,} GiB each" if node.count > 1 else f"{volume.gib:,} GiB"
    if node.count > 1:
        yield f"stripe: {node.count} equal volumes, the workload spread evenly"
    rule = ""
    if entry.sold is not None:
        cap = min(entry.sold.iops_most, max(entry.iops or 0, int(volume.gib * entry.sold.iops_per_gib)))
        rule = f": {entry.sold.iops_per_gib:g} IOPS per GiB allow {cap:,}, {volume.paid_iops:,} are asked for"
    elif entry.iops_per_gib and volume.iops is not None:
        base = f"{entry.iops_base:,} + " if entry.iops_base else ""
        asked = f", {volume.paid_iops:,} are asked for" if volume.paid_iops is not None else ""
        had = volume.iops if volume.paid_iops is None else sized_iops(entry, volume.gib * GIB)
        rule = f": {base}{entry.iops_per_gib:g} IOPS per GiB make {had:,.0f}{asked}"
    wanted = "" if need.capacity is None else f" for {need.capacity / GIB:,.4g} GiB"
    yield f"{times(node.count, volume.name)}: {room}{wanted}{rule}"


def burst_of(need: Demand, catalogue: Catalogue, node: Node, want: Want, options: Options) -> float | None:
    """Seconds that credits carry the need; None where none are used."""
    if not options.bursts:
        return None
    volume, count = node.volume, node.count
    entry, host = catalogue.entries[volume.name], catalogue.entries[node.instance]
    own = fitting.usable(entry, volume.gib, volume.iops, volume.bandwidth, bursts=True)
    all_of_it = fitting.usable(host, 0, host.iops or None, host.bandwidth or None, bursts=True)
    told = (
        fitting.lasts(entry, volume.gib, own, want.iops, want.bandwidth),
        fitting.lasts(host, 0, all_of_it, _by(want.iops, count), fitting.total(need.read_bytes, need.write_bytes)),
    )
    found = [seconds for seconds in told if seconds is not None]
    return min(found) if found else None


def marks(
    need: Demand, catalogue: Catalogue, node: Node, layout: Layout, options: Options, burst: float | None,
    unpriced: str,
) -> Iterator[str]:  # fmt: skip
    """What a reader has to know besides the limits: old entries, bursts, what was not considered."""
    for name in (node.volume.name, node.instance):
        if said := stale(name, catalogue.entries[name], options.today):
            yield said
    if need.capacity is None:
        yield "capacity was not considered: the smallest size with this performance"
    if burst is not None:
        yield f"only with burst credits: full buckets last {burst / 60:,.3g} min at this rate"
    if catalogue.entries[node.volume.name].pooled:
        yield f"{node.volume.name}: all disks of this kind share the limits, so a stripe gains nothing"
    if layout != "single" and layout != "stripe":
        yield "the mirror's own I/O for its metadata is not counted"
    if layout == "zones":
        yield "the round trip between the zones adds to each write and flush: that is measured, not computed"
    if need.flushes is not None:
        yield f"{need.flushes:,.0f} flushes per second are not counted as I/Os; they need latency, not IOPS"
    if unpriced:
        yield unpriced


def costs(catalogue: Catalogue, node: Node, nodes: int) -> tuple[float | None, str, str]:
    """(a month's cost of all nodes, its currency, why there is none although a price is there)."""
    volume, entry, host = node.volume, catalogue.entries[node.volume.name], catalogue.entries[node.instance]
    free_iops, free_bandwidth = included(entry)
    each = cost_of(
        entry.price, volume.gib, max(0.0, (volume.paid_iops or 0) - free_iops),
        max(0.0, (volume.paid_bandwidth or 0) - free_bandwidth),
    )  # fmt: skip
    machine = cost_of(host.price)
    if each is None and machine is None:
        return None, "", ""
    if each is None or machine is None:
        missing = volume.name if each is None else node.instance
        return None, "", f"no cost: {missing} has no price"
    assert entry.price is not None and host.price is not None
    if entry.price.currency != host.price.currency:
        told = f"{entry.price.currency or 'none'} and {host.price.currency or 'none'}"
        return None, "", f"no cost: prices in different currencies, {told}"
    return nodes * (node.count * each + machine), entry.price.currency, ""


def layers(entry: Entry, node: Node, layout: Layout) -> Iterator[dict[str, Any]]:
    """The layers of a study's stack, as plain data for YAML."""
    volume = node.volume
    bottom: dict[str, Any] = {"layer": "volume", "profile": volume.name, "provisioned": f"{volume.gib}GiB"}
    if node.count > 1:
        bottom["count"] = node.count
    if volume.paid_iops is not None:
        bottom["iops"] = volume.paid_iops
    if volume.paid_bandwidth is not None:
        size = fitting.unit_of(entry)
        whole = volume.paid_bandwidth % size == 0
        told = f"{volume.paid_bandwidth / size:.0f}{'MB' if size == 10**6 else 'MiB'}/s"
        bottom["bandwidth"] = told if whole else f"{volume.paid_bandwidth:.0f}B/s"
    yield bottom
    if node.count > 1:
        yield {"layer": "stripe", "chunk": f"{_chunk(entry) // 1024}KiB"}
    yield {"layer": "cap", "profile": node.instance}
    if layout in ("mirror", "zones"):
        yield {"layer": "drbd", "peer": "a2", "link": "zone" if layout == "mirror" else "zones"}


def _chunk(entry: Entry) -> int:
    """A stripe's chunk that does not cut what the volume counts as one I/O."""
    wanted = max(LEAST_CHUNK, min(MOST_CHUNK, entry.io_most or CHUNK))
    return 1 << math.ceil(math.log2(wanted))

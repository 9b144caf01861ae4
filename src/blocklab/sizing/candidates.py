"""Candidates: the smallest volumes and instances of a cloud that carry a need, with the arithmetic.

Pure. A limit holds for what is needed with the headroom that the need has already. Of what is not known nothing is
assumed: that limit is not checked, and the candidate says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from blocklab.errors import StudyError
from blocklab.model.units import Size
from blocklab.sizing import arithmetic, fitting
from blocklab.sizing.catalogue import Catalogue
from blocklab.sizing.choice import MORE, Candidate, Demand, Layout, Limit, Misfit, Node, Options
from blocklab.sizing.fitting import EXACT, Count, Want
from blocklab.study.profiles import GIB, Entry

__all__ = ["Candidate", "Demand", "Misfit", "Options", "candidates"]


class _Lack(msgspec.Struct, frozen=True):
    """Why a choice does not fit: ``over`` is need / limit, ``text`` tells it."""

    over: float
    text: str
    of_instance: bool = False


def candidates(
    need: Demand, catalogue: Catalogue, clouds: Sequence[str] = (), options: Options | None = None
) -> list[Candidate | Misfit]:
    """The smallest fitting choice of each layout, cloud by cloud, or why there is none.

    Kinds of volumes are tried in the order of the catalogue, then few volumes before many, then the smallest
    instance by vCPUs and memory. Raises ``StudyError`` for a cloud or an instance that is not in the catalogue,
    for a need that is no number, and where neither I/Os nor bytes per second are known.
    """
    options = options or Options()
    need = _whole(need)
    for cloud in clouds or catalogue.clouds():
        _known(catalogue, cloud, options)
    found: list[Candidate | Misfit] = []
    for cloud in clouds or catalogue.clouds():
        if options.instance and catalogue.entries[options.instance].cloud != cloud:
            continue
        for layout in options.layouts:
            found += _of_layout(need, catalogue, cloud, layout, options)
    return found


def _of_layout(
    need: Demand, catalogue: Catalogue, cloud: str, layout: Layout, options: Options
) -> Iterator[Candidate | Misfit]:
    lacks: list[_Lack] = []
    some = False
    for node in _nodes(need, catalogue, cloud, layout, options, lacks):
        some = True
        yield _candidate(need, catalogue, cloud, layout, options, node)
        if not options.every:
            return
    if not some:
        yield Misfit(cloud=cloud, layout=layout, reason=_nearest(lacks, cloud, layout, options))


def _nearest(lacks: Sequence[_Lack], cloud: str, layout: Layout, options: Options) -> str:
    if lacks:
        # Volumes that do without an instance that does are nearer than volumes that do not.
        return min(lacks, key=lambda lack: (not lack.of_instance, lack.over)).text
    if layout == "stripe" and options.most_volumes < 2:
        return "a stripe needs two volumes"
    return f"{cloud} has no volume {'of these kinds ' if options.kinds else ''}that this layout can have"


def _nodes(
    need: Demand, catalogue: Catalogue, cloud: str, layout: Layout, options: Options, lacks: list[_Lack]
) -> Iterator[Node]:
    """The first fitting node of each kind of volume."""
    for kind, names in catalogue.kinds(cloud).items():
        if options.kinds and kind not in options.kinds:
            continue
        entry = catalogue.entries[names[0]]
        counts: Sequence[int] = range(1, options.most_volumes + 1)
        if layout == "single" or entry.pooled:
            counts = (1,)
        if layout == "stripe":
            counts = [count for count in range(2, options.most_volumes + 1) if not entry.pooled]
        lacking: list[_Lack] = []
        for count in counts:
            node = _node(need, catalogue, cloud, layout, options, kind, names, count, lacking)
            if node is not None:
                yield node
                break
        else:
            # Where enough volumes do, it is for the instance; else for the volumes, however many.
            of_instance = [lack for lack in lacking if lack.of_instance]
            lacks += [min(of_instance, key=lambda lack: lack.over)] if of_instance else lacking[-1:]


def _node(
    need: Demand, catalogue: Catalogue, cloud: str, layout: Layout, options: Options, kind: str,
    names: Sequence[str], count: int, lacks: list[_Lack],
) -> Node | None:  # fmt: skip
    """The smallest volume of a kind, so many times, and the smallest instance for them."""
    entry = catalogue.entries[names[0]]
    reads, writes = _counts(need, entry)
    want = _want(need, reads, writes, count)
    volume = None
    for name in names:
        volume = fitting.smallest(name, catalogue.entries[name], want, bursts=options.bursts)
        if volume is not None:
            break
    if volume is None:
        name = max(names, key=lambda each: catalogue.entries[each].size or 0)
        lacks.append(_lack_of_volume(name, catalogue.entries[name], want, count, options))
        return None
    instance = _instance(need, catalogue, cloud, layout, options, kind, count, (reads, writes), lacks)
    if instance is None:
        return None
    return Node(kind=kind, volume=volume, count=count, instance=instance, reads=reads, writes=writes)


def _counts(need: Demand, entry: Entry) -> tuple[Count, Count]:
    return (
        fitting.count(need.read_iops, need.read_bytes, need.read_size, entry),
        fitting.count(need.write_iops, need.write_bytes, need.write_size, entry),
    )


def _want(need: Demand, reads: Count, writes: Count, count: int) -> Want:
    """One volume's part: a stripe spreads its workload evenly."""

    def part(value: float | None) -> float | None:
        return None if value is None else value / count

    return Want(
        iops=part(fitting.total(reads.iops, writes.iops)),
        bandwidth=part(fitting.total(reads.bandwidth, writes.bandwidth)),
        read_iops=part(reads.iops), write_iops=part(writes.iops),
        read_bandwidth=part(reads.bandwidth), write_bandwidth=part(writes.bandwidth),
        gib=(need.capacity or 0) / GIB / count,
    )  # fmt: skip


def _instance(
    need: Demand, catalogue: Catalogue, cloud: str, layout: Layout, options: Options, kind: str, count: int,
    counts: tuple[Count, Count], lacks: list[_Lack],
) -> str | None:  # fmt: skip
    """The smallest instance whose limits hold; what the nearest lacks goes into ``lacks``."""
    found = [
        name for name in catalogue.instances(cloud, kind)
        if _asked_for(name, options) and _large_enough(catalogue.entries[name], options)
    ]  # fmt: skip
    nearest: _Lack | None = None
    for name in found:
        lack = _lack_of_instance(name, catalogue.entries[name], need, layout, options, count, counts)
        if lack is None:
            return name
        nearest = lack if nearest is None or lack.over < nearest.over else nearest
    if not found:
        nearest = _Lack(math.inf, _no_instance(cloud, kind, options))
    assert nearest is not None
    lacks.append(msgspec.structs.replace(nearest, of_instance=True))
    return None


def _no_instance(cloud: str, kind: str, options: Options) -> str:
    if options.instance:
        return f"{options.instance}: the catalogue has no limits of it for {kind}, or it is smaller than asked for"
    least = [f"{options.vcpus:,} vCPUs"] if options.vcpus else []
    least += [f"{options.memory / GIB:,.4g} GiB of memory"] if options.memory else []
    asked = f" that has {' and '.join(least)}" if least else ""
    return f"{cloud}: the catalogue has no instance for {kind}{asked}"


def _asked_for(name: str, options: Options) -> bool:
    return options.instance in ("", name) or name.startswith(f"{options.instance}-with-")


def _large_enough(entry: Entry, options: Options) -> bool:
    return (entry.vcpus or 0) >= options.vcpus and (not options.memory or (entry.memory or 0) >= options.memory)


def _lack_of_instance(
    name: str,
    entry: Entry,
    need: Demand,
    layout: Layout,
    options: Options,
    count: int,
    counts: tuple[Count, Count],
) -> _Lack | None:
    """The limit of an instance that is exceeded most; None where all hold."""
    worst: _Lack | None = None
    for limit in arithmetic.instance_limits(name, entry, need, layout, options, counts):
        if limit.share is not None and limit.share > EXACT and (worst is None or limit.share > worst.over):
            worst = _Lack(limit.share, f"{name}: {limit.line}: {_over(limit)}")
    if entry.disks is not None and count > entry.disks and worst is None:
        worst = _Lack(count / entry.disks, f"{name} takes {entry.disks} volumes, not {count}")
    return worst


def _lack_of_volume(name: str, entry: Entry, want: Want, count: int, options: Options) -> _Lack:
    """What the largest volume of a kind lacks."""
    most = fitting.sizes(entry)[1]
    if want.gib > most * EXACT:
        said = f"{arithmetic.times(count, name)}: {want.gib * count:,.0f} GiB needed, {count * most:,} at most"
        return _Lack(want.gib / most, f"{said}: {_percent(want.gib / most)}")
    volume = fitting.at(name, entry, most, want)
    limits = fitting.usable(entry, most, volume.iops, volume.bandwidth, bursts=options.bursts)
    worst = _Lack(1.0, f"{arithmetic.times(count, name)}: the largest is not enough")
    pairs = [
        ("IOPS", "IOPS", want.iops, limits.iops), ("throughput", "B/s", want.bandwidth, limits.bandwidth),
        ("read IOPS", "IOPS", want.read_iops, entry.read_iops),
        ("write IOPS", "IOPS", want.write_iops, entry.write_iops),
        ("read throughput", "B/s", want.read_bandwidth, entry.read_bandwidth),
        ("write throughput", "B/s", want.write_bandwidth, entry.write_bandwidth),
    ]  # fmt: skip
    for what, unit, value, limit in pairs:
        if value is not None and limit and value / limit > worst.over:
            row = arithmetic.limit_row(what, unit, value * count, limit * count, entry)
            worst = _Lack(value / limit, f"{arithmetic.times(count, name)} at most: {row.line}: {_over(row)}")
    return worst


def _over(limit: Limit) -> str:
    assert limit.need is not None and limit.limit is not None and limit.share is not None
    return _percent(limit.share)


def _percent(share: float) -> str:
    return f"{(share - 1) * 100:,.3g} % over"


# -- a candidate -------------------------------------------------------------------------------------------------


def _candidate(
    need: Demand, catalogue: Catalogue, cloud: str, layout: Layout, options: Options, node: Node
) -> Candidate:
    volume, entry = node.volume, catalogue.entries[node.volume.name]
    host = catalogue.entries[node.instance]
    nodes = 2 if layout in ("mirror", "zones") else 1
    want = _want(need, node.reads, node.writes, node.count)
    limits = (
        *arithmetic.volume_limits(entry, node, want, options),
        *arithmetic.instance_limits(node.instance, host, need, layout, options, (node.reads, node.writes)),
    )
    checked = [limit for limit in limits if limit.checked]
    breaks = tuple(limit.name for limit in checked if (limit.share or 0) * MORE > EXACT)
    burst = arithmetic.burst_of(need, catalogue, node, want, options)
    cost, currency, unpriced = arithmetic.costs(catalogue, node, nodes)
    return Candidate(
        cloud=cloud, layout=layout, kind=node.kind, volume=volume.name, count=node.count, nodes=nodes,
        size=Size(f"{volume.gib}GiB"), instance=node.instance, iops=volume.paid_iops,
        bandwidth=volume.paid_bandwidth, limits=limits,
        lines=tuple(arithmetic.lines(need, entry, node, nodes, limits)),
        binds=max(checked, key=lambda limit: limit.hard or 0).name if checked else "",
        breaks=breaks, after=_after(need, catalogue, cloud, layout, options) if breaks else "",
        unchecked=tuple(limit.name for limit in limits if not limit.checked and not _unlimited(limit)),
        marks=tuple(arithmetic.marks(need, catalogue, node, layout, options, burst, unpriced)),
        cost=cost, currency=currency, burst=burst, layers=tuple(arithmetic.layers(entry, node, layout)),
        profiles={name: catalogue.own[name] for name in (volume.name, node.instance) if name in catalogue.own},
    )  # fmt: skip


def _unlimited(limit: Limit) -> bool:
    """A volume that has no such limit, by its entry."""
    return limit.limit is None and limit.need is not None and limit.name.startswith("volume")


def _after(need: Demand, catalogue: Catalogue, cloud: str, layout: Layout, options: Options) -> str:
    """What carries 1.2 times the workload in the same layout."""
    lacks: list[_Lack] = []
    for node in _nodes(need.times(MORE), catalogue, cloud, layout, options, lacks):
        volume = node.volume
        asked = [f"{volume.gib:,} GiB"]
        if volume.paid_iops is not None:
            asked.append(f"{volume.paid_iops:,} IOPS")
        if volume.paid_bandwidth is not None:
            size = fitting.unit_of(catalogue.entries[volume.name])
            asked.append(
                f"{arithmetic.rate(volume.paid_bandwidth, 'B/s', size)} {arithmetic.unit_name('B/s', size)}"
            )
        return f"{arithmetic.times(node.count, volume.name)} of {', '.join(asked)} on {node.instance}"
    return f"nothing: {_nearest(lacks, cloud, layout, options)}"


# -- the need ----------------------------------------------------------------------------------------------------


def _whole(need: Demand) -> Demand:
    """The need with what follows from the rest of it. Raises ``StudyError``."""
    for field in need.__struct_fields__:
        value = getattr(need, field)
        if value is not None and not (0 <= value < math.inf):
            raise StudyError(f"need.{field}", f"{value}: must be a number, 0 or more")
    found: dict[str, float | None] = {}
    for way in ("read", "write"):
        iops, each, size = (getattr(need, f"{way}_{what}") for what in ("iops", "bytes", "size"))
        if iops == 0 or each == 0:
            iops, each = 0.0, 0.0
        elif iops is None and each is not None and size:
            iops = each / size
        elif each is None and iops is not None and size:
            each = iops * size
        if not size and iops and each is not None:
            size = each / iops
        found |= {f"{way}_iops": iops, f"{way}_bytes": each, f"{way}_size": size or None}
    whole: Demand = msgspec.structs.replace(need, **found)
    if None in (whole.read_iops, whole.write_iops) and None in (whole.read_bytes, whole.write_bytes):
        problem = "neither the I/Os nor the bytes per second of reads and writes together are known"
        raise StudyError("need", problem, hint="without them there is nothing to choose by")
    return whole


def _known(catalogue: Catalogue, cloud: str, options: Options) -> None:
    if cloud not in catalogue.clouds():
        raise StudyError("", f"the catalogue has no cloud {cloud!r}; it has {', '.join(catalogue.clouds())}")
    if options.instance:
        entry = catalogue.entries.get(options.instance)
        if entry is None or entry.vcpus is None:
            raise StudyError("", f"the catalogue has no instance {options.instance!r}; see docs/reference")

"""The arithmetic of the catalogue's rules: how requests count, what a volume of a size has, which is enough.

Pure; rates are I/Os per second and bytes per second, sizes whole GiB.
"""

from __future__ import annotations

import math

import msgspec

from blocklab.study.profiles import GIB, Entry, clamped, sized_bandwidth, sized_iops

# Where an entry does not say how small or large its volumes are: what all clouds have.
LEAST_GIB, MOST_GIB = 1, 65536
# Shares are sums and products of floats; a limit that is met exactly holds.
EXACT = 1 + 1e-9


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """One direction's requests as a volume counts them: ``each`` I/Os a request, in all ``iops``, ``bandwidth``.

    None: not known. ``size`` is the mean request in bytes.
    """

    iops: float | None = None
    bandwidth: float | None = None
    each: int = 1
    size: float | None = None


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """What one volume or one instance has to give; None is not known. ``gib``: the room that it has to have."""

    iops: float | None = None
    bandwidth: float | None = None
    read_iops: float | None = None
    write_iops: float | None = None
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None
    gib: float = 0


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """One volume as built: its limits (None: it has none), and the most that its kind can have, ``most_iops`` and
    ``most_bandwidth``. ``paid_iops`` and ``paid_bandwidth`` are what is asked for, None where that cannot be."""

    name: str
    gib: int
    iops: float | None = None
    bandwidth: float | None = None
    most_iops: float | None = None
    most_bandwidth: float | None = None
    paid_iops: int | None = None
    paid_bandwidth: float | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What may be used, with bursts where they are allowed; ``base_*`` without."""

    iops: float | None
    bandwidth: float | None
    base_iops: float | None
    base_bandwidth: float | None


def count(iops: float | None, bandwidth: float | None, size: float | None, entry: Entry) -> Count:
    """Requests of one direction as an entry counts them, all at the mean size.

    Requests larger than ``io_most`` are split; where the size is not known each counts once. ``io_least`` is what
    an I/O counts as at least. Sequential requests are not taken as merged: that needs luck.
    """
    each = math.ceil(size / entry.io_most) if size and entry.io_most else 1
    total = None if iops is None else iops * each
    if entry.io_least is not None and total is not None:
        bandwidth = max(bandwidth or 0, total * entry.io_least)
    return Count(iops=total, bandwidth=bandwidth, each=max(each, 1), size=size)


def total(*parts: float | None) -> float | None:
    """The sum; None if a part is not known."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def sizes(entry: Entry) -> tuple[int, int]:
    """(smallest, largest) volume in GiB."""
    if entry.size is not None:
        return entry.size // GIB, entry.size // GIB
    least = LEAST_GIB if entry.size_least is None else math.ceil(entry.size_least / GIB)
    return least, MOST_GIB if entry.size_most is None else entry.size_most // GIB


def at(name: str, entry: Entry, gib: int, want: Want) -> Volume:
    """A volume of a size, with as many IOPS and as much bandwidth asked for as are wanted and can be had."""
    if entry.sold is not None:
        return _raised(name, entry, gib, want)
    paid = None
    iops: float | None = entry.iops or None
    if entry.iops_per_gib and entry.iops_provisioned:
        asked = max(want.iops or 0, _iops_for(entry, want.bandwidth), entry.iops_least, 1)
        paid = max(1, min(_up(asked), sized_iops(entry, gib * GIB)))
        iops = paid
    elif entry.iops_per_gib:
        iops = max(entry.iops_least, sized_iops(entry, gib * GIB))
    return Volume(
        name=name, gib=gib, iops=iops, bandwidth=_bandwidth(entry, gib, iops), paid_iops=paid,
        most_iops=_most_iops(entry, iops), most_bandwidth=_most_bandwidth(entry, gib),
    )  # fmt: skip


def _raised(name: str, entry: Entry, gib: int, want: Want) -> Volume:
    sold, own_iops, own_bandwidth = entry.sold, entry.iops or 0, entry.bandwidth or 0
    assert sold is not None
    cap = min(sold.iops_most, max(own_iops, int(gib * sold.iops_per_gib)))
    # Bandwidth above what the own IOPS allow needs more of them.
    for_bandwidth = (want.bandwidth or 0) / sold.bandwidth_per_io if (want.bandwidth or 0) > own_bandwidth else 0
    iops = min(cap, max(own_iops, _up(want.iops or 0), _up(for_bandwidth)))
    most = min(sold.bandwidth_most, max(own_bandwidth, iops * sold.bandwidth_per_io))
    unit = unit_of(entry)
    bandwidth = float(min(most, max(own_bandwidth, _up((want.bandwidth or 0) / unit) * unit)))
    return Volume(
        name=name, gib=gib, iops=iops, bandwidth=bandwidth, paid_iops=iops, paid_bandwidth=bandwidth,
        most_iops=sold.iops_most, most_bandwidth=sold.bandwidth_most,
    )  # fmt: skip


def _up(value: float) -> int:
    """Rounded up; what is a whole number but for the last digits of a float stays it."""
    return math.ceil(value / EXACT)


def _iops_for(entry: Entry, bandwidth: float | None) -> float:
    return (bandwidth or 0) / entry.bandwidth_per_io if entry.bandwidth_per_io else 0


def _bandwidth(entry: Entry, gib: int, iops: float | None) -> float | None:
    if entry.bandwidth_per_io is not None and iops:
        return clamped(entry, iops * entry.bandwidth_per_io)
    if entry.bandwidth_per_gib is not None:
        return sized_bandwidth(entry, gib * GIB)
    return entry.bandwidth or None


def _most_iops(entry: Entry, iops: float | None) -> float | None:
    if not entry.iops_per_gib:
        return iops
    return max(entry.iops_least, sized_iops(entry, sizes(entry)[1] * GIB))


def _most_bandwidth(entry: Entry, gib: int) -> float | None:
    largest = sizes(entry)[1]
    return _bandwidth(entry, largest, _most_iops(entry, entry.iops or None))


def unit_of(entry: Entry) -> int:
    """MB or MiB, in bytes: what the cloud tells its values in, e.g. 10^6 for 125MB/s."""
    told = entry.bandwidth or entry.bandwidth_most or 0
    return 10**6 if told and told % 10**6 == 0 else 2**20


def usable(entry: Entry, gib: int, iops: float | None, bandwidth: float | None, *, bursts: bool) -> Limits:
    """The limits of a volume or an instance, with what credits add where ``bursts`` allows it."""
    more_iops, more_bandwidth = iops, bandwidth
    if bursts and iops is not None and entry.burst_iops:
        more_iops = max(iops, entry.burst_iops)
    if bursts and entry.credit is not None:
        if iops is not None and entry.credit.iops is not None:
            more_iops = max(iops, entry.credit.iops)
        if bandwidth is not None and (added := _burst_bandwidth(entry, gib)) is not None:
            more_bandwidth = max(bandwidth, added)
    return Limits(iops=more_iops, bandwidth=more_bandwidth, base_iops=iops, base_bandwidth=bandwidth)


def _burst_bandwidth(entry: Entry, gib: int) -> float | None:
    credit = entry.credit
    if credit is None:
        return None
    if credit.bandwidth_per_gib is None:
        return credit.bandwidth
    grown = credit.bandwidth_per_gib * gib
    return grown if credit.bandwidth is None else min(credit.bandwidth, grown)


def lasts(entry: Entry, gib: int, limits: Limits, iops: float | None, bandwidth: float | None) -> float | None:
    """Seconds that full buckets last at these rates; None where nothing is above the base.

    A bucket holds what the full burst uses above the base in its time; it is emptied by what is used above it.
    """
    found: list[float] = []
    if iops is not None and limits.base_iops is not None and iops > limits.base_iops * EXACT:
        if entry.credit is not None and entry.credit.iops is not None:
            bucket = (entry.credit.iops - limits.base_iops) * entry.credit.seconds
        else:
            bucket = float((entry.burst_iops or 0) * (entry.burst_seconds or 0))
        found.append(bucket / (iops - limits.base_iops))
    if bandwidth is not None and limits.base_bandwidth is not None and bandwidth > limits.base_bandwidth * EXACT:
        credit = entry.credit
        top = _burst_bandwidth(entry, gib) or limits.base_bandwidth
        seconds = credit.seconds if credit is not None else 0
        held = credit.bytes_per_gib * gib if credit is not None and credit.bytes_per_gib else None
        bucket = (top - limits.base_bandwidth) * seconds if held is None else float(held)
        found.append(bucket / (bandwidth - limits.base_bandwidth))
    return min(found) if found else None


def enough(entry: Entry, limits: Limits, want: Want) -> bool:
    """Whether limits hold for what is wanted; what is not known is not looked at."""
    pairs = (
        (want.iops, limits.iops), (want.bandwidth, limits.bandwidth),
        (want.read_iops, entry.read_iops), (want.write_iops, entry.write_iops),
        (want.read_bandwidth, entry.read_bandwidth), (want.write_bandwidth, entry.write_bandwidth),
    )  # fmt: skip
    return all(not limit or need is None or need <= limit * EXACT for need, limit in pairs)


def smallest(name: str, entry: Entry, want: Want, *, bursts: bool = False) -> Volume | None:
    """The smallest volume of an entry that has what is wanted; None where the largest has not.

    All that a rule makes of a size grows with it, so halving finds it.
    """
    least, most = sizes(entry)
    least = max(least, _up(want.gib)) if entry.size is None else least

    def fits(gib: int) -> bool:
        volume = at(name, entry, gib, want)
        limits = usable(entry, gib, volume.iops, volume.bandwidth, bursts=bursts)
        return gib * EXACT >= want.gib and enough(entry, limits, want)

    if least > most or not fits(most):
        return None
    while least < most:
        middle = (least + most) // 2
        if fits(middle):
            most = middle
        else:
            least = middle + 1
    return at(name, entry, least, want)

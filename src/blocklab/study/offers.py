"""What an entry of the profiles offers beside its values: more for money, bursts, its price."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from blocklab.model.units import Bandwidth, Size


class Sold(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How far the IOPS and the bandwidth of a volume can be raised by paying for more.

    What a volume has without that are the entry's own ``iops`` and ``bandwidth``.

    Example::

        profiles:
          like-gp3:
            cloud: us
            iops: 3000
            bandwidth: 125MiB/s
            sold: {iops_per_gib: 500, iops_most: 80000, bandwidth_per_io: 0.25MiB, bandwidth_most: 2000MiB/s}
    """

    iops_per_gib: float
    """At most so many IOPS per GiB of the provisioned size, or the entry's ``iops`` if those are more."""
    iops_most: int
    """At most so many IOPS, however large the volume."""
    bandwidth_per_io: Size
    """At most so many bytes per second for each of the provisioned IOPS."""
    bandwidth_most: Bandwidth
    """At most so much bandwidth."""


class Credit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A burst above the entry's own limits, from a bucket of credits that what is not used refills.

    A burst that uses all of it lasts ``seconds`` from a full bucket; one that uses half of what the burst adds
    lasts twice as long. Only sizing uses it: an emulated volume keeps to its own limits.

    Example::

        profiles:
          like-p10: {iops: 500, bandwidth: 100MB/s, credit: {seconds: 1800, iops: 3500, bandwidth: 170MB/s}}
    """

    seconds: int = 0
    """How long the full burst lasts. Of ``bandwidth_per_gib`` it comes from ``bytes_per_gib``."""
    iops: int | None = None
    """I/Os per second during the burst."""
    bandwidth: Bandwidth | None = None
    """Bytes per second during the burst."""
    bandwidth_per_gib: Bandwidth | None = None
    """Bytes per second during the burst for each GiB of the provisioned size, at most ``bandwidth``."""
    bytes_per_gib: Size | None = None
    """The bucket, for each GiB of the provisioned size."""


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an entry costs a month. Only a user's own file has prices.

    Example::

        profiles:
          our-array:
            cloud: us
            iops: 40000
            price: {gib_month: 0.08, month: 70, currency: USD}
    """

    gib_month: float = 0
    """For each GiB of the provisioned size."""
    iops_month: float = 0
    """For each provisioned I/O per second above those that are included."""
    mibps_month: float = 0
    """For each provisioned MiB/s above what is included."""
    month: float = 0
    """For the volume or the instance itself."""
    currency: str = ""
    """Of all of them, e.g. ``USD``."""


def bad_numbers(field: str, part: Sold | Credit | Price, most: int) -> Iterator[tuple[str, str]]:
    """(field, problem) of numbers below 0 or above all bounds; ``field`` is where the part stands in its entry."""
    for name in part.__struct_fields__:
        value = getattr(part, name)
        if isinstance(value, int | float) and not 0 <= value <= most:
            yield f"{field}.{name}", f"{value}: must be 0 or more, and at most {most:,}"

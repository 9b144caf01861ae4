"""What the storage must carry: the busy hours of all systems together, at a stated percentile."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec
import numpy as np

from blocklab.errors import StudyError
from blocklab.sizing.curve import METRICS, Curve, mean, quantile, total
from blocklab.sizing.system import System

FORMAT = 1
HOUR = 3600.0
DAY = 24 * HOUR
# A mean over more than this hides the peak. Hourly reports are common practice, and a few minutes late.
LONGEST = 1.1 * HOUR
# 55 years of days: what lies further apart is a slip in a date.
_MOST_DAYS = 20_000

# 8-18   8:30-17:45   22-6   mon-fri 8-18   sat,sun 0-24
_BUSY = re.compile(
    r"(?:(?P<days>[a-z]{3}(?:[-,][a-z]{3})*) +)?(?P<from>\d{1,2}(?::\d\d)?)-(?P<to>\d{1,2}(?::\d\d)?)",
    re.IGNORECASE,
)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Busy(msgspec.Struct, frozen=True):
    """Hours of the day that count: from and to in seconds since midnight, past midnight where ``to`` is less;
    ``days`` from 0 for Monday."""

    start: int
    end: int
    days: tuple[int, ...] = tuple(range(7))
    text: str = ""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How the need is taken: ``percentile`` (0 to 100) of the time within the ``busy`` hours of ``zone``, times
    ``peak_factor`` where only long averages are known, times 1 + ``headroom`` (0.3 for 30 %)."""

    busy: Busy | None = None
    zone: tzinfo = UTC
    percentile: float = 99.0
    headroom: float = 0.0
    peak_factor: float | None = None
    left_out: tuple[str, ...] = ()


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """One rate. ``required`` is what the storage must carry: ``observed`` (the percentile over time), times the
    peak factor for long averages, and the headroom. ``mean`` and ``most`` are those of the time that counts,
    ``bound`` the sum of the single systems' percentiles, with factor and headroom. ``at``: when ``most`` began
    (seconds since the epoch), None where times are unknown, or there is one interval only. ``told``: the share of
    the time for which the statistics tell it."""

    required: float
    observed: float
    mean: float
    most: float
    bound: float
    unit: str
    at: float | None = None
    told: float = 1.0


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for together while ``by`` (``iops`` or ``bandwidth``) was at its percentile or above it,
    scaled so that ``by`` is what is required: 1/s and B/s. ``flushes`` (1/s): None where they are not known."""

    by: str
    read_iops: float
    write_iops: float
    read_bandwidth: float
    write_bandwidth: float
    flushes: float | None = None

    @property
    def iops(self) -> float:
        """Reads and writes."""
        return self.read_iops + self.write_iops

    @property
    def bandwidth(self) -> float:
        """Reads and writes, B/s."""
        return self.read_bandwidth + self.write_bandwidth

    @property
    def read_size(self) -> float | None:
        """Mean bytes of a read; None without any."""
        return self.read_bandwidth / self.read_iops if self.read_iops > 0 else None

    @property
    def write_size(self) -> float | None:
        """Mean bytes of a write; None without any."""
        return self.write_bandwidth / self.write_iops if self.write_iops > 0 else None


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One system's part: its own percentile of each rate, without headroom."""

    name: str
    product: str
    source: str
    trust: str
    files: tuple[str, ...]
    devices: tuple[str, ...]
    start: float | None
    end: float | None
    seconds: float
    resolution: float
    observed: Mapping[str, float]


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. ``amounts`` by the names of ``curve.METRICS``, as far as they are known.

    ``moments``: what was asked for together when the IOPS were highest and, where that is not the same, when the
    throughput was; none where the statistics do not tell reads and writes apart. ``peak_known``: False where only
    averages over more than an hour are there, and no factor was given. ``together``: whether all systems were seen
    at the same time; where they were not, the need is the sum of their own percentiles. ``left_out_seconds``: time
    in which not all systems were seen.
    """

    format: int
    amounts: Mapping[str, Amount]
    members: tuple[Member, ...]
    trust: str
    peak_known: bool
    together: bool
    percentile: float
    headroom: float
    peak_factor: float | None
    busy: str
    start: float | None
    end: float | None
    seconds: float
    resolution: float
    left_out_seconds: float
    left_out: tuple[str, ...]
    moments: tuple[Moment, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def gain(self) -> float | None:
        """What consolidation saves of the sum of the systems' own peaks: 0.2 for 20 %; None for one system."""
        iops = self.amounts.get("iops") or self.amounts.get("bandwidth")
        if iops is None or len(self.members) < 2 or not self.together or not iops.bound:
            return None
        return 1 - iops.required / iops.bound


_UNITS = dict.fromkeys(METRICS, "1/s") | {
    "bandwidth": "B/s", "read_bandwidth": "B/s", "write_bandwidth": "B/s", "concurrency": "1",
}  # fmt: skip


def busy_hours(text: str) -> Busy:
    """``8-18``, ``8:30-17``, ``22-6``, ``mon-fri 8-18``. Raises ``StudyError``."""
    match = _BUSY.fullmatch(text.strip())
    hint = "write it like 8-18, 22-6 or 'mon-fri 8-18'"
    if match is None:
        raise StudyError("", f"--busy {text}: no hours of a day", hint=hint)
    start, end = (_of_day(match[name]) for name in ("from", "to"))
    days = tuple(_days(match["days"].lower())) if match["days"] else tuple(range(7))
    if start in (end, DAY) or max(start, end) > DAY or not days:
        raise StudyError("", f"--busy {text}: no hours of a day", hint=hint)
    return Busy(start, end, days, text.strip())


def _of_day(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 3600 + int(minutes or 0) * 60


def _days(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last and last not in _DAYS):
            return
        a, b = _DAYS.index(first), _DAYS.index(last or first)
        yield from ((a + step) % 7 for step in range((b - a) % 7 + 1))


def need(systems: Sequence[System], options: Options) -> Need:
    """What all systems together need. Raises ``StudyError`` where the busy hours leave nothing."""
    remarks: list[str] = []
    observed = {system.name: _within(system.name, system.curve, options, remarks) for system in systems}
    scaled = {name: _scaled(name, curve, options, remarks) for name, curve in observed.items()}
    timed = not any(system.untimed for system in systems)
    seen, wanted = (_Together.of(list(curves.values()), timed) for curves in (observed, scaled))
    if seen.both is None:
        remarks.append(
            "the systems were not observed at the same time: the need is the sum of their own peaks, which is an "
            "upper bound"
        )
    amounts = {}
    for metric in METRICS:
        amount = _amount(metric, seen, wanted, options, timed=timed)
        if amount is not None:
            amounts[metric] = amount
    if not amounts:
        raise StudyError(
            "", "the statistics tell neither requests nor bytes", hint="docs/sizing.md lists what is read"
        )
    remarks += _partly(amounts)
    known = all(_peak_known(curve) for curve in observed.values()) or options.peak_factor is not None
    base = seen.both if seen.both is not None else seen.single[0]
    covered = max(float(curve.seconds.sum()) for curve in seen.single)
    return Need(
        format=FORMAT, amounts=amounts,
        members=tuple(_member(system, observed[system.name], options) for system in systems),
        trust=min(system.trust for system in systems).label, peak_known=known, together=seen.both is not None,
        percentile=options.percentile, headroom=options.headroom, peak_factor=options.peak_factor,
        busy=options.busy.text if options.busy else "", start=float(base.starts[0]) if timed else None,
        end=float(base.ends[-1]) if timed else None, seconds=float(base.seconds.sum()),
        resolution=float(np.median(base.resolution)),
        left_out_seconds=max(0.0, covered - float(base.seconds.sum())) if seen.both is not None else 0.0,
        left_out=options.left_out, moments=_moments(wanted, amounts, options),
        remarks=tuple(dict.fromkeys(remarks)),
    )  # fmt: skip


class _Together(msgspec.Struct, frozen=True):
    """The curves of all systems, and their sum; None where they were not seen at the same time."""

    single: list[Curve]
    both: Curve | None

    @staticmethod
    def of(curves: list[Curve], timed: bool) -> _Together:
        both = total(curves) if timed or len(curves) == 1 else None
        return _Together(curves, both if both is not None and len(both.starts) else None)

    @property
    def counted(self) -> list[Curve]:
        """What values are taken of and added up."""
        return self.single if self.both is None else [self.both]

    def percentile(self, metric: str, share: float) -> float:
        return sum(quantile(curve.values[metric], curve.seconds, share) for curve in self.counted)

    def bound(self, metric: str, share: float) -> float:
        """The sum of the systems' own percentiles."""
        return sum(quantile(curve.values[metric], curve.seconds, share) for curve in self.single)


def _scaled(name: str, curve: Curve, options: Options, remarks: list[str]) -> Curve:
    """Long averages times the peak factor; what is known in detail as it is."""
    long = curve.resolution > LONGEST
    if not long.any():
        if options.peak_factor is not None:
            remarks.append(f"{name}: its intervals are short, so --peak-factor is not applied to it")
        return curve
    longest = spelled(float(curve.resolution.max()))
    if options.peak_factor is None:
        remarks.append(
            f"{name}: average over {longest}: the peak is unknown; give statistics of an hour or less, or "
            "--peak-factor with what you know of its peak"
        )
        return curve
    remarks.append(f"{name}: average over {longest}, times the peak factor {options.peak_factor:g} as given")
    factor = np.where(long, options.peak_factor, 1.0)
    values = {metric: each * factor for metric, each in curve.values.items()}
    return Curve(curve.starts, curve.ends, curve.resolution, values)


def _peak_known(curve: Curve) -> bool:
    return bool((curve.resolution <= LONGEST).any())


def _within(name: str, curve: Curve, options: Options, remarks: list[str]) -> Curve:
    """The pieces within the busy hours."""
    if options.busy is None:
        return curve
    if (curve.resolution > LONGEST).any():
        remarks.append(
            f"{name}: --busy cannot be taken out of averages over more than an hour: they hold the nights"
        )
    first, last = float(curve.starts[0]), float(curve.ends[-1])
    windows = list(_windows(options.busy, first, last, options.zone))
    edges = np.array(sorted({edge for window in windows for edge in window}), dtype=float)
    cut = curve.cut(edges[(edges > first) & (edges < last)])
    middle = (cut.starts + cut.ends) / 2
    starts, ends = (np.array([window[side] for window in windows], dtype=float) for side in (0, 1))
    at = np.searchsorted(starts, middle, side="right") - 1
    found = cut.kept(
        (at >= 0) & (middle < ends[np.maximum(at, 0)]) if len(starts) else np.zeros(len(middle), bool)
    )
    if not len(found.starts):
        raise StudyError(
            "", f"--busy {options.busy.text}: {name} has no statistics within these hours",
            hint="--zone says of which zone they are",
        )  # fmt: skip
    return found


def _windows(busy: Busy, first: float, last: float, zone: tzinfo) -> Iterator[tuple[float, float]]:
    day = datetime.fromtimestamp(first, zone).date() - timedelta(days=1)
    for _ in range(_MOST_DAYS):
        midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
        if midnight.timestamp() > last:
            return
        end = busy.end if busy.end > busy.start else busy.end + DAY
        if day.weekday() in busy.days:
            # Wall clock times: an hour that a change of summer time takes away is not there.
            yield (
                (midnight + timedelta(seconds=busy.start)).timestamp(),
                (midnight + timedelta(seconds=end)).timestamp(),
            )
        day += timedelta(days=1)


def _amount(metric: str, seen: _Together, wanted: _Together, options: Options, *, timed: bool) -> Amount | None:
    """One rate; None where the statistics do not tell it of all systems."""
    told = [~np.isnan(curve.values[metric]) for curve in seen.counted]
    if not all(each.any() for each in told) or math.isnan(seen.bound(metric, 1.0)):
        return None
    share, grow = options.percentile / 100, 1 + options.headroom
    at = None
    # Of a single interval there is no peak to point to.
    if seen.both is not None and timed and len(seen.both.starts) > 1:
        at = float(seen.both.starts[int(np.nanargmax(seen.both.values[metric]))])
    return Amount(
        required=wanted.percentile(metric, share) * grow, observed=seen.percentile(metric, share),
        bound=wanted.bound(metric, share) * grow, at=at, unit=_UNITS[metric],
        most=sum(float(np.nanmax(curve.values[metric])) for curve in seen.counted),
        mean=sum(mean(curve.values[metric], curve.seconds) for curve in seen.counted),
        told=min(float(c.seconds[t].sum() / c.seconds.sum()) for c, t in zip(seen.counted, told, strict=True)),
    )  # fmt: skip


def _partly(amounts: Mapping[str, Amount]) -> Iterator[str]:
    for name, amount in amounts.items():
        if amount.told < 0.995:
            yield f"{name.replace('_', ' ')} is reported for {100 * amount.told:.0f} % of the time only"


# A moment that has this share of what another one asks for stands for it too.
_SAME = 0.98
_TOGETHER = ("read_iops", "write_iops", "read_bandwidth", "write_bandwidth")


def _moments(wanted: _Together, amounts: Mapping[str, Amount], options: Options) -> tuple[Moment, ...]:
    """When the IOPS were highest, and when the throughput was. Of systems that were not seen together their own
    percentiles are taken as if they were of one moment."""
    if any(name not in amounts for name in _TOGETHER):
        return ()
    share = options.percentile / 100
    found: list[Moment] = []
    for by in ("iops", "bandwidth"):
        rates = _rates(wanted, by, share)
        ways = ("read_iops", "write_iops") if by == "iops" else ("read_bandwidth", "write_bandwidth")
        base = sum(rates[name] for name in ways)
        if base > 0 and not any(getattr(each, by) >= _SAME * amounts[by].required for each in found):
            scale = amounts[by].required / base
            flushes = None if math.isnan(rates["flushes"]) else rates["flushes"] * scale
            found.append(Moment(by=by, flushes=flushes, **{name: rates[name] * scale for name in _TOGETHER}))
    return tuple(found)


def _rates(wanted: _Together, by: str, share: float) -> dict[str, float]:
    """The means over the time in which ``by`` was at its percentile or above it."""
    names = (*_TOGETHER, "flushes")
    if wanted.both is None:
        return {name: wanted.percentile(name, share) for name in names}
    with np.errstate(invalid="ignore"):
        high = wanted.both.kept(wanted.both.values[by] >= wanted.percentile(by, share))
    return {name: mean(high.values[name], high.seconds) for name in names}


def _member(system: System, seen: Curve, options: Options) -> Member:
    main = next(each for each in system.sources if each.main)
    own = {name: quantile(seen.values[name], seen.seconds, options.percentile / 100) for name in METRICS}
    return Member(
        name=system.name, product=system.product, source=main.name, trust=main.trust.label,
        files=tuple(str(file) for file in main.files), devices=main.devices,
        start=None if system.untimed else float(seen.starts[0]),
        end=None if system.untimed else float(seen.ends[-1]),
        seconds=float(seen.seconds.sum()), resolution=float(np.median(seen.resolution)),
        observed={name: value for name, value in own.items() if not math.isnan(value)},
    )  # fmt: skip


def spelled(seconds: float) -> str:
    """How long something is: ``72 h``, ``60 min``, ``10 s``."""
    if seconds >= 2 * HOUR:
        return f"{seconds / HOUR:.0f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.3g} s"

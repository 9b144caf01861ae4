"""Which of CloudWatch's metrics a label names, and the data points of each.

https://docs.aws.amazon.com/ebs/latest/userguide/using_cloudwatch_ebs.html: operations, bytes and times of a volume
are sums of a period; their average is that of one operation (Xen) or of one data point (Nitro). CloudWatch tells
the start of each period. A period without a data point is not 0: it is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from blocklab.formats.clock import Clock, Stamp
from blocklab.formats.found import MOST_BAD, Found, Points
from blocklab.formats.text import Bad, Refused, Text

METRIC = re.compile(
    r"(?<![A-Za-z])(?:Volume(?:(?:Read|Write)(?:Ops|Bytes)|Total(?:Read|Write)Time|Avg(?:Read|Write)Latency)"
    r"|EBS(?:Read|Write)(?:Ops|Bytes)|(?:Read|Write)(?:IOPS|Throughput|Latency))(?![A-Za-z])",
    re.IGNORECASE,
)
VOLUME_ID = re.compile(r"(?<![A-Za-z0-9])vol[-_]([0-9a-f]{8,17})(?![0-9A-Za-z])")
_INSTANCE_ID = re.compile(r"(?<![A-Za-z0-9])i-([0-9a-f]{8,17})(?![0-9A-Za-z])")
_STATISTIC = re.compile(r"(?<![A-Za-z])(Sum|Average|Avg|Maximum|Max|Minimum|Min|SampleCount)(?![A-Za-z])", re.I)
STATISTICS = ("Sum", "Average", "SampleCount", "Maximum", "Minimum")
# By the end of a metric's name in lower case (the first that fits): its unit, and whether a value is the sum of a
# period.
_UNITS: Mapping[str, tuple[str, bool]] = {
    "avgreadlatency": ("ms", False), "avgwritelatency": ("ms", False), "latency": ("s", False),
    "throughput": ("B/s", False), "iops": ("1/s", False), "ops": ("1", True), "bytes": ("B", True),
    "time": ("s", True),
}  # fmt: skip


def described(*texts: str) -> Points | None:
    """What labels say of a metric; the first text that tells something wins. None without a metric that counts."""
    metric = volume = instance = statistic = system = ""
    for text in texts:
        if not metric and (match := METRIC.search(text)):
            metric = match[0]
            rest = _STATISTIC.sub(" ", text.replace(metric, " ")).split()
            system = rest[0] if len(rest) == 1 and not metric.lower().startswith(("volume", "ebs")) else ""
        if not volume and (match := VOLUME_ID.search(text)):
            volume = f"vol-{match[1]}"
        if not instance and (match := _INSTANCE_ID.search(text)):
            instance = match[0]
        if not statistic and (match := _STATISTIC.search(text)):
            statistic = stated(match[0])
    if not metric:
        return None
    unit, summed = next(meaning for end, meaning in _UNITS.items() if metric.lower().endswith(end))
    return Points(
        metric=metric, unit=unit, summed=summed, values={}, statistic=statistic, device=volume,
        system=system or instance,
    )  # fmt: skip


def stated(word: str) -> str:
    """A statistic by one name: ``sum``, ``average``, ``maximum``, ``minimum``, ``samplecount``."""
    short = {"avg": "average", "max": "maximum", "min": "minimum"}
    return short.get(word.lower(), word.lower())


def of_path(path: Path) -> tuple[str, str]:
    """The file's name and its folder's, which may tell a volume."""
    return path.stem, path.parent.name


class Collected:
    """The metrics that were read, by what tells them apart, and what could not be used."""

    def __init__(self, text: Text, kind: str) -> None:
        self.text, self.kind = text, kind
        self.every: list[Points] = []
        self.bad: list[Bad] = []
        self.unknown: list[str] = []
        self.path = of_path(text.path)
        self.places: dict[Stamp, int] = {}

    def points(self, *labels: str) -> Points | None:
        """A metric by its labels, else by the file's name."""
        known = described(*labels)
        if known is None and any(METRIC.search(label) for label in self.path) and not _others(labels):
            known = described(*labels, *self.path)
        if known is None:
            self.unknown.append(next((label for label in labels if label), "?")[:60])
            return None
        if not known.device and known.metric.lower().startswith("volume"):
            other = described(known.metric, *self.path)
            known.device = other.device if other else ""
        return known

    def put(
        self, known: Points, at: Stamp | None, amount: float | None, line: int, shown: tuple[str, str]
    ) -> int | None:
        """One data point; its place, where it is one. ``shown``: time and value as they stand there."""
        when, value = (each[:40] for each in shown)
        if at is None or amount is None:
            self.bad.append(Bad(line, f"{known.metric}: {when} {value}"))
            return None
        place = self.places.setdefault(at, len(self.places))
        if known.values.setdefault(place, amount) != amount:
            self.bad.append(Bad(line, f"{known.metric}: {when} comes twice, with {amount:g} too"))
            return None
        return place

    def done(self) -> Found:
        """All metrics. Raises ``Refused`` without any."""
        remarks = list(self.text.remarks)
        if self.unknown:
            names = ", ".join(dict.fromkeys(self.unknown[:6]))
            remarks.append(f"no metric of what is sized: {names}: left out")
        if not self.every:
            raise Refused(
                "no metric of EBS (VolumeReadOps, VolumeWriteOps, VolumeReadBytes, ...), EC2 or RDS in it"
                + (f": {', '.join(dict.fromkeys(self.unknown[:3]))}" if self.unknown else "")
            )
        for each in self.every:
            if each.unit == "ms":
                each.unit, each.values = "s", {place: value * 1e-3 for place, value in each.values.items()}
        return Found(
            kind=self.kind, path=self.text.path, rows=sum(len(each.values) for each in self.every),
            bad=len(self.bad), bad_rows=tuple(self.bad[:MOST_BAD]), clock=Clock(tuple(self.places)),
            points=tuple(self.every), remarks=tuple(remarks),
        )  # fmt: skip


def _others(labels: Sequence[str]) -> bool:
    """Whether labels name a metric that is none of ours, as CloudWatch writes it: BurstBalance."""
    return any(re.search(r"[A-Z][a-z]+[A-Z]", label) for label in labels)


def choose(known: Points, there: set[str]) -> None:
    """The statistic that means something, of those that are there."""
    for name in ("Sum", "Average") if known.summed else ("Average", "Maximum"):
        if name in there:
            known.statistic = stated(name)
            return
    known.statistic = stated(min(there)) if there else ""

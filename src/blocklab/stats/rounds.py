"""The rounds of a phase as one: its figures, and how much each differed from round to round."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from blocklab.model.sample import Parsed, Sample
from blocklab.store.run import Spread

# The last part of the names of figures that count something: of all rounds together.
_COUNTS = ("bytes", "ios", "count", "transactions", "errors", "failed", "skipped", "reconnects", "deadlocks",
           "checkpoints", "reads", "writes", "flushes", "packets", "updates")  # fmt: skip


# latency.p99, read.latency.p99.9, latency.min, latency.max, latency.stddev
_NO_MEAN = re.compile(r"\.(p\d[\d.]*|min|max|stddev)$")


def merged(rounds: Sequence[Parsed]) -> tuple[Parsed, tuple[Spread, ...]]:
    """What the rounds of one phase found: counts added up, the largest of largest values, the mean of all else.

    Rounds take equally long, so the mean of a rate is that of all rounds as one. A percentile is the mean of the
    rounds' percentiles. A figure that a round lacks (no read among few requests) counts there as 0 where it is a
    rate or a count, else the other rounds' hold.
    """
    values: dict[tuple[str, str, str, str, str], list[float | None]] = {}
    for number, parsed in enumerate(rounds):
        for sample in parsed.samples:
            if sample.time is None:
                key = (sample.phase, sample.metric, sample.unit, sample.layer, sample.host)
                values.setdefault(key, [None] * len(rounds))[number] = sample.value
    figures, spreads = [], []
    for (phase, metric, unit, layer, host), found in values.items():
        countable = unit in ("1/s", "1/min", "B/s") or metric.rpartition(".")[2] in _COUNTS
        whole = [value or 0.0 for value in found] if countable else [v for v in found if v is not None]
        figures.append(Sample(metric, _together(metric, whole), unit, layer, host, phase))
        spreads.append(Spread(phase, metric, layer, host, tuple(whole)))
    courses = [sample for parsed in rounds for sample in parsed.samples if sample.time is not None]
    return (
        Parsed(
            (*figures, *courses),
            tuple(phase for parsed in rounds for phase in parsed.phases),
            tuple(each for parsed in rounds for each in parsed.transactions),
        ),
        tuple(spreads),
    )


def _together(metric: str, values: Sequence[float]) -> float:
    if is_count(metric):
        return sum(values)
    return max(values) if is_largest(metric) else statistics.fmean(values)


def is_count(metric: str) -> bool:
    """Whether a figure's value is the sum over its rounds."""
    return metric.rpartition(".")[2] in _COUNTS


def is_mean(metric: str) -> bool:
    """Whether a figure is the mean of its course: a rate or a mean, no sum, percentile, extreme or deviation."""
    return not is_count(metric) and _NO_MEAN.search(metric) is None


def is_largest(metric: str) -> bool:
    """Whether a figure's value is the largest of its rounds'."""
    return metric.rpartition(".")[2] == "max"

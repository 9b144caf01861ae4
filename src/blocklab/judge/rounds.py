"""The rounds of a phase as one: its values, and how much each differed from round to round."""

from __future__ import annotations

from collections.abc import Sequence

from blocklab.model.metrics import metric
from blocklab.model.sample import Parsed, Sample, Spread


def merged(rounds: Sequence[Parsed]) -> tuple[Parsed, tuple[Spread, ...]]:
    """What the rounds of one phase found, each metric put together as ``model.metrics`` says.

    A metric that a round lacks (no read among few requests) counts there as 0 where it is a rate or a counter,
    else the other rounds' hold.
    """
    by_metric: dict[tuple[str, str, str, str, str], list[float | None]] = {}
    for number, parsed in enumerate(rounds):
        for sample in parsed.samples:
            if sample.time is None:
                key = (sample.phase, sample.metric, sample.unit, sample.layer, sample.host)
                by_metric.setdefault(key, [None] * len(rounds))[number] = sample.value
    values, spreads = [], []
    for (phase, name, unit, layer, host), found in by_metric.items():
        known = metric(name)
        whole = [value or 0.0 for value in found] if known.countable else [v for v in found if v is not None]
        values.append(Sample(name, known.together(whole), unit, layer, host, phase))
        spreads.append(Spread(phase, name, layer, host, tuple(whole)))
    timed = [sample for parsed in rounds for sample in parsed.samples if sample.time is not None]
    return (
        Parsed(
            (*values, *timed),
            tuple(phase for parsed in rounds for phase in parsed.phases),
            tuple(each for parsed in rounds for each in parsed.transactions),
        ),
        tuple(spreads),
    )

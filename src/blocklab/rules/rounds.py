"""The rounds of a phase as one: its values, and how much each differed from round to round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from blocklab.model.metrics import metric
from blocklab.model.sample import Parsed, Sample, Spread


def pooled(rounds: Sequence[Parsed], name: str, phase: str, host: str) -> float | None:
    """A percentile over all rounds' operations (s), by nearest rank; None where a round does not tell."""
    family, _, rank = name.rpartition(".p")
    bins: Counter[float] = Counter()
    for each in rounds:
        found = [h for h in each.histograms if (h.family, h.phase, h.host) == (family, phase, host)]
        if found:
            for latency, count in found[0].bins:
                bins[latency] += count
        elif family == "latency" and each.transactions:
            bins.update(done.latency for done in each.transactions)
        elif not any((sample.metric, sample.phase) == (name, phase) for sample in each.samples):
            # Nothing of the kind was done in it.
            continue
        else:
            return None
    wanted, seen = float(rank) / 100 * bins.total(), 0
    for latency in sorted(bins):
        seen += bins[latency]
        if seen >= wanted:
            return latency
    return None


def merged(rounds: Sequence[Parsed]) -> tuple[Parsed, tuple[Spread, ...]]:
    """What the rounds of one phase found, each metric put together as ``model.metrics`` says.

    A metric that a round lacks (no read among few requests) counts there as 0 where it is a rate or a counter,
    else the other rounds' hold. A percentile is that of the operations of all rounds where these are known, one by
    one or by their histograms.
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
        value = pooled(rounds, name, phase, host) if known.kind == "percentile" else None
        values.append(Sample(name, known.together(whole) if value is None else value, unit, layer, host, phase))
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

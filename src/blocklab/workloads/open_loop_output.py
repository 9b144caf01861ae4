"""What ``blocklab_node.open_loop`` prints (one line of JSON), as samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from blocklab.errors import ParseError, Unreadable
from blocklab.model import outside
from blocklab.model.metrics import each_of
from blocklab.model.sample import Parsed, Phase, Sample

LAYER = "open_loop"
WAYS = ("read", "write", "sync")
PERCENTILES = ("50", "95", "99", "99.9")
_LATENCIES = tuple(f"latency.{name}" for name in ("mean", "stddev", "max", *(f"p{each}" for each in PERCENTILES)))
# All that a phase may report.
METRICS = (
    *each_of(("read", "write"), ("iops", "ios", "bandwidth", "bytes", *_LATENCIES)),
    *each_of(("sync",), ("iops", "ios", *_LATENCIES)), "unfinished", "errors", "lag.mean", "lag.max",
)  # fmt: skip
_MOST_LISTED = 3


class _Lag(msgspec.Struct):
    mean: float
    max: float


class _Way(msgspec.Struct):
    """Counts, latencies in seconds; ``counts`` and ``sums`` (of latencies) of each second."""

    done: int
    in_time: int
    never: int
    lost: int
    mean: float
    stddev: float
    max: float
    percentiles: dict[str, float]
    counts: list[int]
    sums: list[float]


class _Phase(msgspec.Struct):
    name: str
    start: float
    seconds: float
    lag: _Lag
    errors: dict[str, int]
    ways: dict[str, _Way]


class _Output(msgspec.Struct):
    phases: list[_Phase]


def parse(out: bytes, err: bytes, host: str, sizes: Mapping[str, int], names: tuple[str, ...]) -> Parsed:
    """The values of each phase, and each second's; ``sizes``: bytes of a request of each way.

    Raises ``ParseError`` for output that is not whole, a phase that is missing, or one that did no I/O.
    """
    said = (err or out).decode(errors="replace")
    try:
        found = outside.typed_json(out.strip().rpartition(b"\n")[2] or b"", _Output, "").phases
    except Unreadable as error:
        raise ParseError(LAYER, f"its JSON cannot be read: {error}", said) from error
    if missing := [name for name in names if name not in {phase.name for phase in found}]:
        stuck = [f"{phase.name}: {_lost(phase)}" for phase in found if _lost(phase)]
        why = f" ({stuck[0]} requests never came back)" if stuck else ""
        raise ParseError(LAYER, f"no phase {missing[0]} in its output{why}", said)
    samples: list[Sample] = []
    for phase in found:
        if not any(way.done for way in phase.ways.values()):
            raise ParseError(LAYER, f"phase {phase.name}: no request was completed{_errors(phase)}", said)
        samples += _values(phase, host, sizes)
    return Parsed(tuple(samples), tuple(Phase(each.name, each.start, each.start + each.seconds) for each in found))


def _lost(phase: _Phase) -> int:
    return sum(way.lost for way in phase.ways.values())


def _errors(phase: _Phase) -> str:
    said = [f"{count} x {text}" for text, count in phase.errors.items()]
    return f" ({', '.join(said[:_MOST_LISTED])})" if said else ""


def _values(phase: _Phase, host: str, sizes: Mapping[str, int]) -> Iterator[Sample]:
    def row(metric: str, value: float, unit: str, time: float | None = None) -> Sample:
        return Sample(metric, float(value), unit, LAYER, host, phase.name, time)

    for name, way in phase.ways.items():
        yield row(f"{name}.iops", way.in_time / phase.seconds, "1/s")
        yield row(f"{name}.ios", way.done, "1")
        if sizes[name]:
            yield row(f"{name}.bandwidth", way.in_time * sizes[name] / phase.seconds, "B/s")
            yield row(f"{name}.bytes", way.done * sizes[name], "B")
        for metric, value in (("mean", way.mean), ("stddev", way.stddev), ("max", way.max)):
            yield row(f"{name}.latency.{metric}", value, "s")
        for percent in PERCENTILES:
            yield row(f"{name}.latency.p{percent}", way.percentiles[percent], "s")
        for second, (count, total) in enumerate(zip(way.counts, way.sums, strict=True), 1):
            time = phase.start + second
            yield row(f"{name}.iops", count, "1/s", time)
            if sizes[name]:
                yield row(f"{name}.bandwidth", count * sizes[name], "B/s", time)
            if count:
                yield row(f"{name}.latency.mean", total / count, "s", time)
    yield row("unfinished", sum(way.never + way.lost for way in phase.ways.values()), "1")
    yield row("errors", sum(phase.errors.values()), "1")
    yield row("lag.mean", phase.lag.mean, "s")
    yield row("lag.max", phase.lag.max, "s")

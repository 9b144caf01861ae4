"""JdbcRunner's log, or what it prints: the progress of each second, and the summary at the end."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from blocklab.formats.clock import Clock, Stamp, stamp
from blocklab.formats.found import Found, found_in
from blocklab.formats.text import Bad, Refused, Text
from blocklab.model.sample import Phase, Sample

LAYER = "jdbcrunner"

# jdbcrunner.log has dates, its standard output has none; with -trace the thread and the method stand there too:
# 2023-03-28 11:06:19 [INFO ] > JdbcRunner 1.3.1
# 13:23:23 [INFO ] tx0 : New-Order transaction
# 13:23:24 [INFO ] [Warmup] -299 sec, 24,23,4,2,6 tps, (24,23,4,2,6 tx)
# 11:07:30 [INFO ] [Progress] 60 sec, 4061 tps, 242795 tx
# 2011-10-11 00:29:51 [receiver] [jdbcrunner.Manager$Receiver#run] [Progress] 59 sec, 5060 tps, 279128 tx
_LINE = re.compile(r"^((?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d) \[[^]]*\](?: \[[\w.$#<>]+#[\w<>]+\])? (.*)$")
_SECOND = re.compile(r"\[Progress\] (\d{1,6}) sec, ([\d,]+) tps, ([\d,]+) tx")
# [Total tx count] 106943,106937,10695,10700,10694 tx
# [Throughput] 118.8,118.8,11.9,11.9,11.9 tps
# [Response time (90%tile)] 157,45,23,287,235 msec
_COUNT = re.compile(r"\[Total tx count\] ([\d,]+) tx")
_RATE = re.compile(r"\[Throughput\] (\d+\.\d+(?:,\d+\.\d+)*) tps")
_LATENCY = re.compile(r"\[Response time \((minimum|maximum|[0-9]+%tile)\)\] ([\d,]+) msec")
_TYPE = re.compile(r"tx([0-9]+) : (.+?)(?: transaction)?")
_NAMES = {"minimum": "min", "maximum": "max"}
# Program start time   : 20230331-132321
_STARTED = re.compile(r"^Program start time +: (\d{8}-\d{6})$")
# Measurement time     : 900 sec
_LASTS = re.compile(r"^Measurement time +: (\d{1,6}) sec$")
_BEGIN, _OURS = "> JdbcRunner ", ("[Warmup]", "[Progress]", "[Total tx", "[Throughput]", "[Response time")


class _Run(msgspec.Struct):
    """One call of JdbcRunner. ``rates`` by second of the measurement and kind, ``first`` one of them and when."""

    kinds: dict[int, str] = {}
    rates: dict[int, list[int]] = {}
    first: tuple[int, Stamp] | None = None
    counts: list[int] = []
    throughput: list[float] = []
    latencies: dict[str, list[int]] = {}
    started: datetime | None = None
    seconds: int = 0

    @property
    def measured(self) -> bool:
        """Whether it was under load: a call that loads tables has no progress."""
        return bool(self.rates or self.counts)


def fits(head: str) -> bool:
    """Whether this is JdbcRunner's."""
    lines = (match[2] for match in map(_LINE.match, head.split("\n")) if match)
    return any(line.startswith((_BEGIN, "[Warmup] ")) or _SECOND.fullmatch(line) for line in lines)


def read(text: Text) -> Found:
    """Values, time series and the one phase. Raises ``Refused`` without a summary, or of several runs."""
    bad: list[Bad] = []
    runs = [run for run in _runs(text.lines, bad) if run.measured]
    if len(runs) > 1:
        # JdbcRunner appends to its log.
        raise Refused(
            f"holds {len(runs)} measurements; cut it at the lines with '{_BEGIN.strip()}' into a file each"
        )
    run = runs[0] if runs else _Run()
    if not run.counts or len(run.throughput) != len(run.counts) or run.first is None:
        raise Refused("no summary of a measurement in it: it was stopped, or ended with an error")
    remarks: list[str] = []
    # Each second as a place in the clock; its own stamp may be late.
    seconds = sorted({0, *run.rates, run.seconds})
    samples = [*_values(run, remarks), *_series(run, seconds)]
    second, at = run.first
    if not at.numbers and run.started is not None:
        at = _dated(at, run.started)
        day = "-".join(f"{number:02}" for number in at.numbers)
        remarks.append(
            f"its times have no date: {day}, by its program start time ({run.started:%Y-%m-%d %H:%M:%S})"
        )
    stamps = tuple(msgspec.structs.replace(at, seconds=at.seconds + number - second) for number in seconds)
    return found_in(
        text, "jdbcrunner", bad=bad, remarks=remarks, rows=len(run.rates), tool="jdbcrunner",
        samples=tuple(samples), phases=(Phase(LAYER, 0.0, len(seconds) - 1.0),), clock=Clock(stamps),
    )  # fmt: skip


def _dated(at: Stamp, started: datetime) -> Stamp:
    """A time of the measurement with its day: the next one where the warm-up passes midnight."""
    begun = started - started.replace(hour=0, minute=0, second=0)
    day = started.date() + timedelta(days=at.seconds < begun.total_seconds())
    return Stamp((day.year, day.month, day.day), at.seconds, True, at.offset)


def _runs(lines: Sequence[str], bad: list[Bad]) -> Iterator[_Run]:
    run = _Run()
    for number, line in enumerate(lines, 1):
        match = _LINE.match(line)
        if match is None:
            if found := _STARTED.match(line):
                with contextlib.suppress(ValueError):
                    run.started = datetime.strptime(found[1], "%Y%m%d-%H%M%S")
            elif found := _LASTS.match(line):
                run.seconds = int(found[1])
            continue
        if match[2].startswith(_BEGIN):
            yield run
            run = _Run()
        elif not _take(run, match[1], match[2]) and match[2].startswith(_OURS):
            bad.append(Bad(number, line))
    yield run


def _take(run: _Run, time: str, said: str) -> bool:
    """Whether it is a whole line of a kind that is known."""
    if match := _SECOND.fullmatch(said):
        at = stamp(time)
        if at is None:
            return False
        run.rates[int(match[1])] = _whole(match[2])
        run.first = run.first or (int(match[1]), at)
    elif match := _COUNT.fullmatch(said):
        run.counts = _whole(match[1])
    elif match := _RATE.fullmatch(said):
        run.throughput = [float(part) for part in match[1].split(",")]
    elif match := _LATENCY.fullmatch(said):
        run.latencies[_NAMES.get(match[1]) or f"p{match[1].removesuffix('%tile')}"] = _whole(match[2])
    elif match := _TYPE.fullmatch(said):
        run.kinds[int(match[1])] = re.sub(r"\W+", "_", match[2].lower())
    else:
        return bool(re.fullmatch(r"\[Warmup\] -?\d+ sec, [\d,]+ tps, \([\d,]+ tx\)", said))
    return True


def _whole(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _values(run: _Run, remarks: list[str]) -> Iterator[Sample]:
    """Of all kinds of transactions together, and of each where there are several."""
    # To one decimal, the rate of a rare kind is not known.
    rates = [count / run.seconds for count in run.counts] if run.seconds else run.throughput
    names = [run.kinds.get(at, f"tx{at}") for at in range(len(rates))]
    if "new_order" in names:
        yield Sample("tpmc", 60 * rates[names.index("new_order")], "1/min", LAYER, "")
    yield Sample("tps", sum(rates), "1/s", LAYER, "")
    yield Sample("transactions", float(sum(run.counts)), "1", LAYER, "")
    several = len(rates) > 1
    below = 0
    for at, name in enumerate(names):
        prefix = f"{name}." if several else ""
        if several:
            yield Sample(f"{name}.count", float(run.counts[at]), "1", LAYER, "")
        for value, values in run.latencies.items():
            if at < len(values) and values[at]:
                yield Sample(f"{prefix}latency.{value}", values[at] / 1e3, "s", LAYER, "")
            below += at < len(values) and not values[at]
    remarks.append("its response times are whole milliseconds, cut off")
    if below:
        remarks.append(f"{below} of its response times are 0 msec, which is under 1 ms: left out")


def _series(run: _Run, seconds: Sequence[int]) -> Iterator[Sample]:
    new = next((at for at, name in run.kinds.items() if name == "new_order"), None)
    for at, second in enumerate(seconds):
        if rates := run.rates.get(second):
            yield Sample("tps", float(sum(rates)), "1/s", LAYER, "", time=float(at))
            if new is not None and new < len(rates):
                yield Sample("tpmc", 60.0 * rates[new], "1/min", LAYER, "", time=float(at))

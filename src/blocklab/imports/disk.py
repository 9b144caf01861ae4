"""A volume profile out of fio's JSON+: how long a user's own disk takes for requests that come one at a time."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.load.fio import json_file
from blocklab.formats.load.fio.report import Job, Output, distribution
from blocklab.formats.text import Refused, head, refusal, whole
from blocklab.layers.performance import quantiles
from blocklab.model.quantiles import at, distance
from blocklab.model.units import Duration

# What a table may have; of the greatest only those that MORE requests took longer than.
PERCENTS = (1, *range(5, 100, 5), 99, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999)
MORE = 10
# So that p99 is known.
LEAST = 1000
COMMAND = (
    "fio --name=disk --filename=FILE --size=1G --direct=1 --rw=randrw --bs=4k --ioengine=psync --time_based "
    "--runtime=120 --status-interval=1 --lat_percentiles=1 --output-format=json+ --output=disk.json"
)
# Fewer steps of --status-interval do not tell bursts from chance.
STEPS = 10
ALONE = "A table is drawn from for each request by itself: slow ones that came together then come one by one."
SPELLS = (
    "Instead of the table, a constant latency with slow spells keeps them together: {way}_latency: {median}, "
    "slow: {{times: ..., for: ..., every: ...}}."
)


# Keeps a pair on one line.
NBSP = "\u00a0"
_DRAWN = {
    True: "may be drawn from this distribution",
    False: "not to be drawn from a distribution, since slow ones came together",
    None: "unknown whether slow ones came together",
}


class Way(msgspec.Struct, frozen=True):
    """One direction: its requests, their latencies by quantile (and three of them in seconds), the
    Kolmogorov-Smirnov distance of the table. ``uneven``: how much more the slowest hundredth varied from step to
    step than independent requests would (the variance over the binomial's); None where no steps are known.
    ``drawn``: whether the table may be drawn from."""

    requests: int
    table: Mapping[str, str]
    p50: float
    p99: float
    p999: float
    distance: float
    uneven: float | None
    drawn: bool | None


class Disk(msgspec.Struct, frozen=True):
    """``ways`` by ``read`` and ``write``; ``said``: what the figures do not tell of."""

    source: str
    ways: Mapping[str, Way]
    said: tuple[str, ...]

    def entry(self) -> dict[str, object]:
        """The profile, as a study has it."""
        return {"source": self.source, **{f"{way}_quantiles": found.table for way, found in self.ways.items()}}


def disk(path: Path) -> Disk:
    """The profile of the disk that a file of fio's tells of. Raises ``Refused`` for one that does not tell what
    single requests took."""
    if not json_file.fits(head(path)):
        raise Refused("no JSON of fio's; a profile is made of its JSON+ only")
    try:
        reports = json_file.run_of(whole(path))
    except ParseError as error:
        raise refusal(error) from error
    output = reports[-1]
    options = [{**output.options, **job.options} for job in output.jobs]
    _alone(output.jobs, options)
    ways: dict[str, Way] = {}
    said = []
    for number, job in enumerate(output.jobs):
        for way in ("read", "write"):
            if not (count := getattr(job, way).total_ios):
                continue
            if way in ways:
                raise Refused(f"two of its jobs {way}; give each a file of its own")
            if count < LEAST:
                said.append(f"{count} {way}s are too few: left out")
                continue
            ways[way] = _way([_bins(report.jobs[number], way) for report in reports], way)
            said += _remarks(job, way, ways[way])
    if not ways:
        raise Refused(f"{'; '.join(said) or 'no I/O'}; {LEAST:,} tell what p99 is: let fio run longer (--runtime)")
    return Disk(_source(output, options, ways), ways, tuple(said))


def _alone(jobs: Sequence[Job], options: Sequence[Mapping[str, str]]) -> None:
    """Raises ``Refused`` where requests waited for each other, or for memory only."""
    for number, (job, mine) in enumerate(zip(jobs, options, strict=True)):
        if job.error:
            raise Refused(f"job {job.jobname} ended with error {job.error}")
        depth = mine.get("iodepth", "1")
        # An engine without a queue ignores what it was given.
        levels = job.iodepth_level or {depth: 100.0}
        if any(part > 0 for level, part in levels.items() if level != "1"):
            raise _queued(f"job {job.jobname} ran at queue depth {depth}")
        if (clones := mine.get("numjobs", "1")) != "1":
            raise _queued(f"job {job.jobname} ran {clones} times at once (numjobs)")
        if number and not {"stonewall", "wait_for_previous"} & mine.keys():
            raise _queued(f"jobs {jobs[number - 1].jobname} and {job.jobname} ran at the same time (no stonewall)")
        if mine.get("direct") != "1" and mine.get("buffered") != "0":
            raise Refused(f"job {job.jobname} went through the page cache; run fio with --direct=1")


def _queued(why: str) -> Refused:
    return Refused(f"{why}, so its latencies hold queueing; run one request at a time (iodepth=1, numjobs=1)")


def _bins(job: Job, way: str) -> Mapping[str, int]:
    """Of the whole latency if it is there, else of completion alone. JSON has neither."""
    found = getattr(job, way)
    return found.lat_ns.bins or (found.clat_ns.bins if found.clat_ns else {})


def _way(reports: Sequence[Mapping[str, int]], way: str) -> Way:
    """``reports``: the bins so far, of each report of one run."""
    bins = reports[-1]
    if not bins:
        raise Refused("has no histogram; run fio with --output-format=json+, and with percentiles of latencies")
    measured, count = distribution(bins), sum(bins.values())
    named = {
        f"p{percent:g}": _text(at(measured, percent / 100))
        for percent in PERCENTS
        if count * (100 - percent) >= 100 * MORE
    }
    try:
        table = quantiles({name: Duration(text) for name, text in named.items()})
    except ValueError as error:
        raise Refused(f"{way}s: {error}") from error
    p50, p99, p999 = (at(measured, quantile) for quantile in (0.5, 0.99, 0.999))
    uneven, drawn = _uneven(reports, p99 * 1e9)
    return Way(count, named, p50, p99, p999, distance(table, measured), uneven, drawn)


def _uneven(reports: Sequence[Mapping[str, int]], slow: float) -> tuple[float | None, bool | None]:
    """The variance of the number of requests beyond ``slow`` (ns) from report to report over that of independent
    ones (binomial), and whether it may be chance: within three standard errors of a chi-squared by its degrees of
    freedom, sqrt(2 / n)."""
    totals = [(0, 0)]
    for bins in reports:
        late = sum(count for centre, count in bins.items() if int(centre) > slow)
        totals.append((sum(bins.values()), late))
    steps = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(totals)]
    steps = [(count, late) for count, late in steps if count > 0]
    part = totals[-1][1] / totals[-1][0]
    if len(steps) < STEPS or not 0 < part < 1:
        return None, None
    free = len(steps) - 1
    found = sum((late - count * part) ** 2 / (count * part * (1 - part)) for count, late in steps) / free
    return found, found <= 1 + 3 * math.sqrt(2 / free)


def _remarks(job: Job, way: str, found: Way) -> Iterator[str]:
    took = getattr(job, way)
    last = list(found.table)[-1]
    three = f"p50 {_text(found.p50)}, p99 {_text(found.p99)}, p99.9 {_text(found.p999)}"
    yield (
        f"{found.requests:,} {way}s took {three}; the Kolmogorov-Smirnov distance of the table is "
        f"{found.distance:.3f}."
    )
    yield (
        f"What took longer than {last} is drawn as {last}, for too few {way}s did to know more; the slowest took "
        f"{_text(took.lat_ns.max / 1e9)}."
    )
    if not took.lat_ns.bins:
        yield f"{way}s: completion only (clat), without submission; lat_percentiles=1 gives the whole latency."
    if found.uneven is None:
        yield f"{ALONE} Whether they did, this file does not tell; fio --status-interval=1 does."
    elif found.drawn:
        yield f"The slowest 1 % of {way}s came one by one: {found.uneven:.1f} times the variance of chance."
    else:
        together = f"The slowest 1 % of {way}s came together: {found.uneven:.1f} times the variance of chance."
        yield f"{together} {ALONE} {SPELLS.format(way=way, median=_text(found.p50))}"


def _source(output: Output, options: Sequence[Mapping[str, str]], ways: Mapping[str, Way]) -> str:
    what = " and ".join(dict.fromkeys(f"{each.get('rw', 'read')} of {each.get('bs', '4k')}" for each in options))
    told = "; ".join(
        f"{way.requests} {name}s, p50 {_text(way.p50)}, p99 {_text(way.p99)}, p99.9 {_text(way.p999)}, "
        f"{_DRAWN[way.drawn]}"
        for name, way in ways.items()
    )
    return f"{output.version}, {what} at queue depth 1: {told}."


def _text(seconds: float) -> str:
    """``0.4123ms``: four digits, as a study reads it."""
    return f"{float(f'{seconds * 1e3:.4g}'):g}ms"


def yaml(name: str, found: Disk) -> str:
    """The lines of a study file, with what there is to say as comments."""

    def wrapped(text: str, first: str, then: str) -> list[str]:
        return textwrap.wrap(
            text, 110, initial_indent=first, subsequent_indent=then, break_long_words=False, break_on_hyphens=False
        )

    lines = [line for said in found.said for line in wrapped(said, "# ", "#   ")]
    lines += ["profiles:", f"  {name}:", "    source: >-", *wrapped(found.source, "      ", "      ")]
    for way, each in found.ways.items():
        table = ", ".join(f"{quantile}:{NBSP}{latency}" for quantile, latency in each.table.items())
        pairs = wrapped(f"{way}_quantiles: {{{table}}}", "    ", "      ")
        lines += [line.replace(NBSP, " ") for line in pairs]
    return "\n".join(lines)

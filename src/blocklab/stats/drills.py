"""Drills together: how much was lost, how long it took, at what cost; for each stack, load and level."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from blocklab.lang import term
from blocklab.model.drill import Attempt, Drill, Ledger, Verdict
from blocklab.model.workload import Checker
from blocklab.stats.analysis import Analysis
from blocklab.stats.binomial import Middle, Share, middle, share
from blocklab.stats.format import NBSP, percent, plus_minus, quantity, seconds, small_percent
from blocklab.stats.grid import Point
from blocklab.stats.ratio import ratio
from blocklab.stats.reading import Drilled
from blocklab.stats.repeats import interval, paired
from blocklab.stats.summary import Estimate

BINLOG = ("level", "differs", "unknown")
MIRROR = ("in sync", "differs", "split brain", "unknown")


class Losses(msgspec.Struct, frozen=True):
    """What some drills lost. Only drills whose verdict is known count in ``acknowledged``, ``missing`` and
    ``losing``: what could not be looked at is no proof of anything.

    ``share`` is the part of acknowledged transactions that is missing: without an interval, since those of one
    crash are lost together. The unit is the crash: ``losing`` is in how many of them something was
    lost. ``rpo`` (s) is over all known drills, ``newest`` (s before the fault) over those that lost a transaction.
    """

    drills: int
    ok: int
    lost: int
    unknown: int
    acknowledged: int
    missing: int
    unexpected: int
    torn: int
    in_doubt: int
    in_doubt_found: int
    worst: int
    share: float | None
    losing: Share | None
    rpo: Middle | None
    newest: Middle | None = None


class Summary(msgspec.Struct, frozen=True):
    """The drills of one stack under one workload, at one combination of levels, over the study's repeats.

    ``label`` names the cell for people. ``void`` drills are those of runs that do not count (a knob not in force,
    not carried out to the end); ``void_lost`` of them lost something. ``rto`` (s) is over drills with a fault, as
    infinite in the ``never`` of them in which no write was accepted again; ``recovered`` (s) likewise, until 90 %
    of the rate before was back; in ``slow`` drills writes were, and that rate was not while it was watched.
    ``stages`` are the medians (s) of the takeover's parts, in their order. ``rate`` (1/s): acknowledged before the
    fault, with Student's interval over the drills; ``relative``: the same relative to the baseline's drills, taken
    repeat by repeat where both have all of them.
    """

    point: Point
    label: str
    losses: Losses
    rto: Middle | None
    recovered: Middle | None
    never: int
    slow: int
    stages: tuple[tuple[str, float], ...]
    rate: Estimate | None
    relative: Estimate | None
    binlog: Mapping[str, int]
    behind: int
    ahead: int
    mirror: Mapping[str, int]
    void: int = 0
    void_lost: int = 0
    base: bool = False

    @property
    def stages_sum(self) -> float:
        """The medians added up (s); near the median of the RTO, but not the same."""
        return sum(took for _, took in self.stages)


def losses(drills: Sequence[Drill]) -> Losses:
    """Counts and bounds over some drills."""
    verdicts = [drill.verdict for drill in drills]
    known = [verdict for verdict in verdicts if verdict.status != "unknown"]
    counts = Counter(verdict.status for verdict in verdicts)
    acknowledged = sum(verdict.acknowledged for verdict in known)
    missing = sum(len(verdict.missing) for verdict in known)
    rpo = [verdict.rpo_seconds for verdict in known if verdict.rpo_seconds is not None]
    newest = [drill.newest_lost for drill in drills if drill.newest_lost is not None]
    return Losses(
        drills=len(drills),
        ok=counts["ok"],
        lost=counts["lost"],
        unknown=counts["unknown"],
        acknowledged=acknowledged,
        missing=missing,
        unexpected=sum(len(verdict.unexpected) for verdict in known),
        torn=sum(len(verdict.torn) for verdict in known),
        in_doubt=sum(verdict.in_doubt for verdict in known),
        in_doubt_found=sum(verdict.in_doubt_found for verdict in known),
        worst=max((len(verdict.missing) for verdict in known), default=0),
        share=missing / acknowledged if acknowledged else None,
        losing=share(counts["lost"], len(known)) if known else None,
        rpo=middle(rpo) if rpo else None,
        newest=middle(newest) if newest else None,
    )


def summaries(analysis: Analysis) -> tuple[Summary, ...]:
    """One for each cell that has drills, in the order of the study; none in a study without drills."""
    mine: dict[tuple[str, str], list[Drilled]] = {}
    for each in analysis.drills:
        mine.setdefault((each.stack, each.workload), []).append(each)
    ranks = {stack: rank for rank, stack in enumerate(analysis.stacks)}
    points = sorted(analysis.grid.points, key=lambda point: ranks[point.stack])
    return tuple(
        _summary(analysis, point, mine[at], mine.get((analysis.grid.base(point), point.workload), []))
        for point in points
        if (at := (point.stack, point.workload)) in mine
    )


def _summary(analysis: Analysis, point: Point, mine: Sequence[Drilled], base: Sequence[Drilled]) -> Summary:
    good = [each.drill for each in mine if each.status == "ok"]
    void = [each for each in mine if each.status != "ok"]
    again = outages(good)
    # A drill without a rate before the fault has none to come back to.
    back = [each.recovered for each in good if each.rate and each.came_back is not None]
    recovered = [math.inf if took is None else took for took in back]
    logs = [each.verdict.binlog for each in good if each.verdict.binlog is not None]
    rates = _rates(mine)
    return Summary(
        point,
        analysis.drilled_label(point.stack, point.workload),
        losses(good),
        rto=middle(again) if again else None,
        recovered=middle(recovered) if recovered else None,
        never=sum(each.never for each in good),
        slow=sum(each.came_back == "writes" for each in good if each.rate),
        stages=_stages([each for each in good if each.verdict.rto_seconds is not None]),
        rate=_mean(rates) if rates else None,
        relative=_relative(rates, _rates(base)),
        binlog=_counted([each.status for each in logs], BINLOG),
        behind=max((each.behind for each in logs), default=0),
        ahead=max((each.ahead for each in logs), default=0),
        mirror=_counted([each.mirror.status for each in good if each.mirror is not None], MIRROR),
        void=len(void),
        void_lost=sum(each.drill.verdict.status == "lost" for each in void),
        base=point.stack in analysis.grid.baselines,
    )


def outages(drills: Sequence[Drill]) -> list[float]:
    """The RTO (s) of each drill that has one; infinite where no write was accepted again."""
    return [
        math.inf if each.never else each.verdict.rto_seconds or 0.0
        for each in drills
        if each.never or each.verdict.rto_seconds is not None
    ]


def _counted(said: Sequence[str], order: Sequence[str]) -> dict[str, int]:
    counts = Counter(said)
    return {status: counts[status] for status in order if counts[status]}


def _stages(drills: Sequence[Drill]) -> tuple[tuple[str, float], ...]:
    """A stage that a drill lacks took no time there."""
    names = dict.fromkeys(stage.name for drill in drills for stage in drill.stages)
    return tuple(
        (
            name,
            statistics.median(
                sum(stage.end - stage.start for stage in drill.stages if stage.name == name)
                for drill in drills
                if drill.stages
            ),
        )
        for name in names
    )


def _rates(drills: Sequence[Drilled]) -> dict[tuple[int, int], float]:
    """By repeat and machine."""
    return {
        (each.repeat, each.machine): each.drill.rate
        for each in drills
        if each.status == "ok" and each.drill.rate is not None
    }


def _mean(rates: Mapping[tuple[int, int], float]) -> Estimate:
    return interval(list(rates.values()), [machine for _, machine in rates])


def _relative(mine: Mapping[tuple[int, int], float], base: Mapping[tuple[int, int], float]) -> Estimate | None:
    if not mine or not base or not all(base.values()):
        return None
    if mine == base:
        return Estimate(1.0)
    both = sorted(mine.keys() & base.keys())
    if len(both) > 1:
        return paired([mine[build] / base[build] for build in both], [machine for _, machine in both])
    return ratio(_mean(mine), _mean(base))


def again(checker: Checker, attempts: Sequence[Attempt] | None, ledger: Ledger | None, drill: Drill) -> Verdict:
    """The verdict of a stored drill, made once more from what the run folder has: the parsed history and
    ``ledger.json``."""
    old = drill.verdict
    log = old.binlog.why if old.binlog is not None and old.binlog.status == "unknown" else ""
    return checker.verdict(attempts, ledger, drill.struck, old.why, until=drill.until, binlog_unread=log)


def tally(drills: Sequence[Drill]) -> str:
    """All drills so far in one line: ``12 drills: 11 ok, 1 lost; 21 of 174,588 acknowledged gone (0.012 %); writes
    again after 2.31 s in the median``."""
    if not drills:
        return "no drill yet"
    found = losses(drills)
    counts = [f"{count} {word}" for count, word in ((found.ok, "ok"), (found.lost, "lost"),
              (found.unknown, "unknown")) if count]  # fmt: skip
    parts = [f"{len(drills)} {'drill' if len(drills) == 1 else 'drills'}: {', '.join(counts)}"]
    if found.acknowledged:
        share = f" ({small_percent(found.share)})" if found.share else ""
        parts.append(f"{found.missing:,} of {found.acknowledged:,} acknowledged gone{share}")
    again = outages(drills)
    if any(map(math.isfinite, again)):
        parts.append(f"writes again after {rto_text(middle(again))}")
    if never := sum(each.never for each in drills):
        parts.append(never_text(never, len(again)))
    return "; ".join(parts).replace(NBSP, " ")


def losing_text(found: Share) -> str:
    """``0 of 20 crashes; at most 14 % (95 %)``, ``3 of 20 crashes; 3.2 % to 38 % (95 %)``."""
    low, high = (small_percent(each) if 0 < each < 0.001 else percent(each) for each in (found.low, found.high))
    sure = f"{low} to {high}" if found.count else f"at most {high}"
    return f"{found.count} of {found.of} {'crash' if found.of == 1 else 'crashes'}; {sure} (95{NBSP}%)"


def rto_text(found: Middle) -> str:
    """``2.31 s (2.20 to 2.52)``: the median with its 95 % interval, or with the range where there is none;
    ``never`` where it has no end."""
    return _in_brackets(again_text(found.median), spread_text(found))


def _in_brackets(text: str, spread: str) -> str:
    return f"{text} ({spread})" if spread else text


def spread_text(found: Middle) -> str:
    """``2.20 to 2.52``, or ``range 2.20 to 2.52`` where that is no interval; empty for a single one."""
    sure = (found.low, found.high) if found.low is not None and found.high is not None else None
    low, high = (
        term("never") if math.isinf(each) else f"{each:.2f}" for each in (sure or (found.least, found.most))
    )
    if found.count == 1 or (low == high == term("never")):
        return ""
    return f"{'' if sure else 'range '}{low} to {high}"


def again_text(value: float) -> str:
    """``2.31 s``, or ``never``."""
    return term("never") if math.isinf(value) else seconds(value)


def never_text(never: int, of: int) -> str:
    """``2 of 20 never came back``."""
    return f"{never} of {of} never came back"


def recovered_text(found: Middle) -> str:
    """As ``rto_text``; ``not while watched`` where the rate was not reached again in half of the drills."""
    return _in_brackets(rate_again_text(found.median), spread_text(found))


def rate_again_text(value: float) -> str:
    """``2.31 s``, or ``not while watched``."""
    return "not while watched" if math.isinf(value) else seconds(value)


def before_text(age: float) -> str:
    """``2.00 ms before the fault``; after it, where an answer was on its way or a second primary gave it."""
    text = quantity(abs(age), "s")
    return f"{text} before the fault" if age >= 0 else f"{text} after the fault"


def rate_text(found: Estimate | None) -> str:
    """``1,944 ± 12 /s``; empty without one."""
    return "" if found is None else plus_minus(found.value, found.half, "1/s", "tps")

"""What the drills of a study say, in sentences that are made from the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blocklab.stats.analysis import Analysis
from blocklab.stats.binomial import Middle
from blocklab.stats.drills import Summary, rto_text, share_text, small_percent, summaries
from blocklab.stats.format import listed, percent, quantity, shortened
from blocklab.stats.grid import label_of

# The cells that lose most have a sentence each; of others a list has so many. The rest is in the table.
MOST_NAMED = 4
# With more levels a factor's sentence would be a table.
MOST_LEVELS = 8
# So many cells are named in a bracket.
MOST_FEW = 2


def drill_points(analysis: Analysis) -> tuple[str, ...]:
    """The answer of the drills, one sentence for each side of it; none in a study without drills."""
    found = summaries(analysis)
    if not found:
        return ()
    return (
        *_by_level(found), *_safe(found), *_losing(found), *_down(found), *_sides(found), *_unsure(found),
    )  # fmt: skip


def drill_lead(analysis: Analysis) -> tuple[str, ...]:
    """The sentences that matter most: what losing depends on, where nothing was lost, and where most was."""
    found = summaries(analysis)
    return (*_by_level(found), *_safe(found), *list(_losing(found))[:1]) if found else ()


def _by_level(found: Sequence[Summary]) -> Iterator[str]:
    """On how many layouts something was lost, by the levels of the factor that tells it best."""
    known = [each for each in found if each.losses.ok + each.losses.lost]
    by: dict[str, dict[str, list[Summary]]] = {}
    for each in known:
        for name, level in each.point.levels.items():
            by.setdefault(name, {}).setdefault(level, []).append(each)
    apart = {
        name: max(shares) - min(shares)
        for name, levels in by.items()
        if len(shares := [_losing_share(mine) for mine in levels.values()]) > 1
    }
    name = max(apart, key=lambda name: apart[name], default="")
    if not name or not apart[name] or len(by[name]) > MOST_LEVELS:
        return
    said = [_lost_with(name, level, mine) for level, mine in by[name].items()]
    yield f"Something was lost on {listed(said)}."


def _lost_with(name: str, level: str, mine: Sequence[Summary]) -> str:
    bad = [each for each in mine if each.losses.lost]
    few = 0 < len(bad) <= MOST_FEW < len(mine)
    which = f" ({listed([_without(name, each) for each in bad])})" if few else ""
    return f"{len(bad)} of {len(mine)} layouts with {name}={level}{which}"


def _losing_share(mine: Sequence[Summary]) -> float:
    return sum(each.losses.lost > 0 for each in mine) / len(mine)


def _without(name: str, each: Summary) -> str:
    """The cell's label without its level of a factor."""
    return label_of(each.point.stack_name, {key: at for key, at in each.point.levels.items() if key != name})


def _safe(found: Sequence[Summary]) -> Iterator[str]:
    # A loss in a drill that does not count (of another layout, or not carried out to its end) is one all the same.
    kept = [each for each in found if not (each.losses.lost or each.void_lost) and each.losses.ok]
    if not kept:
        told = not any(each.losses.unknown or each.void for each in found)
        if any(each.losses.lost for each in found):
            yield f"No layout {'came' if told else 'is known to have come'} through its drills without a loss."
        return
    acknowledged = sum(each.losses.acknowledged for each in kept)
    drills = sum(each.losses.ok for each in kept)
    least = max((each.losses for each in kept), key=lambda each: each.bound or 0.0)
    said = shortened([each.label for each in kept], MOST_NAMED)
    text = f"Nothing that was acknowledged was lost on {said}: 0 of {acknowledged:,} in {drills} drills."
    if least.bound is not None:
        which = "each of them" if len(kept) > 1 else "it"
        at_most = f"fewer than {small_percent(least.bound)} of what is acknowledged there"
        text += f" With 95 % confidence {which} loses {at_most}"
        if least.losing is not None:
            text += f", and something in at most {percent(max(_high(each) for each in kept))} of crashes"
        text += "."
    yield text


def _high(summary: Summary) -> float:
    return summary.losses.losing.high if summary.losses.losing is not None else 1.0


def _losing(found: Sequence[Summary]) -> Iterator[str]:
    bad = sorted((each for each in found if each.losses.lost), key=lambda each: -(each.losses.share or 0.0))
    for each in bad[:MOST_NAMED]:
        mine = each.losses
        known = mine.ok + mine.lost
        if not mine.missing:
            yield (
                f"The database on {each.label} was damaged in {mine.lost} of {known} drills: {mine.torn} torn "
                f"transactions and {mine.unexpected} rows that nobody can have committed."
            )
            continue
        text = (
            f"Acknowledged transactions were lost on {each.label} in {mine.lost} of {known} drills: "
            f"{mine.missing:,} of {mine.acknowledged:,} ({share_text(mine)}), at most {mine.worst:,} in one"
        )
        if mine.rpo is not None:
            text += f" and {quantity(mine.rpo.most, 's')} of commits"
        if mine.torn or mine.unexpected:
            text += f"; {mine.torn} torn, {mine.unexpected} unexpected"
        yield text + "."
    if rest := bad[MOST_NAMED:]:
        yield f"Something was lost on {shortened([each.label for each in rest], MOST_NAMED)} too."


def _median(timed: tuple[Middle, Summary]) -> float:
    return timed[0].median


def _down(found: Sequence[Summary]) -> Iterator[str]:
    timed = [(each.rto, each) for each in found if each.rto is not None]
    if timed:
        (low, best), (high, worst) = min(timed, key=_median), max(timed, key=_median)
        text = f"Writes were accepted again after {rto_text(low)} in the median on {best.label}"
        if worst is not best:
            text += f", and after {rto_text(high)} on {worst.label}"
        slowest = max(worst.stages, key=lambda stage: stage[1], default=None)
        if slowest is not None:
            text += f"; there {slowest[0]} takes the longest, {quantity(slowest[1], 's')}"
        yield text + "."
    never = [f"{each.label} ({each.never} of {each.losses.drills})" for each in found if each.never]
    if never:
        yield f"Writes were not accepted again before the drill was over on {shortened(never, MOST_NAMED)}."


def _sides(found: Sequence[Summary]) -> Iterator[str]:
    logs = [each for each in found if each.binlog.get("differs")]
    if logs:
        said = [f"{each.label} ({each.binlog['differs']} of {sum(each.binlog.values())})" for each in logs]
        behind, ahead = max(each.behind for each in logs), max(each.ahead for each in logs)
        parts = [f"lack {behind:,} rows"] if behind else []
        parts += [f"have {ahead:,} too many"] if ahead else []
        yield (
            f"The binary log did not agree with the tables on {shortened(said, MOST_NAMED)}: in the worst drill a "
            f"replica that follows it would {listed(parts)}."
        )
    split = [f"{each.label} ({each.mirror['split brain']})" for each in found if each.mirror.get("split brain")]
    if split:
        yield f"Split brain, both sides had taken writes, on {shortened(split)}."
    apart = [f"{each.label} ({each.mirror['differs']})" for each in found if each.mirror.get("differs")]
    if apart:
        yield f"The two sides of the mirror were not the same after the resync on {shortened(apart)}."


def _unsure(found: Sequence[Summary]) -> Iterator[str]:
    said = [f"{each.label} ({each.losses.unknown})" for each in found if each.losses.unknown]
    if said:
        yield f"What was lost could not be told, and is not counted, in drills of {shortened(said, MOST_NAMED)}."
    void = [f"{each.label} ({each.void})" for each in found if each.void]
    if void:
        lost = sum(each.void_lost for each in found)
        more = f"; {lost} of them lost something" if lost else ""
        yield f"Drills that do not count, since their cells are not ok: {shortened(void, MOST_NAMED)}{more}."

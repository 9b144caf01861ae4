"""What a report says of its own values: where the CPU or the lab set the pace, and how sure they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from blocklab.model.metrics import metric
from blocklab.stats.analysis import Analysis
from blocklab.stats.floor import BUSY, LIMITED, NEAR, caution
from blocklab.stats.format import capital, listed, percent, quantity, shortened

# blocklab's own process must not be seen in the values: of one core, in %.
QUIET = 2.0


def _busy(analysis: Analysis) -> Iterator[str]:
    """Where a node's CPU was saturated, so that the storage may not be what was measured."""
    rows = [row for row in analysis.rows if row.metric == "cpu.busy" and row.value >= BUSY]
    if not rows:
        return
    places: dict[str, list[str]] = {}
    for row in rows:
        # The names, for with their levels the cells may be many.
        where = places.setdefault(row.workload_name, [])
        if (place := f"{row.host} on {row.stack_name}") not in where:
            where.append(place)
    told = listed([f"{workload} ({', '.join(where)})" for workload, where in places.items()])
    least = percent(min(row.value for row in rows) / 100)
    if analysis.grid.factors:
        cells = len({(row.stack, row.workload) for row in rows})
        told += f", in {cells} of {len(analysis.measured)} cells"
    yield (
        f"The CPU was saturated (at least {least} busy) in {told}: it, not the storage, may limit these results. "
        f"{_skewed({row.stack in analysis.grid.baselines for row in rows}, analysis.baseline)}."
    )


def _skewed(busy: Collection[bool], baseline: str) -> str:
    """What a saturated CPU does to a comparison. ``busy`` holds whether it was the baseline's."""
    if False not in busy:
        return "The overhead of slower layouts is understated"
    if True not in busy:
        return "The overhead of these layouts is overstated"
    return f"Overhead is understated beside {baseline}, and overstated where a layout's own CPU was saturated"


def without_interval(analysis: Analysis, metrics: Collection[str]) -> str:
    """Why values of these metrics have no interval, as the end of a sentence."""
    if analysis.imported:
        return "the logs have no time series of them, or too short a one"
    if not any(metric(name).averaged for name in metrics):
        return "percentiles and counts have none in a single run"
    return "each was measured in one short run"


def often(analysis: Analysis) -> str:
    """How often the cells were measured: ``3 times``, ``1 to 2 of 3 times``."""
    fewest, most = analysis.times
    repeats = analysis.study.repeats
    if fewest == repeats:
        return f"{repeats} times"
    return f"{most if fewest == most else f'{fewest} to {most}'} of {repeats} times"


def _certainty(analysis: Analysis) -> Iterator[str]:
    """What the intervals are intervals of."""
    if not analysis.rows:
        return
    fewest, most = analysis.times
    if most > 1:
        once = "; for a cell measured once, within its run" if fewest == 1 else ""
        yield (
            f"Everything was measured {often(analysis)}, each time on layouts that were built again. ± is the 95 "
            f"% interval over these repeats{once}; ratios are taken within each repeat."
        )
        return
    ruled = any(len(spread.values) > 1 for each in analysis.measured.values() for spread in each.run.rounds)
    if ruled:
        how = "over short rounds, in a shuffled order where the workload has phases"
    elif any(row.half is not None for row in analysis.rows):
        how = "of the mean within that one run"
    else:
        yield "Each cell was measured once; how much another run would differ is not known."
        return
    hint = " (repeats: 3 would tell)"
    if analysis.imported:
        hint = ""
    elif analysis.study.repeats > 1:
        hint = f" (the study asks for {analysis.study.repeats} times: blocklab resume)"
    yield (
        f"Each cell was measured once. ± is the 95 % interval {how}; how much another build of the layout would "
        f"differ is not known{hint}."
    )


def _unsure(analysis: Analysis) -> Iterator[str]:
    """The phases whose values were not sure when they were measured no longer."""
    ended: dict[str, dict[str, None]] = {}
    for each in analysis.stops:
        if each.stopped.why and (each.stack, each.workload) in analysis.measured:
            name = f"{each.stack}/{each.workload} {each.stopped.phase}".strip()
            ended.setdefault(each.stopped.reason, {})[name] = None
    if capped := ended.get("capped"):
        yield f"Target precision not reached in the time allowed: {shortened(list(capped))}."
    if drained := ended.get("drained"):
        yield f"Ended before the target precision was reached: {shortened(list(drained))}."


def _limited(analysis: Analysis) -> Iterator[str]:
    """Where the values are those of the lab rather than of the layout."""
    places = {place[:3] for place, limit in analysis.limits.items() if limit.floor}
    names = dict.fromkeys(
        f"{row.stack}/{row.workload} {row.phase}".strip()
        for row in analysis.rows
        if row.own and (row.stack, row.workload, row.phase) in places
    )
    if names:
        many = len({(row.stack, row.workload, row.phase) for row in analysis.rows if row.own})
        yield (
            f"{capital(LIMITED)} (within {NEAR:g} times of its floor), {len(names)} of {many}: "
            f"{shortened(list(names))}. There the layout itself may do better, and "
            "the overhead of others beside it is understated."
        )
    if analysis.floors.trouble:
        yield f"The lab's floor could not be read: {analysis.floors.trouble}."
    elif analysis.floors.calibrate:
        left = len(analysis.runs) - len(analysis.floors.of)
        some = f" for {left} of {len(analysis.runs)} cells" if analysis.floors.of else ""
        yield f"The lab's floor was not measured on this machine{some}: {analysis.floors.calibrate}"
    for floor in analysis.floors.distinct:
        if said := caution(floor):
            yield f"The lab's floor: {said}"


def _loud(analysis: Analysis) -> Iterator[str]:
    """Where blocklab itself took more of a CPU than can be left out of account."""
    own = analysis.highest_own.get("blocklab")
    if own is not None and own.sample.value > QUIET:
        yield (
            f"blocklab's own process took up to {quantity(own.sample.value, '%')} of a core while a workload ran "
            f"(in {own.stack}/{own.workload}), more than the {QUIET:g} % that it may: it can have slowed down "
            "what it measured."
        )


def caveats(analysis: Analysis) -> Iterator[str]:
    """What to know before the values are used, a sentence each."""
    if analysis.imported:
        yield ("These results are taken from logs, which do not tell whether all layouts had the same workload.")
    yield from _busy(analysis)
    yield from _loud(analysis)
    yield from _limited(analysis)
    yield from _certainty(analysis)
    yield from _unsure(analysis)
    if analysis.left_out:
        whole = len(analysis.cells) + analysis.left_out
        yield f"This report covers {len(analysis.cells)} of the study's {whole} cells, those that were asked for."
    if analysis.quick:
        yield "This was a quick run, with shorter workloads than the full study: good for a first look."
    # One for each of its repeats.
    none = {f"{gap.stack}/{gap.workload}": gap.status for gap in analysis.unmeasured}
    if none:
        names = [f"{cell} ({status})" for cell, status in none.items()]
        yield f"{len(names)} of {len(analysis.grid.points)} cells have no results: {shortened(names)}."
    if some := [
        f"{gap.stack}/{gap.workload} ({gap.status} in repeat {gap.repeat})" for gap in analysis.missing_repeats
    ]:
        yield f"Repeats without results: {shortened(some)}."

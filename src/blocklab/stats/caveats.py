"""What limits the values: where a CPU or the lab set the pace, how sure they are, what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from blocklab.model.metrics import STEADY
from blocklab.model.sample import Sample
from blocklab.stats.analysis import Analysis
from blocklab.stats.effects import effects, inseparable, reasons
from blocklab.stats.finding import Finding, Number, number_of
from blocklab.stats.floor import BUSY, caution
from blocklab.stats.grid import place_of
from blocklab.stats.inputs import busy
from blocklab.stats.values import Steady

# blocklab's own process must not be seen in the values: of one core, in %.
QUIET = 2.0


def caveats(analysis: Analysis) -> Iterator[Finding]:
    """What to know before the values are used."""
    if analysis.imported:
        yield Finding("imported")
    yield from _busy(analysis)
    yield from _others(analysis)
    own = analysis.highest_own.get("blocklab")
    if own is not None and own.sample.value > QUIET:
        yield Finding("own cpu", own.workload, own.stack, numbers=(Number(own.sample.value, unit="%"),))
    yield from _limited(analysis)
    yield from _unlike(analysis)
    yield from _unsteady(analysis)
    yield from _warm_up(analysis)
    yield from _machines(analysis)
    if analysis.rows:
        yield _certainty(analysis)
    ended = dict.fromkeys(
        f"{each.stack}/{each.workload} {each.stopped.phase}".strip()
        for each in analysis.stops
        if each.stopped.why and (each.stack, each.workload) in analysis.measured
    )
    if ended:
        yield Finding("precision", names=tuple(ended), count=len(ended))
    if analysis.left_out:
        yield Finding("part", count=len(analysis.cells), of=len(analysis.cells) + analysis.left_out)
    if analysis.quick:
        yield Finding("quick")
    # One for each of its repeats.
    none = {f"{gap.stack}/{gap.workload}": gap.status for gap in analysis.unmeasured}
    if none:
        names = tuple(f"{cell} ({status})" for cell, status in none.items())
        yield Finding("gaps", names=names, count=len(none), of=len(analysis.grid.points))
    if some := analysis.missing_repeats:
        names = tuple(f"{gap.stack}/{gap.workload} ({gap.status} in repeat {gap.repeat})" for gap in some)
        yield Finding("repeat gaps", names=names, count=len(some))


def _busy(analysis: Analysis) -> Iterator[Finding]:
    """Where a node's CPU was saturated, so that the storage may not be what was measured. ``verdict``: what
    that does to the overhead of a layout ``beside`` the baseline."""
    rows = [row for row in analysis.rows if row.metric == "cpu.busy" and row.value >= BUSY]
    if not rows:
        return
    # The names, for with their levels the cells may be many.
    places: dict[str, dict[str, None]] = {}
    for row in rows:
        places.setdefault(row.workload_name, {})[f"{row.host} on {row.stack_name}"] = None
    of_baseline = {row.stack in analysis.grid.baselines for row in rows}
    skewed = "both" if len(of_baseline) > 1 else "understated" if True in of_baseline else "overstated"
    yield Finding(
        "cpu", numbers=(Number(min(row.value for row in rows) / 100),),
        names=tuple(f"{workload} ({', '.join(where)})" for workload, where in places.items()),
        count=len({(row.stack, row.workload) for row in rows}), of=len(analysis.measured), verdict=skewed,
        beside=analysis.baseline,
    )  # fmt: skip


def _others(analysis: Analysis) -> Iterator[Finding]:
    """Of how many cells the machine was busy with other work, and the worst of them; ``verdict`` says by what."""
    cells = [run for run in analysis.every if run.outcome.status == "ok" and run.stack.machine]
    found = [(taken, run.cell.label) for run in cells if (taken := busy(run.stack)) is not None]
    if found:
        most, cell = max(found)
        yield Finding(
            "other work", cell, numbers=(Number(most.share),), verdict=most.kind, count=len(found), of=len(cells)
        )


def _unsteady(analysis: Analysis) -> Iterator[Finding]:
    """Where a rate stalled, and where it fell while it was measured: the worst of each, and how many."""
    stalls = [each for each in analysis.unsteady if each.kind == "stalls"]
    fell = [each for each in analysis.unsteady if each.kind == "fell"]
    for found, worst in (
        (stalls, max(stalls, key=lambda each: each.count / each.seconds, default=None)),
        (fell, max(fell, key=lambda each: each.by, default=None)),
    ):
        if worst is not None:
            numbers = (
                Number(worst.count, unit="s", name="for"), Number(worst.seconds, unit="s", name="of"),
                Number(worst.by, name="by"),
            )  # fmt: skip
            yield Finding(
                "unsteady", worst.place, numbers=numbers, verdict=worst.kind,
                count=len({(each.stack, each.workload) for each in found}), of=len(analysis.measured),
            )  # fmt: skip


def _warm_up(analysis: Analysis) -> Iterator[Finding]:
    """Where an imported rate is another one without its warm-up: where it differs most, and in how many cells."""
    found: dict[tuple[str, str], tuple[float, Sample, Steady]] = {}
    for at, measured in analysis.measured.items():
        for sample in measured.run.values():
            part = measured.steady.get((sample.phase, sample.metric))
            if part is not None and part.skipped and sample.value:
                off = abs(part.estimate.value / sample.value - 1)
                found[at] = max(found.get(at, (0.0, sample, part)), (off, sample, part), key=lambda each: each[0])
    if not found:
        return
    (stack, workload), (_, sample, part) = max(found.items(), key=lambda each: each[1][0])
    numbers = (
        Number(sample.value, unit=sample.unit, metric=sample.metric, name="whole"),
        number_of(part.estimate, sample.unit, sample.metric, "steady"),
        Number(part.skipped, unit="s", name="skipped"),
    )  # fmt: skip
    place = f"{stack}/{workload} {sample.phase}".strip()
    yield Finding(
        "warm-up", place, numbers=numbers, count=len(found), of=len(analysis.measured),
        note=f"{sample.metric}{STEADY}",
    )  # fmt: skip


def _unlike(analysis: Analysis) -> Iterator[Finding]:
    """Where two compared cells did not stand on the same: the one that is furthest apart, and which they are."""
    found = {}
    for point in analysis.grid.points:
        at, base = (point.stack, point.workload), (analysis.grid.base(point), point.workload)
        if (apart := analysis.inputs.apart(at, base)) is not None:
            found[at] = apart
    if found:
        worst = max(found, key=lambda at: found[at].times)
        apart = found[worst]
        yield Finding(
            "unlike", apart.what, worst[0], analysis.baseline,
            (Number(apart.mine, unit="s", name="mine"), Number(apart.other, unit="s", name="baseline")),
            count=len(found), of=len(analysis.measured), names=tuple(f"{at[0]}/{at[1]}" for at in found),
        )  # fmt: skip


def _machines(analysis: Analysis) -> Iterator[Finding]:
    """Where machines disagree: ``stack`` and ``beside`` are those with the least and the most of the worst ratio.
    Which do not fit to the others, and why. Which cells have no ratio, with the baseline on other machines."""
    found = effects(analysis)
    tested = [each for each in found if each.pool is not None and each.pool.chance is not None]
    disagree = [each for each in tested if each.disagree]
    if disagree:
        worst = max(disagree, key=lambda each: each.between or 0.0)
        ranked = sorted((on for on in worst.each if not on.apart), key=lambda on: on.share.value)
        least, most = ranked[0], ranked[-1]
        yield Finding(
            "machines disagree", worst.label, least.machine, most.machine,
            (number_of(least.share), number_of(most.share)),
            count=len(disagree), of=len(tested), names=tuple(each.label for each in disagree),
        )  # fmt: skip
    for machine, why in reasons(analysis).items():
        cells = [at for at, number in analysis.misfits if analysis.machines[number] == machine]
        verdict = "apart" if analysis.apart else "pooled"
        yield Finding(
            "machines unfit", machine, names=why, count=len(cells), of=len(analysis.measured), verdict=verdict
        )
    shared = {(row.stack, row.workload) for row in analysis.rows if row.relative is not None}
    several = analysis.grid.points if len(analysis.machines) > 1 else ()
    alone = [
        point.label
        for point in several
        if (point.stack, point.workload) in analysis.measured
        and (analysis.grid.base(point), point.workload) in analysis.measured
        and (point.stack, point.workload) not in shared
    ]
    if alone:
        yield Finding("no baseline", beside=analysis.baseline, names=tuple(alone), count=len(alone))


def often(analysis: Analysis) -> str:
    """How often the cells were measured: ``3 times``, ``1 to 2 of 3 times``."""
    fewest, most = analysis.times
    # Layouts that machines of their own measure are in a part of the repeats, the baseline is in all.
    asked = Counter(map(place_of, analysis.cells)).values()
    said = f"{most if fewest == most else f'{fewest} to {most}'}"
    if most > 1 and fewest == min(asked, default=0):
        return f"{said} times"
    return f"{said} of {max(asked, default=0)} times"


def _certainty(analysis: Analysis) -> Finding:
    """What the intervals are over: ``verdict`` is ``machines``, ``repeats``, ``imported`` (repeats that logs tell
    of), ``a machine each`` (repeats, of which each had a machine of its own), ``rounds``, ``run``, or ``nothing``;
    ``note`` says how often, or how to find out; ``about`` is ``seed`` in virtual time, where builds from one seed
    are the same."""
    fewest, most = analysis.times
    about = "seed" if analysis.virtual else ""
    if (machines := max((row.machines for row in analysis.rows), default=1)) > 1:
        verdict = "a machine each" if inseparable(effects(analysis)) else "machines"
        return Finding("repeats", count=machines, of=analysis.study.repeats, verdict=verdict, note=often(analysis))
    if most > 1:
        verdict = "imported" if analysis.imported else "repeats"
        return Finding(
            "repeats", about=about, count=fewest, of=analysis.study.repeats, verdict=verdict, note=often(analysis)
        )
    hint = "" if analysis.imported else "run it with --repeats 3"
    if analysis.study.repeats > 1 and not analysis.imported:
        hint = f"the study asks for {analysis.study.repeats} times: blocklab resume"
    ruled = any(len(spread.values) > 1 for each in analysis.measured.values() for spread in each.run.rounds)
    known = any(row.half is not None for row in analysis.rows)
    over = "rounds" if ruled else "run" if known else "nothing"
    return Finding("repeats", about=about, count=most, of=analysis.study.repeats, verdict=over, note=hint)


def _limited(analysis: Analysis) -> Iterator[Finding]:
    """Where the values are those of the lab rather than of the layout."""
    places = {place[:3] for place, limit in analysis.limits.items() if limit.floor}
    every = dict.fromkeys((row.stack, row.workload, row.phase) for row in analysis.rows if row.own)
    names = tuple(f"{at[0]}/{at[1]} {at[2]}".strip() for at in every if at in places)
    if names:
        yield Finding("limited", names=names, count=len(names), of=len(every))
    floors = analysis.floors
    if floors.trouble:
        yield Finding("floor", verdict="unread", note=floors.trouble)
    elif floors.calibrate:
        left, cells = len(analysis.runs) - len(floors.of), len(analysis.runs)
        missing = "missing" if left == cells else "missing for some"
        yield Finding("floor", count=left, of=cells, verdict=missing, note=floors.calibrate)
    for floor in floors.distinct:
        if said := caution(floor):
            yield Finding("floor", verdict="doubtful", note=said)

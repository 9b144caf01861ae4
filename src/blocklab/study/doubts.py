"""What a study asks and no run of it can answer: not refused, since the rest is measured all the same. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from blocklab.study.factors import level_text
from blocklab.study.measures import shown_by_none
from blocklab.study.types import Cell, Expectation, Level, Study

# (field, stack, workload, levels) of one cell that a claim is about.
_Place = tuple[str, str, str, Mapping[str, Level]]
# So many repeats decide; two do so only where they hardly differ.
ENOUGH = 3


class Doubt(msgspec.Struct, frozen=True):
    """A place in the study, what will not be known, and what to write."""

    path: str
    problem: str
    hint: str


def doubts(study: Study, grid: Sequence[Cell], *, quick: bool = False) -> Iterator[Doubt]:
    """All of them. ``quick``: it is the quick variant, which leaves repeats and cells out by design."""
    if study.expect and study.repeats < 2 and not quick:
        problem = f"each layout is built once, so {_all(study)} will stay `one build`"
        yield Doubt("expect", problem, f"add `repeats: {ENOUGH}` to the study, or run it with --repeats {ENOUGH}")
    first = [cell for cell in grid if cell.repeat == 0]
    for index, claim in enumerate(study.expect):
        if (found := next(_of(study, claim, first, quick=quick), None)) is not None:
            yield msgspec.structs.replace(found, path=f"expect[{index}].{found.path}")
    if shown_by_none(study):
        problem = f"no workload of the study reports {study.report.y}, so the report shows throughput"
        yield Doubt("report.y", problem, "leave it out, or name a metric of the workloads")


def first_look(study: Study) -> str:
    """Of a quick variant: that it decides nothing; empty where it repeats, or expects nothing."""
    if not study.expect or study.repeats > 1:
        return ""
    return f"--quick is a first look: built once, {_all(study)} will stay `one build`; --repeats {ENOUGH} decides"


def _all(study: Study) -> str:
    count = len(study.expect)
    return "the one expectation" if count == 1 else f"all {count} expectations"


def _of(study: Study, claim: Expectation, cells: Sequence[Cell], *, quick: bool) -> Iterator[Doubt]:
    places = _places(claim)
    found = [_cells(cells, place) for place in places]
    for (field, stack, workload, _), matching in zip(places, found, strict=True):
        if len(matching) > 1:
            yield _several(study, field, f"{stack}/{workload}", matching)
        elif not matching and not quick:
            problem = f"no such cell of {stack}/{workload} is measured, so it will stay `unknown`"
            yield Doubt(field, problem, "see `exclude`; blocklab plan --cells STUDY lists the cells")
    keys = [[cell.key for cell in matching] for matching in found]
    for mine, other in ((0, 1), (0, 2)):
        if other < len(keys) and len(keys[mine]) == 1 and keys[mine] == keys[other]:
            name, at = ("relative_to", "relative_at") if other == 1 else ("against", "against_at")
            problem = "compares a cell with itself: the ratio is 1 whatever is measured"
            yield Doubt(
                name if getattr(claim, name) else at, problem, f"name another one, or other levels in `{at}`"
            )


def _places(claim: Expectation) -> list[_Place]:
    """The cells that the claim is about, as ``stats.expect`` looks them up."""
    found: list[_Place] = [("at", claim.stack, claim.workload, claim.at)]
    if claim.relative_to:
        found.append(("relative_at", claim.relative_to, claim.workload, {**claim.at, **claim.relative_at}))
    if claim.relative_to and (claim.against or claim.against_at):
        against = claim.against or claim.workload
        found.append(("against_at", claim.stack, against, {**claim.at, **claim.against_at}))
        levels = {**claim.at, **claim.against_at, **claim.relative_at}
        found.append(("against_at", claim.relative_to, against, levels))
    return found


def _cells(cells: Sequence[Cell], place: _Place) -> list[Cell]:
    _, stack, workload, at = place
    wanted = {name: level_text(level) for name, level in at.items()}
    return [
        cell
        for cell in cells
        if (cell.stack, cell.workload) == (stack, workload)
        # A factor that makes no difference to a cell is not among its levels.
        and all(cell.levels.get(name, level) == level for name, level in wanted.items())
    ]


def _several(study: Study, field: str, place: str, matching: Sequence[Cell]) -> Doubt:
    open_ = [name for name in study.factors if len({cell.levels.get(name) for cell in matching}) > 1]
    example = ", ".join(f"{name}: {matching[0].levels.get(name)}" for name in open_)
    problem = f"{place} is {len(matching)} cells, so it will stay `unknown`: name a level of {', '.join(open_)}"
    # What holds for the first cell holds for those that it is compared with.
    return Doubt(field, problem, f"at: {{{example}}}")

"""A study's cells as the model sees them: what is measured, what is predicted of the rest, and what is refused."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from blocklab.errors import StudyError
from blocklab.model.metrics import metric as metric_of
from blocklab.model.workload import Connected, QueueDepths
from blocklab.predict.curve import LEAST, Curve, Interval, Spot
from blocklab.predict.design import chosen, usual_count
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.compare import Family, families
from blocklab.stats.headline import source_of
from blocklab.stats.predicted import Fit, Predicted, Told
from blocklab.stats.values import Row
from blocklab.store.folder import StudyFolder
from blocklab.study.factors import variant
from blocklab.study.grid import links_of
from blocklab.study.types import Cell, Study

# Every so many measured cells one is held out, to tell the error.
HELD = 5
# So many times the largest measured number of clients, and round trip, are answered; beyond, nothing is known.
BEYOND = 2.0
_PER_SECOND = {"1/s": 1.0, "1/min": 60.0}


class Where(msgspec.Struct, frozen=True):
    """Where a cell stands: its stack, the levels that are no axis, its clients and its round trip (s)."""

    stack: str
    rest: tuple[tuple[str, str], ...]
    clients: float
    rtt: float


class Map(msgspec.Struct, frozen=True):
    """The cells of one workload, or of a phase of it, by key."""

    places: Mapping[str, Where]
    stacks: tuple[str, ...]
    groups: tuple[tuple[tuple[str, str], ...], ...]

    def spot(self, where: Where) -> Spot:
        """As the model counts. Raises ``ValueError`` for a stack or levels that it lacks."""
        return Spot(self.stacks.index(where.stack), self.groups.index(where.rest), where.clients, where.rtt)


def plan(study: Study, grid: Sequence[Cell], count: int | None) -> list[Cell]:
    """The cells of the first repeat to measure: ``count`` of them, or about a fifth. Raises ``StudyError`` where
    there is nothing to predict from, and where it would save nothing."""
    found: list[Cell] = []
    once = [cell for cell in grid if cell.repeat == 0]
    for workload in dict.fromkeys(cell.workload for cell in once):
        mine = [cell for cell in once if cell.workload == workload]
        mapped = _mapped(study, mine, _phases(study, mine[0])[0])
        if mapped is None:
            hint = "it needs a factor that changes a link's rtt, or clients, threads or iodepth"
            raise StudyError("factors", f"--predict: {workload} has no curve to predict from", hint=hint)
        spots = [mapped.spot(mapped.places[cell.key]) for cell in mine]
        # Of several workloads each has its part.
        wanted = usual_count(spots) if count is None else max(LEAST, round(count * len(mine) / len(once)))
        if wanted >= len(mine):
            hint = "leave out --predict"
            raise StudyError(
                "factors", f"--predict: {workload} has {len(mine)} cells, and the model needs {wanted}", hint=hint
            )
        found += [mine[at] for at in chosen(spots, wanted)]
    return found


def analysed(folder: StudyFolder) -> Analysis:
    """A study's folder, read and evaluated, with what its manifest leaves to prediction. Raises ``StoreError``."""
    manifest = folder.manifest()
    keys = set(manifest.predicted)
    left = [cell for cell in manifest.cells if cell.repeat == 0 and cell.key in keys and not folder.there(cell)]
    return completed(analyse(folder), left)


def completed(analysis: Analysis, left: Sequence[Cell]) -> Analysis:
    """With predictions of the cells that were ``left`` to them (those of the first repeat)."""
    if not left:
        return analysis
    fits = []
    for family in families(analysis):
        if (made := _fitted(analysis, family)) is None:
            continue
        curve, mapped, fit = made
        todo = [cell for cell in left if cell.workload == family.workload]
        whole = _mapped(analysis.study, [*_measured_cells(analysis, family), *todo], family.phase)
        if whole is None:
            continue
        known = [cell for cell in todo if _within(whole.places[cell.key], mapped)]
        values = curve.intervals([mapped.spot(whole.places[cell.key]) for cell in known])
        cells = tuple(
            _predicted(cell.stack, family, cell.levels, value) for cell, value in zip(known, values, strict=True)
        )
        fits.append(msgspec.structs.replace(fit, cells=cells))
    return replace(analysis, fits=tuple(fits))


def answers(
    analysis: Analysis, stacks: Sequence[str], clients: float | None, rtt: float | None, levels: Mapping[str, str]
) -> list[Fit]:
    """What each headline would be on these stacks at so many clients and that round trip (s), at ``levels`` of the
    study's other factors, or at all of them. Raises ``StudyError`` for what was not measured, and beyond it."""
    found = []
    for family in families(analysis):
        if (made := _fitted(analysis, family)) is None:
            continue
        curve, mapped, fit = made
        cells = []
        for stack in mapped.stacks:
            for rest in mapped.groups:
                mine = [each for each in mapped.places.values() if (each.stack, each.rest) == (stack, rest)]
                if stack not in stacks or not mine or not levels.items() <= dict(rest).items():
                    continue
                where = Where(stack, rest, _asked(clients, mine, "clients"), _asked(rtt, mine, "rtt"))
                if not _inside(where, mapped):
                    raise _beyond(where, mapped)
                told = {"clients": f"{where.clients:g}", "rtt": f"{where.rtt * 1e3:g}ms", **dict(rest)}
                (value,) = curve.intervals([mapped.spot(where)])
                cells.append(_predicted(stack, family, told, value))
        found.append(msgspec.structs.replace(fit, cells=tuple(cells)))
    if not found:
        hint = (
            f"it needs {LEAST} measured cells of a factor that changes a link's rtt, clients, threads or iodepth"
        )
        raise StudyError("factors", "nothing can be predicted from these runs", hint=hint)
    if not any(fit.cells for fit in found):
        hint = "name a stack and levels that were measured together: blocklab plan --cells STUDY"
        raise StudyError("", "no cell of these runs is of that stack at these levels", hint=hint)
    return found


def _asked(value: float | None, mine: Sequence[Where], name: str) -> float:
    """What is asked for; of what is not said the only one that was measured."""
    known = sorted({getattr(each, name) for each in mine})
    if value is not None:
        # A round trip that makes no difference to a stack is 0 there.
        return 0.0 if name == "rtt" and known == [0.0] else value
    if len(known) > 1:
        raise StudyError("", f"--at {name}=: which of {known[0]:g} to {known[-1]:g}?", hint=f"--at {name}=VALUE")
    return float(known[0])


def _predicted(stack: str, family: Family, levels: Mapping[str, str], value: Interval) -> Predicted:
    scale = _PER_SECOND[family.rows[0].unit]
    return Predicted(stack, family.workload, levels, value.value * scale, value.low * scale, value.high * scale)


# -- where cells stand -----------------------------------------------------------------------------------------


def _phases(study: Study, cell: Cell) -> list[str]:
    workload = variant(study, cell.levels).workloads[cell.workload]
    return list(workload.queue_depths()) if isinstance(workload, QueueDepths) else [""]


def _clients(study: Study, cell: Cell, phase: str) -> float | None:
    """How many clients there are, or requests under way; None where that is not known."""
    workload = variant(study, cell.levels).workloads[cell.workload]
    if isinstance(workload, QueueDepths):
        depth = workload.queue_depths().get(phase)
        return None if depth is None else float(depth)
    return float(workload.sessions) if isinstance(workload, Connected) else None


def _rtt(study: Study, cell: Cell) -> float:
    """The round trip (s) of all links of the cell's stack."""
    at = variant(study, cell.levels)
    return math.fsum(float(at.links[name].rtt) for name in links_of(at.stacks[cell.stack]))


def _mapped(study: Study, cells: Sequence[Cell], phase: str) -> Map | None:
    """Where cells of one workload stand; None where neither clients nor a round trip varies."""
    clients = {cell.key: _clients(study, cell, phase) for cell in cells}
    rtts = {cell.key: _rtt(study, cell) for cell in cells}
    # What is the same in all of a stack's cells is in its wait.
    fixed = {
        stack for stack in {cell.stack for cell in cells}
        if len({rtts[cell.key] for cell in cells if cell.stack == stack}) == 1
    }  # fmt: skip
    known = {
        cell.key: (clients[cell.key] or 1.0, 0.0 if cell.stack in fixed else rtts[cell.key]) for cell in cells
    }
    if all(len({each[axis] for each in known.values()}) == 1 for axis in (0, 1)):
        return None
    axes = {name for name in study.factors if _moves(name, cells, known)}
    places = {}
    for cell in cells:
        rest = tuple((name, level) for name, level in cell.levels.items() if name not in axes)
        places[cell.key] = Where(cell.stack, rest, *known[cell.key])
    return Map(
        places, tuple(dict.fromkeys(each.stack for each in places.values())),
        tuple(dict.fromkeys(each.rest for each in places.values())),
    )  # fmt: skip


def _moves(name: str, cells: Sequence[Cell], known: Mapping[str, tuple[float, float]]) -> bool:
    """Whether a factor changes the clients or the round trip of cells that differ in nothing else."""
    alike: dict[object, set[tuple[float, float]]] = {}
    for cell in cells:
        if name in cell.levels:
            others = tuple((each, level) for each, level in cell.levels.items() if each != name)
            alike.setdefault((cell.stack, others), set()).add(known[cell.key])
    return any(len(each) > 1 for each in alike.values())


def _within(where: Where, mapped: Map) -> bool:
    """Whether anything is known there."""
    return where.stack in mapped.stacks and where.rest in mapped.groups and _inside(where, mapped)


def _inside(where: Where, mapped: Map) -> bool:
    clients = [each.clients for each in mapped.places.values()]
    rtts = [each.rtt for each in mapped.places.values()]
    return min(clients) / BEYOND <= where.clients <= BEYOND * max(clients) and where.rtt <= BEYOND * max(rtts)


def _beyond(where: Where, mapped: Map) -> StudyError:
    clients = sorted(each.clients for each in mapped.places.values())
    rtt = max(each.rtt for each in mapped.places.values())
    said = f"measured were {clients[0]:g} to {clients[-1]:g} clients and round trips of up to {rtt * 1e3:g} ms"
    problem = f"{where.clients:g} clients at {where.rtt * 1e3:g} ms are beyond twice of what was measured"
    return StudyError("", problem, hint=f"{said}; measure closer to it")


# -- fits ------------------------------------------------------------------------------------------------------


def _measured_cells(analysis: Analysis, family: Family) -> list[Cell]:
    """A cell for each row of the family, in the order of the rows."""
    found: dict[tuple[str, str], Cell] = {}
    for cell in analysis.cells:
        point = analysis.grid.point(cell)
        found.setdefault((point.stack, point.workload), cell)
    return [found[row.stack, row.workload] for row in family.rows]


def measured_points(analysis: Analysis, family: Family) -> tuple[list[Spot], list[float], list[Row]] | None:
    """Where the family's rows stand, their rates (1/s), and the rows; None where there is no curve."""
    made = _points(analysis, family)
    return None if made is None else made[1:]


def _points(analysis: Analysis, family: Family) -> tuple[Map, list[Spot], list[float], list[Row]] | None:
    """The same, and the map; None also for what is no rate of the workload's own."""
    first = family.rows[0]
    if first.unit not in _PER_SECOND or metric_of(first.metric).kind != "rate" or source_of(first) != "":
        return None
    cells = _measured_cells(analysis, family)
    mapped = _mapped(analysis.study, cells, family.phase)
    if mapped is None:
        return None
    usable = [(row, cell) for row, cell in zip(family.rows, cells, strict=True) if row.value > 0]
    spots = [mapped.spot(_achieved(analysis, row, mapped.places[cell.key])) for row, cell in usable]
    rates = [row.value / _PER_SECOND[first.unit] for row, _ in usable]
    return mapped, spots, rates, [row for row, _ in usable]


def _fitted(analysis: Analysis, family: Family) -> tuple[Curve, Map, Fit] | None:
    """The model of a headline; None where there is no curve, or of too few cells."""
    made = _points(analysis, family)
    if made is None or len(made[1]) < LEAST:
        return None
    mapped, spots, rates, rows = made
    curve = Curve(spots, rates)
    fit = Fit(
        family.label, family.workload, family.phase, rows[0].metric, rows[0].unit, len(spots),
        _held_out(spots, rates), _noise(analysis, family), _told(curve, mapped),
    )  # fmt: skip
    return curve, mapped, fit


def _achieved(analysis: Analysis, row: Row, where: Where) -> Where:
    """With the round trip that was measured, where it was not what was asked for."""
    if where.rtt == 0.0:
        return where
    off = sum(
        each.achieved - each.asked
        for each in analysis.inputs.untrue((row.stack, row.workload)) if each.what.startswith("link ")
    )  # fmt: skip
    return msgspec.structs.replace(where, rtt=max(0.0, where.rtt + off))


def _held_out(spots: Sequence[Spot], rates: Sequence[float]) -> tuple[float, ...]:
    """By what part a fit without every fifth cell is off there; of those whose stack and levels it has."""
    held = set(range(HELD // 2, len(spots), HELD))
    kept = [at for at in range(len(spots)) if at not in held]
    stacks, groups = {spots[at].stack for at in kept}, {spots[at].group for at in kept}
    asked = [at for at in sorted(held) if spots[at].stack in stacks and spots[at].group in groups]
    rest = Curve([spots[at] for at in kept], [rates[at] for at in kept])
    found = rest.rates([spots[at] for at in asked])
    return tuple(abs(float(value) / rates[at] - 1) for at, value in zip(asked, found, strict=True))


def _noise(analysis: Analysis, family: Family) -> float | None:
    """The median of the cells' standard deviations from build to build, relative to their means."""
    values: dict[tuple[str, str], list[float]] = {}
    for table in analysis.tables:
        for row in table:
            if row.own and (row.workload_name, row.phase, row.metric) == (
                family.workload, family.phase, family.metric
            ):  # fmt: skip
                values.setdefault((row.stack, row.workload), []).append(row.value)
    several = [each for each in values.values() if len(each) > 1 and min(each) > 0]
    spreads = [statistics.stdev(each) / statistics.fmean(each) for each in several]
    return statistics.median(spreads) if spreads else None


def _told(curve: Curve, mapped: Map) -> tuple[Told, ...]:
    made = curve.parameters
    levels = [", ".join(f"{name}={level}" for name, level in rest) for rest in mapped.groups]
    waits = zip(levels, made.waits, strict=True)
    found = [Told("own time of a transaction", "", made.own, "s")]
    found += [Told("waits for storage in a transaction", at, each, "") for at, each in waits]
    locked = zip(levels, made.locked, strict=True)
    found += [Told("waits that hold up all others (locks)", at, each, "") for at, each in locked]
    found += [Told("a wait without the link", stack, made.wait[at], "s") for at, stack in enumerate(mapped.stacks)]
    found += [
        Told("capacity", " ".join(filter(None, (stack, at))), each, "1/s")
        for at, row in zip(levels, made.capacity, strict=True)
        for stack, each in zip(mapped.stacks, row, strict=True)
    ]
    return tuple(found)

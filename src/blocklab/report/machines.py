"""The machines of a study that several of them measured: for the page, the terminal, and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import RenderableType

from blocklab.model.terminal import Text
from blocklab.report.grid import grid
from blocklab.stats.analysis import Analysis
from blocklab.stats.effects import Effect, effects, reasons
from blocklab.stats.format import percent, quantity

# Of more ratios than this the page's table tells.
MOST_ROWS = 20
NONE = "–"
RATIOS = ("ratio", "on the machines", "all machines", "further ones", "between machines", "between builds")


class MachineRow(msgspec.Struct, frozen=True):
    """One machine: the number of good runs, its CPU, what its floor was, and why some of its values do not fit."""

    name: str
    cpu: str
    runs: int
    mirror: str
    noise: str
    unfit: str


class RatioRow(msgspec.Struct, frozen=True):
    """One ratio over the machines, in words."""

    stack: str
    cells: tuple[str, ...]
    disagree: bool


def machine_rows(analysis: Analysis) -> list[MachineRow]:
    """One for each machine; none of a study of one."""
    if len(analysis.machines) < 2:
        return []
    good = [run for run in analysis.every if run.outcome.status == "ok"]
    count = Counter(analysis.where[run.folder.name] for run in good)
    found = []
    for number, name in enumerate(analysis.machines):
        mine = [run.environment for run in analysis.every if analysis.where[run.folder.name] == number]
        host, floor = (_first(mine, part) for part in ("host", "floor"))
        mirror, noise = floor.get("mirror.write.latency"), floor.get("noise")
        found.append(
            MachineRow(
                name,
                f"{host['cpu']}, {host.get('cpus', '?')} CPUs" if host.get("cpu") else NONE,
                count[number],
                NONE if mirror is None else quantity(mirror, "s"),
                NONE if noise is None else percent(noise / 100),
                "; ".join(reasons(analysis).get(name, ())),
            )
        )
    return found


def _first(environments: Sequence[Mapping[str, Any]], part: str) -> Mapping[str, Any]:
    """A part of the first environment that has it."""
    return next((each[part] for each in environments if isinstance(each.get(part), Mapping)), {})


def ratio_rows(analysis: Analysis) -> list[RatioRow]:
    """One for each ratio that several machines have, by the columns ``RATIOS``; those that disagree first."""
    found = sorted(effects(analysis), key=lambda effect: not effect.disagree)
    return [RatioRow(each.row.stack, _cells(each), each.disagree) for each in found]


def _cells(effect: Effect) -> tuple[str, ...]:
    shares = [on.share.value for on in effect.each if not on.apart]
    return (
        effect.label,
        f"{percent(min(shares))} to {percent(max(shares))}" if len(shares) > 1 else NONE,
        percent(effect.share.value, effect.share.half),
        NONE if effect.further is None else " to ".join(map(percent, effect.further)),
        NONE if effect.between is None else percent(effect.between) + (" *" if effect.disagree else ""),
        NONE if effect.within is None else percent(effect.within),
    )


def machine_parts(analysis: Analysis) -> Iterator[RenderableType]:
    """For the terminal; nothing of a study of one machine."""
    rows = ratio_rows(analysis)
    if rows:
        yield grid(RATIOS, [row.cells for row in rows[:MOST_ROWS]])
        if any(row.disagree for row in rows):
            yield Text("*: machines differ by more than builds on one machine do (Cochran's Q).", style="dim")
        if left := len(rows) - MOST_ROWS:
            yield from [Text(f"{left} more ratios are on the page.", style="dim")] if left > 0 else []


def document(analysis: Analysis) -> dict[str, Any]:
    """For JSON: nothing of a study of one machine. ``between`` and ``within`` are standard deviations of the
    logarithm of a ratio."""
    if len(analysis.machines) < 2:
        return {}
    return {
        "machines": {
            "each": [
                {"name": row.name, "runs": row.runs, "unfit": reasons(analysis).get(row.name, ())}
                for row in machine_rows(analysis)
            ],
            "mixed": "apart" if analysis.apart or not analysis.misfits else "pool",
            "ratios": [_ratio(each) for each in effects(analysis)],
        }
    }


def _ratio(effect: Effect) -> dict[str, Any]:
    row, pool = effect.row, effect.pool
    return {
        "stack": row.stack_name, "workload": row.workload_name, "levels": row.levels, "phase": row.phase,
        "metric": row.metric, "ratio": effect.share.value, "half_width": effect.share.half,
        "machines": effect.share.machines, "builds": effect.share.builds,
        "between": pool and pool.between, "within": pool and pool.within, "chance": pool and pool.chance,
        "disagree": effect.disagree, "further": effect.further,
        "each": [
            {"machine": on.machine, "ratio": on.share.value, "half_width": on.share.half,
             "builds": on.share.builds, "apart": on.apart}
            for on in effect.each
        ],
    }  # fmt: skip

"""The twins of the page for programs: report.csv, drills.csv and report.json."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from blocklab.report.carried import carried_json
from blocklab.stats.analysis import Analysis, Drilled, Gap, Stop
from blocklab.stats.drills import Summary, summaries
from blocklab.stats.findings import Findings
from blocklab.stats.grid import levels_of
from blocklab.stats.longform import FACTOR
from blocklab.stats.ratio import verdict
from blocklab.stats.values import Row
from blocklab.study.types import Expectation

FORMAT = 1
COLUMNS = (
    "study", "stack", "workload", "phase", "metric", "value", "unit", "layer", "host", "relative", "half_width",
    "relative_half_width", "verdict", "limited",
)  # fmt: skip


DRILL_COLUMNS = (
    "drill", "run", "fault", "seed", "survivor", "took_over", "verdict", "why", "attempted", "acknowledged",
    "refused", "in_doubt", "in_doubt_found", "missing", "unexpected", "torn", "rpo_s", "rto_s", "rate", "stages",
    "binlog", "behind", "ahead", "mirror",
)  # fmt: skip


def as_csv(analysis: Analysis) -> str:
    """One line a value, in base units (s, B/s, 1/s, %).

    ``relative`` is the ratio to the baseline's value and ``half_width`` that of the 95 % interval within the
    run, in ``unit``; ``relative_half_width`` is that of the ratio and ``verdict`` what it says (``stats.ratio``).
    ``limited`` says why a workload's value is the lab's own rather than the layout's.
    All are empty where there is none. Each factor of the study has a column with its level,
    which is empty where the factor makes no difference to the cell; it is called ``factor.NAME`` where the file
    has a column NAME already.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    factors = analysis.grid.factors
    writer.writerow([*COLUMNS[:3], *_factor_columns(factors, COLUMNS), *COLUMNS[3:]])
    for row in analysis.rows:
        relative = "" if row.relative is None else f"{row.relative.value:.6g}"
        half = "" if row.half is None else f"{row.half:.6g}"
        writer.writerow(
            [analysis.study.name, row.stack_name, row.workload_name,
             *(row.levels.get(factor, "") for factor in factors), row.phase, row.metric, f"{row.value:.9g}",
             row.unit, row.layer, row.host, relative, half, *_said(analysis, row), analysis.limit(row)]
        )  # fmt: skip
    return out.getvalue()


def drills_csv(analysis: Analysis) -> str:
    """One line a drill, in base units; ``run`` is the status of its run, and only those of ``ok`` count. Each
    factor of the study has a column. ``stages`` is ``name=seconds`` with blanks between."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    factors = analysis.grid.factors
    own = [*COLUMNS[:3], *DRILL_COLUMNS]
    writer.writerow([*COLUMNS[:3], *_factor_columns(factors, own), *DRILL_COLUMNS])
    for each in analysis.drills:
        stack, workload = analysis.stacks[each.stack], analysis.workloads[each.workload]
        levels = {**stack.levels, **workload.levels}
        writer.writerow(
            [analysis.study.name, stack.name, workload.name, *(levels.get(factor, "") for factor in factors),
             *_drill_line(each)]
        )  # fmt: skip
    return out.getvalue()


def _factor_columns(factors: Iterable[str], others: Collection[str]) -> list[str]:
    return [FACTOR + name if name in others else name for name in factors]


def _drill_line(each: Drilled) -> list[Any]:
    drill, verdict, log = each.drill, each.drill.verdict, each.drill.verdict.binlog
    numbers = ["" if x is None else f"{x:.9g}" for x in (verdict.rpo_seconds, verdict.rto_seconds, drill.rate)]
    return [
        each.repeat, each.status, drill.fault, drill.seed, drill.survivor, str(drill.took_over).lower(),
        verdict.status, verdict.why, verdict.attempted, verdict.acknowledged, verdict.refused, verdict.in_doubt,
        verdict.in_doubt_found, len(verdict.missing), len(verdict.unexpected), len(verdict.torn), *numbers,
        " ".join(f"{stage.name.replace(' ', '-')}={stage.end - stage.start:.6f}" for stage in drill.stages),
        *(("", "", "") if log is None else (log.status, log.behind, log.ahead)),
        "" if drill.mirror is None else drill.mirror.status,
    ]  # fmt: skip


def _drills(analysis: Analysis) -> dict[str, Any]:
    """What a study with drills has besides: the cells' summaries, and each drill without its time series."""
    if not analysis.drills:
        return {}
    return {
        "drills": {
            "cells": [_summary(each) for each in summaries(analysis)],
            "each": [
                {**_at(analysis, each.stack, each.workload), "repeat": each.repeat, "run": each.status,
                 **msgspec.structs.asdict(msgspec.structs.replace(each.drill, bins=()))}
                for each in analysis.drills
            ],
        }
    }  # fmt: skip


def _summary(each: Summary) -> dict[str, Any]:
    fields = msgspec.structs.asdict(each)
    point = fields.pop("point")
    return {"stack": point.stack_name, "workload": point.workload_name, "levels": point.levels, **fields}


def _at(analysis: Analysis, stack: str, workload: str) -> dict[str, Any]:
    below, above = analysis.stacks[stack], analysis.workloads[workload]
    return {"stack": below.name, "workload": above.name, "levels": {**below.levels, **above.levels}}


def _said(analysis: Analysis, row: Row) -> tuple[str, str]:
    # The baseline beside itself is nothing to judge.
    if row.relative is None or row.stack in analysis.grid.baselines:
        return "", ""
    half = row.relative.half
    return "" if half is None else f"{half:.6g}", verdict(row.relative)


def as_json(analysis: Analysis, found: Findings) -> bytes:
    """The whole analysis: question, findings, verdicts, gaps, values, why each phase was measured no longer, and
    the floors of the lab that the values are marked by."""
    study = analysis.study
    document = {
        "format": FORMAT,
        "study": study.name,
        "question": study.question,
        "baseline": analysis.baseline,
        "quick": analysis.quick,
        "stacks": list(study.stacks),
        "workloads": list(study.workloads),
        **({"factors": levels_of(study)} if analysis.grid.factors else {}),
        "findings": found,
        "verdicts": [
            {
                "status": verdict.status,
                "says": verdict.claim.says,
                "sentence": verdict.sentence,
                "metric": verdict.claim.metric,
                "stack": verdict.claim.stack,
                "workload": verdict.claim.workload,
                "phase": verdict.claim.phase,
                "relative_to": verdict.claim.relative_to,
                "against": verdict.claim.against,
                **_levels(verdict.claim),
                "source": verdict.claim.source,
                "found": verdict.found,
                "half_width": verdict.half,
                "between": [verdict.low, verdict.high],
                "close": verdict.close,
            }
            for verdict in analysis.verdicts
        ],
        "gaps": [_gap(analysis, gap) for gap in analysis.gaps],
        "metrics": [_value(analysis, row) for row in analysis.rows],
        "seeds": analysis.seeds,
        "repeats": study.repeats,
        "stops": [_stop(analysis, stop) for stop in analysis.stops],
        "floors": analysis.floors.distinct,
        **carried_json(analysis),
        **_drills(analysis),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _levels(claim: Expectation) -> dict[str, Any]:
    """What only some claims have."""
    fields = {name: getattr(claim, name) for name in ("at", "relative_at", "against_at", "host")}
    return {name: value for name, value in fields.items() if value}


def _value(analysis: Analysis, row: Row) -> dict[str, Any]:
    fields = msgspec.structs.asdict(row)
    fields |= {"stack": fields.pop("stack_name"), "workload": fields.pop("workload_name")}
    levels = fields.pop("levels")
    itself = row.stack in analysis.grid.baselines
    fields["verdict"] = verdict(row.relative) if row.relative is not None and not itself else None
    fields["limited"] = analysis.limit(row)
    return {**fields, "levels": levels} if analysis.grid.factors else fields


def _stop(analysis: Analysis, stop: Stop) -> dict[str, Any]:
    stack, workload = analysis.stacks[stop.stack], analysis.workloads[stop.workload]
    fields = {
        "stack": stack.name, "workload": workload.name, "repeat": stop.repeat,
        **msgspec.structs.asdict(stop.stopped),
    }  # fmt: skip
    return {**fields, "levels": {**stack.levels, **workload.levels}} if analysis.grid.factors else fields


def _gap(analysis: Analysis, gap: Gap) -> dict[str, Any]:
    stack, workload = analysis.stacks[gap.stack], analysis.workloads[gap.workload]
    fields = {**msgspec.structs.asdict(gap), "stack": stack.name, "workload": workload.name}
    return {**fields, "levels": {**stack.levels, **workload.levels}} if analysis.grid.factors else fields

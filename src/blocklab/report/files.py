"""The page's twin for programs: report.json."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from blocklab.report import machines, predictions
from blocklab.stats import longform
from blocklab.stats.analysis import Analysis
from blocklab.stats.binomial import Middle
from blocklab.stats.carried import needs
from blocklab.stats.drills import Summary, summaries
from blocklab.stats.findings import Findings
from blocklab.stats.grid import levels_of
from blocklab.stats.overview import overview
from blocklab.stats.reading import Gap, Stop
from blocklab.stats.sentences import answer
from blocklab.stats.worth import worth

FORMAT = 2


def _drills(analysis: Analysis) -> dict[str, Any]:
    """What a study with drills has besides: the cells' summaries, and each drill without its time series."""
    if not analysis.drills:
        return {}
    return {
        "drills": {
            "cells": [_summary(each) for each in summaries(analysis)],
            "each": [
                {**_at(analysis, each.stack, each.workload), "repeat": each.repeat, "run": each.status,
                 **msgspec.structs.asdict(msgspec.structs.replace(each.drill, bins=())),
                 "newest_lost": each.drill.newest_lost, "came_back": each.drill.came_back,
                 "recovered": each.drill.recovered}
                for each in analysis.drills
            ],
        }
    }  # fmt: skip


def _summary(each: Summary) -> dict[str, Any]:
    fields = msgspec.structs.asdict(each)
    point = fields.pop("point")
    times = {name: _ended(fields[name]) for name in ("rto", "recovered")}
    where = {"stack": point.stack_name, "workload": point.workload_name, "levels": point.levels}
    return {**where, **fields, **times}


def _ended(found: Middle | None) -> dict[str, Any] | None:
    """What has no end is ``never``: JSON has no infinity, and null is what is not known."""
    if found is None:
        return None
    return {
        name: "never" if value is not None and math.isinf(value) else value
        for name, value in msgspec.structs.asdict(found).items()
    }


def _at(analysis: Analysis, stack: str, workload: str) -> dict[str, Any]:
    below, above = analysis.stacks[stack], analysis.workloads[workload]
    return {"stack": below.name, "workload": above.name, "levels": {**below.levels, **above.levels}}


def as_json(analysis: Analysis, found: Findings) -> bytes:
    """The whole analysis: question, findings, verdicts, gaps, values, why each phase was measured no longer, and
    the floors of the lab that the values are marked by."""
    study = analysis.study
    document = {
        "format": FORMAT,
        "study": study.name,
        "question": study.question,
        **({"clock": analysis.clock} if analysis.clock else {}),
        "baseline": analysis.baseline,
        "quick": analysis.quick,
        "stacks": list(study.stacks),
        "workloads": list(study.workloads),
        "factors": levels_of(study),
        "overview": overview(analysis),
        "answer": answer(found),
        "worth": worth(analysis),
        "findings": [each for group in (found.lead, *found.points, found.caveats) for each in group],
        "verdicts": [
            {
                **msgspec.to_builtins(verdict.claim),
                "status": verdict.status,
                "builds": verdict.builds,
                "sentence": verdict.sentence,
                "found": verdict.found,
                "half_width": verdict.half,
                "between": [verdict.low, verdict.high],
                "inside": verdict.inside,
            }
            for verdict in analysis.verdicts
        ],
        "gaps": [_gap(analysis, gap) for gap in analysis.gaps],
        "metrics": list(longform.report(analysis).rows),
        "seeds": analysis.seeds,
        "repeats": study.repeats,
        "stops": [_stop(analysis, stop) for stop in analysis.stops],
        "floors": analysis.floors.distinct,
        "carried": [
            {**msgspec.structs.asdict(need), **_at(analysis, need.stack, need.workload)}
            for need in needs(analysis)
        ],
        **machines.document(analysis),
        **predictions.document(analysis.fits),
        **_drills(analysis),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _stop(analysis: Analysis, stop: Stop) -> dict[str, Any]:
    return {
        **_at(analysis, stop.stack, stop.workload), "repeat": stop.repeat, **msgspec.structs.asdict(stop.stopped)
    }  # fmt: skip


def _gap(analysis: Analysis, gap: Gap) -> dict[str, Any]:
    return {**msgspec.structs.asdict(gap), **_at(analysis, gap.stack, gap.workload)}

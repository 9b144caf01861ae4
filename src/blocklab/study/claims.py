"""Whether what a study expects can be decided: the claims of ``expect``. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blocklab.errors import StudyError
from blocklab.model.knobs import nearest
from blocklab.model.metrics import known
from blocklab.model.workload import Phased
from blocklab.study.factors import assignments, level_text, variant
from blocklab.study.measures import metric_problems
from blocklab.study.types import Expectation, Study

Problem = tuple[str, str]
# A matrix of fio has hundreds of phases.
MOST_NAMED = 8


def expectations(study: Study) -> Iterator[Problem]:
    """Claims about stacks, loads, nodes or levels that the study has not, and bounds that are none."""
    for index, claim in enumerate(study.expect):
        yield from ((f"expect[{index}].{field}", problem) for field, problem in _claim(study, claim))


def _claim(study: Study, claim: Expectation) -> Iterator[Problem]:
    for fields, kind, names in (
        (("stack", "relative_to"), "stack", study.stacks),
        (("workload", "against"), "workload", study.workloads),
    ):
        for field in fields:
            name = getattr(claim, field)
            if name and name not in names:
                yield field, f"there is no {kind} {name!r}; there are {', '.join(names)}{nearest(name, names)}"
    if claim.host and claim.host not in study.nodes:
        yield "host", f"there is no node {claim.host!r}; there are {', '.join(study.nodes)}"
    for field in ("at", "relative_at", "against_at"):
        yield from _levels(study, field, getattr(claim, field))
    for field in ("relative_at", "against", "against_at"):
        if getattr(claim, field) and not claim.relative_to:
            yield field, "compares with another value, so it needs relative_to as well"
    yield from _bounds(claim)
    yield from metric_problems(study, claim)


def phase_problems(study: Study, claim: Expectation) -> Iterator[Problem]:
    """A phase that the workload does not have at its levels, or one of several that is not named."""
    try:
        at = variant(study, {name: level_text(level) for name, level in claim.at.items()})
    except StudyError:
        # A level that is none is refused by itself.
        return
    workload = at.workloads.get(claim.workload)
    phases = workload.phases if isinstance(workload, Phased) else ("",)
    if workload is None or phases is None or claim.phase in phases:
        return
    if phases == ("",):
        yield "phase", f"{claim.workload} has no phases; leave it out"
    elif claim.phase:
        yield "phase", f"{claim.workload} has no phase {claim.phase!r}; there are {_some(phases)}"
    else:
        yield "phase", f"is missing: each value of {claim.workload} is of one of {_some(phases)}"


def _bounds(claim: Expectation) -> Iterator[Problem]:
    try:
        low, high = claim.bounds
    except ValueError as error:
        yield "between", str(error)
        return
    timed = any(isinstance(bound, str) for bound in claim.between)
    metric = known(claim.metric)
    if claim.relative_to and timed:
        yield "between", "a ratio is a plain number, like [0.4, 0.65]"
    elif timed and metric is not None and metric.unit != "s":
        yield "between", f"{claim.metric} is no time: give plain numbers in {metric.unit}"
    if not (math.isfinite(low) and math.isfinite(high)):
        yield "between", "both bounds must be finite; for an open one use a number that is never reached"
    elif low > high:
        yield "between", "the lower bound comes first"


def _levels(study: Study, field: str, levels: Mapping[str, Any]) -> Iterator[Problem]:
    for name, level in levels.items():
        if name not in study.factors:
            yield f"{field}.{name}", f"there is no factor {name!r}; there are {', '.join(study.factors) or 'none'}"
        elif level_text(level) not in assignments(study.factors[name]):
            known = ", ".join(assignments(study.factors[name]))
            yield f"{field}.{name}", f"there is no level {level_text(level)!r}; there are {known}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more

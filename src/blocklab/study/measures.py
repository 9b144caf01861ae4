"""Of what the cells of a study will have values, as far as workloads and probes tell beforehand. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from blocklab.errors import StudyError
from blocklab.model.imported import Imported
from blocklab.model.knobs import nearest
from blocklab.model.metrics import LAYER, families, known
from blocklab.model.workload import Reporting
from blocklab.probes import PROBES
from blocklab.study.factors import level_text, variant
from blocklab.study.types import Expectation, Level, Study

Problem = tuple[str, str]
# Of the stack's highest block device, which is meant where no node is named.
OF_DEVICES = tuple(dict.fromkeys(metric for probe in PROBES if probe.device for metric in probe.metrics))
OF_NODES = tuple(dict.fromkeys(metric for probe in PROBES if not probe.device for metric in probe.metrics))


def metric_problems(study: Study, claim: Expectation) -> Iterator[Problem]:
    """A metric that no cell of the claim will have."""
    for name, at in ((claim.workload, claim.at), (claim.against, claim.against_at)):
        workload = _workload(study, name, at) if name else None
        if workload is not None and (wrong := _lacks(study, claim, name, workload)):
            yield wrong
            return


def _workload(study: Study, name: str, at: dict[str, Level]) -> Any:
    """As it is at these levels; None for one that is not there, which is refused by itself."""
    try:
        changed = variant(study, {factor: level_text(level) for factor, level in at.items()})
    except StudyError:
        return None
    return changed.workloads.get(name)


def _lacks(study: Study, claim: Expectation, name: str, workload: Any) -> Problem | None:
    metric, tag = claim.metric, str(workload.__struct_config__.tag)
    if not isinstance(workload, Reporting):
        # One of somebody else's may report what it likes; what was imported went through our readers.
        if isinstance(workload, Imported) and known(metric) is None:
            return "metric", f"there is no metric {metric!r}{nearest(metric, families())}"
        return None
    if metric in workload.metrics or (metric.startswith(f"{LAYER}.") and known(metric) is not None):
        return None
    if metric in (*OF_DEVICES, *OF_NODES):
        if claim.host or metric in OF_DEVICES:
            return None
        nodes = ", ".join(study.nodes)
        return "host", f"is missing: {metric} is measured on each node; name one of {nodes}"
    others = (*workload.metrics, *OF_DEVICES, *OF_NODES)
    if known(metric) is None:
        return "metric", f"there is no metric {metric!r}{nearest(metric, others) or _some(workload.metrics, tag)}"
    like = _ending(metric, workload.metrics) or nearest(metric, workload.metrics)
    return "metric", f"{name} ({tag}) does not report {metric}{like or _some(workload.metrics, tag)}"


def _ending(metric: str, names: Iterable[str]) -> str:
    """``latency.p99`` of fio is ``read.latency.p99``, or of another direction."""
    found = [name for name in names if name.endswith(f".{metric}")]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _some(names: Iterable[str], tag: str) -> str:
    listed = [name for name in names if ".latency." not in name]
    return f"; {tag} reports {', '.join(listed)}"


def shown_problems(study: Study) -> Iterator[Problem]:
    """A ``report.y`` that is no metric."""
    y = study.report.y
    if not y or known(y) is not None or y in families():
        return
    if all(isinstance(each, Reporting) for each in study.workloads.values()):
        names = {*families(), *OF_NODES, *(name for each in _reporting(study) for name in each.metrics)}
        yield "report.y", f"there is no metric {y!r}{nearest(y, sorted(names))}"


def shown_by_none(study: Study) -> bool:
    """Whether no workload and no probe has values of the metric that ``report.y`` asks for."""
    y = study.report.y
    reporting = _reporting(study)
    if not y or len(reporting) < len(study.workloads):
        return False
    names = {*OF_DEVICES, *OF_NODES, *(name for each in reporting for name in each.metrics)}
    return not any(name == y or name.endswith(f".{y}") for name in names)


def _reporting(study: Study) -> list[Reporting]:
    return [each for each in study.workloads.values() if isinstance(each, Reporting)]

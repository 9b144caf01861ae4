"""By what the charts of a study can be laid out."""

from __future__ import annotations

from collections.abc import Iterator

from blocklab.model.workload import Shaped
from blocklab.study.types import Study, View
from blocklab.workloads.fio_shapes import axes, distinguished


def fio_axes(study: Study) -> tuple[str, ...]:
    """What the jobs of the study's fio workloads differ in: ``("iodepth", "bs")``."""
    found = [each.shapes().values() for each in study.workloads.values() if isinstance(each, Shaped)]
    return tuple(dict.fromkeys(axis for shapes in found if distinguished(shapes) for axis in axes(shapes)))


def view_problems(study: Study, view: View) -> Iterator[tuple[str, str]]:
    """What keeps charts from being laid out so, as (``x``, ``color`` or ``facet``, what is wrong and the hint)."""
    known, jobs = [*study.factors, "stack", "workload"], fio_axes(study)
    wanted = dict(zip(("x", "color", "facet"), view.axes, strict=True))
    for field, name in wanted.items():
        if name and name not in (*known, *jobs):
            others = f", and in fio's jobs {', '.join(jobs)}" if jobs else ""
            yield field, f"there is no factor {name!r}; there are {', '.join(known)}{others}"
    taken: dict[str, str] = {}
    for field, name in wanted.items():
        if name and name in taken:
            yield field, f"{name} is already used as {taken[name]} already; use another one, or leave one out"
        taken.setdefault(name, field)

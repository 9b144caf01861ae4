"""Whether the programs of the nodes have the options that a study sets, as far as they were asked. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from blocklab.model import sysctls
from blocklab.model.knobs import HasKnobs, Table, Tables
from blocklab.study import sweep
from blocklab.study.types import Study

Problem = tuple[str, str]


def problems(study: Study, tables: Tables) -> Iterator[Problem]:
    """(path, problem and hint) of each option that a program does not have, or has with other values.

    A program that is not in ``tables`` was not asked: nothing is said of its options.
    """
    yield from _problems(study, tables)
    yield from sweep.factor_problems(study, lambda at: _problems(at, tables))


def _problems(study: Study, tables: Tables) -> Iterator[Problem]:
    if table := tables.get(sysctls.QUESTION.program):
        for node, spec in study.nodes.items():
            for name in spec.sysctl:
                if why := sysctls.unknown(name, table):
                    yield f"nodes.{node}.sysctl[{name}]", why
    for path, part in _asking(study):
        if table := tables.get(part.question.program):
            yield from ((f"{path}.{field}", why) for field, why in part.unknown(table))


def _asking(study: Study) -> Iterator[tuple[str, HasKnobs]]:
    for name, stack in study.stacks.items():
        for index, layer in enumerate(stack.layers):
            if isinstance(layer, HasKnobs):
                yield f"stacks.{name}.layers[{index}]", layer
    for name, workload in study.workloads.items():
        if isinstance(workload, HasKnobs):
            yield f"workloads.{name}", workload


def unasked(study: Study, tables: Tables) -> list[str]:
    """The programs of which the study sets options, or may by its factors, and that were not asked."""
    nothing: Table = defaultdict(dict)
    wanted = {
        part.question.program
        for _, part in _asking(study)
        # To whom nothing is known, whatever is set is unknown.
        if study.factors or any(True for _ in part.unknown(nothing))
    }
    if any(node.sysctl for node in study.nodes.values()):
        wanted.add(sysctls.QUESTION.program)
    return sorted(wanted - tables.keys())

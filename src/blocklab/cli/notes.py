"""What a study requests and its site cannot be as fast as: a note, since it is no mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blocklab.model.stack_map import tolerance
from blocklab.store.floor import RTT, Floor
from blocklab.study.grid import layouts, topology
from blocklab.study.types import Cell, Study


def too_short(study: Study, cells: Sequence[Cell], floor: Floor | None) -> tuple[str, ...]:
    """RTTs of these cells below what the site's links take by themselves, each once, with what is in force
    instead. It is known once the machine's ``floor`` was measured."""
    return tuple(
        dict.fromkeys(note for layout in layouts(study, cells) for note in _of(layout.study, layout.stack, floor))
    )


def _of(study: Study, stack: str, floor: Floor | None) -> Iterator[str]:
    shape = topology(study, [stack])
    least = floor.values[RTT].value if floor is not None else 0.0
    for name, link in shape.links.items():
        if 0 < link.rtt < least - tolerance(link.rtt):
            yield f"links.{name}.rtt: requested {_us(link.rtt)}; the minimum here is about {_us(least)}"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g}us"

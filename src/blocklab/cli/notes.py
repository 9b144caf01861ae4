"""What a study asks for and the lab cannot be as quick as: said before it starts, since it is no mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blocklab.layers.figures import LATENCIES
from blocklab.model.netem import BASE_RTT
from blocklab.sites.uml.volumes import PATH_SECONDS
from blocklab.study.grid import layouts, topology
from blocklab.study.types import Cell, Study


def too_short(study: Study, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Round trips and latencies of these cells below what links and volumes of the lab take by themselves, each
    once, with what is in force instead."""
    return tuple(
        dict.fromkeys(note for layout in layouts(study, cells) for note in _of(layout.study, layout.stack))
    )


def _of(study: Study, stack: str) -> Iterator[str]:
    shape = topology(study, [stack])
    for name, link in shape.links.items():
        if 0 < link.rtt < BASE_RTT:
            asked, has = _us(link.rtt), _us(BASE_RTT)
            yield f"links.{name}.rtt: {asked} asked for, {has} in force: the link alone takes that"
    for field in LATENCIES:
        for volume in shape.volumes:
            if 0 < (latency := getattr(volume.profile, field)) < PATH_SECONDS:
                asked, has = _us(latency), _us(PATH_SECONDS)
                path = f"stacks.{stack}.layers[0].{field}"
                yield f"{path}: {asked} asked for, about {has} in force: its way takes that"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g}us"

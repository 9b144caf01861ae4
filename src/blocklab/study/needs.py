"""What a study needs of its site, and what of it a site lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from blocklab.model.fault import NeedsOfSite
from blocklab.model.ground import LinkSpec
from blocklab.model.site import EmulatedLinks, EmulatedVolumes, GivenGround, Power, words
from blocklab.study.grid import is_drill, layouts, topology
from blocklab.study.types import Cell, Study

_LINK = ("rtt", "jitter", "rate", "lanes", "mtu")


def site_problems(study: Study, cells: Sequence[Cell], offers: Collection[type]) -> Iterator[tuple[str, str]]:
    """(field, problem) pairs: what these cells need and the site does not offer. Of links and volumes that are
    given, what the study says is what is expected."""
    said = set()
    given = {EmulatedLinks, EmulatedVolumes} if GivenGround in offers else set()
    for layout in layouts(study, cells):
        drilled = any(is_drill(layout.study, cell.workload) for cell in layout.cells)
        for field, capability, what in _needs(layout.study, layout.stack, drilled=drilled):
            if capability in given and not field.startswith("faults"):
                continue
            if capability not in offers and field not in said:
                said.add(field)
                yield field, f"{what}, which needs {words(capability)}; this site has none"


def _needs(study: Study, stack: str, *, drilled: bool) -> Iterator[tuple[str, type, str]]:
    shape = topology(study, [stack])
    for name, link in shape.links.items():
        plain = LinkSpec(link.between)
        for field in _LINK:
            if getattr(link, field) != getattr(plain, field):
                yield f"links.{name}.{field}", EmulatedLinks, f"the link has its own {field}"
    if any(not volume.profile.plain for volume in shape.volumes):
        yield f"stacks.{stack}.layers[0]", EmulatedVolumes, "the volume has a latency or a cap"
    if drilled:
        for name, fault in study.faults.items():
            for capability in fault.needs if isinstance(fault, NeedsOfSite) else ():
                yield f"faults.{name}", capability, f"a {fault.__struct_config__.tag}"
        if study.takeover.fence:
            yield "takeover.fence", Power, "the old node is fenced by its power"

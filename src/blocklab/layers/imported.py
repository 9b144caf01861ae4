"""A stack that blocklab did not build: its values were imported."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from blocklab.layers.base import LayerBase
from blocklab.model.layer import Place
from blocklab.model.plan import Kind, Plan, Port


class ImportedLayer(LayerBase, tag="imported", frozen=True):
    """A layout that somebody else built and measured: what stands under values that ``blocklab import`` took from
    logs.

    It cannot be built, so ``run``, ``check``, ``plan`` and ``up`` refuse it. ``blocklab import`` makes it from the
    ``says`` of a stack in its own kind of study file.

    Example::

        - {layer: imported, says: EBS gp2 of 1000 GiB and xfs on a t2.medium}
    """

    takes: ClassVar[Kind | None] = None
    gives: ClassVar[Kind] = "block"
    imported: ClassVar[Literal[True]] = True
    title: ClassVar[str] = "Imported: measured elsewhere"

    says: str = ""
    """What the layout was, in the words of whoever measured it."""

    def width(self, below: int) -> int:
        """One: nobody knows more."""
        return 1

    def details(self) -> dict[str, Any]:
        return {"": self.says}

    def plan(self, place: Place, below: tuple[Port, ...]) -> Plan:
        """It cannot be built; ``study.check`` refuses it before anything could try."""
        raise NotImplementedError

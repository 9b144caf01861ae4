"""A stack that blocklab did not build: its figures were imported."""

from __future__ import annotations

from typing import ClassVar

from blocklab.layers.base import Base
from blocklab.model.plan import Kind


class ImportedLayer(Base, tag="imported", frozen=True):
    """A layout that somebody else built and measured: what stands under figures that ``blocklab import`` took from
    logs.

    It cannot be built, so ``run``, ``check``, ``plan`` and ``up`` refuse it. ``blocklab import`` makes it from the
    ``says`` of a stack in its own kind of study file.

    Example::

        - {layer: imported, says: EBS gp2 of 1000 GiB and xfs on a t2.medium}
    """

    takes: ClassVar[Kind | None] = None
    gives: ClassVar[Kind] = "block"

    says: str = ""
    """What the layout was, in the words of whoever measured it."""

    def width(self, below: int) -> int:
        """One: nobody knows more."""
        return 1

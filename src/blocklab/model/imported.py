"""What was measured elsewhere."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, runtime_checkable

from blocklab.model.capability import Capability


@runtime_checkable
class Imported(Capability, Protocol):
    """A layer or a workload that was measured elsewhere: it cannot be built or run."""

    imported: ClassVar[Literal[True]]

    @property
    def says(self) -> str:
        """What it was, in the words of whoever measured it."""

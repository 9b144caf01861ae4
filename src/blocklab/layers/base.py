"""What most layers have in common: they stand on one port of one host and need no volume of their own."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from blocklab.model.ground import Profile
from blocklab.model.protocols import Map


class Base(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="layer"):
    """A layer on one port of one host. Each layer overrides what is different for it.

    ``needs``: what the image of the nodes that it stands on must have beyond its usual programs.
    """

    needs: ClassVar[tuple[str, ...]] = ()

    def problems(self, host: str, map: Map) -> list[tuple[str, str]]:
        """Nothing beyond what the types say."""
        return []

    def spans(self, host: str) -> tuple[str, ...]:
        """Just the host itself."""
        return (host,)

    def links(self) -> tuple[str, ...]:
        """The links that it sends data over: none."""
        return ()

    def profiles(self) -> tuple[Profile, ...]:
        """None: it stands on another layer."""
        return ()

    def width(self, below: int) -> int:
        """One port above one below."""
        if below != 1:
            raise ValueError(f"takes one device, but there are {below} below it; join them with a stripe first")
        return 1

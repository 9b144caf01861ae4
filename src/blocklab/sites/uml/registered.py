"""What the registry of sites opens."""

from __future__ import annotations

from pathlib import Path

from blocklab.sites.uml import image
from blocklab.sites.uml.site import UmlSite


def open_site(volumes: Path | None, addons: tuple[str, ...], _hosts: Path | None) -> UmlSite:
    """Nodes on this machine. Raises ``SetupError``; ``ImageError``, ``StudyError`` for an unknown add-on."""
    return UmlSite(volumes, image.require(addons) if addons else None)

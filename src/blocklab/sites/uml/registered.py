"""What the registry of sites opens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from blocklab.errors import ImageError
from blocklab.sites.uml import image

if TYPE_CHECKING:
    from blocklab.sites.uml.site import UmlSite


def portable(name: str) -> Path | None:
    """A static program of the image for hosts that are no nodes; None without an image."""
    try:
        found = image.require().kernel.parent / name
    except ImageError:
        return None
    return found if found.exists() else None


def image_key() -> str:
    """The key of this version's image: of one that is built, else of the one without add-ons."""
    found = image.find()
    return found.key if found else f"{image.recipe_key()} (not built)"


def open_site(volumes: Path | None, addons: tuple[str, ...], _hosts: Path | None, _seed: int) -> UmlSite:
    """Nodes on this machine. Raises ``SetupError``; ``ImageError``, ``StudyError`` for an unknown add-on."""
    from blocklab.sites.uml.site import UmlSite

    return UmlSite(volumes, image.require(addons) if addons else None)


def open_virtual(volumes: Path | None, addons: tuple[str, ...], _hosts: Path | None, seed: int) -> UmlSite:
    """The same in virtual time. Raises ``SetupError``; ``ImageError``, ``StudyError`` for an unknown add-on."""
    from blocklab.sites.uml.virtual import VirtualSite

    return VirtualSite(volumes, addons, seed)

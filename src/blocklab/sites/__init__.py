"""Sites by name: the one place that knows which there are. A site is a class in ``SITES``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blocklab.errors import StudyError

if TYPE_CHECKING:
    from blocklab.model.site import Site
    from blocklab.sites.leashed import Leashable

__all__ = ["CLOCKS", "COMMANDS", "DEFAULT", "SITES", "image_key", "leashable", "open_site", "portable"]

DEFAULT = "uml"
# Name -> module and function that opens it; what is not asked for is not loaded.
SITES = {"uml": ("blocklab.sites.uml.registered", "open_site")}
# Those of another clock (--clock), by its name.
CLOCKS = {"virtual": ("blocklab.sites.uml.registered", "open_virtual")}
# The one of a hosts file.
BY_FILE = ("blocklab.sites.ssh.registered", "open_site")
# Commands that only one site has: name -> module, its typer application, and its help.
COMMANDS = {
    "image": ("blocklab.sites.uml.commands", "app", "Build, list and remove node images."),
    "hosts": ("blocklab.sites.ssh.commands", "hosts_app", "Add hosts to a hosts file, and check them."),
    "disks": ("blocklab.sites.ssh.commands", "disks_app", "List the disks of hosts, and claim them."),
}


def open_site(
    name: str = DEFAULT,
    *,
    volumes: Path | None = None,
    addons: Iterable[str] = (),
    hosts: Path | None = None,
    seed: int = 0,
) -> Site:
    """A site by its name or clock, or the one of a hosts file. ``volumes`` is a folder for volumes, where it keeps
    any on this machine; ``addons`` are what its hosts must have beyond the usual programs; ``seed`` is for what
    it draws itself. Raises ``StudyError`` for an
    unknown name and for a wrong file, ``SetupError``, ``ImageError``."""
    known = SITES | CLOCKS
    if name not in known:
        raise StudyError("", f"--site {name}: no such site", hint=f"there is: {', '.join(SITES)}")
    if hosts is not None and (name != DEFAULT or volumes is not None):
        option = "--clock" if name in CLOCKS else "--site"
        given = "--volumes" if volumes is not None else f"{option} {name}"
        raise StudyError("", f"{given} and --hosts: which one?", hint="give one of them")
    module, function = known[name] if hosts is None else BY_FILE
    site: Site = getattr(importlib.import_module(module), function)(volumes, tuple(addons), hosts, seed)
    return site


def leashable(hosts: Path) -> Sequence[Leashable]:
    """The hosts of a hosts file, in its order, on which a program can be held. Raises ``StudyError``."""
    found: Sequence[Leashable] = importlib.import_module("blocklab.sites.ssh.leash").leashable(hosts)
    return found


def portable(name: str) -> Path | None:
    """A static program that was built with the node image and runs on other hosts as well; None without an
    image."""
    found: Path | None = importlib.import_module("blocklab.sites.uml.registered").portable(name)
    return found


def image_key() -> str:
    """The key of the node image that this version uses, built or not."""
    key: str = importlib.import_module("blocklab.sites.uml.registered").image_key()
    return key

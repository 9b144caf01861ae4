"""Sites by name: the one place that knows which there are. A site is a class in ``SITES``."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blocklab.errors import StudyError
from blocklab.model.site import Site

__all__ = ["COMMANDS", "DEFAULT", "SITES", "command", "image_key", "open_site", "portable"]

DEFAULT = "uml"
# Name -> module and function that opens it; what is not asked for is not loaded.
SITES = {"uml": ("blocklab.sites.uml.registered", "open_site")}
# The one of a hosts file.
BY_FILE = ("blocklab.sites.ssh.registered", "open_site")
# Commands that only one site has: name -> module and its typer application.
COMMANDS = {
    "image": ("blocklab.sites.uml.commands", "app"),
    "hosts": ("blocklab.sites.ssh.commands", "hosts_app"),
    "disks": ("blocklab.sites.ssh.commands", "disks_app"),
}


def open_site(
    name: str = DEFAULT, *, volumes: Path | None = None, addons: Iterable[str] = (), hosts: Path | None = None
) -> Site:
    """A site by its name, or the one of a hosts file. ``volumes`` is a folder for volumes, where it keeps any on
    this machine; ``addons`` are what its hosts must have beyond the usual programs. Raises ``StudyError`` for an
    unknown name and for a wrong file, ``SetupError``, ``ImageError``."""
    if name not in SITES:
        raise StudyError("", f"--site {name}: no such site", hint=f"there is: {', '.join(SITES)}")
    if hosts is not None and (name != DEFAULT or volumes is not None):
        given = "--volumes" if volumes is not None else f"--site {name}"
        raise StudyError("", f"{given} and --hosts: which one?", hint="give one of them")
    module, function = SITES[name] if hosts is None else BY_FILE
    site: Site = getattr(importlib.import_module(module), function)(volumes, tuple(addons), hosts)
    return site


def portable(name: str) -> Path | None:
    """A static program that was built with the node image and runs on other hosts as well; None without an
    image."""
    found: Path | None = importlib.import_module("blocklab.sites.uml.registered").portable(name)
    return found


def image_key() -> str:
    """The key of the node image that this version uses, built or not."""
    key: str = importlib.import_module("blocklab.sites.uml.registered").image_key()
    return key


def command(name: str) -> Any:
    """The typer application of a command that one site has."""
    module, application = COMMANDS[name]
    return getattr(importlib.import_module(module), application)

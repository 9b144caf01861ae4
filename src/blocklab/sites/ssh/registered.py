"""What the registry of sites opens."""

from __future__ import annotations

from pathlib import Path

from blocklab.sites.ssh.site import SshSite


def open_site(_volumes: Path | None, _addons: tuple[str, ...], hosts: Path, _seed: int) -> SshSite:
    """The hosts of a file. Raises ``StudyError`` for what is wrong in it."""
    return SshSite(hosts)

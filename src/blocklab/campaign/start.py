"""What a study's folder asks for: which cells, with hosts from where."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from blocklab.model.site import Site
from blocklab.sites import DEFAULT, open_site
from blocklab.store.folder import Manifest, StudyFolder, Workers
from blocklab.study.types import Cell


class Where(msgspec.Struct, frozen=True):
    """Where hosts come from: the site's name, a hosts file, a folder for volumes; or machines by Dask.
    ``parallel`` as in ``Manifest``."""

    site: str
    hosts: Path | None = None
    volumes: Path | None = None
    workers: Workers | None = None
    parallel: int | None = None


def started(manifest: Manifest, wanted: Sequence[Cell], where: Where, *, again: bool) -> Manifest:
    """With how the study is started, so that ``resume`` goes on with the same."""
    volumes, hosts = (str(path.absolute()) if path else "" for path in (where.volumes, where.hosts))
    todo, since = tuple(cell.key for cell in wanted), time.time() if again else 0.0
    return msgspec.structs.replace(
        manifest, site=where.site, hosts=hosts, volumes=volumes, workers=where.workers,
        parallel=where.parallel, todo=todo, since=since,
    )  # fmt: skip


def site_of(manifest: Manifest, volumes: Path | None = None) -> Site:
    """The site that a study is started with; ``volumes``: another folder for them. Raises what ``open_site``
    raises."""
    hosts, kept = (Path(path) if path else None for path in (manifest.hosts, manifest.volumes))
    return open_site(manifest.site or DEFAULT, volumes=volumes or kept, hosts=hosts, seed=manifest.seed or 0)


def asked(folder: StudyFolder, manifest: Manifest) -> tuple[list[Cell], tuple[Cell, ...]]:
    """The cells that a manifest asks for, and those of them that have no good run yet."""
    keys = {cell.key for cell in manifest.cells} if manifest.todo is None else set(manifest.todo)
    wanted = [cell for cell in manifest.cells if cell.key in keys]
    return wanted, folder.missing(wanted, manifest.since)

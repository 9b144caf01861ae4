"""A copy of this machine's floor in a study's folder, so that its report marks the same values anywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import Console

from blocklab.errors import BlocklabError, StoreError
from blocklab.model.cache import cache_folder
from blocklab.model.site import Site
from blocklab.store.floor import Floor, load_floor, machine_of, save_floor
from blocklab.store.folder import StudyFolder


def keep_floor(
    folder: StudyFolder, environment: Mapping[str, Any], console: Console, *, again: bool = True
) -> None:
    """Copy this machine's floor to the study's folder, so that its report marks the same values anywhere.

    One that is there already stays unless ``again``. One that cannot be read is a warning: a study runs without.
    """
    machine = machine_of(environment)
    try:
        if again or load_floor(folder.path, machine) is None:
            floor = load_floor(cache_folder(), machine)
            if floor is not None:
                save_floor(folder.path, floor)
    except StoreError as error:
        console.print(f"the lab's floor is left out: {error}", style="yellow", markup=False, soft_wrap=True)


def known_floor(site: Site) -> Floor | None:
    """What this site's floor is known to be on this machine; None where it was not measured, or without an
    image."""
    try:
        return load_floor(cache_folder(), machine_of(site.environment()))
    except BlocklabError:
        return None


def environments(folder: StudyFolder) -> list[dict[str, Any]]:
    """One environment for each machine and image that a study's cells ran on; of what can be read."""
    found = {}
    for path in sorted(folder.cells.glob("*/environment.json")):
        # What cannot be read is for the report to say.
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            environment = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
            found[machine_of(environment)] = environment
    return list(found.values())

"""Run folders as one checked file, for the way from one machine to another."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from blocklab.errors import StoreError
from blocklab.model.files import make_folder, move, whole
from blocklab.store.folder import StudyFolder
from blocklab.store.run import damage, good, take_place

# Raw output is text mostly; a higher level takes longer than the way does.
LEVEL = 1


class Packed(msgspec.Struct, frozen=True):
    """An archive: its ``size`` in bytes and its SHA-256 in hex; ``keys``: those of the runs in it."""

    size: int
    digest: str
    keys: tuple[str, ...]


def pack(folder: StudyFolder, keys: Collection[str], to: Path) -> Packed:
    """Write the runs of these keys that are there, and the floors, to the file ``to``. Raises ``StoreError``."""
    there = tuple(key for key in keys if (run := folder.cells / key).is_dir() and damage(run) is None)
    try:
        with whole(to) as half, tarfile.open(half, "w:gz", compresslevel=LEVEL) as archive:
            for key in there:
                archive.add(folder.cells / key, f"cells/{key}")
            for floor in sorted((folder.path / "floors").glob("*.json")):
                archive.add(floor, f"floors/{floor.name}")
    except OSError as error:
        raise StoreError(f"{to} cannot be written: {error}", hint="make room") from error
    return Packed(to.stat().st_size, digest(to), there)


def digest(path: Path) -> str:
    """The SHA-256 of a file. Raises ``OSError``."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unpack(file: Path, packed: Packed, folder: StudyFolder) -> list[str]:
    """Check an archive, and rename each of its runs into place, over an older one of its key; a good run stays
    where the new one is bad. The keys of those that were taken. Raises ``StoreError``: nothing was changed then,
    unless the disk is full."""
    # Of a folder's drafts, so that what is left of it is swept with them.
    place = folder.cells / f".archive.{os.getpid()}.partial"
    shutil.rmtree(place, ignore_errors=True)
    try:
        if (size := file.stat().st_size) != packed.size or digest(file) != packed.digest:
            raise StoreError(f"{file.name}: {size} bytes came, and not those that were sent ({packed.size})")
        with tarfile.open(file) as archive:
            # "data": no links out of it, no devices, no absolute names.
            archive.extractall(place, filter="data")
        found = {path.name for path in (place / "cells").glob("*")}
        if found != set(packed.keys):
            raise StoreError(f"{file.name} has other runs than it is said to have")
        for key in packed.keys:
            if (why := damage(place / "cells" / key)) is not None:
                raise StoreError(f"{file.name}: {why.message}")
        taken = [key for key in packed.keys if _taken(place / "cells" / key, folder.cells / key)]
        _keep_floors(sorted((place / "floors").glob("*.json")), folder.path / "floors")
    except (OSError, tarfile.TarError) as error:
        hint = "make room, or use --runs DIR"
        raise StoreError(f"{file.name} cannot be unpacked: {error}", hint=hint) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return taken


def _taken(new: Path, final: Path) -> bool:
    """Put a run in its place, where it is not a bad one for a good one."""
    if not good(new) and good(final):
        return False
    take_place(new, final)
    return True


def _keep_floors(floors: Sequence[Path], to: Path) -> None:
    if floors:
        make_folder(to)
    for floor in floors:
        move(floor, to / floor.name)

"""Run folders as one checked file, for the way from one machine to another.

The file is a gzipped archive in GNU's format of regular files and folders with plain names, and no more than that
is read: links, devices, sparse files and headers of other formats are refused. So this does not depend on what a
Python's ``tarfile`` filters, and needs no more memory than a piece of a file, whatever comes.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from blocklab.errors import StoreError
from blocklab.model.files import make_folder, move, whole
from blocklab.store.folder import StudyFolder
from blocklab.store.run import damage, good, head, take_place

# Raw output is text mostly; a higher level takes longer than the way does.
LEVEL = 1
# A run, or all floors, that take more (B, files and folders) are refused.
MOST_BYTES = 1 << 30
MOST_MEMBERS = 10_000
_BLOCK = 512
_PIECE = 1 << 20
# Of a file, and of the path to it (B).
_LONGEST_NAME, _LONGEST_PATH = 255, 4096
_FLOORS = "floors"


class Packed(msgspec.Struct, frozen=True):
    """An archive: its ``size`` in bytes and its SHA-256 in hex; ``keys``: those of the runs in it."""

    size: int
    digest: str
    keys: tuple[str, ...]


def pack(folder: StudyFolder, keys: Collection[str], to: Path) -> Packed:
    """Write the runs of these keys that are there and can be read, and the floors, to the file ``to``. Raises
    ``StoreError``, also for a run that nobody would take."""
    there = tuple(key for key in keys if (run := folder.cells / key).is_dir() and damage(run) is None)
    for key in there:
        _fit(folder.cells / key)
    try:
        with (
            whole(to) as half,
            tarfile.open(half, "w:gz", compresslevel=LEVEL, format=tarfile.GNU_FORMAT) as archive,
        ):
            for key in there:
                archive.add(folder.cells / key, f"cells/{key}", filter=_anonymous)
            for floor in sorted((folder.path / _FLOORS).glob("*.json")):
                archive.add(floor, f"{_FLOORS}/{floor.name}", filter=_anonymous)
    except OSError as error:
        raise StoreError(f"{to} cannot be written: {error}", hint="make room") from error
    return Packed(to.stat().st_size, digest(to), there)


def _fit(run: Path) -> None:
    """Raises ``StoreError`` for a run that is larger than what is taken."""
    every = list(run.rglob("*"))
    size = sum(path.lstat().st_size for path in every)
    if size > MOST_BYTES or len(every) >= MOST_MEMBERS:
        raise StoreError(
            f"{run} has {size >> 20} MiB in {len(every)} files and folders: more than {MOST_BYTES >> 20} MiB or "
            f"{MOST_MEMBERS - 1} of them are not fetched from a worker",
            hint="let the workload log less, or measure this study without --dask",
        )


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whose it is matters to nobody, and large user numbers do not fit."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = int(member.mtime)
    return member


def digest(path: Path) -> str:
    """The SHA-256 of a file. Raises ``OSError``."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def most_bytes(keys: Collection[str]) -> int:
    """No archive of runs of these keys takes more."""
    return MOST_BYTES * (len(keys) + 1)


def unpack(file: Path, packed: Packed, folder: StudyFolder, keys: Collection[str]) -> list[str]:
    """Check an archive, and store each of its runs, over an older one of its key; a good run stays where the new
    one is bad. ``keys``: those that were asked for. The keys of those that were taken. Raises ``StoreError``, with
    a hint where it is not the archive's fault: nothing was changed then, unless the disk is full."""
    # Of a folder's drafts, so that what is left of it is swept with them.
    place = folder.cells / f".archive.{os.getpid()}.partial"
    shutil.rmtree(place, ignore_errors=True)
    try:
        if (size := file.stat().st_size) != packed.size or digest(file) != packed.digest:
            raise StoreError(f"{file.name}: {size} bytes came, and not those that were sent ({packed.size})")
        place.mkdir(parents=True)
        with gzip.open(file) as stream:
            _extract(stream, place, file.name, keys)
        _check(place / "cells", packed, file.name)
        taken = [key for key in packed.keys if _taken(place / "cells" / key, folder.cells / key)]
        _keep_floors(sorted((place / _FLOORS).glob("*.json")), folder.path / _FLOORS)
    except OSError as error:
        hint = "make room, or use --runs DIR"
        raise StoreError(f"{file.name} cannot be unpacked: {error}", hint=hint) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return taken


def _extract(stream: gzip.GzipFile, place: Path, name: str, keys: Collection[str]) -> None:
    """Write what is in an archive below ``place``. Raises ``StoreError`` for anything that ``pack`` would not have
    put there, ``OSError`` for this machine's disk."""
    kinds: dict[tuple[str, ...], bool] = {}
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for member in _members(stream, name):
        parts = _parts(member, name, keys)
        group = _FLOORS if parts[0] == _FLOORS else parts[1]
        counts[group] += 1
        sizes[group] += member.size
        if counts[group] > MOST_MEMBERS or sizes[group] > MOST_BYTES:
            raise StoreError(
                f"{name}: {'/'.join(parts[:2])} is larger than {MOST_BYTES >> 20} MiB, or too many files"
            )
        above = [parts[:length] for length in range(1, len(parts))]
        if parts in kinds or any(kinds.get(each) is False for each in above):
            raise StoreError(f"{name} has {member.name!r} twice, or something in a file")
        kinds |= {**dict.fromkeys(above, True), parts: member.isdir()}
        target = place.joinpath(*parts)
        (target if member.isdir() else target.parent).mkdir(parents=True, exist_ok=True)
        if not member.isdir():
            with target.open("xb") as to:
                for piece in _pieces(stream, member.size, name):
                    to.write(piece)


def _members(stream: gzip.GzipFile, name: str) -> Iterator[tarfile.TarInfo]:
    """The headers of an archive, one after the other; the content of each is read meanwhile. Raises
    ``StoreError``."""
    while (member := _header(stream, name)) is not None:
        if member.type == tarfile.GNUTYPE_LONGNAME and 0 < member.size <= _LONGEST_PATH:
            # The name of the next one.
            text = b"".join(_pieces(stream, member.size, name)).removesuffix(b"\0")
            if (member := _header(stream, name)) is None:
                raise StoreError(f"{name} is damaged: it ends early")
            member.name = os.fsdecode(text).removesuffix("/")
        if not (member.isdir() or member.type in (tarfile.REGTYPE, tarfile.AREGTYPE)):
            raise StoreError(f"{name}: {member.name!r} is neither a file nor a folder")
        if member.size < 0 or (member.isdir() and member.size):
            raise StoreError(f"{name}: {member.name!r} has an impossible size")
        yield member


def _header(stream: gzip.GzipFile, name: str) -> tarfile.TarInfo | None:
    """The next header; None at the end of an archive. Raises ``StoreError``."""
    if (block := _read(stream, _BLOCK, name)) == bytes(_BLOCK):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise StoreError(f"{name} is no archive of runs: {error}") from error


def _parts(member: tarfile.TarInfo, name: str, keys: Collection[str]) -> tuple[str, ...]:
    """The parts of a member's name. Raises ``StoreError`` for a name that leads elsewhere than to a run that was
    asked for, or a floor."""
    parts = tuple(member.name.split("/"))
    plain = all(
        part not in ("", ".", "..") and "\0" not in part and len(os.fsencode(part)) <= _LONGEST_NAME
        for part in parts
    )
    of_run = len(parts) > 1 and parts[0] == "cells" and parts[1] in keys and (len(parts) > 2 or member.isdir())
    of_floor = len(parts) == 2 and parts[0] == _FLOORS and parts[1].endswith(".json") and not member.isdir()
    if not plain or not (of_run or (of_floor and not parts[1].startswith("."))):
        raise StoreError(f"{name} has {member.name!r}, which nobody asked for")
    return parts


def _pieces(stream: gzip.GzipFile, size: int, name: str) -> Iterator[bytes]:
    """The content of a member, and over what fills its last block."""
    for at in range(0, size, _PIECE):
        yield _read(stream, min(_PIECE, size - at), name)
    _read(stream, -size % _BLOCK, name)


def _read(stream: gzip.GzipFile, size: int, name: str) -> bytes:
    """So many bytes. Raises ``StoreError``, without a hint: what came is damaged, not this machine."""
    try:
        found = stream.read(size)
    except (OSError, EOFError, zlib.error) as error:
        raise StoreError(f"{name} is damaged: {error}") from error
    if len(found) < size:
        raise StoreError(f"{name} is damaged: it ends early")
    return found


def _check(cells: Path, packed: Packed, name: str) -> None:
    """Raises ``StoreError`` where an archive's runs are not what they should be."""
    if {path.name for path in cells.glob("*")} != set(packed.keys):
        raise StoreError(f"{name} has other runs than it is said to have")
    for key in packed.keys:
        if (why := damage(cells / key)) is not None:
            raise StoreError(f"{name}: {why.message}")
        if (other := head(cells / key).cell.key) != key:
            raise StoreError(f"{name} has the run {other!r} as {key}")


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

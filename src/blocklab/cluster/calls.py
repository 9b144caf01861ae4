"""What is asked of workers while they measure: short functions, and the pieces of a unit's archive."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from distributed import CancelledError, Client

from blocklab.cluster import far
from blocklab.errors import SetupError, StoreError
from blocklab.store.archive import most_bytes, unpack
from blocklab.store.folder import StudyFolder


class Gone(Exception):
    """The scheduler does not answer."""


# What Dask raises then: a connection that is closed, or a client that was closed for it.
LOST = (OSError, TimeoutError, CancelledError, RuntimeError)


def everywhere(client: Client, addresses: Sequence[str], what: Callable[..., Any], *given: Any) -> dict[str, Any]:
    """What a short function returns at these workers, or the error that it raised there. Raises ``Gone``."""
    if not addresses:
        return {}
    try:
        found: dict[str, Any] = client.run(what, *given, workers=list(addresses), on_error="return")
    except LOST as error:
        raise Gone from error
    return found


def fetched(
    client: Client, address: str, name: str, keys: Sequence[str], report: far.Report, folder: StudyFolder
) -> list[str]:
    """The keys of a unit's runs that are in place now; ``name``: that of its folder at the worker. Raises
    ``StoreError``, ``SetupError``, ``Gone``."""
    if report.packed.size > most_bytes(keys):
        raise SetupError(f"its runs take {report.packed.size} bytes, which is more than is fetched")
    with _aside(folder) as place:
        file = place / f"{name}.tar.gz"
        with file.open("wb") as stream:
            for number in itertools.count():
                if stream.tell() >= report.packed.size:
                    break
                piece = everywhere(client, [address], far.part, name, number).get(address)
                if not isinstance(piece, bytes) or not 0 < len(piece) <= far.PART_BYTES:
                    why = f"{len(piece)} bytes came" if isinstance(piece, bytes) else piece
                    raise SetupError(f"its runs cannot be fetched: {why}")
                stream.write(piece)
        return unpack(file, report.packed, folder, keys)


@contextlib.contextmanager
def _aside(folder: StudyFolder) -> Iterator[Path]:
    """A folder for what is fetched, which is swept as a draft is where this process is killed."""
    place = folder.cells / f".fetched.{os.getpid()}.partial"
    try:
        place.mkdir(parents=True, exist_ok=True)
        yield place
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error}", hint="make room, or use --runs DIR") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)

"""Undos on disk: noted before the step that they undo, so that hosts which outlive blocklab can be cleaned later.

One file for each host, ``<host>.jsonl``, only ever appended to::

    {"number":4,"argv":["umount","/mnt/one"]}
    {"done":4}
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from blocklab.errors import HostError, StoreError
from blocklab.model.host import Host, must
from blocklab.model.plan import Argv

# umount writes back what waits in memory.
UNDO_SECONDS = 200.0


class Entry(msgspec.Struct, omit_defaults=True):
    """An undo by its number, or that one is done."""

    number: int = -1
    argv: Argv = ()
    done: int = -1


class FileJournal:
    """The journal of all hosts of a site, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, host: str, number: int, argv: Argv) -> None:
        """Keep an undo; on return it is on the disk. Raises ``StoreError``."""
        self._append(host, [Entry(number, argv)])

    def done(self, host: str, numbers: Sequence[int]) -> None:
        """Drop undos. A host without any has no file. Raises ``StoreError``."""
        if numbers:
            self._append(host, [Entry(done=number) for number in numbers])
        if not list(self._left(host)):
            self._file(host).unlink(missing_ok=True)

    def hosts(self) -> list[str]:
        """The hosts on which something is left."""
        return sorted(path.stem for path in self._folder.glob("*.jsonl"))

    def left(self, host: str) -> list[tuple[int, Argv]]:
        """(number, argv) of the undos that are due on a host, the last one first. Raises ``StoreError``."""
        return list(self._left(host))[::-1]

    def _left(self, host: str) -> Iterator[tuple[int, Argv]]:
        try:
            # The last line may be cut by a crash: then its step has not begun.
            lines = self._file(host).read_bytes().split(b"\n")[:-1]
            entries = [msgspec.json.decode(line, type=Entry) for line in lines]
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            raise StoreError(
                f"{self._file(host)} cannot be read: {error}", hint="undo by hand what it lists, then remove it"
            ) from error
        # Numbers start again with each run; what is done is the last one of that number.
        due: list[Entry] = []
        for entry in entries:
            if entry.done < 0:
                due.append(entry)
            elif (mine := next((each for each in reversed(due) if each.number == entry.done), None)) is not None:
                due.remove(mine)
        yield from ((entry.number, entry.argv) for entry in due)

    def _file(self, host: str) -> Path:
        return self._folder / f"{host}.jsonl"

    def _append(self, host: str, entries: Sequence[Entry]) -> None:
        path = self._file(host)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            new = not path.exists()
            with path.open("ab") as file:
                file.write(msgspec.json.Encoder().encode_lines(entries))
                file.flush()
                os.fsync(file.fileno())
            if new:
                _sync_folder(self._folder)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be written: {error.strerror}", hint="without it nothing could be undone later"
            ) from error


def replay(journal: FileJournal, hosts: Mapping[str, Host]) -> list[str]:
    """Run all undos that are due, host by host, the last one first; what failed, in words. It stays in the
    journal, with all that was to follow on that host: a file system that is mounted must not lose its device."""
    failed = []
    for name, host in hosts.items():
        for number, argv in journal.left(name):
            try:
                must(host, argv, timeout=UNDO_SECONDS)
            except HostError as error:
                failed.append(f"{name}: {error.message}")
                break
            journal.done(name, [number])
    return failed


def _sync_folder(folder: Path) -> None:
    # A file's name is in its folder, which has to reach the disk too.
    line = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(line)
    finally:
        os.close(line)

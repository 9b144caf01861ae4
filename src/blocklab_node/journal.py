"""The undos that are due on a host, on its disk: see ``blocklab.sites.journal``. The host's agent keeps them."""

from __future__ import annotations

import contextlib
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Entry: TypeAlias = dict[str, Any]

# On a disk: what is due after a power cut is due all the same.
JOURNAL = "/var/lib/blocklab/journal.jsonl"
SHOWN = 200


class Journal:
    """One line for each undo, and one for each that is done. A full disk or a crash may cut a line: it goes before
    the next one is written. What cannot be read all the same is passed over."""

    def __init__(self, path: str = JOURNAL) -> None:
        self.path = path
        with open("/proc/sys/kernel/random/boot_id") as file:
            self.boot = file.read().strip()

    def note(self, number: int, argv: list[str]) -> None:
        """On return it is on the disk. Raises ``OSError``: then it is not in the journal."""
        self._append([{"number": number, "argv": argv, "boot": self.boot}])

    def done(self, numbers: list[int]) -> None:
        """Drop undos; without any left the file goes, which needs no room. Raises ``OSError``."""
        entries = [{"done": number} for number in numbers]
        if due_of([*self.due(), *entries]):
            self._append(entries)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
            sync(os.path.dirname(self.path))

    def due(self) -> list[Entry]:
        """Those that are due, the first one first. Raises ``OSError``."""
        return self.read()[0]

    def read(self) -> tuple[list[Entry], list[str]]:
        """Those that are due, and the beginnings of lines that cannot be read. Raises ``OSError``."""
        entries, damaged = [], []
        try:
            with open(self.path, "rb") as file:
                # The last line may be cut by a crash: then its step has not begun.
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            lines = []
        for line in filter(None, lines):
            entry = entry_of(line)
            if entry is None:
                damaged.append(line[:SHOWN].decode(errors="replace"))
            else:
                entries.append(entry)
        return due_of(entries), damaged

    def _append(self, entries: list[Entry]) -> None:
        """All of them, or none. Raises ``OSError``."""
        folder = os.path.dirname(self.path)
        os.makedirs(folder, 0o711, exist_ok=True)
        data = b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            there = os.fstat(file).st_size
            size = os.pread(file, there, 0).rfind(b"\n") + 1
            if size != there:
                os.ftruncate(file, size)
            try:
                while data:
                    data = data[os.write(file, data) :]
                os.fsync(file)
            except OSError:
                # If this fails too, the next one finds a line that is cut.
                with contextlib.suppress(OSError):
                    os.ftruncate(file, size)
                    os.fsync(file)
                raise
        finally:
            os.close(file)
        if size == 0:
            sync(folder)


def entry_of(line: bytes) -> Entry | None:
    """What a line says; None where that is nothing of ours."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    if isinstance(entry.get("done"), int):
        return entry
    argv = entry.get("argv")
    fits = isinstance(argv, list) and argv and all(isinstance(word, str) for word in argv)
    return entry if fits and isinstance(entry.get("number"), int) else None


def due_of(entries: list[Entry]) -> list[Entry]:
    """The undos among them that are not done."""
    due: list[Entry] = []
    for entry in entries:
        if "done" not in entry:
            due.append(entry)
            continue
        # Numbers start again with each run; what is done is the last one of that number.
        same = [at for at, noted in enumerate(due) if noted["number"] == entry["done"]]
        if same:
            del due[same[-1]]
    return due


def sync(folder: str) -> None:
    """What is in a folder, by its names, outlives a power cut. Raises ``OSError``."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

"""Many files, each taken for what it says that it is, and read; what is left out, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from blocklab.errors import StudyError
from blocklab.formats import prefix
from blocklab.formats.found import Found
from blocklab.formats.kind import Kind
from blocklab.formats.load.agree import contradictions
from blocklab.formats.load.since_start import anchored
from blocklab.formats.looks import Look, like
from blocklab.formats.prefix import Prefix
from blocklab.formats.streaming import streamed
from blocklab.formats.text import Refused, Text, digest, head, whole, with_numbers


class File(msgspec.Struct):
    """One file: what it was taken for, the digest of its content, and what it held; ``left_out`` says why it is
    not used."""

    path: Path
    kind: str = ""
    sha256: str = ""
    found: Found | None = None
    left_out: str = ""


F = TypeVar("F", bound=File)


def _content(file: File) -> Hashable:
    return file.sha256


def _any(found: Found) -> None:
    """Nothing is refused."""


class Readers(msgspec.Struct, frozen=True):
    """The ``kinds`` of files that somebody takes, by name, and what others look like. ``check`` refuses what they
    may hold and that somebody does not take."""

    kinds: Mapping[str, Kind]
    looks: Sequence[Look]
    check: Callable[[Found], None] = _any

    def gather(
        self,
        files: Iterable[F],
        asked: Mapping[Path, str],
        *,
        first_report: str = "",
        same: Callable[[F], Hashable] = _content,
        take: Callable[[F], None] = lambda file: None,
    ) -> None:
        """Reads each file as what it is; ``asked`` (by resolved path): as what somebody said. ``first_report``:
        what that of iostat and vmstat covers. Of files for which ``same`` says the same the first one counts.
        ``take`` gets each file that was read, and may refuse it. Raises ``StudyError`` for what is unclear."""
        seen: dict[Hashable, Path] = {}
        for file in files:
            try:
                file.kind = asked.get(file.path.resolve()) or self.kind_of(file.path)
                file.sha256 = digest(file.path)
                if (other := seen.setdefault(same(file), file.path)) != file.path:
                    raise Refused(f"the same content as {other}")
                file.found = self.read(file.path, file.kind, first_report)
                take(file)
            except Refused as reason:
                file.found, file.left_out = None, str(reason)

    def kind_of(self, path: Path) -> str:
        """What a file is, by its content; of kinds whose rows look alike, by its name.

        Raises ``Refused`` for what is not known, ``StudyError`` with the hint where it may be several.
        """
        start = head(path)
        found = self._fitting(start, path.name) or self._behind(start)
        if not found:
            raise Refused(self._unknown(start))
        if len(found) > 1:
            raise StudyError(
                "", f"{path}: it may be {', '.join(found)}", hint=f"say which: --as {found[0]}={path}"
            )
        return found[0]

    def read(self, path: Path, kind: str, first_report: str = "") -> Found:
        """The file as what it was taken for; ``first_report``: what that of iostat and vmstat covers. Raises
        ``Refused``."""
        with with_numbers():
            found = self._read(path, self.kinds[kind], first_report)
        self.check(found)
        return found

    def _read(self, path: Path, kind: Kind, first_report: str) -> Found:
        start = head(path)
        if kind.reads == "blocks":
            return kind.read(Text(path, ()))
        text = streamed(path) if kind.reads == "lines" else whole(path)
        text = _behind_prefix(text, _prefix(start, kind), kind)
        text = msgspec.structs.replace(text, first_report=first_report)
        if kind.reads == "whole":
            text = text.stripped().completed()
        found = kind.read(text)
        told = [*text.others.remarks(), *contradictions(found, text)]
        found = anchored(found, text) if text.times else found
        told += [found.undated] if found.undated else []
        return msgspec.structs.replace(found, remarks=(*found.remarks, *told))

    def _fitting(self, start: str, name: str) -> list[str]:
        regular = prefix.regular(start)
        fitting = {known: kind for known, kind in self.kinds.items() if _fits(kind, start, regular)}
        named = [known for known, kind in fitting.items() if kind.named is not None and kind.named(name)]
        return [known for known, kind in fitting.items() if not named or known in named or kind.named is None]

    def _behind(self, start: str) -> list[str]:
        """What a file is behind what a collector put before its lines."""
        for before in prefix.prefixes(start):
            bare = before.bare(start)
            names = [name for name, kind in self.kinds.items() if kind.reads != "blocks" and kind.fits(bare)]
            if names:
                return names
        return []

    def _unknown(self, start: str) -> str:
        """What it looks like, without what a collector may have put before each line, too."""
        if look := like(start, self.looks):
            return look
        for before in prefix.prefixes(start):
            named = before.timed or before.worded
            if named and (look := like(before.bare(start), self.looks)):
                return f"{look} (each of its lines begins with {before.shown})"
        return "not recognised"


def _fits(kind: Kind, start: str, regular: Prefix | None) -> bool:
    return kind.fits(start) or (regular is not None and kind.reads == "lines" and kind.fits(regular.bare(start)))


def _prefix(start: str, kind: Kind) -> Prefix | None:
    """What has to be taken off the lines of a file that begins so."""
    every = list(prefix.prefixes(start))
    if kind.reads == "lines":
        # Such a reader may see past a prefix, which it takes for a part of its rows: all of it is to be taken off.
        regular = prefix.regular(start)
        fitting = [regular] if regular is not None and kind.fits(regular.bare(start)) else []
        fitting += [
            before
            for before in every
            if before.worded and kind.fits(before.bare(start)) and not kind.fits(before.others(start))
        ]
        if fitting:
            return max(fitting, key=lambda before: (before.timed, before.count(start), len(before.shown)))
    if kind.fits(start):
        return None
    return next((before for before in every if kind.fits(before.bare(start))), None)


def _behind_prefix(text: Text, before: Prefix | None, kind: Kind) -> Text:
    if before is None:
        return text
    remarks = text.remarks
    # A time before each line is a time of the tool's own, for a reader that takes it.
    if kind.reads == "whole" or not before.timed:
        remarks += (f"each of its lines begins with {before.shown}: taken off",)
    return msgspec.structs.replace(text, prefix=before, remarks=remarks)

"""A foreign file before anybody knows what it is: its text, or why it has none."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Sequence
from io import BufferedReader
from itertools import chain
from pathlib import Path

import msgspec

from blocklab.errors import ParseError, Unreadable
from blocklab.formats.clock import Stamp
from blocklab.formats.prefix import Others, Prefix, numbered
from blocklab.model import outside

HEAD = 64 * 1024
_PACKED = {
    b"\x1f\x8b": "gzip file: gunzip FILE", b"BZh": "bzip2 file: bunzip2 FILE", b"\xfd7zXZ": "xz file: unxz FILE",
    b"\x28\xb5\x2f\xfd": "zstd file: unzstd FILE", b"PK\x03\x04": "zip file: unzip FILE",
}  # fmt: skip
# By their first bytes; what sar writes has its magic in the order of its machine.
_SADC = (
    "sar's binary file; blocklab starts no program: sadf -j FILE -- -d -b -u > FILE.json (by a sadf as new as the "
    "sysstat that wrote it)"
)
_BINARY = {
    b"\x96\xd5": _SADC, b"\xd5\x96": _SADC, b"%PDF": "a PDF; save the log itself", b"SQLite format 3": (
        "an SQLite database; of HammerDB's jobs blocklab reads what job JOBID result and timing print"
    ), b"PERFILE2": "perf's data; it is not read", b"PAR1": "Parquet; it is not read",
    b"\x7fELF": "a program; give what it prints", b"\x89PNG": "a picture; give the log itself",
}  # fmt: skip
_AT_ONCE = 1 << 20
_MOST_NAMED = 8
_DECIMALS = re.compile(r"\d\.(\d+)(?:%|ms|s)?$")
_VOTERS = 50


class Refused(Exception):
    """Why a file cannot be taken, with the hint."""


def refusal(error: ParseError) -> Refused:
    """What a tool's own parser says, without the output that it quotes."""
    return Refused("; ".join(each for each in (error.message.split("\n")[0], error.hint) if each))


class Bad(msgspec.Struct, frozen=True):
    """A line that is left out. ``line`` counts from 1. ``cut``: for nothing but that it has no line end."""

    line: int
    text: str
    cut: bool = False


class Text(msgspec.Struct, frozen=True):
    """A whole file. ``lines`` are without their ends; a last one that has none is in ``cut`` instead.

    ``remarks``: what is odd without being lost. ``prefix``: what another program put before each of ``lines``;
    ``others`` counts those without it. ``times``: those that stood before the lines, of a text that was
    ``stripped``. ``first_report`` (``interval`` or ``boot``): what the user says of the first report of iostat and
    vmstat.
    """

    path: Path
    lines: Sequence[str]
    cut: str = ""
    remarks: tuple[str, ...] = ()
    times: tuple[Stamp | None, ...] = ()
    prefix: Prefix | None = None
    others: Others = msgspec.field(default_factory=Others)
    first_report: str = ""

    def every(self) -> Iterator[tuple[int, Stamp | None, str]]:
        """Each line, also a last one without an end: its number from 1, the time before it, and the rest."""
        return numbered(chain(self.lines, (self.cut,) if self.cut.strip() else ()), self.prefix, self.others)

    @property
    def text(self) -> str:
        """The whole lines, each with a newline."""
        return "".join(f"{line}\n" for _, _, line in numbered(self.lines, self.prefix, self.others))

    def stripped(self) -> Text:
        """The same without the prefix, for readers that go by ``lines``."""
        if self.prefix is None:
            return self
        parts = [(time, line) for _, time, line in numbered(self.lines, self.prefix, self.others)]
        last = self.prefix.split(self.cut)
        return msgspec.structs.replace(
            self, lines=tuple(line for _, line in parts), cut=last[1] if last is not None else "", prefix=None,
            times=tuple(time for time, _ in parts) if self.prefix.timed else (),
        )  # fmt: skip

    def completed(self) -> Text:
        """The same with the last line among the others, where that lacks only its line end: it ends with as many
        decimals as those before it, or is as long as the one before it, or ends with the same word, or is JSON."""
        before = next((line for line in reversed(self.lines) if line.strip()), "")
        if not self.cut.strip() or not before:
            return self
        decimals = _DECIMALS.search(self.cut)
        usual = next((match for line in reversed(self.lines) if (match := _DECIMALS.search(line))), None)
        by_decimals = decimals is not None and usual is not None and len(decimals[1]) == len(usual[1])
        words, usual_words = self.cut.split(), before.split()
        alike = len(words) == len(usual_words) and (len(self.cut) == len(before) or words[-1] == usual_words[-1])
        if not by_decimals and not alike and not _is_json(self.cut):
            return self
        return msgspec.structs.replace(self, lines=(*self.lines, self.cut), cut="")


def _is_json(line: str) -> bool:
    try:
        return line.startswith(("{", "[{")) and bool(outside.as_json(line, ""))
    except ValueError:
        return False


def head(path: Path) -> str:
    """The first 64 KiB, to see what it is. Raises ``Refused`` for what is no text, or empty."""
    with _opened(path) as file:
        start = file.read(HEAD)
    if not start:
        raise Refused("empty")
    for magic, name in _PACKED.items():
        if start.startswith(magic):
            raise Refused(f"packed, a {name}")
    for magic, name in _BINARY.items():
        if start.startswith(magic):
            raise Refused(name)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused("UTF-16; convert it first: iconv -f UTF-16 -t UTF-8")
    if b"\0" in start:
        raise Refused("binary, no text")
    return start.decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")


def whole(path: Path) -> Text:
    """All of a file, which ``head`` has found to be text. Raises ``Refused``."""
    try:
        data = outside.data(path)
    except Unreadable as error:
        raise Refused(f"cannot be read: {error.problem}") from error
    remarks = []
    if (at := data.find(b"\r\n")) >= 0:
        number = data.count(b"\n", 0, at) + 1
        remarks.append(f"line {number}: the line ends in CR and LF; read as if it were LF")
    text = data.decode("utf-8", errors="replace").removeprefix("\ufeff").replace("\r\n", "\n")
    *lines, cut = text.split("\n")
    return Text(path, tuple(lines), cut, tuple(remarks))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    try:
        with outside.opened(path) as file:
            yield file
    except Unreadable as error:
        raise Refused(f"cannot be read: {error.problem}") from error
    except OSError as error:
        raise Refused(f"cannot be read: {error.strerror}") from error


@contextlib.contextmanager
def with_numbers() -> Iterator[None]:
    """For the reader of a whole file: a number with thousands of digits, or one that is none, is a reason."""
    try:
        yield
    except (OverflowError, ValueError) as error:
        raise Refused(f"damaged: a number in it makes no sense: {str(error).partition(';')[0][:200]}") from error


def one_run(lines: Sequence[str], mark: re.Pattern[str]) -> None:
    """Raises ``Refused`` where what a tool prints once a run begins several lines: outputs put into one file."""
    found = [number for number, line in enumerate(lines, 1) if mark.match(line)]
    if len(found) > 1:
        at = ", ".join(str(number) for number in found[:_MOST_NAMED]) + (", ..." if found[_MOST_NAMED:] else "")
        said = lines[found[0] - 1][:60]
        raise Refused(f"holds {len(found)} runs ({said!r} in lines {at}); cut it into a file for each run")


def mostly(pattern: re.Pattern[str], head: str) -> bool:
    """Whether most of a file's first lines are rows of a pattern; the last one may be cut."""
    lines = head.split("\n")[:_VOTERS]
    rows = lines[:-1] or lines
    return sum(pattern.fullmatch(line) is not None for line in rows) > len(rows) / 2


def digest(path: Path) -> str:
    """The SHA-256 of a file's content. Raises ``Refused`` where it cannot be read."""
    found = hashlib.sha256()
    with _opened(path) as file:
        while part := file.read(_AT_ONCE):
            found.update(part)
    return found.hexdigest()


# "0,26" as some locales write it
_COMMA = re.compile(r"(?<![\w,])(\d+),(\d+)(?![\w,])")


def points(line: str) -> str:
    """A line with decimal points in place of commas."""
    return _COMMA.sub(r"\1.\2", line)


def has_commas(line: str) -> bool:
    """Whether a number in a line has a decimal comma."""
    return _COMMA.search(line) is not None

"""Nothing that a foreign text holds makes a pattern, or a reader, go back and forth over it."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from blocklab.errors import StudyError
from blocklab.formats.text import Refused
from blocklab.imports import kinds
from blocklab.sizing.kinds import MODELS, READERS
from blocklab.sizing.reading import Reading
from tests.unit.import_kinds import every_kind
from tests.unit.patterns import GOLDEN, UNITS, lines, patterns, pumped

# Four times as much text takes some four times as long; what goes back and forth takes 16 times, and at these
# lengths more than the time below, which what does not is far from.
LESS, MORE = 750, 3000
SECONDS = 0.02
GROWTH = 9.0
MOST_LINES = 2
STATISTICS = sorted(path for path in (GOLDEN / "sizing").rglob("*") if path.is_file() and path.name != "README.md")


def costs(call: Callable[[Any], object], text: Any) -> float:
    before = time.process_time()
    call(text)
    return time.process_time() - before


def grows(call: Callable[[Any], object], short: Any, long: Any) -> bool:
    """Whether a call takes more than its text grows; said twice, for whatever else the machine does."""
    return all((taken := costs(call, long)) > SECONDS and taken > GROWTH * costs(call, short) for _ in range(2))


def texts(known: Sequence[str], length: int) -> Iterator[str]:
    for unit in UNITS:
        for before in ("", "x", "1 "):
            yield before + unit * (length // len(unit))
            yield before + unit * (length // len(unit)) + "\0"
    for line in known:
        yield from pumped(line, length)


def slow(pattern: re.Pattern[Any], method: str) -> str:
    """The start of a text that makes it slow; empty without one."""
    call, binary = getattr(pattern, method), isinstance(pattern.pattern, bytes)
    fitting = (line for line in lines() if pattern.search(line.encode() if binary else line))
    known = list(itertools.islice(fitting, MOST_LINES))
    for short, long in zip(texts(known, LESS), texts(known, MORE), strict=True):
        if grows(call, *((short.encode(), long.encode()) if binary else (short, long))):
            return long[:60]
    return ""


def test_no_pattern_goes_back_and_forth() -> None:
    known = patterns()
    assert len(known) > 200
    found = [
        f"{where}.{method}: {text!r}: {pattern}"
        for (pattern, flags), (where, methods) in known.items()
        for method in sorted(methods or {"match", "fullmatch"})
        if (text := slow(re.compile(pattern, flags), method))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("pattern", "flags", "method"),
    [
        (r"^\s*(?:Vuser \d+:)?TEST", re.MULTILINE, "search"),
        (r"(\d+\.?\d*|\.\d+)\s*\Z", 0, "match"), (r"(?P<start>.*?)(?P<name>[a-z]\S*) +\d", 0, "match"),
    ],
)  # fmt: skip
def test_those_that_do_are_found(pattern: str, flags: int, method: str) -> None:
    assert slow(re.compile(pattern, flags), method)


def runs(length: int) -> Iterator[str]:
    """What a file may hold by the thousands."""
    for unit in (
        "\n",
        " ",
        "\t",
        " \n",
        "1",
        "1,",
        "1 ",
        "-",
        "a",
        "a ",
        "|",
        '"',
        "{",
        "[",
        "\0",
        "1.00 ",
        "<td>",
    ):
        yield unit * (length // len(unit))


def cases(text: str, length: int) -> Iterator[str]:
    """The text with such a run before, within and behind it, and with pieces of its lines repeated."""
    middle = text.find("\n", len(text) // 2) + 1
    for run in runs(length):
        yield run + text
        yield text[:middle] + run + text[middle:]
    whole = text.split("\n")
    for number in range(0, min(len(whole), 12), 3):
        for line in list(pumped(whole[number], length))[::11]:
            yield "\n".join([*whole[:number], line, *whole[number + 1 :]])


def statistics_of(path: Path) -> object:
    kind = READERS.kind_of(path)
    return MODELS[kind](READERS.read(path, kind), Reading())


def takes(path: Path, read: Callable[[Path], object]) -> Callable[[str], None]:
    def call(text: str) -> None:
        path.write_text(text)
        with contextlib.suppress(Refused, StudyError):
            read(path)

    return call


@pytest.mark.parametrize("sample", every_kind(), ids=lambda sample: sample.kind)
def test_no_log_takes_longer_than_it_is_long(sample: Any, tmp_path: Path) -> None:
    """To see what it is, and to read it as what it is."""
    path = tmp_path / sample.name
    text = "\n".join(sample.text.split("\n")[:25]) + "\n"
    for get in (kinds.READERS.kind_of, lambda path: kinds.READERS.read(path, sample.kind)):
        call = takes(path, get)
        for short, long in zip(cases(text, 1250), cases(text, 5000), strict=True):
            assert not grows(call, short, long), long[:200]


@pytest.mark.parametrize("sample", STATISTICS, ids=lambda path: path.name)
def test_no_statistics_take_longer_than_they_are_long(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / sample.name
    text = "\n".join(sample.read_text(errors="replace").split("\n")[:25]) + "\n"
    call = takes(path, statistics_of)
    for short, long in zip(cases(text, 1250), cases(text, 5000), strict=True):
        assert not grows(call, short, long), long[:200]


def test_20000_blank_lines_are_soon_read(tmp_path: Path) -> None:
    """13 s once."""
    path = tmp_path / "blank"
    path.write_text("\n" * 20_000 + "nothing that is known\n")
    assert costs(takes(path, kinds.READERS.kind_of), path.read_text()) < 1

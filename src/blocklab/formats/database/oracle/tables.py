"""What the readers of Oracle's reports share: tables, numbers in any language's format, Oracle's dates."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from blocklab.formats.text import Bad, Refused


class ReportRow(msgspec.Struct, frozen=True):
    """One row; ``line`` is where it begins in the file, from 1."""

    line: int
    cells: tuple[str, ...]

    def cell(self, at: int | None) -> str:
        """A cell, empty where there is none."""
        return self.cells[at] if at is not None and at < len(self.cells) else ""

    @property
    def label(self) -> str:
        """The first cell in lower case, without its colon."""
        return plain(self.cell(0))


class Table(msgspec.Struct, frozen=True):
    """``header`` is in lower case."""

    header: tuple[str, ...]
    rows: tuple[ReportRow, ...]

    def column(self, *names: str) -> int | None:
        """Where the first of these columns is."""
        return next((self.header.index(name) for name in names if name in self.header), None)

    def row(self, label: str) -> ReportRow | None:
        """The first row of a label."""
        return next((row for row in self.rows if row.label == label), None)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One report of a file. ``title`` is its first line; ``head`` the rows ``Begin Snap``, ``End Snap`` and
    ``Elapsed``, each as a label and the rest. ``complete``: its end is there.
    ``names``: what else its head tells, by ``db``, ``instance``, ``block size``."""

    line: int
    title: str
    tables: tuple[Table, ...]
    head: tuple[ReportRow, ...]
    complete: bool
    names: dict[str, str]


def plain(text: str) -> str:
    """In lower case, with single blanks, without a colon at its end."""
    return " ".join(text.split()).rstrip(":").strip().lower()


# Thousands are parted by these beside a comma (or a point where the comma is the decimal mark).
_BLANKS = r"'’ \u00a0\u202f"


def _patterns(decimal: str, group: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A number by this decimal mark; and one that cannot be by another."""
    groups = rf"\d{{1,3}}(?:[{group}{_BLANKS}]\d{{3}}){{1,9}}"
    number = re.compile(rf"(?:{groups}|\d{{0,20}})(?:{decimal}\d{{1,12}})?")
    # 727.1   1.2345   12345.678   1,234.567   1,234,567   .026
    sure = re.compile(
        rf"\d{{0,20}}{decimal}(?:\d{{1,2}}|\d{{4,12}})|\d{{4,20}}{decimal}\d{{1,12}}|0?{decimal}\d{{1,12}}"
        rf"|{groups}{decimal}\d{{1,12}}|\d{{1,3}}(?:{group}\d{{3}}){{2,9}}"
    )
    return number, sure


_POINT = _patterns(r"\.", ",")
_COMMA = _patterns(",", r"\.")
# 1,234.56us   52.86 s   12ms
_TIMED = re.compile(r"(.{0,30}?) ?(ns|us|µs|ms|s)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
# 29.1T   117.637M   .026M   883.5K
_SCALED = re.compile(r"(.{0,30}?) ?([KMGTP])B?")
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
# One wrong mark in so many is damage; more are two formats in one report.
_DAMAGED = 0.02


class Numbers:
    """Reads a report's numbers by one decimal mark; collects in ``bad`` what is none."""

    def __init__(self, cells: Iterable[tuple[int, str]]) -> None:
        self._pattern, self._mark = _format(cells)
        self.bad: list[Bad] = []

    def read(self, text: str) -> float | None:
        """A number of at least 0; None for what is none by this report's format."""
        text = text.strip()
        if not any(each.isdecimal() for each in text) or self._odd(text):
            return None
        if self._pattern.fullmatch(text) is None:
            return None
        kept = "".join(each for each in text if each.isdecimal() or each == self._mark)
        return float(kept.replace(self._mark, "."))

    @staticmethod
    def _odd(text: str) -> bool:
        return any(each.isdecimal() and not each.isascii() for each in text)

    def cell(self, row: ReportRow, at: int | None, what: str = "") -> float | None:
        """A number of a row; one that is neither empty nor a number is named in ``bad``."""
        text = row.cell(at).strip()
        value = self.read(text)
        if text and value is None and text not in ("N/A", "-"):
            why = "too wide for the report's column" if set(text) <= {"#"} else "no number"
            self.left_out(row.line, f"{what or row.cell(0).strip()!r}: {text[:30]!r} is {why}")
        return value

    def left_out(self, line: int, why: str) -> None:
        """Names a line that is left out, once."""
        if (bad := Bad(line, why)) not in self.bad:
            self.bad.append(bad)

    def scaled(self, row: ReportRow, at: int | None, base: int) -> float | None:
        """A number with K, M, G, T or P; each a further power of ``base`` (1024 for data, 1000 for counts)."""
        match = _SCALED.fullmatch(row.cell(at).strip())
        if match is None:
            value = self.cell(row, at)
            # Data without a unit would be anything.
            return value if base == 1000 or not value else None
        found = self.read(match[1])
        if found is None:
            self.left_out(row.line, f"{row.cell(0).strip()!r}: {match[0][:30]!r} is no number")
            return None
        return found * float(base ** _POWERS[match[2]])

    def time(self, text: str) -> float | None:
        """Seconds of a time with its unit; None without a unit."""
        match = _TIMED.fullmatch(text.strip())
        value = self.read(match[1]) if match else None
        return value * _SECONDS[match[2]] if match and value is not None else None


def _format(cells: Iterable[tuple[int, str]]) -> tuple[re.Pattern[str], str]:
    """The pattern and the decimal mark of a report. Raises ``Refused`` where it has two, or tells none."""
    marks: dict[str, list[tuple[int, str]]] = {".": [], ",": [], "?": []}
    for line, text in cells:
        text = text.strip()
        if not text or not (text[0].isdecimal() or text[0] in ".,"):
            continue
        point, comma = _POINT[1].fullmatch(text), _COMMA[1].fullmatch(text)
        if point or comma:
            marks["." if point else ","].append((line, text))
        elif "." in text or "," in text:
            marks["?"].append((line, text))
    (fewer, less), (_, more) = sorted(((mark, marks[mark]) for mark in ".,"), key=lambda each: len(each[1]))
    if len(less) > _DAMAGED * len(more):
        (one, first), (two, second) = less[0], more[0]
        raise Refused(
            f"line {one}: {first!r} and line {two}: {second!r} are numbers of two languages' formats; make the "
            "report again with one: export NLS_LANG=AMERICAN_AMERICA.AL32UTF8"
        )
    if not more and marks["?"]:
        line, text = marks["?"][0]
        raise Refused(
            f"line {line}: {text!r} may be thousands or a fraction, and no other number decides; make the report "
            "again: export NLS_LANG=AMERICAN_AMERICA.AL32UTF8"
        )
    return (_COMMA[0], ",") if fewer == "." and more else (_POINT[0], ".")


# NLS_DATE_LANGUAGE: English, German, French, Spanish, Portuguese, Italian, Dutch, Polish; without accents.
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan janv ene gen sty", "feb fev fevr lut", "mar mrz mars mrt", "apr avr abr kwi",
            "may mai mag mei maj",
            "jun juin giu cze", "jul juil lug lip", "aug aout ago sie", "sep sept set wrz", "oct okt out ott paz",
            "nov lis", "dec dez dic gru",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
# 23-Jan-22 10:00:39   01-JANV.-22 08:00   01-MARS -22 08:00   23-1月 -22 10:00:39   10-12-13 09:34:16
_DATE = re.compile(
    r"(?<![\d-])(?P<day>\d{1,2})-(?P<month>\d{1,2}[^\x00-\x7f]{0,4}|[^\s\d-]{2,12}) {0,4}-(?P<year>\d{4}|\d\d)"
    r" {1,3}(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?!\d)"
)


def month(name: str) -> int | None:
    """The number of a month's short name in one of several languages; None for another."""
    if match := re.match(r"\d{1,2}", name):
        return int(match[0]) if 1 <= int(match[0]) <= 12 else None
    parted = unicodedata.normalize("NFKD", name.lower().rstrip("."))
    bare = "".join(each for each in parted if not unicodedata.combining(each))
    # A file in Latin-1: each accented letter came out as U+FFFD.
    known = {number for each, number in _MONTHS.items() if _alike(bare, each)}
    return known.pop() if len(known) == 1 else None


def _alike(bare: str, name: str) -> bool:
    return len(bare) == len(name) and all(a in (b, "\ufffd") for a, b in zip(bare, name, strict=True))


def moment(row: ReportRow, text: str) -> datetime | None:
    """The date and time (naive) in a text; None where there is none. Raises ``Refused`` for one that cannot be."""
    match = _DATE.search(text)
    if match is None:
        return None
    number = month(match["month"])
    if number is None:
        raise Refused(
            f"line {row.line}: {match['month']!r} is no month in a language known here; make the report again: "
            "export NLS_LANG=AMERICAN_AMERICA.AL32UTF8"
        )
    year = int(match["year"]) + (2000 if len(match["year"]) == 2 else 0)
    try:
        return datetime(
            year, number, int(match["day"]), int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
        )
    except ValueError as error:
        raise Refused(f"line {row.line}: {match[0]!r} is no time: {error}") from error


_MEASURES = frozenset(("statistic", "event", "function name", "function", "filetype name", "per second"))


def cells(tables: Sequence[Table], head: Sequence[ReportRow]) -> Iterable[tuple[int, str]]:
    """Each cell of the tables that are used, with its line; releases and sessions are no numbers to judge by."""
    for table in tables:
        if not _MEASURES.intersection(table.header) and "read+write" not in " ".join(table.header):
            continue
        for row in table.rows:
            for text in row.cells[1:]:
                yield row.line, _SCALED.sub("", text) if _SCALED.fullmatch(text) else _unit(text)
    for row in (row for row in head if row.label == "elapsed"):
        yield row.line, row.cell(1).split("(")[0]


def _unit(text: str) -> str:
    match = _TIMED.fullmatch(text.strip())
    return match[1] if match else text

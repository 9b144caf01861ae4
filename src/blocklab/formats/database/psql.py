"""Tables as psql prints them: aligned (borders 0 to 2, ASCII and Unicode lines), expanded, unaligned, CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

import msgspec

from blocklab.formats.clock import DAY, Stamp, stamp
from blocklab.formats.text import Bad, Refused, Text

# Of lines between and around cells: -+- | ─┼─ │ ═╬═ ║, corners and tees.
_LINES = frozenset("-+|─│┼┌┐└┘├┤┬┴═║╬╔╗╚╝╠╣╦╩╪╫╞╡╟╢╤╧╥╨╒╕╓╖╘╛╙╜━┃")
_BARS = "|│║┃"
_SEPARATORS = ("|", "\t", ",", ";")
# (35 rows)   (1 row)   (3 Zeilen)   (3 行)   (3行)   (1,234 rows)
_FOOTER = re.compile(r"\((\d[\d,.]{0,12}) ?[^\d()|]{1,40}\)")
# -[ RECORD 1 ]---+----   +-[ RECORD 1 ]-+---+   ─[ DATENSATZ 2 ]─┬──   * Record 1   -[ レコード 1 ]--
_RECORD = re.compile(
    r"[-+|─│┌├╔╠═╒╞╓╟━]{0,3}\[ [^\[\]|]{0,40}?(\d{1,9})[^\[\]|\d]{0,20} \][-+|─┐┤┬┼═╗╣╦╬╤╪╥╫╕╡╖╢━]*"
)
_STARRED = re.compile(r"\* \S{1,40} \d+")
# Sat Oct 14 19:48:20 2023 (every 1s)   Mon 20 Nov 2023 10:00:00 AM UTC (every 60s)   (9.4:) Watch every 2s <date>
_WATCH = re.compile(r"(?:Watch every [\d.]{1,9}s\s)?(?P<time>[^()]{8,60}?)(?: \([^()]{1,40}\))?")
# reads   stats_reset   ?column?   "Database"
_NAME = re.compile(r"[A-Za-z_?\"][\w ?\"$().:]{0,62}")
# 2023-11-20 10:00:00.123456+00   ... -07: two digits, where stamp() knows four
_SHORT_ZONE = re.compile(r"(:\d\d(?:\.\d+)?[+-]\d\d)$")
# Mon Nov 20 10:00:00.123456 2023 UTC (DateStyle "Postgres")
_ZONE_LAST = re.compile(r"(\d) (\d{4}) ([A-Z]{3,4})$")
# 23.11.2026 03:15:37.952629 GMT (DateStyle German, SQL): names other than these mean several zones
_ZONE_NAMED = re.compile(r"^(\d\S+ \S+) ([A-Z]{3,4})$")
_MARKS = ".…"
# Years that a server can have.
_FIRST, _LAST = 1990, 2200
# No view has more columns.
_MOST = 80


class TextRow(msgspec.Struct, frozen=True):
    """Cells as text, by column. ``line`` counts from 1."""

    line: int
    cells: tuple[str, ...]


class At(msgspec.Struct, frozen=True):
    """A line that is a time: of ``date``, of ``\\watch``, or the one cell of ``SELECT now()``."""

    line: int
    stamp: Stamp


class Table(msgspec.Struct, frozen=True):
    """One result. ``counted``: whether its ``(N rows)`` is there and N is right; None for the forms without one
    (CSV, expanded). ``at``: the last line before it that is a time. ``wrong``: why it cannot be used."""

    line: int
    columns: tuple[str, ...]
    rows: tuple[TextRow, ...]
    counted: bool | None = None
    at: At | None = None
    wrong: str = ""


def moment(text: str) -> Stamp | None:
    """A time as PostgreSQL or ``date`` prints it; None for what is none or has no date."""
    text = _ZONE_LAST.sub(r"\1 \3 \2", _SHORT_ZONE.sub(r"\g<1>00", text.strip()))
    if match := _ZONE_NAMED.fullmatch(text):
        text = f"{match[1]} UTC" if match[2] in ("UTC", "GMT") else match[1]
    found = stamp(text)
    if found is None or (found.offset is None and not found.numbers):
        return None
    # Damaged ones, which no calendar has.
    zone = bool(found.numbers) and abs(found.offset or 0.0) >= DAY
    year = found.sure and len(found.numbers) == 3 and not _FIRST <= found.numbers[0] <= _LAST
    return None if zone or year else found


def tables(text: Text, known: frozenset[str]) -> tuple[list[Table], list[Bad]]:
    """The tables with one of the ``known`` columns at least, and the lines that have no place in one.

    Raises ``Refused`` for the format ``wrapped``, which breaks values in the middle.
    """
    return _Scan(text, known).all()


class _Scan:
    """Goes through the lines once; ``i`` is the next one, from 0."""

    def __init__(self, text: Text, known: frozenset[str]) -> None:
        self.lines = [*text.lines, text.cut] if text.cut else list(text.lines)
        self.cut = len(text.lines) if text.cut else -1
        self.known = known
        self.i = 0
        self.at: At | None = None
        self.bad: list[Bad] = []

    def all(self) -> tuple[list[Table], list[Bad]]:
        found: list[Table] = []
        while self.i < len(self.lines):
            start = self.i
            table = self._table()
            if table is None or self.i == start:
                self._time()
                self.i = start + 1
            elif self.known.intersection(table.columns):
                found.append(table)
            elif len(table.rows) == 1 and (told := moment("".join(table.rows[0].cells[:1]))) is not None:
                # SELECT now(); before the tables
                self.at = At(table.rows[0].line, told)
        return found, self.bad

    def _time(self) -> None:
        line = self.lines[self.i].strip().strip(_BARS).strip()
        match = _WATCH.fullmatch(line) if line[:80] == line else None
        found = moment(match["time"]) if match else None
        if found is not None:
            self.at = At(self.i + 1, found)

    def _line(self, ahead: int = 0) -> str:
        at = self.i + ahead
        return self.lines[at] if at < len(self.lines) else ""

    def _table(self) -> Table | None:
        line = self._line()
        if not line.strip():
            return None
        if _is_record(line):
            return self._expanded()
        if _is_rule(line) and _is_rule(self._line(2)) and self._line(1).strip():
            self.i += 1
            return self._aligned()
        if _is_rule(self._line(1)) and not _is_rule(line):
            return self._aligned()
        return self._listed(line)

    def _aligned(self) -> Table:
        """The next line is the header, the one after it a rule."""
        start, rule = self.i, self._line(1)
        bars = any(bar in self._line() for bar in _BARS) or not _spans(rule)[1:]
        cut = _by_bars if bars else _by_spans(_spans(rule))
        columns = tuple(_name(each) for each in cut(self._line()))
        self._refuse_wrapped(start, bars=bars)
        self.i += 2
        rows, wrong = self._rows(columns, cut, bars=bars)
        return self._closed(start, columns, rows, wrong)

    def _rows(self, columns: Sequence[str], cut: _Cut, *, bars: bool) -> tuple[list[TextRow], str]:
        rows: list[TextRow] = []
        wrong = ""
        while self.i < len(self.lines):
            line = self._line()
            if not line.strip() or _is_rule(line) or _FOOTER.fullmatch(line.strip()) or self._header_next():
                break
            cells = cut(line)
            if bars and len(columns) > 1 and not any(bar in line for bar in _BARS):
                # A message in between, or the end of a table that was cut.
                break
            if len(cells) != len(columns) or self.i == self.cut:
                wrong = wrong or self._broken(len(cells), len(columns))
            else:
                self._refuse_wrapped(self.i, bars=bars)
                rows.append(TextRow(self.i + 1, tuple(cells)))
            self.i += 1
        while self.i < len(self.lines) and _is_rule(self._line()):
            self.i += 1
        return rows, wrong

    def _header_next(self) -> bool:
        return _is_record(self._line()) or (
            _is_rule(self._line(1)) and bool(self._columns(self._line(), _by_bars))
        )

    def _broken(self, found: int, wanted: int) -> str:
        self.bad.append(Bad(self.i + 1, self._line()))
        if self.i == self.cut:
            return f"line {self.i + 1} is cut"
        return f"line {self.i + 1} has {found} values for {wanted} columns"

    def _closed(self, start: int, columns: tuple[str, ...], rows: list[TextRow], wrong: str) -> Table:
        """With the footer, if the next line is one."""
        match = _FOOTER.fullmatch(self._line().strip())
        counted = False
        if match is not None and self.i != self.cut:
            self.i += 1
            told = int(re.sub(r"\D", "", match[1]))
            counted = told == len(rows)
            if not counted:
                wrong = wrong or f"it says {match[0]}, but {len(rows)} are there"
        return Table(start + 1, columns, tuple(rows), counted, self.at, wrong)

    def _listed(self, line: str) -> Table | None:
        """Unaligned or CSV, also expanded (``name|value``)."""
        for separator in _SEPARATORS:
            cut = _by(separator)
            columns = self._columns(line, cut)
            if len(columns) > 1 and self.known.intersection(columns):
                if self._pairs(separator):
                    return self._turned(separator)
                start = self.i
                self.i += 1
                return self._unaligned(start, columns, separator)
        if self._pairs_start(line):
            return self._turned(self._pairs_start(line))
        return None

    def _columns(self, line: str, cut: _Cut) -> tuple[str, ...]:
        """The names of columns that a line is, if it is nothing else."""
        names = tuple(_name(each) for each in cut(line))
        return names if names and all(_NAME.fullmatch(each) for each in names) else ()

    def _unaligned(self, start: int, columns: tuple[str, ...], separator: str) -> Table:
        rows: list[TextRow] = []
        wrong, cut = "", _by(separator)
        while self.i < len(self.lines):
            line = self._line()
            if separator not in line or self.known.intersection(self._columns(line, cut)):
                break
            cells = cut(line)
            if len(cells) != len(columns) or self.i == self.cut:
                wrong = wrong or self._broken(len(cells), len(columns))
            else:
                rows.append(TextRow(self.i + 1, tuple(cells)))
            self.i += 1
        table = self._closed(start, columns, rows, wrong)
        # CSV has no footer; with these separators it is the more likely.
        none = separator in ",;" and not table.counted and not table.wrong
        return msgspec.structs.replace(table, counted=None) if none else table

    def _pairs_start(self, line: str) -> str:
        """The separator where ``name|value`` lines of an expanded result begin here, else nothing."""
        return next((each for each in _SEPARATORS if each in line and self._pairs(each)), "")

    def _pairs(self, separator: str) -> bool:
        """Whether ``name|value`` lines begin here, up to a blank one, with a known name among them."""
        cut, names = _by_first(separator), []
        for ahead in range(_MOST):
            cells = cut(self._line(ahead))
            if len(cells) != 2 or not _NAME.fullmatch(_name(cells[0])) or _name(cells[0]) in names:
                break
            names.append(_name(cells[0]))
        value = _name(cut(self._line())[-1])
        return len(names) > 1 and bool(self.known.intersection(names)) and value not in self.known

    def _turned(self, separator: str) -> Table:
        """Expanded without lines: ``name|value``. Unaligned has a blank line between two records, CSV none;
        between two results neither has one."""
        start, cut = self.i, _by_first(separator)
        records: list[tuple[int, list[tuple[str, str]]]] = []
        while True:
            at = self.i + 1
            records.append((at, self._pairs_of(cut, most=len(records[0][1]) if records else _MOST)))
            blank = 0 if self._line().strip() else 1
            if self.i < at or not self._follows(cut, records[0][1], blank):
                break
            self.i += blank
        return self._from_records(start, records)

    def _follows(self, cut: _Cut, first: Sequence[tuple[str, str]], ahead: int) -> bool:
        """Whether another record with the names of the first one begins there."""
        names = [name for name, _ in first[:3]]
        return bool(names) and names == [_name(cut(self._line(ahead + at))[0]) for at in range(len(names))]

    def _expanded(self) -> Table:
        start = self.i
        records: list[tuple[int, list[tuple[str, str]]]] = []
        while self.i < len(self.lines) and _is_record(self._line()):
            if records and _number(self._line()) == 1:
                break
            starred = _STARRED.fullmatch(self._line().strip()) is not None
            self.i += 1
            records.append((self.i, self._pairs_of(_by_blanks if starred else _by_first_bar)))
            while self.i < len(self.lines) and _is_rule(self._line()):
                self.i += 1
        return self._from_records(start, records)

    def _pairs_of(self, cut: _Cut, most: int = _MOST) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = []
        while self.i < len(self.lines) and self._line().strip() and not _is_record(self._line()):
            cells = cut(self._line())
            if _is_rule(self._line()) or len(cells) != 2 or not _NAME.fullmatch(_name(cells[0])):
                break
            if len(pairs) == most or (pairs and _name(cells[0]) == pairs[0][0]):
                break
            if self.i == self.cut:
                self.bad.append(Bad(self.i + 1, self._line()))
            else:
                pairs.append((_name(cells[0]), cells[1].strip()))
            self.i += 1
        return pairs

    def _from_records(self, start: int, records: list[tuple[int, list[tuple[str, str]]]]) -> Table:
        columns = tuple(name for name, _ in records[0][1]) if records else ()
        rows, wrong = [], ""
        for line, pairs in records:
            if columns and tuple(name for name, _ in pairs) == columns:
                rows.append(TextRow(line, tuple(value for _, value in pairs)))
            else:
                self.bad.append(Bad(line, self.lines[line - 1]))
                wrong = wrong or f"the record in line {line} has other columns than the first: cut, or damaged"
        if self.cut >= start and self.cut < self.i:
            wrong = wrong or f"line {self.cut + 1} is cut"
        return Table(start + 1, columns, tuple(rows), None, self.at, wrong)

    def _refuse_wrapped(self, at: int, *, bars: bool) -> None:
        if bars and _wrapped(self.lines[at]):
            raise Refused(
                f"line {at + 1}: its values are broken over several lines (psql's format wrapped, or a newline in "
                "one of them); print it by psql -X --csv, or \\pset format aligned"
            )


class _Cut:
    """How a line becomes cells."""

    def __init__(self, separators: str = "", spans: Sequence[tuple[int, int]] = (), most: int = -1) -> None:
        self.separators, self.spans, self.most = separators, spans, most

    def __call__(self, line: str) -> list[str]:
        if self.spans:
            # Blanks at the end are not printed, so a NULL there has none.
            return [line[start:end].strip() for start, end in self.spans]
        if self.separators == _BARS:
            return [each.strip() for each in _cells(line, self.most)]
        if self.separators == " ":
            return line.split(None, 1) if len(line.split(None, 1)) == 2 else [line.strip(), ""]
        if self.separators in ",;" and '"' in line:
            return [each.strip() for each in _quoted(line, self.separators)]
        return [each.strip() for each in line.split(self.separators, self.most)]


def _quoted(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


def _by(separator: str) -> _Cut:
    return _Cut(separator)


def _by_spans(spans: Sequence[tuple[int, int]]) -> _Cut:
    return _Cut(spans=spans)


def _by_first(separator: str) -> _Cut:
    return _Cut(separator, most=1)


_by_bars = _Cut(_BARS)
_by_first_bar = _Cut(_BARS, most=1)
_by_blanks = _Cut(" ")


def _cells(line: str, most: int = -1) -> list[str]:
    """Between bars; the outer ones of border 2 are none."""
    bar = next((each for each in line if each in _BARS), "|")
    inner = line.strip()
    outside = len(inner) > 1 and inner[0] == bar and inner[-1] == bar
    return (inner[1:-1] if outside else line).split(bar, most)


def _wrapped(line: str) -> bool:
    """Whether a cell goes on in the next line, or comes from the one before: the mark stands in its margin.

    psql's format wrapped: ``| 2026-11-.| client b.|`` and below it ``|.23 03:05 |.ackend   |``.
    """
    cells = _cells(line)
    if len(cells) < 2:
        return False
    left = any(each[:1] in _MARKS for each in cells if len(each) > 1)
    return left or any(each[-1:] in (".", "…", "+", "↵") for each in cells if len(each) > 1 and each[-2:-1] != "")


def _spans(rule: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"[-─═━]+", rule)]


def _is_rule(line: str) -> bool:
    inner = line.strip()
    return len(inner) > 1 and all(each in _LINES or each == " " for each in inner) and bool(_spans(inner))


def _is_record(line: str) -> bool:
    inner = line.strip()[:400]
    return bool(_RECORD.match(inner) or _STARRED.fullmatch(inner)) and ("[" in inner or inner.startswith("*"))


def _number(line: str) -> int:
    match = re.search(r"\d{1,9}", line)
    return int(match[0]) if match else 0


def _name(cell: str) -> str:
    return cell.strip().strip('"').lower()

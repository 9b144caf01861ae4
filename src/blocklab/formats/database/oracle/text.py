"""AWR and Statspack reports as plain text: tables whose columns stand under a ruler of dashes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from blocklab.formats.database.oracle.tables import Report, ReportRow, Table, plain
from blocklab.formats.text import Text

# WORKLOAD REPOSITORY report for   WORKLOAD REPOSITORY PDB report (root snapshots)   STATSPACK report for
# WORKLOAD REPOSITORY REPORT (RAC)   STATSPACK Statistics Report for
_TITLE = re.compile(r"(?:WORKLOAD REPOSITORY (?:PDB )?report\b|STATSPACK (?:Statistics )?report for).{0,60}", re.I)
# What tells the title of a report from the same words in a statement: its head follows.
_HEAD = re.compile(r"\s*(?:DB Name|Database|DB Id|Begin Snap)\b")
_NEAR = 20
# -------------------------------- ------------------ --------------    ~~~~~~~~~~   -------------- -----------
_RULER = re.compile(r" *[-~]{2,}(?: +[-~]{2,})* *")
# --------------------------------------------------------------------------------
_PAGE_RULER = re.compile(r"-{20,}")
_GROUP = re.compile(r"[-~]{2,}")
_TOKEN = re.compile(r"\S+")
# Begin Snap:        37 12-Feb-17 12:16:04        25       1.6
_SNAP = re.compile(r" {0,40}(Begin Snap|End Snap|Elapsed): {0,60}(.{0,200})")
# DB/Inst: ORCL/orcl  Snaps: 37-38    Instance Activity Stats for DB: ORCL  Instance: orcl  Snaps: 4873 -4875
_NAMED = re.compile(
    r"DB/Inst: (?P<db>[^\s/]{1,128})/(?P<instance>\S{1,128})|for DB: (?P<db2>\S{1,128})  ?Instance:"
)
# Buffer Cache:    49,152M    49,152M  Std Block Size:         8K
_BLOCK = re.compile(r"Std Block Size: {1,40}(\d{1,4}K)")
_HEADERS = 6
_TAIL = 40
Span = tuple[int, int]


def reports(text: Text) -> Iterator[Report]:
    """Each report of a file. A last line without its end is left out: its last number may be half one."""
    lines = [line.replace("\f", "").expandtabs().rstrip() for line in text.lines]
    starts = [number for number, line in enumerate(lines) if _TITLE.match(line) and _headed(lines, number)] or [0]
    for start, end in pairwise([*starts, len(lines)]):
        rest = text.cut if end == len(lines) else ""
        yield _report(lines[start:end], start + 1, rest)


def _headed(lines: Sequence[str], at: int) -> bool:
    return any(_HEAD.match(line) for line in lines[at + 1 : at + _NEAR])


def _report(lines: Sequence[str], first: int, rest: str) -> Report:
    numbered = list(_without_pages(enumerate(lines, first)))
    head: list[ReportRow] = []
    names: dict[str, str] = {}
    for number, line in numbered:
        if match := _SNAP.match(line):
            head.append(ReportRow(number, (plain(match[1]), match[2])))
        if match := _NAMED.search(line):
            names.setdefault("db", match["db"] or match["db2"])
            if match["instance"]:
                names.setdefault("instance", match["instance"])
        if match := _BLOCK.search(line):
            names.setdefault("block size", match[1])
    title = _TITLE.match(lines[0]) if lines else None
    return Report(
        line=first, title=title[0].strip() if title else "", tables=tuple(_tables(numbered)), head=tuple(head),
        names=names, complete=any("end of report" in line.lower() for line in (*lines[-_TAIL:], rest)),
    )  # fmt: skip


def _without_pages(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Without the page heads of SQL*Plus, which cut a table in two: a blank line (``newpage 1``), the name of the
    one column of ``dbms_workload_repository.awr_report_text``, and the ruler below it (``underline on``)."""
    held: list[tuple[int, str]] = []
    named = False
    for number, line in lines:
        if line.strip() == "OUTPUT":
            held = [each for each in held if each[1]]
            named = True
        elif named and _PAGE_RULER.fullmatch(line):
            named = False
        else:
            named = False
            yield from held
            held = [(number, line)]
    yield from held


def _tables(lines: Sequence[tuple[int, str]]) -> Iterator[Table]:
    at = 0
    while at < len(lines):
        line = lines[at][1]
        spans = [match.span() for match in _GROUP.finditer(line)] if _RULER.fullmatch(line) else []
        if len(spans) < 2:
            at += 1
            continue
        end = at + 1
        while end < len(lines) and lines[end][1].strip() and not _RULER.fullmatch(lines[end][1]):
            end += 1
        yield _table(line, spans, [line for _, line in lines[max(0, at - _HEADERS) : at]], lines[at + 1 : end])
        at = end


def _table(ruler: str, spans: Sequence[Span], above: Sequence[str], below: Sequence[tuple[int, str]]) -> Table:
    # In the workload and the I/O profile the names stand before the columns, each with a colon.
    tilde = ruler.strip().startswith("~")
    profile = (tilde and any(_colon(line, spans[1][0]) for _, line in below)) or spans[0][0] > 10
    numbered = spans[1:] if tilde and profile else spans
    rows = [row for number, line in below if (row := _row(number, line, numbered, profile)) is not None]
    header = _header(above, numbered)
    return Table(("", *header) if profile else header, tuple(rows))


def _colon(line: str, start: int) -> bool:
    return 0 <= line.find(":") < start + 4


def _row(number: int, line: str, spans: Sequence[Span], profile: bool) -> ReportRow | None:
    if not profile:
        cells = _cells(line, 0, spans)
        return ReportRow(number, cells) if cells is not None else None
    name, colon, _ = line.partition(":")
    cells = _cells(line, len(name) + 1, spans) if colon else None
    return ReportRow(number, (name.strip(), *cells)) if cells is not None else None


def _cells(line: str, start: int, spans: Sequence[Span]) -> tuple[str, ...] | None:
    """The words under each group of dashes; None where one stands under two, or the line runs past them."""
    found: list[list[str]] = [[] for _ in spans]
    for match in _TOKEN.finditer(line, start):
        under = [at for at, span in enumerate(spans) if match.start() < span[1] and match.end() > span[0]]
        if len(under) > 1:
            return None
        if under:
            found[under[0]].append(match[0])
    return tuple(" ".join(words) for words in found)


def _header(above: Sequence[str], spans: Sequence[Span]) -> tuple[str, ...]:
    """The words above each column, from the last blank line on; a word goes to the column it stands over most."""
    lines: list[str] = []
    for line in reversed(above):
        if not line.strip() or line.startswith("->"):
            break
        if line.startswith("~~~"):
            # Above it stands the title: "Top 5 Timed Events".
            lines.insert(0, line.replace("~", " "))
            break
        lines.insert(0, line)
    found: list[list[str]] = [[] for _ in spans]
    for line in lines:
        for match in _TOKEN.finditer(line):
            shared = [min(match.end(), end) - max(match.start(), start) for start, end in spans]
            if max(shared) > 0:
                found[shared.index(max(shared))].append(match[0])
    return tuple(plain(" ".join(words)) for words in found)

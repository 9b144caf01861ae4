"""``index.html`` in a folder of runs: every study in it with its answer in one line, and every comparison."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from jinja2 import Environment

from blocklab import __version__
from blocklab.errors import Unreadable
from blocklab.model import outside
from blocklab.model.files import write_whole
from blocklab.report import tables
from blocklab.stats.analysis import Analysis
from blocklab.stats.overview import Overview, overview
from blocklab.stats.worth import worth
from blocklab.store.folder import StudyFolder
from blocklab.store.identity import identity

SUMMARY, INDEX = "summary.json", "index.html"
MOST_SUMMARY = 1 << 16
# The generator that our pages name at their beginning, so that somebody else's index.html stays.
INDEXED, COMPARED = '"blocklab-index"', '"blocklab-compare"'
_HEAD = 4096
# <title>b against a</title>
_TITLE = re.compile(r"<title>([^<]{0,300})</title>")
# Of more layouts than this only the first.
_MOST_NAMED = 4


class Summary(msgspec.Struct, frozen=True):
    """A study in one row. ``answer`` is that of its first value on each layout, ``worth`` how sure it is, ``when``
    in UTC; ``good`` of ``cells`` have a result."""

    name: str
    question: str
    answer: str
    worth: str
    when: str
    machine: str
    good: int
    cells: int
    quick: bool = False


class Entry(msgspec.Struct, frozen=True):
    """A summary, and the folder that it is in."""

    folder: str
    summary: Summary


def summary_of(analysis: Analysis) -> Summary:
    """A study as the index tells of it."""
    good = [run for run in analysis.every if run.outcome.status == "ok"]
    machines = dict.fromkeys(str(identity(run.environment)) for run in analysis.every)
    return Summary(
        analysis.study.name, analysis.study.question, one_line(overview(analysis)), (*worth(analysis), "")[0],
        tables.measured_when(analysis), "; ".join(machines), len(good), len(analysis.cells), analysis.quick,
    )  # fmt: skip


def one_line(found: Overview) -> str:
    """``tps-one-row: drbd0 53 % less, drbd1 85 % less``; empty without values."""
    if not found.columns:
        return ""
    amounts = [(each.label, each.amounts[0]) for each in found.layouts if not each.baseline]
    amounts = amounts or [(each.label, each.amounts[0]) for each in found.layouts]
    words = [f"{label} {amount.cost if amount.share else amount.text}" for label, amount in amounts if amount]
    more = ", ..." if len(words) > _MOST_NAMED else ""
    return f"{found.columns[0].title}: {', '.join(words[:_MOST_NAMED])}{more}"


def write_index(made: Environment, folder: StudyFolder, analysis: Analysis, style: str) -> None:
    """Keep the study's row, and write the index beside its folder again; never over a page that is not ours.
    Raises ``OSError``."""
    write_whole(folder.path / SUMMARY, msgspec.json.format(msgspec.json.encode(summary_of(analysis)), indent=1))
    runs = folder.path.absolute().parent
    page = runs / INDEX
    if page.exists() and INDEXED not in _head(page):
        return
    text = made.get_template("index.html.j2").render(
        entries=list(_entries(runs)), comparisons=list(_comparisons(runs)),
        style=style, version=__version__,
    )  # fmt: skip
    write_whole(page, text.encode())


def _entries(runs: Path) -> Iterator[Entry]:
    """The studies whose report was written, the newest first. What cannot be read has no row."""
    found = []
    for path in runs.glob(f"*/{SUMMARY}"):
        with contextlib.suppress(Unreadable):
            summary = outside.typed_json(outside.data(path, MOST_SUMMARY), Summary, str(path))
            found.append(Entry(path.parent.name, summary))
    yield from sorted(found, key=lambda entry: entry.summary.when, reverse=True)


def _comparisons(runs: Path) -> Iterator[tuple[str, str]]:
    """The file and the title of each page of ``compare`` there."""
    for path in sorted(runs.glob("*.html")):
        head = _head(path)
        if COMPARED in head and (title := _TITLE.search(head)) is not None:
            yield path.name, title[1]


def _head(path: Path) -> str:
    try:
        with outside.opened(path) as file:
            return file.read(_HEAD).decode("utf-8", errors="replace")
    except (OSError, Unreadable):
        return ""

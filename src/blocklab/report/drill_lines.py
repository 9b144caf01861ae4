"""The drills of a study for a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType

from blocklab.lang import term
from blocklab.model.terminal import Text
from blocklab.report.drills import NONE, WORDS, fields, status_of
from blocklab.report.grid import grid
from blocklab.stats.analysis import Analysis, analyse
from blocklab.stats.drills import Summary, summaries, tally
from blocklab.stats.format import digits, percent
from blocklab.stats.sentences import drill_points
from blocklab.store.folder import StudyFolder

_STYLES = {"ok": "green", "lost": "red", "unknown": "yellow"}


def drill_table(folder: StudyFolder) -> RenderableType:
    """What the drills say, a row for each cell, and the tally over all. Raises ``StoreError``."""
    analysis = analyse(folder)
    if not analysis.drills:
        return Text("There is no drill in this study yet.")
    return Group(*(Text(point) for point in drill_points(analysis)), *drill_parts(analysis))


def drill_parts(analysis: Analysis) -> Iterator[RenderableType]:
    """The table and the tally; nothing for a study without drills."""
    found = summaries(analysis)
    if not found:
        return
    titles = ("drills", "verdict", "TPS", "gone", "RPO", "RTO", "binlog", "mirror")
    yield grid(titles, map(_cells, found), left=("verdict", "binlog", "mirror"))
    yield Text(tally([each.drill for each in analysis.drills if each.status == "ok"]), style="dim")


def _cells(each: Summary) -> list[Text]:
    mine = fields(each)
    status = status_of(each)
    rate = Text(NONE if each.rate is None else digits(each.rate.value, each.rate.half, "1/s", "tps")[0])
    if each.relative is not None and not each.base:
        rate.append(f" {percent(each.relative.value)}", style="bold")
    return [
        Text(each.label.replace(" ", "\n")),
        Text(f"{WORDS[status][0]} {term(status)} {_count(each)}".rstrip(), style=_STYLES[status]),
        rate,
        Text(mine["gone"].text.replace(" of ", "\nof ")),
        Text("\n".join([mine["RPO, most"].text, mine["RPO, most"].small.partition(";")[0]]).strip()),
        Text(_times(each)),
        Text(mine["binary log"].text),
        Text(mine["mirror"].text),
    ]


def _times(each: Summary) -> str:
    """The median RTO, below it the time until 90 % of the rate was back, and how many drills have no end."""
    mine = fields(each)
    rto, rate = mine["RTO, median"].text, mine["90 % of the rate, median"].text
    back = [f"90 %: {rate}"] if each.rto is not None and each.never < each.rto.count and rate != NONE else []
    never = [f"{each.never} of {each.rto.count} never"] if each.rto is not None and each.never else []
    return "\n".join([rto, *back, *never])


def _count(each: Summary) -> str:
    """How many of the cell's drills have its verdict, ``3/3``; empty where none counts. Void ones are among them
    where one of them lost something, for that is in the verdict."""
    mine, void = each.losses, each.void if each.void_lost else 0
    counts = {"ok": mine.ok, "lost": mine.lost + each.void_lost, "unknown": mine.unknown}
    drills = mine.drills + void
    return f"{counts[status_of(each)]}/{drills}" if drills else ""

"""A study's folder as one self-contained page, and its twins as CSV and JSON."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from blocklab import __version__
from blocklab.charts.all import draw
from blocklab.charts.base import ON_DARK, PAPER, PAPER_ON_DARK, Chart, Charts, colours, config
from blocklab.charts.cost import COST
from blocklab.charts.layout import layouts
from blocklab.errors import StoreError
from blocklab.lang.catalogue import language, term
from blocklab.lang.pages import Translated
from blocklab.model.files import write_whole
from blocklab.model.shown import shown
from blocklab.predict.cells import analysed
from blocklab.report import tables
from blocklab.report.bundle import bundle
from blocklab.report.carried import MARKS as CARRIED_MARKS
from blocklab.report.carried import carried_rows
from blocklab.report.drills import COLUMNS as DRILL_COLUMNS
from blocklab.report.drills import MOST_EVENTS, MOST_IDS, after, clock, drill_section, took
from blocklab.report.drills import WORDS as DRILL_WORDS
from blocklab.report.export import as_csv
from blocklab.report.files import as_json
from blocklab.report.hint import hint
from blocklab.report.imported import file_rows, span
from blocklab.report.index import write_index
from blocklab.report.layers import COLUMNS, layer_groups
from blocklab.report.limits import floor_tables, limited_rows, own_text, vague_text
from blocklab.report.machines import RATIOS, machine_rows, ratio_rows
from blocklab.report.predictions import prediction_tables
from blocklab.report.sheets import sheets
from blocklab.report.source import source_of
from blocklab.report.stops import order_text, stops, stops_line
from blocklab.stats import longform
from blocklab.stats.analysis import Analysis
from blocklab.stats.findings import findings
from blocklab.stats.floor import BUSY, LIMITED, NEAR
from blocklab.stats.format import percent, seconds
from blocklab.stats.overview import overview
from blocklab.stats.sentences import Answer, answer
from blocklab.stats.source import Piece
from blocklab.stats.worth import expected_line, next_step, worth
from blocklab.store.folder import StudyFolder
from blocklab.study.types import View

_WORDS = {"ok": ("✓", "ok"), "failed": ("✗", "failed"), "unknown": ("?", "unknown")}


def render(
    folder: StudyFolder,
    output: Path | None = None,
    view: View | None = None,
    analysis: Analysis | None = None,
) -> Path:
    """Write report.html, report.csv and report.json into the study's folder, drills.csv where it has drills, and
    the index beside it; the path of the page. With ``output`` only the page is written, there, and its CSV is in
    it.

    ``view`` lays out the charts instead of what the study says, whose fields it leaves empty hold. ``analysis``:
    that of the folder, where it is at hand already.

    Raises ``StoreError`` when the folder is no study's, or cannot be written.
    """
    analysis = laid_out(analysis or analysed(folder), view)
    found = findings(analysis)
    said, source = answer(found), source_of(folder)
    if output is not None:
        text = as_csv(longform.report(analysis)).encode()
        written({output: html(analysis, said, source, csv=text).encode()})
        return output
    page = folder.path / "report.html"
    pieces = [Piece(analysis.study.name, run, run.cell.levels, ()) for run in analysis.every]
    drills = longform.of_runs("drills", pieces)
    written(
        {
            folder.path / "report.csv": as_csv(longform.report(analysis)).encode(),
            folder.path / "report.json": as_json(analysis, found),
            **({folder.path / "drills.csv": as_csv(drills).encode()} if analysis.drills else {}),
            page: html(analysis, said, source).encode(),
        }
    )
    made = environment()
    with _writing(folder.path.parent):
        write_index(made, folder, analysis, _asset(made, "style.css"))
    return page


def laid_out(analysis: Analysis, view: View | None) -> Analysis:
    """The same with its charts laid out so."""
    if view is None:
        return analysis
    study = msgspec.structs.replace(analysis.study, report=both_views(analysis.study.report, view))
    return dataclasses.replace(analysis, study=study)


def both_views(own: View, view: View) -> View:
    """What ``view`` asks for, and of a study's own layout what that leaves open."""
    x, color, facet = ("" if name in view.axes else name for name in own.axes)
    return View(view.x or x, view.y or own.y, view.color or color, view.facet or facet)


def written(texts: Mapping[Path, bytes]) -> None:
    """Write files so that a reader never meets half a page. Raises ``StoreError``."""
    for path, text in texts.items():
        with _writing(path):
            write_whole(path, text)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}", hint=hint(path, error)) from error


def environment() -> Environment:
    """How every page is filled in: all text is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=PackageLoader("blocklab", "data/page"),
        autoescape=True,
        finalize=_seen,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Translated],
    )
    made.globals["language"] = language()
    made.filters |= {
        "script_json": script_json, "shell": shlex.join, "seconds": seconds, "clock": clock, "after": after,
        "took": took, "term": term,
    }  # fmt: skip
    return made


def _seen(value: Any) -> Any:
    """What stands in a page: no text turns the direction of what is behind it. Markup is of our own files."""
    return shown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def html(analysis: Analysis, said: Answer, source: str, csv: bytes | None = None) -> str:
    """The page. ``source``: the study's file, or the name of a shipped one. With ``csv`` the values are in the
    page itself; without it the page stands beside its twins."""
    made = environment()
    drawn = draw(analysis)
    first = _first(drawn)
    rest = Charts(tuple(chart for chart in drawn.shown if chart is not first), drawn.left_out)
    decided = [each for each in analysis.verdicts if each.status != "unknown"]
    good = sum(run.outcome.status == "ok" for run in analysis.every)
    limited, unlisted = limited_rows(analysis)
    explained, unexplained = ([], []) if analysis.imported else tables.explained_runs(analysis)
    return made.get_template("report.html.j2").render(
        version=__version__,
        study=analysis.study,
        analysis=analysis,
        values_at="report.csv" if csv is None else f"data:text/csv;base64,{base64.b64encode(csv).decode()}",
        alone=csv is not None,
        found=said,
        overview=overview(analysis),
        worth=worth(analysis),
        next=next_step(analysis, source),
        first=first,
        decided=decided,
        undecided=[each for each in analysis.verdicts if each.status == "unknown"],
        expected_line=expected_line(analysis.verdicts),
        when=tables.measured_when(analysis),
        good=good,
        took=seconds(sum(run.outcome.seconds for run in analysis.every)),
        words=_WORDS,
        curves=rest.of("curves"),
        forests=rest.of("machines"),
        machines=machine_rows(analysis),
        ratios=ratio_rows(analysis),
        ratio_columns=RATIOS,
        predictions=prediction_tables(analysis.fits),
        bars=rest.of("bars"),
        clouds=rest.of("latency"),
        lines=rest.of("time"),
        left_out=drawn.left_out,
        drills=drill_section(analysis, rest.of("drills")),
        drill_columns=DRILL_COLUMNS,
        drill_words=DRILL_WORDS,
        most_ids=MOST_IDS,
        most_events=MOST_EVENTS,
        sheets=sheets(analysis),
        layers=layer_groups(analysis),
        layer_columns=COLUMNS,
        floors=floor_tables(analysis),
        limited=limited,
        unlisted=unlisted,
        limited_words=LIMITED,
        near=f"{NEAR:g}",
        busy=percent(BUSY / 100),
        carried=carried_rows(analysis),
        carried_marks=CARRIED_MARKS,
        stops=stops(analysis),
        stops_line=stops_line(analysis),
        order=order_text(analysis),
        own=" ".join(filter(None, (own_text(analysis), vague_text(analysis)))),
        layouts=layouts(analysis),
        colours=colours(tuple(analysis.stacks), analysis.grid.baselines),
        knobs=() if analysis.imported else tables.knob_tables(analysis),
        files=file_rows(analysis),
        span=span,
        explained=explained,
        unexplained=unexplained,
        versions=tables.versions(analysis),
        warnings=tables.warnings(analysis),
        on_dark=ON_DARK,
        **dress(made),
    )


def _first(drawn: Charts) -> Chart | None:
    """The chart that shows the answer: what safety costs, what a factor does, or else the shares."""
    cost = [chart for chart in drawn.of("drills") if chart.name == COST]
    return next(iter((*cost, *drawn.of("curves"), *drawn.of("bars"))), None)


def dress(made: Environment) -> dict[str, Any]:
    """What every page needs to look and draw as it does."""
    return {
        "themes": {
            "light": config(dark=False),
            "dark": config(dark=True),
            "onDark": {**ON_DARK, PAPER: PAPER_ON_DARK},
        },
        "style": _asset(made, "style.css"),
        "script": _asset(made, "page.js"),
        "vega": bundle(),
    }


def _asset(made: Environment, name: str) -> str:
    """A file that stands beside the templates."""
    assert made.loader is not None
    return made.loader.get_source(made, name)[0]


def _all_seen(value: Any) -> Any:
    """The same of what a script puts into the page."""
    if isinstance(value, Mapping):
        return {_seen(name): _all_seen(each) for name, each in value.items()}
    return [_all_seen(each) for each in value] if isinstance(value, list | tuple) else _seen(value)


def script_json(value: Any) -> str:
    """JSON inside a script element, safe as it is: no text in it can end the element or open a comment."""
    text = json.dumps(_all_seen(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text

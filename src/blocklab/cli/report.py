"""``blocklab report``: the page of a study's runs, laid out as one likes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import blocklab.report as pages
from blocklab.cli.flags import AllTables, AsJson, Runs
from blocklab.cli.pages import page_file
from blocklab.errors import StoreError, StudyError
from blocklab.model import outside
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.predict.cells import analysed
from blocklab.stats.compare import asked_in_vain
from blocklab.stats.findings import findings
from blocklab.stats.source import studies
from blocklab.store.floor import keep_floor
from blocklab.store.folder import StudyFolder, newest
from blocklab.study.factors import assignments
from blocklab.study.read import read
from blocklab.study.types import Study, View
from blocklab.study.views import fio_axes, view_problems


def report(
    what: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STUDY_OR_RUNS]",
            help="A study's folder, its file, its name, or a folder of runs; the newest in --runs without it.",
        ),
    ] = None,
    runs: Runs = Path("runs"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write only the page, to this file, with its CSV in it.")
    ] = None,
    x: Annotated[str, typer.Option("--x", help="Put this factor on the x axis.")] = "",
    y: Annotated[str, typer.Option("--y", help="Show this metric, e.g. latency.p99, bandwidth, cpu.busy.")] = "",
    color: Annotated[str, typer.Option("--color", help="Give each level of this factor a colour.")] = "",
    facet: Annotated[str, typer.Option("--facet", help="Give each level of this factor a panel.")] = "",
    every: AllTables = False,
    as_json: AsJson = False,
) -> None:
    """Write the report of a study's runs again: report.html, report.csv and report.json in its folder.

    --x, --color and --facet take a factor's name, or stack, or workload, or what the jobs of a fio workload differ
    in: iodepth, bs, reads, access, numjobs, or another option of its matrix. --y takes a metric's name or its last
    parts; without it, the metric that the study names, or else throughput. With any of them, or with --all, all
    tables are printed.
    """
    output = page_file(output, "report.html")
    there = found_study(what, runs)
    view = wanted_view(there.manifest().study, View(x, y, color, facet))
    # A floor that was measured after the run, of the same machine and image, holds too.
    for environment in there.environments():
        if said := keep_floor(there.path, environment, again=False):
            echo(f"note: {said}", err=True)
    analysis = analysed(there)
    if y and (said := asked_in_vain(pages.laid_out(analysis, view))):
        raise StudyError("report", f"--{said}")
    if output is not None:
        echo(f"report: {pages.render(there, output, view, analysis)}", err=as_json)
        if as_json:
            shown = pages.laid_out(analysis, view)
            echo_json(pages.as_json(shown, findings(shown)))
        return
    page = pages.render(there, None, view, analysis)
    if as_json:
        echo_json(outside.text(there.path / "report.json", outside.MOST_DATA))
        return
    asked = every or any((x, y, color, facet))
    Console().print(pages.terminal_table(there, pages.laid_out(analysis, view), every=asked))
    echo(f"report: {page}")


def wanted_view(study: Study, view: View) -> View:
    """The layout that the options ask for. Raises ``StudyError`` for what the study has no axis for."""
    several = {name for name, factor in study.factors.items() if len(assignments(factor)) > 1}
    jobs = fio_axes(study)
    for option, name in zip(("x", "color", "facet"), view.axes, strict=True):
        if name in study.factors and name not in (*several, *jobs):
            others = ", ".join([*(each for each in study.factors if each in several), "stack", "workload", *jobs])
            problem = f"--{option} {name}: has one level only in these runs"
            raise StudyError(f"factors.{name}", problem, hint=f"there are {others}")
    both = pages.both_views(study.report, view)
    for field, problem in view_problems(study, both):
        raise StudyError("report", f"--{field} {getattr(both, field)}: {problem}")
    return view


def only(runs: Path) -> Path:
    """The one study's folder in a folder of studies. Raises ``StoreError``."""
    found = studies(runs)
    if len(found) > 1:
        names = ", ".join(str(path) for path in found)
        raise StoreError(f"{runs} holds {len(found)} studies", hint=f"name one of them: {names}")
    return found[0]


def found_study(what: Path | None, runs: Path) -> StudyFolder:
    """The folder of runs that is meant. Raises ``StoreError``, or ``StudyError`` for a bad file."""
    if what is None:
        return StudyFolder(newest(runs))
    if (what / "study.json").is_file():
        return StudyFolder(what)
    if (what / "cell.json").is_file():
        home = what.resolve().parent.parent
        hint = f"blocklab report {home}" if (home / "study.json").is_file() else "copy the study's whole folder"
        raise StoreError(f"{what} is a single run; a report is of a study", hint=hint)
    if what.is_dir():
        return StudyFolder(only(what))
    name = read(what).name if what.is_file() else what.name
    named = [runs / name, runs / f"{name}-quick"] if what.is_file() or what.parent == Path() else []
    there = [path / "study.json" for path in named if (path / "study.json").is_file()]
    if not there:
        raise StoreError(f"there is no study's folder {what}, and no runs of {name} in {runs}",
                         hint="blocklab run it first, or say --runs DIR")  # fmt: skip
    return StudyFolder(max(there, key=lambda path: path.stat().st_mtime).parent)

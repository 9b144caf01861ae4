"""The command ``import``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import msgspec
import typer
from rich.table import Table

from blocklab import report
from blocklab.cli.flags import AllTables, AsJson, FirstReport, Runs
from blocklab.errors import StudyError, Unreadable
from blocklab.formats.clock import ORDERS
from blocklab.formats.text import Refused
from blocklab.imports import KINDS, Imported, Options, job_file, minimal, read, take
from blocklab.imports.disk import COMMAND, disk, yaml
from blocklab.imports.study import name_of
from blocklab.model import outside
from blocklab.model.terminal import Console, Text, echo, echo_json
from blocklab.report.imported import span
from blocklab.store.folder import StudyFolder
from blocklab.store.imported import ImportedFile, warnings
from blocklab.study.read import of_file
from blocklab.workloads.fio_jobs import Section


def import_(
    file: Annotated[
        Path | None, typer.Argument(help="fio's JSON+ of a disk at queue depth 1: print a profile of it instead.")
    ] = None,
    stack: Annotated[
        list[str] | None,
        typer.Option("--stack", help="NAME=PLACE: a folder of logs, a file, or a pattern in quotes; repeatable."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The profile's name; that of FILE without.")] = "",
    study: Annotated[
        Path | None, typer.Option("--study", help="A file that describes what was measured (imported: 1).")
    ] = None,
    jobs: Annotated[
        Path | None, typer.Option("--jobs", help="A fio job file whose jobs name the phases of a time line.")
    ] = None,
    as_kind: Annotated[
        list[str] | None, typer.Option("--as", help="KIND=FILE: force FILE to be read as KIND; repeatable.")
    ] = None,
    zone: Annotated[str, typer.Option("--zone", help="The zone of times without one, like Asia/Tokyo.")] = "UTC",
    dates: Annotated[
        str, typer.Option("--dates", help="The order in dates that may mean several: ymd, mdy or dmy.")
    ] = "",
    first_report: Annotated[
        FirstReport,
        typer.Option(
            "--first-report",
            help="What the first report of iostat and vmstat covers: an interval (-y), or the boot.",
        ),
    ] = FirstReport.AUTO,
    yes: Annotated[
        bool, typer.Option("--yes", help="Join a file to the one workload that is about as long, without asking.")
    ] = False,
    runs: Runs = Path("runs"),
    every: AllTables = False,
    as_json: AsJson = False,
) -> None:
    """Import existing logs as runs (fio, pgbench, go-tpc, sysbench, HammerDB, JdbcRunner, iostat, sar, vmstat,
    dstat), or print a volume profile made of fio's JSON+."""
    if (file is None) == (not stack) or (file is None and name) or (file and (study or jobs or as_kind or dates)):
        hint = (
            "blocklab import FILE [--name NAME] makes a profile; blocklab import --stack NAME=PLACE ... makes runs"
        )
        raise StudyError("", "give either FILE or --stack, and the options of one of the two only", hint=hint)
    if file is not None:
        _profile(file, name, as_json)
        return
    stacks = _stacks(stack or ())
    described = read(study, stacks) if study is not None else minimal(list(stacks))
    if dates and dates not in ORDERS:
        raise StudyError("", f"--dates {dates}: not one of {', '.join(ORDERS)}")
    options = Options(
        asked=_asked(as_kind or ()), jobs=tuple(_jobs(jobs)), zone=zone_of(zone), order=dates,
        first_report=first_report.known,
        agree=lambda question: yes or (sys.stdin.isatty() and typer.confirm(question, err=True)),
    )  # fmt: skip
    done = take(described, study, stacks, runs, options)
    folder = StudyFolder(done.folder)
    page = report.render(folder)
    if as_json:
        echo_json(msgspec.json.format(msgspec.json.encode(_result(done, page)), indent=1))
        return
    console = Console()
    for title, files in done.files.items():
        console.print(_table(title, files))
        for warning in warnings(each for each in files if each.kind):
            console.print(Text(f"  {warning}", style="yellow"), soft_wrap=True)
    for said in done.said:
        console.print(Text(said), soft_wrap=True)
    console.print(report.terminal_table(folder, every=every))
    echo(f"report: {page}")


def _profile(file: Path, name: str, as_json: bool) -> None:
    name = name_of(name or file.stem)
    try:
        found = disk(file)
    except Refused as why:
        raise StudyError("", f"{file}: {why}", hint=f"measure a disk by: {COMMAND}") from why
    if as_json:
        result = {"name": name, "profile": found.entry(), "directions": found.ways, "said": found.said}
        echo_json(msgspec.json.format(msgspec.json.encode(result), indent=1))
        return
    echo(yaml(name, found))


def _result(done: Imported, page: Path) -> dict[str, object]:
    return {
        "study": done.study.name, "folder": str(done.folder), "report": str(page), "files": done.files,
        "workloads": done.workloads, "said": done.said,
    }  # fmt: skip


def _stacks(given: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in given:
        name, equals, place = each.partition("=")
        if not equals or not name or not place:
            raise StudyError("", f"--stack {each}: not NAME=PLACE", hint="--stack local=logs/local")
        found.setdefault(name, []).append(place)
    return found


def _asked(given: Sequence[str]) -> dict[Path, str]:
    found = {}
    for each in given:
        kind, _, place = each.partition("=")
        if kind not in KINDS:
            raise StudyError("", f"--as {each}: no kind {kind!r}", hint=f"there are {', '.join(KINDS)}")
        found[Path(place).resolve()] = kind
    return found


def _jobs(path: Path | None) -> list[Section]:
    if path is None:
        return []
    try:
        return job_file(str(path), outside.text(path))
    except Unreadable as error:
        raise of_file(path, error, "--jobs") from error


def zone_of(name: str) -> tzinfo:
    """The time zone of an option ``--zone``. Raises ``StudyError``."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = "names are like Asia/Tokyo" if available_timezones() else "this machine has none: install tzdata"
        raise StudyError("", f"--zone {name}: no such time zone", hint=hint) from error


def _table(stack: str, files: Sequence[ImportedFile]) -> Table:
    table = Table(f"{stack}: file", "taken for", "rows", "time (UTC)", "host", box=None, pad_edge=False)
    for each in files:
        rows = f"{each.rows:,}" + (f" ({each.bad:,} left out)" if each.bad else "")
        if not each.kind:
            table.add_row(Text(each.name), Text(each.remarks[0], style="yellow"), "", "", "")
            continue
        table.add_row(Text(each.name), each.kind, rows, span(each.start, each.end), Text(each.host or "–"))
    return table

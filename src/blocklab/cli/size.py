"""``blocklab size``: from a database's own statistics to the storage that carries it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from blocklab.cli.imports import FirstReport, zone_of
from blocklab.cli.pages import page_file
from blocklab.errors import StoreError, StudyError
from blocklab.formats.clock import ORDERS
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.model.units import Duration, Share, Size
from blocklab.sizing.choice import Candidate, Misfit, Options
from blocklab.sizing.gather import Asked, gather
from blocklab.sizing.kinds import READERS
from blocklab.sizing.need import Need, busy_hours, need
from blocklab.sizing.need import Options as NeedOptions
from blocklab.sizing.reading import Reading
from blocklab.study.shipped import study_file

Quantity = TypeVar("Quantity", Duration, Share, Size)


class Database(StrEnum):
    """Which database the layouts of a written study hold."""

    AUTO = "auto"
    NONE = "none"
    POSTGRES = "postgres"
    MARIADB = "mariadb"
    MYSQL = "mysql"


def size(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]FILE...", help="Statistics files or folders; NAME= sets the system's name."
        ),
    ],
    busy: Annotated[str, typer.Option("--busy", help="Count these hours only: 8-18, or 'mon-fri 8-18'.")] = "",
    percentile: Annotated[
        float,
        typer.Option(
            "--percentile", help="Carry this percentile of the time within the busy hours.", min=50, max=100
        ),
    ] = 99.0,
    headroom: Annotated[str, typer.Option("--headroom", help="Add this to every rate, e.g. 30%.")] = "0%",
    peak_factor: Annotated[
        float | None,
        typer.Option(
            "--peak-factor",
            help="Multiply averages over more than an hour by this factor (peak / average).",
            min=1,
        ),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="Leave out this part of the I/O, e.g. backup.")
    ] = None,
    device: Annotated[
        list[str] | None, typer.Option("--device", help="Count only this block device; repeatable.")
    ] = None,
    every: Annotated[str, typer.Option("--every", help="Time between dumps that contain no time, e.g. 60s.")] = "",
    as_kind: Annotated[
        list[str] | None, typer.Option("--as", help="KIND=FILE: force FILE to be read as KIND.")
    ] = None,
    zone: Annotated[
        str, typer.Option("--zone", help="The time zone of times without a zone, and of --busy.")
    ] = "UTC",
    dates: Annotated[str, typer.Option("--dates", help="The order of ambiguous dates: ymd, mdy or dmy.")] = "",
    first_report: Annotated[
        FirstReport,
        typer.Option(
            "--first-report", help="What the first report of iostat covers: an interval (-y), or the boot."
        ),
    ] = FirstReport.AUTO,
    show_candidates: Annotated[
        bool, typer.Option("--candidates", help="Find the smallest volumes and instances that carry it.")
    ] = False,
    cloud: Annotated[
        list[str] | None, typer.Option("--cloud", help="Only this cloud: aws, azure, gcp; repeatable.")
    ] = None,
    capacity: Annotated[str, typer.Option("--capacity", help="The data's size, e.g. 2TiB.")] = "",
    instance: Annotated[str, typer.Option("--instance", help="Only this instance, by its catalogue name.")] = "",
    catalogue: Annotated[
        Path | None, typer.Option("--catalogue", help="A YAML file of your own volumes, instances and prices.")
    ] = None,
    bursts: Annotated[bool, typer.Option("--bursts", help="Count burst credits too.")] = False,
    study: Annotated[
        Path | None, typer.Option("--study", help="Write a study that measures which layouts carry the need.")
    ] = None,
    layouts: Annotated[
        Path | None, typer.Option("--layouts", help="Take the study's layouts from this study, not the catalogue.")
    ] = None,
    database: Annotated[
        Database, typer.Option("--database", help="What the study's candidates hold; drills need one.")
    ] = Database.AUTO,
    scale: Annotated[
        str, typer.Option("--scale", help="Write the study at this part of the need and of the caps, e.g. 10%.")
    ] = "100%",
    seconds: Annotated[
        int, typer.Option("--seconds", help="How long each level of the workload lasts.", min=1)
    ] = 20,
    working_set: Annotated[
        str, typer.Option("--working-set", help="Let the study's requests go over this much of the storage.")
    ] = "256MiB",
    io_only: Annotated[
        bool, typer.Option("--io-only", help="Write no database workload into the study: a third of the time.")
    ] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write a page (HTML) as well.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compute the I/O that storage must carry from a database's own statistics, find what carries it, and write a
    study that proves it.

    Reads Oracle AWR and Statspack, SHOW ENGINE INNODB STATUS and SHOW GLOBAL STATUS, PostgreSQL's pg_stat views,
    iostat, sar, /proc/diskstats and CloudWatch, each recognised by its content.
    """
    output = page_file(output, "need.html")
    place = zone_of(zone)
    asked = _asked(files, as_kind or (), Reading(zone=place, order=_order(dates), first_report=first_report.known))
    asked = msgspec.structs.replace(
        asked, every=float(_quantity("--every", every, Duration)) if every else None, devices=tuple(device or ()),
        left_out=tuple(without or ()),
    )  # fmt: skip
    found_options = NeedOptions(
        busy=busy_hours(busy) if busy else None, zone=place, percentile=percentile,
        headroom=float(_quantity("--headroom", headroom, Share)), peak_factor=peak_factor, left_out=asked.left_out,
    )  # fmt: skip
    part = float(_quantity("--scale", scale, Share))
    if not 0 < part <= 1:
        raise StudyError("", f"--scale {scale}: must be above 0%, and at most 100%")
    gathered = gather(list(asked.names), msgspec.structs.replace(asked, names=_named(asked)))
    found = need(gathered.systems, found_options)
    # The charts' library takes a second to import: not for what was refused, nor for other commands.
    from blocklab.sizing import choices, show

    chosen: list[Candidate | Misfit] = []
    if show_candidates or (study is not None and layouts is None):
        chosen = choices.choose(
            found, capacity=_quantity("--capacity", capacity, Size) if capacity else None,
            clouds=tuple(cloud or ()), own=catalogue, options=Options(instance=instance, bursts=bursts),
        )  # fmt: skip
    if output is not None:
        from blocklab.sizing.page import write_page

        write_page(output, found, gathered, place, choices.for_page(chosen) if chosen else None)
    if study is not None:
        over = _quantity("--working-set", working_set, Size)
        write_study(study, found, chosen, layouts, database, part, seconds, working_set=over, io_only=io_only)
    if as_json:
        more = {"candidates": msgspec.to_builtins(chosen, enc_hook=str)} if chosen else None
        echo_json(show.as_json(found, gathered, more))
        return
    console = Console()
    console.print(show.terminal(found, gathered, place))
    if chosen:
        console.print(choices.terminal(chosen))
    for what, path in (("page", output), ("study", study)):
        if path is not None:
            echo(f"{what}: {path}")


def write_study(
    path: Path, found: Need, chosen: Sequence[Candidate | Misfit], layouts: Path | None, database: Database,
    scale: float, seconds: int, *, working_set: Size, io_only: bool,
) -> None:  # fmt: skip
    """Write the study file; an existing one is never overwritten. Raises ``StudyError``, ``StoreError``."""
    from blocklab.sizing import layouts as kinds
    from blocklab.sizing.study import study_name, study_text

    if layouts is not None:
        where = kinds.of_study(study_file(layouts))
    else:
        product = next((each.product for each in found.members if each.product), "")
        auto = kinds.DATABASES.get(product, "")
        where = kinds.of_candidates(chosen, {"auto": auto, "none": ""}.get(database.value, database.value))
    text = study_text(
        found, kinds.scaled(where, scale), study_name(str(path)), seconds=seconds, scale=scale,
        transactions=not io_only, working_set=working_set,
    )  # fmt: skip
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise StudyError("", f"--study {path}: the file exists", hint="name another one, or remove it") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def _named(asked: Asked) -> dict[Path, str]:
    return {path: name for path, name in asked.names.items() if name}


def _order(dates: str) -> str:
    if dates and dates not in ORDERS:
        raise StudyError("", f"--dates {dates}: not one of {', '.join(ORDERS)}")
    return dates


def _asked(files: Sequence[str], kinds: Sequence[str], reading: Reading) -> Asked:
    """The files, each with the name of its system or none. Raises ``StudyError``."""
    paths = dict(_paths(files))
    by_place = {path.resolve(): path for path in paths}
    forced = {}
    for each in kinds:
        kind, _, place = each.partition("=")
        if kind not in READERS.kinds:
            raise StudyError("", f"--as {each}: no kind {kind!r}", hint=f"there are {', '.join(READERS.kinds)}")
        if (path := by_place.get(Path(place).resolve())) is None:
            raise StudyError("", f"--as {each}: that file was not given", hint="blocklab size FILE --as KIND=FILE")
        forced[path] = kind
    return Asked(names=paths, kinds=forced, reading=reading)


def _paths(given: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Each file with the name of its system, if one was given. Raises ``StudyError``."""
    seen: set[Path] = set()
    for each in given:
        name, equals, place = each.partition("=")
        path = Path(each)
        if equals and not path.exists():
            path = Path(place)
        else:
            name = ""
        if not path.exists():
            raise StudyError("", f"{path}: no such file", hint="blocklab size [NAME=]FILE...")
        found = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        if not found:
            raise StudyError("", f"{path}: the folder holds no file")
        for one in found:
            if one.resolve() not in seen:
                seen.add(one.resolve())
                yield one, name


def _quantity(option: str, text: str, kind: type[Quantity]) -> Quantity:
    try:
        return kind(text)
    except ValueError as error:
        raise StudyError("", f"{option} {text}: {error}") from error

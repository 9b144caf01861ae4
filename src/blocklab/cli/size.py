"""``blocklab size``: from a database's own statistics to the storage that carries it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import TypeVar

import msgspec

from blocklab.cli.flags import (
    AsJson,
    AsKind,
    Bursts,
    Busy,
    Capacity,
    Catalogue,
    Cloud,
    Database,
    Dates,
    Device,
    Every,
    FirstOf,
    FirstReport,
    Headroom,
    Holding,
    Instance,
    IoOnly,
    Layouts,
    Page,
    PeakFactor,
    Percentile,
    Scale,
    Seconds,
    ShowCandidates,
    StatisticsFiles,
    Without,
    WorkingSet,
    WrittenStudy,
    Zone,
)
from blocklab.cli.imports import zone_of
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
from blocklab.sizing.system import Gathered
from blocklab.study.shipped import study_file

Quantity = TypeVar("Quantity", Duration, Share, Size)


def size(
    files: StatisticsFiles,
    busy: Busy = "",
    percentile: Percentile = 99.0,
    headroom: Headroom = "0%",
    peak_factor: PeakFactor = None,
    without: Without = None,
    device: Device = None,
    every: Every = "",
    as_kind: AsKind = None,
    zone: Zone = "UTC",
    dates: Dates = "",
    first_report: FirstOf = FirstReport.AUTO,
    show_candidates: ShowCandidates = False,
    cloud: Cloud = None,
    capacity: Capacity = "",
    instance: Instance = "",
    catalogue: Catalogue = None,
    bursts: Bursts = False,
    study: WrittenStudy = None,
    layouts: Layouts = None,
    database: Holding = Database.AUTO,
    scale: Scale = "100%",
    seconds: Seconds = 20,
    working_set: WorkingSet = "256MiB",
    io_only: IoOnly = False,
    output: Page = None,
    as_json: AsJson = False,
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
    chosen: list[Candidate | Misfit] = []
    if show_candidates or (study is not None and layouts is None):
        # The charts' library takes a second to import: not for what was refused, nor for other commands.
        from blocklab.sizing import choices

        chosen = choices.choose(
            found, capacity=_quantity("--capacity", capacity, Size) if capacity else None,
            clouds=tuple(cloud or ()), own=catalogue, options=Options(instance=instance, bursts=bursts),
        )  # fmt: skip
    if study is not None:
        over = _quantity("--working-set", working_set, Size)
        write_study(study, found, chosen, layouts, database, part, seconds, working_set=over, io_only=io_only)
    _show(found, gathered, chosen, place, output, study, as_json=as_json)


def _show(
    found: Need, gathered: Gathered, chosen: Sequence[Candidate | Misfit], place: tzinfo, output: Path | None,
    study: Path | None, *, as_json: bool,
) -> None:  # fmt: skip
    """Write the page, and print what was found."""
    from blocklab.sizing import choices, show

    if output is not None:
        from blocklab.sizing.page import write_page

        write_page(output, found, gathered, place, choices.for_page(chosen) if chosen else None)
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

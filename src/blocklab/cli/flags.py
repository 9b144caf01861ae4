"""The options that several commands have, and those of ``size``: their names, types and help texts."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from blocklab.cli.completion import stack_names, study_names
from blocklab.sites import SITES


class MixedMachines(StrEnum):
    """What is done with a machine whose version, image or floor is not that of the others."""

    REFUSE = "refuse"
    APART = "apart"
    POOL = "pool"


class Order(StrEnum):
    """How the cells that share a layout follow each other."""

    SHUFFLED = "shuffled"
    AS_WRITTEN = "as-written"


StudyFile = Annotated[
    Path,
    typer.Argument(
        help="A study file (YAML), or the name of a shipped study.",
        show_default=False,
        autocompletion=study_names,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Run the study's `quick` variant.")]
Stacks = Annotated[
    list[str] | None,
    typer.Option("--stack", help="Use only this stack; repeatable.", autocompletion=stack_names),
]
Repeats = Annotated[
    int | None,
    typer.Option("--repeats", help="Build and measure each layout N times, whatever the study says.", min=1),
]
Runs = Annotated[Path, typer.Option("--runs", help="Keep runs in this folder.")]
At = Annotated[
    list[str] | None,
    typer.Option("--at", help="Use only this level of a factor, FACTOR=LEVEL; repeatable."),
]
Volumes = Annotated[Path | None, typer.Option("--volumes", help="Keep the volumes in this folder, not in memory.")]


class Clock(StrEnum):
    """Which time hosts live in."""

    REAL = "real"
    VIRTUAL = "virtual"


InTime = Annotated[
    Clock,
    typer.Option("--clock", help="virtual (experimental): in virtual time, the same values on every machine."),
]
InParallel = Annotated[
    int | None,
    typer.Option(
        "--parallel", min=1,
        help="In virtual time: measure in N labs at once at most; default: as many as CPUs and memory allow.",
    ),
]  # fmt: skip
SiteName = Annotated[str, typer.Option("--site", help=f"Take hosts from this site: {', '.join(SITES)}.")]
HostsFile = Annotated[
    Path | None, typer.Option("--hosts", help="Use the hosts of this file, over SSH, instead of nodes here.")
]
AllTables = Annotated[bool, typer.Option("--all", help="Print all tables, and the expectations one by one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Plain = Annotated[bool, typer.Option("--plain", help="Print one line per event, even on a terminal.")]
Events = Annotated[
    str, typer.Option("--events", metavar="FILE", help="Append each event to FILE as a line of JSON; - prints it.")
]
Predict = Annotated[
    int | None,
    typer.Option("--predict", metavar="[N]", help="Measure N cells, or a fifth, and predict the rest.", min=0),
]
Dask = Annotated[
    str,
    typer.Option(
        "--dask", metavar="ADDRESS|FILE",
        help="Spread it over the workers of a Dask scheduler, or over the hosts of a hosts file.",
    ),
]  # fmt: skip
Mixed = Annotated[
    MixedMachines, typer.Option("--mixed", help="With --dask: what to do with machines that do not fit together.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="With --dask: allow a scheduler without TLS.")]
Page = Annotated[Path | None, typer.Option("-o", "--output", help="Write a page (HTML) as well.")]

# -- what `size` has alone ---------------------------------------------------------------------------------------


class FirstReport(StrEnum):
    """What the first report of iostat or vmstat covers: what the file shows, an interval, or the time since the
    boot."""

    AUTO = "auto"
    INTERVAL = "interval"
    BOOT = "boot"

    @property
    def known(self) -> str:
        """Empty where the user does not say."""
        return "" if self is FirstReport.AUTO else self.value


class Database(StrEnum):
    """Which database the layouts of a written study hold."""

    AUTO = "auto"
    NONE = "none"
    POSTGRES = "postgres"
    MARIADB = "mariadb"
    MYSQL = "mysql"


StatisticsFiles = Annotated[
    list[str],
    typer.Argument(metavar="[NAME=]FILE...", help="Statistics files or folders; NAME= sets the system's name."),
]
Busy = Annotated[str, typer.Option("--busy", help="Count these hours only: 8-18, or 'mon-fri 8-18'.")]
Percentile = Annotated[
    float,
    typer.Option("--percentile", help="Carry this percentile of the time within the busy hours.", min=50, max=100),
]
Headroom = Annotated[str, typer.Option("--headroom", help="Add this to every rate, e.g. 30%.")]
PeakFactor = Annotated[
    float | None,
    typer.Option(
        "--peak-factor",
        help="Multiply averages over more than an hour by this factor (peak / average).",
        min=1,
    ),
]
Without = Annotated[
    list[str] | None, typer.Option("--without", help="Leave out this part of the I/O, e.g. backup.")
]
Device = Annotated[list[str] | None, typer.Option("--device", help="Count only this block device; repeatable.")]
Every = Annotated[str, typer.Option("--every", help="Time between dumps that contain no time, e.g. 60s.")]
AsKind = Annotated[list[str] | None, typer.Option("--as", help="KIND=FILE: force FILE to be read as KIND.")]
Zone = Annotated[str, typer.Option("--zone", help="The time zone of times without a zone, and of --busy.")]
Dates = Annotated[str, typer.Option("--dates", help="The order of ambiguous dates: ymd, mdy or dmy.")]
FirstOf = Annotated[
    FirstReport,
    typer.Option("--first-report", help="What the first report of iostat covers: an interval (-y), or the boot."),
]
ShowCandidates = Annotated[
    bool, typer.Option("--candidates", help="Find the smallest volumes and instances that carry it.")
]
Cloud = Annotated[list[str] | None, typer.Option("--cloud", help="Only this cloud: aws, azure, gcp; repeatable.")]
Capacity = Annotated[str, typer.Option("--capacity", help="The data's size, e.g. 2TiB.")]
Instance = Annotated[str, typer.Option("--instance", help="Only this instance, by its catalogue name.")]
Catalogue = Annotated[
    Path | None, typer.Option("--catalogue", help="A YAML file of your own volumes, instances and prices.")
]
Bursts = Annotated[bool, typer.Option("--bursts", help="Count burst credits too.")]
WrittenStudy = Annotated[
    Path | None, typer.Option("--study", help="Write a study that measures which layouts carry the need.")
]
Layouts = Annotated[
    Path | None, typer.Option("--layouts", help="Take the study's layouts from this study, not the catalogue.")
]
Holding = Annotated[
    Database, typer.Option("--database", help="What the study's candidates hold; drills need one.")
]
Scale = Annotated[
    str, typer.Option("--scale", help="Write the study at this part of the need and of the caps, e.g. 10%.")
]
Seconds = Annotated[int, typer.Option("--seconds", help="How long each level of the workload lasts.", min=1)]
WorkingSet = Annotated[
    str, typer.Option("--working-set", help="Let the study's requests go over this much of the storage.")
]
IoOnly = Annotated[
    bool, typer.Option("--io-only", help="Write no database workload into the study: a third of the time.")
]

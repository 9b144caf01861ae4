"""``blocklab like``: a study for the lab whose volumes and links do what those of hosts do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

import typer
from ruamel.yaml import YAML

from blocklab.cli.flags import HostsFile, StudyFile
from blocklab.errors import StudyError
from blocklab.model.files import write_whole
from blocklab.model.terminal import Console, echo
from blocklab.runner.like import Disk, Likeness, measured
from blocklab.sites import open_site
from blocklab.study.read import load_yaml, read
from blocklab.study.shipped import study_file

# A disk that does more has no cap that the lab could hold it to.
MOST_IOPS = 100_000
# Fields of a volume that the measured ones replace.
REPLACED = (
    "profile", "provisioned", "iops", "bandwidth", "burst_iops", "burst_seconds", "read_quantiles",
    "write_quantiles", "read_latency_per_mib", "write_latency_per_mib", "io_most", "slow", "degrade",
)  # fmt: skip


def like(
    study: StudyFile,
    hosts: HostsFile = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the study to this file.")] = None,
) -> None:
    """Measure hosts, and print the study with volumes and links like theirs: to rehearse at home.

    Takes half a minute for each stack, and overwrites its claimed disks.
    """
    if hosts is None:
        raise StudyError("", "like which hosts?", hint="--hosts FILE")
    progress = Console(stderr=True)
    file = study_file(study)
    found = measured(open_site(hosts=hosts), read(file), lambda text: progress.print(text))
    text = rewritten(load_yaml(file), found)
    if out is None:
        echo(text, nl=False)
    else:
        write_whole(out, text.encode())
        echo(f"{out} has volumes and links like those of {hosts}: blocklab run {out}")


def rewritten(document: Any, found: Likeness) -> str:
    """A study's text with these latencies, caps and round trips."""
    for name, seconds in found.links.items():
        document["links"][name]["rtt"] = _time(seconds)
    for stack, disk in found.disks.items():
        volume = document["stacks"][stack]["layers"][0]
        for field in REPLACED:
            volume.pop(field, None)
        volume.update(_fields(disk))
    document["name"] = f"{document['name']}-like"
    yaml, text = YAML(), io.StringIO()
    yaml.width = 110
    yaml.dump(document, text)
    return text.getvalue()


def _fields(disk: Disk) -> dict[str, Any]:
    found: dict[str, Any] = {"read_latency": _time(disk.read_latency), "write_latency": _time(disk.write_latency)}
    for way in ("read", "write"):
        if (iops := getattr(disk, f"{way}_iops")) < MOST_IOPS:
            found[f"{way}_iops"] = round(iops)
        found[f"{way}_bandwidth"] = f"{getattr(disk, f'{way}_bandwidth') / 1e6:.0f}MB/s"
    return found


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f}us"

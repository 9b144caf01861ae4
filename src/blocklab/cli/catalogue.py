"""Commands about studies to start from: ``studies`` lists the shipped ones, ``new`` writes one to fill in."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from blocklab.campaign.remaining import Remaining
from blocklab.cli.flags import AsJson
from blocklab.errors import StoreError, StudyError
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.runner.estimate import between, costs
from blocklab.study.grid import cells
from blocklab.study.read import build, load_yaml, unchecked
from blocklab.study.room import memory
from blocklab.study.shipped import shipped
from blocklab.study.types import Name


def studies(as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False) -> None:
    """List the studies that come with blocklab: question, cells, about how long they take, and the memory.

    Each runs by its name: `blocklab run drbd-az --quick`.
    """
    rows = []
    for name, path in shipped().items():
        row: dict[str, object] = {"name": name, "file": str(path)}
        raw = load_yaml(path)
        for form in ("full", "quick"):
            # What comes with blocklab was checked before.
            study = unchecked(raw, folder=path.parent, quick=form == "quick")
            grid = cells(study)
            guess, most = Remaining(costs(study, grid)).left(), memory(study, grid)
            row |= {"question": study.question}
            row[form] = {"cells": len(grid), "seconds": [round(guess.least), round(guess.most)], "memory": most}
            row[f"{form} text"] = f"{len(grid)} cells, {between(guess.least, guess.most)}"
            row["memory text"] = f"{most / 2**30:.1f} GiB" if form == "full" else row["memory text"]
        rows.append(row)
    if as_json:
        echo_json(json.dumps([{k: v for k, v in row.items() if not k.endswith("text")} for row in rows], indent=1))
        return
    table = Table("study", "question", "full", "--quick", "memory", box=None, pad_edge=False)
    for row in rows:
        columns = ("name", "question", "full text", "quick text", "memory text")
        table.add_row(*(str(row[column]) for column in columns))
    Console().print(table)


def new(
    name: Annotated[str, typer.Argument(help="The study's name: a-z, 0-9, - and _.")],
    file: Annotated[Path | None, typer.Option("--file", help="Where to write it; NAME.yaml without.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a commented study to start from. It runs as it is; an existing file is never overwritten."""
    path = file or Path(f"{name}.yaml")
    text = (resources.files("blocklab") / "data" / "new.yaml").read_text(encoding="utf-8").replace("NAME", name, 1)
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError as error:
        hint = "names start with a lower-case letter and hold only a-z, 0-9, - and _ (31 at most)"
        raise StudyError("name", f"{name!r} cannot be a study's name", hint=hint) from error
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError as error:
        raise StudyError("", "exists already", file=str(path), hint="take another name, or --file PATH") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
    build(load_yaml(path))
    if as_json:
        echo_json(json.dumps({"name": name, "file": str(path)}))
        return
    echo(f"{path}: blocklab check {path}; blocklab run {path}")

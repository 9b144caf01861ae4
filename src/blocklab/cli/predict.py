"""``blocklab predict``: what a layout would do where nobody measured it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from blocklab.cli.completion import stack_names
from blocklab.cli.flags import AsJson
from blocklab.errors import StudyError
from blocklab.model.terminal import Console, echo_json
from blocklab.model.units import Duration
from blocklab.predict.cells import analysed, answers
from blocklab.report.predictions import prediction_parts
from blocklab.store.folder import StudyFolder, newest
from blocklab.study.factors import assignments
from blocklab.study.types import Study

# What the model knows besides the study's own factors.
CLIENTS, RTT = "clients", "rtt"


def predict(
    runs: Annotated[
        Path, typer.Argument(metavar="RUNS", help="A study's folder, or a folder of runs.", show_default=False)
    ],
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at", help="Predict at this: clients=48, rtt=1.3ms, or FACTOR=LEVEL of another factor; repeatable."
        ),
    ] = None,
    stack: Annotated[
        list[str] | None,
        typer.Option("--stack", help="Predict only this stack; repeatable.", autocompletion=stack_names),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict a finished study's rates at other numbers of clients and other round trips.

    Prints each stack's rate with its 90 % interval, the model's parameters, and how far it was off in cells that
    were held out. Refuses what lies beyond twice the measured range.
    """
    folder = StudyFolder(runs if (runs / "study.json").is_file() else newest(runs))
    analysis = analysed(folder)
    study = analysis.study
    for name in stack or ():
        if name not in study.stacks:
            raise StudyError("stacks", f"there is no stack {name!r}", hint=f"there are {', '.join(study.stacks)}")
    clients, rtt, levels = _asked(study, at or ())
    fits = answers(analysis, stack or list(study.stacks), clients, rtt, levels)
    if as_json:
        echo_json(json.dumps(msgspec.to_builtins(fits), indent=1))
        return
    console = Console()
    for part in prediction_parts(fits):
        console.print(part)


def _asked(study: Study, given: Sequence[str]) -> tuple[float | None, float | None, dict[str, str]]:
    """The clients, the round trip (s) and the levels of other factors in ``--at``. Raises ``StudyError``."""
    clients: float | None = None
    rtt: float | None = None
    levels: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        try:
            if name == CLIENTS and equals:
                clients = float(value)
            elif name == RTT and equals:
                rtt = float(Duration(value))
            elif name in study.factors and value in assignments(study.factors[name]):
                levels[name] = value
            else:
                raise ValueError
        except ValueError as error:
            known = ", ".join(f"{each}=LEVEL" for each in study.factors if each != RTT)
            hint = f"clients=48, rtt=1.3ms{f', {known}' if known else ''}"
            raise StudyError("", f"--at {text}: not known here", hint=hint) from error
    if clients is not None and not clients > 0:
        raise StudyError("", f"--at clients={clients:g}: must be above 0")
    return clients, rtt, levels

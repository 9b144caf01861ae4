"""Drills on the fake site: a client and a monitor that a test gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blocklab.model import node_programs
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.runner.events import Done
from blocklab.sites.fake import FakeSite, Play
from blocklab.study.read import build
from blocklab.study.types import Study
from blocklab.workloads.ledger import HISTORY, PROGRAM
from tests.fake.answers import GOLDEN, Answers
from tests.fake.clients import COUNT, go
from tests.fake.runs import Silent


def count(acknowledged: int) -> tuple[bytes, bytes]:
    """A line of the client's."""
    row = {**COUNT, "time": 0.1 * acknowledged, "scheduled": acknowledged, "acknowledged": acknowledged}
    return json.dumps(row).encode() + b"\n", b""


def said(what: str, why: str = "") -> tuple[bytes, bytes]:
    """A line of the monitor's."""
    return json.dumps({"time": 1795312253.5, "what": what, "said": why}).encode() + b"\n", b""


QUIET = (b"", b"")


WRITES = Play(0, b"", b"", pieces=tuple(count(number) for number in range(1, 3000)))


MISSED = "3 pings in a row without an answer"


NOTICES = Play(0, b"", b"", pieces=(said("started"), said("answered"), QUIET, said("dead", MISSED)))


class Drilled(Answers):
    """Hosts with a client, and on the survivor a monitor, that a test gives; the history is of a real run."""

    def __init__(self, client: Play = WRITES, watch: Play = NOTICES) -> None:
        super().__init__()
        self.client, self.watch = client, watch

    def __call__(self, host: str, argv: Argv) -> Result:
        if argv[0] == PROGRAM and "--version" not in argv:
            return self.client
        if node_programs.path("monitor") in argv:
            return self.watch
        if argv == ("get", HISTORY):
            return Result(0, (GOLDEN / "ledger-killed" / "blocklab-ledger.tsv").read_bytes(), b"")
        return super().__call__(host, argv)


def study(small: dict[str, Any], stack: str, **faults: Any) -> Study:
    small["stacks"] = {stack: small["stacks"][stack]}
    small["links"] |= {"cross": {"between": ["a1", "b1"]}, "back": {"between": ["a2", "b1"]}}
    if stack == "local":
        small["links"].pop("zone", None)
    small["workloads"] = {"writes": {"workload": "ledger", "from": "b1", "after": "0s", "patience": "30s"}}
    small["faults"], small["baseline"], small["takeover"] = faults, stack, {"wait": "1s"}
    return build(small)


def drilled(study: Study, tmp_path: Path, answers: Answers) -> tuple[Silent, FakeSite, Done]:
    progress, site, _ = go(study, tmp_path, answers)
    return progress, site, progress.outcomes[f"{next(iter(study.stacks))}/writes"]


KILL = {"fault": "crash", "at": "0s"}


FULL = {"fault": "volume-full", "at": "0s"}

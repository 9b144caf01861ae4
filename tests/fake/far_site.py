"""The fake site of a process that a test has started: ``$FAKE_SECONDS`` is what a
load takes, ``$FAKE_LOG`` a file that gets the machine and a line for each load that is begun; those of the stack
``$FAKE_FAILING`` fail."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blocklab.errors import HostError
from blocklab.model.host import Result
from blocklab.model.plan import Argv
from blocklab.runner import measure as measuring
from blocklab.runner import run as running
from blocklab.sites.fake import FakeSite
from tests.fake.answers import Answers


class Busy(Answers):
    """Whose loads take a while."""

    def __call__(self, host: str, argv: Argv) -> Result:
        if "--output-format=json+" in argv:
            time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
        return super().__call__(host, argv)


class Imaged(FakeSite):
    """With an image where the test names one."""

    def environment(self, addons: tuple[str, ...] = ()) -> dict[str, Any]:
        return {**super().environment(addons), "image": os.environ.get("FAKE_IMAGE", "")}


def open_site(volumes: Path | None, addons: Iterable[str], hosts: Path | None, seed: int) -> FakeSite:
    """In place of a real one."""
    measuring.PROBE_LEAD = measuring.PROBE_LEAST = measuring.PROBE_MOST = 0.0
    vars(running)["measure"] = _noted
    return Imaged(Busy())


def _noted(engine: Any, workload: Any, port: Any, facts: Any, raw: Path, *rest: Any, **more: Any) -> None:
    with Path(os.environ["FAKE_LOG"]).open("a") as stream:
        # cells/.<key>.<process>.partial/raw
        stream.write(f"{os.environ['BLOCKLAB_MACHINE']} {raw.parent.name.split('.')[1]}\n")
    if (failing := os.environ["FAKE_FAILING"]) and failing in str(port):
        raise HostError("a1", "it fails on purpose")
    measuring.measure(engine, workload, port, facts, raw, *rest, **more)

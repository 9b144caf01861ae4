"""The fake site of a process that a test of CI has started, in place of the lab: fio writes at the rate that
``$FAKE_RATES`` has for the folder of ``--runs``, ``base=1000,new=500``, a little more or less in each build."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from blocklab.runner import measure as measuring
from blocklab.sites.fake import FakeSite
from tests.fake.answers import Fios

SPREAD = (1.0, 1.004, 0.996)


def open_site(volumes: Path | None, addons: Iterable[str], hosts: Path | None, seed: int) -> FakeSite:
    """In place of a real one."""
    measuring.PROBE_LEAD = measuring.PROBE_LEAST = measuring.PROBE_MOST = 0.0
    rates = dict(pair.split("=") for pair in os.environ["FAKE_RATES"].split(","))
    runs = sys.argv[sys.argv.index("--runs") + 1] if "--runs" in sys.argv else ""
    whole = float(rates.get(runs, 1000.0))
    return Fios(lambda job, number: whole * SPREAD[number % len(SPREAD)]).site

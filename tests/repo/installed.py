"""A study on the fake site, for an environment that has the wheel and none of the test tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import blocklab
from blocklab.campaign import start
from blocklab.cli import studies
from blocklab.sites.fake import FakeSite
from tests.fake.answers import Answers


def main() -> None:
    """``blocklab run study.yaml``, on hosts that answer from the tests' own samples."""

    def opened(*_given: Any, **_options: Any) -> FakeSite:
        return FakeSite(Answers())

    vars(start)["open_site"] = opened
    studies.run(Path("study.yaml"), seed=1)
    print(blocklab.__file__)

"""What is said of a study that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklab.errors import StudyError
from blocklab.study.check import combined_problems
from blocklab.study.read import build


def written(plan: dict[str, Any], folder: Path) -> str:
    file = folder / "study.yaml"
    with file.open("w") as out:
        YAML().dump(plan, out)
    return str(file)


def refused(plan: dict[str, Any]) -> str:
    """What `check` says of a plan that it refuses."""
    with pytest.raises(StudyError) as caught:
        well(plan)
    return f"{caught.value.path}: {caught.value.problem}"


def well(plan: dict[str, Any]) -> bool:
    study = build(plan)
    for path, problem in combined_problems(study):
        raise StudyError(path, problem)
    return True

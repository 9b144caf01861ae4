"""Studies of format 1 mean what they meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklab.errors import StudyError
from blocklab.study.read import build, read

NOW = """\
blocklab: 2
name: two
question: What does it cost?
nodes: {a1: {}}
stacks:
  plain: {on: a1, layers: [{layer: volume, size: 1GiB}, {layer: ext4}]}
workloads:
  io: {workload: fio, size: 64MiB, jobs: {w: {rw: randwrite, bs: 4k}}}
  raw: {workload: dd, size: 16MiB, mode: none}
factors:
  kind:
    field: workloads.raw
    values:
      none: {workload: dd, size: 16MiB, mode: none}
      direct: {workload: dd, size: 16MiB, mode: direct}
quick:
  workloads: {raw: null, more: {workload: dd, size: 1MiB, mode: none}}
  factors: {kind: null}
"""
OLD = NOW.replace("workload: ", "load: ").replace("blocklab: 2", "blocklab: 1")


def study(text: str) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(text)
    return found


@pytest.mark.parametrize("quick", [False, True])
def test_a_study_of_format_1_is_the_same_study(quick: bool) -> None:
    assert "workload: " not in OLD
    assert build(study(OLD), quick=quick) == build(study(NOW), quick=quick)


def test_a_factor_over_a_workloads_kind_is_renamed_too() -> None:
    factor = {"field": "workloads.raw.load", "values": ["dd"]}
    assert build({**study(OLD), "factors": {"kind": factor}}).factors["kind"].field == "workloads.raw.workload"


def test_an_option_of_a_program_keeps_its_name() -> None:
    plain = study(OLD)
    plain["factors"] = {"s": {"field": "nodes.a1.sysctl", "values": {"a": {"load": 1}}}}
    with pytest.raises(StudyError, match="load"):
        build(plain)


def test_an_error_in_an_old_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text(OLD.replace("{load: fio,", "{load: fia,"))
    with pytest.raises(StudyError) as caught:
        read(path)
    assert caught.value.line == 8 and "fia" in str(caught.value)


def test_a_study_of_today_does_not_take_the_old_word() -> None:
    with pytest.raises(StudyError, match=r"workloads\.io"):
        build(study(NOW.replace("io: {workload: fio", "io: {load: fio")))

"""What the programs of a real node tell of their options: enough for every shipped study, and for `check`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blocklab.cli.main import app
from blocklab.errors import ImageError, StudyError
from blocklab.model.knobs import Tables
from blocklab.model.site import KnownOptions, offered
from blocklab.runner.knobs import ask
from blocklab.sites import open_site
from blocklab.study import knobs
from blocklab.study.read import read
from blocklab.study.shipped import shipped

PROGRAMS = ("drbd", "fio", "mariadb", "postgres", "sysctl")


@pytest.fixture(scope="module")
def told() -> Iterator[Tables]:
    said: list[str] = []
    yield ask(open_site(), PROGRAMS, said.append)
    assert said == []


def test_every_program_tells_its_options(told: Tables) -> None:
    counts = {program: sum(map(len, table.values())) for program, table in told.items()}
    least = {"drbd": 50, "fio": 250, "mariadb": 600, "postgres": 350, "sysctl": 500}
    assert counts.keys() == least.keys()
    assert {name: count for name, count in counts.items() if count < least[name]} == {}


@pytest.mark.parametrize("path", shipped().values(), ids=shipped().keys())
def test_the_options_of_a_shipped_study_are_those_that_programs_have(told: Tables, path: Path) -> None:
    study = read(path)
    assert list(knobs.problems(study, told)) == []
    # MySQL needs another image.
    assert knobs.unasked(study, told) in ([], ["mysql"])


STUDY = """
blocklab: 2
name: misspelt
question: Is it found?
nodes: {a1: {memory: 512MiB}}
stacks:
  db:
    on: a1
    layers: [{layer: volume, size: 256MiB}, {layer: ext4}, {layer: postgres, settings: {shared_bufers: 1MB}}]
workloads: {tx: {workload: pgbench, time: 2s}}
"""


def test_check_refuses_a_misspelt_option_once_the_program_was_asked(told: Tables, tmp_path: Path) -> None:
    site = offered(open_site(), KnownOptions)
    try:
        site.keep_options(told)
    except ImageError as error:
        pytest.skip(str(error))
    file = tmp_path / "study.yaml"
    file.write_text(STUDY)
    refused = CliRunner().invoke(app, ["check", str(file)])
    assert isinstance(refused.exception, StudyError)
    assert "did you mean shared_buffers?" in str(refused.exception) and refused.exception.line == 9
    file.write_text(STUDY.replace("shared_bufers", "shared_buffers"))
    taken = CliRunner().invoke(app, ["check", str(file)])
    assert taken.exit_code == 0 and "not checked" not in taken.stderr

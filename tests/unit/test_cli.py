"""The command line: what it prints, and that each mistake is one message and the right exit code."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from blocklab.cli.main import app
from blocklab.cli.plan import START, shortened
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.shipped import shipped
from tests.unit.shells import Shell

STUDY = shipped()["drbd-az"]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


@pytest.fixture
def file(small: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    YAML().dump(small, path)
    return path


def test_check_counts_the_cells(shell: Shell) -> None:
    code, out, _ = shell("check", str(STUDY), "--volumes", "/")
    assert code == 0 and "3 stacks x 3 workloads x 3 repeats: 27 cells" in out


def test_how_often_a_study_is_measured_can_be_said_for_one_call(shell: Shell) -> None:
    counts = []
    for options in ((), ("--repeats", "5"), ("--quick",), ("--quick", "--repeats", "2")):
        code, out, _ = shell("plan", str(STUDY), "--cells", "--json", *options)
        assert code == 0
        counts.append(len(json.loads(out)["cells"]))
    assert counts == [27, 45, 9, 18]
    code, _, err = shell("plan", str(STUDY), "--cells", "--repeats", "0")
    assert code == 2 and "--repeats" in err


def test_a_wrong_study_is_one_error_with_file_line_and_exit_code_2(
    shell: Shell, small: Any, tmp_path: Path
) -> None:
    small["stacks"]["mirror"]["layers"][1]["peer"] = "nobody"
    path = tmp_path / "wrong.yaml"
    YAML().dump(small, path)
    for command in ("check", "plan", "run", "up"):
        code, out, err = shell(command, str(path))
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {path}:") and "stacks.mirror.layers[1].peer" in err
        assert "Traceback" not in err


def test_a_volume_larger_than_memory_is_refused_before_any_node_starts(
    shell: Shell, small: Any, tmp_path: Path
) -> None:
    small["stacks"]["local"]["layers"][0]["size"] = "16TiB"
    path = tmp_path / "big.yaml"
    YAML().dump(small, path)
    for command in ("check", "run"):
        argv = [command, str(path)] + (["--runs", str(tmp_path / "runs")] if command == "run" else [])
        code, _, err = shell(*argv)
        assert code == 2 and f"{path.parent}" in err and "stacks.local.layers[0].size" in err
        assert "--volumes" in err


def test_plan_prints_every_command_and_runs_none(shell: Shell, file: Path) -> None:
    code, out, _ = shell("plan", str(file), "--stack", "mirror")
    assert code == 0
    lines = out.splitlines()
    assert any(line.startswith("build    a2     drbdadm up mirror") for line in lines)
    assert sum(line.startswith("workload ") for line in lines) == 2
    assert sum("sampler" in line for line in lines) == 4  # two workloads, two nodes
    assert lines[-2].startswith("undo ")
    code, out, _ = shell("plan", str(file), "--json")
    assert code == 0 and set(json.loads(out)) == {"local", "mirror"}


def test_plan_shows_the_start_of_a_long_argument_and_all_of_it_on_demand(shell: Shell) -> None:
    """go-tpc's own loader gets the tables' statements as one argument of JSON."""
    call = ("plan", "mysql-rtt", "--stack", "mirror")
    code, out, err = shell(*call)
    lines = out.splitlines()
    (cut,) = (line for line in lines if "tables.py '" in line)
    assert code == 0 and re.search(r"… \([1-9],\d{3} more characters\)", cut) and len(cut) < 500
    assert "--whole" in err and max(map(len, lines)) < 1000
    code, whole, err = shell(*call, "--whole")
    assert (code, err) == (0, "") and "more characters" not in whole
    rows = json.loads(shell(*call, "--json")[1])["mirror"]
    assert [f"{row['part']:<8} {row['host']:<6} {row['command']}" for row in rows] == whole.splitlines()[1:-1]
    argument = max((word for row in rows for word in shlex.split(row["command"])), key=len)
    assert len(json.loads(argument)) == 9
    # What is shown and what is said to follow are all of it.
    more = len(argument) - START
    assert (
        shortened(argument) == f"{shlex.quote(argument[:START])}… ({more:,} more characters)"
        and f"({more:,} " in cut
    )
    assert shortened("x" * 200) == "x" * 200
    assert {row["workload"] for row in rows if row["part"] == "workload"} == {"tpcc"}


def test_the_grid_of_a_plan_has_no_arguments_to_show(shell: Shell, file: Path) -> None:
    code, _, err = shell("plan", str(file), "--cells", "--whole")
    assert code == 2 and "--whole" in err and "leave out" in err


def test_an_unknown_stack_names_the_known_ones(shell: Shell, file: Path) -> None:
    code, _, err = shell("plan", str(file), "--stack", "nil")
    assert code == 2 and "local, mirror" in err


def test_schema_is_a_json_schema_that_knows_the_layers(shell: Shell) -> None:
    code, out, _ = shell("schema")
    document = json.loads(out)
    assert code == 0 and {"Volume", "Drbd", "Xfs", "Postgres", "Fio", "Pgbench"} <= set(document["$defs"])


def test_resume_and_report_without_a_study_say_so(shell: Shell, tmp_path: Path) -> None:
    for command in ("resume", "report"):
        code, _, err = shell(command, "--runs", str(tmp_path))
        assert code == 1 and "no study was run" in err and "blocklab run" in err


def test_a_folder_of_another_format_is_refused(small: Any, shell: Shell, tmp_path: Path) -> None:
    study = build(small)
    folder = StudyFolder.create(tmp_path, Manifest(study, cells(study), format=99))
    code, _, err = shell("report", str(folder.path))
    assert code == 1 and "format 99" in err


def test_version_and_help(shell: Shell) -> None:
    assert shell("--version")[1].startswith("blocklab ")
    code, out, _ = shell("--help")
    assert code == 0
    for command in ("run", "resume", "check", "plan", "schema", "report", "up", "sh", "down", "doctor", "image"):
        assert command in out


# What only some commands need, and what takes most of their start.
HEAVY = ("numpy", "scipy", "altair", "vl_convert", "duckdb", "jinja2", "ruamel", "babel", "blocklab.study")
CALLED = """
import sys
from blocklab.cli.start import main
heavy, sys.argv = sys.argv[1].split(), ["blocklab", *sys.argv[2:]]
try:
    main()
finally:
    print(*(name for name in heavy if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("argv", "heavy"),
    [
        (("--version",), (*HEAVY, "rich")),
        (("--help",), HEAVY),
        (("--lang", "ja", "--help"), HEAVY[:-2]),
        (("studies",), HEAVY[:6]),
        (("check", "drbd-az"), HEAVY[:6]),
        (("nosuch",), HEAVY),
    ],
)
def test_a_command_imports_what_it_needs_and_no_more(argv: tuple[str, ...], heavy: tuple[str, ...]) -> None:
    call = [sys.executable, "-c", CALLED, " ".join(heavy), *argv]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == (2 if argv == ("nosuch",) else 0)
    assert done.stderr.splitlines()[-1] == ""


def test_the_list_of_commands_says_what_each_command_says_itself() -> None:
    """It is made without importing them."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("blocklab", [], resilient_parsing=True)
    assert group.list_commands(context) == list(group.commands)
    for name, command in group.commands.items():
        listed = group.get_command(context, name)
        assert (listed.name, listed.help, listed.hidden) == (command.name, command.help, command.hidden)
        assert listed.help and listed.get_short_help_str() == command.get_short_help_str()
        assert group.resolve_command(context, [name, "--help"]) == (name, command, ["--help"])
    assert group.get_command(context, "nosuch") is None
    assert [name for name, command in group.commands.items() if command.hidden] == ["leashed"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("blocklab re", ["report", "resume"]), ("blocklab hosts a", ["add"]), ("blocklab check drbd", ["drbd-az"])],
)
def test_a_shell_completes_commands_and_what_they_take(words: str, wanted: list[str]) -> None:
    asks = {"_BLOCKLAB_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    call = [sys.executable, "-c", "from blocklab.cli.main import app; app(prog_name='blocklab')"]
    done = subprocess.run(
        call, env={**os.environ, **asks}, capture_output=True, text=True, timeout=120, check=False
    )
    assert sorted(done.stdout.split()) == wanted


def test_a_seed_for_the_order_as_written_is_refused(shell: Shell, file: Path) -> None:
    code, _, err = shell("run", str(file), "--order", "as-written", "--seed", "3")
    assert code == 2 and "--seed" in err and "leave out" in err


# -- studies by name, and exit codes -----------------------------------------------------------------------------


def test_a_folder_does_not_hide_the_study_of_its_name(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failover").mkdir()
    monkeypatch.chdir(tmp_path)
    code, out, _ = shell("plan", "failover", "--cells", "--json")
    assert code == 0 and json.loads(out)["cells"]


def test_a_slip_in_a_studys_name_says_what_it_may_have_been(shell: Shell) -> None:
    for command in ("check", "plan", "run", "drill", "up"):
        code, _, err = shell(command, "failovr")
        said = " ".join(err.split())
        assert code == 2 and said.startswith("error: failovr: no such study file")
        assert "did you mean failover?" in said and "blocklab studies" in said


@pytest.mark.parametrize(
    "argv",
    [("image", "remove"), ("image", "build", "--with", "oracle"), ("calibrate", "--with", "oracle")],
    ids=" ".join,
)
def test_a_wrong_call_ends_with_2(shell: Shell, argv: tuple[str, ...]) -> None:
    code, out, err = shell(*argv)
    assert (code, out) == (2, "") and "hint: " in err

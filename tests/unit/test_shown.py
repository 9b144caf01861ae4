"""What study, level, log and host say is shown and never obeyed: in a terminal, on a page, in CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text as RichText
from ruamel.yaml import YAML

from blocklab.errors import HostError
from blocklab.model import terminal
from blocklab.model.shown import acts, cell, shown, shown_json
from blocklab.report.build import environment
from blocklab.sites.ssh.add import SurveyedDisk
from blocklab.sites.ssh.check import Line
from blocklab.sites.ssh.commands import show, told
from tests.unit.shells import Shell

HOSTILE = (
    "\x1b]52;c;aGk=\x07", "[/x]", "[bold]", "\u202egnp.exe", "=cmd|'/C calc'!A0", "\x9b31m", "a\rb", "a\u2028b",
    "\u061c\u2066", ":smile:",
)  # fmt: skip


def well(text: str, hostile: str) -> None:
    """Nothing in what is printed acts, and what was said can be seen."""
    assert not acts(text), repr(text)
    seen = "".join(text.split())
    assert "".join(shown(hostile).split()) in seen or hostile == "=cmd|'/C calc'!A0", (hostile, text)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("COLUMNS", "400")
    return Shell(monkeypatch, capsys)


# -- the functions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("\x1b[2J", r"\x1b[2J"), ("\x07\x7f\x9b", r"\x07\x7f\x9b"), ("\udcff", r"\udcff"),
        ("\u202e\u2066\u200e\u061c", r"\u202e\u2066\u200e\u061c"),
        ("a\u2028b\u0085", r"a\u2028b\x85"), ("a\r\nb\tc\n", "a\nb\tc\n"), ("a\rb", r"a\x0db"),
        ("–± 日本語 \\x1b [/x]", "–± 日本語 \\x1b [/x]"),
    ],
)  # fmt: skip
def test_what_acts_is_named(text: str, what: str) -> None:
    assert shown(text) == what == shown(shown(text))


def test_json_stays_the_same_data(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = {text: [text, "±"] for text in HOSTILE}
    plain = json.dumps(data, ensure_ascii=False)
    assert json.loads(shown_json(plain)) == data and not acts(shown_json(plain))
    terminal.echo_json(plain)
    assert json.loads(capsys.readouterr().out) == data
    stream = io.TextIOWrapper(io.BytesIO(), "ascii")
    assert json.loads(terminal.json_for(stream, plain).encode("ascii")) == data


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("=1+1", "'=1+1"), ("@x", "'@x"), ("+x", "'+x"), ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
        ("\tx", "'\tx"), ("\r=1", r"\x0d=1"), ("＝1", "'＝1"), ("-5", "-5"), ("+1.5e-3", "+1.5e-3"), ("-", "-"),
        ("local", "local"), ("a=b", "a=b"), ("\x1b[2J", r"\x1b[2J"),
    ],
)  # fmt: skip
def test_no_cell_is_a_formula(text: str, what: str) -> None:
    assert cell(text) == what


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_console_shows_whatever_it_is_given(hostile: str) -> None:
    out = io.StringIO()
    console = terminal.Console(file=out, width=200)
    table = Table(hostile, title=hostile, caption=hostile)
    for each in (hostile, RichText(hostile, "bold"), terminal.Text(hostile), RichText("x").append(hostile, "red")):
        table.add_row(each)
        console.print(each)
    console.print(table)
    console.rule(hostile)
    console.print(terminal.Text("a").append(hostile, "bold"))
    # Rich's own text drops a bell and a carriage return.
    seen = out.getvalue()
    assert not acts(seen) and seen.count(shown(hostile.replace("\x07", "").replace("\r", ""))) >= 4


def test_styles_stay_where_they_were() -> None:
    out = io.StringIO()
    console = terminal.Console(file=out, width=80)
    text = RichText("a\u202eb").append("c\x1b", "bold").append("d")
    parts = [(segment.text, bool(segment.style and segment.style.bold)) for segment in console.render(text)]
    assert [part for part in parts if part[0].strip()] == [("a\\u202eb", False), ("c\\x1b", True), ("d", False)]


# -- sources and commands ---------------------------------------------------------------------


def of_study(small: dict[str, Any], hostile: str) -> None:
    small["question"] = hostile


def of_level(small: dict[str, Any], hostile: str) -> None:
    small["factors"] = {
        "size": {"field": "stacks.local.layers.volume.size", "values": {hostile: "64MiB", "b": "128MiB"}}
    }


def of_key(small: dict[str, Any], hostile: str) -> None:
    small[hostile] = 1


def of_value(small: dict[str, Any], hostile: str) -> None:
    small["name"] = hostile


COMMANDS = (
    ("check",),
    ("plan",),
    ("plan", "--cells"),
    ("plan", "--json"),
    ("check", "--json"),
    ("run", "--stack", "x"),
)


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("put", [of_study, of_level, of_key, of_value])
def test_a_study(
    put: Callable[[dict[str, Any], str], None], hostile: str, small: dict[str, Any], shell: Shell, tmp_path: Path
) -> None:
    put(small, hostile)
    file = tmp_path / "small.yaml"
    YAML().dump(small, file)
    said = ""
    for command in COMMANDS:
        code, out, err = shell(command[0], str(file), *command[1:])
        assert not acts(out + err) and "Traceback" not in err and code in (0, 2), (command, out, err)
        said += out + err
    if put in (of_level, of_key):
        assert "".join(shown(hostile).split()) in "".join(said.split())


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def log(folder: Path, hostile: str) -> Path:
    """A log of fio whose job has this name, in a file that has it too, where a file may."""
    golden = Path(__file__).parent / "golden" / "fio" / "stdout"
    data = json.loads(golden.read_text()[golden.read_text().index("{") :])
    data["jobs"] = data["jobs"][:1]
    data["jobs"][0]["jobname"] = hostile
    data["jobs"][0].get("job options", {})["name"] = hostile
    path = folder / f"{hostile.replace('/', '_')}.json"
    path.write_text(json.dumps(data))
    return path


def test_a_log(hostile: str, shell: Shell, tmp_path: Path, without_vega: None) -> None:
    (tmp_path / "logs").mkdir()
    log(tmp_path / "logs", hostile)
    runs = tmp_path / "runs"
    code, out, err = shell("import", "--stack", f"a={tmp_path / 'logs'}", "--runs", str(runs))
    assert code == 0 and not acts(out + err), out + err
    (folder,) = (path for path in runs.iterdir() if path.is_dir())
    for command in (
        ("report", str(folder)), ("export", str(folder)), ("export", str(folder), "--format", "jsonl"),
        ("report", str(folder), "--json"), ("export", str(folder), "--runs"),
        ("query", "SELECT * FROM metrics", "--runs", str(runs)),
        ("query", "SELECT * FROM metrics", "--runs", str(runs), "--csv"),
        ("query", "SELECT * FROM metrics", "--runs", str(runs), "--json"),
        ("import", str(tmp_path / "logs")), ("size", str(tmp_path / "logs")),
        ("import", "--as", f"{hostile}={tmp_path}", "--stack", hostile),
    ):  # fmt: skip
        code, out, err = shell(*command)
        assert not acts(out + err) and "Traceback" not in err, (command, out, err)
        if "--csv" in command or command == ("export", str(folder)):
            no_formula(out)
    no_formula((folder / "report.csv").read_text())
    assert not acts((folder / "report.csv").read_text())
    assert not acts((folder / "report.html").read_text())


def no_formula(text: str) -> None:
    for row in csv.reader(io.StringIO(text)):
        for each in row:
            assert not re.match(r"[=@\t\r]|[+-](?![\d.]|$)", each), row


def test_a_host(hostile: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    told([Line(hostile, hostile, "fail", hostile, hostile)])
    well(capsys.readouterr().out, hostile)
    show("a1", [SurveyedDisk(hostile, (hostile,), hostile, 1 << 30, hostile, False, (hostile,), None)])
    out = capsys.readouterr().out
    well(out, hostile)
    assert "".join(out.split()).count("".join(shown(hostile).split())) >= 3
    from blocklab.cli.main import _show

    _show(HostError("a1", hostile, hint=hostile))
    well(capsys.readouterr().err, hostile)


def test_a_page(hostile: str) -> None:
    made = environment()
    text = made.from_string("<b title='{{ x }}'>{{ x }}</b>{{ {'x': [x]} | script_json | safe }}").render(
        x=hostile
    )
    assert not acts(text)


# -- standard output --------------------------------------------------------------------------

WRITES = (("plan", "STUDY"), ("plan", "STUDY", "--cells"), ("check", "STUDY"), ("query", "--tables"), ("schema",),
          ("--help",), ("--version",), ("export", "RUNS"), ("export", "RUNS", "--format", "jsonl"),
          ("report", "RUNS"))  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    from blocklab.study.shipped import shipped

    folder = tmp_path_factory.mktemp("streams")
    (folder / "logs").mkdir()
    log(folder / "logs", "±x")
    done = run({}, "import", "--stack", f"a={folder / 'logs'}", "--runs", str(folder / "runs"))
    assert done.returncode == 0, done.stderr
    return {"STUDY": str(shipped()["drbd-az"]), "RUNS": str(next((folder / "runs").glob("*/")))}


def run(environment: dict[str, str], *argv: str, **more: Any) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from blocklab.cli.start import main; main()"]
    more = {"stdout": subprocess.PIPE} | more
    return subprocess.run(
        [*program, *argv], env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True, check=False,
        encoding="utf-8", **more,
    )  # fmt: skip


@pytest.mark.parametrize("command", WRITES, ids=" ".join)
def test_output_that_cannot_be_written_is_one_message(command: tuple[str, ...], places: dict[str, str]) -> None:
    argv = [places.get(each, each) for each in command]
    with Path("/dev/full").open("w") as full:
        done = run({}, *argv, stdout=full)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: standard output cannot be written: No space left on device"
    done = run({}, *argv, stdout=None, preexec_fn=lambda: os.close(1))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: standard output cannot be written: it is closed"
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


@pytest.mark.parametrize("command", [*WRITES[-3:], ("report", "RUNS", "--json"), WRITES[1]], ids=" ".join)
def test_an_encoding_without_our_signs_and_a_terminal_of_no_columns(
    command: tuple[str, ...], places: dict[str, str]
) -> None:
    argv = [places.get(each, each) for each in command]
    done = run({"PYTHONIOENCODING": "ascii", "COLUMNS": "0"}, *argv)
    assert done.returncode == 0 and done.stdout.isascii() and len(done.stdout) > 100, done.stderr
    if "--json" in command:
        assert "±x" in json.dumps(json.loads(done.stdout), ensure_ascii=False)
    if "jsonl" in command:
        assert any("±x" in json.loads(line).get("phase", "") for line in done.stdout.splitlines())


def test_a_file_that_cannot_be_written_is_named(places: dict[str, str], tmp_path: Path) -> None:
    done = run({}, "export", places["RUNS"], "-o", "/nowhere/x.csv")
    assert done.returncode == 1 and "error: /nowhere/x.csv cannot be written" in done.stderr

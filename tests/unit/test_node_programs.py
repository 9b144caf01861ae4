"""The programs that run on nodes: files of their own, tried here as processes."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import blocklab_node
from blocklab.model import node_programs
from blocklab_node import verbs

FOLDER = Path(blocklab_node.__file__).parent


def run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """As a node runs it: without this environment's packages."""
    argv = [sys.executable, "-I", "-S", str(FOLDER / f"{name}.py"), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_all_of_them_are_known() -> None:
    """Beside the agents, which bring the others."""
    assert sorted(path.stem for path in FOLDER.glob("[!_]*.py")) == sorted(
        [*node_programs.NAMES, *node_programs.OF_DISKS, "agent", "far", "host_agent", "journal"]
    )


@pytest.mark.parametrize("name", [*node_programs.NAMES, *node_programs.OF_DISKS])
def test_a_program_needs_the_standard_library_only_and_does_nothing_when_imported(name: str) -> None:
    tree = ast.parse(node_programs.text(name))
    names = {alias.name for each in ast.walk(tree) if isinstance(each, ast.Import) for alias in each.names}
    names |= {str(each.module) for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    assert {each.partition(".")[0] for each in names} <= sys.stdlib_module_names
    last = tree.body[-1]
    assert isinstance(last, ast.If) and "__name__" in ast.unparse(last.test)


def test_a_change_of_a_program_changes_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = node_programs.digest()
    monkeypatch.setattr(node_programs, "text", lambda name: f"# {name}")
    assert node_programs.digest.__wrapped__() != before


def test_write_puts_the_devices_number_and_size_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "_of", lambda device, name: {"dev": "98:16", "size": "131072"}[name])
    verbs.main(["verbs", "write", str(tmp_path / "cap"), "{number} 1000", "/dev/ubdb"])
    verbs.main(["verbs", "write", str(tmp_path / "table"), "0 {sectors} linear /dev/ubdb 0", "/dev/ubdb"])
    assert (tmp_path / "cap").read_text() == "98:16 1000\n"
    assert (tmp_path / "table").read_text() == "0 131072 linear /dev/ubdb 0\n"


def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run("verbs", "write", str(tmp_path / "cap"), "{number} 1", "/dev/no-such")
    assert done.returncode == 1 and done.stderr == "/dev/no-such: No such file or directory\n"
    assert not (tmp_path / "cap").exists()


def test_adopt_writes_whoever_started_it(tmp_path: Path) -> None:
    import os

    assert run("verbs", "adopt", str(tmp_path / "procs")).returncode == 0
    assert (tmp_path / "procs").read_text() == f"{os.getpid()}\n"


def test_until_shows_the_file_in_any_case(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("starting\nready for connections\n")
    assert run("verbs", "until", "ready for", str(log)).returncode == 0
    log.write_text("starting\nout of memory\n")
    done = run("verbs", "until", "ready for", str(log))
    assert (done.returncode, done.stdout) == (1, "starting\nout of memory\n")


def test_fill_says_why_it_cannot(tmp_path: Path) -> None:
    done = run("fill", str(tmp_path / "no-such" / "file"))
    assert done.returncode != 0 and "No such file" in done.stderr

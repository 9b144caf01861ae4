"""The workflow of docs/ci.md: its commands, step by step, as a runner executes them, on the fake site."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.repo import house

PAGE = (house.DOCS / "ci.md").read_text()
ROOT = Path(__file__).parents[2]
STEP_SECONDS = 300
HOOK = """\
import blocklab.sites

blocklab.sites.SITES["uml"] = ("tests.fake.ci_site", "open_site")
"""
# What sets a machine up is only noted.
TOOL = """\
#!/bin/sh
echo "${{0##*/}} $*" >> "$FAKE_LOG"
{rest}
"""
BLOCKLAB = f'[ "$1" = setup ] || exec {sys.executable} -m blocklab.cli.main "$@"'


def workflow() -> dict[str, Any]:
    (text,) = house.blocks(PAGE, "yaml", "<!-- workflow -->")
    found: dict[str, Any] = YAML(typ="safe").load(text)
    return found


def study() -> str:
    (text,) = house.blocks(PAGE, "yaml", "<!-- complete study -->")
    return text


def steps() -> Iterator[tuple[str, str]]:
    """(name, script) of the steps that run commands."""
    (job,) = workflow()["jobs"].values()
    yield from ((step["name"], step["run"]) for step in job["steps"] if "run" in step)


class Runner:
    """A runner of pull requests: a clone with the study of the main branch and that of the change."""

    def __init__(self, place: Path, base: str, new: str, rates: str) -> None:
        self.clone, self.bin, self.log = place / "clone", place / "bin", place / "log"
        for folder in (self.clone, self.bin, place / "hook"):
            folder.mkdir(parents=True)
        (place / "hook" / "sitecustomize.py").write_text(HOOK)
        for name, rest in (("sudo", ""), ("pipx", ""), ("blocklab", BLOCKLAB)):
            (self.bin / name).write_text(TOOL.format(rest=rest))
            (self.bin / name).chmod(0o755)
        self.environment = {
            **os.environ, **{name: str(value) for name, value in workflow()["env"].items()},
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "GITHUB_BASE_REF": "main",
            "PYTHONPATH": os.pathsep.join([str(place / "hook"), str(ROOT / "src"), str(ROOT)]),
            "BLOCKLAB_CACHE": str(place / "cache"), "FAKE_LOG": str(self.log), "FAKE_RATES": rates,
            "LANG": "C.UTF-8",
        }  # fmt: skip
        self._committed(base)
        self._git("update-ref", "refs/remotes/origin/main", "HEAD")
        self._committed(new)

    def _committed(self, text: str) -> None:
        (self.clone / "mirrors.yaml").write_text(text)
        if not (self.clone / ".git").exists():
            self._git("init", "-q")
        self._git("add", "mirrors.yaml")
        who = ("-c", "user.name=CI", "-c", "user.email=ci@example.org", "-c", "commit.gpgsign=false")
        self._git(*who, "commit", "-q", "--allow-empty", "-m", "study")

    def _git(self, *argv: str) -> None:
        subprocess.run(["git", *argv], cwd=self.clone, check=True, timeout=60, stdin=subprocess.DEVNULL)

    def run(self) -> tuple[str, int, str]:
        """The step at which it ended (the last one), with its exit code and what it printed."""
        ended, code, said = "", 0, ""
        for name, script in steps():
            ended = name
            # As GitHub's runners execute it.
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script], cwd=self.clone, text=True,
                env=self.environment, timeout=STEP_SECONDS, capture_output=True, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            code, said = done.returncode, done.stdout + done.stderr
            if code:
                break
        return ended, code, said

    def compared(self, *options: str) -> tuple[int, dict[str, Any]]:
        """The conditions of the last step once more, as JSON."""
        (script,) = [script for name, script in steps() if name == "Compare"]
        argv = script.replace("\\\n", " ").replace("-o compare.html", " ".join(["--json", *options]))
        done = subprocess.run(["bash", "-e", "-c", argv], cwd=self.clone, env=self.environment, text=True,
                              timeout=STEP_SECONDS, capture_output=True, stdin=subprocess.DEVNULL)  # fmt: skip
        return done.returncode, json.loads(done.stdout)


def test_a_change_that_costs_nothing_passes(tmp_path: Path) -> None:
    runner = Runner(tmp_path, study(), study(), "base=1000,new=1000")
    name, code, said = runner.run()
    assert (name, code) == ("Compare", 0), said
    assert (runner.clone / "compare.html").exists()
    assert len(list(runner.clone.glob("*/mirrors/report.html"))) == 2
    assert "warning" not in said and "blocklab setup --yes" in runner.log.read_text()
    code, found = runner.compared()
    assert (code, found["gate"]) == (0, "passes")


def test_a_change_that_halves_the_rate_fails(tmp_path: Path) -> None:
    runner = Runner(tmp_path, study(), study(), "base=1000,new=500")
    name, code, said = runner.run()
    assert (name, code) == ("Compare", 1), said
    # What certainly fails is not let through.
    code, found = runner.compared("--allow-undecided")
    assert (code, found["gate"]) == (1, "fails")
    assert {each["condition"].split()[0] for each in found["fail_on"] if each["outcome"] == "fails"} == {
        "write.iops"
    }


def test_single_builds_do_not_pass(tmp_path: Path) -> None:
    once = study().replace("repeats: 3\n", "")
    assert once != study()
    runner = Runner(tmp_path, once, once, "base=1000,new=500")
    name, code, said = runner.run()
    assert (name, code) == ("Compare", 3), said
    assert "one build on a side" in " ".join(said.split())
    code, found = runner.compared("--allow-undecided")
    assert (code, found["gate"]) == (0, "undecided")


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_page_tells_what_each_exit_code_means(code: int) -> None:
    assert f"\n| {code} | " in house.sections(PAGE)["What ends the job"]

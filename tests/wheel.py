"""A release as a user gets it: built from this checkout, installed where nothing of the checkout is in reach."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(
    argv: Sequence[object], cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a command that knows nothing of this process's Python; what it printed is in the result."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        list(map(str, argv)), cwd=cwd, env={**kept, **(env or {})}, capture_output=True, text=True,
        timeout=timeout, check=False,
    )  # fmt: skip


def well(done: subprocess.CompletedProcess[str]) -> str:
    """Its standard output; a failure shows all that it printed."""
    assert done.returncode == 0, f"{done.args}\n{done.stdout}{done.stderr}"
    return done.stdout


def built(source: Path, target: str, into: Path) -> Path:
    """The wheel or the sdist of a source tree."""
    well(run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", into], source))
    (found,) = into.glob({"wheel": "*.whl", "sdist": "*.tar.gz"}[target])
    return found


def installed(wheel: Path, folder: Path) -> Path:
    """The ``bin`` of a new environment with the wheel and what it needs. Skips the test where no package registry
    can be reached."""
    venv.create(folder, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--disable-pip-version-check"]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    there = run([*pip, "install", "--quiet", "--no-compile", "--retries", "1", *needed], folder)
    if there.returncode:
        pytest.skip(f"what the wheel needs cannot be installed: {there.stderr.strip().splitlines()[-1]}")
    well(run([*pip, "install", "--quiet", "--no-index", "--no-deps", wheel], folder))
    well(run([*pip, "check"], folder))
    return folder / "bin"

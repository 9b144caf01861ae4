"""What the scripts in the repository's root do to bring a clone to where blocklab runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.repo import house

# Makes an environment as uv does, as far as it matters here, and notes where.
UV = """#!/bin/sh
mkdir -p .venv/bin
printf "#!/bin/sh\\n" > .venv/bin/python
chmod +x .venv/bin/python
pwd >> "$CALLS"
"""


def test_each_clone_gets_an_environment_of_its_own(tmp_path: Path) -> None:
    """The programs of a copied one, and what they import, are those of the clone that it was copied from."""
    tools, calls, first = tmp_path / "bin", tmp_path / "calls", tmp_path / "first"
    for folder in (tools, first):
        folder.mkdir()
    (tools / "uv").write_text(UV)
    (tools / "uv").chmod(0o755)
    for name in ("uv.lock", "pyproject.toml"):
        (first / name).write_text("as it is")

    def setup(clone: Path, kind: str) -> list[str]:
        """The folders where an environment was made or changed."""
        calls.write_text("")
        script = 'set -euo pipefail; . "$1"; setup_venv "$2"'
        environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(calls)}
        argv = ["bash", "-c", script, "setup", str(house.ROOT / "scripts/setup.sh"), kind]
        subprocess.run(argv, cwd=clone, env=environment, check=True, capture_output=True)
        return calls.read_text().split()

    assert setup(first, "dev") == [str(first)]
    assert setup(first, "dev") == setup(first, "run") == []
    second = tmp_path / "second"
    shutil.copytree(first, second, symlinks=True)
    (second / ".venv/of-the-first").touch()
    assert setup(second, "run") == [str(second)]
    assert not (second / ".venv/of-the-first").exists()
    assert setup(second, "run") == setup(first, "run") == []
    (second / "uv.lock").write_text("newer")
    (second / ".venv/kept").touch()
    assert setup(second, "run") == [str(second)] and (second / ".venv/kept").exists()

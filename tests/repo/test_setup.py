"""What the scripts in the repository's root do to bring a clone to where blocklab runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

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


# The real one, with all that it locks and writes in a folder of the test's, without sources; it installs nothing.
APT_GET = """#!/bin/sh
echo "$*" >> "$CALLS"
dirs="-o Dir::State=$STATE -o Dir::State::status=$STATE/status -o Dir::Cache=$STATE/cache -o Dir::Etc=$STATE/etc"
words=$*
[ "$1" = install ] && words="clean $(echo "$*" | grep -o -- "-o DPkg[^ ]*")"
exec /usr/bin/apt-get $dirs $words
"""


@pytest.mark.skipif(not Path("/usr/bin/apt-get").exists(), reason="this machine has no apt-get")
def test_a_lock_of_apts_that_somebody_holds_is_waited_for(tmp_path: Path) -> None:
    tools, state, calls = tmp_path / "bin", tmp_path / "state", tmp_path / "calls"
    for folder in (tools, state / "lists/partial", state / "cache/archives/partial", state / "etc"):
        folder.mkdir(parents=True)
    (state / "status").touch()
    calls.touch()
    for name, text in (("apt-get", APT_GET), ("sudo", '#!/bin/sh\nexec "$@"\n')):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "CALLS": str(calls), "STATE": str(state),
        "APT_AGAIN_SECONDS": "0.1",
    }  # fmt: skip
    script = 'set -euo pipefail; . "$1"; install "for a test" one two'
    argv = ["bash", "-c", script, "install", str(house.ROOT / "scripts/setup.sh")]
    with (state / "lists/lock").open("w") as lock:
        # As apt holds it.
        fcntl.lockf(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        said = [process.stderr.readline(), process.stderr.readline()]
        assert said[0].startswith("missing on this machine: one two")
        assert said[1].startswith(
            "waiting, 15 minutes at most, for another program that uses apt: E: Could not get lock"
        )
        assert str(state / "lists/lock") in said[1] and process.poll() is None
    timer = threading.Timer(60, process.kill)
    timer.start()
    rest = process.stderr.read()
    assert (process.wait(), rest) == (0, "")
    timer.cancel()
    process.stderr.close()
    verbs = [line.split()[0] for line in calls.read_text().splitlines()]
    assert verbs.count("update") >= 2 and verbs[-1] == "install" and verbs.count("install") == 1
    assert all("-o DPkg::Lock::Timeout=" in line for line in calls.read_text().splitlines())
    # Any other failure is told at once.
    (tools / "apt-get").write_text('#!/bin/sh\necho "E: Unable to locate package one"\nexit 100\n')
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Unable to locate package one" in done.stderr
    assert "waiting" not in done.stderr and "Ask an administrator for" in done.stderr

"""Progress on a real terminal, over a real run that somebody stops."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from blocklab.store.folder import StudyFolder
from tests.lab.commands import BLOCKLAB, PLAIN, write

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def watched(argv: list[str], cwd: Path, until: str, then: bytes) -> tuple[int, str, bool]:
    """Run a command on a terminal; type ``then`` once it has shown ``until``. (exit code, what it showed, whether
    the terminal's settings are as they were)."""
    environment = {**os.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm-256color"}
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    pid = os.fork()
    if pid == 0:
        os.chdir(cwd)
        os.login_tty(slave)
        os.execve(sys.executable, [*BLOCKLAB, *argv], environment)
    shown, deadline, ended = b"", time.monotonic() + 240, False
    while not ended:
        if time.monotonic() > deadline:
            pytest.fail(f"it did not end; it showed {shown!r}")
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        while select.select([master], [], [], 0.1)[0]:
            shown += os.read(master, 65536)
        if then and re.search(until.encode(), shown, re.DOTALL):
            os.write(master, then)
            then = b""
    same = termios.tcgetattr(slave) == before
    os.close(slave)
    os.close(master)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown.decode(errors="replace"), same


@pytest.fixture
def study(small: dict[str, Any], tmp_path: Path) -> Path:
    small["stacks"] = {"plain": {"on": "a1", "layers": [PLAIN, {"layer": "ext4"}]}}
    small["baseline"] = "plain"
    job = {"first": {"rw": "randwrite", "bs": "4k", "iodepth": 1}}
    small["workloads"] = {
        name: {
            "workload": "fio", "size": "16MiB", "fill": False, "jobs": job, "options": {"direct": 1},
            "stop": {"rounds": "2..2", "each": f"{seconds}s"},
        }
        for name, seconds in (("short", 1), ("long", 30))
    }  # fmt: skip
    return write(small, tmp_path)


def test_ctrl_c_in_the_middle_of_a_cell_drawn_and_plain(study: Path, tmp_path: Path) -> None:
    argv = ["run", str(study), "--order", "as-written"]
    code, shown, same = watched(argv, tmp_path, "cell 2 of 2: plain/long.*no value yet", b"\x03")
    assert code == 130 and same, shown
    assert shown.count(HIDE) == 1 and shown.rindex(SHOW) > shown.rindex(HIDE)
    assert "stopped; nothing is left running" in shown[shown.rindex(SHOW) :]
    # What was finished had scrolled; what was under way was drawn.
    assert "plain/short: " in shown and "write IOPS" in shown and "left" in shown
    (run,) = StudyFolder(tmp_path / "runs" / "small").runs()
    assert run.cell.workload == "short" and run.outcome.status == "ok"

    # The rest of it, without drawing.
    code, shown, same = watched(["resume", "--plain"], tmp_path, "cell 1 of 1: plain/long", b"\x03")
    assert code == 130 and same and HIDE not in shown and "no value yet" not in shown

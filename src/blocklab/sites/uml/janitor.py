"""Waits until blocklab is gone, then ends what its lab left. Standard library only; run as a script.

    janitor.py FOLDER    standard input is a pipe that only blocklab holds open

``FOLDER/groups`` holds one process group id a line.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path


def groups(folder: Path) -> list[int]:
    """The process groups of the lab that are still alive and still the lab's."""
    with contextlib.suppress(OSError):
        return [int(line) for line in (folder / "groups").read_text().split() if ours(int(line), folder)]
    return []


def ours(pgid: int, folder: Path) -> bool:
    """Whether the group leader still names the lab's folder: process ids are used again.

    A leader that is gone while its group lives cannot be told by its command line; its members are then
    children of the dead leader and carry its group id, which the kernel does not give out again before
    the whole group is gone.
    """
    try:
        os.killpg(pgid, 0)
    except OSError:
        return False
    try:
        return str(folder).encode() in Path(f"/proc/{pgid}/cmdline").read_bytes()
    except OSError:
        return True


def main() -> None:
    """Wait for the end of standard input; kill; remove."""
    folder = Path(sys.argv[1])
    # Ctrl-C goes to the terminal's foreground group; the janitor is not in it, but be sure.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    deadline = time.monotonic() + 5.0
    while (alive := groups(folder)) and time.monotonic() < deadline:
        for pgid in alive:
            with contextlib.suppress(OSError):
                os.killpg(pgid, signal.SIGKILL)
        time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

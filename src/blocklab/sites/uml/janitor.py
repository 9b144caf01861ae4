"""Waits until blocklab is gone, then ends what its lab left. Standard library only; run as a script.

    janitor.py FOLDER    standard input is a pipe that only blocklab holds open

``FOLDER/groups`` holds one process group id a line. A process that blocklab started, but was killed before it
could note, is known by the folder in its command line.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# So long nobody of the lab's may have been seen: a child that was about to become one has become it by then.
QUIET_SECONDS = 0.5


def groups(folder: Path) -> list[int]:
    """The process groups of the lab that are still alive and still the lab's."""
    found = set(unnoted(folder))
    with contextlib.suppress(OSError):
        found |= {int(line) for line in (folder / "groups").read_text().split() if ours(int(line), folder)}
    return sorted(found)


def unnoted(folder: Path) -> Iterator[int]:
    """The lab's processes by their command lines, which name something within the folder. Each leads a session of
    its own; what a person starts in a shell, to look into the folder, does not."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(process.name)
            if f"{folder}/".encode() in (process / "cmdline").read_bytes() and os.getsid(pid) == pid:
                yield pid


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
    if not folder.exists():
        # Ended as it should: blocklab waits.
        return
    seen = started = time.monotonic()
    while time.monotonic() - started < 5.0 and time.monotonic() - seen < QUIET_SECONDS:
        for pgid in groups(folder):
            seen = time.monotonic()
            with contextlib.suppress(OSError):
                os.killpg(pgid, signal.SIGKILL)
        time.sleep(0.02)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

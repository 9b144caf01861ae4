"""Waits until blocklab is gone, then ends what its lab left. Standard library only; run as a script.

    janitor.py FOLDER    standard input is a pipe that only blocklab holds open

``FOLDER/groups`` holds one process group id a line. A process that blocklab started, but was killed before it
could note, is known by the folder in its environment.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# In the environment of each of the lab's processes: the lab's folder.
MARK = "BLOCKLAB_LAB_FOLDER"
# So long nobody of the lab's may have been seen: a child that was about to become one has become it by then.
QUIET_SECONDS = 0.5


def groups(folder: Path) -> list[int]:
    """The process groups of the lab that are still alive and still the lab's."""
    found = set(unnoted(folder))
    with contextlib.suppress(OSError):
        found |= {int(line) for line in (folder / "groups").read_text().split() if ours(int(line), folder)}
    return sorted(found)


def unnoted(folder: Path) -> Iterator[int]:
    """The lab's processes that lead a session, which blocklab has each of them do."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(process.name)
            if marked(pid, folder) and os.getsid(pid) == pid:
                yield pid


def marked(pid: int, folder: Path) -> bool:
    """Whether blocklab started a process for this lab. Its command line would not tell: whoever looks into the
    folder names it too. Raises ``OSError``."""
    return f"{MARK}={folder}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def ours(pgid: int, folder: Path) -> bool:
    """Whether the group is still the lab's: process ids are used again.

    A leader that is gone while its group lives, reaped or not, can no longer be asked; its members carry its group
    id, which the kernel does not give out again before the whole group is gone.
    """
    try:
        os.killpg(pgid, 0)
    except OSError:
        return False
    try:
        # 812 (linux.uml) Z 1 812 ...: the name may hold blanks and brackets
        state = Path(f"/proc/{pgid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        return state == "Z" or marked(pgid, folder)
    except PermissionError:
        return False
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

"""Prints files of /proc at every whole second; runs in the node, so it needs the standard library only.

Usage: ``python3 sampler.py SECONDS PATH...``. Each line is JSON, one for each file: ``{"t": seconds since the
epoch, "path": ..., "text": ...}``; ``text`` is null while the file is absent (a module that is not loaded). SIGINT
and SIGTERM end it between two lines, so that no line is cut.
"""

from __future__ import annotations

import json
import signal
import sys
import time

ENDS = {signal.SIGINT, signal.SIGTERM}


def read(path: str) -> str | None:
    """The file's text; None when it cannot be read. Of ``/proc/stat`` only the CPU lines."""
    try:
        with open(path, errors="replace") as file:  # importing pathlib would cost more than a sample
            text = file.read()
    except OSError:
        return None
    if path == "/proc/stat":
        # The line of interrupts alone can be 10 KB.
        return "".join(line for line in text.splitlines(keepends=True) if line.startswith("cpu"))
    return text


def line(path: str) -> str:
    """One sample as a line of JSON."""
    now = time.time()
    return json.dumps({"t": round(now, 6), "path": path, "text": read(path)}) + "\n"


def main(argv: list[str]) -> int:
    """Print until a signal says stop; the exit code."""
    seconds, paths = float(argv[1]), argv[2:]
    # Blocked and then waited for: a handler could run in the middle of a write.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    while True:
        now = time.time()
        due = (now // seconds + 1) * seconds
        if signal.sigtimedwait(ENDS, due - now) is not None:
            return 0
        try:
            sys.stdout.write("".join([line(path) for path in paths]))
            sys.stdout.flush()
        except BrokenPipeError:
            return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

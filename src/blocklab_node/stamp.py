"""Runs a command and prints its lines, each with the time at which it came (seconds since the epoch).

It wakes up once for each line of the command.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """``stamp.py COMMAND...``; the command's exit code."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        os.close(reader)
        os.close(writer)
        try:
            os.execvp(argv[1], list(argv[1:]))
        except OSError as error:
            print(f"{argv[1]}: {error.strerror}", file=sys.stderr)
        os._exit(127)
    os.close(writer)
    # A signal goes to both of us; whether it ends the command is the command's affair.
    signal.signal(signal.SIGINT, lambda *_: None)
    with open(reader, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            sys.stdout.write(f"{time.time():.3f} {line}")
            sys.stdout.flush()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv))

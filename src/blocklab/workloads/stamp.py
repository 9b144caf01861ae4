"""The time of each line that a load prints, for loads that print none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from blocklab.model.plan import Argv

# Runs on the node, so it is text here. It wakes up once for each line of the load.
SCRIPT = '''\
"""Runs a command and prints its lines, each with the time at which it came (seconds since the epoch)."""

import os
import signal
import sys
import time

reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.dup2(writer, 1)
    os.close(reader)
    os.close(writer)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        print(f"{sys.argv[1]}: {error.strerror}", file=sys.stderr)
    os._exit(127)
os.close(writer)
# A signal goes to both of us; whether it ends the load is the load's affair.
signal.signal(signal.SIGINT, lambda *_: None)
with open(reader, encoding="utf-8", errors="replace") as lines:
    for line in lines:
        sys.stdout.write(f"{time.time():.3f} {line}")
        sys.stdout.flush()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
'''

# 1795239123.482 [ 1s ] thds: 4 tps: 37.99 qps: 1151.88 (r/w/o: 883.14/166.80/101.94) lat (ms,99%): 303.33 ...
_LINE = re.compile(r"^(\d{9,}\.\d{3}) (.*)$")


def stamped(script: str, argv: Argv) -> Argv:
    """The command, run by ``SCRIPT``, which stands on the node under the path ``script``."""
    return ("python3", "-I", "-S", script, *argv)


def lines(out: bytes) -> Iterator[tuple[float, str]]:
    """(seconds since the epoch, line) of each whole line; a last line cut in the middle is dropped."""
    for line in out.decode(errors="replace").split("\n")[:-1]:
        if match := _LINE.match(line):
            yield float(match[1]), match[2]

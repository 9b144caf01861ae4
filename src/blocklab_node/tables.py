"""Fills TPC-C's tables: go-tpc's rows through pipes into the server's own bulk load.

    tables.py LOADERS TOOL...    LOADERS: a JSON object, table -> command that reads rows of CSV; TOOL: go-tpc's

go-tpc makes the tables before it writes, and they must be there before the readers start, without which it cannot
open the pipes: hence its short run for one table to begin with. Then it gets a port at which nobody listens, and
so only writes: on PostgreSQL it would make the indexes again, and wait for the readers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

# blocklab's own folder on a host.
RUN = "/run/blocklab"
Running = list[tuple[str, "subprocess.Popen[bytes]"]]


def start(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """A command that reads and prints nothing."""
    return subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def begin(running: Running, loaders: Mapping[str, Sequence[str]], tool: Sequence[str], folder: str) -> None:
    """The readers at their pipes, then the writer, into ``running``."""
    database = next(word[len("--db=") :] for word in tool if word.startswith("--db="))
    first = [*tool, "--tables=warehouse", f"--output-dir={folder}/first"]
    subprocess.run(first, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    for table, argv in loaders.items():
        pipe = f"{folder}/{database}.{table}.0.csv"
        os.mkfifo(pipe)
        running.append((table, start([word.replace("{file}", pipe) for word in argv])))
    alone = [word if not word.startswith("--port=") else "--port=1" for word in tool]
    running.append((tool[0], start([*alone, f"--output-dir={folder}"])))


def main(argv: Sequence[str]) -> int:
    """Until all of them have ended; the first that fails ends the others."""
    loaders, tool = json.loads(argv[1]), argv[2:]
    with tempfile.TemporaryDirectory(dir=RUN if os.access(RUN, os.W_OK) else None) as folder:
        running: Running = []
        try:
            begin(running, loaders, tool, folder)
            while running:
                time.sleep(0.02)
                for name, process in running:
                    if process.poll():
                        sys.exit(f"{name}: ended with {process.returncode}")
                running[:] = [each for each in running if each[1].returncode is None]
        finally:
            # One that ended leaves the others waiting at their pipes for ever.
            for _, process in running:
                process.kill()
                process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

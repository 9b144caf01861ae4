"""How TPC-C's tables come into a database: go-tpc's rows through pipes into the server's own bulk load.

go-tpc's own INSERTs keep a server busy with parsing SQL; its rows as CSV do not, and no file holds them on the
way.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from blocklab.model.plan import Argv, Port

TABLES = (
    "warehouse", "district", "customer", "history", "orders", "new_order", "order_line", "stock", "item",
)  # fmt: skip

# Seconds for which a server waits for the next rows; its own default is 30.
_PATIENCE = 7 * 24 * 3600

# Runs on the node, so it is text here. go-tpc makes the tables before it writes, and they must be there before
# the readers start, without which it cannot open the pipes: hence its short run for one table to begin with.
# Then it gets a port at which nobody listens, and so only writes: on PostgreSQL it would make the indexes
# again, and wait for the readers.
SCRIPT = '''\
"""Fills TPC-C's tables: a JSON object, table -> command that reads rows of CSV; then go-tpc's command."""

import json
import os
import subprocess
import sys
import tempfile
import time

loaders, tool = json.loads(sys.argv[1]), sys.argv[2:]
database = next(word.removeprefix("--db=") for word in tool if word.startswith("--db="))
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
with tempfile.TemporaryDirectory(dir="/run") as folder:
    running = []
    try:
        subprocess.run([*tool, "--tables=warehouse", f"--output-dir={folder}/first"], check=True, **quiet)
        for table, argv in loaders.items():
            pipe = f"{folder}/{database}.{table}.0.csv"
            os.mkfifo(pipe)
            argv = [word.replace("{file}", pipe) for word in argv]
            running.append((table, subprocess.Popen(argv, **quiet)))
        alone = [word if not word.startswith("--port=") else "--port=1" for word in tool]
        running.append((tool[0], subprocess.Popen([*alone, f"--output-dir={folder}"], **quiet)))
        while running:
            time.sleep(0.02)
            for name, process in running:
                if process.poll():
                    sys.exit(f"{name}: ended with {process.returncode}")
            running = [(name, process) for name, process in running if process.returncode is None]
    finally:
        # One that ended leaves the others waiting at their pipes for ever.
        for _, process in running:
            process.kill()
            process.wait()
'''


def fill(script: str, tool: Argv, port: Port, sql: Callable[[Port, str], Argv]) -> Argv:
    """The command that fills the tables, run by ``SCRIPT``, which stands on the node under the path ``script``.

    ``tool`` is go-tpc's command to prepare them, ``sql`` gives the command for a statement.
    """
    loaders = {table: _loader(port, table, sql) for table in TABLES}
    csv = ("--no-check", "--threads=1", "--output-type=csv")
    return ("python3", "-I", "-S", script, json.dumps(loaders), *tool, *csv)


def _loader(port: Port, table: str, sql: Callable[[Port, str], Argv]) -> Argv:
    """Reads go-tpc's CSV: ``53000,10,2,1511,2026-11-21 09:48:54,NULL,8,1``."""
    if port.kind == "postgresql":
        return sql(port, f"\\copy {table} FROM '{{file}}' (FORMAT csv, NULL 'NULL')")
    # The few rows of some tables come at once, and the end of their pipe when all others are done: minutes later.
    # A bare NULL is one only where fields may be enclosed. All of it is ASCII: no character needs a conversion.
    text = (
        f"SET SESSION sql_log_bin = 0; SET SESSION net_read_timeout = {_PATIENCE}; "
        f"LOAD DATA LOCAL INFILE '{{file}}' INTO TABLE {table} CHARACTER SET binary"
        " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''"
    )
    return (*sql(port, text), "--local-infile=1")

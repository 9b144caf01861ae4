"""How TPC-C's tables come into a database: go-tpc's rows through pipes into the server's own bulk load.

go-tpc's own INSERTs keep a server busy with parsing SQL; its rows as CSV do not, and no file holds them on the
way.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from blocklab.model.node_programs import program
from blocklab.model.plan import Argv, Port

TABLES = (
    "warehouse", "district", "customer", "history", "orders", "new_order", "order_line", "stock", "item",
)  # fmt: skip

# Seconds for which a server waits for the next rows; its own default is 30.
_PATIENCE = 7 * 24 * 3600


def fill(tool: Argv, port: Port, sql: Callable[[Port, str], Argv]) -> Argv:
    """The command that fills the tables. ``tool`` is go-tpc's command to prepare them, ``sql`` gives the command
    for a statement."""
    loaders = {table: _loader(port, table, sql) for table in TABLES}
    csv = ("--no-check", "--threads=1", "--output-type=csv")
    return program("tables", json.dumps(loaders), *tool, *csv)


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

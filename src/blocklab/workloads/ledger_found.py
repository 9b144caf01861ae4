"""What a database has of the ledger after a crash, and what its binary log has.

Two steps of commands, the output of each kept as a raw file; then ``found`` and ``binlog`` read those:

1. ``reads(port)`` on ``port.host``: rows and tally of one snapshot; of MariaDB and MySQL also the names of the
   binary logs.
2. ``logs(raw)`` on the *server's* host, once step 1 is done: the content of each binary log. Their exit codes do
   not matter, but what they print as errors does (``<name>.stderr``): a log that a crash has cut ends in one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from blocklab.errors import ParseError
from blocklab.model.drill import Ledger
from blocklab.model.plan import Argv, Port
from blocklab.workloads import servers

LAYER = "ledger"
ROWS, LOGS = "ledger", "binlogs"

# One statement, so one snapshot: what commits meanwhile cannot look torn. The counts prove that nothing was cut.
_STATE = (
    "SELECT 'row', id, worker, 0 FROM ledger UNION ALL SELECT 'tally', worker, n, last FROM tally UNION ALL "
    "SELECT 'count', (SELECT count(*) FROM ledger), (SELECT count(*) FROM tally), 0"
)
# SHOW BINARY LOGS is an error where there are none.
_LISTING = (
    "SELECT @@global.log_bin, VERSION(), @@global.log_bin_basename; "
    "SET @blocklab = IF(@@global.log_bin, 'SHOW BINARY LOGS', 'DO 0'); "
    "PREPARE blocklab FROM @blocklab; EXECUTE blocklab"
)

# "1\t11.8.6-MariaDB-0+deb13u1 from Debian-log\t/mnt/maria/mariadb/binlog"; with 0 the last one is NULL
_SERVER = re.compile(r"([01])\t([^\t]+)\t(NULL|/\S+)")
# "binlog.000001\t330"; MySQL has a third column
_LOG = re.compile(r"([\w.-]+\.(\d{6,}))\t(\d+)(?:\t\w+)?")

# What mariadb-binlog prints of a transaction, by row events or by statements; only its COMMIT makes it one:
#   START TRANSACTION
#   /*!*/;
#   ### INSERT INTO `bench`.`ledger`
#   ### SET
#   ###   @1=1795232995283000
#   INSERT INTO ledger(id, worker, pad) VALUES (1795232995283000, 3, 'blocklab...')
#   COMMIT/*!*/;
_ROW = b"### INSERT INTO `"
_ROW_TABLE = re.compile(rb"### INSERT INTO `[^`]+`\.`ledger`$")
_ROW_ID = re.compile(rb"###   @1=(\d+)(?: .*)?$")
_STATEMENT = re.compile(rb"INSERT INTO ledger\(id, worker, pad\) VALUES \((\d+), ")
_BEGIN = (b"BEGIN", b"START TRANSACTION")

_END = b"\n# End of log file\n"

# Of a log that ends in the middle of an event, or in zeros that were never written; the last line where that is in
# its very first event:
#   ERROR: Error in Log_event::read_log_event(): 'Event truncated', data_len: 31, event_type: 16
#   ERROR: Error in Log_event::read_log_event(): 'Event invalid', data_len: 0, event_type: 0
#   ERROR: Could not read entry at offset 4: Error in log format or read error.
# Not of one that is damaged ("Event crc check failed!"), where later events may follow.
_EMPTY = "ERROR: Could not read entry at offset 4: "
_CUT = re.compile(
    r"ERROR: Error in Log_event::read_log_event\(\): "
    r"('Event truncated'.*|'read error'.*|'Event invalid', data_len: 0, event_type: 0)"
    r"|ERROR: Could not read entry at offset \d+: .*|WARNING: .*"
)


def reads(port: Port) -> Mapping[str, Argv]:
    """Commands for ``port.host``, by the raw file that each one's output becomes."""
    found = {ROWS: servers.sql(port, _STATE)}
    if port.kind == "mysql":
        found[LOGS] = servers.sql(port, _LISTING)
    return found


def logs(raw: Mapping[str, bytes]) -> Mapping[str, Argv]:
    """Commands for the server's own host, by the raw file that each one's output becomes; none without a binary
    log.

    Raises ``ParseError`` where there is one that cannot be read.
    """
    if LOGS not in raw:
        return {}
    folder, names = _listed(raw[LOGS])
    # Each by itself: an error at the end of one, cut by a crash, would be the end of all after it.
    argv = (
        "mariadb-binlog",
        "--no-defaults",
        "--base64-output=DECODE-ROWS",
        "--verbose",
        "--verify-binlog-checksum",
    )
    return {name: (*argv, f"{folder}/{name}") for name in names}


def found(raw: Mapping[str, bytes]) -> Ledger:
    """The tables, without the binary log. ``raw``: the output of ``reads``.

    Raises ``ParseError`` where it is missing, cut, or no such output: then nothing is known.
    """
    return Ledger(*_state(raw))


def binlog(raw: Mapping[str, bytes]) -> frozenset[int] | None:
    """The ids of the ledger's rows that the binary log has as committed; None without a binary log. ``raw``: the
    output of ``reads`` and ``logs``, and as ``<name>.stderr`` what the latter printed as errors.

    Raises ``ParseError`` where a log is missing, cannot be read, or is damaged before its end.
    """
    if LOGS not in raw or not (wanted := logs(raw)):
        return None
    ids: set[int] = set()
    for name in wanted:
        if name not in raw or f"{name}.stderr" not in raw:
            raise ParseError(LAYER, f"the binary log {name} was not read")
        ids.update(_inserted(name, raw[name], raw[f"{name}.stderr"].decode(errors="replace")))
    return frozenset(ids)


def _state(raw: Mapping[str, bytes]) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """Rows and tally::

    row     1795232995283000  3    0
    tally   3                 812  1795232997301112
    count   6480              8    0
    """
    if not raw.get(ROWS, b"").endswith(b"\n"):
        raise ParseError(
            LAYER, "the tables were not read to their end", raw.get(ROWS, b"")[-200:].decode(errors="replace")
        )
    rows: dict[int, int] = {}
    tally: dict[int, tuple[int, int]] = {}
    counts: list[tuple[int, int]] = []
    for line in raw[ROWS].splitlines():
        try:
            what, *fields = line.split(b"\t")
            first, second, third = map(int, fields)
        except ValueError as error:
            raise ParseError(LAYER, "a line of the tables is damaged", line.decode(errors="replace")) from error
        if what == b"row":
            rows[first] = second
        elif what == b"tally":
            tally[first] = (second, third)
        elif what == b"count":
            counts.append((first, second))
        else:
            raise ParseError(LAYER, "a line of the tables is damaged", line.decode(errors="replace"))
    if counts != [(len(rows), len(tally))]:
        said = f"{counts[0][0]} and {counts[0][1]}" if counts else "no count of them"
        raise ParseError(LAYER, f"{len(rows)} rows and {len(tally)} workers came, but the server has {said}")
    return rows, tally


def _listed(text: bytes) -> tuple[str, list[str]]:
    """The folder of the binary logs, and their names, from the first one ever; no names where there are none."""
    lines = text.decode(errors="replace").splitlines()
    head = _SERVER.fullmatch(lines[0]) if lines else None
    if head is None:
        raise ParseError(LAYER, "the list of the binary logs cannot be read", "\n".join(lines))
    if head[1] == "0":
        return "", []
    if "MariaDB" not in head[2]:
        raise ParseError(
            LAYER, f"the binary log of MySQL {head[2]} cannot be read by the image's mariadb-binlog",
            hint="use mariadb for that question, or log_bin: false",
        )  # fmt: skip
    matches = [_LOG.fullmatch(line) for line in lines[1:]]
    names = [match[1] for match in matches if match]
    numbers = [int(match[2]) for match in matches if match]
    if len(names) != len(matches) or numbers != list(range(1, len(matches) + 1)) or not names:
        raise ParseError(
            LAYER, "the binary logs are not all there from the first one on", "\n".join(lines),
            hint="leave expire_logs_days, binlog_expire_logs_seconds and max_binlog_total_size out",
        )  # fmt: skip
    return head[3].rpartition("/")[0], names


def _inserted(name: str, text: bytes, said: str) -> Iterator[int]:
    """The ids of the ledger's committed rows in one binary log."""
    complaints = [line for line in said.splitlines() if line.strip()]
    if any(_CUT.fullmatch(line) is None for line in complaints):
        raise ParseError(LAYER, f"the binary log {name} cannot be read", said)
    if _END not in text and not any(line.startswith(_EMPTY) for line in complaints):
        raise ParseError(LAYER, f"the binary log {name} was not read to its end", said)
    pending: list[int] = []
    row = False
    for line in text.split(b"\n"):
        if line.startswith(b"#"):
            if line.startswith(_ROW):
                row = _ROW_TABLE.match(line) is not None
            elif row and (match := _ROW_ID.match(line)):
                pending.append(int(match[1]))
                row = False
        elif line.startswith(b"COMMIT"):
            yield from pending
            pending.clear()
        elif line.startswith((b"ROLLBACK", *_BEGIN)):
            pending.clear()
        elif match := _STATEMENT.match(line):
            pending.append(int(match[1]))

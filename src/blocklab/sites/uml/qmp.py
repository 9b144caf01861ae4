"""Orders to a running storage daemon, by QEMU's machine protocol: a JSON object a line, each way."""

from __future__ import annotations

import json
import socket
from io import BufferedReader
from pathlib import Path
from typing import Any

from blocklab.errors import SetupError

# A daemon answers at once, unless the machine is stuck.
SECONDS = 30.0


def order(line: Path, command: str, arguments: dict[str, Any]) -> None:
    """Have the daemon that listens at ``line`` (a Unix socket) carry out one command.

    Raises ``SetupError`` when it does not answer, or refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(SECONDS)
            connection.connect(str(line))
            with connection.makefile("rb") as answers:
                # It speaks first: {"QMP": {"version": {"qemu": {"micro": 0, "minor": 0, "major": 10}, ...}, ...}}
                answers.readline()
                _ask(connection, answers, "qmp_capabilities", {})
                _ask(connection, answers, command, arguments)
    except (OSError, ValueError) as error:
        raise SetupError(
            f"the storage daemon at {line.name} did not carry out {command}: {error}",
            hint="run again; `blocklab doctor` looks at this machine",
        ) from error


def _ask(connection: socket.socket, answers: BufferedReader, command: str, arguments: dict[str, Any]) -> None:
    """One command up to its end. Raises ``ValueError`` where it is refused, ``OSError``."""
    connection.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
    while said := answers.readline():
        # {"return": {}}, or {"error": {"class": "GenericError", "desc": "..."}}; before it perhaps an event:
        # {"timestamp": {"seconds": 1763840000, "microseconds": 0}, "event": "BLOCK_EXPORT_DELETED", ...}
        answer = json.loads(said)
        if "error" in answer:
            raise ValueError(said.decode(errors="replace").strip())
        if "return" in answer:
            return
    raise ConnectionError("it hung up")

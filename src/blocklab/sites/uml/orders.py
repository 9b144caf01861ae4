"""Orders to a running volume server: a JSON object a line each way, over its control socket."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from blocklab.errors import SetupError

# A server answers at once, unless the machine is stuck.
SECONDS = 30.0


def order(control: Path, op: str, **fields: Any) -> dict[str, Any]:
    """Have the server that listens at ``control`` carry out ``op``; what it answers.

    The operations and their fields are those of ``volume/control.rs``. Raises ``SetupError`` when it does not
    answer, or refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(SECONDS)
            connection.connect(str(control))
            connection.sendall(json.dumps({"op": op, **fields}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                # {"ok": true, ...}, or {"error": "unknown op x", "ok": false}
                answer: dict[str, Any] = json.loads(answers.readline())
        if not answer.get("ok"):
            raise ValueError(answer.get("error", "no reason given"))
        return answer
    except (OSError, ValueError) as error:
        raise SetupError(
            f"the volume server at {control.name} did not carry out {op}: {error}",
            hint="run again; `blocklab doctor` looks at this machine",
        ) from error

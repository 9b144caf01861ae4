"""Events of a study as lines of JSON; docs/many-machines.md lists them."""

from __future__ import annotations

import time
from typing import IO, Any

import msgspec

from blocklab.cli.progress import said
from blocklab.model.terminal import json_for
from blocklab.runner.events import AnyEvent, Counted, Done, Interim, Judged, Listener, Preparing


def printed(stream: IO[str]) -> Listener:
    """Writes each event to a stream at once, with the ``time`` in seconds since the epoch."""

    def listen(event: AnyEvent) -> None:
        if isinstance(event, Preparing | Counted):
            # No part of a study's results, and many times a second.
            return
        text = msgspec.json.encode({"time": round(time.time(), 3), **public(event)}).decode()
        stream.write(json_for(stream, text) + "\n")
        stream.flush()

    return listen


def public(event: AnyEvent) -> dict[str, Any]:
    """The fields that users know: those of the event, with a word in place of what is long."""
    fields: dict[str, Any] = msgspec.to_builtins(event)
    match event:
        case Interim():
            fields["rates"] = {rate.metric: [rate.value, rate.half] for rate in event.rates}
        case Done():
            del fields["values"], fields["stops"]
            fields |= {"seconds": round(event.seconds, 3), "said": said(event).removeprefix("; ")}
        case Judged():
            del fields["label"], fields["drill"]
            fields["verdict"] = event.drill.verdict.status
    return fields

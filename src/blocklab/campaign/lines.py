"""Events between a process and the one that started it: a line of JSON each, on standard output."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from blocklab.model import outside
from blocklab.runner.events import AnyEvent, Event

_ANY: Any = AnyEvent


def send(event: Event) -> None:
    """Print it at once."""
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


def received(text: bytes) -> AnyEvent:
    """The event that was printed as that line. Raises ``Unreadable``."""
    event: AnyEvent = outside.typed_json(text, _ANY, "")
    return event

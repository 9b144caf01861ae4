"""Events: each arrives in another process as it was, and users get the fields that the documents list."""

from __future__ import annotations

import io
import json
import re
from typing import Any, get_args

import msgspec
import pytest

from blocklab.campaign.lines import received
from blocklab.cli.events import printed, public
from blocklab.errors import Unreadable
from blocklab.model.drill import Drill, Verdict
from blocklab.model.sample import Sample
from blocklab.runner import events
from blocklab.runner.estimate import Span
from blocklab.runner.strikes import Count
from blocklab.store.run import Rate, Stopped
from tests.repo.house import DOCS

DRILL = Drill("7 abc", "kill", "a1", "a2", True, ("a1", "a2"), (), (), Verdict("lost"), rate=100.0, struck=1.5)
TPS = Sample("tps", 1031.4, "1/s", "pgbench", "a1")
STOP = Stopped("", "settled", (Rate("tps", 1031.4, 10.3),), seconds=15.0)
# Each event, and its fields as users get them; none of those that are no part of a study's results.
PUBLIC: list[tuple[events.AnyEvent, dict[str, Any] | None]] = [
    (events.Preparing("asking fio"), None),
    (events.OnStack("local", "building"), {"event": "stack", "stack": "local", "text": "building"}),
    (
        events.Begun("k", "local/tx", 1, 6, Span(8.0, None, 40.0)),
        {"event": "cell", "key": "k", "label": "local/tx", "number": 1, "of": 6, "left": [8.0, None, 40.0]},
    ),
    (
        events.Interim("k", "p", 3, (Rate("tps", 1.5, 0.1), Rate("tpmc", None))),
        {
            "event": "rates", "key": "k", "phase": "p", "rounds": 3,
            "rates": {"tps": [1.5, 0.1], "tpmc": [None, None]},
        },
    ),
    (events.Counted("k", Count(1.0, 2, 3, 4, 5)), None),
    (
        events.Done("k", "local/tx", "ok", 80.12345, "", "", (TPS,), (STOP,)),
        {
            "event": "done", "key": "k", "label": "local/tx", "status": "ok", "seconds": 80.123, "error": "",
            "hint": "", "said": "settled after 15 s: 1,031 TPS ± 1.0 %",
        },
    ),
    (
        events.Done("k", "local/tx", "failed", 3.0, "a1: exit code 1", "look at raw/", (TPS,), ()),
        {
            "event": "done", "key": "k", "label": "local/tx", "status": "failed", "seconds": 3.0,
            "error": "a1: exit code 1", "hint": "look at raw/", "said": "1031 TPS",
        },
    ),
    (events.Judged("k", "local/tx", DRILL), {"event": "drilled", "key": "k", "verdict": "lost"}),
    (events.Warned("it is late"), {"event": "warning", "text": "it is late"}),
    (
        events.Connected("tcp://h:1", "", 2),
        {"event": "scheduler", "address": "tcp://h:1", "dashboard": "", "workers": 2},
    ),
    (
        events.Disconnected("tcp://h:1", 600.0),
        {"event": "scheduler lost", "address": "tcp://h:1", "patience": 600.0},
    ),
    (
        events.Joined("uml", "tcp://h:2", worker="w1"),
        {"event": "worker", "worker": "w1", "machine": "uml", "address": "tcp://h:2"},
    ),
    (events.Refused("old", worker="w1"), {"event": "refused", "worker": "w1", "why": "old"}),
    (
        events.Assigned(4, worker="w1", unit="repeat 1"),
        {"event": "unit", "worker": "w1", "unit": "repeat 1", "cells": 4},
    ),
    (
        events.Kept(4, 9.5, worker="w1", unit="repeat 1"),
        {"event": "kept", "worker": "w1", "unit": "repeat 1", "cells": 4, "seconds": 9.5},
    ),
    (
        events.Lost("gone", worker="w1", unit="repeat 1"),
        {"event": "lost", "worker": "w1", "unit": "repeat 1", "why": "gone"},
    ),
    (events.LeftOut("gone", worker="w1"), {"event": "left out", "worker": "w1", "why": "gone"}),
]  # fmt: skip
# What a lab says to the one that started it.
BETWEEN: list[events.AnyEvent] = [events.Free(), events.Failed("no room", "make some")]
EVENTS = [*(event for event, _ in PUBLIC), *BETWEEN]


def test_every_kind_is_here() -> None:
    assert {type(event) for event, _ in PUBLIC} | {type(event) for event in BETWEEN} == set(
        get_args(events.AnyEvent)
    )


@pytest.mark.parametrize(
    "event", [*(event for event, _ in PUBLIC), *BETWEEN], ids=lambda event: type(event).__name__
)
def test_an_event_arrives_as_it_was(event: events.AnyEvent) -> None:
    assert received(msgspec.json.encode(event)) == event
    sent = msgspec.structs.replace(event, worker="w1", unit="repeat 1")
    assert received(msgspec.json.encode(sent)) == sent


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"event": "other"}', b'{"event": "warning", "text": 1}'])
def test_what_is_no_event_is_an_error(text: bytes) -> None:
    with pytest.raises(Unreadable):
        received(text)


@pytest.mark.parametrize(("event", "fields"), PUBLIC, ids=lambda value: type(value).__name__)
def test_users_get_the_fields_that_they_know(event: events.AnyEvent, fields: dict[str, Any] | None) -> None:
    stream = io.StringIO()
    printed(stream)(event)
    if fields is None:
        assert stream.getvalue() == ""
        return
    line = json.loads(stream.getvalue())
    assert stream.getvalue().startswith('{"time":') and line.pop("time") > 1e9
    assert line == fields


def test_of_a_worker_they_say_which_one_and_of_what() -> None:
    warned = events.Warned("it is late", worker="w1", unit="repeat 1")
    assert public(warned) == {"event": "warning", "text": "it is late", "worker": "w1", "unit": "repeat 1"}


def test_the_documents_list_each_event_with_its_fields() -> None:
    # | `scheduler`, `scheduler lost` | the scheduler | `address`, `dashboard`, `workers`; `patience` |
    rows = re.findall(r"^\| (`.*?) \| .*? \| (.*?) \|$", (DOCS / "many-machines.md").read_text(), re.M)
    listed = {
        kind: set(re.findall(r"`(\w+)`", row)) for kinds, row in rows for kind in re.findall(r"`(.*?)`", kinds)
    }
    for _, fields in PUBLIC:
        if fields is not None:
            assert fields.keys() - {"event"} <= set(listed[fields["event"]]), fields["event"]

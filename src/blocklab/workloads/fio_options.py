"""Which options fio 3.39 has, by itself or of one of its engines, and which values it takes for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from blocklab.model import known

# "4k", "-10", "1M"; times and fractions are judged elsewhere, or by fio.
_NUMBER = re.compile(r"(?P<number>-?\d+)(?P<unit>[kmgtp]?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
COMMON = "common"
USUAL_ENGINE = "psync"


def problem(option: str, value: str) -> str | None:
    """Why fio would refuse an option, whatever its engine; None where it takes it, or only fio can tell."""
    tables = known.table("fio")
    knob = next((knobs[option] for knobs in tables.values() if option in knobs), None)
    if knob is None:
        every = sorted({name for knobs in tables.values() for name in knobs})
        return f"fio has no option {option}{known.nearest(option, every)}"
    why = _value(knob, value.strip()) if value else None
    return f"{option}: {why}" if why else None


def foreign(options: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with a job's options that belong to another engine than its own."""
    tables = known.table("fio")
    engine = options.get("ioengine", USUAL_ENGINE).strip()
    for option in options:
        if option in tables[COMMON] or option in tables.get(engine, {}):
            continue
        if owners := [name for name, knobs in tables.items() if option in knobs]:
            yield f"{option} is an option of ioengine {known.listed(owners)}; this job has {engine}"


def _value(knob: known.Knob, value: str) -> str | None:
    if knob.kind == "truth":
        return None if value in ("0", "1") else f"{value!r} is neither 1 nor 0"
    # "randrw:8", "zipf:1.2"
    word = value.partition(":")[0]
    if knob.kind == "word" and word not in knob.words:
        return known.not_among(word, knob.words)
    if knob.kind == "integer" and value not in knob.words:
        # "4k,64k": for reads, writes and trims
        return next(filter(None, (_number(knob, part) for part in value.split(",") if part)), None)
    return None


def _number(knob: known.Knob, text: str) -> str | None:
    match = _NUMBER.fullmatch(text)
    if match:
        return known.outside(knob, int(match["number"]) * 1024 ** _POWERS[match["unit"].lower()], text)
    return None if re.search(r"\d", text) else f"{text!r} is not a number"

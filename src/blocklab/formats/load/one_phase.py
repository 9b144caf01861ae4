"""What a tool printed without times becomes what blocklab's own workload leaves, and is read as that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from blocklab.errors import ParseError
from blocklab.formats.found import Found, found_in
from blocklab.formats.load.stamped import Printed, lines
from blocklab.formats.text import Bad, Text, refusal
from blocklab.model.sample import Parsed, Phase

T = TypeVar("T")


def of_one_phase(
    text: Text,
    tool: str,
    read: Callable[[Printed[str | T]], Parsed],
    stamped: Callable[[list[Bad]], Iterator[tuple[float, str | T]]],
    remarks: Sequence[str] = (),
) -> Found:
    """A tool's output, as the parser of blocklab's own workload ``read``s it. ``stamped`` puts times before lines
    without, as that workload leaves them, and notes the bad ones. Raises ``Refused``."""
    timed = any(lines("".join(f"{line}\n" for line in text.lines[:5]).encode()))
    bad: list[Bad] = []
    try:
        parsed = read(Printed(lines(text.text.encode()) if timed else stamped(bad)))
    except ParseError as error:
        raise refusal(error) from error
    (phase,) = parsed.phases
    samples = parsed.samples
    undated = ""
    if not timed:
        series = any(each.time is not None for each in samples)
        undated = f"it has no times: {'its time series' if series else 'it'} is put on 1970-01-01"
        begin = phase.start
        phase = Phase(phase.name, 0.0, phase.end - begin)
        samples = tuple(
            each if each.time is None else msgspec.structs.replace(each, time=each.time - begin)
            for each in samples
        )
    return found_in(
        text, tool, bad=bad, remarks=remarks, rows=len(samples), tool=tool, samples=samples, phases=(phase,),
        start=phase.start if timed else None, end=phase.end if timed else None,
        undated=undated,
    )  # fmt: skip

"""Lines with the time before each, as blocklab's own program ``stamp`` puts it there for tools that print none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

T_co = TypeVar("T_co", covariant=True)

# 1795239123.482 [ 1s ] thds: 4 tps: 37.99 qps: 1151.88 (r/w/o: 883.14/166.80/101.94) lat (ms,99%): 303.33 ...
_LINE = re.compile(r"^(\d{9,}\.\d{3}) (.*)$")
_QUOTED = 2000


class Printed(msgspec.Struct, Generic[T_co]):
    """What a tool printed, each line (or what it became already) with its time. ``tail`` and ``err``, its end and
    what it printed to stderr, are for messages."""

    lines: Iterable[tuple[float, T_co]]
    tail: str = ""
    err: str = ""


def printed(raw: Mapping[str, bytes]) -> Printed[str]:
    """By the raw output of one of our own runs, ``stdout`` and ``stderr``."""
    out, err = raw["stdout"], raw.get("stderr", b"")
    return Printed(lines(out), out.decode(errors="replace")[-_QUOTED:], err.decode(errors="replace"))


def lines(out: bytes) -> Iterator[tuple[float, str]]:
    """(seconds since the epoch, line) of each whole line; a last line cut in the middle is dropped."""
    for line in out.decode(errors="replace").split("\n")[:-1]:
        if match := _LINE.match(line):
            yield float(match[1]), match[2]

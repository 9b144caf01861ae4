"""Averaged logs of fio."""

from __future__ import annotations

START = 1_795_234_000_000


def averaged(rate: int, start: int = START, every: int = 1000) -> str:
    """What a clone with ``log_avg_msec`` leaves of ten seconds."""
    return "".join(f"{start + every * at}, {rate + at % 2}, 1, 0, 0\n" for at in range(1, 10_000 // every + 1))

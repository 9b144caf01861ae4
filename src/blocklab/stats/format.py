"""Values as people read them: one place for units and digits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from blocklab.model.metrics import metric as metric_of

# Closer together than that, two values are the same to everybody.
_MOST_MORE = 4
# Keeps a number and its unit on one line.
NBSP = "\u00a0"

_LABELS: dict[str, tuple[float, str]] = {
    "s": (1e3, "ms"),
    "B/s": (1e-6, "MB/s"),
    "B": (1e-6, "MB"),
    "1/s": (1.0, "/s"),
    "1/min": (1.0, "/min"),
    "%": (1.0, "%"),
    "1": (1.0, ""),
}


def scale(unit: str, metric: str = "") -> tuple[float, str]:
    """Factor and label that a value in ``unit`` is shown with: seconds as ms, bytes as MB (10^6)."""
    if label := metric_of(metric).label:
        return 1.0, label
    return _LABELS.get(unit, (1.0, unit))


def is_throughput(metric: str) -> bool:
    """Whether a value is work done in a time, and known by its unit alone."""
    return metric_of(metric).headline > 0


def noun(unit: str, metric: str) -> str:
    """What a value is called in a sentence: throughput by its unit (``IOPS``), all else by its name (``write
    latency p99``)."""
    return scale(unit, metric)[1] if is_throughput(metric) else metric_of(metric).words


def unit_of(metric: str) -> str:
    """What the values of a rate are called, with its direction: ``TPS``, ``write IOPS``."""
    known = metric_of(metric)
    return f"{known.of} {scale(known.unit, metric)[1] or known.words}".strip()


def number(value: float, beside: Sequence[float] = ()) -> str:
    """Three digits that mean something: ``1,031``, ``62.9``, ``3.53``, ``0.581``. More of them where the value
    would read as one of those ``beside`` it and is another: 9,899.6 beside a bound of 9,900."""
    if not math.isfinite(value):
        return "?"
    # Just below a power of ten, so that 99.97 becomes 100 and not 100.0.
    for least, digits in ((99.95, 0), (9.995, 1), (0.9995, 2)):
        if abs(value) >= least:
            return _distinguished(value, beside, "f", digits)
    return _distinguished(value, beside, "g", 3)


def _distinguished(value: float, beside: Sequence[float], form: str, digits: int) -> str:
    for more in range(digits, digits + _MOST_MORE):
        text = f"{value:,.{more}{form}}"
        if all(value == other or text != f"{other:,.{more}{form}}" for other in beside):
            return text
    return f"{value:,.{digits}{form}}"


def quantity(value: float, unit: str, metric: str = "") -> str:
    """A value with its unit: ``0.58 ms``, ``1,031 TPS``, ``62.9 MB/s``."""
    factor, label = scale(unit, metric)
    text = number(round(value)) if unit == "1" and value == round(value) else number(value * factor)
    return f"{text}{NBSP}{label}" if label else text


def exact(value: float, unit: str) -> str:
    """A value that somebody set rather than measured: ``2.7 ms``, ``4 GiB``, ``60 MB/s``."""
    if unit == "B":
        for size, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
            if value >= size and value % (size / 4) == 0:
                return f"{value / size:g}{NBSP}{name}"
    factor, label = scale(unit)
    return f"{value * factor:,.6g}{NBSP}{label}"


def plus_minus(value: float, half: float | None, unit: str, metric: str = "", beside: Sequence[float] = ()) -> str:
    """A value with the half width of its interval, if there is one: ``1,031 ± 12 TPS``. ``beside`` as for
    ``number``, in the value's unit."""
    shown, margin = digits(value, half, unit, metric, beside)
    label = scale(unit, metric)[1]
    return f"{shown}{f'{NBSP}±{NBSP}' if margin else ''}{margin}{NBSP}{label}".rstrip()


def digits(
    value: float, half: float | None, unit: str, metric: str = "", beside: Sequence[float] = ()
) -> tuple[str, str]:
    """A value and the half width of its interval (empty without one), as ``plus_minus`` has them."""
    factor, _ = scale(unit, metric)
    if half is None and unit == "1" and value == round(value):
        return number(round(value)), ""
    shown = number(value * factor, [other * factor for other in beside])
    if half is None:
        return shown, ""
    # The half width has no more decimals than the value: more would claim what the value does not.
    decimals = len(shown.partition(".")[2])
    margin = f"{half * factor:,.{decimals}f}"
    if float(margin.replace(",", "")) == 0:
        margin = _one_digit(half * factor, decimals + 2)
    return shown, margin


def _one_digit(half: float, decimals: int) -> str:
    """Digits of an interval that the value has not are noise: one of them tells how small it is, as far as so many
    decimals go: ``0.04``, ``<0.01``, ``0``."""
    least = 10.0**-decimals
    if 0 < half < least:
        return f"<{least:.{decimals}f}"
    return f"{float(f'{half:.1g}'):.{decimals}f}".rstrip("0").rstrip(".")


def percent(ratio: float, half: float | None = None, beside: Sequence[float] = ()) -> str:
    """A share: ``48 %``, ``4.2 %``, ``48 % ± 2``. ``beside`` as for ``number``, as ratios."""
    value = 100 * ratio
    digits = 0 if abs(value) >= 9.95 or value == 0 else 1
    shown = _distinguished(value, [100 * other for other in beside], "f", digits)
    text = f"{shown}{NBSP}%"
    if half is None:
        return text
    margin = 100 * half
    decimals = len(shown.partition(".")[2])
    told = f"{margin:.{decimals if margin >= 0.5 else max(1, decimals)}f}"
    if margin > 0 and float(told) == 0:
        told = _one_digit(margin, decimals + 2)
    return f"{text}{NBSP}±{NBSP}{told}"


def small_percent(value: float) -> str:
    """A share that may be very small: ``0.0029 %``."""
    return f"{number(100 * value) if 100 * value >= 1e-4 or not value else f'{100 * value:.1e}'}{NBSP}%"


def seconds(value: float) -> str:
    """How long something took: ``0.02 s``, ``12 s``, ``3 min 20 s``."""
    if value >= 100:
        return f"{int(value // 60)}{NBSP}min {int(value % 60)}{NBSP}s"
    return f"{value:.2f}{NBSP}s" if value < 10 else f"{value:.0f}{NBSP}s"


def shortened(words: Sequence[str], most: int = 10) -> str:
    """``listed``, but of more than ``most`` words only the first and how many there are besides."""
    if len(words) <= most:
        return listed(words)
    return f"{', '.join(words[:most])} and {len(words) - most} more"


def listed(words: Sequence[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    first, word = ", ".join(words[:-1]), words[-1]
    return f"{first} or {word}" if last == "or" else f"{first} and {word}"


def capital(text: str) -> str:
    """With a capital first letter; the rest as it is."""
    return text[:1].upper() + text[1:]

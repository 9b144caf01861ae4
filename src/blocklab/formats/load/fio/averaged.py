"""fio's logs with a row for each while (``log_avg_msec``), as time series in steps of a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median, median_low

from blocklab.errors import ParseError
from blocklab.formats.load.fio.report import DIRECTIONS, LAYER
from blocklab.model.sample import Phase, Sample

# Log -> metric, divisor, unit. fio's bw log is in KiB/s, its lat log in ns.
SERIES = {"bw": ("bandwidth", 1 / 1024, "B/s"), "iops": ("iops", 1.0, "1/s"), "lat": ("latency.mean", 1e9, "s")}
LOGS = tuple(SERIES)
# By what part of a step a row may be late, and how much more for each step.
_LATE, _DRIFT = 0.05, 0.002
_MOST_SILENT = 86_400
# Seconds by which the stamps of a log differ from the clock.
_JITTER = 0.02


def samples(kind: str, log: bytes, host: str, name: str, during: Phase | None) -> Iterator[Sample]:
    """The samples of one log (``kind`` of ``LOGS``) of phase ``name``; raises ``ParseError``."""
    metric, divisor, unit = SERIES[kind]
    # Of a job that is over within two seconds each clone has one row: nothing goes back, but all are at one time.
    lines = log.decode(errors="replace").splitlines()
    for direction, time, value in series([lines], mean=kind == "lat", apart=_JITTER, step=1000):
        # fio writes its last rate up to a second after the job's end, as if the job had run until then.
        if kind == "lat" or during is None or time <= during.end + _JITTER:
            yield Sample(f"{direction}.{metric}", value / divisor, unit, LAYER, host, name, time)


def series(
    logs: Sequence[Iterable[str]], *, mean: bool, apart: float = 0.0, step: int = 0
) -> list[tuple[str, float, float]]:
    """Direction, time (s since the epoch) and value of each second of the logs of one job, by their lines.

    The clones of the job (``numjobs``) stand in one log, one after the other, or have a log each. Another clone
    begins where the time of a row is not later than the one before by more than ``apart`` s. The rows of a clone
    within one second (``log_avg_msec`` below 1000) are averaged; the clones are added up, or averaged (``mean``).
    Between a clone's first and its last row fio leaves out a second in which that clone has done nothing: it is 0
    in a sum. A clone that ended more than a second before is 0 as well, so a sum goes on to the last clone's end;
    any other second that lacks a clone is left out of a sum, since it has a part of that clone only. ``step`` is
    ``log_avg_msec``, in ms, where that is known; else it is told from the rows. Raises ``ParseError``.
    """
    rows: list[tuple[int, int, int, int]] = []
    clones: Counter[int] = Counter()
    steps: list[int] = []
    for log in logs:
        last: dict[int, int] = {}
        for way, stamp, value in _rows(log):
            if way not in last or stamp - last[way] <= apart * 1000:
                clones[way] += 1
            else:
                steps.append(stamp - last[way])
            last[way] = stamp
            rows.append((way, clones[way], stamp, value))
    if not rows:
        return []
    first = min(stamp for _, _, stamp, _ in rows)
    if not mean:
        rows = list(_unbroken(rows, step or median_low(steps or [1000])))
    # A row tells of the time before it; stamps are some ms off.
    step = step or (min(1000, 50 * round(median(steps) / 50)) if steps else 1000)
    seconds: dict[tuple[int, int], dict[int, list[int]]] = {}
    for way, clone, stamp, value in rows:
        second = int((stamp - first + step / 2) // 1000)
        seconds.setdefault((way, second), {}).setdefault(clone, []).append(value)
    ends: dict[tuple[int, int], int] = {}
    for (way, second), by in sorted(seconds.items()):
        ends |= {(way, clone): second for clone in by}
    found = []
    for (way, second), by in sorted(seconds.items()):
        missing = [end for (of, clone), end in ends.items() if of == way and clone not in by]
        if mean or all(end < second - 1 for end in missing):
            parts = [fmean(values) for values in by.values()]
            at = (first + 1000 - step) / 1000 + second
            found.append((DIRECTIONS[way], at, fmean(parts) if mean else sum(parts)))
    return found


def _unbroken(rows: Sequence[tuple[int, int, int, int]], step: float) -> Iterator[tuple[int, int, int, int]]:
    """Rates of direction and clone, one every ``step`` ms, with those that fio left out. Raises ``ParseError``.

    Where nothing was done it writes none, so that the next one comes whole steps later. One that is late by
    anything else is of an fio that was itself held up: its rate is of all the time since the one before.
    """
    last: dict[tuple[int, int], int] = {}
    filled = 0
    for way, clone, stamp, value in rows:
        away = (stamp - last.get((way, clone), stamp - step)) / step
        last[way, clone] = stamp
        lacking = round(away) - 1
        filled += max(0, lacking)
        if filled > _MOST_SILENT:
            problem = f"the times in its log jump by {away * step / 1000:,.0f} s: a damaged row, or two runs"
            raise ParseError("fio", problem, hint="cut it into a file for each run")
        # It wakes up some ms late each time.
        idle = abs(away - round(away)) <= _LATE + _DRIFT * away
        for back in range(lacking, 0, -1):
            yield way, clone, round(stamp - back * step), 0 if idle else value
        yield way, clone, stamp, value


def _rows(log: Iterable[str]) -> Iterator[tuple[int, int, int]]:
    """Direction, time (ms) and value. Raises ``ParseError``."""
    # 1795232906580, 4003, 1, 0, 0                          time (ms), value, direction, block size, offset
    for line in log:
        try:
            stamp, value, way = (int(part) for part in line.split(",")[:3])
        except ValueError as error:
            raise ParseError("fio", "a line of its log is not: time, value, direction, ...", line) from error
        if not 0 <= way < len(DIRECTIONS) or value < 0:
            raise ParseError("fio", "its log has an unknown direction or a negative value", line)
        yield way, stamp, value

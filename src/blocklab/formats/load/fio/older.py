"""fio's JSON of older versions, in the form of a later one: 2.x has microseconds and KiB, 3.0 to 3.11 no bytes."""

from __future__ import annotations

from typing import Any

from blocklab.formats.load.fio.report import DIRECTIONS

# What a remark names the fields that an older fio does not write.
_NO_BYTES = "no bw_bytes: bandwidth is bytes over running time"
_MICROSECONDS = "no lat_ns: latencies are microseconds"
_NO_COUNT = "no total_ios: the number of I/Os is IOPS times running time"
_NO_STAMP = "no timestamp: when it ran is not known"
_NO_OPTIONS = "no job options: its jobs cannot be laid out"


def brought_up(document: Any) -> tuple[Any, tuple[str, ...]]:
    """One JSON of any fio in the form of 3.12 and later, with a remark for each field that it lacks.

    What has another form than fio's is left as it is: reading it says what is wrong.
    """
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        return document, ()
    lacks: dict[str, None] = {}
    found = {**document, "jobs": [_job(job, lacks) for job in jobs]}
    # fio 2.1 has neither, 2.8 whole seconds only
    if "timestamp_ms" not in found and isinstance(found.get("timestamp"), int):
        found["timestamp_ms"] = 1000 * found["timestamp"]
    if "timestamp_ms" not in found:
        lacks[_NO_STAMP] = None
    if "global options" not in found and not any("job options" in job for job in jobs):
        lacks[_NO_OPTIONS] = None
    return found, tuple(lacks)


def _job(job: dict[str, Any], lacks: dict[str, None]) -> dict[str, Any]:
    ways = {way: _direction(job[way], lacks) for way in DIRECTIONS if isinstance(job.get(way), dict)}
    # fio before 2.0.10 knows no trims
    return {**job, **({"trim": _NOTHING} if "trim" not in job and ways else {}), **ways}


def _direction(way: dict[str, Any], lacks: dict[str, None]) -> dict[str, Any]:
    found = dict(way)
    try:
        runtime = _number(way["runtime"])
        if "bw_bytes" not in way:
            # Up to 2.x io_bytes is in KiB, whatever its name; then io_kbytes came.
            found["io_bytes"] = _number(way["io_bytes"]) * (1 if "io_kbytes" in way else 1024)
            found["bw_bytes"] = found["io_bytes"] * 1000 / runtime if runtime else _number(way["bw"]) * 1024
            lacks[_NO_BYTES] = None
        if "total_ios" not in way:
            found["total_ios"] = round(_number(way["iops"]) * runtime / 1000)
            lacks[_NO_COUNT] = None
        if "lat_ns" not in way:
            found |= {f"{name}_ns": _nanoseconds(way[name]) for name in ("lat", "clat") if name in way}
            lacks[_MICROSECONDS] = None
    except (KeyError, TypeError, AttributeError, ArithmeticError, ValueError):
        # Not fio's: reading it says so.
        return way
    return found


def _nanoseconds(latency: dict[str, Any]) -> dict[str, Any]:
    """``mean``, ``stddev``, ``max`` and percentiles, of which fio 2 fills up its list by ``"0.00": 0``."""
    found: dict[str, Any] = {name: 1000 * _number(latency[name]) for name in ("mean", "stddev", "max")}
    percentile = latency.get("percentile", {}).items()
    return {**found, "percentile": {name: 1000 * _number(value) for name, value in percentile if name != "0.00"}}


def _number(value: Any) -> float:
    """Raises ``TypeError`` for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return value


_NONE = {"mean": 0.0, "stddev": 0.0, "max": 0.0}
_NOTHING = {"io_bytes": 0, "bw_bytes": 0, "iops": 0.0, "runtime": 0, "total_ios": 0, "lat_ns": _NONE}

"""HammerDB's TPROC-C: what it prints or logs, its time profile, a job's result, and the transaction counter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from blocklab.formats.clock import Clock, Stamp, stamp
from blocklab.formats.found import Found, found_in
from blocklab.formats.json_documents import number
from blocklab.formats.text import Bad, Refused, Text, one_run
from blocklab.model import outside
from blocklab.model.sample import Phase, Sample

TOOL = LAYER = "hammerdb"
_OF = r'^[ \t"]*(?:Vuser \d+:)?'
# Vuser 1:TEST RESULT : System achieved 8153 NOPM from 24772 MySQL TPM                             (4.0 on)
# Vuser 1:TEST RESULT : System achieved 60501 SQL Server TPM at 13207 NOPM                         (before)
#   "TEST RESULT : System achieved 0 Oracle TPM at 27975 NOPM",                                    (job, as JSON)
_ANY = re.compile(rf"{_OF}TEST RESULT : System achieved ", re.MULTILINE)
_RESULT = re.compile(
    rf"{_OF}TEST RESULT : System achieved (?:(?P<nopm>\d+) NOPM from (?P<tpm>\d+) (?P<database>[A-Za-z][\w ]*) TPM"
    rf'|(?P<tpm2>\d+) (?P<database2>[A-Za-z][\w ]*) TPM at (?P<nopm2>\d+) NOPM)["\s,]*$'
)
# Vuser 1:Beginning rampup time of 5 minutes      Vuser 1:Timing test period of 10 in minutes
_LASTS = re.compile(rf"{_OF}Timing test period of (\d+) in minutes")
# Vuser 1:Test complete, Taking end Transaction Count.
# Timestamp 1 @ Fri Jan 18 12:15:37 MST 2019                              (with log_timestamps)
_COMPLETE = re.compile(rf"{_OF}Test complete, ")
_STAMP = re.compile(r"Timestamp \d+ @ (.*)")
_FAILED = re.compile(r"^(?:Vuser \d+:)?FINISHED FAILED|^Error in Virtual User (\d+)")
# Hammerdb Transaction Counter Log @ Thu Jun 30 22:43:39 UTC 2022
# 324540 PostgreSQL tpm @ Thu Jun 30 22:43:41 UTC 2022
_COUNTER = re.compile(r"^Hammerdb Transaction Counter Log @ ", re.MULTILINE)
_COUNT = re.compile(r"(?P<tpm>\d{1,12}) [A-Za-z][\w ]* tpm @ (?P<time>[A-Z].*\d)")
_RULER = re.compile(r"(?:\+-)+\+?-?")
# MySQL Hammerdb Time Profile Report @ Thu Jan 27 05:47:26 UTC 2022
# >>>>> SUMMARY OF 8 ACTIVE VIRTUAL USERS : MEDIAN ELAPSED TIME : 904548ms
# >>>>> PROC: NEWORD
# CALLS: 322104MIN: 2.269msAVG: 9.236msMAX: 36.366msTOTAL: 2975206.250ms      (some have tabs in between)
# P99: 14.197msP95: 12.399msP50: 9.087msSD: 1808.882RATIO: 41.115%
_PROFILE = re.compile(
    r"^\w+ Hammerdb Time Profile Report @ |^>>>>> SUMMARY OF \d+ ACTIVE VIRTUAL USERS", re.MULTILINE
)
_SUMMARY = re.compile(r"^>>>>> SUMMARY OF (\d+) ACTIVE VIRTUAL USERS")
_PROC = re.compile(r"^>>>>> PROC: (\w+)$")
_N = r"\s*(\d+\.\d+)ms\s*"
_TIMES = re.compile(rf"^CALLS:\s*(\d+)\s*MIN:{_N}AVG:{_N}MAX:{_N}TOTAL:{_N}$")
_RANKS = re.compile(rf"^P99:{_N}P95:{_N}P50:{_N}SD:\s*(\d+\.\d+)\s*RATIO:\s*\d+\.\d+%\s*$")
# "NEWORD": {"elapsed_ms": "238147.5", "calls": "173647", "min_ms": "1.942", "avg_ms": "7.083", ...   (job, timing)
_TIMING = re.compile(r'^\{\s*"(?:NEWORD|PAYMENT|DELIVERY|SLEV|OSTAT)"\s*:\s*\{', re.MULTILINE)
_KINDS = {
    "NEWORD": "new_order", "PAYMENT": "payment", "DELIVERY": "delivery", "SLEV": "stock_level",
    "OSTAT": "order_status",
}  # fmt: skip
_JSON = {
    "avg_ms": "mean", "min_ms": "min", "max_ms": "max", "p99_ms": "p99", "p95_ms": "p95", "p50_ms": "p50",
}  # fmt: skip


def fits(head: str) -> bool:
    """Whether this is what a run of HammerDB prints or logs, or the result of a job."""
    said = re.search(rf"{_OF}(?:TEST RESULT : System|Beginning rampup time of )", head, re.MULTILINE)
    return said is not None or (_TIMING.search(head) is not None and '"avg_ms"' in head)


def fits_profile(head: str) -> bool:
    """Whether this is the report of its time profile (``xtprof``)."""
    return _PROFILE.search(head) is not None


def fits_counter(head: str) -> bool:
    """Whether this is the log of its transaction counter."""
    return _COUNTER.search(head) is not None


def read(text: Text) -> Found:
    """NOPM, TPM, and the latencies that the timing of a job has. Raises ``Refused`` without a result, or of
    several runs."""
    one_run(text.lines, _ANY)
    timing = list(_timing(text.text))
    at = next((at for at, line in enumerate(text.lines) if _ANY.match(line)), None)
    result = _RESULT.match(text.lines[at]) if at is not None else None
    if result is None and (at is not None or not timing):
        raise Refused("HammerDB without a whole line 'TEST RESULT : System achieved ...': the run did not end")
    samples = [*(_result(result) if result else ()), *timing]
    remarks = []
    if result:
        database = result["database"] or result["database2"]
        remarks.append(f"TPS is TPM/60 of what {database} calls a transaction: compare NOPM between databases")
    failed = sum(_FAILED.match(line) is not None for line in text.lines)
    if failed:
        remarks.append(f"{failed} of its virtual users failed")
    lasts = next((int(match[1]) for line in text.lines if (match := _LASTS.match(line))), None)
    if any("|PERCENTILES " in line for line in text.lines):
        remarks.append("its time profile is of one virtual user (etprof): not used")
    begin, end = _stamped(text.lines, _LASTS), _stamped(text.lines, _COMPLETE)
    if begin is not None and end is not None:
        return found_in(
            text, "hammerdb", bad=(), remarks=remarks, rows=len(samples), tool=TOOL, samples=tuple(samples),
            phases=(Phase(TOOL, 0.0, 1.0),), clock=Clock((begin, end)),
        )  # fmt: skip
    if lasts:
        remarks.append(f"its test took {lasts} minutes; it does not say when (no log_timestamps)")
    return found_in(
        text, "hammerdb", bad=(), remarks=remarks, rows=len(samples), tool=TOOL, samples=tuple(samples)
    )


def _stamped(lines: Sequence[str], said: re.Pattern[str]) -> Stamp | None:
    """When it said something, as the line below tells; None without one."""
    for line, below in pairwise(line for line in lines if line.strip()):
        if said.match(line) and (match := _STAMP.fullmatch(below.strip())):
            return stamp(match[1])
    return None


def _result(match: re.Match[str]) -> Iterator[Sample]:
    nopm, tpm = float(match["nopm"] or match["nopm2"]), float(match["tpm"] or match["tpm2"])
    yield Sample("nopm", nopm, "1/min", LAYER, "")
    # Without the right to read the counters it has none.
    if tpm:
        yield Sample("tps", tpm / 60, "1/s", LAYER, "")


def _timing(text: str) -> Iterator[Sample]:
    """The response times of a job, as its JSON has them."""
    match = _TIMING.search(text)
    if match is None:
        return
    try:
        procs, _ = outside.next_json(text, match.start())
    except ValueError:
        return
    for proc, row in procs.items():
        values = {name: number(str(row[name])) for name in ("calls", *_JSON) if name in row} if isinstance(
            row, dict) else {}  # fmt: skip
        if proc in _KINDS and values and None not in values.values():
            known = {name: value for name, value in values.items() if value is not None}
            calls = known.pop("calls", None)
            yield from _latencies(proc, calls, {_JSON[name]: value / 1e3 for name, value in known.items()})


def _latencies(proc: str, calls: float | None, values: Mapping[str, float]) -> Iterator[Sample]:
    kind = _KINDS[proc]
    if calls is not None:
        yield Sample(f"{kind}.count", calls, "1", LAYER, "")
    for name, value in values.items():
        yield Sample(f"{kind}.latency.{name}", value, "s", LAYER, "")


def profile(text: Text) -> Found:
    """The latencies of each kind of transaction, of all virtual users together. Raises ``Refused`` without a
    summary."""
    one_run(text.lines, _SUMMARY)
    samples: list[Sample] = []
    bad: list[Bad] = []
    users, proc, timed = "", "", ""
    for at, line in enumerate(text.lines, 1):
        # The two rows of a kind stand just below its name.
        above, proc, before, timed = proc, "", timed, ""
        if match := _SUMMARY.match(line):
            users = match[1]
        elif not users:
            continue
        elif match := _PROC.match(line):
            proc = match[1]
        elif (match := _TIMES.match(line)) and above in _KINDS:
            timed = above
            times = zip(("min", "mean", "max"), match.group(2, 3, 4), strict=True)
            samples += _latencies(above, float(match[1]), {name: float(value) / 1e3 for name, value in times})
        elif (match := _RANKS.match(line)) and before:
            times = zip(("p99", "p95", "p50"), match.group(1, 2, 3), strict=True)
            # The deviation is in microseconds.
            deviation = {"stddev": float(match[4]) / 1e6}
            samples += _latencies(before, None, {name: float(value) / 1e3 for name, value in times} | deviation)
        elif line.startswith(("CALLS:", "P99:")):
            bad.append(Bad(at, line))
    if not samples:
        raise Refused("HammerDB's time profile without its summary of all virtual users")
    return found_in(
        text, "hammerdb-profile", bad=bad, remarks=[f"its summary of {users} virtual users"], rows=len(samples),
        tool=TOOL, samples=tuple(samples),
    )  # fmt: skip


def counter(text: Text) -> Found:
    """TPS over time. Raises ``Refused``."""
    one_run(text.lines, _COUNTER)
    stamps: list[Stamp] = []
    samples: list[Sample] = []
    bad: list[Bad] = []
    for line_number, line in enumerate(text.lines, 1):
        match = _COUNT.fullmatch(line.strip())
        at = stamp(match["time"]) if match else None
        if match and at is not None:
            # The first one has nothing to count from.
            if stamps:
                samples.append(Sample("tps", float(match["tpm"]) / 60, "1/s", LAYER, "", time=float(len(stamps))))
            stamps.append(at)
        elif line.strip() and not _COUNTER.match(line) and not _RULER.fullmatch(line.strip()):
            bad.append(Bad(line_number, line))
    if not samples:
        raise Refused("HammerDB's transaction counter without two whole lines")
    remarks = ["TPS is tpm/60 of all that the database did, the ramp-up too: it gives no value of the run"]
    return found_in(
        text, "hammerdb-counter", bad=bad, remarks=remarks, rows=len(samples), tool=TOOL, samples=tuple(samples),
        phases=(Phase(TOOL, 0.0, len(stamps) - 1.0),), clock=Clock(tuple(stamps)),
    )  # fmt: skip

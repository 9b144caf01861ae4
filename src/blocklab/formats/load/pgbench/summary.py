"""What pgbench prints: a summary, and progress lines (``-P``)."""

from __future__ import annotations

import re
from collections import Counter

from blocklab.errors import ParseError
from blocklab.formats.found import Found, found_in
from blocklab.formats.text import Bad, Refused, Text, has_commas, one_run, points, refusal
from blocklab.model.sample import Sample

LAYER = "pgbench"

# number of transactions actually processed: 10000/10000
# number of failed transactions: 0 (0.000%)                               (since PostgreSQL 15)
# number of transactions skipped: 181 (3.040%)                            (with --rate and --latency-limit)
# number of transactions retried: 4531 (35.000%)                          (with --max-tries, since 15)
# total number of retries: 9876
# latency average = 2.889 ms
# latency stddev = 1.982 ms                                               (only with -P, -L, -R or --log)
# initial connection time = 22.726 ms                                     (since PostgreSQL 14)
# tps = 3397.299962 (without initial connection time)
# tps = 1182.956212 (excluding connections establishing)                  (before PostgreSQL 14)
# tps = 312.104117 (including reconnection times)                         (with --connect)
_NUMBER = r"(\d+(?:\.\d+)?)"
_SUMMARY: dict[str, tuple[re.Pattern[str], float, str]] = {
    metric: (re.compile(rf"^{line}$", re.MULTILINE), divisor, unit)
    for metric, line, divisor, unit in (
        ("transactions", r"number of transactions actually processed: (\d+)(?:/\d+)?", 1.0, "1"),
        ("skipped", r"number of transactions skipped: (\d+) \(.*\)", 1.0, "1"),
        ("retried", r"number of transactions retried: (\d+) \(.*\)", 1.0, "1"),
        ("retries", r"total number of retries: (\d+)", 1.0, "1"),
        ("failed", r"number of failed transactions: (\d+) \(.*\)", 1.0, "1"),
        ("latency.mean", rf"latency average(?: =|:) {_NUMBER} ms(?: \(including failures\))?", 1e3, "s"),
        ("latency.stddev", rf"latency stddev(?: =|:) {_NUMBER} ms", 1e3, "s"),
        ("connect", rf"(?:initial|average) connection time = {_NUMBER} ms", 1e3, "s"),
        ("tps", rf"tps = {_NUMBER} \((?:without initial|excluding|including reconn).*\)", 1.0, "1/s"),
    )
}
# All that a run may report.
METRICS = (*_SUMMARY, *(f"latency.{name}" for name in ("p50", "p95", "p99", "max")))
_REQUIRED = ("tps", "transactions", "latency.mean")
# Before PostgreSQL 9.4 pgbench said no latency unless it was asked to (-r, -R).
_OLD = ("tps", "transactions")
# Runs of ours retry nothing.
_NOT_OWN = ("retried", "retries")

# progress: 1795232995.283 s, 3253.9 tps, lat 2.986 ms stddev 2.108, 0 failed
# progress: 1795233003.300 s, 879.9 tps, lat 1.463 ms stddev 0.958, 0 failed, lag 0.128 ms, 4 skipped, ...
# progress: 5.0 s, 0.0 tps, lat -nan ms stddev -nan                    (before 15, a second without any)
_PROGRESS = re.compile(
    rf"^progress: {_NUMBER} s, {_NUMBER} tps, lat (?:{_NUMBER}|-?nan) ms stddev (?:{_NUMBER}|-?nan)(?:,.*)?$"
)
# Relative times are below this, those since the epoch above it.
_EPOCH = 1e9
# ... 12 failed, lag 0.128 ms, 4 skipped, 3 retried, 5 retries
_COUNTED = re.compile(r", (\d+) (failed|skipped|retried|retries)\b")
# Times since the epoch are above this, those since the start below it.
_DATED = 1e8
# number of transactions actually processed: 10000/10000
_RUN = re.compile(r"number of transactions actually processed: ")
# progress: 5.0 s, 879.9 tps, lat 1.463 ms stddev 0.958, 0 failed
_BEGINS = re.compile(r"^progress: \d+\.\d s, \d", re.MULTILINE)


def fits(head: str) -> bool:
    """Whether this is what pgbench prints at the end."""
    return (
        re.search(r"^(?:transaction type:|number of transactions actually processed:)", head, re.MULTILINE)
        is not None
    )


def fits_progress(head: str) -> bool:
    """Whether these are the lines of ``-P`` without a summary: of a cut run, or stderr alone."""
    return _BEGINS.search(head) is not None and not fits(head)


def values(out: bytes, err: bytes, host: str, *, own: bool = True) -> list[Sample]:
    """The values of the whole run; ``own``: of a run of ours, which says the latency. Raises ``ParseError``."""
    text, said = out.decode(errors="replace"), err.decode(errors="replace")
    # PostgreSQL 17 prints the whole summary even then.
    if "Run was aborted" in said or "Run was aborted" in text:
        raise ParseError("pgbench", "the run was aborted, its values are incomplete", said)
    # With several scripts, the values of each follow (" - latency average = ..."): indented, so never matched.
    samples = []
    for metric, (pattern, divisor, unit) in _SUMMARY.items():
        if own and metric in _NOT_OWN:
            continue
        if match := pattern.search(text):
            samples.append(Sample(metric, float(match[1]) / divisor, unit, LAYER, host))
        elif metric in (_REQUIRED if own else _OLD):
            raise ParseError("pgbench", f"no {metric} in its summary", text + said)
    if not any(sample.metric == "transactions" and sample.value for sample in samples):
        raise ParseError("pgbench", "no transaction was completed", text + said)
    return samples


def series(err: bytes, host: str, start: float | None) -> list[Sample]:
    """The time series in steps of a second: ``tps`` (1/s), ``latency.mean`` (s) where a transaction ended.

    ``start`` (seconds since the epoch) is needed for lines with relative times; without it they give nothing.
    Raises ``ParseError`` for a progress line of another form.
    """
    samples: list[Sample] = []
    lines = err.decode(errors="replace").splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("progress: "):
            continue
        match = _PROGRESS.match(line)
        if match is None:
            if number == len(lines) - 1 and not err.endswith(b"\n"):
                break  # cut while it was written
            raise ParseError("pgbench", "a progress line has an unknown form", line)
        time, tps, latency = float(match[1]), float(match[2]), match[3]
        if time < _EPOCH:
            if start is None:
                continue
            time += start
        samples.append(Sample("tps", tps, "1/s", LAYER, host, time=time))
        if tps and latency is not None:
            samples.append(Sample("latency.mean", float(latency) / 1e3, "s", LAYER, host, time=time))
    return samples


def read(text: Text) -> Found:
    """The values of the whole run, and the time series of ``-P`` where it has times. Raises ``Refused``."""
    remarks = list(text.remarks)
    lines = [*text.lines, text.cut] if text.cut.strip() else list(text.lines)
    one_run(lines, _RUN)
    said = [index for index, line in enumerate(lines) if re.search(r"(?:= |: )\d+,\d+ ", line)]
    if said:
        remarks.append(f"line {said[0] + 1}: decimal commas, read as points")
        lines = [points(line) if index in said else line for index, line in enumerate(lines)]
    whole = "".join(f"{line}\n" for line in lines).encode()
    try:
        samples = values(whole, b"", "", own=False)
        samples += series(whole, "", 0.0)
    except ParseError as error:
        raise refusal(error) from error
    times = [sample.time for sample in samples if sample.time is not None]
    if not any(sample.metric == "latency.mean" and sample.time is None for sample in samples):
        remarks.append("it has no latency average: this pgbench did not say it")
    timed = min(times, default=0.0) > _DATED
    undated = ""
    if times and not timed:
        undated = (
            "its time series (-P) has no times (--progress-timestamp): it is put on 1970-01-01, or where the log "
            "beside it begins"
        )
    return Found(
        kind="pgbench", path=text.path, rows=len(samples), tool=LAYER, samples=tuple(samples),
        start=min(times) - 1 if timed else None, end=max(times) if timed else None, undated=undated,
        remarks=tuple(remarks),
    )  # fmt: skip


def read_progress(text: Text) -> Found:
    """The time series of ``-P``, and its means: there is no summary. Raises ``Refused``."""
    if any(_RUN.match(line) for line in text.lines):
        # Behind more lines than are looked at to see what a file is.
        return read(text)
    samples: list[Sample] = []
    bad: list[Bad] = []
    counted: Counter[str] = Counter()
    commas = 0
    for number, line in enumerate(text.lines, 1):
        if not line.startswith("progress: "):
            continue
        counted.update({name: int(count) for count, name in _COUNTED.findall(line)})
        if has_commas(line.replace(", ", " ")):
            commas = commas or number
            line = points(line)
        try:
            samples += series(f"{line}\n".encode(), "", 0.0)
        except ParseError:
            bad.append(Bad(number, line))
    rates = [sample for sample in samples if sample.metric == "tps"]
    waits = [sample for sample in samples if sample.metric != "tps"]
    if not rates:
        raise Refused("looks like pgbench -P, but has no complete line")
    times = [sample.time or 0.0 for sample in rates]
    remarks = [f"it has no summary: TPS and latency are means over its {len(rates)} lines of -P"]
    if commas:
        remarks.append(f"line {commas}: decimal commas, read as points")
    timed = min(times) > _DATED
    undated = "its lines have no times (--progress-timestamp): they are put on 1970-01-01"
    # Each line stands for the same time; of the latencies one with more transactions counts more.
    done = {sample.time: sample.value for sample in rates}
    means = [Sample("tps", sum(done.values()) / len(rates), "1/s", LAYER, "")]
    if total := sum(done[sample.time] for sample in waits):
        mean = sum(sample.value * done[sample.time] for sample in waits) / total
        means.append(Sample("latency.mean", mean, "s", LAYER, ""))
    means += [Sample(name, float(count), "1", LAYER, "") for name, count in counted.items() if count]
    return found_in(
        text, "pgbench-progress", bad=bad, remarks=remarks, rows=len(rates), tool=LAYER,
        samples=(*means, *samples), start=min(times) - 1 if timed else None, end=max(times) if timed else None,
        undated="" if timed else undated,
    )  # fmt: skip

"""What blocklab makes fio report of its own runs, and which part of that it takes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from blocklab.formats.load.fio.averaged import LOGS
from blocklab.formats.load.fio.report import PERCENTILES
from blocklab.model.metrics import metric as metric_of
from blocklab.model.sample import Parsed, Sample

# What fio is told about reports and logs, at the end of each section, whatever stands before.
OURS: Mapping[str, str] = {
    # numjobs clones are one value; new_group keeps sections that run together apart
    "new_group": "1", "group_reporting": "1", "per_job_logs": "0", "log_avg_msec": "1000", "log_unix_epoch": "1",
    "lat_percentiles": "1", "clat_percentiles": "0", "slat_percentiles": "0",
    "percentile_list": ":".join(f"{percent:g}" for percent in PERCENTILES),
    # and the prefix of its name, which differs from section to section
    **{f"write_{kind}_log": "" for kind in LOGS},
}  # fmt: skip


def without_start(parsed: Parsed) -> Parsed:
    """The same with IOPS and bandwidth of each phase from its first logged second on.

    A capped volume saves up while nobody asks for anything, e.g. a tenth of a second's worth of requests, and
    gives them at once: 2 % too much in 5 s. Latencies and counts stay those of the whole; so do rates where there
    is no log, or less than a second is left.
    """
    starts = {phase.name: phase.start for phase in parsed.phases}
    first: dict[tuple[str, str], Sample] = {}
    whole: dict[tuple[str, str], float] = {}
    for sample in parsed.samples:
        key = (sample.phase, sample.metric)
        if sample.time is None:
            whole[key] = sample.value
        elif key not in first or sample.time < (first[key].time or 0.0):
            first[key] = sample
    changed = []
    for sample in parsed.samples:
        known = metric_of(sample.metric)
        begun = first.get((sample.phase, sample.metric))
        if sample.time is None and known.amount and begun is not None and sample.value and sample.phase in starts:
            amount = whole[sample.phase, known.beside(known.amount)]
            cut = (begun.time or 0.0) - starts[sample.phase]
            left = amount / sample.value - cut
            if cut > 0 and left >= 1:
                rate = max(0.0, amount - begun.value * cut) / left
                sample = msgspec.structs.replace(sample, value=rate)
        changed.append(sample)
    return msgspec.structs.replace(parsed, samples=tuple(changed))

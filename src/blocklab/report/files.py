"""The twins of the page for programs: report.csv and report.json."""

from __future__ import annotations

import csv
import io

import msgspec

from blocklab.stats.analysis import Analysis
from blocklab.stats.findings import Findings

FORMAT = 1
COLUMNS = (
    "study", "stack", "workload", "phase", "metric", "value", "unit", "layer", "host", "relative", "half_width",
)  # fmt: skip


def as_csv(analysis: Analysis) -> str:
    """One line a figure, in base units (s, B/s, 1/s, %).

    ``relative`` is the ratio to the baseline's figure and ``half_width`` that of the 95 % interval within the
    run, in ``unit``; both are empty where there is none.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in analysis.rows:
        relative = "" if row.relative is None else f"{row.relative.value:.6g}"
        half = "" if row.half is None else f"{row.half:.6g}"
        writer.writerow(
            [analysis.study.name, row.stack, row.workload, row.phase, row.metric, f"{row.value:.9g}", row.unit,
             row.layer, row.host, relative, half]
        )  # fmt: skip
    return out.getvalue()


def as_json(analysis: Analysis, found: Findings) -> bytes:
    """The whole analysis: question, findings, verdicts, gaps and figures."""
    study = analysis.study
    document = {
        "format": FORMAT,
        "study": study.name,
        "question": study.question,
        "baseline": analysis.baseline,
        "quick": analysis.quick,
        "stacks": list(study.stacks),
        "workloads": list(study.workloads),
        "findings": found,
        "verdicts": [
            {
                "status": verdict.status,
                "says": verdict.claim.says,
                "sentence": verdict.sentence,
                "metric": verdict.claim.metric,
                "stack": verdict.claim.stack,
                "workload": verdict.claim.workload,
                "phase": verdict.claim.phase,
                "relative_to": verdict.claim.relative_to,
                "against": verdict.claim.against,
                "source": verdict.claim.source,
                "found": verdict.found,
                "half_width": verdict.half,
                "between": [verdict.low, verdict.high],
                "close": verdict.close,
            }
            for verdict in analysis.verdicts
        ],
        "gaps": analysis.gaps,
        "figures": analysis.rows,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"

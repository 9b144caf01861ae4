"""A study's expectations in the words of the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blocklab.stats.expect import NOT_DECIDED, Verdict
from blocklab.stats.format import listed


def claim_text(verdict: Verdict) -> str:
    """A claim's own words with what became of it; never the bare claim when it does not hold."""
    says = verdict.claim.says.strip().rstrip(".")
    if verdict.status == "ok":
        return f"Confirmed: {says}."
    if verdict.status == "failed":
        found = verdict.sentence.rstrip(".")
        return f"Not confirmed: “{says}”. Instead, {found}; expected {verdict.expected}."
    return f"Undecided: “{says}”: {verdict.sentence.removeprefix(NOT_DECIDED)}"


def claims(verdicts: Sequence[Verdict], told: Sequence[Verdict]) -> Iterator[str]:
    """How many claims hold, and in full those that do not, or may not, but for what is ``told`` already."""
    if not verdicts:
        return
    counted = {status: sum(v.status == status for v in verdicts) for status in ("ok", "failed", "unknown")}
    words = {"ok": "confirmed", "failed": "not confirmed", "unknown": "undecided"}
    said = listed([f"{count} {words[status]}" for status, count in counted.items() if count])
    if len(verdicts) == 1:
        yield f"The one expectation of the study is {words[verdicts[0].status]}."
    elif counted["ok"] == len(verdicts):
        yield f"All {len(verdicts)} expectations of the study are confirmed."
    else:
        yield f"Of the study's {len(verdicts)} expectations: {said}."
    for verdict in verdicts:
        # What is confirmed stands in the table of expectations; what is not must be met here too.
        doubted = verdict.status == "failed" or (verdict.close and verdict.status == "unknown")
        if not doubted or verdict in told:
            continue
        if verdict.claim.says:
            yield claim_text(verdict)
        elif verdict.status == "failed":
            yield f"Not confirmed: {verdict.sentence.rstrip('.')}; expected {verdict.expected}."
        else:
            yield verdict.sentence

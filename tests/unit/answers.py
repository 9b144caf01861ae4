"""The answer of an analysis in words, as the page and the terminal have it."""

from __future__ import annotations

from blocklab.stats.analysis import Analysis
from blocklab.stats.findings import findings
from blocklab.stats.sentences import Answer, answer


def answered(analysis: Analysis) -> Answer:
    """Its sentences."""
    return answer(findings(analysis))

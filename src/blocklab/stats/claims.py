"""How many of a study's expectations hold: a sentence of the answer. Their table has each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blocklab.stats.expect import Verdict
from blocklab.stats.format import listed

_WORDS = {"ok": "confirmed", "failed": "not confirmed", "unknown": "undecided"}


def expectations(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """``Expectations of the study: 2 confirmed and 1 not confirmed.``; nothing without any."""
    counts = {word: sum(each.status == status for each in verdicts) for status, word in _WORDS.items()}
    said = [f"{count} {word}" for word, count in counts.items() if count]
    if verdicts:
        yield f"Expectations of the study: {listed(said)}."

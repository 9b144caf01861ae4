"""Each template says what its finding has, once."""

from __future__ import annotations

from typing import get_args

import pytest

from blocklab.stats.finding import Finding, FindingKind, Number
from blocklab.stats.format import NBSP
from blocklab.stats.sentences import _TEMPLATES, _TEXTS, sentence

WAYS = [
    (Finding("range", "Block I/O", "m", "a's IOPS", (Number(0.1, 0.01, at="x"), Number(0.9, at="y")),
             verdict="keeps"),
     "Block I/O: m keeps from 10 % ± 1 (x) to 90 % (y) of a's IOPS."),
    (Finding("range", stack="m", numbers=(Number(2e-3, 1e-4, "s"), Number(4e-3, None, "s")), verdict="has"),
     "m has from 2.00 ± 0.10 ms to 4.00 ms."),
    (Finding("factor", "tpcc", beside="share of a", numbers=(Number(0.9, at="1"), Number(0.4, at="2")), count=3,
             level="rtt"),
     "tpcc by rtt: the median share of a is 90 % at 1 and 40 % at 2, over all other levels (without an "
     "interval)."),
    (Finding("latency", "4k", "m", numbers=(Number(1e-3, unit="s", name="baseline", at="a"),
                                            Number(2e-3, unit="s", name="latency"),
                                            Number(5e-4, unit="s", name="RTT", at="a2"))),
     "A single write in 4k takes 1.00 ms on a, 2.00 ms on m (a round trip to a2 took 0.5 ms)."),
    (Finding("need", stack="m", numbers=(Number(700, name="asked", at="reads"),), verdict="unknown",
             note="no values"),
     "Whether m carries 700 reads per second is unknown: no values."),
    (Finding("needs", names=("m", "n"), count=2, of=9, verdict="carried"),
     "The need is carried by 2 of 9 layouts: m and n."),
    (Finding("comparisons", numbers=(Number(2, name="differs"), Number(10, name="one build")), of=12),
     "Of 12 comparisons: 2 differ, 10 are of one build each and decide nothing."),
    (Finding("comparisons", numbers=(Number(1, name="differs"), Number(19, name="too noisy to say")), count=20,
             of=20),
     "Of 20 comparisons: 1 differs, 19 are too noisy to say. Without any difference the intervals of 1.00 of 20 "
     "would leave 1 out by chance; what differs here does so among all of them (Holm)."),
    (Finding("unsteady", "m/fio 4k", numbers=(Number(3, name="for"), Number(60, name="of")), count=1,
             of=9, verdict="stalls"),
     "In 1 of 9 cells the rate fell below a third of its median for single seconds (worst: m/fio 4k, 3.00 s "
     "of 60 s). How often such stalls come, a run of this length does not tell: measure longer."),
    (Finding("unsteady", "m/fio 4k", numbers=(Number(9, name="for"), Number(60, name="of"),
                                                     Number(0.4, name="by")), count=1, of=9, verdict="fell"),
     "In 1 of 9 cells the rate fell while it was measured (worst: m/fio 4k, by 40 % after 9.00 s), as where a "
     "burst or a cache is used up. The value is of both parts: measure longer."),
    (Finding("unlike", "link zone", "m", "a", (Number(2e-3, unit="s"), Number(1e-3, unit="s")), 1, 9, ("m/fio",)),
     "In 1 of 9 cells the same volume or link was not as fast as in the baseline's, by more than 25 %: m/fio "
     "(worst: link zone, 2.00 ms in m and 1.00 ms in a). Their ratios say nothing."),
    (Finding("other work", "m/fio", numbers=(Number(0.4),), count=1, of=9, verdict="foreign"),
     "In 1 of 9 cells the machine was busy with other work (worst: m/fio, where other programs took 40 % of its "
     "CPU time): their values are worse and noisier than the layouts' own. End that work or take another machine, "
     "and measure again: blocklab run --again."),
    (Finding("expectations", numbers=(Number(2, name="ok"), Number(1, name="unknown")), of=3),
     "Expectations of the study: 2 confirmed and 1 undecided."),
    (Finding("lost by", "commit", count=1, of=3, level="off", names=("m",)),
     "Something was lost on 1 of 3 layouts with commit=off (m)."),
    (Finding("safe", numbers=(Number(1000, name="acknowledged"), Number(0.63, name="crashes, at most")), count=1,
             of=3, names=("m",)),
     "Nothing that was acknowledged was lost on m: 0 of 3 crashes lost anything (at most 63 % do, 95 %), of "
     "1,000 commits."),
    (Finding("unsafe", verdict="known"), "No layout came through its drills without a loss."),
    (Finding("lost", stack="m", numbers=(Number(5, name="missing"), Number(1000, name="acknowledged"),
                                         Number(4, name="worst"), Number(2, name="torn")), count=2, of=3),
     "Acknowledged transactions were lost on m in 2 of 3 crashes: 5 of 1,000 (0.5 %), at most 4 in one; 2 torn."),
    (Finding("rto", numbers=(Number(2.0, unit="s", name="RTO", at="m", low=1.9, high=2.1),
                             Number(0.9, unit="s", name="stage", at="recovery"))),
     "Writes were accepted again after 2.00 s (1.90 to 2.10) in the median on m; recovery takes the "
     "longest, 900 ms."),
    (Finding("drills", "split brain", names=("m (2)",), count=2), "Split brain: m (2)."),
    (Finding("floor", verdict="unread", note="it is damaged"),
     "The lab's floor could not be read: it is damaged."),
    (Finding("repeats", of=1, verdict="nothing", note="run it with --repeats 3"),
     "Each cell is of one build of its layout. How much another build would differ is not known, so no comparison "
     "is decided (run it with --repeats 3)."),
    (Finding("repeats", about="seed", of=1, verdict="nothing", note="run it with --repeats 3"),
     "Each cell is of one seed. How much another seed would differ is not known, so no comparison is decided (run "
     "it with --repeats 3)."),
    (Finding("repeats", about="seed", count=3, of=3, verdict="repeats", note="3 times"),
     "Everything was measured 3 times, each time from another seed. ± is the 95 % interval over these repeats; "
     "ratios are taken within each repeat."),
    (Finding("repeats", count=1, of=3, verdict="repeats", note="1 to 3 of 3 times"),
     "Everything was measured 1 to 3 of 3 times, each time on layouts that were built again. ± is the 95 % "
     "interval over these repeats; for a cell measured once, within its run; ratios are taken within each "
     "repeat."),
    (Finding("gaps", names=("m/fio (failed)",), count=1, of=9), "1 of 9 cells have no results: m/fio (failed)."),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "said"), WAYS, ids=[f"{found.kind} {found.verdict}" for found, _ in WAYS])
def test_a_template_says_what_the_finding_has(finding: Finding, said: str) -> None:
    assert sentence([finding]).replace(NBSP, " ") == said


def test_every_kind_has_a_template() -> None:
    texts = {name.partition(":")[0] for name in _TEXTS}
    assert {*_TEMPLATES} | texts == {*get_args(FindingKind)} and not {*_TEMPLATES} & texts

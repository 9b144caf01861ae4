"""The answer in plain words: one template for each kind of finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from blocklab.lang import term
from blocklab.model.drill import RECOVERED
from blocklab.stats.analysis import Analysis
from blocklab.stats.drill_findings import drill_details, drill_findings
from blocklab.stats.drills import before_text
from blocklab.stats.finding import Finding, FindingKind, Name, Number
from blocklab.stats.findings import Findings, grouped
from blocklab.stats.floor import LIMITED, NEAR
from blocklab.stats.format import (
    NBSP,
    capital,
    listed,
    number,
    percent,
    plus_minus,
    quantity,
    seconds,
    shortened,
    small_percent,
)
from blocklab.stats.holm import LEVEL
from blocklab.stats.ratio import NOTABLE

Group: TypeAlias = Sequence[Finding]
# So many names of a list, which a table has in full.
MOST_NAMED = 4


class Answer(msgspec.Struct, frozen=True):
    """``lead`` is the answer in a paragraph, ``points`` what supports it, ``caveats`` what limits it."""

    lead: str
    points: tuple[str, ...]
    caveats: tuple[str, ...]


def answer(found: Findings) -> Answer:
    """The findings in words."""
    lead = " ".join(sentence(group) for group in grouped(found.lead))
    return Answer(lead, tuple(map(sentence, found.points)), tuple(sentence([each]) for each in found.caveats))


def drill_points(analysis: Analysis) -> tuple[str, ...]:
    """What the drills of a study found, a sentence each; none in a study without drills."""
    return tuple(map(sentence, grouped([*drill_findings(analysis), *drill_details(analysis)])))


def sentence(group: Group) -> str:
    """What findings of one kind, about one thing, say together."""
    template = _TEMPLATES.get(group[0].kind)
    return template(group) if template is not None else " ".join(map(_plain, group))


def number_text(found: Number) -> str:
    """``48 % ± 2``, ``1,031 ± 12 TPS``."""
    if found.unit:
        return plus_minus(found.value, found.half, found.unit, found.metric)
    return percent(found.value, found.half)


def range_text(group: Group) -> str:
    """``mirror keeps from 3.2 % ± 0.4 (rtt=20ms) to 95 % ± 2 (rtt=0.5ms) of local's tpmC (left out as too noisy,
    or as of unlike machines: 2 of 84 of mirror)``."""
    ranges = [
        f"{each.stack}{f' ({each.note})' if each.note else ''} {term(each.verdict)} {_ends(each)}"
        for each in group
        if each.numbers
    ]
    left = [f"{each.count} of {each.of} of {each.stack}" for each in group if each.count]
    beside = group[0].beside
    if not ranges:
        are = "is" if len(group) == 1 else "are"
        names = listed([each.stack for each in group])
        return f"{names} {are} too noisy, or of unlike machines, to tell a share of {beside}"
    text = f"{'; '.join(ranges)}{f' of {beside}' if beside else ''}"
    return text + (f" (left out as too noisy, or as of unlike machines: {listed(left)})" if left else "")


def _ends(found: Finding) -> str:
    texts = [number_text(each) for each in found.numbers]
    if len({text.partition(f"{NBSP}±")[0] for text in texts}) == 1:
        # All alike: with the wider of the two intervals.
        widest = max(found.numbers, key=lambda each: -1.0 if each.half is None else each.half)
        return f"{number_text(widest)}{' throughout' if len(texts) > 1 else ''}"
    places = [f" ({each.at})" if each.at else "" for each in found.numbers]
    return f"from {texts[0]}{places[0]} to {texts[1]}{places[1]}"


def _range(group: Group) -> str:
    about = group[0].about
    return f"{f'{about}: ' if about else ''}{range_text(group)}."


def _factor(group: Group) -> str:
    found = group[0]
    single = found.count == 1
    what = f"{'' if single else 'median '}{found.beside}"
    values = [each.value for each in found.numbers]
    change = max(values) / min(values) - 1 if min(values) > 0 else float(max(values) > min(values))
    if change <= NOTABLE:
        return f"{found.about} by {found.level}: the {what} changes by at most {percent(change)}."
    # The ends, and what lies outside of them.
    ends = {found.numbers[0].at, found.numbers[-1].at}
    ends |= {extreme(found.numbers, key=lambda each: each.value).at for extreme in (min, max)}
    said = listed([f"{number_text(each)} at {each.at}" for each in found.numbers if each.at in ends])
    over = "" if single else ", over all other levels (without an interval)"
    return f"{found.about} by {found.level}: the {what} is {said}{over}."


def _latency(group: Group) -> str:
    said = []
    for each in group:
        trips = [f" (a round trip to {trip.at} took {quantity(trip.value, 's')})" for trip in each.all("RTT")]
        said += [f"{number_text(mine)} on {each.stack}{''.join(trips)}" for mine in each.all("latency")]
    base = group[0].all("baseline")[0]
    return f"A single write in {group[0].about} takes {number_text(base)} on {base.at}, {listed(said)}."


def _need(group: Group) -> str:
    found = group[0]
    asked = f"{listed([f'{each.value:,.6g} {each.at}' for each in found.all('asked')])} per second"
    if found.verdict == "unknown":
        return f"Whether {found.stack} carries {asked} is unknown: {found.note}."
    if found.verdict == "not carried":
        return f"{found.stack} does not carry {asked}: {found.note}."
    waiting = found.all("p99, at least")
    several = len(tails := waiting or found.all("p99")) > 1
    each = [f"{quantity(tail.value, 's')}{f' ({tail.at})' if several else ''}" for tail in tails]
    bound = "at least " if waiting else ""
    return f"{found.stack} carries {asked}{f', with a p99 latency of {bound}{listed(each)}' if each else ''}."


def _comparisons(group: Group) -> str:
    found = group[0]
    said = [f"{each.value:,.0f} {term(_DECIDED[each.name][each.value != 1])}" for each in found.numbers]
    text = f"Of {found.of:,} comparison{'s' if found.of > 1 else ''}: {', '.join(said)}."
    if found.count < 2:
        return text
    return (
        f"{text} Without any difference the intervals of {number(LEVEL * found.count)} of {found.count:,} would "
        "leave 1 out by chance; what differs here does so among all of them (Holm)."
    )


def _expectations(group: Group) -> str:
    words = {"ok": "confirmed", "failed": "not confirmed", "unknown": "undecided"}
    said = [f"{each.value:.0f} {term(words[each.name])}" for each in group[0].numbers]
    inside = f" ({group[0].count} of these inside what was expected)" if group[0].count else ""
    return f"Expectations of the study: {listed(said)}{inside}."


def _lost_by(group: Group) -> str:
    said = [
        f"{each.count} of {each.of} layouts with {each.about}={each.level}"
        f"{f' ({listed(each.names)})' if each.names else ''}"
        for each in group
    ]
    return f"Something was lost on {listed(said)}."


def _safe(group: Group) -> str:
    found = group[0]
    which = "of each at most " if found.count > 1 else "at most "
    return (
        f"Nothing that was acknowledged was lost on {shortened(found.names, MOST_NAMED)}: 0 of {found.of} crashes "
        f"lost anything ({which}{percent(found.needed('crashes, at most'))} do, 95{NBSP}%), of "
        f"{found.needed('acknowledged'):,.0f} commits."
    )


def _lost(group: Group) -> str:
    found = group[0]
    missing, acknowledged = found.needed("missing"), found.needed("acknowledged")
    kinds: tuple[Name, ...] = ("torn", "unexpected")
    others = [f"{count:.0f} {name}" for name in kinds if (count := found.value(name))]
    low, high = found.value("crashes, at least"), found.value("crashes, at most")
    sure = f" ({percent(low)} to {percent(high)} do, 95{NBSP}%)" if low is not None and high is not None else ""
    drills = f"in {found.count} of {found.of} crashes{sure}"
    if not missing:
        return f"The database on {found.stack} was damaged {drills}: {listed(others)} transactions or rows."
    rpo = found.value("RPO")
    text = (
        f"Acknowledged transactions were lost on {found.stack} {drills}: {missing:,.0f} of {acknowledged:,.0f} "
        f"({small_percent(missing / acknowledged)}), at most {found.needed('worst'):,.0f} in one"
    )
    text += f" and {quantity(rpo, 's')} of commits" if rpo is not None else ""
    newest = found.value("newest lost")
    text += f" (the newest {before_text(newest)})" if newest is not None else ""
    return "; ".join([text, *others]) + "."


def _rto(group: Group) -> str:
    found = group[0]
    said = []
    for each in found.all("RTO"):
        high = term("never") if each.high is None else f"{each.high:.2f}"
        sure = f" ({each.low:.2f} to {high})" if each.low is not None else ""
        said.append(f"after {seconds(each.value)}{sure} in the median on {each.at}")
    text = f"Writes were accepted again {listed(said)}"
    for back in found.all("recovered"):
        text += f"; there {percent(RECOVERED)} of the rate before was back after {seconds(back.value)}"
    for late in found.all("not recovered"):
        text += f"; in {late.value:.0f} of its drills {percent(RECOVERED)} was not back while it was watched"
    for stage in found.all("stage"):
        text += f"; {term(stage.at)} takes the longest, {quantity(stage.value, 's')}"
    return f"{text}."


def _repeats(group: Group) -> str:
    found = group[0]
    if found.verdict == "machines":
        few = " Two machines tell little of a third, so ± is wide: take more of them." if found.count == 2 else ""
        return (
            f"Everything was measured {found.note}, on {found.count} machines, each time on layouts that were "
            "built again. Ratios are taken within each machine and repeat. ± is the 95 % interval over the "
            f"machines, which are a random effect.{few}"
        )
    if found.verdict == "a machine each":
        return (
            f"Everything was measured {found.note}, each time on another machine: what differs from machine to "
            "machine and what differs from build to build cannot be told apart. ± is the 95 % interval over the "
            "builds; ratios are taken within each repeat."
        )
    if found.verdict in ("repeats", "imported"):
        once = "; for a cell measured once, within its run" if found.count == 1 else ""
        sure = f"± is the 95 % interval over these repeats{once}; ratios are taken within each repeat."
        if found.verdict == "imported":
            return f"Everything was measured {found.note}. Logs do not tell if layouts were built again. {sure}"
        if found.about == "seed":
            return f"Everything was measured {found.note}, each time from another seed. {sure}"
        return f"Everything was measured {found.note}, each time on layouts that were built again. {sure}"
    intervals = {"rounds": "over short rounds of that one run", "run": "of the mean within that one run"}
    over = intervals.get(found.verdict)
    sure = f" ± is the 95 % interval {over}." if over else ""
    hint = f" ({found.note})" if found.note else ""
    if found.about == "seed":
        return (
            f"Each cell is of one seed.{sure} How much another seed would differ is not known, so no comparison "
            f"is decided{hint}."
        )
    return (
        f"Each cell is of one build of its layout.{sure} How much another build would differ is not known, so no "
        f"comparison is decided{hint}."
    )


def _unsteady(group: Group) -> str:
    found = group[0]
    cells = f"In {found.count} of {found.of} cells the rate fell"
    count, whole = seconds(found.needed("for")), seconds(found.needed("of"))
    if found.verdict == "stalls":
        return (
            f"{cells} below a third of its median for single seconds (worst: {found.about}, {count} of {whole}). "
            "How often such stalls come, a run of this length does not tell: measure longer."
        )
    return (
        f"{cells} while it was measured (worst: {found.about}, by {percent(found.needed('by'))} after "
        f"{count}), as where a burst or a cache is used up. The value is of both parts: measure longer."
    )


def _warm_up(group: Group) -> str:
    found = group[0]
    whole, steady = number_text(found.all("whole")[0]), number_text(found.all("steady")[0])
    return (
        f"In {found.count} of {found.of} cells the rate without its warm-up is another one (most: {found.about}, "
        f"{whole} over all of its time, {steady} without the first {seconds(found.needed('skipped'))}). The "
        f"values are of all of its time, as the tool reports; those without the warm-up are called {found.note}."
    )


_TEMPLATES: Mapping[FindingKind, Callable[[Group], str]] = {
    "range": _range, "factor": _factor, "latency": _latency, "need": _need, "comparisons": _comparisons,
    "expectations": _expectations, "lost by": _lost_by, "safe": _safe, "lost": _lost, "rto": _rto,
    "repeats": _repeats, "unsteady": _unsteady, "warm-up": _warm_up,
}  # fmt: skip
_CPU = (
    "The CPU was saturated (at least {number} busy) in {names}, in {count} of {of} cells: it, not the storage, "
    "may limit these results."
)
_OTHERS = (
    "In {count} of {of} cells the machine was busy with other work (worst: {about}, %s): their values are worse "
    "and noisier than the layouts' own. End that work or take another machine, and measure again: blocklab run "
    "--again."
)
# What one comparison, and several, decide.
_DECIDED = {
    "differs": ("differs", "differ"),
    "no difference shown": ("shows no difference", "show no difference"),
    "too noisy to say": ("is too noisy to say", "are too noisy to say"),
    "one build": ("is of one build each and decides nothing", "are of one build each and decide nothing"),
    "unlike machines": ("is of unlike machines", "are of unlike machines"),
}
# What needs no more than its fields, by kind and verdict, or by kind.
_TEXTS: Mapping[str, str] = {
    "nothing: no values": "There is no answer yet: no cell of this study has a usable value.",
    "nothing: one layout": "There is one layout, {stack}, and nothing beside it: its values are below.",
    "nothing: no pair": "There is nothing to compare yet: values of {stack} and of another stack are needed.",
    "needs: carried": "The need is carried by {count} of {of} layouts: {names}.",
    "needs: not carried": "It is not carried by {count} of {of} layouts: {names}.",
    "needs: unknown": "Unknown for {count} of {of} layouts: {names}.",
    "unsafe: known": "No layout came through its drills without a loss.",
    "unsafe: unknown": "No layout is known to have come through its drills without a loss.",
    "drills": "{about}: {names}.",
    "imported": "These results are imported from logs, which do not say whether all layouts had the same "
    "workload.",
    "cpu: understated": f"{_CPU} The overhead of slower layouts is understated.",
    "cpu: overstated": f"{_CPU} The overhead of these layouts is overstated.",
    "cpu: both": f"{_CPU} Overhead is understated beside {{beside}}, and overstated where a layout's own CPU was "
    "saturated.",
    "other work: steal": _OTHERS % "where its hypervisor took {number} of its CPU time",
    "other work: foreign": _OTHERS % "where other programs took {number} of its CPU time",
    "other work: pressure": _OTHERS % "where programs waited for a CPU {number} of the time",
    "own cpu": "blocklab's own process took up to {number} of a core while a workload ran (in {stack}/{about}), "
    "more than it may: it can have slowed down what it measured.",
    "limited": f"{LIMITED} (within {NEAR:g} times of its floor), {{count}} of {{of}}: {{names}}. There the "
    "layout itself may do better, and the overhead of others beside it is understated.",
    "unlike": "In {count} of {of} cells the same volume or link was not as fast as in the baseline's, by more "
    "than 25 %: {names} (worst: {about}, {number} in {stack} and {other} in {beside}). Their ratios say nothing.",
    "floor: unread": "The lab's floor could not be read: {note}.",
    "floor: missing": "The lab's floor was not measured on this machine: {note}",
    "floor: missing for some": "The lab's floor was not measured on this machine for {count} of {of} cells: "
    "{note}",
    "floor: doubtful": "The lab's floor: {note}",
    "precision": "Target precision not reached: {names}.",
    "part": "This report covers {count} of the study's {of} cells, those that were asked for.",
    "quick": "This was a quick run, with shorter workloads than the full study: good for a first look.",
    "gaps": "{count} of {of} cells have no results: {names}.",
    "repeat gaps": "Repeats without results: {names}.",
    "machines disagree": "In {count} of {of} ratios machines differ by more than builds on one machine do "
    "(Cochran's Q): {names}. Most in {about}: {number} on {stack}, {other} on {beside}.",
    "machines unfit: apart": "The values of machine {about} are kept apart, in {count} of {of} cells: {names}.",
    "machines unfit: pooled": "The values of machine {about} are put together with the others', as --mixed pool "
    "asks, but do not fit in {count} of {of} cells: {names}.",
    "no baseline": "Cells without a ratio, since {beside} was not measured on their machine in their repeat: "
    "{names}.",
}


def _plain(found: Finding) -> str:
    text = _TEXTS.get(f"{found.kind}: {found.verdict}") or _TEXTS[found.kind]
    fields = msgspec.structs.asdict(found)
    first, other = ([*map(number_text, found.numbers), "", ""])[:2]
    fields["about"] = term(found.about)
    return capital(text.format(**fields | {"names": shortened(found.names), "number": first, "other": other}))

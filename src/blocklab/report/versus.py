"""A comparison of two runs or studies: for the terminal, as JSON, and as a self-contained page."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table

from blocklab import __version__
from blocklab.charts.base import Chart
from blocklab.charts.forest import forest
from blocklab.lang import term
from blocklab.model.terminal import Text
from blocklab.report import across as beside
from blocklab.report.across import ratio_text
from blocklab.report.build import dress, environment, written
from blocklab.report.export import as_csv
from blocklab.report.grid import grid
from blocklab.stats import longform
from blocklab.stats.across import Across
from blocklab.stats.format import listed, percent, plus_minus
from blocklab.stats.guard import Judged, gate
from blocklab.stats.ratio import NOTABLE
from blocklab.stats.versus import Pair, Versus

FORMAT = 2
# More rows than this are for `--all`, the page or `--json`.
MOST_ROWS = 40
MOST_DIFFERENCES = 12
MOST_LONE = 8
_STYLES = {"differs": "bold", "no difference shown": ""}
_OUTCOMES = {"fails": ("✗ fails", "red"), "undecided": ("? undecided", "yellow"), "passes": ("✓ passes", "green")}


def summary(found: Versus, shown: Sequence[Pair]) -> str:
    """In words, what the values that are shown say."""
    decided = [pair for pair in shown if pair.ratio is not None]
    if not shown:
        return "The workloads have no value in common; --all has the probes'."
    if not decided:
        return f"No value of {found.a.name} is above 0, so there is no ratio."
    parts = []
    for word, worst, sign in (("lower", min, -1), ("higher", max, 1)):
        differ = [pair for pair in decided if pair.verdict == "differs" and sign * _above(pair) > 0]
        if differ:
            most = worst(differ, key=_above)
            the_most = "the most " if len(differ) > 1 else ""
            parts.append(f"{len(differ)} {word} ({the_most}{most.label}: {ratio_text(most.ratio)})")
    counts = Counter(str(pair.verdict) for pair in decided)
    words = {
        "no difference shown": f"with no difference shown (within {percent(NOTABLE)})",
        "too noisy to say": "too noisy to say", "one build": "of one build on a side, which decides nothing",
        "unlike machines": "of unlike machines",
    }  # fmt: skip
    parts += [f"{counts[verdict]} {text}" for verdict, text in words.items() if counts[verdict]]
    return f"Of {len(decided)} value{'s' if len(decided) > 1 else ''} in B, beside A's: {listed(parts)}."


def lead(found: Versus, shown: Sequence[Pair], laid: Across | None) -> str:
    """The answer: what the shares say where they are asked for, else the values."""
    return summary(found, shown) if laid is None else beside.answer(found, laid)


def one_build(found: Versus) -> str:
    """What to know where a side was measured once; empty where none was."""
    sides = {"A": found.a, "B": found.b}
    said = []
    for name in found.once:
        how = "imported from logs" if sides[name].imported else "measured on one build of its layouts"
        said.append(f"{name} was {how}: how much another would differ is not known, so no ratio is decided.")
    return " ".join(said)


def printed(found: Versus) -> str:
    """Whether two studies in virtual time printed the same; empty for others."""
    if found.printed is None:
        return ""
    cells, differ = found.printed.cells, found.printed.differ
    if not differ:
        return f"The output is the same, byte for byte, in {cells} of {cells} cells that both have."
    named = ", ".join(differ[:MOST_LONE]) + (", ..." if len(differ) > MOST_LONE else "")
    return f"The output differs in {len(differ)} of {cells} cells that both have: {named}."


def _above(pair: Pair) -> float:
    return 0.0 if pair.ratio is None else pair.ratio.value - 1


def terminal(
    found: Versus,
    shown: Sequence[Pair],
    judged: Sequence[Judged] = (),
    laid: Across | None = None,
    *,
    every: bool = False,
) -> RenderableType:
    """The table and what to know with it, for 100 columns. ``laid``: the shares, which go before the values."""
    parts: list[RenderableType] = [
        Text(f"A: {found.a.path}"), Text(f"B: {found.b.path}"), Text(),
        Text(lead(found, shown, laid), style="bold"),
    ]  # fmt: skip
    if laid is not None:
        parts += [*beside.terminal(laid), Text(f"{summary(found, shown)} {beside.MACHINES}")]
    rows = list(shown)
    if len(rows) > MOST_ROWS and not every:
        rows = [pair for pair in shown if pair.verdict == "differs"][:MOST_ROWS] or rows[:MOST_ROWS]
        parts.append(Text(f"{len(rows)} of {len(shown)} values; --all and -o have all of them.", style="dim"))
    parts.append(_table(rows))
    if any(pair.limited for pair in rows):
        parts.append(Text("†: limited by the lab, so the layout may do better.", style="dim"))
    if said := printed(found):
        parts.append(Text(said, style="bold"))
    if found.once:
        parts.append(Text(one_build(found), style="dim"))
    parts += _judged(judged)
    parts += _lone(found)
    parts += _differences(found)
    return Group(*parts)


def _table(rows: Sequence[Pair]) -> Table:
    found, last = [], ""
    for pair in rows:
        metric = pair.metric if pair.own else f"{pair.metric} ({pair.layer} on {pair.host})"
        a, b = (plus_minus(each.value, each.half, pair.unit, pair.metric) for each in (pair.a, pair.b))
        share = ratio_text(pair.ratio) + ("†" if pair.limited else "")
        verdict = Text(
            term(pair.verdict) if pair.verdict else "no ratio", style=_STYLES.get(pair.verdict or "", "dim")
        )
        found.append((pair.place if pair.place != last else "", metric, a, b, share, verdict))
        last = pair.place
    titles = ("cell", "metric", "A", "B", "B / A", "verdict")
    return grid(titles, found, left=("metric", "verdict"), whole=("B / A",))


def _judged(judged: Sequence[Judged]) -> Iterator[RenderableType]:
    for text in dict.fromkeys(each.condition for each in judged):
        mine = [each for each in judged if each.condition == text]
        for outcome in ("fails", "undecided", "passes"):
            some = [each for each in mine if each.outcome == outcome]
            word, style = _OUTCOMES[outcome]
            if outcome == "passes":
                if some:
                    yield Text(f"{word}: {text}: {len(some)} of {len(mine)} values", style=style)
                continue
            for each in some:
                share = "" if each.share is None else f" is {each.share.value:.3f}"
                half = "" if each.share is None or each.share.half is None else f" ± {each.share.half:.3f}"
                why = f" ({each.why})" if each.why else ""
                yield Text(f"{word}: {text}: {each.label}{share}{half}{why}", style=style)


def _lone(found: Versus) -> Iterator[RenderableType]:
    for side in ("a", "b"):
        mine = [each for each in found.lone if each.side == side]
        other = "B" if side == "a" else "A"
        for each in mine[:MOST_LONE]:
            why = f" ({other}: {each.gap})" if each.gap else ""
            yield Text(f"only in {side.upper()}: {each.label}{why}", style="yellow")
        if len(mine) > MOST_LONE:
            yield Text(f"only in {side.upper()}: {len(mine) - MOST_LONE} more cells", style="yellow")


def _differences(found: Versus) -> Iterator[RenderableType]:
    if not found.differences:
        yield Text("Nothing that was recorded of the environments, the study and the knobs differs.", style="dim")
        return
    rows = [(each.name, each.a, each.b) for each in found.differences[:MOST_DIFFERENCES]]
    yield grid(("what differed", "A", "B"), rows, left=("A", "B"))
    if (more := len(found.differences) - MOST_DIFFERENCES) > 0:
        yield Text(f"{more} more differences; -o and --json have all of them", style="dim")


def as_json(
    found: Versus, shown: Sequence[Pair], judged: Sequence[Judged] = (), laid: Across | None = None
) -> bytes:
    """Everything as a document."""
    document = {
        "format": FORMAT,
        "a": str(found.a.path),
        "b": str(found.b.path),
        "summary": summary(found, shown),
        "metrics": list(longform.compare(shown).rows),
        "only": [{"side": e.side, **_cell(e.cell), "gap": e.gap, "metrics": e.metrics} for e in found.lone],
        "only_one_side": [
            {"side": e.side, **_cell(e.cell), "phase": e.phase, "metric": e.metric} for e in found.lone_values
        ],
        "differences": found.differences,
        "printed": found.printed,
        "fail_on": judged,
        "gate": gate(judged),
        "across": None if laid is None else beside.document(found, laid),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _cell(cell: tuple[str, str, tuple[tuple[str, str], ...]]) -> dict[str, Any]:
    return {"stack": cell[0], "workload": cell[1], "levels": dict(cell[2])}


def write_page(
    path: Path, found: Versus, shown: Sequence[Pair], judged: Sequence[Judged] = (), laid: Across | None = None
) -> None:
    """The comparison as one file that needs no network; its tables have ``shown`` and all values of the workloads.

    Raises ``StoreError``."""
    written({path: page(found, shown, judged, laid).encode()})


def page(found: Versus, shown: Sequence[Pair], judged: Sequence[Judged] = (), laid: Across | None = None) -> str:
    """The page."""
    made = environment()
    names = (found.a.name, found.b.name) if found.a.name != found.b.name else ("A", "B")
    values = summary(found, shown)
    drawn = {"ratios": forest(shown, *names, values)}
    if laid is not None:
        drawn["shares"] = forest([e.pair for e in laid.shares], *names, beside.answer(found, laid), laid.within)
    return made.get_template("versus.html.j2").render(
        version=__version__,
        found=found,
        lead=lead(found, shown, laid),
        values=values,
        machines=beside.MACHINES,
        laid=laid,
        baselines="" if laid is None else beside.baselines(laid),
        reasons=() if laid is None else tuple(beside.reasons(laid)),
        inputs=() if laid is None else tuple(beside.inputs(laid)),
        shown=shown,
        charts={name: chart for name, chart in drawn.items() if isinstance(chart, Chart)},
        left_out={name: text for name, text in drawn.items() if isinstance(text, str)},
        groups=_groups(found.pairs, shown),
        judged=sorted(judged, key=lambda each: list(_OUTCOMES).index(each.outcome)),
        outcomes={name: word for name, (word, _) in _OUTCOMES.items()},
        ratio_text=ratio_text,
        plus_minus=plus_minus,
        one_build=one_build(found),
        printed=printed(found),
        csv=base64.b64encode(as_csv(longform.compare(found.pairs)).encode()).decode(),
        parts={
            part: [e for e in found.differences if e.part == part]
            for part in ("machine", "environment", "study", "knobs")
        },
        **dress(made),
    )


def _groups(pairs: Sequence[Pair], shown: Sequence[Pair]) -> dict[str, list[Pair]]:
    """The workloads' own values, and what else is shown, by cell and phase."""
    found: dict[str, list[Pair]] = {}
    wanted = frozenset(shown)
    for pair in pairs:
        if pair.own or pair in wanted:
            found.setdefault(pair.place, []).append(pair)
    return found

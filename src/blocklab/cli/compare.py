"""``blocklab compare``: two studies, runs or imported sets side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from blocklab.cli.flags import Page
from blocklab.cli.pages import page_file
from blocklab.cli.progress import UNDECIDED
from blocklab.errors import StoreError, StudyError
from blocklab.model.terminal import Console, echo, echo_json
from blocklab.model.units import Share
from blocklab.stats.across import WITHIN
from blocklab.stats.across import across as shares
from blocklab.stats.guard import Judged, condition, gate, judge
from blocklab.stats.source import Source, source
from blocklab.stats.versus import Pair, Versus, headlines, metrics_of, versus

MOST_NAMED = 4


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="The baseline: a study's folder, or a run's.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="What is compared with A.")],
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Compare only this metric; repeatable.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Compare every metric, also of probes and layers.")] = False,
    across: Annotated[
        bool,
        typer.Option(
            "--across", help="Compare two machines, kernels or images: which shares of the baseline agree."
        ),
    ] = False,
    within: Annotated[
        str | None,
        typer.Option("--within", help="With --across: shares agree if they surely are this close; default 10%."),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            help='Exit with 1 if this certainly holds, with 3 if it is undecided, e.g. "tps < 0.95 stack=mirror".',
        ),
    ] = None,
    allow_undecided: Annotated[
        bool, typer.Option("--allow-undecided", help="Exit with 0, not 3, if a --fail-on condition is undecided.")
    ] = False,
    output: Page = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Compare B with A: ratio, 95 % interval and verdict of each metric; list other differences.

    Exit code 1 when a --fail-on condition holds; 2 when the two cannot be compared; 3 when a --fail-on condition
    is undecided.
    """
    conditions = [condition(text) for text in fail_on or ()]
    if allow_undecided and not conditions:
        raise StudyError("", "--allow-undecided without --fail-on", hint='add e.g. --fail-on "tps < 0.95"')
    output = page_file(output, "compare.html")
    if within is not None and not across:
        raise StudyError("", "--within is of shares, which --across compares", hint="add --across")
    close = WITHIN if within is None else tolerance(within)
    found = comparable(_source(a), _source(b), across=across)
    shown = chosen(found, metric or [], every=every)
    laid = shares(found, close, metric or ()) if across else None
    judged = judge(conditions, found)
    # The charts' library takes a second to import: not for what was refused, nor for other commands.
    from blocklab.report import versus as pages

    if output is not None:
        pages.write_page(output, found, shown, judged, laid)
    if as_json:
        echo_json(pages.as_json(found, shown, judged, laid))
    else:
        Console().print(pages.terminal(found, shown, judged, laid, every=every or bool(metric)))
        if output is not None:
            echo(f"page: {output}")
    ended(judged, allow_undecided=allow_undecided)


def ended(judged: Sequence[Judged], *, allow_undecided: bool) -> None:
    """Raises ``typer.Exit`` where a condition fails, or is undecided and that is not allowed."""
    outcome = gate(judged)
    if outcome == "fails":
        raise typer.Exit(1)
    if outcome != "undecided":
        return
    count = sum(each.outcome == "undecided" for each in judged)
    what = f"--fail-on: {count} of {len(judged)} values undecided"
    if allow_undecided:
        echo(f"{what}; allowed by --allow-undecided", err=True)
        return
    hint = "repeats: 3 in both studies decides; --allow-undecided accepts"
    echo(f"{what}, so exit code {UNDECIDED}; {hint}", err=True)
    raise typer.Exit(UNDECIDED)


def _source(path: Path) -> Source:
    try:
        found = source(path)
    except StoreError as error:
        # Exit code 1 is for values that are worse.
        raise StudyError("", error.message, hint=error.hint) from error
    if not found.rows:
        why = "; ".join(
            f"{gap.stack}/{gap.workload} is {gap.status}: {gap.error}" for gap in found.gaps[:MOST_NAMED]
        )
        raise StudyError(
            "", f"{path} has no usable values{': ' + why if why else ''}", hint="blocklab run, or resume"
        )
    return found


def tolerance(text: str) -> float:
    """A part of 1 that is above 0. Raises ``StudyError``."""
    try:
        found = float(Share(text))
    except ValueError as error:
        raise StudyError("", f"--within: {error}", hint="give e.g. --within 10%") from error
    if not 0 < found < 1:
        raise StudyError(
            "", f"--within {text}: it must be above 0 % and below 100 %", hint="give e.g. --within 10%"
        )
    return found


def comparable(a: Source, b: Source, *, across: bool) -> Versus:
    """Both sides paired. Raises ``StudyError`` where nothing pairs, or the machines differ."""
    if a.path.resolve() == b.path.resolve():
        raise StudyError("", f"A and B are both {a.path}", hint="name two folders; --runs DIR keeps a second run")
    found = versus(a, b)
    if not found.pairs:
        raise StudyError("", f"{a.path} and {b.path} have no value in common", hint=_apart(found))
    if found.machine and not across:
        said = "; ".join(f"{each.name}: {each.a} / {each.b}" for each in found.machine)
        raise StudyError(
            "", f"A and B were not measured on the same machine, kernel and image: {said}",
            hint="give --across to compare shares of the baseline; ratios of values are then also the machines'",
        )  # fmt: skip
    return found


def _apart(found: Versus) -> str:
    sides = []
    for side in ("a", "b"):
        names = [each.label for each in found.lone if each.side == side]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        sides.append(f"{side.upper()} has {', '.join(names[:MOST_NAMED])}{more}")
    return "cells match by the names of stack and workload, and by the levels of factors; " + "; ".join(sides)


def chosen(found: Versus, metrics: Sequence[str], *, every: bool) -> tuple[Pair, ...]:
    """The pairs to show. Raises ``StudyError`` for a metric that there is not."""
    known = metrics_of(found.pairs)
    for name in metrics:
        if name not in known:
            raise StudyError("", f"--metric {name}: no value of that name on both sides", hint=", ".join(known))
    if metrics:
        return tuple(
            pair
            for pair in found.pairs
            if pair.metric in metrics and (every or pair.own or not _by_workload(found, pair))
        )
    return found.pairs if every else headlines(found.pairs)


def _by_workload(found: Versus, pair: Pair) -> bool:
    """Whether the workload itself has a value of that name there."""
    return any(other.own and (other.cell, other.metric) == (pair.cell, pair.metric) for other in found.pairs)

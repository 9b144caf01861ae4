"""The values of a sweep for a terminal, laid out as its charts are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich import console as rich_console
from rich.cells import cell_len
from rich.console import ConsoleOptions, RenderableType, RenderResult

from blocklab.charts.matrix import matrix_sweeps
from blocklab.charts.plan import STACK, Dot
from blocklab.charts.sweep import Sweep, sweeps
from blocklab.model.terminal import Text
from blocklab.report.grid import grid
from blocklab.stats.analysis import Analysis
from blocklab.stats.format import NBSP, number, percent, scale
from blocklab.stats.grid import label_of
from blocklab.stats.ratio import OPEN, verdict

# The edges of a table, and what stands between two of its columns.
EDGES, BETWEEN = 2, 3
# Lines of print may be longer than that of a terminal, but nobody reads them.
WIDEST = 100
LIMITED_MARK, PREDICTED_MARK = "†", "~"
# Of one build each there is no ± either, which is mark enough.
MARKS = {**dict.fromkeys(OPEN, " ?"), "differs": "", "no difference shown": " =", "one build": ""}


def table_sweeps(analysis: Analysis) -> list[Sweep]:
    """What is told as a table over an axis: what a factor changes, and with a layout that is asked for, fio's jobs
    by what they differ in."""
    if not any(analysis.study.report.axes):
        return sweeps(analysis)
    jobs = [sweep for sweep, _ in matrix_sweeps(analysis)[0]]
    return [*sweeps(analysis, [sweep.jobs for sweep in jobs]), *jobs]


def sweep_tables(analysis: Analysis, sweep: Sweep) -> Iterator[RenderableType]:
    """A table for each panel, a row for each level along the axis, a column for each line."""
    made = sweep.made
    unit = scale(sweep.unit, sweep.metric)[1]
    # A stack is a column as long as nobody wants it elsewhere: so two of them stand side by side.
    panels = [name for name in made.panels if name != STACK or analysis.study.report.facet == STACK]
    tables: dict[str, dict[str, dict[str, Dot]]] = {}
    for dot in _by_color(sweep):
        title = _label(dot, panels)
        tables.setdefault(title, {}).setdefault(_column(sweep, dot, panels) or unit, {})[_level(sweep, dot)] = dot
    for title, columns in tables.items():
        shares = f" (share of {analysis.baseline})" if any(dot.share for dot in sweep.dots) else ""
        yield Text(f"{sweep.told(title)}{shares}", style="bold")
        # The axis may make no difference to a column.
        levels = [at for at in sweep.made.x.levels if any({at, ""} & column.keys() for column in columns.values())]
        cells = {
            # A level stands in a line of its own: the names are long, and the values short.
            name.replace(" ", "\n"): _cells(sweep, name, [column.get(at, column.get("")) for at in levels])
            for name, column in columns.items()
        }
        yield _Columns(sweep.made.x.name, levels, cells)


class _Columns:
    """Tables with as many of the columns as fit beside the first one, the axis."""

    def __init__(self, axis: str, levels: Sequence[str], cells: Mapping[str, Sequence[Text]]) -> None:
        self._axis = axis
        self._levels = levels
        self._cells = cells

    def __rich_console__(self, console: rich_console.Console, options: ConsoleOptions) -> RenderResult:
        for names in self._abreast(min(options.max_width, WIDEST) - EDGES):
            yield grid(
                [self._axis, *names],
                zip(self._levels, *(self._cells[name] for name in names), strict=True),
                ours=False,
            )

    def _abreast(self, width: int) -> Iterator[list[str]]:
        """The columns in groups that fit; one at least."""
        group: list[str] = []
        whole = room = width - max(map(cell_len, [self._axis, *self._levels]))
        for name, column in self._cells.items():
            needs = BETWEEN + max(cell_len(text) for text in (*name.split("\n"), *(cell.plain for cell in column)))
            if group and needs > room:
                yield group
                group, room = [], whole
            group.append(name)
            room -= needs
        yield group


def _cells(sweep: Sweep, name: str, dots: Sequence[Dot | None]) -> list[Text]:
    """A column below its name: each value with its share and the share's interval, one below the other."""
    factor, _ = scale(sweep.unit, sweep.metric)
    values = ["–" if d is None else number(d.value * factor) + _mark(d) for d in dots]
    shares = [_share(dot) for dot in dots]
    beside = 1 + max(map(len, shares)) if any(shares) else 0
    width = max(*map(len, values), max(map(len, name.split(" "))) - beside)
    return [
        Text(f"{value:>{width}}", justify="left").append(f" {share:<{beside - 1}}" if beside else "", "bold")
        for value, share in zip(values, shares, strict=True)
    ]


def _mark(dot: Dot) -> str:
    return PREDICTED_MARK if dot.predicted else LIMITED_MARK if dot.limited else ""


def _share(dot: Dot | None) -> str:
    """`` 48 % ± 2``; empty for the baseline's."""
    if dot is None or dot.share is None or dot.share.value == 1:
        return ""
    whole, pm, half = percent(dot.share.value, dot.share.half).partition(f"{NBSP}±")
    return f"{whole:>5}{pm}{half}{MARKS[verdict(dot.share)]}"


def _by_color(sweep: Sweep) -> Sequence[Dot]:
    """Those of one colour beside each other, where a colour was asked for."""
    color = sweep.made.color
    if not color or color == STACK:
        return sweep.dots
    known = sweep.dimensions[color]
    return sorted(sweep.dots, key=lambda dot: known.index(dot.levels[color]) if color in dot.levels else -1)


def _level(sweep: Sweep, dot: Dot) -> str:
    return dot.level(sweep.made.x.name) or ""


def _column(sweep: Sweep, dot: Dot, panels: Sequence[str]) -> str:
    stack = "" if STACK in (sweep.made.x.name, *panels) else dot.stack
    levels = {name: dot.levels[name] for name in sweep.made.lines if name in dot.levels}
    return label_of(stack, levels).strip()


def _label(dot: Dot, names: Sequence[str]) -> str:
    """`` mirror sync_binlog=0``: the levels that choose a dot's table."""
    levels = {name: dot.levels[name] for name in names if name in dot.levels}
    return (f" {dot.stack}" if STACK in names else "") + label_of("", levels)

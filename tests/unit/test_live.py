"""Progress on a terminal: what it draws, when, and that the terminal is left as it was; tables on 100 columns."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from blocklab.campaign.remaining import Remaining
from blocklab.cli.live import Live, clock_text, interim_text, screen, showing
from blocklab.cli.main import app
from blocklab.cli.progress import Lines
from blocklab.imports import Options, minimal, take
from blocklab.model.sample import Parsed, Sample
from blocklab.model.terminal import Console
from blocklab.report import terminal_table
from blocklab.runner.estimate import costs
from blocklab.runner.events import Begun, Counted, Done, Interim, Judged, OnStack, Warned
from blocklab.runner.strikes import Count
from blocklab.store.folder import StudyFolder
from blocklab.store.run import Outcome, Rate
from blocklab.study.grid import cells
from blocklab.study.read import build, read
from blocklab.study.shipped import shipped
from blocklab.study.types import Cell
from tests.unit.import_logs import two
from tests.unit.synthetic import make, make_patterns, make_sweep, study, sweep
from tests.unit.synthetic_drills import drill, failover, make_drills

# A ledger sees what a fault does, from a node that survives it.
CLIENT: dict[str, Any] = {
    "workloads": {"ledger": {"workload": "ledger", "from": "app", "clients": 8}},
    "nodes": {"a1": {}, "a2": {}, "app": {}},
    "links": {
        "zone": {"between": ["a1", "a2"], "rtt": "2ms"},
        "one": {"between": ["app", "a1"], "rtt": "1ms"},
        "other": {"between": ["app", "a2"], "rtt": "1ms"},
    },
}
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
OK = Outcome("ok", seconds=80.0)


class Terminal(io.StringIO):
    """A file that says that it is one."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Time that goes when it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def terminal(width: int = 100, **more: Any) -> Console:
    environ = {"TERM": "xterm-256color", **more.pop("_environ", {})}
    return Console(
        file=Terminal(), force_terminal=True, width=width, height=40, highlight=False, _environ=environ, **more
    )


def written(console: Console) -> str:
    assert isinstance(console.file, Terminal)
    return console.file.getvalue()


def picture(live: Live, width: int = 100) -> list[str]:
    """The lines at the bottom as they would be drawn now."""
    console = Console(file=io.StringIO(), record=True, width=width)
    console.print(live.picture())
    return [line.rstrip() for line in console.export_text().splitlines()]


def begun(number: int, count: int, cell: Cell) -> Begun:
    return Begun(cell.key, cell.label, number, count)


def rates(value: float | None, half: float | None = None) -> tuple[Rate, ...]:
    return (Rate("write.iops", value, half),)


# -- what is said ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "after", "said"),
    [
        ((), "0 rounds", "qd1: no value yet"),
        (rates(None), "1 round", "qd1: no value yet"),
        (rates(1800.4), "1 round", "qd1: 1,800 write IOPS after 1 round"),
        (rates(2980.0, 92.38), "3 rounds", "qd1: 2,980 write IOPS ± 3.1 % after 3 rounds"),
        ((Rate("tps", 3.21, 0.1),), "12 s", "qd1: 3.21 TPS ± 3.1 % after 12 s"),
        (
            (Rate("read.iops", 700.0, 7.0), Rate("write.iops", 300.0, 3.0)),
            "3 rounds",
            "qd1: 700 read IOPS ± 1.0 %, 300 write IOPS ± 1.0 % after 3 rounds",
        ),
    ],
)
def test_a_figure_reads_with_its_interval(known: tuple[Rate, ...], after: str, said: str) -> None:
    assert interim_text("qd1", known, after) == said


def test_the_clock_has_hours_when_there_are_any() -> None:
    assert [clock_text(each) for each in (0, 59.9, 125, 3725)] == ["00:00", "00:59", "02:05", "1:02:05"]


def test_the_lines_tell_where_the_study_is_and_how_the_interval_shrinks() -> None:
    what, clock = study(), Clock()
    grid = cells(what)
    live = Live(terminal(), what, grid, Remaining(costs(what, grid), clock=clock), clock)
    assert any("drbd-az: 00:00 gone, left: " in line for line in picture(live)) and "starting" in picture(live)[-1]
    live(OnStack("local", "postgres"))
    assert "stack local: postgres" in picture(live)[-1]
    fio = grid[0]
    live(begun(1, len(grid), fio))
    assert picture(live)[-2:] == [f"cell 1 of {len(grid)}: {fio.label}", "  preparing"]
    live(Interim(fio.key, "rand-write-4k", 0, ()))
    assert picture(live)[-1] == "  rand-write-4k: no value yet"
    shown = []
    for rounds, half in ((3, 92.38), (6, 30.0)):
        clock.now += 30
        live(Interim(fio.key, "rand-write-4k", rounds, rates(2980.0, half)))
        shown.append(picture(live)[-1].strip())
    assert shown == [
        "rand-write-4k: 2,980 write IOPS ± 3.1 % after 3 rounds",
        "rand-write-4k: 2,980 write IOPS ± 1.0 % after 6 rounds",
    ]
    assert "01:00 gone" in picture(live)[1]
    live(Warned("a1: the probes ended before the workload did"))
    assert picture(live)[-1] == "last warning: a1: the probes ended before the workload did"


@pytest.mark.parametrize(
    ("stop", "doing", "after"),
    [
        ({"rounds": "3..9", "each": "5s"}, "measuring in rounds of 5 s (3 to 9, until ± 2 %)", "after 3 rounds"),
        ({"at_least": "5s", "half_width": "1%"}, "measuring until ± 1 %, for 60 s at most", "after 7 s"),
        ("snia", "measuring in rounds of 5 s (5 to 25, until steady)", "after 3 rounds"),
        ({"fixed": "20s"}, "measuring for 20 s", "after 3 rounds"),
    ],
)
def test_it_says_when_a_phase_will_be_sure_enough(
    small: dict[str, Any], stop: Any, doing: str, after: str
) -> None:
    small["workloads"] = {"io": {"workload": "fio", "size": "16MiB", "jobs": {"w": {"rw": "write"}}, "stop": stop}}
    what, clock = build(small), Clock()
    (cell, *_) = grid = cells(what)
    live = Live(terminal(), what, grid, Remaining(costs(what, grid), clock=clock), clock)
    live(begun(1, 2, cell))
    live(Interim(cell.key, "w", 0, ()))
    clock.now += 7
    live(Interim(cell.key, "w", 3, rates(500.0)))
    lines = [line.strip() for line in picture(live)]
    assert doing in lines and lines[-1].endswith(after)


def test_drills_tell_the_clients_counters_and_the_tally_so_far() -> None:
    what = failover(**CLIENT)
    grid = cells(what)
    live = Live(terminal(), what, grid, Remaining(costs(what, grid)), Clock())
    live(begun(1, len(grid), grid[0]))
    live(Counted(grid[0].key, Count(1.0, 1300, 1234, 5, 1, 0)))
    assert picture(live)[-1] == "  1,234 acknowledged, 5 refused, 1 in doubt"
    found, *_ = drill(grid[0], 1e9)
    live(Done.of(grid[0], OK, Parsed(), ()))
    live(Judged(grid[0].key, grid[0].label, found))
    assert "1 drill: " in picture(live, 300)[-1] and grid[0].stack in picture(live, 300)[-1]


@pytest.mark.parametrize("width", [20, 40, 80, 100, 250])
def test_the_lines_fit_any_width(width: int) -> None:
    what = sweep()
    grid = cells(what)
    clock = Clock()
    live = Live(terminal(width), what, grid, Remaining(costs(what, grid), clock=clock), clock)
    clock.now += 600
    live(begun(3, len(grid), grid[-1]))
    live(Interim(grid[-1].key, "a-phase-with-quite-a-long-name", 3, rates(2980.0, 92.0)))
    live(Warned("a very long warning\nof two lines " * 20))
    lines = picture(live, width)
    assert len(lines) == 6 and max(len(line) for line in lines) <= width


# -- when it draws -----------------------------------------------------------------------------------------------


def test_the_clock_goes_on_while_nothing_happens() -> None:
    console, clock, what = terminal(), Clock(), study()
    live = Live(console, what, cells(what), Remaining(costs(what, cells(what)), clock=clock), clock)
    with screen(console, live.picture):
        clock.now += 125
        deadline = time.monotonic() + 30
        while "02:05 gone" not in written(console):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_finished_cells_and_warnings_scroll_as_the_plain_lines() -> None:
    what = study()
    grid = cells(what)
    parsed = Parsed((Sample("tps", 1031.0, "1/s", "pgbench", "a1"),))
    failed = Outcome("failed", "a1: exit code 1", "look at raw/", seconds=3.0)
    texts = []
    for live in (True, False):
        console = terminal() if live else Console(file=io.StringIO(), width=100)
        with showing(console, what, grid, Remaining(costs(what, grid)), plain=False) as progress:
            progress(Done.of(grid[1], OK, parsed, ()))
            progress(Done.of(grid[2], failed, Parsed(), ()))
            progress(Warned("something"))
        file = console.file
        assert isinstance(file, io.StringIO)
        texts.append(file.getvalue())
    said = [line[6:] for line in texts[1].splitlines() if line[:2].isdigit()]
    assert len(said) == 3 and "1031 TPS" in said[0] and "failed in 3 s" in said[1]
    for line in ("1031 TPS", "failed", "a1: exit code 1", "hint: look at raw/", "warning: something"):
        assert line in texts[0] and line in texts[1]
    assert "\x1b" not in texts[1]


def test_only_a_terminal_is_drawn_on() -> None:
    what = study()
    grid = cells(what)
    for console, plain, kind in (
        (terminal(), False, Live),
        (terminal(), True, Lines),
        (Console(file=io.StringIO(), force_terminal=True), False, Lines),
        (Console(file=Terminal(), force_terminal=True, _environ={"TERM": "dumb"}), False, Lines),
    ):
        with showing(console, what, grid, Remaining(costs(what, grid)), plain=plain) as progress:
            assert type(progress) is kind


def test_no_color_is_heeded() -> None:
    what = study()
    texts = []
    for environ in ({"NO_COLOR": "1"}, {}):
        console = terminal(_environ=environ, color_system="256")
        with showing(console, what, cells(what), Remaining(costs(what, cells(what))), plain=False) as progress:
            progress(Warned("something"))
        texts.append(written(console))
    assert "\x1b[33m" in texts[1] and "\x1b[33m" not in texts[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_the_terminal_is_left_as_it_was(error: type[BaseException]) -> None:
    console, what, before = terminal(), study(), set(threading.enumerate())
    grid = cells(what)
    shows = showing(console, what, grid, Remaining(costs(what, grid)), plain=False)
    with pytest.raises(error), shows as live:
        live(begun(1, 9, grid[0]))
        raise error
    text = written(console)
    assert text.count(HIDE) == 1 and text.rindex(SHOW) > text.rindex(HIDE)
    for thread in set(threading.enumerate()) - before:
        thread.join(30.0)
        assert not thread.is_alive(), "nobody goes on drawing"


# -- the commands ------------------------------------------------------------------------------------------------


def test_every_command_that_prints_results_has_json() -> None:
    # ``schema`` prints nothing else, ``like`` a study; ``export`` has formats, JSON lines among them; ``sh`` is
    # another program's; ``hosts add``, ``disks claim`` and ``setup`` ask people.
    without = {"schema", "like", "export", "sh", "hosts add", "disks claim", "setup"}

    def walk(name: str, command: Any) -> dict[str, Any]:
        if hasattr(command, "commands"):
            below = (walk(f"{name} {word}", each) for word, each in command.commands.items())
            return {full: one for found in below for full, one in found.items()}
        return {} if command.hidden else {name.strip(): command}

    found = walk("", typer.main.get_command(app))
    lacking = {name for name, each in found.items() if not any("--json" in one.opts for one in each.params)}
    assert lacking == without
    plain = {name for name, each in found.items() if any("--plain" in one.opts for one in each.params)}
    assert plain == {"run", "resume", "drill", "quickstart"}


# -- the table at the end ----------------------------------------------------------------------------------------


def imported(runs: Path) -> StudyFolder:
    places = two(runs)
    return StudyFolder(take(minimal(list(places)), None, places, runs / "runs", Options()).folder)


def drills(runs: Path) -> StudyFolder:
    return make_drills(runs, failover(**CLIENT))


def void_drills(runs: Path) -> StudyFolder:
    """Some that do not count, and some whose database could not be read."""
    labels = [cell.label for cell in cells(failover(**CLIENT))]
    return make_drills(runs, failover(**CLIENT), invalid=labels[::7], unread=labels[::5])


@pytest.mark.parametrize(
    "made",
    [
        make, make_sweep, drills, make_patterns, imported, void_drills,
        lambda runs: make(runs, failed=["drbd0/fio"], invalid=["drbd1/tps-scale1"], missing=["local/fio"]),
        lambda runs: make(runs, lab=True, busy=["local/fio"]),
    ],
    ids=["plain", "factors", "drills", "patterns", "imported", "void drills", "gaps", "limited"],
)  # fmt: skip
def test_the_table_fits_100_columns(
    made: Callable[[Path], StudyFolder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    # As ``blocklab run`` prints it into a file.
    console = Console(file=io.StringIO(), record=True)
    console.print(terminal_table(made(tmp_path), every=True))
    lines = console.export_text().splitlines()
    assert len(lines) > 5 and console.width == 100
    assert [line for line in lines if len(line) > 100] == []
    # Nothing is cut off either.
    assert [line for line in lines if "…" in line] == []


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_studies_can_be_shown(name: str) -> None:
    path = shipped()[name]
    what = read(path, quick=True)
    grid = cells(what)
    live = Live(terminal(), what, grid, Remaining(costs(what, grid)), Clock())
    for number, cell in enumerate(grid[:20], 1):
        live(begun(number, len(grid), cell))
        live(Interim(cell.key, "", 1, ()))
        assert f"cell {number} of {len(grid)}" in "\n".join(picture(live))

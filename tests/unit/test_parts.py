"""A study in parts for several machines, and where Dask's scheduler may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from blocklab.cluster.scheduler import opened
from blocklab.errors import StudyError
from blocklab.store.folder import Workers
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.units import by_layout, units


def test_a_unit_is_a_repeat_and_its_key_is_that_of_its_cells(small: dict[str, Any]) -> None:
    small["repeats"] = 3
    grid = cells(build(small))
    found = units(grid)
    assert [unit.label for unit in found] == ["repeat 1", "repeat 2", "repeat 3"]
    assert [cell for unit in found for cell in unit.cells] == list(grid)
    assert len({unit.key for unit in found}) == 3
    assert units(grid)[1].key == found[1].key != units(grid[:-1])[2].key


def test_by_layout_each_layout_has_cells_of_the_baseline_in_its_repeat(small: dict[str, Any]) -> None:
    small["repeats"] = 2
    small["stacks"]["third"] = small["stacks"]["mirror"]
    small["factors"] = {"rtt": {"field": "links.zone.rtt", "values": ["1ms", "2ms"]}}
    study = build(small)
    grid = cells(study)
    split, whole, todo = by_layout(study, grid, grid)
    # Two stacks with a link, at two delays each, twice.
    assert split.repeats == 8
    per_repeat = [[cell for cell in todo if cell.repeat == number] for number in range(8)]
    for mine in per_repeat:
        base, other = (sum(cell.stack == name for cell in mine) for name in ("local", "none"))
        assert base == len(small["workloads"]) and not other
        assert len({(cell.stack, *cell.levels.items()) for cell in mine if cell.stack != "local"}) == 1
    assert len({cell.key for cell in todo}) == len(todo)
    # Of the first repeat the report knows where everything stands.
    assert {cell.key for cell in grid if cell.repeat == 0} <= {cell.key for cell in whole}
    # A part of the grid takes its baseline with it.
    some = [cell for cell in grid if cell.stack == "mirror"]
    assert {cell.stack for cell in by_layout(study, grid, some)[2]} == {"local", "mirror"}


def test_two_stacks_are_nothing_to_split(small: dict[str, Any]) -> None:
    study = build(small)
    with pytest.raises(StudyError, match="there are not two layouts beside the baseline"):
        by_layout(study, cells(study), cells(study))


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("tcp://192.0.2.1:8786", "whoever reaches it can run programs as you"),
        ("tls://192.0.2.1:8786", "there are no certificates for TLS"),
        ("http://127.0.0.1:80", "no address of a scheduler"),
        ("tcp://127.0.0.1", "no address of a scheduler"),
        ("tcp://127.0.0.1:none", "no address of a scheduler"),
        ("/none.json", "No such file or directory"),
    ],
)
def test_schedulers_that_are_refused(at: str, says: str) -> None:
    with pytest.raises(StudyError, match=says), opened(Workers(at)):
        pass


def test_a_scheduler_file_tells_the_address_and_one_may_be_insecure(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"type": "Scheduler", "address": "tcp://192.0.2.1:8786"}))
    with opened(Workers(str(file), insecure=True)) as place:
        assert place.address == "tcp://192.0.2.1:8786"
    with opened(Workers("tcp://localhost:8786")) as place:
        assert place.address == "tcp://localhost:8786"
    file.write_text("[]")
    with pytest.raises(StudyError, match="it is no scheduler file"), opened(Workers(str(file))):
        pass

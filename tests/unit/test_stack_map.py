"""What a run stores of its stack is used as it is, and of imported ones it is told from names, in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.errors import StoreError
from blocklab.model.plan import Port
from blocklab.model.sample import Sample
from blocklab.model.stack_map import Clock, Level, StackMap
from blocklab.runner.workshop import stack_map
from blocklab.sites.names import ground as ground_of
from blocklab.stats.values import Measured
from blocklab.store.devices import levels
from blocklab.store.folder import StudyFolder
from blocklab.store.run import FORMAT, Run, load
from blocklab.study.grid import topology
from blocklab.study.read import build
from tests.unit import synthetic


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    return synthetic.make(tmp_path_factory.mktemp("stack"), transactions=100)


def moving(*devices: str, host: str = "a1") -> tuple[Sample, ...]:
    """Each device reads more than the one after it."""
    return tuple(
        Sample("read.bandwidth", 5e6 / (number + 1), "B/s", device, host, time=second)
        for number, device in enumerate(devices)
        for second in range(5)
    )


def measured(run: Run, stack: StackMap, samples: tuple[Sample, ...]) -> Measured:
    return Measured(msgspec.structs.replace(run, stack=stack, samples=samples), "a1")


def test_two_layers_of_one_kind_of_device_are_told_apart(folder: StudyFolder) -> None:
    stack = StackMap(
        "a1",
        (
            Level(0, "volume", "a1", ("vda", "vdb")),
            Level(1, "lvm-stripe", "a1", ("dm-500",)),
            Level(2, "fragile", "a1", ("dm-501",)),
        ),
    )
    # The lower of both has more traffic, which says nothing of where it stands.
    found = measured(folder.runs()[0], stack, moving("dm-500", "dm-501", "vda", "vdb", "vdz"))
    assert found.device == "dm-501"
    assert found.levels("a1") == (("dm-500",), ("vda", "vdb"))
    assert found.lower("a1") == ("dm-500", "vda", "vdb")
    assert found.busiest("a1") == ("dm-500", "vda")


def test_a_device_that_moved_nothing_is_not_shown_below_another(folder: StudyFolder) -> None:
    stack = StackMap("a1", (Level(0, "volume", "a2", ("vda",)), Level(1, "drbd", "a2", ("drbd0",))))
    assert measured(folder.runs()[0], stack, moving("vda", host="a2")).lower("a2") == ("vda",)


def test_a_device_that_is_passed_on_is_one_level() -> None:
    volumes = Level(0, "volume", "a1", ("vda", "vdb"))
    folder = Level(3, "xfs", "a1", (), (Port("a1", "dir", "/mnt/m"),))
    stack = StackMap(
        "a1", (volumes, Level(1, "cap", "a1", volumes.devices), Level(2, "md", "a1", ("md0",)), folder)
    )
    assert stack.devices("a1") == (("vda", "vdb"), ("md0",))
    assert stack.folders == folder.ports


def test_the_map_of_a_study_has_every_layer_on_every_host(small: dict[str, Any]) -> None:
    study = build(small)
    name = next(
        name for name, each in study.stacks.items() if any(hasattr(layer, "peer") for layer in each.layers)
    )
    ground = ground_of(topology(study, [name]))
    found = stack_map(study, name, 0, ground)
    assert found.active == study.stacks[name].on
    assert {each.host for each in found.levels if each.layer == "volume"} == set(found.wires)
    assert found.devices(found.active)[-1] == ("drbd0",)
    assert [each.layer for each in found.levels if each.host == found.active] == [
        layer.tag for layer in study.stacks[name].layers
    ]


def test_points_of_a_clock_that_differs_are_moved_to_the_clients(folder: StudyFolder) -> None:
    run = folder.runs()[0]
    clocks = {
        "a1": (Clock(-0.5, 0.001),),
        "a2": (Clock(2.0, 0.2), Clock(2.5, 0.001)),
        "b1": (Clock(-0.5005, 0.001),),
    }
    stack = StackMap("a1", clocks=clocks)
    samples = (Sample("tps", 1.0, "1/s", "pgbench", "a1"), *moving("vda", host="a2"), *moving("vda", host="b1"))
    series = measured(run, stack, samples).series
    # By the surer of two readings; what is within the error of both is no difference.
    assert [time for time, _ in series["a2", "vda", "read.bandwidth", ""]] == [-3.0, -2.0, -1.0, 0.0, 1.0]
    assert [time for time, _ in series["b1", "vda", "read.bandwidth", ""]] == [0, 1, 2, 3, 4]
    assert stack.shift("a1", "nobody") == 0.0


# -- what is not of today, and not of blocklab's own ------------------------------------------


def test_a_run_of_a_format_that_is_read_no_more_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = synthetic.make(tmp_path, transactions=100)
    path = next(folder.cells.iterdir())
    text = (path / "result.json").read_text()
    (path / "result.json").write_text(text.replace(f'"format": {FORMAT}', '"format": 3'))
    with pytest.raises(StoreError, match="format 3, but this blocklab reads format 4") as error:
        load(path)
    assert "measures the cell again" in error.value.hint
    manifest = folder.path / "study.json"
    manifest.write_text(manifest.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(StoreError, match="format 1, but this blocklab reads format 2"):
        folder.manifest()


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        (["md0", "vda", "vdb"], [("vda", "vdb")]),
        (["dm-0", "drbd1", "vda"], [("vda",)]),
        (["md300", "nbd0", "vda"], [("nbd0", "vda")]),
        (["drbd7"], []),
    ],
)
def test_volumes_of_imported_runs_go_by_their_names(devices: list[str], found: list[tuple[str, ...]]) -> None:
    moved = {"a1": dict.fromkeys(devices, 5e6) | {"vdz": 1.0}}
    assert list(StackMap("a1", levels("a1", moved)).devices("a1")) == found
    told = StackMap("a1", levels("a1", moved, "vda")).devices("a1")
    assert told[-1] == ("vda",)


def test_the_interface_that_an_older_run_names_is_one_of_several() -> None:
    old = msgspec.json.decode(b'{"wires": {"a1": "vec0", "a2": "vec0"}}', type=StackMap)
    assert old.nics() == {"a1": ("vec0",), "a2": ("vec0",)}
    new = StackMap(wires={"a1": ("vec0", "vec1"), "a2": ("vec0",)})
    assert msgspec.json.decode(msgspec.json.encode(new), type=StackMap).nics() == new.nics() == new.wires

"""Reading and checking studies: each mistake is one error, with its place in the file and the hint."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import StudyError
from blocklab.study.grid import cells, key_of, topology
from blocklab.study.read import build, merge_patch, read
from blocklab.study.shipped import shipped
from tests.unit.changed import put

MISTAKES = [
    ("stacks.mirror.layers.1.protocol", "D", "stacks.mirror.layers[1].protocol", "D"),
    ("stacks.mirror.layers.1.protocool", "C", "stacks.mirror.layers[1].protocool", "unknown field"),
    ("stacks.mirror.layers.1.peer", "a1", "stacks.mirror.layers[1].peer", "another node"),
    ("stacks.mirror.layers.1.peer", "c9", "stacks.mirror.layers[1].peer", "no node 'c9'"),
    ("stacks.mirror.layers.1.link", "cross", "stacks.mirror.layers[1].link", "not a1 and a2"),
    ("stacks.mirror.layers.1.net", {"max buffers; }": 1}, "stacks.mirror.layers[1].net.max buffers; }", "option"),
    ("stacks.mirror.layers.1.disk", {"al-extents": "1; }"}, "stacks.mirror.layers[1].disk.al-extents", "value"),
    ("stacks.local.layers.0.size", 512, "stacks.local.layers[0].size", "no unit"),
    ("stacks.local.layers.0.size", "1MiB", "stacks.local.layers[0].size", "too small"),
    ("stacks.local.layers.0.write_latency", "450", "stacks.local.layers[0].write_latency", "unit"),
    ("stacks.local.layers.0.burst_iops", 3000, "stacks.local.layers[0].burst_iops", "cap"),
    ("stacks.local.layers.1", {"layer": "zfs"}, "stacks.local.layers[1].layer", "zfs"),
    ("stacks.local.layers.1", {"layer": "postgres"}, "stacks.local.layers[1]", "put xfs or ext4 between"),
    ("stacks.local.layers.0", {"layer": "xfs"}, "stacks.local.layers[0]", "start with a volume"),
    ("stacks.local.on", "c9", "stacks.local.on", "no node 'c9'"),
    ("stacks.local.layers.2.settings", {"port": 1}, "stacks.local.layers[2].settings.port", "layer itself"),
    ("stacks.local.layers.2.settings", {"archive_command": "x"}, "stacks.local.layers[2].settings.archive_command",
     "run a command"),
    ("stacks.local.layers.1.mount", ["noatime,exec -o x"], "stacks.local.layers[1].mount[0]", "one mount option"),
    ("links.zone.between", ["a1", "zz"], "links.zone.between[1]", "no node 'zz'"),
    ("links.zone.between", ["a1", "a1"], "links.zone.between", "two different"),
    ("links.zone.rtt", 0.5, "links.zone.rtt", "no unit"),
    ("links.zone.jitter", "3ms", "links.zone.jitter", "rtt"),
    ("links.cross.rate", "100MB/s", "links.cross.rate", "bit/s"),
    ("nodes.a1.memory", "64MiB", "nodes.a1.memory", "128MiB"),
    ("baseline", "nothing", "baseline", "no stack"),
    ("workloads.tx.clients", 0, "workloads.tx.clients", "at least 1"),
    ("workloads.io.size", 16, "workloads.io.size", "no unit"),
    ("name", "$(reboot)", "name", "names start with"),
    ("stacks", {"$(reboot)": {"on": "a1", "layers": []}}, "stacks", "names start with"),
    ("stacks", {}, "stacks", "at least one"),
    ("expect", [{"metric": "tps", "workload": "nil", "stack": "local", "between": [0, 1]}], "expect[0].workload",
     "no workload"),
    ("expect", [{"metric": "tps", "workload": "tx", "stack": "local", "between": [2, 1]}], "expect[0].between",
     "lower bound"),
    ("expect", [{"metric": "tps", "workload": "tx", "stack": "local", "between": ["1", "2ms"]}],
     "expect[0].between", "unit"),
    # JSON has no infinity: study.json could not be read again.
    ("expect", [{"metric": "tps", "workload": "tx", "stack": "local", "between": [1, math.inf]}],
     "expect[0].between[1]", "must be finite"),
    ("expect", [{"metric": "tps", "workload": "tx", "stack": "local", "between": [math.nan, 1]}],
     "expect[0].between[0]", "must be finite"),
    ("blocklab", 3, "blocklab", "3"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "value", "path", "words"), MISTAKES)
def test_a_mistake_is_one_error_with_its_path_and_cure(
    small: dict[str, Any], where: str, value: Any, path: str, words: str
) -> None:
    put(small, where, value)
    with pytest.raises(StudyError) as caught:
        build(small)
    assert caught.value.path == path
    assert words in str(caught.value)


def test_the_small_study_itself_is_well(small: dict[str, Any]) -> None:
    assert len(cells(build(small))) == 4


def test_a_mirror_over_a_mirror_is_refused(small: dict[str, Any]) -> None:
    layers = small["stacks"]["mirror"]["layers"]
    layers.insert(2, {"layer": "drbd", "peer": "b1", "link": "cross"})
    with pytest.raises(StudyError, match="mirror over a mirror"):
        build(small)


def test_the_error_of_a_file_names_file_and_line(tmp_path: Path) -> None:
    text = shipped()["drbd-az"].read_text().replace("rtt: 2.7ms", "rtt: 2.7")
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    line = next(number for number, row in enumerate(text.splitlines(), 1) if "rtt: 2.7}" in row)
    with pytest.raises(StudyError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}:{line}: links.cross.rtt: ")


def test_two_stacks_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "twice.yaml"
    file.write_text("blocklab: 2\nstacks:\n  one: {on: a1, layers: []}\n  one: {on: a1, layers: []}\n")
    with pytest.raises(StudyError, match=r"twice.yaml:4: .*duplicate key \"one\""):
        read(file)


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "a: [1\n", "a: b: c\n", "\x00"])
def test_what_is_no_study_is_one_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "no.yaml"
    file.write_text(text)
    with pytest.raises(StudyError, match=r"no\.yaml"):
        read(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such study file"):
        read(tmp_path / "nowhere.yaml")


def test_yaml_never_makes_objects(tmp_path: Path) -> None:
    file = tmp_path / "evil.yaml"
    file.write_text("blocklab: 2\nname: !!python/object/apply:os.system ['touch /tmp/evil']\n")
    with pytest.raises(StudyError):
        read(file)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("file", shipped().values(), ids=lambda file: file.stem)
def test_every_shipped_study_is_well(file: Path, quick: bool) -> None:
    assert cells(read(file, quick=quick))


def test_the_same_file_gives_the_same_keys_and_another_value_another_key(small: dict[str, Any]) -> None:
    first = [cell.key for cell in cells(build(small))]
    assert first == [cell.key for cell in cells(build(small))]
    assert len(set(first)) == len(first)
    small["links"]["zone"]["rtt"] = "500us"  # the same value in other words
    assert first == [cell.key for cell in cells(build(small))]
    small["links"]["zone"]["rtt"] = "0.6ms"
    changed = [cell.key for cell in cells(build(small))]
    # The local stack has no link: its values do not depend on it, so its cells are kept.
    assert changed[:2] == first[:2]
    assert not set(changed[2:]) & set(first[2:])


@given(st.dictionaries(st.text(min_size=1), st.integers() | st.text(), min_size=1))
def test_keys_do_not_depend_on_the_order_of_fields(spec: dict[str, Any]) -> None:
    assert key_of(spec) == key_of(dict(reversed(spec.items())))


def test_quick_is_a_merge_patch(small: dict[str, Any]) -> None:
    small["quick"] = {"workloads": {"tx": {"transactions": 5}, "io": None}}
    assert build(small, quick=True).workloads["tx"].transactions == 5  # type: ignore[union-attr]
    assert set(build(small, quick=True).workloads) == {"tx"}
    assert set(build(small).workloads) == {"tx", "io"}


@pytest.mark.parametrize("quick", [None, [], 3])
def test_a_short_form_that_is_no_map_is_the_same_error_with_quick_and_without(
    small: dict[str, Any], quick: Any
) -> None:
    small["quick"] = quick
    for short in (True, False):
        with pytest.raises(StudyError, match="expected `object`") as caught:
            build(small, quick=short)
        assert caught.value.path == "quick"


documents = st.recursive(
    st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


@given(documents)
def test_an_empty_patch_changes_nothing(document: Any) -> None:
    patched = merge_patch(document, {})
    assert patched == document if isinstance(document, dict) else patched == {}


def test_a_stack_gets_only_the_nodes_and_links_that_it_uses(small: dict[str, Any]) -> None:
    study = build(small)
    local, mirror = topology(study, ["local"]), topology(study, ["mirror"])
    assert list(local.nodes) == ["a1"] and not local.links and len(local.volumes) == 1
    assert list(mirror.nodes) == ["a1", "a2"] and list(mirror.links) == ["zone"] and len(mirror.volumes) == 2


def test_the_active_node_comes_first_and_clients_last_whatever_the_file_says(small: dict[str, Any]) -> None:
    """The first node has a CPU to itself: a client between two nodes of a mirror must not put them on the same."""
    small["nodes"] = {name: {"memory": "256MiB"} for name in ("b1", "a2", "c1", "a1")}
    small["links"]["far"] = {"between": ["a1", "c1"]}
    small["workloads"] = {name: {"workload": "pgbench", "time": "1s", "from": name} for name in ("c1", "b1")}
    study = build(small)
    assert list(topology(study, ["mirror"]).nodes) == ["a1", "a2", "b1", "c1"]
    assert list(topology(study, ["local"], ["c1"]).nodes) == ["a1", "c1"]

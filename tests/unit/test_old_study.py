"""Studies of format 1 mean what they meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from blocklab.cli.notes import warn
from blocklab.errors import StudyError
from blocklab.store.folder import Manifest, decoded, encoded
from blocklab.store.run import load
from blocklab.study.grid import cells
from blocklab.study.read import build, read
from tests.unit import synthetic

NOW = """\
blocklab: 2
name: two
question: What does it cost?
nodes: {a1: {}}
stacks:
  plain: {on: a1, layers: [{layer: volume, size: 1GiB}, {layer: ext4}]}
workloads:
  io: {workload: fio, size: 64MiB, jobs: {w: {rw: randwrite, bs: 4k}}}
  raw: {workload: dd, size: 16MiB, mode: none}
factors:
  kind:
    field: workloads.raw
    values:
      none: {workload: dd, size: 16MiB, mode: none}
      direct: {workload: dd, size: 16MiB, mode: direct}
quick:
  workloads: {raw: null, more: {workload: dd, size: 1MiB, mode: none}}
  factors: {kind: null}
"""
# With every name that has another one today, in each place where a study can have it.
WORDS = """\
blocklab: 2
name: words
question: What does it cost?
nodes: {a1: {memory: 1GiB}, a2: {memory: 512MiB}, c1: {}}
links: {zone: {between: [a1, a2], rtt: 1ms}, client: {between: [c1, a1]}}
stacks:
  md:
    on: a1
    layers: [{layer: volume, size: 1GiB, count: 2}, {layer: lvm_stripe}, {layer: ext4}, {layer: postgres}]
  far:
    on: a1
    layers:
      [{layer: volume, size: 1GiB}, {layer: net_mirror, peer: a2, link: zone, connections: 2},
       {layer: ext4}, {layer: postgres}]
workloads:
  tx: {workload: tpcc, warehouses: 1, threads: 4, time: 10s}
  oltp: {workload: sysbench, threads: 2, time: 10s}
  kept: {workload: ledger, connections: 3, from: c1}
  bench: {workload: pgbench, clients: 5, time: 10s}
  io: {workload: open_loop, size: 64MiB, writes: 100, time: 5s}
factors:
  many: {field: workloads.*.threads, values: [1, 8]}
  rest: {field: stacks.far.layers.net_mirror.connections, values: [2, 4]}
  join: {field: "stacks.md.layers[1].layer", values: [stripe, lvm_stripe]}
quick:
  workloads: {tx: {threads: 1}, kept: {connections: 2}}
"""
RENAMED = {
    "layer: net_mirror": "layer: net-mirror", "layers.net_mirror": "layers.net-mirror", "lvm_stripe": "lvm-stripe",
    "open_loop": "open-loop", "threads": "clients", "ledger, connections: 3": "ledger, clients: 3",
    "kept: {connections": "kept: {clients",
}  # fmt: skip
# The keys of its cells as of the version before these words.
KEYS = {"a56cf8827b03", "6e117e524996", "66b84a2592f4", "506b7ce386bb", "79dc71a3f362", "f75734d0bcd4"}
OLD = NOW.replace("workload: ", "load: ").replace("blocklab: 2", "blocklab: 1")


def study(text: str) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(text)
    return found


@pytest.mark.parametrize("quick", [False, True])
def test_a_study_of_format_1_is_the_same_study(quick: bool) -> None:
    assert "workload: " not in OLD
    assert build(study(OLD), quick=quick) == build(study(NOW), quick=quick)


def test_a_factor_over_a_workloads_kind_is_renamed_too() -> None:
    factor = {"field": "workloads.raw.load", "values": ["dd"]}
    assert build({**study(OLD), "factors": {"kind": factor}}).factors["kind"].field == "workloads.raw.workload"


def today() -> str:
    """``WORDS`` in the words of today."""
    text = WORDS
    for before, now in RENAMED.items():
        text = text.replace(before, now)
    # "*" passes over workloads that have no such field; today all of these have it.
    return text.replace("field: workloads.*.clients", "field: [workloads.tx.clients, workloads.oltp.clients]")


@pytest.mark.parametrize("quick", [False, True])
def test_names_of_before_make_the_same_cells_with_the_keys_that_they_had(quick: bool) -> None:
    before, now = (cells(build(study(text), quick=quick)) for text in (WORDS, today()))
    assert [cell.key for cell in before] == [cell.key for cell in now] and len(before) == 28
    assert [cell.spec for cell in before] == [cell.spec for cell in now]
    assert quick or {cell.key for cell in before} >= KEYS
    assert "lvm_stripe" not in str([cell.spec for cell in before]) and "threads" not in str(before[0].spec)


def test_a_manifest_of_before_is_the_manifest_of_today(tmp_path: Path) -> None:
    what = build(study(today()))
    plain = json.loads(encoded(Manifest(what, cells(what), False, "words.yaml", 1)))
    plain["study"]["stacks"]["md"]["layers"][1]["layer"] = "lvm_stripe"
    plain["study"]["stacks"]["far"]["layers"][1]["layer"] = "net_mirror"
    plain["study"]["workloads"]["io"]["workload"] = "open_loop"
    for name, before in (("tx", "threads"), ("oltp", "threads"), ("kept", "connections")):
        plain["study"]["workloads"][name][before] = plain["study"]["workloads"][name].pop("clients")
    found = decoded(json.dumps(plain).encode(), "study.json")
    assert found.study == what and [cell.key for cell in found.cells] == [cell.key for cell in cells(what)]


def test_a_run_of_before_has_the_names_of_today(tmp_path: Path) -> None:
    path = next(synthetic.make(tmp_path, transactions=100).cells.iterdir())
    (path / "knobs.json").write_text('[{"host": "a1", "layer": "net_mirror", "name": "timeout", "value": "3s"}]')
    assert [knob.layer for knob in load(path).knobs] == ["net-mirror"]


def test_names_of_before_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "words.yaml"
    path.write_text(WORDS)
    warn(read(path), (), path, quick=False)
    assert "note: net_mirror is called net-mirror now; both are read" in capsys.readouterr().err
    path.write_text(today())
    warn(read(path), (), path, quick=False)
    assert "is called" not in capsys.readouterr().err


def test_a_field_by_both_of_its_names_is_a_mistake() -> None:
    with pytest.raises(StudyError, match="threads") as caught:
        build(study(WORDS.replace("threads: 4", "threads: 4, clients: 5")))
    assert caught.value.path == "workloads.tx.threads"


def test_an_option_of_a_program_keeps_its_name() -> None:
    plain = study(OLD)
    plain["factors"] = {"s": {"field": "nodes.a1.sysctl", "values": {"a": {"load": 1}}}}
    with pytest.raises(StudyError, match="load"):
        build(plain)


def test_an_error_in_an_old_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text(OLD.replace("{load: fio,", "{load: fia,"))
    with pytest.raises(StudyError) as caught:
        read(path)
    assert caught.value.line == 8 and "fia" in str(caught.value)


def test_a_study_of_today_does_not_take_the_old_word() -> None:
    with pytest.raises(StudyError, match=r"workloads\.io"):
        build(study(NOW.replace("io: {workload: fio", "io: {load: fio")))

"""What does not fit says where it stands and what to write instead."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from blocklab.cli.studies import expanded
from blocklab.errors import StudyError
from blocklab.study.read import build, read
from tests.unit.changed import put
from tests.unit.refusals import written

LEDGER = {"workload": "ledger", "from": "a2", "rate": "fast"}


def caught(plan: dict[str, Any]) -> StudyError:
    with pytest.raises(StudyError) as found:
        build(plan)
    return found.value


@pytest.mark.parametrize(
    ("where", "value", "path", "hint"),
    [
        ("stacks.mirror.layers.1.protocol", "c", "stacks.mirror.layers[1].protocol", "one of A, B, C"),
        ("stacks.local.layers.1", {"layer": "cap", "by": "v2"}, "stacks.local.layers[1].by",
         "one of cgroup-v1, cgroup-v2"),
        ("links.zone.bond", "lacp", "links.zone.bond", "one of active-backup, balance-rr, balance-xor"),
        ("workloads.tx", LEDGER, "workloads.tx.rate", "one of a whole number, max"),
        ("faults", {"it": {"fault": "explode", "at": "5s"}}, "faults.it.fault", "one of crash, power-cut, freeze"),
        ("faults", {"it": {"at": "5s"}}, "faults.it", "add the field; it is one of crash, power-cut, freeze"),
        ("faults", {"it": {"fault": "crash", "when": "calm"}}, "faults.it.when", "one of settled"),
        ("faults", {"it": {"fault": "crash", "at": 5}}, "faults.it.at", "a time with its unit, like 5s, or"),
        ("stacks.local.layers.1", {"layer": "zfs"}, "stacks.local.layers[1].layer", "one of volume, shared"),
        ("workloads.tx", {"workload": "hammer"}, "workloads.tx.workload", "one of fio, pgbench, tpcc"),
        ("workloads.tx.stop", {"rounds": 3}, "workloads.tx.stop.rounds", "the least and the most rounds"),
        ("workloads.tx.script", 5, "workloads.tx.script", "put it in quotes"),
        ("workloads.tx.clients", "8", "workloads.tx.clients", "a whole number, without quotes and without a unit"),
        ("stacks.mirror.layers.1", {"layer": "drbd", "peer": "a2"}, "stacks.mirror.layers[1]", "add the field"),
        ("blocklab", 3, "blocklab", "one of 2"),
    ],
)  # fmt: skip
def test_the_cure_names_what_there_is(small: dict[str, Any], where: str, value: Any, path: str, hint: str) -> None:
    put(small, where, value)
    error = caught(small)
    assert error.path == path and error.hint.startswith(hint), error


@pytest.mark.parametrize(
    ("where", "value", "line"),
    [
        ("colour", "red", "colour: red"),
        ("nodes.a1.cpus", 2, "    cpus: 2"),
        ("stacks.mirror.layers.1.protocool", "C", "      protocool: C"),
        ("profiles", {"mine": {"iops": 5, "speed": 5}}, "    speed: 5"),
    ],
)
def test_an_unknown_field_has_its_own_line(
    small: dict[str, Any], tmp_path: Path, where: str, value: Any, line: str
) -> None:
    put(small, where, value)
    file = Path(written(small, tmp_path))
    number = file.read_text().splitlines().index(line) + 1
    with pytest.raises(StudyError, match="unknown field") as found:
        read(file)
    assert str(found.value).startswith(f"{file}:{number}: ")


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (
            {"field": "stacks.mirror.layers.drbd.protocol", "values": ["D"]},
            "with f=D: stacks.mirror.layers[1].protocol: invalid enum value 'D'",
        ),
        (
            {"field": "links.zone.rtt", "values": [5]},
            "with f=5: links.zone.rtt: 5 has no unit; write it like 2.7ms",
        ),
        (
            {"field": "links.zone.rttt", "values": ["1ms"]},
            "with f=1ms: links.zone.rttt: object contains unknown field",
        ),
        (
            {"field": "stacks.*.layers.volume.profile", "values": ["gp9"]},
            "with f=gp9: stacks.local.layers[0].profile: there is no profile 'gp9'",
        ),
    ],
)
def test_a_level_that_does_not_fit_is_told_by_its_place(
    small: dict[str, Any], factor: dict[str, Any], said: str
) -> None:
    error = caught({**small, "factors": {"f": factor}})
    assert error.path == "factors.f" and error.problem.startswith(said)
    assert "$" not in str(error) and "[...]" not in str(error)


def test_the_cure_of_a_level_is_that_of_the_field(small: dict[str, Any]) -> None:
    factor = {"field": "stacks.mirror.layers.drbd.protocol", "values": ["c"]}
    assert caught({**small, "factors": {"f": factor}}).problem.endswith("'c'; one of A, B, C")


# -- numbers that cannot be stored --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("profiles", {"san": {"iops_per_gib": math.nan}}, "profiles.san.iops_per_gib: must be finite"),
        ("profiles", {"san": {"iops_per_gib": math.inf}}, "profiles.san.iops_per_gib: must be finite"),
        ("workloads.tx.clients", 10**30, "workloads.tx.clients: does not fit into 64 bits"),
        ("stacks.local.layers.2.settings", {"work_mem": -math.inf}, "stacks.local.layers[2].settings.work_mem"),
        ("factors", {"f": {"field": "links.zone.mtu", "values": [1500, 2**70]}}, "factors.f.values[1]: does not"),
    ],
)  # fmt: skip
def test_a_number_that_no_run_can_store(small: dict[str, Any], where: str, value: Any, said: str) -> None:
    put(small, where, value)
    assert str(caught(small)).startswith(said)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"iops_per_gib": -3}, "iops_per_gib: -3: must be above 0"),
        ({"iops_per_gib": 1e300}, "iops_per_gib: 1e+300: must be above 0, and at most"),
        ({"iops": -5}, "iops: -5: must be 1 or more"),
        ({"iops": 10**18}, "iops: 1000000000000000000: must be 1 or more"),
        ({"iops_per_gib": 3, "iops_least": 200, "iops_most": 100}, "iops_least: 200 is more than iops_most, 100"),
        ({"bandwidth_per_io": "4KiB", "bandwidth_least": "9MB/s", "bandwidth_most": "5MB/s"},
         "bandwidth_least: 9000000B/s is more than bandwidth_most, 5000000B/s"),
        ({"bandwidth": "1B/s"}, "bandwidth: 1B/s: must be 4096B/s or more"),
        ({"write_latency": "11s"}, "write_latency: over 10 s"),
        ({"burst_seconds": -1, "burst_iops": 5}, "burst_seconds: -1: must be 1 or more"),
    ],
)  # fmt: skip
def test_figures_that_no_volume_has_in_a_profile_that_nothing_uses(
    small: dict[str, Any], entry: dict[str, Any], said: str
) -> None:
    small["profiles"] = {"san": entry}
    assert str(caught(small)).startswith(f"profiles.san.{said}")


def test_a_bandwidth_beyond_all_bounds_is_no_traceback(small: dict[str, Any]) -> None:
    small["profiles"] = {"san": {"bandwidth_per_io": "256KiB"}}
    small["stacks"]["local"]["layers"][0] |= {"profile": "san", "iops": 10**18}
    assert str(caught(small)).startswith(
        "stacks.local.layers[0].iops: 1000000000000000000 times the 262144B an I/O"
    )


# -- the short form ----------------------------------------------------------------------------------------------

SHORT = """blocklab: 2
name: small
question: q
nodes: {a1: {}}
stacks:
  local: {on: a1, layers: [{layer: volume, size: 512MiB}, {layer: xfs}, {layer: postgres}]}
workloads:
  tx: {workload: pgbench, scale: 1, clients: 2, time: 20s}
  io: {workload: fio, size: 16MiB, options: {runtime: 1}, jobs: {w: {rw: write, bs: 4k}}}
expect:
  - {metric: write.iops, workload: io, phase: w, stack: local, between: [1, 2]}
quick:
  %s
"""


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("workloads: {tx: {time: 5}}", "{}:13: workloads.tx.time: 5 has no unit; write it like 2.7ms (with"),
        ("workloads: {tx: {tyme: 5s}}", "{}:13: workloads.tx.tyme: object contains unknown field `tyme` (with"),
        # A list is replaced as a whole, so that what it lacks stands nowhere.
        ("stacks: {local: {layers: [{layer: volume}]}}", "{}:13: stacks.local.layers[0]: object missing required"),
        # What the short form leaves out is missed elsewhere.
        ("workloads: {io: null}", "{}:11: expect[0]"),
    ],
)
def test_what_is_wrong_with_the_short_form_has_its_line_there(tmp_path: Path, patch: str, said: str) -> None:
    file = tmp_path / "short.yaml"
    file.write_text(SHORT % patch)
    assert read(file)
    with pytest.raises(StudyError, match=r"\(with --quick\)") as found:
        read(file, quick=True)
    assert str(found.value).startswith(said.format(file))


def test_what_is_wrong_with_both_forms_has_its_line_in_the_full_one(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text((SHORT % "workloads: {tx: {time: 5s}}").replace("clients: 2", "clients: 0"))
    for quick in (False, True):
        with pytest.raises(StudyError) as found:
            read(file, quick=quick)
        assert str(found.value).startswith(f"{file}:8: workloads.tx")
        assert ("(with --quick)" in str(found.value)) == quick


def test_a_factor_of_the_short_form_has_its_line_there(tmp_path: Path) -> None:
    """It changes nothing, which only the whole grid tells."""
    file = tmp_path / "short.yaml"
    file.write_text(SHORT % "factors: {f: {field: takeover.misses, values: [3, 5]}}")
    with pytest.raises(StudyError) as found:
        expanded(read(file, quick=True), file, quick=True)
    assert str(found.value).startswith(f"{file}:13: factors.f") and "(with --quick)" in str(found.value)

"""What does not fit says where it stands and what to write instead."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from blocklab.campaign.choice import expanded
from blocklab.errors import StudyError
from blocklab.study.doubts import doubts
from blocklab.study.grid import cells
from blocklab.study.read import build, read
from blocklab.study.shipped import shipped
from tests.unit.changed import put
from tests.unit.refusals import written
from tests.unit.shells import Shell

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
        ("blocklab", 3, "blocklab", "format 3 is newer than this blocklab, which reads 2"),
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
            "with f=5: links.zone.rtt: 5 has no unit; write it like 5s or 5ms",
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
        ("workloads: {tx: {time: 5}}", "{}:13: workloads.tx.time: 5 has no unit; write it like 5s or 5ms (with"),
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


# -- several mistakes of one file, each with what was meant -------------------------------------------------------

WRONG = """\
blocklab: 3
question: What?
base_line: local
nodes:
  a1: {memory: 1GiB}
  a2: {memory: 256MiB}
links:
  near: {between: [a1, a2], latency: 5ms}
stacks:
  local:
    on: a1
    layers: [{layer: volume, profile: aws-gp3, size: 1GiB}, xfs, {layer: postgres}]
  mirror:
    on: a1
    layers: [{layer: volume, iops: 5k, size: 1GiB}, {layer: drbd, peer: a2, link: near}, {layer: xfs}]
workloads:
  tx: {workload: pgbench, scale: 10, clents: 8, time: 30}
  tp: {workload: tpcc, connections: 8, duration: 30s}
factors:
  rtt: {feld: links.near.rtt, values: [1ms, 5ms]}
"""


def test_every_mistake_of_a_file_is_reported_with_what_was_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG)
    code, _, err = Shell(monkeypatch, capsys)("check", str(file))
    assert code == 2
    said = [
        ("", "missing required field `name`", "add the field, e.g. name: my-study"),
        (":1: blocklab", "invalid enum value 3", "update blocklab"),
        (":3: base_line", "unknown field", "did you mean baseline? the fields here are blocklab, name"),
        (":8: links.near.latency", "unknown field", "did you mean rtt? the fields here are between, rtt, jitter"),
        (":12: stacks.local.layers[0].profile", "did you mean gp3?", ""),
        (":12: stacks.local.layers[1]", "expected `object`, got `str`", "write {layer: xfs}"),
        (":15: stacks.mirror.layers[0].iops", "got `str`", "write 5000"),
        (":17: workloads.tx.clents", "unknown field", "did you mean clients? the fields here are workload, scale"),
        (":17: workloads.tx.time", "30 has no unit; write it like 30s or 30ms", ""),
        (":18: workloads.tp.connections", "unknown field", "did you mean clients?"),
        (":18: workloads.tp.duration", "unknown field", "did you mean time?"),
        (":20: factors.rtt.feld", "unknown field", "did you mean field?"),
    ]
    errors = err.split("error: ")[1:]
    assert len(errors) == len(said), err
    for text, (place, problem, hint) in zip(errors, said, strict=True):
        message, _, told = text.partition("\n  hint: ")
        assert message.startswith(f"{file}{place}") and problem in message and hint in told, text


def test_what_cannot_be_built_is_reported_whole_too(small: dict[str, Any]) -> None:
    put(small, "baseline", "lokal")
    put(small, "stacks.local.layers.0.size", "1GB")
    put(small, "workloads.tx.clients", 0)
    put(small, "stacks.mirror.layers.1.peer", "a22")
    put(small, "expect", [{"metric": "tpss", "workload": "tx", "stack": "local", "between": [0, 1]}])
    error = caught(small)
    told = {each.path: each.problem for each in (error, *error.more)}
    assert "did you mean local?" in told["baseline"]
    assert told["stacks.local.layers[0].size"].endswith("; write 1GiB")
    assert "no node 'a22'" in told["stacks.mirror.layers[1].peer"]
    assert told["workloads.tx.clients"] == "must be at least 1"
    assert told["expect[0].metric"] == "there is no metric 'tpss'; did you mean tps?"


def test_a_workload_for_another_server_is_told_which_one_fits(small: dict[str, Any]) -> None:
    put(small, "stacks.local.layers.2", {"layer": "mariadb"})
    error = caught(small)
    assert error.path == "workloads.tx"
    assert error.problem == (
        "needs a PostgreSQL server, which stack local does not offer; give the stack a layer postgres, or use "
        "tpcc, sysbench or ledger there"
    )


def test_a_mirror_over_a_file_system_belongs_below_it(small: dict[str, Any]) -> None:
    layers = small["stacks"]["mirror"]["layers"]
    layers[1], layers[2] = layers[2], layers[1]
    error = caught(small)
    assert error.path == "stacks.mirror.layers[2]"
    assert error.problem.endswith("but ext4 below it gives a file system; move drbd below ext4")


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (b"blocklab: 2\nname: \xfcber\n", "file.yaml:2: is not UTF-8: byte 0xfc", "save it as UTF-8"),
        (b"blocklab: 2\nnodes:\n\ta1: {}\n", "file.yaml:3: not YAML: a tab", "indent with blanks"),
        (b"blocklab: 2\nnodes: {a1: {}\nname: x\n", "file.yaml:3: not YAML: ", "is the { in line 2 closed"),
        (
            b"blocklab: 2\nstacks:\n  one: {on: a1}\n  two: {on: a1}\n  one: {on: a2}\n",
            'file.yaml:5: found duplicate key "one", first in line 3', "give each one a name",
        ),
    ],
)  # fmt: skip
def test_what_is_no_yaml_is_told_with_its_line(tmp_path: Path, text: bytes, said: str, hint: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_bytes(text)
    with pytest.raises(StudyError) as found:
        read(file)
    assert said in found.value.message and found.value.hint.startswith(hint)


def test_a_folder_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="is a folder"):
        read(tmp_path)
    with pytest.raises(StudyError, match="no such study file; did you mean drbd-az") as found:
        read(tmp_path / "drbd-as.yaml")
    assert "blocklab new NAME" in found.value.hint


def test_an_unknown_factor_or_level_of_an_option_has_its_nearest(
    tmp_path: Path, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    factors = {"rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "10ms"]}}
    file = written({**small, "factors": factors}, tmp_path)
    shell = Shell(monkeypatch, capsys)
    for at, said in (
        ("rt=10ms", "--at rt=10ms: there is no factor 'rt'; did you mean rtt?"),
        ("rtt=10m", "--at rtt=10m: there is no level '10m'; did you mean 10ms?"),
        ("rtt", "--at rtt: not FACTOR=LEVEL"),
    ):
        code, _, err = shell("plan", file, "--at", at)
        assert code == 2 and said in err


# -- what no run can answer ---------------------------------------------------------------------------------------


def claims(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"workload": "tx", "stack": "mirror", "between": [0, 1], **entry} for entry in entries]


@pytest.mark.parametrize(
    ("claim", "path", "said"),
    [
        ({"metric": "tpss"}, "metric", "there is no metric 'tpss'; did you mean tps?"),
        ({"metric": "cpu.bussy"}, "metric", "there is no metric 'cpu.bussy'; did you mean cpu.busy?"),
        ({"metric": "tpmc"}, "metric", "tx (pgbench) does not report tpmc; pgbench reports"),
        ({"metric": "tps", "workload": "io", "phase": "write-4k"}, "metric", "io (fio) does not report tps; fio"),
        ({"metric": "latency.p99", "workload": "io", "phase": "write-4k"}, "metric",
         "io (fio) does not report latency.p99; did you mean read.latency.p99 or write.latency.p99"),
        ({"metric": "cpu.busy"}, "host", "is missing: cpu.busy is measured on each node; name one of a1"),
        ({"metric": "tps", "between": ["1ms", "2ms"]}, "between", "tps is no time: give plain numbers in 1/s"),
    ],
)  # fmt: skip
def test_a_claim_about_what_is_not_measured_is_refused(
    small: dict[str, Any], claim: dict[str, Any], path: str, said: str
) -> None:
    error = caught({**small, "expect": claims(claim)})
    assert error.path == f"expect[0].{path}" and error.problem.startswith(said), error


@pytest.mark.parametrize(
    "claim",
    [
        {"metric": "latency.p99"},
        {"metric": "cpu.busy", "host": "a2"},
        {"metric": "read.await"},
        {"metric": "layer.write.bytes"},
        {"metric": "write.iops", "host": "a2"},
    ],
)
def test_what_probes_and_workloads_measure_may_be_claimed(small: dict[str, Any], claim: dict[str, Any]) -> None:
    assert build({**small, "expect": claims(claim)})


def test_a_chart_of_no_metric_is_refused(small: dict[str, Any]) -> None:
    error = caught({**small, "report": {"y": "latncy.p99"}})
    assert (error.path, error.problem) == (
        "report.y",
        "there is no metric 'latncy.p99'; did you mean latency.p99?",
    )
    assert build({**small, "report": {"y": "latency.p99"}})


def doubts_of(plan: dict[str, Any], *, quick: bool = False) -> dict[str, str]:
    study = build(plan, quick=quick)
    return {each.path: each.problem for each in doubts(study, cells(study), quick=quick)}


def test_what_a_single_build_or_several_cells_leave_open_is_a_warning(small: dict[str, Any]) -> None:
    small["factors"] = {"rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "10ms"]}}
    ratio = {"metric": "tps", "relative_to": "local"}
    small["expect"] = claims(
        ratio, {**ratio, "at": {"rtt": "10ms"}}, {**ratio, "relative_to": "mirror", "at": {"rtt": "10ms"}}
    )
    assert doubts_of(small) == {
        "expect": "each layout is built once, so all 3 expectations will stay `one build`",
        "expect[0].at": "mirror/tx is 2 cells, so it will stay `unknown`: name a level of rtt",
        "expect[2].relative_to": "compares a cell with itself: the ratio is 1 whatever is measured",
    }
    # Repeats decide, and a cell that is compared with itself never is.
    assert list(doubts_of({**small, "repeats": 3})) == ["expect[0].at", "expect[2].relative_to"]
    small["exclude"] = [{"stack": "mirror", "rtt": "10ms"}]
    assert "no such cell of mirror/tx is measured" in doubts_of({**small, "repeats": 3})["expect[1].at"]


def test_a_chart_of_what_no_workload_reports_is_a_warning(small: dict[str, Any]) -> None:
    assert doubts_of({**small, "report": {"y": "tpmc"}}) == {
        "report.y": "no workload of the study reports tpmc, so the report shows throughput"
    }
    assert not doubts_of({**small, "report": {"y": "latency.p99"}})


def test_check_plan_and_run_warn_once(
    tmp_path: Path, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small["expect"] = claims({"metric": "tps"})
    small["quick"] = {"workloads": {"tx": {"transactions": 10}}}
    file = written(small, tmp_path)
    shell = Shell(monkeypatch, capsys)
    said = "expect: each layout is built once, so the one expectation will stay `one build`"
    for command in (("check",), ("plan", "--cells"), ("plan",)):
        code, _, err = shell(*command, file)
        assert (code, err.count(said)) == (0, 1)
        assert "hint: add `repeats: 3`" in err
    code, out, _ = shell("check", file, "--json")
    (warning,) = json.loads(out)["warnings"]
    assert (code, warning["path"], f"expect: {warning['problem']}") == (0, "expect", said) and warning["line"] > 0
    assert said not in shell("plan", file, "--repeats", "3")[2]
    # A quick variant decides nothing by design: one line.
    code, _, err = shell("check", file, "--quick")
    assert code == 0 and "warning" not in err
    assert "note: --quick is a first look: built once, the one expectation will stay `one build`" in err


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("file", shipped().values(), ids=lambda file: file.stem)
def test_shipped_studies_ask_nothing_in_vain(file: Path, quick: bool) -> None:
    study = read(file, quick=quick)
    assert not list(doubts(study, cells(study), quick=quick))


def test_the_study_to_start_from_asks_nothing_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(monkeypatch, capsys)
    assert shell("new", "mine", "--file", str(tmp_path / "mine.yaml"))[0] == 0
    code, _, err = shell("check", str(tmp_path / "mine.yaml"))
    assert code == 0 and "warning" not in err
    assert read(tmp_path / "mine.yaml").repeats == 3

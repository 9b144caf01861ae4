"""fio's JSON+ of a disk becomes a volume profile, which a study names; what holds queueing does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from blocklab.cli.main import app
from blocklab.errors import StudyError
from blocklab.formats.text import Refused
from blocklab.imports.disk import disk, yaml
from blocklab.layers import Volume
from blocklab.study.read import build
from tests.unit.golden import FOLDER

MIXED, EVEN, BURSTS = (FOLDER / "fio-disk" / f"{name}.json" for name in ("mixed", "even", "bursts"))


def plain(found: str) -> Any:
    return YAML(typ="safe").load(found)


def test_a_disk_at_depth_1_makes_a_profile_that_a_study_names(small: dict[str, Any]) -> None:
    found = disk(MIXED)
    written = plain(yaml("our-disk", found))
    assert written == {"profiles": {"our-disk": {**found.entry(), "source": f"{found.source}"}}}
    small["stacks"] = {
        "one": {"on": "a1", "layers": [{"layer": "volume", "size": "64MiB", "profile": "our-disk"}]}
    }
    small |= {"baseline": "one", "workloads": {"io": small["workloads"]["io"]}, **written}
    small["workloads"]["io"].pop("from", None)
    volume = build(small).stacks["one"].layers[0]
    assert isinstance(volume, Volume)
    (profile,) = volume.profiles()
    assert profile.read_quantiles is not None and profile.write_quantiles is not None
    # fio's own, which are the centres of bins that are 1.6 % wide: 399,360, 643,072, 716,800 and 3,457,024 ns.
    assert float(profile.read_quantiles["p50"]) == pytest.approx(399_360e-9, rel=0.008)
    assert float(profile.read_quantiles["p99"]) == pytest.approx(643_072e-9, rel=0.008)
    assert float(profile.write_quantiles["p50"]) == pytest.approx(716_800e-9, rel=0.008)
    assert float(profile.write_quantiles["p99"]) == pytest.approx(3_457_024e-9, rel=0.008)
    # Two of 2,445 reads took longer than p99.9: too few to know it.
    assert next(iter(profile.read_quantiles)) == "p1" and list(profile.read_quantiles)[-1] == "p99.5"


def test_it_says_where_it_is_from_and_how_well_it_is_known() -> None:
    found = disk(MIXED)
    assert found.source.startswith(
        "fio-3.39, randrw of 4k at queue depth 1: 2445 reads, p50 0.3981ms, p99 0.6432ms"
    )
    assert "p99.9 1.795ms" in found.source and "2545 writes" in found.source
    assert all(way.distance < 0.02 for way in found.ways.values())
    assert any("drawn as p99.5" in said and "3.082ms" in said for said in found.said)


def test_slow_requests_that_came_together_may_not_be_drawn() -> None:
    """Volumes of a table, and of a constant with slow spells."""
    even, bursts = (disk(path).ways["read"] for path in (EVEN, BURSTS))
    assert even.drawn and not bursts.drawn
    assert even.uneven is not None and bursts.uneven is not None and even.uneven < 2 < bursts.uneven
    assert disk(EVEN).source.endswith("may be drawn from this distribution.")
    assert "not to be drawn from a distribution" in disk(BURSTS).source
    assert any("slow: {times: ..., for: ..., every: ...}" in said for said in disk(BURSTS).said)
    # Of a single report nobody knows.
    assert disk(MIXED).ways["read"].drawn is None and "unknown whether" in disk(MIXED).source


def changed(tmp_path: Path, change: Callable[[Any], object]) -> Path:
    """The mixed one with something else in it."""
    report = json.loads(MIXED.read_text())
    change(report)
    path = tmp_path / "disk.json"
    path.write_text(json.dumps(report, indent=2))
    return path


def job(**options: str) -> Callable[[Any], object]:
    return lambda report: report["jobs"][0]["job options"].update(options)


def deeper(report: Any) -> None:
    job(iodepth="8")(report)
    report["jobs"][0]["iodepth_level"] = {"1": 0.1, "8": 99.9}


def twice(report: Any) -> None:
    report["jobs"].append({**report["jobs"][0], "jobname": "again"})


def unseen(report: Any) -> None:
    for way in ("read", "write"):
        for kind in ("lat_ns", "clat_ns"):
            report["jobs"][0][way][kind].pop("bins", None)


def few(report: Any) -> None:
    for way in ("read", "write"):
        report["jobs"][0][way]["total_ios"] = 999


def stalled(report: Any) -> None:
    report["jobs"][0]["write"]["lat_ns"]["bins"] = {"11005853696": 2545}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (deeper, "job disk ran at queue depth 8, so its latencies hold queueing"),
        (job(numjobs="4"), "job disk ran 4 times at once (numjobs), so its latencies hold queueing"),
        (twice, "jobs disk and again ran at the same time (no stonewall)"),
        (job(direct="0"), "job disk went through the page cache; run fio with --direct=1"),
        (unseen, "has no histogram; run fio with --output-format=json+"),
        (few, "999 reads are too few: left out; 999 writes are too few: left out; 1,000 tell what p99 is"),
        (stalled, "writes: p1: must be above 0, and at most 10 s"),
        (lambda report: report["jobs"][0].update(error=5), "job disk ended with error 5"),
    ],
)
def test_what_does_not_tell_what_single_requests_take(
    tmp_path: Path, change: Callable[[Any], object], said: str
) -> None:
    with pytest.raises(Refused) as caught:
        disk(changed(tmp_path, change))
    assert said in str(caught.value)


def test_jobs_one_after_the_other_are_one_profile_and_one_direction_is_of_one_job(tmp_path: Path) -> None:
    def apart(report: Any) -> None:
        first = report["jobs"][0]
        second = {**first, "jobname": "reads", "job options": {**first["job options"], "stonewall": ""}}
        second["write"] = {**first["write"], "total_ios": 0}
        report["jobs"] = [{**first, "read": {**first["read"], "total_ios": 0}}, second]

    assert set(disk(changed(tmp_path, apart)).ways) == {"read", "write"}

    def same(report: Any) -> None:
        twice(report)
        report["jobs"][1]["job options"] = {**report["jobs"][0]["job options"], "stonewall": ""}

    with pytest.raises(Refused, match="two of its jobs read; give each a file of its own"):
        disk(changed(tmp_path, same))


def test_completion_alone_is_taken_and_said(tmp_path: Path) -> None:
    def completion(report: Any) -> None:
        report["jobs"][0]["read"]["lat_ns"].pop("bins")

    found = disk(changed(tmp_path, completion))
    assert found.ways["read"].p50 == pytest.approx(325_632e-9, rel=0.008)
    assert any("without submission; lat_percentiles=1" in said for said in found.said)


# -- the command -----------------------------------------------------------------------------------------------


def test_the_command_prints_lines_of_a_study_or_json() -> None:
    done = CliRunner().invoke(app, ["import", str(MIXED), "--name", "our-disk"])
    assert done.exit_code == 0 and "our-disk" in plain(done.output)["profiles"]
    done = CliRunner().invoke(app, ["import", str(BURSTS), "--json"])
    found = json.loads(done.output)
    assert found["name"] == "bursts" and found["directions"]["read"]["drawn"] is False
    assert found["profile"]["read_quantiles"]["p50"].endswith("ms")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "give either FILE or --stack"),
        ([str(MIXED), "--stack", "a=b"], "give either FILE or --stack"),
        ([str(MIXED), "--zone", "UTC", "--dates", "ymd"], "the options of one of the two only"),
        (["--stack", "a=b", "--name", "x"], "the options of one of the two only"),
        ([str(Path(__file__))], "no JSON of fio's"),
        (["nothing.json"], "cannot be read"),
    ],
)
def test_wrong_calls(argv: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["import", *argv])
    assert isinstance(done.exception, StudyError)
    assert said in done.exception.problem

"""Rates that are predicted: the model on published points and its own, the design, the report, refusals."""

from __future__ import annotations

import csv
import json
import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from blocklab.cli.main import main, predicting
from blocklab.cli.studies import predicted
from blocklab.errors import StudyError
from blocklab.predict.cells import analysed, plan
from blocklab.predict.curve import Curve, Spot
from blocklab.predict.design import chosen, usual_count
from blocklab.report import render, terminal_table
from blocklab.stats.compare import families
from blocklab.store.folder import Manifest, StudyFolder
from blocklab.study.grid import cells
from blocklab.study.read import build
from tests.unit.synthetic import make_sweep, sweep, tpmc

# docs/studies/mysql-rtt.md: tpmC by sync_binlog and threads: local, disconnected, mirror at 0.5, 10 and 20 ms.
PUBLISHED = {
    (0, 1): (2898, 3378, 3232, 1248, 874), (0, 16): (4683, 4960, 3680, 3734, 3566),
    (0, 64): (3972, 4315, 4564, 3514, 3764), (1, 1): (3271, 3579, 1580, 701, 399),
    (1, 16): (6164, 4831, 3976, 2723, 2484), (1, 64): (4569, 5922, 2996, 3360, 3022),
}  # fmt: skip
COLUMNS = ((0, 0.0), (1, 0.0), (2, 0.5e-3), (2, 10e-3), (2, 20e-3))


def off(curve: Curve, spot: Spot, rate: float) -> float:
    return abs(float(curve.rates([spot])[0]) / rate - 1)


def test_thirty_published_points_each_predicted_by_the_others() -> None:
    spots = [
        Spot(stack, group, clients, rtt) for group, clients in PUBLISHED for stack, rtt in COLUMNS
    ]  # fmt: skip
    rates = [value / 60 for row in PUBLISHED.values() for value in row]
    curve = Curve(spots, rates)
    errors = [off(curve.without(at), spots[at], rates[at]) for at in range(len(spots))]
    assert statistics.median(errors) <= 0.13
    assert sorted(errors)[26] <= 0.31
    # Each commit syncs the binary log besides the redo log.
    few, many = curve.parameters.waits
    assert many > 1.5 * few


def truth(spot: Spot) -> float:
    """X of the model itself, by hand."""
    wait = (0.5e-3, 1.5e-3)[spot.stack] + spot.rtt
    took = 4e-3 + (2.0, 5.0)[spot.group] * wait * (1 + (1 - 1 / spot.clients) / 2)
    return float(((spot.clients / took) ** -3 + (900.0, 600.0)[spot.group] ** -3) ** (-1 / 3))


def everywhere() -> list[Spot]:
    rtts = ((0, 0.0), *((1, rtt) for rtt in (0.5e-3, 2e-3, 10e-3, 20e-3)))
    return [
        Spot(stack, group, float(2**power), rtt)
        for group in (0, 1) for stack, rtt in rtts for power in range(7)
    ]  # fmt: skip


def test_its_own_parameters_are_found_again_and_its_intervals_hold() -> None:
    spots = everywhere()
    inside: list[bool] = []
    errors: list[float] = []
    for seed in range(12):
        chance = random.Random(seed)
        known = chosen(spots, 18)
        rates = [truth(spots[at]) * chance.lognormvariate(0, 0.06) for at in known]
        curve = Curve([spots[at] for at in known], rates)
        rest = [spot for at, spot in enumerate(spots) if at not in known]
        for spot, found in zip(rest, curve.intervals(rest), strict=True):
            # A new measurement has noise of its own.
            value = truth(spot) * chance.lognormvariate(0, 0.06)
            inside.append(found.low <= value <= found.high)
            errors.append(abs(found.value / value - 1))
            assert found.low <= found.value <= found.high
        assert 1.7 < curve.parameters.waits[1] / curve.parameters.waits[0] < 3.6
    assert statistics.median(errors) < 0.1
    assert 0.85 <= statistics.fmean(inside) <= 0.99


def test_the_interval_of_a_cell_does_not_know_that_cell() -> None:
    spots = everywhere()[::3]
    rates = [truth(spot) for spot in spots]
    before = Curve(spots, rates).without(4).rates([spots[4]])[0]
    rates[4] *= 3
    assert Curve(spots, rates).without(4).rates([spots[4]])[0] == pytest.approx(before, rel=1e-3)


def test_the_design_is_the_same_each_time_and_spans_the_grid() -> None:
    spots = everywhere()
    found = chosen(spots, 16)
    assert found == chosen(spots, 16) and len(set(found)) == 16
    mine = [spots[at] for at in found]
    assert {(each.stack, each.group) for each in mine} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert min(each.clients for each in mine) == 1 and max(each.clients for each in mine) == 64
    assert max(each.rtt for each in mine) == 20e-3
    assert usual_count(spots) == 14 and usual_count(spots[:20]) == 10


# -- a study ---------------------------------------------------------------------------------------------------


def part(tmp_path: Path, count: int = 0, **changes: Any) -> StudyFolder:
    """The synthetic sweep, of which only the design was measured; its database is not the model's."""
    study = sweep(**changes)
    grid = cells(study)
    measured, left = predicted(study, grid, grid, count)
    folder = make_sweep(tmp_path, study)
    keys = tuple(cell.key for cell in measured)
    for cell in grid:
        if cell.key not in keys:
            for file in sorted((folder.cells / cell.key).rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
            (folder.cells / cell.key).rmdir()
    return StudyFolder.create(tmp_path, Manifest(study, grid, todo=keys, predicted=left))


def test_a_fifth_of_a_study_tells_the_rest_and_decides_nothing(tmp_path: Path) -> None:
    folder = part(tmp_path)
    analysis = analysed(folder)
    grid = folder.manifest().cells
    assert len(analysis.cells) == 20 and len(grid) == 98
    fit = next(each for each in analysis.fits if each.metric == "tpmc")
    assert len(fit.cells) == 78 and fit.points == 20 and len(fit.errors) == 4
    errors = [abs(each.value / tpmc(each.stack, each.levels) - 1) for each in fit.cells]
    assert statistics.median(errors) < 0.1
    inside = [each.low <= tpmc(each.stack, each.levels) <= each.high for each in fit.cells]
    assert statistics.fmean(inside) > 0.8
    # What is measured is the same as without predictions, and nothing is missing.
    assert not analysis.gaps and analysis.left_out == 0
    assert {row.layer for row in analysis.rows}.isdisjoint({"predicted"})
    assert all(len(family.rows) == 20 for family in families(analysis) if family.metric == "tpmc")


def test_predicted_values_are_named_in_every_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = part(tmp_path)
    page = render(folder).read_text()
    assert 'id="predicted"' in page and "Hollow and named predicted" in page
    rows = list(csv.DictReader((folder.path / "report.csv").read_text().splitlines()))
    guessed = [row for row in rows if row["limited"] == "predicted"]
    assert len([row for row in guessed if row["metric"] == "tpmc"]) == 78
    assert all(row["layer"] == "predicted" and not row["verdict"] and not row["relative"] for row in guessed)
    document = json.loads((folder.path / "report.json").read_text())
    assert {len(each["cells"]) for each in document["predicted"]} == {78}
    from blocklab.model.terminal import Console

    Console(width=100).print(terminal_table(folder, every=True))
    said = capsys.readouterr().out
    assert "predicted from 20 measured cells" in said and "~" in said and "waits for storage" in said


def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *argv: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["blocklab", *argv])
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, " ".join(captured.err.split())


def test_a_finished_study_answers_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(make_sweep(tmp_path).path)

    def ask(*at: str) -> tuple[int, str, str]:
        more = [text for each in at for text in ("--at", each)]
        return call(capsys, monkeypatch, "predict", folder, *more, "--stack", "mirror", "--json")

    code, out, _ = ask("rtt=1.3ms", "clients=48", "sync_binlog=1")
    assert code == 0
    tpmcs = next(each for each in json.loads(out) if each["metric"] == "tpmc")
    (cell,) = tpmcs["cells"]
    there = [tpmc("mirror", {"rtt": rtt, "threads": "64", "sync_binlog": "1"}) for rtt in ("1ms", "2ms")]
    assert 0.7 * min(there) < cell["value"] < 1.3 * max(there)
    assert cell["low"] < cell["value"] < cell["high"]
    for at, says in (
        (("rtt=1ms", "clients=200"), "beyond twice of what was measured"),
        (("rtt=50ms", "clients=8"), "beyond twice of what was measured"),
        (("clients=8",), "--at rtt=: which of"),
        (("speed=8",), "--at speed=8: not known here"),
        (("clients=-1", "rtt=1ms"), "must be above 0"),
    ):
        code, _, said = ask(*at)
        assert code == 2 and says in said, said


def test_studies_that_have_nothing_to_predict_from_are_refused() -> None:
    def refused(count: int | None = None, **changes: Any) -> str:
        study = sweep(**changes)
        with pytest.raises(StudyError) as caught:
            plan(study, cells(study), count)
        return str(caught.value)

    assert "no curve to predict from" in refused(
        factors={"sync_binlog": {"field": "stacks.*.layers.postgres.settings.commit_siblings", "values": [0, 1]}},
        expect=[],
    )
    threads = {"threads": {"field": "workloads.tpcc.clients", "values": [1, 2, 4]}}
    assert "has 6 cells, and the model needs 10" in refused(factors=threads, expect=[])
    assert "has 98 cells, and the model needs 98" in refused(98)


def test_depths_of_fio_are_clients_too(small: dict[str, Any]) -> None:
    small["workloads"] = {"io": small["workloads"]["io"]}
    depths: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128)
    small["factors"] = {
        "depth": {"field": "workloads.io.options.iodepth", "values": list(depths)},
        "rtt": {"field": "links.zone.rtt", "values": ["0.5ms", "2ms"]},
    }
    small["workloads"]["io"]["options"]["ioengine"] = "libaio"
    study = build(small)
    assert len(plan(study, cells(study), None)) == 10


def test_predict_may_stand_without_a_number() -> None:
    assert predicting(["run", "x", "--predict"]) == ["run", "x", "--predict", "0"]
    assert predicting(["run", "--predict", "x"]) == ["run", "--predict", "0", "x"]
    assert predicting(["run", "--predict", "12", "x"]) == ["run", "--predict", "12", "x"]


def test_numbers_without_end_do_not_come_out() -> None:
    spots = everywhere()
    curve = Curve(spots[:12], [truth(spot) for spot in spots[:12]])
    values = [number for each in curve.intervals(spots[:12]) for number in msgspec.structs.astuple(each)]
    assert all(math.isfinite(value) and value > 0 for value in values)

"""Whole imports: what becomes of folders of logs, what is said of them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blocklab.charts.matrix import matrices
from blocklab.cli import imports
from blocklab.cli.main import app
from blocklab.errors import StoreError, StudyError
from blocklab.imports import Imported, Options, job_file, minimal, read
from blocklab.report import render
from blocklab.report.tables import warnings
from blocklab.stats.analysis import Analysis, analyse
from blocklab.store.folder import Manifest, StudyFolder, claimed
from blocklab.study.grid import cells
from blocklab.study.read import build
from blocklab.study.types import View
from blocklab.study.views import fio_axes
from tests.unit.answers import answered
from tests.unit.golden import FOLDER
from tests.unit.import_checks import take
from tests.unit.import_logs import log, two
from tests.unit.import_samples import SUMMARY

AWS = Path(__file__).parents[3] / "shared/data/aws-drbd"
needs_aws = pytest.mark.skipif(not AWS.is_dir(), reason=f"{AWS} is not there: real logs of a measurement on AWS")
JOBS = """[global]
direct=1
iodepth=1
size=1G
[seq-write-1m]
rw=write
[rand-write-1m]
rw=randwrite
[rand-write-512k]
rw=randwrite
[rand-write-4k]
rw=randwrite
runtime=30
"""


def imported(done: Imported) -> Analysis:
    """The analysis of what was imported, with its page written."""
    folder = StudyFolder(done.folder)
    render(folder)
    return analyse(folder)


@needs_aws
def test_the_aws_measurement(tmp_path: Path) -> None:
    places = {"local": [str(AWS / "*_local.txt")], "mirror": [str(AWS / "*_drbd0.txt")]}
    options = Options(jobs=tuple(job_file("fio.fio", JOBS)))
    done = take(minimal(["local", "mirror"]), None, places, tmp_path, options)
    analysis = imported(done)
    assert analysis.gaps == () and len(analysis.measured) == 4

    def value(stack: str, workload: str, metric: str, phase: str = "") -> float:
        row = analysis.find(stack, workload, metric, phase)
        assert row is not None, (stack, workload, metric, phase)
        return row.value

    assert value("local", "pgbench", "tps") == pytest.approx(1183, rel=0.001)
    assert value("mirror", "pgbench", "tps") == pytest.approx(627, rel=0.001)
    row = analysis.find("mirror", "pgbench", "tps")
    assert row is not None and row.relative is not None and row.half is not None
    assert row.relative.value == pytest.approx(0.53, abs=0.005)
    # The values told of are over the job's whole time, with its first and last part of a second.
    assert value("local", "fio", "write.iops", "rand-write-4k") == pytest.approx(2057, rel=0.05)
    assert value("mirror", "fio", "write.iops", "rand-write-4k") == pytest.approx(1001, rel=0.05)
    assert value("local", "fio", "write.await", "rand-write-4k") == pytest.approx(0.45e-3, rel=0.02)
    assert value("mirror", "fio", "write.await", "rand-write-4k") == pytest.approx(0.98e-3, rel=0.02)
    for stack in ("local", "mirror"):
        assert analysis.phases("fio") == ("seq-write-1m", "rand-write-1m", "rand-write-512k", "rand-write-4k")
        assert [
            len(run.phases) for (at, workload), run in analysis.runs.items() if (at, workload) == (stack, "fio")
        ] == [4]
    lead = answered(analysis).lead
    assert "mirror keeps 53" in lead and "local" in lead
    # The iostat of both was stopped while it printed.
    told = [text for text in warnings(analysis) if "so it may be cut" in text]
    assert len(told) == 2 and all("its last line (106)" in text for text in told)


def test_two_logs_are_compared(tmp_path: Path) -> None:
    done = take(minimal(["local", "mirror"]), None, two(tmp_path), tmp_path / "runs", Options())
    analysis = imported(done)
    row = analysis.find("mirror", "pgbench", "latency.mean")
    assert row is not None and row.relative is not None and row.relative.value == pytest.approx(2, rel=0.01)
    page = (done.folder / "report.html").read_text()
    assert "Nothing here was run by blocklab" in page and "blocklab calibrate" not in page and "tx.log" in page
    run = analysis.runs["local", "pgbench"]
    assert len(run.transactions) == 500 and run.latencies is not None and run.latencies.count == 500


def test_a_long_log_is_stored_as_density_and_percentiles(tmp_path: Path) -> None:
    file = tmp_path / "tx.log"
    file.write_text(log(30_000))
    done = take(minimal(["local"]), None, {"local": [str(file)]}, tmp_path / "runs", Options())
    analysis = imported(done)
    run = analysis.runs["local", "pgbench"]
    assert run.transactions == () and run.latencies is not None
    assert sum(tile.count for tile in run.latencies.tiles) == run.latencies.count == 30_000
    shares = [share for share, _ in run.latencies.curve]
    assert shares == sorted(shares) and shares[-1] == 1.0 and run.latencies.curve[-1][1] == pytest.approx(0.001006)
    assert sum(path.stat().st_size for path in run.folder.rglob("*.json*")) < 200_000
    assert 'id="latency-density-pgbench"' in (done.folder / "report.html").read_text()


def test_a_summary_and_its_log_are_one_run_or_it_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "tx.log").write_text(log())
    (folder / "summary.txt").write_text(SUMMARY)
    done = take(minimal(["local"]), None, {"local": [str(folder)]}, tmp_path / "runs", Options())
    analysis = imported(done)
    row = analysis.find("local", "pgbench", "tps")
    assert row is not None and row.value == 1182.956212
    assert any("are they of one run?" in text for text in warnings(analysis))
    assert any("are they of one run?" in said for said in done.said)


def test_a_file_without_any_transactions_a_second_is_said_to_differ(tmp_path: Path) -> None:
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "summary.txt").write_text(SUMMARY)
    counts = (0, 0, 12)
    rows = [f"{1345828501 + at} {count} {count * 300} 9 9 9\n" for at, count in enumerate(counts)]
    (folder / "tx.log").write_text("".join(rows))
    done = take(minimal(["local"]), None, {"local": [str(folder)]}, tmp_path / "runs", Options())
    assert any("comes to 0 TPS" in said for said in done.said)


def test_threads_of_one_pgbench_are_one_log(tmp_path: Path) -> None:
    folder = FOLDER / "pgbench"
    places = [str(folder / "log.101"), str(folder / "log.101.1")]
    done = take(minimal(["local"]), None, {"local": places}, tmp_path / "runs", Options())
    rows = {Path(each.file).name: each.rows for each in done.files["local"]}
    lines = sum(len((folder / name).read_bytes().splitlines()) for name in ("log.101", "log.101.1"))
    assert rows["log.101"] == lines - sum(each.bad for each in done.files["local"])


def test_two_runs_in_one_folder_are_refused_and_two_folders_are_two_loads(tmp_path: Path) -> None:
    folder = tmp_path / "local"
    for name, start in (("c1", 1597113422), ("c10", 1597119999)):
        (folder / name).mkdir(parents=True)
        (folder / name / "tx.log").write_text(log(start=start))
    done = take(minimal(["local"]), None, {"local": [str(folder)]}, tmp_path / "runs", Options())
    assert done.workloads["local"] == ("c1", "c10")
    for name in ("c1", "c10"):
        (folder / name / "tx.log").rename(folder / f"{name}.log")
    with pytest.raises(StudyError, match=r"2 runs of pgbench .*c1.log, c10.log") as caught:
        take(minimal(["local"]), None, {"local": [str(folder)]}, tmp_path / "runs", Options())
    assert "a folder of its own" in caught.value.hint


def test_two_runs_of_fio_in_one_folder_are_repeats_and_a_file_for_each_job_is_one_run(tmp_path: Path) -> None:
    document = json.loads((FOLDER / "fio/stdout").read_text())
    first, second, *_ = document["jobs"]
    folder = tmp_path / "local"
    folder.mkdir()

    def put(name: str, *jobs: dict[str, object]) -> None:
        (folder / name).write_text(json.dumps({**document, "jobs": jobs}, indent=1))

    put("run1.json", first)
    put("run2.json", second)
    done = take(minimal(["local"]), None, {"local": [str(folder)]}, tmp_path / "runs", Options())
    assert imported(done).phases("fio") == (first["jobname"], second["jobname"])
    put("run2.json", second, {**first, "usr_cpu": 1.0})
    done = take(minimal(["local"]), None, {"local": [str(folder)]}, tmp_path / "runs", Options())
    assert done.study.repeats == 2 and any("taken for repeats" in said for said in done.said)


def test_long_names_stay_apart(tmp_path: Path) -> None:
    long = "a-measurement-of-the-mirror-in-zone"
    names = [[f"local{at}" * 3, "mirror" * 3] for at in (1, 2)]
    assert len({minimal(each).name for each in names}) == 2
    assert all(len(minimal(each).name) <= 31 for each in names)
    for at, name in enumerate((f"{long}-a", f"{long}-b", "short")):
        (tmp_path / "local" / name).mkdir(parents=True)
        (tmp_path / "local" / name / "tx.log").write_text(log(latency=1000 + 100 * at))
    done = take(minimal(["local"]), None, {"local": [str(tmp_path / "local")]}, tmp_path / "runs", Options())
    workloads = done.workloads["local"]
    assert len(set(workloads)) == 3 and [workload[:9] for workload in sorted(workloads)] == [
        "a-measure",
        "a-measure",
        "short",
    ]


def test_runs_that_were_measured_are_not_taken_for_an_imports(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(FILE)
    places, runs = two(tmp_path), tmp_path / "runs"
    study = build(
        {
            "blocklab": 2, "name": "mine", "question": "q", "nodes": {"a1": {}},
            "stacks": {"local": {"on": "a1", "layers": [{"layer": "volume", "size": "1GiB"}]}},
            "workloads": {"io": {"workload": "fio", "size": "16MiB", "jobs": {"w": {"rw": "write", "bs": "4k"}}}},
        }
    )  # fmt: skip
    measured = StudyFolder.create(runs, Manifest(study, cells(study)))
    before = (measured.path / "study.json").read_bytes()
    with pytest.raises(StudyError, match="has runs of a study that were measured") as caught:
        take(read(file, ["local", "mirror"]), file, places, runs, Options())
    assert "another name" in caught.value.hint
    assert (measured.path / "study.json").read_bytes() == before and not (measured.path / "study.yaml").exists()
    # Nor the other way round.
    there = tmp_path / "others"
    take(read(file, ["local", "mirror"]), file, places, there, Options())
    with pytest.raises(StudyError, match="were imported, not measured"):
        StudyFolder.create(there, Manifest(study, cells(study)))
    assert StudyFolder(there / "mine").manifest().imported


def test_an_import_waits_for_nobody_who_writes_its_folder(tmp_path: Path) -> None:
    places, runs = two(tmp_path), tmp_path / "runs"
    with claimed(runs / "imported-local-mirror"), pytest.raises(StoreError, match="another blocklab"):
        take(minimal(["local", "mirror"]), None, places, runs, Options())
    take(minimal(["local", "mirror"]), None, places, runs, Options())


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    places = two(tmp_path)
    (tmp_path / "local/notes.txt").write_text("nothing that anybody knows\n")
    (tmp_path / "local/again.log").write_text(log())
    done = take(minimal(["local", "mirror"]), None, places, tmp_path / "runs", Options())
    told = {Path(each.file).name: each.remarks[0] for each in done.files["local"] if not each.kind}
    assert told["notes.txt"] == "left out: not recognised"
    assert "the same content as" in told.get("again.log", "") + told.get("tx.log", "")
    assert any("notes.txt: left out" in text for text in warnings(imported(done)))


def test_the_same_content_in_two_stacks_is_said(tmp_path: Path) -> None:
    places = two(tmp_path)
    (tmp_path / "mirror/tx.log").write_text(log())
    done = take(minimal(["local", "mirror"]), None, places, tmp_path / "runs", Options())
    assert any("has the same content as" in said for said in done.said)


def test_a_load_that_one_stack_lacks_is_no_cell(tmp_path: Path) -> None:
    places = two(tmp_path)
    (tmp_path / "local/fio.json").write_bytes((FOLDER / "fio/stdout").read_bytes())
    done = take(minimal(["local", "mirror"]), None, places, tmp_path / "runs", Options())
    assert imported(done).gaps == () and "mirror has no logs of fio" in done.said


def test_what_was_watched_stands_beside_the_load_that_ran(tmp_path: Path) -> None:
    places = two(tmp_path)
    rows = "".join(
        f"2020-08-11T02:{37 + (52 + at) // 60 - 1:02}:{(52 + at) % 60:02}+0000 sda 0.00 {rate:.2f} 0.00 "
        f"{4 * rate:.2f} 0.00 0.00 0.00 0.00 0.00 0.50 0.20 0.00 4.00 0.20 5.00\n"
        for at, rate in enumerate([900.0] * 8 + [0.0] * 2 + [400.0] * 6)
    )
    (tmp_path / "local/iostat.txt").write_text(rows)
    done = take(minimal(["local", "mirror"]), None, places, tmp_path / "runs", Options())
    # What was busy before is no workload of its own.
    assert done.workloads["local"] == ("pgbench",)
    row = imported(done).find("local", "pgbench", "write.iops")
    assert row is not None and (row.value, row.layer, row.top) == (400.0, "sda", True)


def test_what_was_watched_without_a_date_is_of_its_own_stacks_day(tmp_path: Path) -> None:
    places = two(tmp_path)
    rows = "".join(
        f"02:37:{second:02} sda 0.00 400.00 0.00 1600.00 0.00 0.00 0.00 0.00 0.00 0.50 0.20 0.00 4.00 0.20 5.00\n"
        for second in range(1, 9)
    )
    # The mirror was measured two days after.
    (tmp_path / "mirror/tx.log").write_text(log(latency=2000, start=1597113422 + 2 * 86400))
    for name in places:
        (tmp_path / name / "iostat.txt").write_text(f"{rows}\n")
    done = imported(take(minimal(list(places)), None, places, tmp_path / "runs", Options()))
    for name in places:
        row = done.find(name, "pgbench", "write.iops")
        assert row is not None and row.value == 400.0


def test_what_was_watched_without_a_date_is_of_its_own_loads_day(tmp_path: Path) -> None:
    rows = "".join(
        f"02:37:{second:02} sda 0.00 400.00 0.00 1600.00 0.00 0.00 0.00 0.00 0.00 0.50 0.20 0.00 4.00 0.20 5.00\n"
        for second in range(1, 9)
    )
    for number, name in enumerate(("one", "two")):
        folder = tmp_path / "local" / name
        folder.mkdir(parents=True)
        (folder / "tx.log").write_text(log(start=1597113422 + 5 * 86400 * number))
        (folder / "iostat.txt").write_text(f"{rows}{chr(10) * number}")
    stacks = {"local": [str(tmp_path / "local")]}
    done = imported(take(minimal(["local"]), None, stacks, tmp_path / "runs", Options()))
    for name in ("one", "two"):
        row = done.find("local", name, "write.iops")
        assert row is not None and row.value == 400.0


def test_a_stack_without_any_load_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    with pytest.raises(StudyError, match=r"none of its 1 files tells of a workload .notes.txt: not recognised"):
        take(minimal(["local"]), None, {"local": [str(tmp_path / "notes.txt")]}, tmp_path / "runs", Options())


# -- the file about it, and the command line ---------------------------------------------------------------------

FILE = """imported: 1
name: mine
question: What does the mirror cost?
baseline: local
stacks:
  local: {says: one disk}
  mirror: {says: two of them}
workloads:
  pgbench: {says: pgbench -c 1}
expect:
  - {metric: latency.mean, workload: pgbench, stack: mirror, relative_to: local, between: [1.5, 2.5]}
"""


def test_the_file_says_what_logs_do_not_tell(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(FILE)
    done = take(read(file, ["local", "mirror"]), file, two(tmp_path), tmp_path / "runs", Options())
    analysis = imported(done)
    assert [verdict.status for verdict in analysis.verdicts] == ["unknown"]
    assert analysis.verdicts[0].inside and analysis.verdicts[0].word == "one build: inside"
    assert "mirror (two of them)" in answered(analysis).lead
    assert (done.folder / "study.yaml").read_text() == FILE


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("imported: 1\n", "blocklab: 2\n", "does not start with imported: 1"),
        ("  mirror: {says: two of them}", "  other: {says: x}", "no stack 'mirror', which --stack gives"),
        ("question: What does the mirror cost?\n", "", "missing required field `question`"),
        ("  pgbench: {says", "  fio: {says", "no log is of a workload 'fio'"),
        ("metric: latency.mean", "metrics: latency.mean", "unknown field `metrics`"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    file = tmp_path / "mine.yaml"
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    with pytest.raises(StudyError, match=problem):
        take(read(file, ["local", "mirror"]), file, two(tmp_path), tmp_path / "runs", Options())


def command(*arguments: str) -> tuple[int, str]:
    """Exit code and output, or the error."""
    done = CliRunner().invoke(app, list(arguments))
    return done.exit_code, done.stdout + (str(done.exception) if isinstance(done.exception, StudyError) else "")


def test_the_command(tmp_path: Path) -> None:
    places = two(tmp_path)
    stacks = [word for name, (place,) in places.items() for word in ("--stack", f"{name}={place}")]
    code, out = command("import", *stacks, "--runs", str(tmp_path / "runs"))
    assert code == 0 and "pgbench-log" in out and "2020-08-11 02:37:0" in out and "report:" in out
    code, out = command("import", *stacks, "--runs", str(tmp_path / "runs"), "--json")
    found = json.loads(out)
    assert code == 0 and found["workloads"] == {"local": ["pgbench"], "mirror": ["pgbench"]}
    assert found["files"]["local"][0]["kind"] == "pgbench-log" and Path(found["report"]).is_file()
    # Every sentence only where it is asked for.
    code, out = command("import", *stacks, "--runs", str(tmp_path / "every"), "--all")
    assert code == 0 and "keeps" in out
    # Imported once more it is the same study, and report takes it as any other.
    code, out = command("report", found["folder"])
    assert "keeps" not in out
    assert code == 0 and " less" in out
    code, out = command("resume", found["folder"])
    assert code == 1 and "stacks.local.layers[0]: is imported" in out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--stack", "local"], "not NAME=PLACE"),
        (["--stack", "Local=."], "no name for a stack"),
        (["--stack", "local=/nowhere/at/all"], "no such folder"),
        (["--stack", "local=logs/**.log"], "** stands for folders, and has to be alone between two slashes"),
        (["--stack", f"local={'x' * 300}"], "File name too long"),
        (["--stack", "local=/proc/self/mem", "--as", "iostat=/proc/self/mem"], "cannot be read"),
        (["--stack", "local=.", "--as", "prose=x"], "no kind 'prose'"),
        (["--stack", "local=.", "--zone", "Nowhere"], "no such time zone"),
        (["--stack", "local=.", "--dates", "ydm"], "not one of ymd"),
        (["--stack", "local=.", "--jobs", "/nowhere.fio"], "cannot be read"),
    ],
)
def test_wrong_calls_are_refused(tmp_path: Path, arguments: list[str], problem: str) -> None:
    code, out = command("import", *arguments, "--runs", str(tmp_path / "runs"))
    assert code == 1 and problem in out


def test_a_machine_without_zones_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "available_timezones", set)
    with pytest.raises(StudyError, match="no such time zone") as caught:
        imports.zone_of("Asia/Nowhere")
    assert "install tzdata" in caught.value.hint
    monkeypatch.undo()
    with pytest.raises(StudyError, match="no such time zone") as caught:
        imports.zone_of("Asia")
    assert "Asia/Tokyo" in caught.value.hint


def test_imported_studies_cannot_be_run(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(FILE)
    _, out = command("check", str(file))
    assert "describes logs to import, not a study to run" in out
    file.write_text(
        "blocklab: 2\nname: x\nquestion: q\nnodes: {a: {}}\nstacks: {s: {on: a, layers: [{layer: imported}]}}\n"
        "workloads: {w: {workload: imported}}\n"
    )
    _, out = command("check", str(file))
    assert "stacks.s.layers[0]: is imported" in out


def matrix(change: str = "") -> str:
    """fio's JSON of 16 jobs, by block size and queue depth."""
    document = json.loads((FOLDER / "fio/stdout").read_text())
    first = document["jobs"][0]
    document["global options"] = {"rw": "randwrite", "runtime": "3"}
    document["jobs"] = [
        {**first, "jobname": f"w-{block}-{depth}", "job options": {"bs": change or block, "iodepth": str(depth)}}
        for block in ("4k", "16k")
        for depth in (1, 2, 4, 8, 16, 32, 64, 128)
    ]
    return json.dumps(document, indent=1)


def test_imported_jobs_of_fio_are_laid_out_by_their_options(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local/fio.json").write_text(matrix())
    done = take(minimal(["local"]), None, {"local": [str(tmp_path / "local")]}, tmp_path / "runs", Options())
    assert fio_axes(done.study) == ("iodepth", "bs")
    analysis = imported(done)
    charts, _ = matrices(analysis)
    assert any(chart.name.startswith("knee-") for chart in charts if not isinstance(chart, str))
    assert render(StudyFolder(done.folder), None, View(x="iodepth")).is_file()


def test_jobs_that_two_stacks_mean_something_else_by_are_not_laid_out(tmp_path: Path) -> None:
    for name, change in (("local", ""), ("mirror", "8k")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "fio.json").write_text(matrix(change))
    places = {name: [str(tmp_path / name)] for name in ("local", "mirror")}
    done = take(minimal(["local", "mirror"]), None, places, tmp_path / "runs", Options())
    assert fio_axes(done.study) == ()
    assert "job w-4k-1 of fio has other options in another stack" in done.said
    assert matrices(imported(done)) == ([], ())

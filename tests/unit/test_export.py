"""Export and query: the schema is the documented one, and every format holds the same values."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest

from blocklab.errors import StoreError
from blocklab.model.sample import Parsed, Sample, Transaction
from blocklab.stats.longform import EVERY, SCHEMA, WITH_FACTORS, factor_column
from blocklab.store import tables
from blocklab.store.folder import StudyFolder
from blocklab.store.run import FORMAT, load
from tests.repo import house
from tests.unit import synthetic_drills, versions
from tests.unit.shells import Shell

SWEPT = {"clients": {"field": "workloads.tx.clients", "values": [4, 8]}}


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.setenv("COLUMNS", "100")
    return Shell(monkeypatch, capsys)


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    tps = {"local": (1000.0, 1010.0), "mirror": (500.0, 520.0)}
    return versions.make(
        tmp_path / "runs", tps, noise=0.02, factors=SWEPT, failed=["mirror/tx clients=8 (repeat 2)"]
    )


def exported(shell: Shell, *argv: str) -> list[dict[str, str]]:
    code, out, err = shell("export", *argv)
    assert (code, err) == (0, ""), err
    return list(csv.DictReader(io.StringIO(out)))


# -- the schema -------------------------------------------------------------------------------


def documented() -> dict[str, list[tuple[str, str, str]]]:
    """The tables of docs/export.md."""
    found = {}
    for title, text in house.sections((house.DOCS / "export.md").read_text()).items():
        rows = re.findall(r"^\| `([\w.]+)` \| (\w+) \| (.+) \|$", text, re.MULTILINE)
        if rows:
            found[title.strip("`")] = rows
    return found


def test_the_documented_schema_is_the_codes() -> None:
    found = documented()
    assert list(found) == list(EVERY)
    for name, columns in EVERY.items():
        more = (factor_column("NAME"),) if name in WITH_FACTORS else ()
        assert found[name] == [(each.name, each.type, each.says) for each in (*columns, *more)], name


@pytest.mark.parametrize("name", list(SCHEMA))
def test_what_is_written_has_the_documented_columns(
    name: str, folder: StudyFolder, shell: Shell, tmp_path: Path
) -> None:
    options = [] if name == "metrics" else [f"--{name}"]
    folder, factors = (
        (synthetic_drills.make_drills(tmp_path / "drills"), ["factor.commit", "factor.rtt"])
        if name == "drills"
        else (folder, ["factor.clients"])
    )
    rows = exported(shell, str(folder.path), *options)
    wanted = [column for column, _, _ in documented()[name] if column != "factor.NAME"]
    wanted += factors if name in WITH_FACTORS else []
    assert rows and list(rows[0]) == wanted
    file = tmp_path / "x.parquet"
    assert shell("export", str(folder.path), *options, "-o", str(file))[0] == 0
    types = duckdb.execute(f"DESCRIBE SELECT * FROM '{file}'").fetchall()
    said = {column: kind for column, kind, _ in documented()[name]} | dict.fromkeys(factors, "VARCHAR")
    assert [(column, kind) for column, kind, *_ in types] == [(column, said[column]) for column in wanted]


# -- what is in it ----------------------------------------------------------------------------


def test_a_figure_has_its_interval_ratio_factor_and_machine(folder: StudyFolder, shell: Shell) -> None:
    rows = exported(shell, str(folder.path))
    mine = [
        row for row in rows if row["metric"] == "tps" and row["stack"] == "mirror" and row["factor.clients"] == "8"
    ]
    (row,) = mine
    assert row["repeat"] == "1" and float(row["value"]) == 500 and float(row["relative"]) == 0.5
    # Of one repeat the ratio has no interval, nor has a value whose seconds are correlated.
    assert row["half_width"] == row["relative_half_width"] == ""
    local = next(each for each in rows if each["metric"] == "tps" and each["stack"] == "local")
    assert 0 < float(local["half_width"]) < 50
    assert (row["study"], row["status"], row["verdict"], row["unit"]) == ("two", "ok", "one build", "1/s")
    assert (row["kernel"], row["image"], row["seed"]) == ("6.1.0", "cb0efbb1e15ad522", "7")
    assert (row["layer"], row["host"], row["own"], row["top"]) == ("pgbench", "a1", "true", "false")
    assert {row["verdict"] for row in rows if row["metric"] == "tps" and row["stack"] == "local"} == {""}
    # The ratio is taken within the repeat, so that of the second one is another.
    other = [row for row in rows if row["metric"] == "tps" and row["stack"] == "mirror" and row["repeat"] == "2"]
    assert [float(row["relative"]) for row in other] == [pytest.approx(520 / 1010)]


def test_runs_of_two_machines_say_so(folder: StudyFolder, shell: Shell) -> None:
    first = folder.manifest().cells[0]
    path = folder.cells / first.key / "environment.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "machine": "m-1"}))
    rows = exported(shell, str(folder.path), "--runs")
    assert {row["run"]: row["machine"] for row in rows if row["machine"]} == {first.key: "m-1"}
    assert {row["machine"] for row in exported(shell, str(folder.path))} == {"", "m-1"}


def test_runs_that_failed_are_in_the_table_of_runs(folder: StudyFolder, shell: Shell) -> None:
    rows = exported(shell, str(folder.path), "--runs")
    assert len(rows) == 8 and [row["error"] for row in rows if row["status"] == "failed"] == ["a1: node lost"]
    knobs = exported(shell, str(folder.path), "--knobs")
    assert {(row["name"], row["value"], row["wanted"], row["in_force"]) for row in knobs} == {
        ("fsync", "on", "", "true")
    }


def test_series_and_transactions_are_the_runs_own(folder: StudyFolder, shell: Shell) -> None:
    series = exported(shell, str(folder.path), "--series")
    stored = [load(path) for path in folder.cells.iterdir()]
    assert len(series) == sum(len(run.series()) for run in stored) > 100
    assert {row["metric"] for row in series} == {"tps", "cpu.idle"}
    rows = exported(shell, str(folder.path), "--transactions")
    assert sorted((float(row["end"]), float(row["latency"])) for row in rows) == sorted(
        (each.end, each.latency) for run in stored for each in run.transactions
    )


@pytest.mark.parametrize("option", [(), ("--series",), ("--transactions",), ("--knobs",), ("--runs",)])
def test_parquet_read_by_duckdb_equals_the_csv_and_the_lines(
    option: tuple[str, ...], folder: StudyFolder, shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "x.parquet"
    assert shell("export", str(folder.path), *option, "-o", str(file)) == (0, "", "")
    table = duckdb.execute(f"SELECT * FROM '{file}'")
    parquet = [
        dict(zip([each[0] for each in table.description or ()], row, strict=True)) for row in table.fetchall()
    ]
    lines = [
        json.loads(line)
        for line in shell("export", str(folder.path), *option, "--format", "jsonl")[1].splitlines()
    ]
    assert parquet == lines and len(parquet) > 7

    def told(value: Any) -> str:
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    assert exported(shell, str(folder.path), *option) == [
        {name: told(value) for name, value in row.items()} for row in parquet
    ]


def test_a_folder_of_studies_is_one_table(folder: StudyFolder, shell: Shell) -> None:
    versions.make(folder.path.parent, {"local": (100.0,)}, name="other")
    rows = exported(shell, str(folder.path.parent))
    assert {row["study"] for row in rows} == {"two", "other"}
    assert {row["factor.clients"] for row in rows if row["study"] == "other"} == {""}


def test_a_single_run_is_exported_too(folder: StudyFolder, shell: Shell) -> None:
    cell = folder.manifest().cells[0]
    rows = exported(shell, str(folder.cells / cell.key))
    assert {row["run"] for row in rows} == {cell.key}


def test_wrong_calls_of_export_are_refused(folder: StudyFolder, shell: Shell, tmp_path: Path) -> None:
    for argv, said in (
        (("--format", "parquet"), "add -o"),
        (("-o", str(tmp_path / "x.xls")), "is no format"),
        (("--series", "--knobs"), "one by one"),
    ):
        code, out, err = shell("export", str(folder.path), *argv)
        assert (code, out) == (2, "") and said in " ".join(err.split())
    # No wrong call: there are no runs where it looks for them.
    assert shell("export", str(tmp_path / "nowhere"))[0] == 1
    code, _, err = shell("export", str(folder.path), "-o", str(tmp_path / "no" / "x.csv"))
    assert code == 1 and "there is no folder" in err and "make room" not in err
    for output in (".", str(tmp_path), "./"):
        for form in ([], ["--format", "jsonl"]):
            code, _, err = shell("export", str(folder.path), "-o", output, *form)
            assert code == 2 and "is a folder" in " ".join(err.split())


def test_a_run_that_cannot_be_read_is_said_to_be_left_out(folder: StudyFolder, shell: Shell) -> None:
    broken = folder.manifest().cells[0].key
    (folder.cells / broken / "cell.json").write_text('{"key": "')
    for option in ([], ["--runs"], ["--knobs"], ["--series"]):
        code, out, err = shell("export", str(folder.path), *option)
        rows = list(csv.DictReader(io.StringIO(out)))
        assert code == 0 and rows and broken not in {row["run"] for row in rows}
        assert err.count("left out: ") == 1 and f"{broken}/cell.json cannot be read" in err.replace("\n", "")
    for table in ("runs", "metrics", "series"):
        code, out, err = shell("query", f"SELECT DISTINCT run FROM {table}", "--runs", str(folder.path), "--csv")
        assert code == 0 and broken not in out and err.count("left out: ") == 1
    # Asked of both, it is said once.
    both = "SELECT count(*) FROM runs JOIN metrics USING (run)"
    assert shell("query", both, "--runs", str(folder.path))[2].count("left out: ") == 1


def test_a_broken_run_says_how_to_get_it_back(folder: StudyFolder) -> None:
    for number, name in enumerate(("cell.json", "samples.parquet")):
        path = folder.cells / folder.manifest().cells[number].key
        (path / name).write_text("{")
        with pytest.raises(StoreError) as caught:
            load(path)
        assert "blocklab run" in caught.value.hint
        # What was imported has no cell that could be measured again.
        (path / "files.json").write_text("[]")
        with pytest.raises(StoreError) as caught:
            load(path)
        assert "blocklab import" in caught.value.hint and "measure" not in caught.value.hint


# -- query ------------------------------------------------------------------------------------


def rows_of(shell: Shell, folder: StudyFolder, sql: str) -> list[dict[str, Any]]:
    code, out, err = shell("query", sql, "--runs", str(folder.path.parent), "--json")
    assert (code, err) == (0, ""), err
    found: list[dict[str, Any]] = json.loads(out)
    return found


def test_a_query_answers_from_every_table(folder: StudyFolder, shell: Shell) -> None:
    found = rows_of(
        shell, folder,
        """SELECT stack, avg(value) AS tps FROM metrics WHERE metric = 'tps' AND "factor.clients" = '4'
        GROUP BY stack ORDER BY stack""",
    )  # fmt: skip
    assert found == [{"stack": "local", "tps": 1005.0}, {"stack": "mirror", "tps": 510.0}]
    stored = [load(path) for path in folder.cells.iterdir()]
    for name, count in (
        ("runs", 8), ("knobs", 8), ("series", sum(len(run.series()) for run in stored)),
        ("transactions", sum(len(run.transactions) for run in stored)),
    ):  # fmt: skip
        assert rows_of(shell, folder, f"SELECT count(*) AS n FROM {name}") == [{"n": count}], name
    both = rows_of(
        shell, folder, "SELECT k.value, count(*) AS n FROM series s JOIN knobs k USING (run) GROUP BY 1"
    )
    assert both[0]["value"] == "on" and both[0]["n"] > 100


def test_a_blob_is_told_as_the_database_tells_it(folder: StudyFolder, shell: Shell) -> None:
    (row,) = rows_of(shell, folder, r"SELECT 'x\xAB'::BLOB AS b, ['y'::BLOB] AS many")
    assert row == {"b": r"x\xAB", "many": ["y"]}
    assert shell("query", "SELECT 'x'::BLOB AS b", "--runs", str(folder.path), "--csv")[1] == "b\nx\n"


def test_what_query_and_export_say_is_the_same(folder: StudyFolder, shell: Shell) -> None:
    for name in SCHEMA:
        options = [] if name == "metrics" else [f"--{name}"]
        asked = shell("query", f"SELECT * FROM {name}", "--runs", str(folder.path.parent), "--json")[1]
        lines = shell("export", str(folder.path), *options, "--format", "jsonl")[1].splitlines()
        assert json.loads(asked) == [json.loads(line) for line in lines], name


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT nope FROM metrics", "nope"),
        ("SELECT * FROM nothing", "nothing"),
        ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 2", "one SELECT"),
        ("CREATE TABLE x (a INT)", "one SELECT"),
        ("COPY (SELECT 1) TO '{tmp}/out.csv'", "one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT * FROM '/etc/passwd'", ""),
        ("SELECT * FROM read_text('{tmp}/secret')", "disabled"),
        ("SELECT * FROM read_parquet('https://x.invalid/y.parquet')", ""),
        ("ATTACH '{tmp}/x.db'", "one SELECT"),
        ("INSTALL httpfs", "one SELECT"),
        ("SET enable_external_access = true", "one SELECT"),
        ("", ""),
    ],
)
def test_what_is_no_question_to_the_runs_is_one_line(
    sql: str, said: str, folder: StudyFolder, shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("word")
    code, out, err = shell("query", sql.format(tmp=tmp_path), "--runs", str(folder.path.parent))
    assert (code, out) == (2, "") and said in err and "word" not in err and "metrics" in err
    assert len(err.rstrip().splitlines()) == 2, err
    assert not (tmp_path / "out.csv").exists() and not (tmp_path / "x.db").exists()


def test_two_columns_of_one_name_are_refused_where_one_would_be_dropped(folder: StudyFolder, shell: Shell) -> None:
    sql = "SELECT a.value, b.value FROM metrics a JOIN metrics b USING (run) LIMIT 1"
    code, out, err = shell("query", sql, "--runs", str(folder.path.parent), "--json")
    assert (code, out) == (2, "") and "several columns are called value" in err and " AS " in err
    code, out, _ = shell("query", sql, "--runs", str(folder.path.parent), "--csv")
    assert code == 0 and out.splitlines()[0] == "value,value"
    assert shell("query", sql, "--runs", str(folder.path.parent))[0] == 0


def test_a_query_sees_no_variable_of_ours(folder: StudyFolder, shell: Shell) -> None:
    assert shell("query", "SELECT * FROM files", "--runs", str(folder.path.parent))[0] == 2


def test_only_the_tables_that_a_query_names_are_made(
    folder: StudyFolder, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr("blocklab.stats.query.sources", never)
    assert rows_of(shell, folder, "SELECT count(*) AS n FROM runs") == [{"n": 8}]
    with pytest.raises(AssertionError, match="it was read"):
        shell("query", "SELECT count(*) FROM metrics", "--runs", str(folder.path.parent))


def test_a_study_that_cannot_be_read_is_left_out_and_named(folder: StudyFolder, shell: Shell) -> None:
    broken = folder.path.parent / "broken"
    broken.mkdir()
    (broken / "study.json").write_text("{")
    code, out, err = shell("query", "SELECT count(*) AS n FROM runs", "--runs", str(folder.path.parent), "--csv")
    assert (code, out) == (0, "n\n8\n") and "left out" in err and "broken" in err


def test_tables_lists_every_column_and_the_answer_fits_a_terminal(folder: StudyFolder, shell: Shell) -> None:
    code, out, _ = shell("query", "--tables", "--csv")
    assert code == 0 and len(out.splitlines()) == 1 + sum(map(len, SCHEMA.values())) + len(
        {*WITH_FACTORS} & {*SCHEMA}
    )
    code, out, _ = shell("query", "SELECT * FROM runs", "--runs", str(folder.path.parent))
    assert code == 0 and max(map(len, out.splitlines())) <= 100
    assert shell("query", "SELECT 1 AS a", "--runs", str(folder.path.parent), "--csv", "--json")[0] == 2
    assert shell("query", "SELECT 1", "--runs", str(folder.path / "cells"))[0] == 1


# -- how runs are stored ----------------------------------------------------------------------


SAMPLES = (
    Sample("tps", 0.1 + 0.2, "1/s", "pgbench", "a1"),
    Sample("write.iops", 1e-300, "1/s", "fio", "a1", 'it\'s "odd" — ü\n', 1_795_232_000.1234567),
    Sample("x", -1.5e300, "1", "", "", "p", 0.0),
)


def test_samples_and_transactions_come_back_as_they_were_and_in_order(tmp_path: Path) -> None:
    parsed = Parsed(SAMPLES * 1000, (), (Transaction(3.0, 0.1 + 0.2), Transaction(1.0, 1e-9)))
    tables.write(tmp_path, parsed)
    assert tables.samples(tmp_path) == parsed.samples
    assert tables.transactions(tmp_path) == parsed.transactions
    assert {path.name for path in tmp_path.iterdir()} == {"samples.parquet", "transactions.parquet"}


def test_nothing_is_stored_and_read_too(tmp_path: Path) -> None:
    tables.write(tmp_path, Parsed())
    assert tables.samples(tmp_path) == () and tables.transactions(tmp_path) == ()


@pytest.mark.parametrize("name", ["host=db1", "time=0/layer=z", "latency=1", "run=x"])
def test_a_path_with_an_equals_sign_in_it_changes_no_figure(
    name: str, folder: StudyFolder, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would take such a folder for a column of what is below it."""
    parsed = Parsed(SAMPLES, (), (Transaction(3.0, 0.1 + 0.2),))
    there = tmp_path / name
    there.mkdir(parents=True)
    tables.write(there, parsed)
    assert tables.samples(there) == parsed.samples
    assert tables.transactions(there) == parsed.transactions
    assert tables.ahead([there]).keys() == {there}
    asked = {each: f"SELECT * FROM {each} ORDER BY ALL" for each in ("series", "transactions", "metrics")}
    before = {each: rows_of(shell, folder, sql) for each, sql in asked.items()}
    moved = StudyFolder(folder.path.rename(there / folder.path.name))
    # Where a query has what it needs meanwhile.
    monkeypatch.setattr(tempfile, "tempdir", str(there))
    assert {each: rows_of(shell, moved, sql) for each, sql in asked.items()} == before


def test_a_table_that_is_missing_or_broken_or_of_a_later_format_is_named(folder: StudyFolder) -> None:
    first, second, third = list(folder.cells.iterdir())[:3]
    (first / "samples.parquet").unlink()
    (second / "transactions.parquet").write_bytes(b"PAR1 and then nothing")
    text = (third / "result.json").read_text()
    (third / "result.json").write_text(text.replace(f'"format": {FORMAT}', '"format": 99'))
    for path, said in ((first, "samples.parquet"), (second, "transactions.parquet"), (third, "format 99")):
        with pytest.raises(StoreError, match=said):
            load(path)


def test_a_full_disk_is_an_error_that_the_store_knows(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        tables.write(tmp_path / "nowhere", Parsed(SAMPLES))


def test_drills_are_a_table(tmp_path: Path, shell: Shell) -> None:
    there = synthetic_drills.make_drills(tmp_path / "runs")
    code, out, _ = shell("query", "SELECT * FROM drills", "--runs", str(tmp_path / "runs"), "--json")
    assert code == 0
    stored = {run.cell.key: run.drill for run in there.runs()}
    found = json.loads(out)
    assert {row["run"] for row in found} == {key for key, drill in stored.items() if drill} and len(found) > 10
    for row in found:
        drill = stored[row["run"]]
        assert drill is not None
        verdict = drill.verdict
        assert (row["verdict"], row["missing"]) == (verdict.status, len(verdict.missing))
        assert row["rto"] == verdict.rto_seconds and row["acknowledged"] == verdict.acknowledged
    assert any(row["missing"] for row in found) and any(not row["missing"] for row in found)
    assert len(exported(shell, str(there.path), "--drills")) == len(found)

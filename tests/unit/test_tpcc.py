"""TPC-C: commands for both kinds of server, what stamps lines, and values from real output (go-tpc 1.0.12)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import ParseError
from blocklab.formats.load import stamped
from blocklab.formats.load.go_tpc import output
from blocklab.model.plan import Port, Run, Wait
from blocklab.model.units import dec_hook
from blocklab.workloads import AnyWorkload, Tpcc, servers
from blocklab_node import stamp as stamper_program
from blocklab_node import tables
from tests.unit.golden import Golden, read

MYSQL = Port("db1", "mysql", "mysql://root@/bench?host=/run/blocklab/x&port=3307")
POSTGRES = Port("db1", "postgresql", "postgresql://postgres@/bench?host=/run/blocklab/x&port=5433")
AFAR = Port("c1", "mysql", "mysql://root@/bench?host=10.77.1.1&port=3307")


def workload(**changes: Any) -> Tpcc:
    plain = {"workload": "tpcc", "warehouses": 2, "clients": 4, "time": "4s"} | changes
    found = msgspec.convert(plain, AnyWorkload, dec_hook=dec_hook)
    assert isinstance(found, Tpcc)
    return found


# --- the study's side


def test_good_ones_have_no_problems() -> None:
    assert workload().problems() == []
    options = {"wait": True, "weight": "50,50,0,0,0", "isolation": 2, "conn-params": "innodb_lock_wait_timeout=5"}
    assert workload(options=options, warmup="10s", time="10min").problems() == []
    assert workload(warmup="10s").lasts() == 14


@pytest.mark.parametrize(
    ("changes", "where", "why"),
    [
        ({"warehouses": 0}, "warehouses", "at least 1"),
        ({"clients": 0}, "clients", "at least 1"),
        ({"time": "0s"}, "time", "whole seconds"),
        ({"time": "1.5s"}, "time", "whole seconds"),
        ({"warmup": "0.5s"}, "warmup", "whole seconds"),
        ({"options": {"password": "x"}}, "options.password", "those are wait, weight"),
        ({"options": {"output": "plain"}}, "options.output", "those are wait, weight"),
        ({"options": {"wait": 1}}, "options.wait", "true or false"),
        ({"options": {"max-procs": "/x"}}, "options.max-procs", "is not a number"),
        *(
            ({"options": {"conn-params": text}}, "options.conn-params", why)
            for text, why in (
                ("@@global.general_log_file=%27/etc/x%27", "is not an option of a connection"),
                ("global general_log=1", "is not an option of a connection"),
                ("autocommit=1, global general_log_file='/x'", "is not parameters like"),
                ("autocommit=1 global x", "is not a number, true or false"),
                (
                    "innodb_lock_wait_timeout=5&allowAllFiles=true",
                    "allowAllFiles: is not an option of a connection",
                ),
                ("host=elsewhere", "host: is not an option of a connection"),
                ("sslkey=/etc/x", "is not an option of a connection"),
                ("options=-csession_preload_libraries%3Dx", "is not an option of a connection"),
                ("sql_mode", "is not parameters like"),
            )
        ),
        ({"options": {"wait": True}}, "options.wait", "with 4 s at a time: threads key for up to 18 s"),
        ({"options": {"wait": True}, "time": None}, "options.wait", "give time: 10min"),
        ({"options": {"wait": True}, "time": None, "stop": "snia"}, "options.wait", "with 5 s at a time"),
        ({"options": {"wait": True}, "time": None, "stop": {"fixed": "60s"}}, "options.wait", "with 60 s at"),
        ({"options": {"wait": True}, "time": None, "stop": {"at_most": "10min"}}, "stop", "cannot be ended early"),
        ({"options": {"isolation": True}}, "options.isolation", "needs a value"),
        ({"options": {"weight": "45,43"}}, "options.weight", "add up to 100"),
        ({"options": {"weight": "45,43,4,4,5"}}, "options.weight", "add up to 100"),
        ({"options": {"weight": "0,100,0,0,0"}}, "options.weight", "no tpmC"),
    ],
)
def test_problems(changes: dict[str, Any], where: str, why: str) -> None:
    assert why in dict(workload(**changes).problems())[where]


@pytest.mark.parametrize("stop", [{"fixed": "10min"}, {"rounds": "3..5", "each": "2min"}])
def test_threads_may_wait_in_whatever_is_long_enough(stop: dict[str, str]) -> None:
    assert workload(options={"wait": True}, time=None, stop=stop).problems() == []
    assert workload(options={"wait": False}, time=None, stop={"at_most": "20s"}).problems() == []


# --- the plan


@pytest.mark.parametrize(("name", "port"), [("mysql", MYSQL), ("postgres", POSTGRES), ("afar", AFAR)])
def test_steps(golden: Golden, name: str, port: Port) -> None:
    own = workload(warmup="3s", options={"wait": True, "weight": "45,43,4,4,4", "conn-params": "a=b"})
    value = {
        "data": msgspec.to_builtins(own.data(port)),
        "prepare": [msgspec.to_builtins(step) for step in own.prepare(port)][1:],
        "workload": [msgspec.to_builtins(own.command(port))],
        "facts": [[fact.argv, fact.wanted] for fact in own.facts(port)],
    }
    golden.check(f"tpcc/expected-steps-{name}.json", value)


def test_data_do_not_depend_on_what_is_measured() -> None:
    """Or a sweep over the threads would load the tables for each of them."""
    assert workload().data(MYSQL) == workload(clients=64, time="60s", warmup="5s", options={"wait": True}).data(
        MYSQL
    )
    assert workload().data(MYSQL) != workload(warehouses=3).data(MYSQL)


def test_what_is_relaxed_for_the_data_is_put_back() -> None:
    first, *_, last = (step for step in workload().data(MYSQL) if isinstance(step, Run))
    for name in ("innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_max_dirty_pages_pct"):
        assert f"@@GLOBAL.{name} AS {name}" in first.argv[-1]
        assert f"SET GLOBAL {name} = (SELECT {name} FROM blocklab_kept)" in last.argv[-1]
    assert last.argv[-1].endswith("DROP TABLE blocklab_kept")
    assert servers.relax(POSTGRES) == ()


def test_missing_rows_are_seen() -> None:
    [wait, _] = [step for step in workload().data(MYSQL) if isinstance(step, Wait)]
    assert wait.until == "all rows" and wait.until not in "rows are missing"
    assert "(SELECT COUNT(*) FROM stock) = 200000 AND" in wait.argv[-1]


def test_prepare_warms_up() -> None:
    assert workload().prepare(MYSQL) == ()
    (warm,) = workload(warmup="7s").prepare(MYSQL)
    assert isinstance(warm, Run) and "--time=7s" in warm.argv and "--output=json" not in warm.argv


def test_no_shell() -> None:
    text = "$(reboot); `reboot`"
    argv = workload(options={"conn-params": text}).command(MYSQL).argv
    assert f"--conn-params=tls=false&{text}" in argv and not {"sh", "bash", "-c"} & set(argv)


def test_facts() -> None:
    version, rows = workload().facts(MYSQL)
    said = (
        "Git Commit Hash: none\nUTC Build Time: unknown\nRelease version: v1.0.12\n2026/11/21 maxprocs: Leaving\n"
    )
    assert version.parse(said) == {"version": "v1.0.12"}
    assert rows.parse("2\n") == rows.wanted == {"warehouses": "2"}


# --- what fills the tables

# Stands in for go-tpc: notes its arguments, and writes each table to the place where a reader waits.
TOOL = """\
import pathlib, sys
words = dict(word.split("=", 1) for word in sys.argv[1:])
folder = pathlib.Path(words["--output-dir"])
with open(sys.argv[0] + ".log", "a") as log:
    print(words["--port"], words.get("--tables", "all"), file=log)
if "--tables" not in words:
    for table in ("one", "two"):
        (folder / f"bench.{table}.0.csv").write_text(f"row of {table}")
"""


def filled(folder: Path, loaders: dict[str, list[str]]) -> subprocess.CompletedProcess[str]:
    (folder / "tool.py").write_text(TOOL)
    tool = [sys.executable, str(folder / "tool.py"), "--db=bench", "--port=3306"]
    argv = [sys.executable, "-I", "-S", tables.__file__, json.dumps(loaders), *tool]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=60)
    finally:
        # What it may have left waiting at a pipe is in its session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def test_rows_go_from_the_tool_to_each_loader(tmp_path: Path) -> None:
    loaders = {table: ["cp", "{file}", str(tmp_path / table)] for table in ("one", "two")}
    done = filled(tmp_path, loaders)
    assert (done.returncode, done.stderr) == (0, "")
    assert [(tmp_path / table).read_text() for table in loaders] == ["row of one", "row of two"]
    # The second time it must not reach the server, whose tables are being filled.
    assert (tmp_path / "tool.py.log").read_text() == "3306 warehouse\n1 all\n"
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


@pytest.mark.parametrize("table", ["one", "two"])
def test_a_loader_that_fails_ends_all(tmp_path: Path, table: str) -> None:
    loaders = {name: ["cat", "{file}"] for name in ("one", "two")} | {table: ["false"]}
    done = filled(tmp_path, loaders)
    # Or the tool, which then writes into a pipe without a reader.
    assert done.returncode == 1 and "ended with" in done.stderr
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


# --- what stamps the lines


def stamper(*argv: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-I", "-S", stamper_program.__file__, *argv], capture_output=True, timeout=30, check=False
    )


def test_the_stamper_keeps_lines_and_exit_code() -> None:
    done = stamper("printf", "one\\ntwo 2\\nthree")
    assert done.returncode == 0
    assert [line for _, line in stamped.lines(done.stdout)] == ["one", "two 2"]
    assert done.stdout.endswith(b" three")
    assert stamper("false").returncode == 1
    missing = stamper("no-such-program")
    assert missing.returncode == 127 and b"No such file" in missing.stderr


@given(st.lists(st.tuples(st.integers(10**9, 4 * 10**9), st.text(st.characters(exclude_characters="\n")))))
def test_stamped_lines_round_trip(rows: list[tuple[int, str]]) -> None:
    out = "".join(f"{time}.250 {text}\n" for time, text in rows).encode(errors="replace")
    assert [time for time, _ in stamped.lines(out)] == [time + 0.25 for time, _ in rows]
    assert list(stamped.lines(out + b"1795239123.4")) == list(stamped.lines(out))


# --- the output


@pytest.mark.parametrize("name", ["tpcc", "tpcc-postgres"])
def test_real_output(golden: Golden, name: str) -> None:
    parsed = workload().parse(read(name), "db1")
    golden.check(
        f"{name}/expected.json", msgspec.to_builtins({"samples": parsed.samples, "phases": parsed.phases})
    )


def values(raw: dict[str, bytes]) -> dict[str, float]:
    return {each.metric: each.value for each in workload().parse(raw, "db1").samples if each.time is None}


def test_real_figures() -> None:
    raw = read("tpcc")
    whole = values(raw)
    # Lines at 902.034 and 904.018, with 43 and 44 after the first one.
    assert whole["tps"] == pytest.approx(87 / 1.984)
    assert whole["tpmc"] == pytest.approx(60 * 87 / 1.984 * 81 / 153)
    # go-tpc counts 3.716 s, from the end of the first new order.
    [phase] = workload().parse(raw, "db1").phases
    assert phase.end - phase.start == pytest.approx(3.716 + whole["latency.mean"], abs=0.001)
    assert whole["fsyncs"] == pytest.approx((1420 - 1246) / (phase.end - phase.start))
    # MariaDB's innodb_snapshot_isolation; of each there is a line and a place in an _ERR row
    assert whole["errors"] == raw["stdout"].count(b"execute run failed") == 42
    # Without these lines (--silence) the rows still count them.
    assert values(without(b"execute run failed")) == whole
    assert whole["new_order.latency.mean"] == pytest.approx(0.1004, abs=1e-3)
    assert whole["new_order.latency.p50"] <= whole["new_order.latency.p90"] <= whole["new_order.latency.p99.9"]
    assert 0 < whole["commit.group"] <= 4 and whole["lock.waits"] > 0 and 0 < whole["lock.wait.time"] < 1
    postgres = values(read("tpcc-postgres"))
    assert "commit.group" not in postgres and postgres["log.syncs"] > 0 and postgres["errors"] == 0


KINDS = ("NEW_ORDER", "PAYMENT", "STOCK_LEVEL")
BEGIN = 1795247900.0


def line(stamp: float, prefix: str, ends: list[tuple[float, str]]) -> bytes:
    """What go-tpc prints of transactions that ended then: the clock of a kind begins with its first one's end."""
    rows = []
    for kind in KINDS:
        mine = [end for end, each in ends if each == kind]
        if mine:
            names = ("50th", "90th", "95th", "99th", "99.9th", "Max", "Sum")
            row = {f"{name}(ms)": "90.0" for name in names} | {"Operation": kind, "Prefix": f"[{prefix}] "}
            rows.append(
                row | {"Count": str(len(mine)), "TPM": f"{60 * len(mine) / max(1e-3, stamp - mine[0]):.1f}"}
            )
    return f"{BEGIN + stamp:.3f} {json.dumps(rows)}\n".encode() if rows else b""


def said(ends: list[list[tuple[float, str]]], seconds: int) -> bytes:
    """The output of threads whose transactions ended then; each second has its line, as long as they begin new
    ones."""
    done = sorted(end for each in ends for end in each)
    out = b""
    for tick in range(1, seconds):
        out += line(tick, "Current", [each for each in done if tick - 1 < each[0] <= tick])
    last = done[-1][0]
    score = b'%.3f [{"efficiency":"100.0%%","tpmC":"1.0"}]\n' % (BEGIN + last)
    return out + f"{BEGIN + last:.3f} Finished\n".encode() + line(last, "Summary", done) + score


def closed(threads: int, took: float, seconds: int, dice: random.Random) -> list[list[tuple[float, str]]]:
    """Threads that do one transaction after the other: they begin the last one before the time is over."""
    found = []
    for _ in range(threads):
        now, mine = 0.05, []
        while now < seconds:
            now += took * dice.uniform(0.5, 1.5)
            mine.append((now, dice.choices(KINDS, (45, 50, 5))[0]))
        found.append(mine)
    return found


@pytest.mark.parametrize(("threads", "took"), [(1, 0.09), (1, 0.004), (16, 0.4), (16, 0.02)])
def test_short_rounds_have_no_bias(threads: int, took: float) -> None:
    """A first transaction without its time would be 2 to 5 % on a slow stack and nothing on a fast one."""
    dice, found = random.Random(1), []
    for _ in range(30 if took < 0.05 else 300):
        out = said(closed(threads, took, 4, dice), 4)
        samples = output.parsed(stamped.printed({"stdout": out}), "db1", timed=True).samples
        found.append({each.metric: each.value for each in samples if each.time is None})
    rate = threads / took
    assert statistics.fmean(each["tps"] for each in found) == pytest.approx(rate, rel=0.01)
    assert statistics.fmean(each["tpmc"] for each in found) == pytest.approx(60 * 0.45 * rate, rel=0.02)


def test_a_run_too_short_for_two_lines_counts_after_its_first_transaction() -> None:
    ends = [[(0.1 * number, KINDS[number % 2]) for number in range(1, 16)]]
    samples = output.parsed(stamped.printed({"stdout": said(ends, 2)}), "db1", timed=True).samples
    rates = [each.value for each in samples if (each.metric, each.time) == ("tps", None)]
    assert rates == [pytest.approx(10, rel=1e-3)]
    with pytest.raises(ParseError, match="too few transactions"):
        output.parsed(stamped.printed({"stdout": said([[(0.5, "NEW_ORDER")]], 2)}), "db1", timed=True)


def test_output_without_times_has_the_rates_that_go_tpc_says() -> None:
    """Logs of elsewhere that are imported."""
    found = {
        each.metric: each.value
        for each in output.parsed(stamped.printed(read("tpcc")), "db1").samples
        if each.time is None
    }
    assert found["tpmc"] == 1306.1 and found["tps"] == pytest.approx(41.17, abs=0.01)


def test_a_stall_at_the_end_counts_and_thinking_at_the_end_does_not() -> None:
    """Neither has a line. Those who think only sleep on when the time is over."""
    early = [(0.1 * number, KINDS[number % 2]) for number in range(1, 21)]
    out = said([[*early, (9.0, "PAYMENT")]], 10)
    out = out.replace(line(9, "Current", [(9.0, "PAYMENT")]), b"")
    rates = [
        each.value
        for thinks in (False, True)
        for each in output.parsed(stamped.printed({"stdout": out}), "db1", timed=True, thinks=thinks).samples
        if (each.metric, each.time) == ("tps", None)
    ]
    assert rates == [pytest.approx(11 / 8, rel=0.01), pytest.approx(10, rel=0.01)]
    # A long run is judged by the same, and each of its values is a second.
    found = output.so_far(out)
    assert len(found) == 8 and statistics.fmean(found) == pytest.approx(11 / 8, rel=0.01)


def test_a_stall_counts_for_as_long_as_it_was() -> None:
    """A minute with 10 s in which nothing was done, and no line is printed."""
    ends = [(at + part / 20, KINDS[part % 2]) for at in range(60) if not 25 <= at < 35 for part in range(1, 20)]
    out = said([[*ends, (60.5, "PAYMENT")]], 61)
    found = output.so_far(out)
    assert len(found) == 59 and statistics.fmean(found) == pytest.approx(49 * 19 / 59)
    rates = [
        each.value
        for each in output.parsed(stamped.printed({"stdout": out}), "db1", timed=True).samples
        if (each.metric, each.time) == ("tps", None)
    ]
    assert rates == [pytest.approx(statistics.fmean(found))]
    # What is still being written has no end yet.
    assert output.so_far(out[: out.index(b"Finished")]) == found


def test_the_course_is_by_the_clock() -> None:
    """A second without a transaction has no line: the next point is the mean since the one before."""
    raw = read("tpcc")
    points = [
        each for each in workload().parse(raw, "db1").samples if each.time is not None and each.metric == "tps"
    ]
    lines = raw["stdout"].split(b"\n")
    current = [number for number, line in enumerate(lines) if b"[Current]" in line]
    assert len(points) == len(current) == 3
    cut = b"\n".join(lines[: current[1]] + lines[current[1] + 1 :])
    fewer = [
        each
        for each in workload().parse(raw | {"stdout": cut}, "db1").samples
        if each.time is not None and each.metric == "tps"
    ]
    assert [each.time for each in fewer] == [points[0].time, points[2].time]
    assert fewer[1].value == pytest.approx(points[2].value / 2, rel=0.02)


def test_without_binary_log_or_waits_nothing_is_invented() -> None:
    raw = read("tpcc")
    for when in ("before", "after"):
        lines = raw[f"status.{when}"].split(b"\n")
        raw[f"status.{when}"] = b"\n".join(
            line for line in lines if not line.startswith(b"Binlog_group_commits\t")
        )
    assert "commit.group" not in values(raw)  # MySQL
    raw = read("tpcc")
    raw["status.after"] = raw["status.before"]
    still = values(raw)
    assert still["lock.waits"] == 0 and "lock.wait.time" not in still and "commit.group" not in still


def test_a_server_that_was_started_anew() -> None:
    raw = read("tpcc")
    raw["status.before"], raw["status.after"] = raw["status.after"], raw["status.before"]
    with pytest.raises(ParseError, match="started again"):
        workload().parse(raw, "db1")


def test_waiting_times_are_not_transactions() -> None:
    """As go-tpc's outputWaitTimesMeasurement prints them with --wait (v1.0.12, read in its source)."""
    raw = read("tpcc")
    line = b'1795247905.069 [{"Avg(s)":"18.0s","Operation":"KEYINGTIME-NEW_ORDER","Prefix":"[Summary] "}]\n'
    assert values(raw | {"stdout": raw["stdout"] + line}) == values(raw)


def without(text: bytes) -> dict[str, bytes]:
    raw = read("tpcc")
    return raw | {"stdout": b"".join(line for line in raw["stdout"].splitlines(True) if text not in line)}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (without(b"Finished"), "no summary"),
        (without(b"tpmC"), "no tpmC line in its output"),
        (
            without(b"[Summary]"),
            "no new-order transaction was completed; 42 transactions failed, the last one of: exec",
        ),
        ({"stdout": b""}, "no summary"),
        ({"stdout": b"1795247905.069 [{\"Operation\":\"NEW_ORDER\"}]\n"}, "cannot be read"),
        (read("tpcc") | {"status.after": b""}, "no counters"),
        (read("tpcc") | {"status.after": b"Uptime\t5\n"}, "no counter Innodb_row_lock_waits"),
        (read("tpcc-postgres") | {"status.after": b"{"}, "JSON"),
    ],
)  # fmt: skip
def test_bad_output(raw: dict[str, bytes], why: str) -> None:
    with pytest.raises(ParseError, match=why):
        workload().parse(raw, "db1")


@given(st.binary())
def test_garbage_is_a_parse_error(out: bytes) -> None:
    with pytest.raises(ParseError):
        workload().parse({"stdout": out, "stderr": out}, "db1")

"""pgbench: options that stay arguments, and every value from real output (PostgreSQL 17.11, Debian 13)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import ParseError
from blocklab.formats.load.pgbench import single, summary
from blocklab.model.plan import Port, Put, Run
from blocklab.model.units import dec_hook
from blocklab.workloads import AnyWorkload, Pgbench
from blocklab.workloads.pgbench import percentiles
from tests.unit.golden import Golden, read

DSN = Port("db1", "postgresql", "postgresql://postgres@/bench?host=/run/blocklab/x&port=5433")
AWS = Path(__file__).parents[3] / "shared/data/aws-drbd"


def workload(**changes: Any) -> Pgbench:
    plain = {"workload": "pgbench", "clients": 10, "jobs": 2, "transactions": 200} | changes
    found = msgspec.convert({k: v for k, v in plain.items() if v is not None}, AnyWorkload, dec_hook=dec_hook)
    assert isinstance(found, Pgbench)
    return found


# --- the study's side


def test_unknown_field_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `client`"):
        workload(client=3)


def test_good_ones_have_no_problems() -> None:
    assert workload().problems() == []
    options = {"protocol": "prepared", "rate": 500, "max-tries": 3, "random-seed": 1, "failures-detailed": True}
    assert workload(options=options, init={"fillfactor": 90, "foreign-keys": True}).problems() == []
    assert workload(transactions=None, time="30s", script="select-only").problems() == []
    assert workload(scripts={"my-own": "\\set a 1\nselect 1;\n"}).problems() == []
    assert workload(scripts={"shell": "\\set shell 1\nselect shell;\n"}, options={"rate": "0.5"}).problems() == []
    assert workload(options={"rate": False}).problems() == []


@pytest.mark.parametrize(
    ("changes", "where", "why"),
    [
        ({"time": "30s"}, "transactions", "not both"),
        ({"stop": "snia"}, "stop", "a fixed length already"),
        ({"transactions": None, "stop": {"rounds": "3"}}, "stop.rounds", "like 3..15"),
        ({"transactions": None, "time": "1.5s"}, "time", "whole seconds"),
        ({"transactions": None, "time": "0s"}, "time", "whole seconds"),
        ({"transactions": 0}, "transactions", "at least 1"),
        ({"clients": 0, "jobs": 0}, "clients", "at least 1"),
        ({"scale": 0}, "scale", "at least 1"),
        ({"jobs": 11}, "jobs", "11 threads for 10 clients"),
        ({"script": "tpcc"}, "script", "not one of"),
        ({"script": "select-only", "scripts": {"a": "select 1;"}}, "scripts", "not both"),
        ({"scripts": {"../a": "select 1;"}}, "scripts", "not a name"),
        ({"scripts": {"a": "select 1;\n \\shell reboot\n"}}, "scripts.a", "run programs"),
        ({"scripts": {"a": "\\setshell x reboot\n"}}, "scripts.a", "run programs"),
        # Each of these pgbench 15 takes for a command.
        ({"scripts": {"a": "SELECT 1; \\setshell x reboot\n"}}, "scripts.a", "run programs"),
        ({"scripts": {"a": "SELECT 1 \\\tSHELL reboot\n"}}, "scripts.a", "run programs"),
        ({"scripts": {"a": "\\\\\n shell reboot\n"}}, "scripts.a", "run programs"),
        ({"options": {"rate": "fast"}}, "options.rate", "fast: give transactions a second"),
        ({"options": {"rate": 0}}, "options.rate", "a number above 0"),
        ({"options": {"rate": "nan"}}, "options.rate", "a number above 0"),
        ({"options": {"rate": True}}, "options.rate", "a number above 0"),
        ({"options": {"aggregate-interval": 1}}, "options.aggregate-interval", "whole log"),
        ({"options": {"prog": 5}}, "options.prog", "blocklab sets it"),
        ({"options": {"host": "elsewhere"}}, "options.host", "the stack says"),
        ({"options": {"select-only": True}}, "options.select-only", "give script: select-only"),
        ({"options": {"skip-some": True}}, "options.skip-some", "give script: simple-update"),
        ({"options": {"debug": True}}, "options.debug", "each statement"),
        (
            {"options": {"define": "x=1; COPY a TO PROGRAM 'id'"}},
            "options.define",
            "is not a variable and a number",
        ),
        ({"options": {"log-pref": "/etc/x"}}, "options.log-pref", "blocklab sets it"),
        ({"options": {"protocol": "/x"}}, "options.protocol", "is not one of simple, extended, prepared"),
        ({"options": {"protcol": "simple"}}, "options.protcol", "did you mean protocol?"),
        ({"options": {"file": "/etc/x"}}, "options.file", "blocklab sets it"),
        ({"options": {"connect": "/x"}}, "options.connect", "takes no value"),
        ({"init": {"tablespace": "x"}}, "init.tablespace", "is not an option of pgbench --initialize"),
        ({"init": {"init-steps": "dt/"}}, "init.init-steps", "is not steps"),
        ({"options": {"M": "prepared"}}, "options.M", "long option"),
        ({"options": {"--rate": 5}}, "options.--rate", "long option"),
        ({"options": {"rate=1 --debug": 5}}, "options.rate=1 --debug", "long option"),
        ({"init": {"scale": 5}}, "init.scale", "blocklab sets it"),
    ],
)
def test_problems(changes: dict[str, Any], where: str, why: str) -> None:
    found = dict(workload(**changes).problems())
    assert why in found[where]


# --- the plan


def test_steps(golden: Golden) -> None:
    own = workload(scale=50, scripts={"one": "select 1;\n"}, init={"fillfactor": 90, "quiet": False})
    steps = [msgspec.to_builtins(step) for step in (*own.prepare(DSN), *own.arm(DSN))]
    golden.check("pgbench-own/expected-steps.json", [*steps, msgspec.to_builtins(own.command(DSN))])


def test_load_is_arguments_only() -> None:
    text = "$(reboot); `reboot` 'x'"
    argv = workload(options={"define": text, "connect": True, "protocol": False}).command(DSN).argv
    assert f"--define={text}" in argv
    assert "--connect" in argv
    assert not any(word.startswith("--protocol") for word in argv)
    assert argv[-1] == DSN.where
    assert not {"sh", "bash", "-c"} & set(argv)
    assert "--builtin=tpcb-like" in argv
    assert workload(log=False).command(DSN).fetch == ()
    assert not any(word.startswith("--log") for word in workload(log=False).command(DSN).argv)


def test_longest() -> None:
    assert workload(transactions=None, time="30s").command(DSN).seconds == 90
    assert workload(clients=10, transactions=1000).command(DSN).seconds == 1060
    assert workload(clients=10, transactions=1000, options={"rate": 5}).command(DSN).seconds == 4060


def test_prepare_waits_for_large_tables_and_cleans_up() -> None:
    steps = workload(scale=100).prepare(DSN)
    assert max(step.timeout for step in steps if isinstance(step, Run)) >= 3000
    armed = workload().arm(DSN)
    assert isinstance(armed[0], Run)
    assert armed[0].undo == ("rm", "-rf", "/var/lib/blocklab/work/pgbench")
    assert not any(isinstance(step, Put) for step in steps)


def test_version() -> None:
    [fact] = workload().facts(DSN)
    assert fact.parse("pgbench (PostgreSQL) 17.11 (Debian 17.11-0+deb13u1)\n") == {
        "version": "17.11 (Debian 17.11-0+deb13u1)"
    }


# --- the output


def test_real_output(golden: Golden) -> None:
    """Two threads under a rate; and two scripts under a rate with a latency limit, so with skipped lines."""
    for name in ("pgbench", "pgbench-own"):
        # The second one went on for a time.
        timed = {"transactions": None, "time": "3s"} if name == "pgbench-own" else {}
        parsed = workload(**timed).parse(read(name), "db1")
        done = parsed.transactions
        shown = {
            "samples": parsed.samples,
            "phases": parsed.phases,
            "count": len(done),
            "ends": done[:1] + done[-1:],
        }
        golden.check(f"{name}/expected.json", msgspec.to_builtins(shown))


def test_real_figures() -> None:
    parsed = workload().parse(read("pgbench"), "db1")
    whole = {each.metric: each.value for each in parsed.samples if each.time is None}
    assert whole["failed"] == 0
    # The summary and the log agree, each in its own way.
    latencies = [each.latency for each in parsed.transactions]
    assert whole["latency.mean"] == pytest.approx(sum(latencies) / len(latencies), rel=1e-3)
    [phase] = parsed.phases
    # The last of the ten clients had 104 left when the first was through.
    assert len(parsed.transactions) == 1896 and whole["transactions"] == 2000
    assert whole["tps"] == pytest.approx(1896 / (phase.end - phase.start))
    assert whole["latency.p50"] < whole["latency.p95"] < whole["latency.p99"] <= whole["latency.max"]
    assert [each.end for each in parsed.transactions] == sorted(each.end for each in parsed.transactions)
    series = [each for each in parsed.samples if each.time is not None and each.metric == "tps"]
    assert [each.value for each in series] == [681.0, 715.0]
    assert all(phase.start < (each.time or 0) < phase.end for each in series)


def test_clients_that_drain_do_not_count() -> None:
    """Two clients of ten transactions each; the second one, of another thread, takes three times as long."""
    start = 1795232994

    def log(client: int, every: int) -> bytes:
        ends = [every * number for number in range(1, 11)]
        return b"".join(b"%d 1 %d 0 %d %06d\n" % (client, every, start, end) for end in ends)

    logs = {"log.7": log(0, 10_000), "log.7.1": log(1, 30_000)}
    progress = b"".join(b"progress: %d.%d s, 100.0 tps, lat 10.0 ms stddev 0.0, 0 failed\n" % (start, part)
                        for part in (1, 2, 3))  # fmt: skip
    parsed = workload(clients=2, transactions=10).parse({"stdout": OLDER, "stderr": progress, **logs}, "db1")
    whole = {each.metric: each.value for each in parsed.samples if each.time is None}
    # Ten of the first and three of the second in a tenth of a second; of the rest nothing.
    assert whole["tps"] == pytest.approx(130, rel=1e-3)
    assert whole["latency.mean"] == pytest.approx((10 * 10e-3 + 3 * 30e-3) / 13)
    assert (whole["latency.max"], whole["latency.p50"], whole["transactions"]) == (0.03, 0.01, 10000)
    assert parsed.phases[0].end == pytest.approx(start + 0.1)
    assert [each.value for each in parsed.samples if each.time is not None and each.metric == "tps"] == [100.0]


def test_skipped_transactions_have_no_latency() -> None:
    raw = read("pgbench-own")
    lines = raw["log.129"].count(b"\n")
    skipped = raw["log.129"].count(b"skipped")
    assert skipped
    assert len(single.transactions([raw["log.129"]])) == lines - skipped


def test_failed_transactions_have_no_latency() -> None:
    log = (
        b"0 1 failed 0 1795232994 315096\n0 2 serialization 0 1795232994 315097 5 1\n"
        b"0 3 deadlock 0 1795232994 315098\n0 4 2500 0 1795232994 315099\n"
    )
    [only] = single.transactions([log])
    assert (only.end, only.latency) == (1795232994.315099, 0.0025)


# As PostgreSQL 13 printed it (its manual; no time for its start, two rates, relative progress).
OLDER = b"""transaction type: <builtin: TPC-B (sort of)>
scaling factor: 1
number of transactions actually processed: 10000/10000
latency average = 8.440 ms
latency stddev = 5.104 ms
tps = 1182.956212 (including connections establishing)
tps = 1183.361009 (excluding connections establishing)
"""
PROGRESS = (
    b"progress: 1.0 s, 994.9 tps, lat 10.0 ms stddev 5.2\nprogress: 2.0 s, 0.0 tps, lat -nan ms stddev -nan\n"
)


def test_older_wording_and_relative_time() -> None:
    raw = {"stdout": OLDER, "stderr": PROGRESS, "log.7": b"0 1 2500000 0 1795232996 500000\n"}
    parsed = workload(transactions=None, time="2s").parse(raw, "db1")
    whole = {each.metric: each.value for each in parsed.samples if each.time is None}
    assert {metric: value for metric, value in whole.items() if "p" not in metric} == {
        "transactions": 10000, "latency.mean": 0.00844, "latency.stddev": 0.005104, "latency.max": 2.5,
    }  # fmt: skip
    assert whole["tps"] == 1183.361009
    assert [(each.metric, each.value, each.time) for each in parsed.samples if each.time is not None] == [
        ("tps", 994.9, 1795232995.0),
        ("latency.mean", 0.01, 1795232995.0),
        ("tps", 0.0, 1795232996.0),  # and no latency, since there was none
    ]


def test_without_a_log() -> None:
    raw = {"stdout": OLDER, "stderr": PROGRESS}
    parsed = workload(log=False).parse(raw, "db1")
    assert all(each.time is None for each in parsed.samples)
    assert (parsed.phases, parsed.transactions) == ((), ())
    stamped = read("pgbench")
    parsed = workload(log=False).parse({"stdout": stamped["stdout"], "stderr": stamped["stderr"]}, "db1")
    assert [phase.name for phase in parsed.phases] == ["pgbench"]
    with pytest.raises(ParseError, match="no transaction in its log"):
        workload().parse(raw, "db1")


def test_aborted_run() -> None:
    """Real: the server was stopped under it. The summary looks whole, and the exit code is 2."""
    raw = {"stdout": read("pgbench")["aborted.stdout"], "stderr": read("pgbench")["aborted.stderr"]}
    assert b"tps = " in raw["stdout"]
    with pytest.raises(ParseError, match="aborted"):
        workload().parse(raw | {"log.1": b""}, "db1")


@pytest.mark.parametrize(
    ("out", "why"),
    [
        (b"", "no transactions"),
        (b"garbage\n", "no transactions"),
        (OLDER[:200], "no tps"),
        (OLDER.replace(b"8.440", b"8,440"), "no latency.mean"),
        (OLDER.replace(b"1183.361009", b"1183,361009"), "no tps"),
        (OLDER.replace(b": 10000/10000", b": 0/10000"), "no transaction was"),
    ],
)
def test_bad_summary(out: bytes, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        workload(log=False).parse({"stdout": out, "stderr": b"pgbench: error: said this\n"}, "db1")


@pytest.mark.parametrize(
    "log",
    [
        b"garbage\n",
        b"0 1 2500 0 1795232994\n",
        b"0 1 2,5 0 1795232994 1\n",
        b"0 1 -5 0 1795232994 1\n",
        b"1795233005 632 1324544 3505361208 689 9409 0 0 0 0 0 0 0 0 0\n",  # --aggregate-interval, real
    ],
)
def test_bad_log(log: bytes) -> None:
    with pytest.raises(ParseError, match="log"):
        single.transactions([log])


def test_cut_lines() -> None:
    """A log's last line may be cut in a number, and then looks whole."""
    whole = b"0 1 2500 0 1795232994 315096\n"
    assert len(single.transactions([whole + b"0 2 2500 0 1795232995 31"])) == 1
    line = b"progress: 1795232995.283 s, 3253.9 tps, lat 2.986 ms stddev 2.108, 0 failed\n"
    assert summary.series(line + line[:40], "db1", None) == summary.series(line, "db1", None)
    with pytest.raises(ParseError, match="progress line"):
        summary.series(line.replace(b"2.986", b"2,986"), "db1", None)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(10**9, 4 * 10**9), st.integers(0, 999_999))))
def test_log_round_trip(rows: list[tuple[int, int, int]]) -> None:
    log = b"".join(b"0 1 %d 0 %d %d\n" % row for row in rows)
    found = single.transactions([log])
    assert sorted(round(each.latency * 1e6) for each in found) == sorted(row[0] for row in rows)
    assert [each.end for each in found] == sorted(row[1] + row[2] / 1e6 for row in rows)


@given(st.binary())
def test_garbage_is_a_parse_error(out: bytes) -> None:
    with pytest.raises(ParseError):
        workload().parse({"stdout": out, "stderr": out}, "db1")


def test_a_long_log_is_parsed_in_seconds() -> None:
    """100,000 lines; a million take ten times as long."""
    log = b"".join(
        b"%d %d %d 0 %d %d\n" % (i % 10, i, 900 + i % 777, 1795232994 + i // 3000, i % 3000)
        for i in range(100_000)
    )
    started = time.process_time()
    assert len(single.transactions([log])) == 100_000
    assert time.process_time() - started < 3


@pytest.mark.parametrize(("name", "tps", "median"), [("local", 1183, 7.3), ("drbd0", 627, 13.8)])
def test_aws(name: str, tps: float, median: float) -> None:
    """What a cloud's volumes gave in 2020, alone and mirrored within a zone."""
    file = AWS / f"pgbench_{name}.txt"
    if not file.exists():
        pytest.skip(f"{file} is not here: it is no part of the repository")
    done = single.transactions([file.read_bytes()])
    assert len(done) == 10_000
    assert 10_000 / (done[-1].end - min(each.end - each.latency for each in done)) == pytest.approx(tps, abs=0.5)
    p50 = percentiles(done, "db1")[0]
    assert p50.value * 1000 == pytest.approx(median, abs=0.1)

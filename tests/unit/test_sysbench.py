"""sysbench: the commands for each kind of server, and values from real output (1.0.20, Debian 13)."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklab.errors import ParseError
from blocklab.formats.load.sysbench import oltp
from blocklab.model.plan import Port, Run
from blocklab.model.units import dec_hook
from blocklab.workloads import AnyWorkload, Sysbench
from tests.unit.golden import Golden, read

MYSQL = Port("db1", "mysql", "mysql://root@/bench?host=/run/blocklab/x&port=3307")
POSTGRES = Port("db1", "postgresql", "postgresql://postgres@/bench?host=/run/blocklab/x&port=5433")
AFAR = Port("c1", "mysql", "mysql://root@/bench?host=10.77.1.1&port=3307")


def workload(**changes: Any) -> Sysbench:
    plain = {"workload": "sysbench", "tables": 2, "table_size": 1000, "clients": 4, "time": "3s"} | changes
    found = msgspec.convert(plain, AnyWorkload, dec_hook=dec_hook)
    assert isinstance(found, Sysbench)
    return found


def test_good_ones_have_no_problems() -> None:
    assert workload().problems() == []
    options = {"rand-type": "uniform", "skip_trx": True, "rate": 100, "mysql-ignore-errors": "all"}
    assert workload(options=options, script="oltp_insert", warmup="2s").problems() == []
    for text in ("ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8", "COMPRESSION='zlib'", "WITH (fillfactor=70)",
                 "PAGE_COMPRESSED=1, PAGE_COMPRESSION_LEVEL=9", "DEFAULT CHARSET=utf8mb4"):  # fmt: skip
        assert workload(options={"create_table_options": text}).problems() == []
    assert workload(warmup="2s").lasts() == 5


@pytest.mark.parametrize(
    ("changes", "where", "why"),
    [
        ({"clients": 0}, "clients", "at least 1"),
        ({"tables": 0}, "tables", "at least 1"),
        ({"table_size": 0}, "table_size", "at least 1"),
        ({"time": "0s"}, "time", "whole seconds"),
        ({"warmup": "1.5s"}, "warmup", "whole seconds"),
        ({"script": "/tmp/own.lua"}, "script", "not one of oltp_read_write"),
        ({"script": "oltp_common"}, "script", "not one of"),
        ({"options": {"threads": 3}}, "options.threads", "fields of this workload"),
        ({"options": {"events": 3}}, "options.events", "by its time"),
        ({"options": {"mysql-socket": "/x"}}, "options.mysql-socket", "the stack says"),
        ({"options": {"mysql_host": "x"}}, "options.mysql_host", "the stack says"),
        ({"options": {"pgsql_port": 1}}, "options.pgsql_port", "the stack says"),
        ({"options": {"db_driver": "mysql"}}, "options.db_driver", "fields of this workload"),
        ({"options": {"table_size": 5}}, "options.table_size", "fields of this workload"),
        ({"options": {"report_interval": 10}}, "options.report_interval", "fields of this workload"),
        ({"options": {"config_file": "/x"}}, "options.config_file", "write the options here"),
        ({"options": {"pgsql-host": "x"}}, "options.pgsql-host", "the stack says"),
        ({"options": {"--rate": 3}}, "options.--rate", "without dashes"),
        (
            {"options": {"create_table_options": "DATA DIRECTORY='/etc/x'"}},
            "options.create_table_options",
            "is not",
        ),
        ({"options": {"create_table_options": "DATA DIRECTORY = x"}}, "options.create_table_options", "is not"),
        (
            {"options": {"create-table-options": "; SELECT 1 INTO OUTFILE 'x'"}},
            "options.create-table-options",
            "is",
        ),
        ({"options": {"mysql_storage_engine": "a' b"}}, "options.mysql_storage_engine", "is not a name"),
        ({"options": {"mysql-ssl-cipher": "x"}}, "options.mysql-ssl-cipher", "that a study may set"),
        ({"options": {"rand-typ": "uniform"}}, "options.rand-typ", "did you mean rand-type?"),
        ({"options": {"rand-type": "/x"}}, "options.rand-type", "is not one of uniform"),
        ({"options": {"luajit_cmd": "x"}}, "options.luajit_cmd", "own developers"),
    ],
)
def test_problems(changes: dict[str, Any], where: str, why: str) -> None:
    assert why in dict(workload(**changes).problems())[where]


@pytest.mark.parametrize(("name", "port"), [("mysql", MYSQL), ("postgres", POSTGRES), ("afar", AFAR)])
def test_steps(golden: Golden, name: str, port: Port) -> None:
    own = workload(warmup="2s", script="oltp_write_only", options={"rand-type": "uniform", "skip_trx": False})
    value = {
        "data": msgspec.to_builtins(own.data(port)),
        "prepare": [msgspec.to_builtins(step) for step in own.prepare(port)][1:],
        "workload": [msgspec.to_builtins(own.command(port))],
        "facts": [[fact.argv, fact.wanted] for fact in own.facts(port)],
    }
    golden.check(f"sysbench/expected-steps-{name}.json", value)


def test_all_scripts_share_the_data() -> None:
    other = workload(script="oltp_update_index", clients=64, time="60s", options={"rate": 5})
    assert workload().data(MYSQL) == other.data(MYSQL)
    assert workload().data(MYSQL) != workload(tables=3).data(MYSQL)
    assert max(step.timeout for step in workload(table_size=10**6).data(MYSQL) if isinstance(step, Run)) > 3000


def test_facts() -> None:
    version, rows = workload().facts(MYSQL)
    assert version.parse("sysbench 1.0.20\n") == {"version": "1.0.20"}
    assert rows.parse("1000\n") == {"rows": "1000"}


@pytest.mark.parametrize("name", ["sysbench", "sysbench-postgres"])
def test_real_output(golden: Golden, name: str) -> None:
    parsed = workload().parse(read(name), "db1")
    golden.check(
        f"{name}/expected.json", msgspec.to_builtins({"samples": parsed.samples, "phases": parsed.phases})
    )


def test_real_figures() -> None:
    parsed = workload().parse(read("sysbench"), "db1")
    whole = {each.metric: each.value for each in parsed.samples if each.time is None}
    [phase] = parsed.phases
    assert whole["transactions"] == 297 and whole["errors"] == 146
    assert whole["tps"] == pytest.approx(297 / (phase.end - phase.start))
    # sysbench's own is of rank 294 (297 * 0.99 rounded), ours of rank 295 (rounded up).
    assert b"99th percentile:                      164.45" in read("sysbench")["stdout"]
    assert whole["latency.p99"] == pytest.approx(0.20782, abs=1e-5)
    assert whole["latency.p50"] < whole["latency.p95"] < whole["latency.p99"] < whole["latency.max"]
    series = [each for each in parsed.samples if each.time is not None and each.metric == "tps"]
    assert len(series) == 3 and all(phase.start < (each.time or 0) < phase.end + 0.1 for each in series)


def test_what_the_server_counted_is_of_the_loads_own_seconds() -> None:
    """3.115 s of 4.035 s from the one reading to the other: the tool started and connected, counters were read."""
    parsed = workload().parse(read("sysbench-postgres"), "db1")
    whole = {each.metric: each.value for each in parsed.samples if each.time is None}
    assert whole["transactions"] == 176
    assert whole["log.syncs"] / whole["tps"] == pytest.approx((285 - 113) / 176)


def test_the_lines_of_a_given_rate_are_no_seconds() -> None:
    """sysbench --rate=100 says a second line each second."""
    raw = read("sysbench")
    more = b"1795247749.972 [ 1s ] queue length: 0, concurrency: 1\n"
    lines = raw["stdout"].splitlines(True)
    found = workload().parse(raw | {"stdout": b"".join(lines[:12]) + more + b"".join(lines[12:])}, "db1")
    assert found == workload().parse(raw, "db1")


def test_no_percentile_is_none_of_zero() -> None:
    raw = read("sysbench")
    out = re.sub(rb"lat \(ms,99%\): [\d.]+", b"lat (ms,0%): 0.00", raw["stdout"])
    metrics = {sample.metric for sample in workload().parse(raw | {"stdout": out}, "db1").samples}
    assert "latency.p0" not in metrics and "tps" in metrics


def test_options_that_make_other_tables_make_them() -> None:
    plain = workload().data(MYSQL)
    made = workload(options={"create_secondary": False, "mysql-storage-engine": "myrocks", "rand-type": "uniform"})
    prepare = next(step.argv for step in made.data(MYSQL) if isinstance(step, Run) and "prepare" in step.argv)
    assert {"--create_secondary=off", "--mysql-storage-engine=myrocks"} <= {*prepare}
    assert not any("rand-type" in word for word in prepare)
    assert made.data(MYSQL) != plain == workload(options={"rand-type": "uniform"}).data(MYSQL)


@given(st.lists(st.tuples(st.floats(0.001, 1e5), st.integers(1, 1000)), min_size=1), st.integers(1, 100))
def test_percentiles_are_nearest_ranks(buckets: list[tuple[float, int]], percent: int) -> None:
    each = sorted(value for value, count in buckets for _ in range(count))
    rank = -(-len(each) * percent // 100)
    assert oltp.percentile(buckets, percent) == each[rank - 1]


def without(text: bytes) -> dict[str, bytes]:
    raw = read("sysbench")
    return raw | {"stdout": b"".join(line for line in raw["stdout"].splitlines(True) if text not in line)}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (without(b"total time"), "no seconds"),
        (without(b"Threads started"), "no Threads started!"),
        (without(b" |*"), "no transaction was"),
        ({"stdout": b""}, "no transactions"),
        (read("sysbench") | {"stdout": b"1795247749.972 [ 1s ] thds: 4 tps: 3,2\n"}, "a line of its report"),
        ({"stdout": b"1795247749.972 FATAL: no\n", "stderr": b""}, "no transactions"),
    ],
)
def test_bad_output(raw: dict[str, bytes], why: str) -> None:
    with pytest.raises(ParseError, match=why):
        workload().parse(raw, "db1")


@given(st.binary())
def test_garbage_is_a_parse_error(out: bytes) -> None:
    with pytest.raises(ParseError):
        workload().parse({"stdout": out, "stderr": out}, "db1")

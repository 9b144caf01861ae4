"""The ledger: commands, histories of real runs (one with a server killed), what is found, binary logs."""

from __future__ import annotations

import time
from collections import Counter

import msgspec
import pytest

from blocklab.errors import ParseError
from blocklab.model.drill import Attempt
from blocklab.model.plan import Port, Run
from blocklab.model.units import Duration
from blocklab.workloads import Ledger, ledger_found, ledger_output
from blocklab.workloads.ledger_output import History
from tests.unit.golden import Golden, read

PG = Port("app", "postgresql", "postgresql://postgres@/bench?host=10.77.0.1&port=5433")
MARIA = Port("app", "mysql", "mysql://root@/bench?host=10.77.0.1&port=3306")
HEAD = b"ledger\t1\tpostgresql\t500\t2\t10.77.0.1:5432,10.77.1.1:5432\t1000000\n"
SPAN = b"s\t2000000\t4000000\n"
BEGUN = b"b\t1000000\t1\t0\t2000000\t2000050\n"


def history(*lines: bytes) -> bytes:
    return HEAD + SPAN + b"".join(lines)


# -- commands -----------------------------------------------------------------------------------------------------


def test_the_command() -> None:
    workload = Ledger(client="app", rate=500, clients=4, time=Duration("5s")).command(PG)
    assert workload.argv == (
        "blocklab-ledger", "--kind=postgresql", "--server=10.77.0.1:5433", "--user=postgres",
        "--database=bench", "--connections=4", "--rate=500", "--seconds=5", "--patience=1s",
        "--history=/var/lib/blocklab/work/blocklab-ledger.tsv",
    )  # fmt: skip
    assert (
        workload.host == "app"
        and workload.fetch == ("/var/lib/blocklab/work/blocklab-ledger.tsv",)
        and workload.seconds > 7
    )
    assert set(workload.around) == {"status"}


def test_the_command_for_several_servers() -> None:
    workload = Ledger(client="app").writer(MARIA, ("10.77.0.1", "10.77.1.1:3307"), 62.5)
    assert workload.argv[1:4] == ("--kind=mysql", "--server=10.77.0.1:3306", "--server=10.77.1.1:3307")
    assert {"--rate=max", "--seconds=62.5"} <= set(workload.argv) and workload.around == {}


def test_the_tables_and_what_the_node_can() -> None:
    workload = Ledger(client="app", clients=3, rate=900)
    texts = [" ".join(step.argv) for step in workload.data(PG) if isinstance(step, Run)]
    assert any("VALUES (0, 0, 0), (1, 0, 0), (2, 0, 0)" in text for text in texts) and "ENGINE" not in str(texts)
    texts = [" ".join(step.argv) for step in workload.data(MARIA) if isinstance(step, Run)]
    assert sum("ENGINE=InnoDB" in text for text in texts) == 2
    [empty, can] = [step for step in workload.prepare(PG) if isinstance(step, Run)]
    assert empty.undo == ("rm", "-f", "/var/lib/blocklab/work/blocklab-ledger.tsv")
    assert "--can=900" in can.argv and "--connections=3" in can.argv
    assert len(Ledger(client="app").prepare(PG)) == 1
    assert {fact.layer for fact in workload.facts(PG)} == {"ledger"}


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"client": ""}, "from"),
        ({"clients": 0}, "clients"),
        ({"rate": 0}, "rate"),
        ({"time": Duration("1.5s")}, "time"),
        ({"patience": Duration("10ms")}, "patience"),
    ],
)
def test_what_is_refused(fields: dict[str, object], where: str) -> None:
    workload = msgspec.structs.replace(Ledger(client="app"), **fields)
    assert [name for name, _ in workload.problems()] == [where]
    assert Ledger(client="app").problems() == []


# -- histories ----------------------------------------------------------------------------------------------------


def test_every_kind_of_line() -> None:
    tried, head = ledger_output.attempts(
        history(
            BEGUN,
            b"b\t1000001\t0\t1\t2002000\t2002010\n",
            b"a\t1000000\t2005000\n",
            b"r\t1000001\t2006000\tconnection refused\n",
            b"b\t1000002\t1\t0\t2004000\t2005001\n",
            b"d\t1000002\t3005001\ti/o timeout\n",
            b"n\t1000003\t2006000\t3006000\tno connection\n",
            b"b\t1000004\t1\t0\t2008000\t2008001\n",
        )
    )
    assert tried == [
        Attempt(1000000, 1, 2.0, 2.00005, 2.005, "acknowledged", 0),
        Attempt(1000001, 0, 2.002, 2.00201, 2.006, "refused", 1, "connection refused"),
        Attempt(1000002, 1, 2.004, 2.005001, 3.005001, "in doubt", 0, "i/o timeout"),
        Attempt(1000003, -1, 2.006, None, 3.006, "refused", -1, "no connection"),
        Attempt(1000004, 1, 2.008, 2.008001, None, "in doubt", 0, "no answer: the writer was ended"),
    ]
    assert head == ledger_output.History(
        "postgresql", 500.0, 2, ("10.77.0.1:5432", "10.77.1.1:5432"), 1.0, 2.0, 4.0, whole=False
    )
    assert ledger_output.attempts(history(b"e\t5000000\t3000000\n"))[1].stop == 3.0


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (b"a\t1000000\t2005000\n", 3),
        (BEGUN + BEGUN, 4),
        (BEGUN + b"x\t1\t2\n", 4),
        (BEGUN + b"a\t1000000\n", 4),
        (BEGUN + b"a\t1000000\t2005000\tbut why\n", 4),
        (BEGUN + b"r\t1000000\t2005000\n", 4),
        (BEGUN + b"a\t1000000\t2005000\na\t1000000\t2005001\n", 5),
        (b"e\t5000000\t4000000\nn\t1000003\t2006000\t3006000\tlater\n", 4),
        (b"b\t1000000\t1\t0\tsoon\t2000050\n", 3),
        (b"\n", 3),
    ],
)
def test_garbage_is_told_by_its_line(lines: bytes, number: int) -> None:
    with pytest.raises(ParseError, match=f"line {number} of the history"):
        ledger_output.attempts(history(lines))


def test_a_history_that_is_none() -> None:
    with pytest.raises(ParseError, match="empty"):
        ledger_output.attempts(HEAD[:-1])
    for head in (b"ledger\t2\tpostgresql\tmax\t8\tx\t1\n", b"hello\n"):
        with pytest.raises(ParseError, match="line 1"):
            ledger_output.attempts(head)
    again = b"n\t1000000\t2000000\t3006000\tno connection\n"
    with pytest.raises(ParseError, match="twice"):
        ledger_output.attempts(history(BEGUN, b"a\t1000000\t2005000\n", again))


def test_a_last_line_cut_in_the_middle_is_dropped() -> None:
    whole = history(BEGUN, b"a\t1000000\t2005000\n")
    for length in range(len(HEAD), len(whole) + 1):
        tried, _ = ledger_output.attempts(whole[:length])
        assert [each.answer for each in tried] == (
            ["acknowledged"] if length == len(whole) else ["in doubt"] if length >= len(history(BEGUN)) else []
        )


@pytest.mark.parametrize("name", ["steady", "killed", "most"])
def test_histories_of_real_runs(golden: Golden, name: str) -> None:
    raw = read(f"ledger-{name}")
    tried, head = ledger_output.attempts(raw["blocklab-ledger.tsv"])
    assert Counter(each.answer for each in tried)["acknowledged"] > 100
    golden.check(
        f"ledger-{name}/expected-attempts.json",
        msgspec.to_builtins([*tried[:5], *(each for each in tried if each.why)][:60]),
    )
    golden.check(f"ledger-{name}/expected-head.json", msgspec.to_builtins(head))
    parsed = Ledger(client="app").parse(raw, "app")
    assert len(parsed.transactions) == Counter(each.answer for each in tried)["acknowledged"]
    golden.check(
        f"ledger-{name}/expected.json", [msgspec.to_builtins(each) for each in (*parsed.samples, *parsed.phases)]
    )


def test_latency_is_from_when_it_was_due() -> None:
    text = history(
        BEGUN,
        b"a\t1000000\t2500000\n",
        b"b\t1000001\t1\t0\t2100000\t2500001\n",
        b"a\t1000001\t2600000\n",
        b"n\t1000002\t2200000\t3300000\tno free connection\n",
        b"e\t4000100\t4000000\n",
    )
    raw = {"blocklab-ledger.tsv": text, "stdout": b'{"late": 0.25}\n{"late": 0.5}\n{"la'}
    parsed = Ledger(client="app").parse(raw, "app")
    values = {each.metric: each.value for each in parsed.samples if each.time is None}
    assert values == {
        "tps": 1.0, "latency.mean": pytest.approx(0.5), "latency.p50": pytest.approx(0.5),
        "latency.p95": pytest.approx(0.5), "latency.p99": pytest.approx(0.5), "latency.max": pytest.approx(0.5),
        "acknowledged": 2, "refused": 1, "in_doubt": 0, "late.max": 0.5,
    }  # fmt: skip
    assert [(each.time, each.value) for each in parsed.samples if each.time] == [(3.0, 2.0), (4.0, 0.0)]


def test_without_an_answer_there_is_no_figure() -> None:
    refused = b"n\t1000002\t2200000\t3300000\tno connection\n"
    for text in (history(), history(refused)):
        with pytest.raises(ParseError, match="no transaction was acknowledged"):
            Ledger(client="app").parse({"blocklab-ledger.tsv": text, "stdout": b""}, "app")
    with pytest.raises(ParseError, match="counters cannot be read"):
        ledger_output.latest(b"")


def test_half_a_million_lines_take_seconds() -> None:
    pairs = (
        b"b\t%d\t1\t0\t%d\t%d\na\t%d\t%d\n" % (10**15 + i, 10**15 + i, 10**15 + i, 10**15 + i, 10**15 + i + 900)
        for i in range(250_000)
    )
    text = history(*pairs)
    start = time.process_time()
    tried, _ = ledger_output.attempts(text)
    assert len(tried) == 250_000 and time.process_time() - start < 30


# -- what is found ------------------------------------------------------------------------------------------------

STATE = b"row\t7\t1\t0\nrow\t9\t0\t0\ntally\t0\t1\t9\ntally\t1\t1\t7\ncount\t2\t2\t0\n"


def test_rows_and_tally() -> None:
    found = ledger_found.found({"ledger": STATE})
    assert (found.rows, found.tally, found.binlog) == ({7: 1, 9: 0}, {0: (1, 9), 1: (1, 7)}, None)
    assert set(ledger_found.reads(PG)) == {"ledger"} and ledger_found.logs({"ledger": STATE}) == {}
    assert set(ledger_found.reads(MARIA)) == {"ledger", "binlogs"}
    empty = b"count\t0\t1\t0\ntally\t0\t0\t0\n"
    assert ledger_found.found({"ledger": empty}).rows == {}


@pytest.mark.parametrize("cut", range(1, len(STATE)))
def test_a_cut_answer_is_an_error(cut: int) -> None:
    with pytest.raises(ParseError):
        ledger_found.found({"ledger": STATE[:cut]})


def test_no_answer_is_an_error() -> None:
    for raw in ({}, {"ledger": b""}, {"ledger": b"ERROR 1146\n"}, {"ledger": b"x\t1\t2\t3\n" + STATE}):
        with pytest.raises(ParseError):
            ledger_found.found(raw)


LISTING = (
    b"1\t11.8.6-MariaDB-0+deb13u1 from Debian-log\t/mnt/maria/mariadb/binlog\n"
    b"binlog.000001\t330\nbinlog.000002\t98213\n"
)


def test_the_binary_logs_are_read_one_by_one() -> None:
    argvs = ledger_found.logs({"binlogs": LISTING})
    assert list(argvs) == ["binlog.000001", "binlog.000002"]
    assert argvs["binlog.000002"][-1] == "/mnt/maria/mariadb/binlog.000002"
    assert ledger_found.logs({"binlogs": b"0\t11.8.6-MariaDB-0+deb13u1\tNULL\n"}) == {}


@pytest.mark.parametrize(
    ("listing", "why"),
    [
        (b"", "list of the binary logs"),
        (LISTING.replace(b"binlog.000001\t330\n", b""), "not all there"),
        (LISTING.replace(b"binlog.000001\t330\n", b"what\n"), "not all there"),
        (b"1\t11.8.6-MariaDB-log\t/x/binlog\n", "not all there"),
        (b"1\t9.7.4\t/x/binlog\nbinlog.000001\t330\tNo\n", "MySQL 9.7.4 cannot be read"),
    ],
)
def test_binary_logs_that_cannot_be_read(listing: bytes, why: str) -> None:
    with pytest.raises(ParseError, match=why):
        ledger_found.logs({"binlogs": listing})


def binlogs(name: str) -> dict[str, bytes]:
    """What was read of a real server that was killed under the writer and went on with another log."""
    return {key: text for key, text in read(f"ledger-binlog-{name}").items() if not key.startswith("expected")}


@pytest.mark.parametrize("name", ["row", "mixed"])
def test_binary_logs_of_real_servers(golden: Golden, name: str) -> None:
    raw = binlogs(name)
    ids = ledger_found.binlog(raw)
    assert ids is not None and ids == set(ledger_found.found(raw).rows) and len(ledger_found.logs(raw)) == 2
    golden.check(f"ledger-binlog-{name}/expected.json", sorted(ids))
    last = max(ledger_found.logs(raw))
    # Without its last log, what the server did after it came back is missing.
    fewer = ledger_found.binlog({**raw, last: raw[last][:200] + b"\n# End of log file\n"})
    assert fewer is not None and fewer < ids


@pytest.mark.parametrize("name", ["row", "mixed"])
def test_a_binary_log_that_was_not_read_is_an_error(name: str) -> None:
    raw = binlogs(name)
    last = max(ledger_found.logs(raw))
    with pytest.raises(ParseError, match=last):
        ledger_found.binlog({key: text for key, text in raw.items() if key != last})
    for cut in (0, 40, len(raw[last]) // 2):
        with pytest.raises(ParseError, match=f"{last} was not read to its end"):
            ledger_found.binlog({**raw, last: raw[last][:cut]})


# What mariadb-binlog 11.8 says of a log cut in an event, in an event's header, in its first event, and of one that
# ends in zeros.
CUT = [
    b"ERROR: Error in Log_event::read_log_event(): 'Event truncated', data_len: 31, event_type: 16\n",
    b"ERROR: Error in Log_event::read_log_event(): 'Event truncated'\n",
    b"ERROR: Error in Log_event::read_log_event(): 'Event truncated', data_len: 252, event_type: 15\n"
    b"ERROR: Could not read entry at offset 4: Error in log format or read error.\n",
    b"ERROR: Error in Log_event::read_log_event(): 'Event invalid', data_len: 0, event_type: 0\n",
]
# And of one with another byte in the middle, one that is not there, and one that is none.
DAMAGED = [
    b"ERROR: Error in Log_event::read_log_event(): 'Event crc check failed! "
    b"Most likely there is event corruption.', data_len: 112, event_type: 23\n",
    b"\x07mariadb-binlog: File '/x/binlog.000001' not found (Errcode: 2 \"No such file or directory\")\n",
    b"ERROR: File is not a binary log file.\n",
]


def test_a_log_cut_by_a_crash_is_not_damaged() -> None:
    raw = binlogs("row")
    first = min(ledger_found.logs(raw))
    for said in CUT:
        assert ledger_found.binlog({**raw, f"{first}.stderr": said}) == ledger_found.binlog(raw)
    for said in DAMAGED:
        with pytest.raises(ParseError, match=f"{first} cannot be read"):
            ledger_found.binlog({**raw, f"{first}.stderr": said})
    # Cut in its first event, it has no end that could be printed.
    assert ledger_found.binlog({**raw, first: b"DELIMITER /*!*/;\n", f"{first}.stderr": CUT[2]}) is not None


def test_a_log_cut_by_a_crash_keeps_what_was_committed() -> None:
    raw = {**read("ledger-binlog-cut"), "binlogs": LISTING.replace(b"binlog.000002\t98213\n", b"")}
    ids = ledger_found.binlog(raw)
    assert raw["binlog.000001.stderr"].startswith(b"ERROR") and ids
    # The last transaction has no end, so no replica would do it.
    assert raw["binlog.000001"].count(b"### INSERT INTO `bench`.`ledger`") == len(ids) + 1


def test_a_fault_is_not_among_the_figures_in_peace() -> None:
    """Eight clients, 2 ms each; the server stands still for 0.8 s from second 5 on, with some under way."""
    calm = [Attempt(n, n % 8, n * 0.01, n * 0.01, n * 0.01 + 0.002, "acknowledged", 0) for n in range(1, 500)]
    caught = [Attempt(500 + n, n, 4.999, 4.999, 5.8, "acknowledged", 0) for n in range(8)]
    lost = [Attempt(508, 0, 4.9995, 4.9995, None, "in doubt", 0, "connection lost")]
    later = [Attempt(509 + n, n, 6.0 + n, 6.0 + n, 6.002 + n, "acknowledged", 0) for n in range(3)]
    history = History("postgresql", None, 8, ("10.77.0.1:5432",), 0.0, 0.005, 10.0, whole=True)
    found = ledger_output.before([*calm, *caught, *lost, *later], history, 5.0, "c1")
    values = {each.metric: each.value for each in found.samples if each.time is None}
    assert values["acknowledged"] == 499 and values["in_doubt"] == 0
    assert values["latency.max"] == pytest.approx(0.002) == values["latency.mean"]
    whole = ledger_output.before([*calm, *caught], history, None, "c1")
    assert max(each.latency for each in whole.transactions) > 0.8, "without a fault all of it counts"

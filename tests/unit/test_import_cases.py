"""Inputs that came out wrong once, in the formats of real tools: what each of them is to come to.

They are in a folder beside the repository, each in a folder of its own with a README, and are no part of it. A
case is a row: the command as its README has it, the values that it must give, what it must say, and what it must
not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from blocklab.cli.main import app
from blocklab.stats.analysis import analyse
from blocklab.store.folder import StudyFolder

CASES = Path(__file__).parents[3] / "shared/data/cases"


class Case(msgspec.Struct, frozen=True):
    """``command`` is what stands behind ``blocklab``, in the folder of the case; ``import`` needs no ``--runs``.

    ``values``: of an import, by ``WORKLOAD METRIC``, with the phase between them where there is one, at the stack
    ``local``. ``says`` and ``silent`` are patterns that are searched in all that was printed, with single blanks.
    ``code`` is that of the exit.
    """

    name: str
    command: str
    values: Mapping[str, float] = {}
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    code: int = 0


# What ran a workload, or watched a host for one: fio, pgbench, sysbench, go-tpc, dstat.
WORKLOADS = (
    Case(
        "01-warmup-sysbench", "import --stack local=s",
        {"sysbench tps": 90, "sysbench qps": 1800, "sysbench transactions": 5400, "sysbench tps.steady": 100},
        (r"90\.0 TPS over all of its time, 100 ± 0\.3 TPS without the first 15 s",),
    ),
    Case(
        "03-warmup-pgbench-progress", "import --stack local=s", {"pgbench tps": 90.0, "pgbench tps.steady": 100.0},
        ("means over its 60 lines of -P",),
    ),
    Case(
        "11-fio-text-fsync-taken-for-repeats", "import --stack local=s",
        {"fio wr-nosync write.iops": 4000, "fio wr-fsync write.iops": 800},
        ("it does not tell all options .* put repeats into folders run1, run2",), ("repeat 2", "all its options"),
    ),
    Case(
        "12-sysbench-report-csv", "import --stack local=s",
        {"sysbench tps": 90, "sysbench tps.steady": 100, "sysbench latency.p95": 0.010}, ("248",), ("damaged",),
    ),
    Case(
        "17-dstat-csv-date-in-header", "import --stack local=s",
        {"io run read.iops": 100, "io run write.iops": 50},
        ("2024-03-25 10:00:01 to 10:00:59", "2024, as of the date in its header"), ("2026",),
    ),
    Case(
        "17-dstat-csv-date-in-header", "import --stack local=amb", {"io run read.iops": 100},
        ("2024-08-02 10:00:01 to 10:00:59",), ("2026",),
    ),
    Case(
        "25-pgbench-aggregate-failures-skipped", "import --stack local=s",
        {"pgbench tps": 10, "pgbench transactions": 600, "pgbench skipped": 12, "pgbench failed": 12,
         "pgbench retried": 30, "pgbench retries": 42},
        ("failed transactions: 6 serialization, 6 deadlock", "5 whole intervals, all other values are of all 6"),
    ),
    Case(
        "26-go-tpc-ch", "import --stack local=s", {"go-tpc tpmc": 93826.9, "go-tpc new_order.count": 5629221},
        ("4 lines of the queries of CH-benCHmark .* are left out",), ("damaged", "summary alone"),
    ),
    Case(
        "27-sar-summary-rows", "import --stack local=sar.txt", {"io run iops": 100}, ("sar.txt sar 12 ",),
        ("damaged",),
    ),
    Case(
        "29-fio-error-text-looks-like-yaml", "import --stack local=s", {},
        (r"fio ended with errors \(84\), no report in it: Invalid or incomplete multibyte",), ("YAML",), 1,
    ),
    Case(
        "32-time-range-over-days", "import --stack local=iostat.txt", {"io run read.iops": 100},
        ("2024-03-05 23:59:31 to 2024-03-06 00:00:30",),
    ),
    *(
        Case(
            "42-line-prefix-of-a-collector", f"import --stack local={name}.txt",
            {"pgbench tps": 100, "pgbench latency.mean": 0.010}, (says,), ("CSV",),
        )
        for name, says in (
            ("compose", r"each of its lines begins with 'pgbench-1 \| '"),
            ("kube", "2024-03-01 10:00:00 to 10:00:20 .* each of its lines begins with a time"),
            ("fab", r"each of its lines begins with '\[localhost\] out: '"),
        )
    ),
)  # fmt: skip
# What watched devices and hosts: iostat, sar, sadf, /proc/diskstats.
DEVICES: tuple[Case, ...] = ()
# What a database counts: status, InnoDB, AWR.
DATABASES = (
    Case(
        "10-aurora-status-zero", "size status.txt", code=1,
        says=("Aurora MySQL.* VolumeReadIOPs and VolumeWriteIOPs",), silent=("must carry",),
    ),
    Case(
        "14-awr-text-paged-14", "size awr.txt",
        says=("300 IOPS and 4.19 MB/s", "write throughput 1.05 MB/s", "flushes 20.0 /s", "transactions 10.0 /s"),
    ),
    Case(
        "16-awr-direct-path-reads", "size awr.txt",
        says=(r"requests in flight 4\.4", "785,100 waits for 2 events, 100 % of them 'direct path read'"),
    ),
    Case(
        "34-innodb-status-log-writes-subtracted", "size one.txt two.txt", says=("must carry 7,000 IOPS",),
    ),
    Case(
        "35-innodb-status-model-flips-up", "size up-one.txt up-two.txt",
        says=("must carry 9,000 IOPS", "its file writes leave out the redo log's: one more is counted"),
    ),
)  # fmt: skip
ALL = (*WORKLOADS, *DEVICES, *DATABASES)


@pytest.mark.parametrize("case", ALL, ids=lambda case: f"{case.name} {case.command}".replace(" ", "_"))
def test_a_case_comes_out_right(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CASES / case.name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: an input that came out wrong once")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    command, runs = case.command.split(), tmp_path / "runs"
    done = CliRunner().invoke(app, [*command, *(["--runs", str(runs)] if command[0] == "import" else [])])
    printed = " ".join(done.output.split()) + f" {done.exception or ''}"
    assert done.exit_code == case.code, printed
    for pattern in case.says:
        assert re.search(pattern, printed), (pattern, printed)
    for pattern in case.silent:
        assert not re.search(pattern, printed), (pattern, printed)
    if case.values:
        assert _values(runs, case.values) == pytest.approx(dict(case.values), rel=0.005)


def _values(runs: Path, names: Mapping[str, float]) -> dict[str, float]:
    """Those of the one study below ``runs``; of a value that is not there NaN."""
    (folder,) = (place for place in runs.iterdir() if place.is_dir())
    analysis = analyse(StudyFolder(folder))
    found = {}
    for name in names:
        workload, *phase, metric = name.split()
        row = analysis.find("local", workload, metric, *phase)
        found[name] = float("nan") if row is None else row.value
    return found

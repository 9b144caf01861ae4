"""A text of every kind that is imported, mostly what a real program printed (tests/unit/golden/README.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from tests.unit.golden import FOLDER
from tests.unit.import_averages import averaged
from tests.unit.import_logs import log
from tests.unit.import_samples import DSTAT, JDBC_TPCC, SUMMARY, unstamped

GOLDEN = FOLDER / "import"


class Sample(msgspec.Struct, frozen=True):
    """``name`` is that of the file: of fio's logs it counts."""

    kind: str
    name: str
    text: str


def old_go_tpc() -> str:
    """go-tpc's text as of before 1.0.8: fewer columns, whole milliseconds."""
    lines = []
    for line in unstamped("tpcc/stdout").split("\n"):
        for row in re.findall(r"\{[^{}]*\"Operation\"[^{}]*\}", line):
            found = dict(re.findall(r'"([^"]+)":"([^"]*)"', row))
            whole = {name: found[name].partition(".")[0] for name in found if name.endswith("(ms)")}
            lines.append(
                f"{found['Prefix'].strip()} {found['Operation']} - Takes(s): {found['Takes(s)']}, "
                f"Count: {found['Count']}, TPM: {found['TPM']}, Sum(ms): {whole['Sum(ms)']}, "
                f"Avg(ms): {whole['Avg(ms)']}, 90th(ms): {whole['90th(ms)']}, 99th(ms): {whole['99th(ms)']}, "
                f"99.9th(ms): {whole['99.9th(ms)']}"
            )
    return "\n".join(lines) + "\n"


def old_dstat() -> str:
    """dstat's table as of 0.7.0: another name of the time's column."""
    return (GOLDEN / "dstat.txt").read_text().replace("     time     ", "  date/time   ")


DSTAT_CSV = (
    '"Dstat 0.7.2 CSV output"\n"Author:","A <a@example.org>",,,,"URL:","https://example.org/"\n"Host:","db1"\n'
    '\n"epoch","total cpu usage",,,,,,"dsk/sda",\n"epoch","usr","sys","idl","wai","hiq","siq","read","writ"\n'
    + "".join(f"{1597104000 + at}.892,0.054,0.035,99.883,0.029,0.0,0.1,{900000 + at}.5,2e3\n" for at in range(9))
)
AGGREGATE = "".join(f"{1345828501 + 10 * at} {5601 + at} 1542744 483552416 61 {2573 + at}\n" for at in range(9))


def _of_fio() -> Iterator[Sample]:
    for kind in ("lat", "clat", "slat", "bw", "iops"):
        rows = "".join(f"{100 * at + at % 9}, {9000 + at}, {at % 2}, 4096, 0, 0\n" for at in range(1, 60))
        yield Sample(f"fio-{kind}", f"x_{kind}.1.log", rows)
    yield Sample("fio-iops", "y_iops.1.log", averaged(500))


def every_kind() -> list[Sample]:
    """Of each at least one."""
    own = [
        Sample("fio-json", "x.json", (FOLDER / "fio/stdout").read_text()),
        Sample("iostat", "x.txt", (FOLDER / "sizing/iostat/timed.txt").read_text()),
        Sample("iostat-json", "x.txt", (FOLDER / "iostat/stopped.json").read_text()),
        Sample("dstat", "x.txt", DSTAT),
        Sample("dstat", "x.txt", old_dstat()),
        Sample("dstat-csv", "x.csv", DSTAT_CSV),
        Sample("pgbench", "x.txt", SUMMARY),
        Sample("pgbench-log", "x.log", log(200)),
        Sample("pgbench-aggregate", "x.log", AGGREGATE),
        Sample("go-tpc", "x.txt", unstamped("tpcc/stdout")),
        Sample("go-tpc", "x.txt", old_go_tpc()),
        Sample("sysbench", "x.txt", unstamped("sysbench/stdout")),
        Sample("jdbcrunner", "x.txt", JDBC_TPCC),
    ]
    files = {
        "sar.txt": "sar", "sar-12h.txt": "sar", "sar-de.txt": "sar", "sar-uall.txt": "sar",
        "sadf.json": "sadf-json", "sadf.csv": "sadf-csv", "iostat-t.txt": "iostat", "iostat-d.txt": "iostat",
        "iostat-c.txt": "iostat",
        "iostat-de.txt": "iostat", "centos7/iostat-1.out": "iostat", "centos7/iostat-m.out": "iostat",
        "vmstat.txt": "vmstat", "vmstat-tw.txt": "vmstat", "vmstat-ta.txt": "vmstat", "dstat.txt": "dstat",
        "centos7/vmstat-at-5-10.out": "vmstat", "pkb/hammerdb.log": "hammerdb",
        "pkb/hammerdb-profile.log": "hammerdb-profile", "pkb/hammerdb-counter.log": "hammerdb-counter",
        "pkb/pgbench-9.txt": "pgbench", "pkb/pgbench-progress.txt": "pgbench-progress",
        "pkb/sysbench-0.5.txt": "sysbench", "fio/3.39.txt": "fio-text", "fio/3.39-clones.txt": "fio-text",
        "fio/2.2.txt": "fio-text", "pkb/fio-2.17.json": "fio-json", "pkb/fio-2.1.4.json": "fio-json",
        "fio-plot/logs/randread-16-1.json": "fio-json", "fio-plot/points/randwrite-16-8.json": "fio-json",
    }  # fmt: skip
    return [
        *own,
        *_of_fio(),
        *(Sample(kind, "x.txt", (GOLDEN / name).read_text()) for name, kind in files.items()),
    ]

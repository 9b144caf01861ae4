"""What is no kind of its own is named by what it looks like, with what to do."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from blocklab.formats import looks
from blocklab.formats.text import Refused
from blocklab.imports import kinds
from tests.unit.import_kinds import GOLDEN, every_kind

TEXTS = {
    "mpstat": (GOLDEN / "mpstat.txt").read_text(),
    "pidstat": (GOLDEN / "pidstat.txt").read_text(),
    "sar": "Linux 6.1.0 (db1) \t11/23/2026 \t_x86_64_\n\n19:20:57        IFACE   rxpck/s   txpck/s    rxkB/s\n",
    "sar of AIX": "\nAIX db1 3 7 00F9C1A24C00    03/25/24\n\nSystem configuration: lcpu=8  mode=Capped\n",
    "sar of Solaris": "\nSunOS db1 5.11 11.4 sun4v    03/25/2024\n\n00:00:00    %usr    %sys    %wio   %idle\n",
    "sar of HP-UX": "\nHP-UX db1 B.11.31 U ia64    03/25/24\n\n00:00:00    %usr    %sys    %wio   %idle\n",
    "a tool of AIX": "\nSystem configuration: lcpu=8 drives=3 paths=4 vdisks=1\n\ntty:      tin         tout\n",
    "iostat of Solaris": "                    extended device statistics\n    r/s    w/s   kr/s   kw/s\n",
    "top": "top - 19:20:57 up 1 day,  2 users,  load average: 0.00, 0.01, 0.05\nTasks: 99 total\n",
    "iotop": "Total DISK READ :       0.00 B/s | Total DISK WRITE :      11.83 K/s\n",
    "atop": "ATOP - db1    2023/01/01  10:00:00    ----------------    10s elapsed\n",
    "nmon": "AAA,progname,nmon\nAAA,version,16g\n",
    "collectl": "#<--------CPU--------><----------Disks-----------><----------Network---------->\n",
    "vmstat -d, which counts from the boot on": (
        "disk- ------------reads------------ ------------writes----------- -----IO------\n"
        "       total merged sectors      ms  total merged sectors      ms    cur    sec\n"
    ),
    "vmstat -s, which counts from the boot on": "     24685400 K total memory\n      2827092 K used memory\n",
    "vmstat of another system than Linux": " kthr      memory            page        disk    faults      cpu\n",
    "/proc/diskstats": " 254       0 vda 10 0 80 5 100 20 2400 50 0 45 55 0 0 0 0 0 0\n",
    "SHOW ENGINE INNODB STATUS": "=====\n2023-01-01 10:00:00 0x7f INNODB MONITOR OUTPUT\n=====\n",
    "an Oracle AWR report": "WORKLOAD REPOSITORY report for\n\nDB Name         DB Id\n",
    "a fio job file": "[global]\nioengine=libaio\ndirect=1\n[job]\nrw=randread\n",
    "YCSB": "[OVERALL], RunTime(ms), 10110\n[OVERALL], Throughput(ops/sec), 98.9\n",
    "HammerDB's TPROC-H": "Vuser 1:Executing Query 14 (1 of 22)\nVuser 1:query 14 completed in 7.868 seconds\n",
    "pgbench -i": "dropping old tables...\ncreating tables...\ngenerating data (client-side)...\n",
    "a traceback of Python": 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: x\n',
    "dd": "250+0 records in\n250+0 records out\n262144000 bytes (262 MB, 250 MiB) copied, 0.2 s, 1.2 GB/s\n",
    "an HTML page": "<!DOCTYPE html>\n<html><body>404</body></html>\n",
    "XML": '<?xml version="1.0"?>\n<sysstat/>\n',
    "a script": "#!/bin/bash\niostat -x 1\n",
    "JSON of another tool": '{"name": "x", "value": 1}\n',
    "YAML": "# a study\nimported: 1\nname: aws\n",
    "fio's histogram log": "1000, 0, 4096" + ", 0" * 99 + "\n",
    "CSV": "time,reads,writes\n1,2,3\n4,5,6\n",
}


def reason(path: Path) -> str:
    with pytest.raises(Refused) as caught:
        kinds.READERS.kind_of(path)
    return str(caught.value)


def test_each_look_has_a_text() -> None:
    assert list(TEXTS) == [look.name for look in looks.LOOKS]


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_not_read_is_named_with_what_to_do(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(TEXTS[name])
    do = next(look.do for look in looks.LOOKS if look.name == name)
    assert do and reason(path) == f"looks like {name}; {do}"


@pytest.mark.parametrize(
    "text",
    [
        "Warning: disk is slow\nWarning: disk is very slow\nError: it ended\n",
        "x-1  | 10 of 20 done, at 5 MB/s on average, 3 s are left\n"
        "x-1  | 20 of 20 done, at 6 MB/s on average, 0 s are left\n",
    ],
)
def test_messages_are_neither_yaml_nor_csv(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(text)
    assert reason(path) == "not recognised"


def test_what_a_collector_put_before_each_line_does_not_hide_what_it_looks_like(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("".join(f"db-1  | {line}\n" for line in TEXTS["top"].splitlines()))
    assert reason(path).startswith("looks like top; ")
    assert reason(path).endswith("(each of its lines begins with 'db-1  | ')")


def test_what_looks_like_nothing_is_only_not_recognised(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("Dear database,\nhow are you?\n")
    assert reason(path) == "not recognised"


def test_no_kind_that_is_read_looks_like_something_else(tmp_path: Path) -> None:
    for sample in every_kind():
        path = tmp_path / sample.name
        path.write_text(sample.text)
        assert kinds.READERS.kind_of(path) == sample.kind


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(b"x"), "gzip file: gunzip FILE"),
        (bz2.compress(b"x"), "bzip2 file: bunzip2 FILE"),
        (lzma.compress(b"x"), "xz file: unxz FILE"),
        (b"\x28\xb5\x2f\xfd\x20", "zstd file: unzstd FILE"),
        (b"PK\x03\x04\x14", "zip file: unzip FILE"),
        ((GOLDEN / "sa-head.bin").read_bytes(), "sadf -j FILE -- -d -b -u > FILE.json"),
        ((GOLDEN / "sa-head.bin").read_bytes()[1::-1], "sadf -j FILE -- -d -b -u > FILE.json"),
        (b"SQLite format 3\0", "job JOBID result"),
        (b"%PDF-1.7\n", "a PDF"),
        (b"PERFILE2", "perf's data"),
        (b"PAR1", "Parquet"),
        (b"\x7fELF\2\1\1\0", "a program"),
        (b"\x89PNG\r\n", "a picture"),
    ],
)
def test_a_binary_file_says_what_makes_text_of_it(data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "sa23"
    path.write_bytes(data)
    assert said in reason(path)
